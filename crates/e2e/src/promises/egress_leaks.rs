//! Ways around an egress policy, in the world of [`super::egress`]: each of them ends where the policy says, and what a policy of
//! addresses cannot see is said here as well.

use super::egress::prints;
use super::networks::NEEDS;
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test(
        "egress_leaks::a_name_in_tls_opens_and_closes_nothing",
        TLS,
        lying_sni,
    ),
    test(
        "egress_leaks::sockets_without_an_address_stay_on_their_side",
        NEEDS,
        abstract_sockets,
    ),
    test("egress_leaks::quic_is_udp_like_any_other", NEEDS, quic),
    test(
        "egress_leaks::a_name_that_leads_elsewhere_later_opens_nothing_new",
        NEEDS,
        rebinding,
    ),
];

const TLS: &[Need] = &with_openssl();

const fn with_openssl() -> [Need; NEEDS.len() + 1] {
    let mut all = [Need::Program("openssl"); NEEDS.len() + 1];
    let mut place = 0;
    while place < NEEDS.len() {
        all[place] = NEEDS[place];
        place += 1;
    }
    all
}

/// The rules check the address: a lie about the name leads no further than the server whose address is open, which may serve
/// the other name itself.
fn lying_sni(cx: &Context) -> Result<()> {
    let script = r#"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$FILE.key" -out "$FILE.pem" -days 9 -subj /CN=both 2>/dev/null
nsenter -t $server -n openssl s_server -accept 8443 -cert "$FILE.pem" -key "$FILE.key" -servername other -cert2 "$FILE.pem" -key2 "$FILE.key" -www >/dev/null 2>&1 & teller="$teller $!"
while ! in_server grep -q ':20FB .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done
ask() { echo "$1 as $2: $(tote run --rm --egress allow:good.test:8443 "$IMAGE" sh -c 'openssl s_client -connect $1:8443 -servername $2 </dev/null 2>&1 | grep -o "^CONNECTED\|onnection refused" | head -n 1' - $1 $2)"; }
ask good.test good.test; ask good.test evil.test; ask 198.51.100.8 good.test
"#;
    let lines = "\
good.test as good.test: CONNECTED
good.test as evil.test: CONNECTED
198.51.100.8 as good.test: onnection refused
";
    prints(cx, script, lines)
}

fn abstract_sockets(cx: &Context) -> Result<()> {
    let script = r#"
perl -MSocket -e 'socket $s, AF_UNIX, SOCK_STREAM, 0; bind $s, sockaddr_un("\0leak") or die; listen $s, 9; while (accept my $c, $s) { syswrite $c, "machine\n"; close $c }' & teller="$teller $!"
while ! grep -q '@leak' /proc/net/unix; do sleep 0.02; done
leak() { tote run --rm "$@" "$IMAGE" perl -MSocket -e 'socket $s, AF_UNIX, SOCK_STREAM, 0; if (connect $s, sockaddr_un("\0leak")) { sysread $s, $m, 99; print $m } else { print lc "$!\n" }'; }
leak --egress none; leak --egress allow:0.0.0.0/0; leak --network host
"#;
    prints(cx, script, "connection refused\nconnection refused\nmachine\n")
}

fn quic(cx: &Context) -> Result<()> {
    let script = r#"
try() { policy=$1; shift; tote run --rm --egress "$policy" "$IMAGE" sh -c "$TRY" - "$@"; }
try allow:tcp:good.test:443 good.test:443:udp 198.51.100.9:443:udp 198.51.100.8:443:udp
try allow:good.test:443 good.test:443:udp 198.51.100.8:443:udp
grep -c hello "$FILE.quic"
"#;
    let lines = "\
good.test:443:udp no route to host
198.51.100.9:443:udp no route to host
198.51.100.8:443:udp no route to host
good.test:443:udp heard
198.51.100.8:443:udp no route to host
1
";
    prints(cx, script, lines)
}

/// The server of DNS answers the first question for `rebind.test` with an address of the outside, and all others with one that
/// only a policy that names it opens.
fn rebinding(cx: &Context) -> Result<()> {
    let script = r#"
in_server ip addr add 192.168.77.10/32 dev s0
tote run --rm --egress allow:rebind.test "$IMAGE" sh -c "$TRY" - rebind.test rebind.test 192.168.77.10 198.51.100.9
tote run --rm --egress allow:rebind.test,192.168.77.10 "$IMAGE" sh -c "$TRY" - rebind.test
"#;
    let lines = "\
rebind.test 198.51.100.2
rebind.test connection refused
192.168.77.10 connection refused
198.51.100.9 198.51.100.2
rebind.test 198.51.100.2
";
    prints(cx, script, lines)
}
