//! Networks with IPv6 addresses, each test on a machine of its own, see [`super::networks`]. The server beyond the uplink has an
//! IPv6 address, too, and no route back but to the link itself.

use super::networks::{NEEDS, on_machine_of};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};

/// A kernel that forwards IPv6 for single links.
pub(super) const FORWARDING: &[Need] = &[
    Need::Root,
    Need::Program("unshare"),
    Need::Program("nsenter"),
    Need::Program("ip"),
    Need::Program("nft"),
    Need::Program("perl"),
    Need::Program("busybox"),
    Need::Kernel(6, 17),
];

pub(super) const TESTS: &[Test] = &[
    test(
        "networks_ipv6::a_server_sees_the_hosts_address",
        FORWARDING,
        translated,
    ),
    test(
        "networks_ipv6::nothing_of_the_hosts_is_changed_afterwards",
        FORWARDING,
        put_back,
    ),
    test("networks_ipv6::networks_are_apart", FORWARDING, apart),
    test(
        "networks_ipv6::an_internal_network_leads_nowhere",
        NEEDS,
        internal,
    ),
    test("networks_ipv6::names_and_files_tell_the_address", NEEDS, told),
    test("networks_ipv6::an_address_is_given_once", NEEDS, given_once),
    test(
        "networks_ipv6::a_container_is_connected_while_it_runs",
        FORWARDING,
        connected,
    ),
    test(
        "networks_ipv6::ports_with_a_listener_see_the_client",
        NEEDS,
        listened,
    ),
    test(
        "networks_ipv6::ports_are_published_for_both_protocols",
        FORWARDING,
        published,
    ),
    test(
        "networks_ipv6::ports_come_and_go_with_both_addresses",
        FORWARDING,
        added,
    ),
    test(
        "networks_ipv6::nobody_believes_a_members_router_advertisement",
        NEEDS,
        advertised,
    ),
];

/// The server's IPv6 side, and a network of both protocols.
const IPV6: &str = r#"
# A new namespace has the settings of the machine's own.
echo 0 > /proc/sys/net/ipv6/conf/all/forwarding
ip addr add 2001:db8::2/64 dev up0 nodad
ip route add default via 2001:db8::9
in_server ip addr add 2001:db8::9/64 dev s0 nodad
nsenter -t $server -n perl -MIO::Socket::IP -e '$s = IO::Socket::IP->new(Listen => 9, LocalHost => "2001:db8::9", LocalPort => 81) or die;
while ($c = $s->accept) { print $c $c->peerhost, "\n"; close $c }' >/dev/null 2>&1 &
teller="$teller $!"
while ! in_server grep -q ':0051 0*:0000 0A' /proc/net/tcp6; do sleep 0.02; done
tote network create --subnet 192.168.77.0/24 --ip-range 192.168.77.128/25 --subnet fd00:77::/64 lab >/dev/null
"#;

pub(super) fn prints(cx: &Context, script: &str, lines: &str) -> Result<()> {
    let out = on_machine_of(cx, &["--net"], &format!("{IPV6}{script}"))?;
    ensure!(out.code == 0 && out.out() == lines, "{}", out.transcript());
    cx.nothing_left()
}

fn translated(cx: &Context) -> Result<()> {
    let script = r#"
tote run --rm --network lab "$IMAGE" busybox nc 2001:db8::9 81 </dev/null
tote run --rm --network lab "$IMAGE" busybox nc 198.51.100.9 80 </dev/null
tote run --rm --network bridge "$IMAGE" busybox ip -6 -o addr show dev eth0
tote run --rm --cap-add NET_ADMIN --network lab "$IMAGE" sh -c '
busybox ip -6 addr add fd00:88::5/64 dev eth0
busybox nc -w 1 -s fd00:88::5 2001:db8::9 81 </dev/null >/dev/null 2>&1 || echo no other source'
"#;
    prints(cx, script, "2001:db8::2\n198.51.100.2\nno other source\n")
}

