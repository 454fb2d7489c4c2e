//! Any bytes as messages of a guest: events or an error, and no more output than the windows allow.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tote_channel::{Event, Guest, Host, WINDOW};

fuzz_target!(|bytes: &[u8]| {
    let (mut host, mut guest) = (Host::new(), Guest::new("6.1"));
    let greeting = std::mem::take(guest.outgoing());
    assert!(host.received(&greeting).is_ok());
    assert!(host.begin(b"plan", None, None).is_ok());
    let mut taken = 0;
    for part in bytes.chunks(7) {
        let Ok(events) = host.received(part) else {
            break;
        };
        for event in events {
            if let Event::Output(_, _, bytes) = event {
                taken += bytes.len();
            }
        }
    }
    assert!(taken <= 2 * WINDOW);
    let _ = guest.received(bytes);
});
