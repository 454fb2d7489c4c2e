//! The machine's network is the machine's: its routes, neighbours and longest packets are not changed by what containers send, and no
//! container speaks to it with an address of others. Each test has a machine of its own, see [`super::networks`].

use super::networks::{NEEDS, prints};
use super::networks_rootless::{self, shows};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("machines_network::what_roots_containers_send", ROOT, root)
        .slow(2)
        .waits(),
    test("machines_network::what_users_containers_send", USER, user)
        .slow(2)
        .waits(),
    test(
        "machines_network::members_may_be_routers_among_each_other",
        NEEDS,
        routers,
    ),
    test(
        "machines_network::a_users_container_reaches_no_address_of_the_machine",
        networks_rootless::NEEDS,
        addresses,
    )
    .slow(2)
    .waits(),
    test(
        "machines_network::a_users_container_finds_names_wherever_the_server_is",
        networks_rootless::NEEDS,
        names,
    )
    .slow(2),
];

const ROOT: &[Need] = &and_gcc::<{ NEEDS.len() + 1 }>(NEEDS);
const USER: &[Need] = &and_gcc::<{ networks_rootless::NEEDS.len() + 1 }>(networks_rootless::NEEDS);

const fn and_gcc<const MORE: usize>(needs: &[Need]) -> [Need; MORE] {
    let mut all = [Need::Program("gcc"); MORE];
    let mut place = 0;
    while place < needs.len() {
        all[place] = needs[place];
        place += 1;
    }
    all
}

/// Effects of each class of packets on the machine by its sender, see `packets.c`. `lan` is the router of the machine's own link, which the machine
/// believes: so each effect is one that this test would see.
const EFFECTS: &str = "
                   default  build    made     egress   pod      internal user     user-egress user-build lan
own                arrives  arrives  arrives  arrives  arrives  -        -        -           -          arrives
redirect           -        -        -        -        -        -        -        -           -          changes
too-big            -        -        -        -        -        -        -        -           -          changes
too-big-router     -        -        -        -        -        -        -        -           -          changes
unreachable        -        -        -        -        -        -        -        -           -          arrives
router             -        -        -        -        -        -        -        -           -          arrives
far                -        -        -        -        -        -        -        -           -          arrives
network            -        -        -        -        -        -        -        -           -          arrives
nobody             -        -        -        -        -        -        -        -           -          -
multicast          arrives  arrives  arrives  -        arrives  -        -        -           -          arrives
multicast-router   -        -        -        -        -        -        -        -           -          arrives
dhcp               arrives  arrives  arrives  -        arrives  -        -        -           -          arrives
dhcp-router        -        -        -        -        -        -        -        -           -          arrives
dhcp-nobody        -        -        -        -        -        -        -        -           -          arrives
vlan               -        -        -        -        -        -        -        -           -          arrives
arp                -        -        -        -        -        -        -        -           -          changes
own6               -        -        arrives  -        arrives  -        -        -           -          arrives
redirect6          -        -        -        -        -        -        -        -           -          changes
too-big6           -        -        -        -        -        -        -        -           -          changes
router6            -        -        -        -        -        -        -        -           -          arrives
far6               -        -        -        -        -        -        -        -           -          arrives
gateway6           -        -        -        -        -        -        -        -           -          arrives
mapped6            -        -        -        -        -        -        -        -           -          -
multicast6         -        -        arrives  -        arrives  -        -        -           -          arrives
multicast6-router  -        -        -        -        -        -        -        -           -          arrives
advertisement      -        -        -        -        -        -        -        -           -          changes
nd                 -        -        -        -        -        -        -        -           -          changes
other              -        -        -        -        -        -        -        -           -          -
";

