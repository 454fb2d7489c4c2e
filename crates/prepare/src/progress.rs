//! Progress of long work before a container's start, on the caller's terminal.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tote_sys::best_effort;

/// Time that work may take before its progress is shown.
const PATIENCE: Duration = Duration::from_secs(1);
/// Minimum time between two drawings.
const REDRAW: Duration = Duration::from_millis(100);

/// A line on standard error that says how far some work is. Nothing is shown elsewhere than on a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    work: &'static str,
    began: Instant,
    drawn: Mutex<Option<Instant>>,
}

impl Progress {
    /// Begins to wait for some work.
    pub(crate) fn of(work: &'static str) -> Self {
        Self {
            work,
            began: Instant::now(),
            drawn: Mutex::default(),
        }
    }

    /// Takes the number of things that are done, and of all; may be called from any thread.
    pub(crate) fn tell(&self, done: usize, of: usize) {
        let now = Instant::now();
        // Another thread that is drawing says the same.
        if now < self.began + PATIENCE {
            return;
        }
        let Ok(mut drawn) = self.drawn.try_lock() else {
            return;
        };
        if is_due(self.began, *drawn, now) && std::io::stderr().is_terminal() {
            say(&line(self.work, done, of));
            *drawn = Some(now);
        }
    }
}

impl Drop for Progress {
    /// Clears the line for what comes next.
    fn drop(&mut self) {
        if matches!(self.drawn.get_mut(), Ok(Some(_))) {
            say("\r\x1b[K");
        }
    }
}

fn is_due(began: Instant, drawn: Option<Instant>, now: Instant) -> bool {
    match drawn {
        Some(drawn) => now >= drawn + REDRAW,
        None => now >= began + PATIENCE,
    }
}

fn line(work: &str, done: usize, of: usize) -> String {
    format!("\r\x1b[K{work}: {done} of {of}")
}

fn say(text: &str) {
    best_effort(rustix::io::write(rustix::stdio::stderr(), text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_work_shows_nothing() {
        let began = Instant::now();
        let after = |millis| began + Duration::from_millis(millis);
        for (drawn, now, due) in [
            (None, 0, false),
            (None, 999, false),
            (None, 1000, true),
            (Some(1000), 1050, false),
            (Some(1000), 1100, true),
        ] {
            assert_eq!(
                is_due(began, drawn.map(after), after(now)),
                due,
                "{drawn:?} {now}"
            );
        }
        let progress = Progress::of("files");
        progress.tell(1, 2);
        assert_eq!(*progress.drawn.lock().unwrap(), None);
        assert_eq!(line("files", 1, 2), "\r\u{1b}[Kfiles: 1 of 2");
    }
}
