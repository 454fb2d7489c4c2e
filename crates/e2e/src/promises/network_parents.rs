//! Networks whose containers share a link of the machine's (macvlan, ipvlan), each test on a machine of its own, see
//! [`super::networks`]: the link is the uplink, and the server at its other end sees the containers themselves.

use super::networks::{NEEDS, prints};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test(
        "network_parents::the_server_sees_the_containers_themselves",
        MACVLAN,
        seen,
    ),
    test("network_parents::modes_keep_members_apart", MACVLAN, modes),
    test(
        "network_parents::an_address_goes_with_its_container_and_comes_back",
        MACVLAN,
        lives,
    ),
    test(
        "network_parents::a_killed_container_leaves_nothing_in_a_namespace_that_stays",
        MACVLAN,
        killed,
    ),
    test(
        "network_parents::ipv6_is_that_of_the_parents_network",
        MACVLAN,
        ipv6,
    ),
    test(
        "network_parents::what_takes_a_bridge_is_refused",
        MACVLAN,
        refused,
    ),
    test(
        "network_parents::ipvlan_has_the_parents_hardware_address",
        IPVLAN,
        ipvlan,
    ),
    test(
        "network_parents::a_kernel_without_ipvlan_is_named",
        NO_IPVLAN,
        no_ipvlan,
    ),
];

const MACVLAN: &[Need] = &needs(Need::LinkKind("macvlan"));
const IPVLAN: &[Need] = &needs(Need::LinkKind("ipvlan"));
const NO_IPVLAN: &[Need] = &needs(Need::NoLinkKind("ipvlan"));

/// The needs of all networks, and one more.
const fn needs(more: Need) -> [Need; NEEDS.len() + 1] {
    let mut all = [more; NEEDS.len() + 1];
    let mut place = 0;
    while place < NEEDS.len() {
        all[place] = NEEDS[place];
        place += 1;
    }
    all
}