/// Lines that a script prints which has these senders: each effect that is not nothing.
fn expected(senders: &[&str]) -> Result<String> {
    let mut rows = EFFECTS.lines().filter(|line| !line.is_empty());
    let columns: Vec<_> = rows.next().unwrap_or_default().split_whitespace().collect();
    let rows: Vec<Vec<_>> = rows.map(|row| row.split_whitespace().collect()).collect();
    let mut lines = String::new();
    for sender in senders {
        let place = columns.iter().position(|column| column == sender);
        let place = place.with_context(|| format!("the table has no column {sender}"))?;
        lines += &format!("{sender} sent\n");
        for row in &rows {
            ensure!(row.len() == columns.len() + 1, "the row {} has a gap", row[0]);
            if row[place + 1] != "-" {
                lines += &format!("{sender} {} {}\n", row[0], row[place + 1]);
            }
        }
    }
    Ok(lines)
}

/// The classes of the table, in order.
fn classes() -> String {
    let rows = EFFECTS.lines().filter(|line| !line.is_empty()).skip(1);
    let names: Vec<_> = rows.filter_map(|row| row.split_whitespace().next()).collect();
    names.join(" ")
}

/// The machine has a neighbour beside its router, and IPv6; a program of it writes down which datagrams come, by their first words.
const WORLD: &str = r#"
in_server ip addr add 198.51.100.66/24 dev s0
ip neigh add 198.51.100.66 lladdr 02:00:00:00:00:66 nud permanent dev up0
ip neigh add 198.51.100.67 lladdr 02:00:00:00:00:67 nud reachable dev up0
ip -6 addr add 2001:db8::2/64 dev up0 nodad
in_server ip -6 addr add 2001:db8::9/64 dev s0 nodad
in_server ip -6 addr add fe80::9/64 dev s0 nodad
ip -6 route add default via fe80::9 dev up0
ip -6 neigh add fe80::66 lladdr 02:00:00:00:00:66 nud permanent dev up0
busybox ping -c 1 -W 3 198.51.100.9 >/dev/null
perl -MIO::Socket::IP -MIO::Select -e '$| = 1;
sub at { IO::Socket::IP->new(Proto => "udp", @_) or die "no socket: $@" }
$asks = at(LocalHost => "198.51.100.2", LocalPort => 7777, PeerHost => "203.0.113.9", PeerPort => 53);
$all = IO::Select->new($asks, at(LocalHost => "0.0.0.0", LocalPort => 9999), at(LocalHost => "0.0.0.0", LocalPort => 68), at(LocalHost => "::", LocalPort => 9999, V6Only => 1));
while (@ready = $all->can_read) { for (@ready) { if (defined $_->recv($m, 999)) { print "$m\n" } else { print "unreachable\n" } } }' > "$FILE.heard" & teller="$teller $!"
while ! grep -q ':270F 0*:0000 07' /proc/net/udp6 || ! grep -q ':270F 0*:0000 07' /proc/net/udp; do sleep 0.02; done
# The parts of the machine's state that no packet may change, each behind the class that is about it.
state() {
    route() { echo "$1 $(ip $2 -o route get $3 | sed 's/ *expires *[0-9]*sec//')"; }
    route redirect -4 203.0.113.1; route too-big -4 203.0.113.2; route too-big-router -4 203.0.113.3
    route redirect6 -6 2001:db8:f::1; route too-big6 -6 2001:db8:f::2
    echo "advertisement $(ip -6 -o addr show | awk '$2 ~ /^(up0|tote-)/ { print $2, $4 }' | sort | tr '\n' ' ') $(ip -6 route show | grep -E 'up0|tote-' | sed 's/ *expires *[0-9]*sec//' | sort | tr '\n' ' ')"
    echo "arp $(ip neigh show 198.51.100.67 dev up0 | grep -o 'lladdr [^ ]*')"
    echo "nd $(ip -6 neigh show 2001:db8::9 dev up0 | grep -o 'lladdr [^ ]*')"
    echo "other $(ip -4 -o addr show | sed 's/ *valid_lft.*//' | sort | tr '\n' ' ') $(ip -4 route show | sort | tr '\n' ' ') $(ip -o link show type vlan)"
}
# Has a sender send, and says which classes had which effect.
effects() {
    column=$1; shift
    busybox ping -6 -c 1 -W 3 2001:db8::9 >/dev/null
    state > "$FILE.before"
    heard=$(wc -l < "$FILE.heard")
    "$@" | sed -n "s/^\(.* \)*sent$/$column sent/p"
    # A datagram of the machine's own comes after all of them.
    perl -MIO::Socket::INET -e 'IO::Socket::INET->new(Proto => "udp", PeerAddr => "127.0.0.1:9999")->send("end")'
    while ! tail -n +$((heard + 1)) "$FILE.heard" | grep -qx end; do sleep 0.02; done
    state > "$FILE.after"
    for class in $CLASSES; do
        if tail -n +$((heard + 1)) "$FILE.heard" | grep -qx -- $class; then echo "$column $class arrives"; fi
        if [ "$(grep "^$class " "$FILE.before")" != "$(grep "^$class " "$FILE.after")" ]; then echo "$column $class changes"; fi
    done
}
lan() { nsenter -t $server -n "$PACKETS" s0 198.51.100.2 2001:db8::2; }
PACKETS=${IMAGE#rootfs:}/bin/packets
# A network goes a moment after its last member, and its bridge would be a change.
stay() { tote run -d --name "stays-$1" --network $1 "$IMAGE" sleep 1000 >/dev/null; }
"#;

fn world() -> String {
    format!("CLASSES='{}'\n{WORLD}", classes())
}

fn root(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.77.0/24 --ipv6 --subnet fd00:77::/64 lab >/dev/null
tote network create --internal --subnet 192.168.78.0/24 --ipv6 --subnet fd00:78::/64 shut >/dev/null
stay bridge; stay lab; stay shut
mkdir "$FILE.context"; cp -a "${IMAGE#rootfs:}" "$FILE.context/root"
printf 'FROM scratch\nCOPY root /\nRUN /bin/packets eth0 10.210.0.1\n' > "$FILE.context/Dockerfile"
unset TOTE_BUILD_NETWORK
built() { tote build --no-cache "$FILE.context" 2>&1; }
effects default tote run --rm --network bridge "$IMAGE" packets eth0 10.210.0.1
effects build built
effects made tote run --rm --network lab "$IMAGE" packets eth0 192.168.77.1 fd00:77::1
effects egress tote run --rm --network lab --egress allow:198.51.100.2:9999 "$IMAGE" packets eth0 192.168.77.1 fd00:77::1
effects pod tote run --rm --pod new:p --network lab "$IMAGE" packets eth0 192.168.77.1 fd00:77::1
effects internal tote run --rm --network shut "$IMAGE" packets eth0 192.168.78.1 fd00:78::1
effects lan lan
tote pod rm -f p >/dev/null
"#;
    let senders = ["default", "build", "made", "egress", "pod", "internal", "lan"];
    prints(cx, &format!("{}{script}", world()), &expected(&senders)?)
}

fn user(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.77.0/24 --ipv6 --subnet fd00:77::/64 lab >/dev/null
stay bridge; stay lab
mkdir /mnt/context; cp -a "${IMAGE#rootfs:}" /mnt/context/root
printf 'FROM scratch\nCOPY root /\nRUN /bin/packets eth0 10.210.0.1\n' > /mnt/context/Dockerfile; chown -R $USER_ID:$USER_ID /mnt/context
unset TOTE_BUILD_NETWORK
built() { tote build --no-cache /mnt/context 2>&1; }
effects user tote run --rm --network lab "$IMAGE" packets eth0 192.168.77.1 fd00:77::1
effects user-egress tote run --rm --network lab --egress allow:198.51.100.2:9999 "$IMAGE" packets eth0 192.168.77.1 fd00:77::1
effects user-build built
"#;
    let senders = ["user", "user-egress", "user-build"];
    shows(cx, &format!("{}{script}", world()), &expected(&senders)?)
}

/// Two members with addresses behind them, as nodes of a cluster are, reach each other's also where the kernel asks the packet filter about frames.
fn routers(cx: &Context) -> Result<()> {
    let script = r#"
echo 1 2>/dev/null > /proc/sys/net/bridge/bridge-nf-call-iptables || true
node() { tote run -d --name $1 --cap-add NET_ADMIN --network bridge "$IMAGE" sleep 1000 >/dev/null
    nsenter -n -t $(tote inspect -f '{{.State.Pid}}' $1) ip addr add 10.244.$2.1/32 dev lo; }
node a 1; node b 2
leads() { nsenter -n -t $(tote inspect -f '{{.State.Pid}}' $1) ip route add 10.244.$2.0/24 via $(tote inspect -f '{{.NetworkSettings.IPAddress}}' $3) src 10.244.$4.1; }
leads a 2 b 1; leads b 1 a 2
tote exec a busybox ping -c 1 -W 3 -I 10.244.1.1 10.244.2.1 | grep -o '1 packets received'
tote exec a busybox ping -c 1 -W 1 -I 10.244.1.1 10.210.0.1 | grep -o '0 packets received'
"#;
    prints(cx, script, "1 packets received\n0 packets received\n")
}

/// Addresses of the machine on another link than that of the default route: first and second of a network, of the loopback device, of a range,
/// and of IPv6; and one that it gets while the container runs.
const ADDRESSES: &str = r#"
ip link add other type bridge; ip link set other up
ip addr add 203.0.113.5/24 dev other; ip addr add 203.0.113.6/24 dev other; ip addr add 10.99.0.1/32 dev lo
ip route add local 10.98.0.0/16 dev lo
ip -6 addr add 2001:db8:5::5/64 dev other nodad
ip -6 addr add 2001:db8::2/64 dev up0 nodad
in_server ip -6 addr add 2001:db8::9/64 dev s0 nodad
ip -6 route add default via 2001:db8::9 dev up0
perl -MIO::Socket::IP -MIO::Select -e '$| = 1;
sub at { IO::Socket::IP->new(@_) or die "no socket: $@" }
$tcp = at(Listen => 9, LocalHost => "::", LocalPort => 7000, V6Only => 0); $udp = at(Proto => "udp", LocalHost => "::", LocalPort => 7000, V6Only => 0);
$all = IO::Select->new($tcp, $udp);
while (@ready = $all->can_read) { for (@ready) {
  if ($_ == $udp) { $udp->recv($m, 99); print "udp\n"; $udp->send("secret\n") } else { $c = $tcp->accept; print "tcp\n"; print $c "secret\n"; close $c } } }' > "$FILE.heard" & teller="$teller $!"
while ! grep -q ':1B58 0*:0000 07' /proc/net/udp6; do sleep 0.02; done
tote network create --subnet 192.168.77.0/24 --ipv6 --subnet fd00:77::/64 lab >/dev/null
# Asks a program at each address, from the network of a process; what answers, says so.
try() { nsenter -t $1 -n perl -MIO::Socket::IP -e 'shift; for $to (@ARGV) { for ("tcp", "udp") {
  $s = IO::Socket::IP->new(Proto => $_, PeerHost => $to, PeerPort => 7000, Timeout => 2) or next;
  $s->send("hello") if $_ eq "udp"; vec($ready = "", fileno $s, 1) = 1;
  print "$to $_ $m" if select($ready, undef, undef, 1) && defined $s->recv($m, 99) && length $m } } print "tried\n"' "$@"; }
