//! Networks of two state roots on one machine, each test on a machine of its own, see [`super::networks`].

use super::networks::{NEEDS, prints};
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test(
        "networks::the_last_of_two_state_roots_puts_settings_back",
        NEEDS,
        put_back,
    ),
    test("networks::two_state_roots_come_and_go_at_once", NEEDS, at_once),
    test(
        "networks::the_first_network_leaves_others_their_subnet",
        NEEDS,
        first,
    ),
    test(
        "networks::the_default_network_leaves_others_their_subnet_later_too",
        NEEDS,
        later,
    ),
];

/// Another state root, and all settings of links.
const WORDS: &str = r#"
OTHER="$FILE.other"
other() { "$TOTE" --root "$OTHER" "$@"; }
settings() { grep -r . /proc/sys/net/ipv4/conf /proc/sys/net/ipv6/conf /proc/sys/net/ipv4/ip_forward 2>/dev/null | sort; }
start() { "$1" run -d --name "$1" --network lab "$IMAGE" sleep 300 >/dev/null; }
end() { "$1" rm -f -t 0 "$1" >/dev/null; while ls "$2"/live/*.network >/dev/null 2>&1; do sleep 0.02; done; }
passes() { cat /proc/sys/net/ipv4/conf/up0/forwarding; }
same() { settings | cmp - "$FILE.before" && echo same; }
trap 'kill $server $teller; tote rm -fa >/dev/null 2>&1; other rm -fa >/dev/null 2>&1 || true' EXIT
tote network create --subnet 192.168.71.0/24 lab >/dev/null
other network create --subnet 192.168.72.0/24 lab >/dev/null
settings >"$FILE.before"
"#;

fn put_back(cx: &Context) -> Result<()> {
    let script = r#"
start tote; start other; passes
nft list chain inet tote guard | grep -c 'iifname "up0" .*comment "up0"' || true
end tote "$STATE"; passes; other exec other busybox nc 198.51.100.9 80 </dev/null
end other "$OTHER"; down; same
# The other way round, with a link that the second one has switched on.
ip link add up1 type veth peer name s1 netns $server
ip addr add 203.0.113.2/24 dev up1
ip link set up1 up
settings >"$FILE.before"
ip link set up1 down; start tote; ip link set up1 up; start other
cat /proc/sys/net/ipv4/conf/up1/forwarding
end other "$OTHER"; cat /proc/sys/net/ipv4/conf/up1/forwarding
end tote "$STATE"; down; same
# What the administrator switches on afterwards stays on, and lets everything pass.
start tote; start other; end tote "$STATE"; end other "$OTHER"; down
echo 1 >/proc/sys/net/ipv4/conf/up0/forwarding
start tote; nft list table inet tote | grep -c 'iifname "up0"' || true; end tote "$STATE"; down; passes
echo 0 >/proc/sys/net/ipv4/conf/up0/forwarding
# Another program forgets all rules, with what they say.
start tote; start other; nft flush ruleset; end tote "$STATE"; end other "$OTHER"; down; same
"#;
    let lines = "1\n1\n1\n198.51.100.2\nsame\n1\n1\nsame\n0\n1\nsame\n";
    prints(cx, &format!("{WORDS}{script}"), lines)
}

fn at_once(cx: &Context) -> Result<()> {
    let script = r#"
round() { for n in 1 2 3 4 5 6 7 8; do start "$1"; "$1" exec "$1" busybox nc 198.51.100.9 80 </dev/null; end "$1" "$2"; done >"$FILE.of-$1"; }
round tote "$STATE" & one=$!
round other "$OTHER"
wait $one
cat "$FILE.of-tote" "$FILE.of-other" | uniq -c | xargs
down; same
"#;
    prints(cx, &format!("{WORDS}{script}"), "16 198.51.100.2\nsame\n")
}

/// Another state root is between its rules and its bridge, to whose addresses no route leads yet.
fn first(cx: &Context) -> Result<()> {
    let script = r#"
nft add table inet tote
nft add chain inet tote subnet-10.210.0.0/16
tote run -d --name one --network bridge "$IMAGE" sleep 300 >/dev/null
tote inspect -f '{{.NetworkSettings.Gateway}}' one
nft list table inet tote | grep -o 'chain subnet.*16'
tote rm -f -t 0 one >/dev/null; while ls "$STATE"/live/*.network >/dev/null 2>&1; do sleep 0.02; done
nft list table inet tote | grep -o 'chain.*16'
nft delete table inet tote
"#;
    let lines =
        "10.211.0.1\nchain subnet-10.210.0.0/16\nchain subnet-10.211.0.0/16\nchain subnet-10.210.0.0/16\n";
    prints(cx, script, lines)
}

/// The default network is at rest when the machine gets a route to its addresses.
fn later(cx: &Context) -> Result<()> {
    let script = r#"
rests() { tote rm -f -t 0 one >/dev/null; while ls "$STATE"/live/*.network >/dev/null 2>&1; do sleep 0.02; done; }
gateway() { tote run -d --name one --network bridge "$IMAGE" sleep 300 >/dev/null && tote inspect -f '{{.NetworkSettings.Gateway}}' one; }
gateway; rests; gateway; rests
ip route add 10.210.0.0/16 dev up0; gateway
# With a container in it, it stays as it is.
ip route add 10.211.7.0/24 dev up0
tote run --rm --network bridge "$IMAGE" busybox ip -4 -o addr show eth0 | grep -o 'inet 10.211'
rests
# A network of `network create` keeps its subnet.
tote network create --subnet 192.168.71.0/24 lab >/dev/null; ip route add 192.168.71.0/24 dev up0
tote run --rm --network lab "$IMAGE" true 2>&1 | grep -o 'overlaps with.*24'
"#;
    let lines = "10.210.0.1\n10.210.0.1\n10.211.0.1\ninet 10.211\noverlaps with 192.168.71.0/24\n";
    prints(cx, script, lines)
}
