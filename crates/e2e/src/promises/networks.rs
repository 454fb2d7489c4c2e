//! Networks of root's, each test in a network namespace of its own that stands for the machine: an uplink leads to another
//! namespace, in which a server tells the address of each client.

use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const NEEDS: &[Need] = &[
    Need::Root,
    Need::Program("unshare"),
    Need::Program("nsenter"),
    Need::Program("ip"),
    Need::Program("nft"),
    Need::Program("perl"),
    Need::Program("busybox"),
];

pub(super) const TESTS: &[Test] = &[
    test("networks::a_server_sees_the_hosts_address", NEEDS, translated),
    test(
        "networks::nothing_of_the_hosts_is_changed_afterwards",
        NEEDS,
        put_back,
    ),
    test(
        "networks::members_reach_each_other_and_networks_are_apart",
        NEEDS,
        isolated,
    ),
    test("networks::an_internal_network_leads_nowhere", NEEDS, internal),
    test(
        "networks::an_unanswered_connection_keeps_no_link",
        NEEDS,
        unanswered,
    ),
    test("networks::an_address_is_given_once", NEEDS, given_once),
    test(
        "networks::a_killed_monitor_leaves_no_address_behind",
        NEEDS,
        killed,
    ),
    test(
        "networks::a_started_container_is_in_its_network_again",
        NEEDS,
        restarted,
    ),
    test(
        "networks::flushed_rules_come_back_with_the_next_container",
        NEEDS,
        flushed,
    ),
    test("networks::a_firewall_that_drops_is_explained", NEEDS, dropped),
    test(
        "networks::a_network_that_stays_up_holds_no_pipe_of_the_callers",
        NEEDS,
        let_go,
    ),
    test("networks::commands_have_dockers_words", NEEDS, commands),
    test("networks::files_and_inspect_tell_the_address", NEEDS, told),
];

/// The machine: `up0` leads to the server's namespace, which has no route back but to the link itself.
const MACHINE: &str = r#"set -eu
tote() { "$TOTE" --root "$STATE" "$@"; }
in_server() { nsenter -t $server -n "$@"; }
# The end of a network is waited for, not for a time: each round asks the kernel, and for the mark, which goes last.
# ip(8) complains of a link whose other end goes while it lists the links.
down() { while nft list table inet tote >/dev/null 2>&1 || ip -o link 2>/dev/null | grep -qE ': (tote-|tv)' || ls "$STATE"/live/*.network >/dev/null 2>&1; do sleep 0.02; done; }
look() { nft -n list ruleset; ip -4 -o addr; ip -o route; grep . /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/*/forwarding; }
up() { while ! in_server grep -q ':0050 00000000:0000 0A' /proc/net/tcp; do sleep 0.02; done; }
# A new namespace has the setting of the machine's own.
echo 0 > /proc/sys/net/ipv4/ip_forward
ip link set lo up
unshare --net sleep 300 >/dev/null 2>&1 & server=$!
while [ "$(readlink /proc/$server/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
teller=
trap 'kill $server $teller; tote rm -fa >/dev/null 2>&1 || true' EXIT
ip link add up0 mtu 1400 type veth peer name s0 netns $server
ip addr add 198.51.100.2/24 dev up0
ip link set up0 up
ip route add default via 198.51.100.9
in_server ip addr add 198.51.100.9/24 dev s0
in_server ip link set s0 up
nsenter -t $server -n perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 9, LocalPort => 80, ReuseAddr => 1) or die;
while ($c = $s->accept) { print $c $c->peerhost, "\n"; close $c }' >/dev/null 2>&1 & teller=$!
up
"#;

/// Runs a script on such a machine.
fn on_machine(cx: &Context, script: &str) -> Result<Output> {
    on_machine_of(cx, &["--net"], script)
}

/// Runs a script on such a machine in namespaces of these kinds.
pub(super) fn on_machine_of(cx: &Context, kinds: &[&str], script: &str) -> Result<Output> {
    let whole = format!("{MACHINE}{script}\ntote rm -fa >/dev/null\ndown\n");
    let words = [&["unshare"], kinds, &["sh", "-c", &whole]].concat();
    Invocation::new(words)
        .env("TOTE", cx.binary())
        .env("STATE", cx.root())
        .env("IMAGE", cx.image())
        .env("FILE", cx.path("file")?)
        .env("MORTAL", crate::need::mortal().unwrap_or_default())
        .output()
}