pid() { tote inspect -f '{{.State.Pid}}' $1; }
inside() { nsenter --net=/proc/$(pgrep -u $USER_ID '^pas(ta|st)')/fd/0 "$@"; }
"#;

fn addresses(cx: &Context) -> Result<()> {
    let script = r#"
try $server 198.51.100.2
all="198.51.100.2 203.0.113.5 203.0.113.6 10.99.0.1 10.98.7.7 127.0.0.1 2001:db8::2 2001:db8:5::5"
tote run -d --name a --network lab "$IMAGE" sleep 1000 >/dev/null
tote run -d --name b --network lab --egress 'allow:0.0.0.0/0,::/0,203.0.113.5,10.99.0.1,[2001:db8:5::5]' "$IMAGE" sleep 1000 >/dev/null
try $(pid a) $all
try $(pid b) $all
ip addr add 10.97.0.1/32 dev lo
while ! inside ip route show table local | grep -q 10.97.0.1; do sleep 0.02; done
try $(pid a) 10.97.0.1
ip addr del 10.97.0.1/32 dev lo
while inside ip route show table local | grep -q 10.97.0.1; do sleep 0.02; done
cat "$FILE.heard"
# What is beyond the machine is where it was, and a member with an address that the machine has elsewhere is the member.
tote exec a sh -c "$HEAR"
ip addr add 192.168.77.5/32 dev other
serve near --network name=lab,ip=192.168.77.5
tote exec a busybox nc -w 3 192.168.77.5 80 </dev/null >/dev/null && echo member
tote rm -f a b near >/dev/null
ip link del other; ip addr del 10.99.0.1/32 dev lo; ip route del local 10.98.0.0/16 dev lo
"#;
    let lines = "\
198.51.100.2 tcp secret
198.51.100.2 udp secret
tried
tried
tried
tried
tcp
udp
198.51.100.2
member
";
    shows(cx, &format!("{ADDRESSES}{script}"), lines)
}

