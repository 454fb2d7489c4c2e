//! Ways to open an address to a container that an egress policy holds, right ones and wrong ones, in the world of [`super::egress`].

use super::egress::prints;
use super::networks::NEEDS;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test(
        "egress_opened::what_is_for_everybody_opens_nobody",
        NEEDS,
        everybody,
    ),
    test(
        "egress_opened::an_address_stays_open_as_long_as_it_is_used",
        NEEDS,
        used,
    )
    .slow(3)
    .waits(),
];

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

/// Answers of the world's server last a second, which counts as ten. A connection keeps its address open, packets that the other side refuses
/// do not; and without the option an address outlives its answer by ten minutes.
fn used(cx: &Context) -> Result<()> {
    let script = r#"
nsenter -t $server -n perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 9, LocalPort => 7000, ReuseAddr => 1) or die;
while ($c = $s->accept) { while (defined($l = <$c>)) { print $c $l } }' & teller="$teller $!"
while ! in_server grep -q ':1B58 00000000:0000 0A' /proc/net/tcp; do sleep 0.02; done
cat > "$FILE.uses" <<'END'
use IO::Socket::INET; use Time::HiRes qw(time sleep); $| = 1;
sub at { IO::Socket::INET->new(PeerAddr => shift, PeerPort => shift, Timeout => 2) }
$c = at("good.test", 7000) or die; $begin = time;
while (time - $begin < 22) { print $c "x\n"; <$c> eq "x\n" or die "the connection ended"; sleep 0.2 }
print at("198.51.100.9", 80) ? "open while it is used\n" : "closed\n"; close $c;
while (1) { at("198.51.100.9", 81) and die; sleep 0.2 }
END
cat > "$FILE.waits" <<'END'
use IO::Socket::INET;
sub at { IO::Socket::INET->new(PeerAddr => shift, PeerPort => 80, Timeout => 2) }
at("good.test") or die; sleep 14; print at("198.51.100.9") ? "open without the option\n" : "closed\n"
END
run() { tote run -d --name $1 --egress allow:good.test $3 "$IMAGE" perl -e "$(cat "$FILE.$2")" >/dev/null; }
run a uses "--egress-keep 4s"; run b waits ""
said() { while ! tote logs $1 2>&1 | grep .; do sleep 0.2; done; }
said b; said a
# The real server refuses port 81 as well: what the policy refuses is noted.
refused() { tote inspect -f '{{len .Egress.Refused}}' $1; }
for try in $(seq 150); do if [ $(refused a) -gt 0 ]; then echo closed; break; fi; sleep 0.2; done
tote inspect -f '{{.Egress.Keep}}' a b
tote run --rm --egress-keep 1h "$IMAGE" true 2>&1 | grep -o 'give --egress, too'
tote run --rm --egress none --egress-keep 10 "$IMAGE" true 2>&1 | grep -o 'is no time'
"#;
    let lines =
        "open without the option\nopen while it is used\nclosed\n4s\n600s\ngive --egress, too\nis no time\n";
    prints(cx, script, lines)
}