/// Runs a script that is to print these lines.
pub(super) fn prints(cx: &Context, script: &str, lines: &str) -> Result<()> {
    on_machine(cx, script)?.exits(0)?.prints(lines)?;
    cx.nothing_left()
}

fn translated(cx: &Context) -> Result<()> {
    let script = r#"
tote run --rm --network bridge "$IMAGE" sh -c 'nc 198.51.100.9 80 </dev/null; cat /sys/class/net/eth0/mtu'
tote run --rm --memory 100m --cpus 1 --network bridge "$IMAGE" busybox nc 198.51.100.9 80 </dev/null
tote run --rm --network none "$IMAGE" busybox nc 198.51.100.9 80 </dev/null 2>/dev/null || echo apart
"#;
    prints(cx, script, "198.51.100.2\n1400\n198.51.100.2\napart\n")
}

fn unanswered(cx: &Context) -> Result<()> {
    let script = r#"
nsenter -t $server -n perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 9, LocalPort => 81, ReuseAddr => 1) or die;
sleep 300' >/dev/null 2>&1 & teller="$teller $!"
while ! in_server grep -q ':0051 00000000:0000 0A' /proc/net/tcp; do sleep 0.02; done
tote run -d --network bridge --name a "$IMAGE" sh -c 'yes | busybox nc 198.51.100.9 81' >/dev/null
while ! in_server grep -q ':0051 026433C6:.* 01 ' /proc/net/tcp; do sleep 0.02; done
# The server confirms nothing any more that the container says: the container's kernel says it again for minutes.
in_server ip link set s0 down
tote rm -f a >/dev/null
down
echo gone
"#;
    prints(cx, script, "gone\n")
}

fn put_back(cx: &Context) -> Result<()> {
    let script = r#"
nft add table ip mine
nft add chain ip mine out '{ type filter hook forward priority 5; }'
nft add rule ip mine out ip saddr 10.9.8.7 counter drop
look > "$FILE.before"
tote network create web >/dev/null
tote run --rm --network web "$IMAGE" busybox nc 198.51.100.9 80 </dev/null
tote run -d --network web --name a "$IMAGE" sleep 300 >/dev/null
tote run -d --network bridge --name b "$IMAGE" sleep 300 >/dev/null
cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/up0/forwarding
# No router: what comes in by the uplink for somebody else is dropped.
ip link add other type veth peer name o0
ip addr add 203.0.113.1/24 dev other
ip link set other up; ip link set o0 up
in_server ip route add 203.0.113.0/24 via 198.51.100.2
in_server busybox ping -c 1 -W 1 203.0.113.7 >/dev/null 2>&1 || true
nft list chain inet tote guard | grep -c 'iifname "up0"'
ip link del other
tote rm -f a b >/dev/null
down
look > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
"#;
    prints(cx, script, "198.51.100.2\n0\n1\n1\n")
}