/// Servers of DNS as `/etc/resolv.conf` may name them: on the machine's link, at its loopback device, and at another address of its own.
fn names(cx: &Context) -> Result<()> {
    let script = r#"
cat > "$FILE.dns" <<'END'
use IO::Socket::INET; $s = IO::Socket::INET->new(Proto => "udp", LocalAddr => "$ARGV[0]:53") or die;
while (defined $s->recv($m, 4096)) { ($q) = $m =~ /^.{12}(.*?\0)/s; $kind = unpack "n", substr $m, 12 + length $q;
  $s->send(substr($m, 0, 2) . "\x81\x80\0\1" . ($kind == 1 ? "\0\1" : "\0\0") . "\0\0\0\0" . substr($m, 12, 4 + length $q)
    . ($kind == 1 ? "\xc0\x0c" . pack("nnNnC4", 1, 1, 1, 4, 192, 0, 2, $ARGV[1]) : "")) }
END
ip addr add 10.99.0.1/32 dev lo
nsenter -t $server -n perl "$FILE.dns" 198.51.100.9 1 & teller="$teller $!"
perl "$FILE.dns" 127.0.0.5 2 & teller="$teller $!"
perl "$FILE.dns" 10.99.0.1 3 & teller="$teller $!"
while ! in_server grep -q ':0035 0*:0000 07' /proc/net/udp || [ $(grep -c ':0035 0*:0000 07' /proc/net/udp) != 2 ]; do sleep 0.02; done
tote network create lab >/dev/null
find() { tote run --rm --network $1 "$IMAGE" busybox nslookup -type=a name.test. 2>&1 | grep -o '192.0.2.*' || echo "no answer"; }
: > "$FILE.resolv"; mount --bind "$FILE.resolv" /etc/resolv.conf
for first in 198.51.100.9 127.0.0.5 10.99.0.1; do
    echo "nameserver $first" > "$FILE.resolv"
    find bridge; find lab
    down
done
# A second one is asked after the first one, which is elsewhere.
printf 'nameserver 198.51.100.9\nnameserver 127.0.0.5\n' > "$FILE.resolv"
find lab
down
ip addr del 10.99.0.1/32 dev lo
"#;
    let lines = "192.0.2.1\n192.0.2.1\n192.0.2.2\n192.0.2.2\n192.0.2.3\n192.0.2.3\n192.0.2.1\n";
    shows(cx, script, lines)
}
