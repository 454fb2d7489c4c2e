//! Egress policies while the process that watches the container is silent, dead, or busy with a program that tries everything.

use super::egress::prints;
use super::networks::NEEDS;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test("egress_watched::a_silent_watcher_opens_nothing", NEEDS, silent),
    test("egress_watched::a_dead_watcher_opens_nothing", NEEDS, dead),
    test(
        "egress_watched::a_flood_of_refused_connections_has_bounds",
        NEEDS,
        flood,
    )
    .slow(2),
];

/// `watcher NAME` prints the number of the process that watches a container, and `within NAME COMMAND…` executes a command in a container's
/// network without that process.
const WATCHER: &str = r#"
pid() { tote inspect -f '{{.State.Pid}}' $1; }
watcher() { awk '/^PPid/ { print $2 }' /proc/$(pid $1)/status; }
within() { name=$1; shift; nsenter -t $(pid $name) -n "$@"; }
"#;

/// The container's kernel says the first packet again after a second, and is refused then.
fn silent(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --name a --egress allow:good.test "$IMAGE" sleep 300 >/dev/null
tote exec a sh -c "$TRY" - good.test
kill -STOP $(watcher a)
while ! grep -q '^State:.T' /proc/$(watcher a)/status; do sleep 0.02; done
# The first attempt is late, the next ones are not; what is open stays open, and no name is found.
within a sh -c "$TRY" - 198.51.100.8 198.51.100.8 198.51.100.8:443:udp 198.51.100.9
printf 'nameserver 127.0.0.11\noptions timeout:1 attempts:1\n' > "$FILE.own"
within a unshare --mount sh -c "mount --bind '$FILE.own' /etc/resolv.conf; perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(\"good.test:80\") ? \"found\n\" : \"not found\n\"'"
# Rules that are flushed meanwhile come back once it wakes up.
nft flush ruleset
kill -CONT $(watcher a)
while ! nft list tables | grep -q netdev || ! nft list table netdev tote-$(tote inspect -f '{{slice .Id 0 12}}' a) | grep -q 'set told-4'; do sleep 0.02; done
within a sh -c "$TRY" - 198.51.100.7
tote logs --egress a | grep -o 'tcp 198.51.100.7:80 1 .*' | sed 's, [0-9]*/perl, PID/perl,'
"#;
    let lines = "\
good.test 198.51.100.2
198.51.100.8 connection refused late
198.51.100.8 connection refused
198.51.100.8:443:udp no route to host
198.51.100.9 198.51.100.2
not found
198.51.100.7 connection refused
tcp 198.51.100.7:80 1 PID/perl
";
    prints(cx, &[WATCHER, script].concat(), lines)
}

/// The container ends with its watcher; a process that shares its network goes on under the policy.
fn dead(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --name a --egress allow:good.test "$IMAGE" sleep 300 >/dev/null
tote run -d --name b --network container:a "$IMAGE" sleep 300 >/dev/null
tote exec b sh -c "$TRY" - good.test
kill -9 $(watcher a)
while [ "$(tote inspect -f '{{.State.Running}}' a)" = true ]; do sleep 0.02; done; echo ended
within b sh -c "$TRY" - 198.51.100.8 198.51.100.8 198.51.100.9
# The next command takes the links off their bridges.
tote run --rm --network none "$IMAGE" true
within b timeout 2 busybox nc -w 1 198.51.100.9 80 </dev/null 2>/dev/null || echo apart
"#;
    let lines = "\
good.test 198.51.100.2
ended
198.51.100.8 connection refused late
198.51.100.8 connection refused
198.51.100.9 198.51.100.2
apart
";
    prints(cx, &[WATCHER, script].concat(), lines)
}

/// A hundred thousand destinations, each by TCP; a queue that is full costs the program a second, and no connection is open.
fn flood(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --name a --egress allow:good.test "$IMAGE" sleep 300 >/dev/null
memory() { awk '/^RssAnon/ { print $2 }' /proc/$(watcher a)/status; }
tote exec a sh -c "$TRY" - good.test 198.51.100.7
before=$(memory)
tote exec a perl -MSocket -MErrno=EINPROGRESS,ECONNREFUSED -e '
$max = 500; %open = (); $refused = 0;
sub settle { my ($wait) = @_; my $bits = ""; vec($bits, $_, 1) = 1 for keys %open;
  select(undef, my $ready = $bits, undef, $wait);
  for (grep { vec $ready, $_, 1 } keys %open) { my $why = unpack "i", getsockopt $open{$_}, SOL_SOCKET, SO_ERROR;
    $why == ECONNREFUSED ? $refused++ : print "$why\n"; delete $open{$_} } }
for $n (0 .. 99_999) { socket my $s, AF_INET, SOCK_STREAM | 04000, 0 or die "$!\n";
  my $to = sockaddr_in(1 + $n % 50_000, inet_aton($n < 50_000 ? "198.51.100.8" : "198.51.100.7"));
  connect $s, $to and print "connected\n"; $! == EINPROGRESS or $! == ECONNREFUSED or print "$!\n";
  if ($! == ECONNREFUSED) { $refused++ } else { $open{fileno $s} = $s; settle(keys %open >= $max ? 5 : 0) if $n % 20 == 0 || keys %open >= $max } }
for (1 .. 100) { settle(0.1); last unless keys %open }
print "$refused refused, ", scalar keys %open, " left\n"'
[ $(($(memory) - before)) -lt 2048 ] && echo little memory
log="$STATE/containers/$(tote inspect -f '{{.Id}}' a)/egress.log"
[ $(wc -c < "$log") -lt 262144 ] && [ $(wc -l < "$log") -le 1024 ] && echo a short file
[ $(tote logs --egress a | wc -l) -eq 1024 ] && echo noted
# Afterwards it is as before.
tote exec a sh -c "$TRY" - good.test 198.51.100.8
"#;
    let lines = "\
good.test 198.51.100.2
198.51.100.7 connection refused
100000 refused, 0 left
little memory
a short file
noted
good.test 198.51.100.2
198.51.100.8 connection refused
";
    prints(cx, &[WATCHER, script].concat(), lines)
}
