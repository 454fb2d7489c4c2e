//! Ways to open an address to a container that an egress policy holds, right ones and wrong ones, in the world of [`super::egress`].

use super::egress::prints;
use super::networks::NEEDS;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[test(
    "egress_opened::what_is_for_everybody_opens_nobody",
    NEEDS,
    everybody,
)];

/// A datagram from a port of the container to a port of an address: what the sender is told within a second.
const SAY: &str = r#"
SAY='use IO::Socket::INET; ($from, $to, $port) = @ARGV;
$s = IO::Socket::INET->new(Proto => "udp", LocalPort => $from, PeerAddr => $to, PeerPort => $port) or die; $s->send("secret");
vec($ready = "", fileno $s, 1) = 1; print select($ready, undef, undef, 5) ? defined $s->recv($m, 99) ? $m : lc $! : "nothing", "\n"'
"#;

/// Announcements of the machine, as those of its names are, reach all members of a network. They say nothing to one of them.
fn everybody(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --name a --egress none "$IMAGE" sleep 1000 >/dev/null
gateway=$(tote inspect -f '{{.NetworkSettings.Gateway}}' a); own=$(tote inspect -f '{{.NetworkSettings.IPAddress}}' a)
cat > "$FILE.announce" <<'END'
use Socket; ($gateway, $own) = @ARGV; $| = 1;
socket $s, AF_INET, SOCK_DGRAM, 0; setsockopt $s, SOL_SOCKET, SO_REUSEADDR, 1; setsockopt $s, SOL_SOCKET, SO_BROADCAST, 1;
bind $s, sockaddr_in(5353, INADDR_ANY) or die; setsockopt $s, 0, 32, inet_aton($gateway) or die;
sub say { send $s, "announcement", 0, sockaddr_in(5353, inet_aton(shift)) or die "not sent: $!" }
say("224.0.0.251"); ($all = $gateway) =~ s/[.]\d+[.]\d+$/.255.255/; say($all);
print "announced\n"; recv $s, $m, 99, 0; say($own); print "told\n";
while ($from = recv $s, $m, 99, 0) { send $s, "answer", 0, $from }
END
mkfifo "$FILE.told"
perl "$FILE.announce" $gateway $own > "$FILE.told" & teller="$teller $!"
{ read line; echo $line
tote exec a perl -e "$SAY" 5353 $gateway 5353
# What the machine says to this container alone is something else.
perl -MIO::Socket::INET -e 'IO::Socket::INET->new(Proto => "udp", PeerAddr => "127.0.0.1:5353")->send("go on")'
read line; echo $line
tote exec a perl -e "$SAY" 5353 $gateway 5353; } < "$FILE.told"
"#;
    let lines = "announced\nno route to host\ntold\nanswer\n";
    prints(cx, &format!("{SAY}{script}"), lines)
}