fn put_back(cx: &Context) -> Result<()> {
    let script = r#"
# The kernel asks for a while whether others have the uplink's own address.
while ip -6 -o addr show tentative | grep -q .; do sleep 0.02; done
look6() { look; ip -6 -o addr show up; ip -6 route; grep . /proc/sys/net/ipv6/conf/*/forwarding /proc/sys/net/ipv6/conf/*/force_forwarding /proc/sys/net/ipv6/conf/*/accept_ra; }
look6 > "$FILE.before"
tote run -d --network lab --name a "$IMAGE" sleep 300 >/dev/null
cat /proc/sys/net/ipv6/conf/all/forwarding /proc/sys/net/ipv6/conf/up0/force_forwarding /proc/sys/net/ipv6/conf/up0/forwarding
# No router: what comes in by the uplink for somebody else is dropped.
ip link add other type veth peer name o0
ip addr add fd00:99::1/64 dev other nodad
ip link set other up; ip link set o0 up
in_server ip route add fd00:99::/64 via 2001:db8::2
in_server busybox ping -6 -c 2 -W 1 fd00:99::7 >/dev/null 2>&1 || true
nft list chain inet tote guard | grep -c 'meta nfproto ipv6 .*iifname "up0"'
ip neigh show dev other | grep -c fd00:99::7 || true
ip link del other
tote rm -f -t 0 a >/dev/null
down
look6 > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
"#;
    prints(cx, script, "0\n1\n0\n1\n0\n")
}

fn apart(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet fd00:78::/64 two >/dev/null
tote run -d --network lab --ip6 fd00:77::a --name a "$IMAGE" sleep 300 >/dev/null
tote run --rm --network lab "$IMAGE" sh -c 'busybox ping -6 -c 1 -W 5 fd00:77::1 >/dev/null && busybox ping -6 -c 1 -W 5 fd00:77::a >/dev/null && echo reached'
tote run --rm --network two "$IMAGE" busybox ping -6 -c 1 -W 1 fd00:77::a >/dev/null || echo apart
in_server ip route add fd00:77::/64 via 2001:db8::2
in_server busybox ping -6 -c 1 -W 1 fd00:77::a >/dev/null || echo closed
tote run --rm --network two --network lab "$IMAGE" sh -c "busybox ping -6 -c 1 -W 5 fd00:77::a >/dev/null && busybox ip -6 route show default | grep -o fd00:78::1"
"#;
    prints(cx, script, "reached\napart\nclosed\nfd00:78::1\n")
}

fn internal(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --internal --subnet fd00:79::/64 inner >/dev/null
tote run -d --network inner --ip6 fd00:79::a --name a "$IMAGE" sleep 300 >/dev/null
busybox ping -6 -c 1 -W 5 fd00:79::a >/dev/null && echo from the host
tote run --rm --network inner "$IMAGE" sh -c '
busybox ping -6 -c 1 -W 5 fd00:79::a >/dev/null && echo to a member
busybox ping -6 -c 1 -W 1 fd00:79::1 >/dev/null || echo not to the host
busybox ip -6 route show default'
cat /proc/sys/net/ipv6/conf/up0/forwarding
"#;
    prints(cx, script, "from the host\nto a member\nnot to the host\n0\n")
}

fn told(cx: &Context) -> Result<()> {
    let script = r#"
# The image of the tests has no getent.
tote run -d -h box --network lab --ip 192.168.77.10 --ip6 fd00:77::10 --name a "$IMAGE" sleep 300 >/dev/null
tote exec a grep box /etc/hosts
tote run --rm --network lab host sh -c '
getent ahostsv6 a | sed -n "s/ *STREAM.*//p"; getent ahostsv4 a | sed -n "s/ *STREAM.*//p"; getent hosts fd00:77::10'
tote inspect -f '{{with .NetworkSettings.Networks.lab}}{{.GlobalIPv6Address}}/{{.GlobalIPv6PrefixLen}} {{.IPv6Gateway}}{{end}}' a
tote network inspect -f '{{.EnableIPv6}} {{(index .IPAM.Config 1).Subnet}} {{range .Containers}}{{.IPv4Address}} {{.IPv6Address}}{{end}}' lab
tote network ls --filter name=lab --format '{{.IPv6}}'
tote network create --ipv6 local >/dev/null
tote network inspect -f '{{(index .IPAM.Config 1).Subnet}}' local | grep -cE '^fd[0-9a-f]{2}:[0-9a-f:]+::/64$'
# Its IPv6 address ends as its IPv4 address does.
tote run --rm --network lab --ip 192.168.77.11 "$IMAGE" busybox ip -6 -o addr show dev eth0 scope global | grep -o 'fd00:77::b/64'
"#;
    let lines = "\
192.168.77.10\tbox
fd00:77::10\tbox
fd00:77::10
192.168.77.10
fd00:77::10     a.lab
fd00:77::10/64 fd00:77::1
true fd00:77::/64 192.168.77.10/24 fd00:77::10/64
true
1
fd00:77::b/64
";
    prints(cx, script, lines)
}

fn given_once(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.78.0/24 --subnet fd00:7a::/125 small >/dev/null
for n in 1 2 3 4 5 6; do tote run -d --network small --name c$n "$IMAGE" sleep 300 >/dev/null; done
tote inspect -f '{{.NetworkSettings.Networks.small.GlobalIPv6Address}}' c1 c2 c3 c4 c5 c6 | sort
tote run --rm --network small "$IMAGE" true 2>&1 | grep -c 'no available IPv6 addresses'
tote run --rm --network small --ip6 fd00:7a::3 "$IMAGE" true 2>&1 | grep -c 'Address already in use'
tote run --rm --network small --ip6 fd00:7a::1 "$IMAGE" true 2>&1 | grep -c 'no container can have the address'
tote run --rm --network small --ip6 fd00:7b::1 "$IMAGE" true 2>&1 | grep -c 'no configured subnet contains IP address fd00:7b::1'
tote run --rm --network bridge --ip6 fd00:7b::1 "$IMAGE" true 2>&1 | grep -c 'no configured subnet contains IP address fd00:7b::1'
tote run --rm --ip6 fd00:7b::1 "$IMAGE" true 2>&1 | grep -c 'needs --network'
tote rm -f -t 0 c3 >/dev/null
tote run --rm --network small "$IMAGE" busybox ip -6 -o addr show dev eth0 scope global | grep -c fd00:7a::
ls "$STATE/networks/small/leases" | wc -l
"#;
    let addresses: String = (2..8).map(|last| format!("fd00:7a::{last}\n")).collect();
    prints(cx, script, &format!("{addresses}1\n1\n1\n1\n1\n1\n1\n10\n"))
}

fn connected(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet fd00:78::/64 two >/dev/null
tote run -d --network bridge --name a "$IMAGE" sleep 300 >/dev/null
tote network connect --ip6 fd00:77::a lab a
tote exec a busybox nc 2001:db8::9 81 </dev/null
tote network connect --ip6 fd00:78::a two a
tote network disconnect lab a
tote exec a sh -c 'busybox ip -6 route show default | grep -o fd00:78::1; busybox nc 2001:db8::9 81 </dev/null'
tote network connect --ip6 fd00:99::a lab a 2>&1 | grep -c 'no configured subnet'
tote restart -t 0 a >/dev/null
tote exec a busybox ip -6 -o addr show scope global | grep -o 'fd00:[0-9a-f:]*/64'
"#;
    prints(
        cx,
        script,
        "2001:db8::2\nfd00:78::1\n2001:db8::2\n1\nfd00:78::a/64\n",
    )
}

/// A container that tells each client's address, as the kernel's table of connections has it: words of four bytes, the lowest first.
const SERVE: &str = r#"
SAY='awk "\$4 ~ /01|08/ && \$2 ~ /:0050\$/ { sub(/:.*/, \"\", \$3); print \$3 }" /proc/net/tcp6'
serve() {
    name=$1; shift
    tote run -d --name $name --network lab "$@" "$IMAGE" busybox nc -ll -p 80 -e sh -c "$SAY" >/dev/null
    while ! grep -q ':0050 0*:0000 0A' /proc/$(tote inspect -f '{{.State.Pid}}' $name)/net/tcp6; do sleep 0.02; done
}
ask() { busybox nc -w 3 "$@" </dev/null 2>/dev/null || echo refused; }
"#;

/// With a listener, `::1` leads to the container as well.
fn listened(cx: &Context) -> Result<()> {
    let script = r#"
ip -6 rule > "$FILE.before"
export TOTE_PUBLISH=input
serve web -p 8080:80
in_server busybox nc -w 3 2001:db8::2 8080 </dev/null
in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
ask ::1 8080
tote port web
tote rm -f -t 0 web >/dev/null
down
ip -6 rule > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
"#;
    let lines = "\
B80D0120000000000000000009000000
0000000000000000FFFF0000096433C6
770000FD000000000000000001000000
80/tcp -> 0.0.0.0:8080
80/tcp -> [::]:8080
";
    prints(cx, &format!("{SERVE}{script}"), lines)
}

fn published(cx: &Context) -> Result<()> {
    let script = r#"
nft -n list ruleset > "$FILE.before"
serve web -p 8080:80
in_server busybox nc -w 3 2001:db8::2 8080 </dev/null
in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
ask 2001:db8::2 8080
ask ::1 8080
# A member that uses an address of the machine has the gateway's.
tote run --rm --network lab "$IMAGE" busybox nc -w 3 2001:db8::2 8080 </dev/null
tote port web
tote ps --format '{{.Ports}}'
tote inspect -f '{{json .NetworkSettings.Ports}}' web
tote run --rm --network lab -p 8080:80 "$IMAGE" true 2>&1 | grep -c 'already used by container web'
tote run --rm --network lab -p '[::]:8080:80' "$IMAGE" true 2>&1 | grep -c 'already used by container web'
tote run --rm --network bridge -p '[::]:9000:80' "$IMAGE" true 2>&1 | grep -c 'the container has no IPv6 address'
tote run --rm --network lab -p '[2001:db8::77]:9000:80' "$IMAGE" true 2>&1 | grep -c 'this machine has no such address'
serve one -p '[2001:db8::2]:9000:80'
tote port one
in_server busybox nc -w 3 2001:db8::2 9000 </dev/null
in_server busybox nc -w 3 198.51.100.2 9000 </dev/null 2>/dev/null || echo refused
tote rm -f -t 0 web one >/dev/null
down
nft -n list ruleset > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
"#;
    let lines = r#"B80D0120000000000000000009000000
0000000000000000FFFF0000096433C6
B80D0120000000000000000002000000
refused
770000FD000000000000000001000000
80/tcp -> 0.0.0.0:8080
80/tcp -> [::]:8080
0.0.0.0:8080->80/tcp, [::]:8080->80/tcp
{"80/tcp":[{"HostIp":"0.0.0.0","HostPort":"8080"},{"HostIp":"::","HostPort":"8080"}]}
1
1
1
1
80/tcp -> [2001:db8::2]:9000
B80D0120000000000000000009000000
refused
"#;
    prints(cx, &format!("{SERVE}{script}"), lines)
}

fn added(cx: &Context) -> Result<()> {
    let script = r#"
serve web -p 8080:80 -p 80
tote port web 80 | wc -l
tote port add -p 8081:80 web
in_server busybox nc -w 3 2001:db8::2 8081 </dev/null
tote port rm web 8080:80
tote port web 80 | wc -l
in_server busybox nc -w 3 2001:db8::2 8080 </dev/null 2>/dev/null || echo refused
nft flush ruleset
in_server busybox nc -w 1 2001:db8::2 8081 </dev/null 2>/dev/null || echo lost
tote run --rm --network lab "$IMAGE" true
in_server busybox nc -w 3 2001:db8::2 8081 </dev/null
tote restart -t 0 web >/dev/null
tote port web 80 | wc -l
"#;
    let lines = "\
4
80/tcp -> 0.0.0.0:8081
80/tcp -> [::]:8081
B80D0120000000000000000009000000
4
refused
lost
B80D0120000000000000000009000000
4
";
    prints(cx, &format!("{SERVE}{script}"), lines)
}

/// The enemy of [`super::network_routers`], in a network where everybody has IPv6.
fn advertised(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --network lab --name member "$IMAGE" sleep 300 >/dev/null
tote run -d --network lab --name enemy "$IMAGE" sleep 300 >/dev/null
member=$(tote inspect -f '{{.State.Pid}}' member); enemy=$(tote inspect -f '{{.State.Pid}}' enemy)
address=$(tote inspect -f '{{.NetworkSettings.Networks.lab.GlobalIPv6Address}}' member)
bridge=$(ip -o link | grep -o 'tote-[0-9a-f]*' | head -n 1)
nsenter -t $enemy -n sh -c "
for count in 1 2 3; do
    perl -MSocket=:all -e '
        socket(my \$s, AF_INET6, SOCK_RAW, 58) or die \$!;
        my \$link = shift; setsockopt(\$s, 41, 17, pack(q(I), \$link)); setsockopt(\$s, 41, 18, pack(q(i), 255));
        my \$prefix = pack(q(CCCCNNN), 3, 4, 64, 0xc0, 86400, 14400, 0) . inet_pton(AF_INET6, q(2001:db8:bad::));
        send(\$s, pack(q(CCnCCnNN), 134, 0, 0, 64, 0, 1800, 0, 0) . \$prefix, 0, pack_sockaddr_in6(0, inet_pton(AF_INET6, q(ff02::1)), \$link)) or die \$!;
        ' \$(ip -o link show eth0 | cut -d: -f1)
    busybox ping -6 -c 1 -W 5 fd00:77::1 >/dev/null && busybox ping -6 -c 1 -W 5 $address >/dev/null && echo sent
done"
ip -6 -o route show default | wc -l
ip -6 -o addr show dev $bridge | grep -c bad || true
nsenter -t $member -n ip -6 -o route show default | wc -l
nsenter -t $member -n ip -6 -o addr show dev eth0 | grep -c bad || true
"#;
    prints(cx, script, "sent\nsent\nsent\n1\n0\n1\n0\n")
}