/// A network in that of the server, which is its router.
const LAN: &str = r#"
lan() { tote network create --subnet 198.51.100.0/24 --gateway 198.51.100.9 --ip-range 198.51.100.64/28 -o parent=up0 "$@" lan >/dev/null; }
# What holds the addresses of a container, from outside: a question for its hardware address, by the link at the other end.
mac() { ip -o link show "$1" | grep -o 'link/ether [0-9a-f:]*' | cut -d ' ' -f 2; }
listens() { while ! tote exec $1 busybox grep -qE ':0050 0+:0000 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done; }
here() { if in_server busybox arping -q -f -c 1 -w 2 -I s0 "$1"; then echo here; else echo gone; fi; }
"#;

fn on_lan(cx: &Context, script: &str, lines: &str) -> Result<()> {
    prints(cx, &format!("{LAN}{script}"), lines)
}

fn seen(cx: &Context) -> Result<()> {
    let script = r#"
look > "$FILE.before"; ip -o link | wc -l >> "$FILE.before"
lan -d macvlan
tote network inspect -f '{{.Driver}} {{.Options.parent}} {{(index .IPAM.Config 0).Gateway}}' lan
tote network ls -f driver=macvlan --format '{{.Name}} {{.Driver}}'
tote run --rm --network name=lan,ip=198.51.100.64 "$IMAGE" sh -c 'busybox nc 198.51.100.9 80 </dev/null; cat /sys/class/net/eth0/mtu; busybox ip route | grep -o "default.*dev eth0"'
tote run -d --network name=lan,ip=198.51.100.70,mac-address=02:00:00:00:00:07 --name web "$IMAGE" busybox nc -ll -p 80 -e busybox echo web >/dev/null
listens web
# From outside, from a neighbour that finds it by its name, and not from the machine, whose own link is its parent.
in_server busybox nc -w 3 198.51.100.70 80 </dev/null
in_server ip neigh show 198.51.100.70 | grep -o 'lladdr [0-9a-f:]*'
tote run --rm --network lan "$IMAGE" busybox nc -w 3 web 80 </dev/null
busybox nc -w 1 198.51.100.70 80 </dev/null 2>/dev/null || echo apart
# Together with a bridge: the way out is that of the first network.
tote run --rm --network bridge --network name=lan,ip=198.51.100.65 "$IMAGE" sh -c 'busybox nc 198.51.100.9 80 </dev/null; ls /sys/class/net | grep eth'
tote inspect -f '{{with .NetworkSettings.Networks.lan}}{{.IPAddress}} {{.Gateway}} {{.MacAddress}}{{end}}' web
tote events --since 10m --until 0s --filter type=network --format '{{.Action}} {{.Actor.Attributes.type}}' | grep -x 'create macvlan'
tote rm -ft 0 web >/dev/null; down
look > "$FILE.after"; ip -o link | wc -l >> "$FILE.after"
cmp "$FILE.before" "$FILE.after" && echo as before
"#;
    let lines = "\
macvlan up0 198.51.100.9
lan macvlan
198.51.100.64
1400
default via 198.51.100.9 dev eth0
web
lladdr 02:00:00:00:00:07
web
apart
198.51.100.65
eth0
eth1
198.51.100.70 198.51.100.9 02:00:00:00:00:07
create macvlan
as before
";
    on_lan(cx, script, lines)
}

fn modes(cx: &Context) -> Result<()> {
    let script = r#"
for mode in bridge private vepa; do
    lan -d macvlan -o macvlan_mode=$mode
    tote run -d --network name=lan,ip=198.51.100.70 --name web "$IMAGE" busybox nc -ll -p 80 -e busybox echo $mode >/dev/null
    listens web
    in_server busybox nc -w 3 198.51.100.70 80 </dev/null
    tote run --rm --network lan "$IMAGE" busybox nc -w 1 198.51.100.70 80 </dev/null 2>/dev/null || echo apart
    tote rm -ft 0 web >/dev/null; tote network rm lan >/dev/null
done
# The only link of its parent has the parent's hardware address, and another one is told why it cannot be.
lan -d macvlan -o macvlan_mode=passthru
tote run -d --network lan --name only "$IMAGE" sleep 300 >/dev/null
[ "$(tote exec only cat /sys/class/net/eth0/address)" = "$(mac up0)" ] && echo the same
[ "$(tote inspect -f '{{.NetworkSettings.Networks.lan.MacAddress}}' only)" = "$(mac up0)" ] && echo as told
tote run --rm --network lan "$IMAGE" true 2>&1 | grep -o 'with macvlan_mode=passthru a parent has one link only'
tote run --rm --network lan --mac-address 02:00:00:00:00:07 "$IMAGE" true 2>&1 | grep -o 'its containers have that of the parent'
"#;
    let lines = "\
bridge
bridge
private
apart
vepa
apart
the same
as told
with macvlan_mode=passthru a parent has one link only
its containers have that of the parent
";
    on_lan(cx, script, lines)
}

fn lives(cx: &Context) -> Result<()> {
    let script = r#"
lan -d macvlan
tote run -d --network name=lan,ip=198.51.100.70,mac-address=02:00:00:00:00:07 --name a "$IMAGE" sleep 300 >/dev/null
here 198.51.100.70
# The kernel takes down the namespace of before while the next one gets the same addresses.
for time in 1 2 3 4 5; do tote restart -t 0 a >/dev/null; here 198.51.100.70; done
tote network disconnect lan a; here 198.51.100.70
tote exec a busybox ip -o link | grep -c eth0 || true
tote network connect --ip 198.51.100.71 lan a; here 198.51.100.71
tote network rm lan 2>&1 | grep -o 'has active endpoints: a'
tote network disconnect lan a; tote network rm lan; tote network exists lan || echo $?
"#;
    let lines = "\
here
here
here
here
here
here
gone
0
here
has active endpoints: a
lan
1
";
    on_lan(cx, script, lines)
}

/// Another process keeps the network namespace of a container that is gone: the address is another container's, and not there any more.
fn killed(cx: &Context) -> Result<()> {
    let script = r#"
lan -d macvlan
tote run -d --network name=lan,ip=198.51.100.70 --name a "$IMAGE" sleep 300 >/dev/null
pid=$(tote inspect -f '{{.State.Pid}}' a); monitor=$(awk '/^PPid/ { print $2 }' /proc/$pid/status)
nsenter -t $pid -n sleep 300 >/dev/null 2>&1 & kept=$!; teller="$teller $kept"
while [ "$(readlink /proc/$kept/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
nsenter -t $kept -n ip -o link | grep -c eth0 || true; here 198.51.100.70
kill -9 $monitor; while tote ps -q | grep -q .; do sleep 0.02; done
# The next command that runs something brings into order what was left.
tote run --rm "$IMAGE" true
tote run --rm --network name=lan,ip=198.51.100.70 "$IMAGE" busybox nc 198.51.100.9 80 </dev/null
nsenter -t $kept -n ip -o link | grep -c eth0 || true; here 198.51.100.70
tote rm -f a >/dev/null; ls "$STATE/networks/lan/leases"
"#;
    on_lan(cx, script, "1\nhere\n198.51.100.70\n0\ngone\n")
}

fn ipv6(cx: &Context) -> Result<()> {
    let script = r#"
in_server ip addr add 2001:db8:7::9/64 dev s0 nodad
lan -d macvlan --subnet 2001:db8:7::/64 --gateway 2001:db8:7::9
tote run -d --network lan --ip6 2001:db8:7::70 --name a "$IMAGE" sleep 300 >/dev/null
in_server busybox ping -6 -c 1 -W 2 2001:db8:7::70 >/dev/null && echo answered
tote exec a busybox ip -6 route | grep -o 'default.*dev eth0'
tote exec a cat /proc/sys/net/ipv6/conf/eth0/accept_ra
"#;
    on_lan(cx, script, "answered\ndefault via 2001:db8:7::9 dev eth0\n0\n")
}

fn refused(cx: &Context) -> Result<()> {
    let script = r#"
says() { "$@" 2>&1 >/dev/null | sed 's/^tote: //'; }
says tote network create -d macvlan --subnet 198.51.100.0/24 lan | grep -o 'without -o parent=LINK'
says tote network create -d macvlan -o parent=up7 lan | grep -o 'has no link "up7"'
ip link add down0 type veth peer name down1
says tote network create -d macvlan -o parent=down0 lan | grep -o 'ip link set down0 up'
says tote network create -d macvlan -o parent=up0 --internal lan | grep -o 'cannot make an internal network'
says tote network create -d macvlan -o parent=up0 -o macvlan_mode=l2 lan | grep -o 'invalid value'
says tote network create -d bridge -o parent=up0 lan | grep -o 'the driver bridge has'
says tote network create -d overlay lan | grep -o 'there are bridge, macvlan and ipvlan'
lan -d macvlan
for words in '-p 80:80' '--egress none' '--net-rate 1m'; do
    says tote run --rm --network lan $words "$IMAGE" true | grep -oE 'which a port needs|--(egress|net-rate) in network lan'
done
tote run -d --network lan --name a "$IMAGE" sleep 300 >/dev/null
says tote port add -p 80:80 a | grep -o 'which a port needs'
says tote run --rm --network name=lan,ip=198.51.100.9 "$IMAGE" true | grep -o 'cannot connect the container to network lan'
# A port is published at the network that has it.
tote run -d --network lan --network bridge -p 8080:80 --name b "$IMAGE" sleep 300 >/dev/null; tote port b
ip link set up0 down
says tote run --rm --network lan "$IMAGE" true | grep -o 'ip link set up0 up'
"#;
    let lines = "\
without -o parent=LINK
has no link \"up7\"
ip link set down0 up
cannot make an internal network
invalid value
the driver bridge has
there are bridge, macvlan and ipvlan
which a port needs
--egress in network lan
--net-rate in network lan
which a port needs
cannot connect the container to network lan
80/tcp -> 0.0.0.0:8080
ip link set up0 up
";
    on_lan(cx, script, lines)
}

fn ipvlan(cx: &Context) -> Result<()> {
    let script = r#"
for mode in l2 l3; do
    lan -d ipvlan -o ipvlan_mode=$mode
    tote run -d --network name=lan,ip=198.51.100.70 --name web "$IMAGE" busybox nc -ll -p 80 -e busybox echo $mode >/dev/null
    listens web
    # With l3 the machine does not say that it has the address: the server needs a route.
    [ $mode = l2 ] || in_server ip route add 198.51.100.70/32 via 198.51.100.2
    in_server busybox nc -w 3 198.51.100.70 80 </dev/null
    [ "$(tote exec web cat /sys/class/net/eth0/address)" = "$(mac up0)" ] && echo the same
    tote run --rm --network lan "$IMAGE" busybox nc -w 3 198.51.100.70 80 </dev/null
    tote restart -t 0 web >/dev/null
    tote rm -ft 0 web >/dev/null; tote network rm lan >/dev/null
done
"#;
    on_lan(cx, script, "l2\nthe same\nl2\nl3\nthe same\nl3\n")
}

fn no_ipvlan(cx: &Context) -> Result<()> {
    let script = r#"
lan -d ipvlan 2>&1 | grep -o "the kernel's module ipvlan"
ls "$STATE/networks" 2>/dev/null | grep lan || echo none
"#;
    on_lan(cx, script, "the kernel's module ipvlan\nnone\n")
}