fn isolated(cx: &Context) -> Result<()> {
    let script = r#"
tote network create one >/dev/null; tote network create two >/dev/null
address() { tote inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$1"; }
tote run -d --network one --name a "$IMAGE" sleep 300 >/dev/null
a=$(address a)
gateway=$(tote network inspect -f '{{(index .IPAM.Config 0).Gateway}}' one)
tote run --rm --network one "$IMAGE" sh -c "busybox ping -c 1 -W 2 $gateway >/dev/null && busybox ping -c 1 -W 2 $a >/dev/null && echo reached"
tote run --rm --network two "$IMAGE" busybox ping -c 1 -W 1 $a >/dev/null || echo apart
in_server ip route add $a via 198.51.100.2
in_server busybox ping -c 1 -W 1 $a >/dev/null || echo closed
tote run --rm --network one --network two "$IMAGE" sh -c "busybox ping -c 1 -W 2 $a >/dev/null && ls /sys/class/net"
"#;
    prints(cx, script, "reached\napart\nclosed\neth0\neth1\nlo\n")
}

fn internal(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --internal --subnet 192.168.77.0/24 --ip-range 192.168.77.128/25 lab >/dev/null
tote run -d --network name=lab,ip=192.168.77.10 --name a "$IMAGE" sleep 300 >/dev/null
busybox ping -c 1 -W 2 192.168.77.10 >/dev/null && echo from the host
tote run --rm --network lab "$IMAGE" sh -c '
busybox ping -c 1 -W 2 192.168.77.10 >/dev/null && echo to a member
busybox ping -c 1 -W 1 192.168.77.1 >/dev/null || echo not to the host
ip route add default via 192.168.77.1 2>/dev/null
busybox ping -c 1 -W 1 198.51.100.9 >/dev/null 2>&1 || echo not outside'
cat /proc/sys/net/ipv4/conf/up0/forwarding
"#;
    let lines = "from the host\nto a member\nnot to the host\nnot outside\n0\n";
    prints(cx, script, lines)
}

fn given_once(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.77.0/29 small >/dev/null
for n in 1 2 3 4 5; do tote run -d --network small --name c$n "$IMAGE" sleep 300 >/dev/null & done
wait %3 %4 %5 %6 %7 2>/dev/null || true
while [ "$(tote ps -q | wc -l)" -lt 5 ]; do sleep 0.02; done
tote inspect -f '{{.NetworkSettings.Networks.small.IPAddress}}' c1 c2 c3 c4 c5 | sort
tote run --rm --network small "$IMAGE" true 2>&1 | grep -c 'no available IPv4 addresses'
tote rm -f c3 c1 >/dev/null
tote run -d --network small --name d1 "$IMAGE" sleep 300 >/dev/null
tote run -d --network small --name d2 "$IMAGE" sleep 300 >/dev/null
tote ps -q | while read id; do tote inspect -f '{{.NetworkSettings.Networks.small.IPAddress}}' $id; done | sort -u | wc -l
tote run --rm --network name=small,ip=$(tote inspect -f '{{.NetworkSettings.Networks.small.IPAddress}}' d1) "$IMAGE" true 2>&1 |
  grep -c 'Address already in use'
"#;
    let addresses: String = (2..7).map(|last| format!("192.168.77.{last}\n")).collect();
    prints(cx, script, &format!("{addresses}1\n5\n1\n"))
}

fn killed(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.77.0/30 tiny >/dev/null
tote run -d --rm --network tiny --name a "$IMAGE" sleep 300 >/dev/null
kill -9 $(tote inspect -f '{{.State.Pid}}' a | xargs -I{} awk '/^PPid/ { print $2 }' /proc/{}/status)
while tote ps -q | grep -q .; do sleep 0.02; done
# The next command that runs something brings into order what was left.
tote run --rm "$IMAGE" true
down
ls "$STATE/networks/tiny/leases" | wc -l
tote run --rm --network tiny "$IMAGE" sh -c 'ip -o addr show eth0 | grep -o 192.168.77.2/30'
"#;
    prints(cx, script, "0\n192.168.77.2/30\n")
}

fn restarted(cx: &Context) -> Result<()> {
    let script = r#"
tote create --network bridge --name a "$IMAGE" busybox nc 198.51.100.9 80 >/dev/null
tote inspect -f '{{.NetworkSettings.Networks.bridge.IPAddress}}' a
tote start -a a
tote start -a a
tote inspect -f '{{.NetworkSettings.Networks.bridge.IPAddress}}' a
tote rm a >/dev/null
tote run -d --network bridge --name b "$IMAGE" sleep 300 >/dev/null
tote restart -t 0 b >/dev/null
tote exec b busybox nc 198.51.100.9 80 </dev/null
tote run --rm --network container:b "$IMAGE" busybox nc 198.51.100.9 80 </dev/null
"#;
    prints(
        cx,
        script,
        "\n198.51.100.2\n198.51.100.2\n\n198.51.100.2\n198.51.100.2\n",
    )
}

fn flushed(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --network bridge --name a "$IMAGE" sleep 300 >/dev/null
nft flush ruleset
tote exec a busybox nc -w 1 198.51.100.9 80 </dev/null 2>/dev/null || echo lost
tote run --rm --network bridge "$IMAGE" true
tote exec a busybox nc 198.51.100.9 80 </dev/null
"#;
    prints(cx, script, "lost\n198.51.100.2\n")
}

fn dropped(cx: &Context) -> Result<()> {
    let script = r#"
nft add table ip filter
nft add chain ip filter FORWARD '{ type filter hook forward priority 0; policy drop; }'
tote run --rm --network bridge "$IMAGE" true
"#;
    let out = on_machine(cx, script)?;
    out.exits(0)?.warns_once("chain ip filter forward")?;
    cx.nothing_left()
}

/// The bridge is still there when a reader of a pipe that the caller has left open finds its end; five tries, because a
/// busy machine may take longer than the second that the bridge stays.
fn let_go(cx: &Context) -> Result<()> {
    let script = r#"
for try in 1 2 3 4 5; do
    tote run --rm --network bridge "$IMAGE" true 3>&1 | cat
    if ip -o link 2>/dev/null | grep -q ': tote-'; then echo free; break; fi
done
"#;
    prints(cx, script, "free\n")
}

fn commands(cx: &Context) -> Result<()> {
    let script = r#"
tote network ls --format '{{.Name}} {{.Driver}} {{.Scope}}'
tote network create --label tier=front --gateway 192.168.77.9 --subnet 192.168.77.0/24 --ip-range 192.168.77.64/26 web | wc -c
tote network create web 2>&1 || echo $?
tote network create bridge 2>&1 || echo $?
tote network create --subnet 192.168.77.128/25 more 2>&1 || echo $?
tote network create --subnet fd00:7::/64 --subnet fd00:8::/64 six 2>&1 || echo $?
tote network create --gateway fd00:7::1 six 2>&1 || echo $?
tote network create --scope swarm more 2>&1 | head -n 1
tote network create --attachable more >/dev/null
tote network rm more >/dev/null
tote network create -d overlay mac 2>&1 || echo $?
tote network inspect -f '{{.Name}} {{.Labels.tier}} {{(index .IPAM.Config 0).IPRange}}' web
tote network inspect none -f '{{.Driver}}'
tote network inspect nosuch 2>&1 | tail -n 1; tote network rm nosuch 2>&1 || echo $?
tote run -d --network web --name a "$IMAGE" sleep 300 >/dev/null
tote network inspect -f '{{range .Containers}}{{.Name}}{{end}}' web
tote ps --filter network=web --format '{{.Names}} {{.Networks}}'
tote network rm web 2>&1 || echo $?
tote network rm bridge 2>&1 || echo $?
tote rm -f a >/dev/null
tote network prune -f
tote network ls -q --filter type=custom | wc -l
tote run --rm --network nosuch "$IMAGE" true 2>&1 || echo $?
tote run --rm --network name=bridge,alias=www "$IMAGE" true 2>&1 || echo $?
tote run --rm --network-alias www "$IMAGE" true 2>&1 || echo $?
"#;
    let lines = "\
bridge bridge local
host host local
none null local
65
tote: network with name web already exists
1
tote: network with name bridge already exists
1
tote: Pool overlaps with other one on this address space: 192.168.77.128/25 with 192.168.77.0/24 of network web
1
tote: cannot make a network with several of --subnet of IPv6: a network has one range of each protocol
1
tote: every ip-range or gateway must have a corresponding subnet
1
tote: unknown flag: --scope
tote: cannot make a network with driver overlay: there are bridge, macvlan and ipvlan
1
web front 192.168.77.64/26
null
tote: network nosuch not found
tote: network nosuch not found
1
a
a web
tote: network web has active endpoints: a
1
tote: operation is not permitted on predefined bridge network
1
Deleted Networks:
web

0
tote: network nosuch not found
125
tote: network-scoped alias is supported only for containers in user defined networks
125
tote: network-scoped alias is supported only for containers in user defined networks
125
";
    prints(cx, script, lines)
}

fn told(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.77.0/24 --ip-range 192.168.77.128/25 web >/dev/null
tote run --rm -h box --add-host out:host-gateway --network web --ip 192.168.77.10 --mac-address 02:00:00:00:00:07 "$IMAGE" sh -c '
grep -E "box|out$" /etc/hosts; hostname; cat /sys/class/net/eth0/address; grep "^nameserver" /etc/resolv.conf'
tote run -d --network web --name a "$IMAGE" sleep 300 >/dev/null
tote inspect -f '{{with .NetworkSettings.Networks.web}}{{.Gateway}} {{.IPPrefixLen}}{{end}} {{.HostConfig.NetworkMode}}' a
tote run -d --network name=web,mac-address=02:00:00:00:00:08 --name b "$IMAGE" sleep 300 >/dev/null
tote network inspect -f '{{range .Containers}}{{if eq .Name "b"}}{{.MacAddress}}{{end}}{{end}}' web
"#;
    let lines = "192.168.77.10\tbox\n192.168.77.1\tout\nbox\n02:00:00:00:00:07\nnameserver 127.0.0.11\n192.168.77.1 24 web\n02:00:00:00:00:08\n";
    prints(cx, script, lines)
}
