//! Options of the driver of a network, each test on a machine of its own, see [`super::networks`].

use super::networks::{NEEDS, prints};
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test(
        "network_options::the_bridge_has_the_name_that_was_asked_for",
        NEEDS,
        named,
    ),
    test("network_options::a_link_of_another_program_stays", NEEDS, foreign),
    test("network_options::members_may_be_kept_apart", NEEDS, isolated),
    test(
        "network_options::addresses_may_stay_as_they_are",
        NEEDS,
        not_translated,
    ),
    test(
        "network_options::ports_have_the_address_of_the_network",
        NEEDS,
        bound,
    ),
    test("network_options::others_are_refused", NEEDS, refused),
    test(
        "network_options::inspect_and_events_tell_of_links_as_docker_does",
        NEEDS,
        told,
    ),
    test(
        "network_options::the_way_out_leads_through_the_network_with_the_highest_priority",
        NEEDS,
        priorities,
    ),
    test(
        "network_options::a_link_has_the_name_and_settings_that_were_asked_for",
        NEEDS,
        links,
    ),
    test(
        "network_options::those_of_a_pod_count_for_its_members",
        NEEDS,
        of_pods,
    ),
];

fn named(cx: &Context) -> Result<()> {
    let script = r#"
tote network create -o com.docker.network.bridge.name=br-lab -o com.docker.network.container_iface_prefix=lan lab >/dev/null
tote network create --internal -o com.docker.network.bridge.name=br-in in >/dev/null
tote run -d --network in "$IMAGE" sleep 300 >/dev/null
tote run -d --network lab --name a "$IMAGE" sleep 300 >/dev/null
ip -o link show type bridge | grep -o 'br-[a-z]*' | sort
tote exec a ls /sys/class/net
tote exec a busybox nc 198.51.100.9 80 </dev/null
# An internal network's bridge is not taken for a way out by those that follow.
cat /proc/sys/net/ipv4/conf/br-in/forwarding
nft flush ruleset
tote run --rm --network lab "$IMAGE" busybox nc 198.51.100.9 80 </dev/null
tote network create -o com.docker.network.bridge.name=br-lab more 2>&1 || echo $?
tote rm -f -t 0 a >/dev/null
while ip link show br-lab >/dev/null 2>&1; do sleep 0.02; done
"#;
    let lines = "\
br-in
br-lab
lan0
lo
198.51.100.2
0
198.51.100.2
tote: cannot make a network with bridge br-lab: network lab has that name for its own
1
";
    prints(cx, script, lines)
}

fn priorities(cx: &Context) -> Result<()> {
    let script = r#"
for n in 1 2 3; do tote network create --subnet 192.168.7$n.0/24 n$n >/dev/null; done; tote network create --internal in >/dev/null
way() { nsenter -t $(tote inspect -f '{{.State.Pid}}' $1) -n ip route | grep default | cut -d ' ' -f 3; tote exec $1 busybox nc 198.51.100.9 80 </dev/null; }
tote run -d --network n1 --network name=n2,gw-priority=1 --network name=in,gw-priority=9 -p 8080:80 --name web "$IMAGE" busybox nc -ll -p 80 -e echo hello >/dev/null
way web
tote inspect -f '{{range .NetworkSettings.Networks}}{{.GwPriority}} {{len .Gateway}},{{end}}' web
# As much is not more.
tote network connect --gw-priority 1 n3 web; way web
tote network disconnect n3 web; tote network connect --gw-priority 2 n3 web; way web
reach() { until in_server busybox nc -w 3 198.51.100.2 8080 </dev/null 2>/dev/null; do sleep 0.02; done; }
reach
tote network disconnect n3 web; way web; reach
tote network connect --gw-priority 7 n3 web
tote restart -t 0 web >/dev/null; way web; reach
tote network connect --gw-priority high n3 web 2>&1 || echo $?
tote run --rm --network name=n1,gw-priority=high "$IMAGE" true 2>&1 || echo $?
"#;
    let lines = "\
192.168.72.1
198.51.100.2
9 0,0 12,1 12,
192.168.72.1
198.51.100.2
192.168.73.1
198.51.100.2
hello
192.168.72.1
198.51.100.2
hello
192.168.73.1
198.51.100.2
hello
tote: invalid --gw-priority \"high\": give a whole number
125
tote: invalid argument \"name=n1,gw-priority=high\" for \"--network\" flag: invalid gw-priority \"high\" of a network
125
";
    prints(cx, script, lines)
}

fn links(cx: &Context) -> Result<()> {
    let script = r#"
for n in 1 2; do tote network create --subnet 192.168.7$n.0/24 n$n >/dev/null; done
name=com.docker.network.endpoint.ifname settings=com.docker.network.endpoint.sysctls
tote run -d --network "name=n1,driver-opt=$name=lan,\"driver-opt=$settings=net.ipv4.conf.IFNAME.log_martians=1,net.ipv4.conf.IFNAME.accept_redirects=0\"" \
    --name web "$IMAGE" sleep 300 >/dev/null
see() { tote exec web busybox sh -c 'cd /sys/class/net; echo *; cd /proc/sys/net/ipv4/conf; cat lan/log_martians lan/accept_redirects; [ ! -d wan ] || cat wan/log_martians wan/accept_redirects' | xargs; }
see
tote exec web busybox nc 198.51.100.9 80 </dev/null
tote network connect --driver-opt $name=wan --driver-opt "\"$settings=net.ipv4.conf.IFNAME.accept_redirects=0,net.ipv4.conf.IFNAME.log_martians=1\"" n2 web
see
tote restart -t 0 web >/dev/null; see
tote inspect -f '{{range .NetworkSettings.Networks}}{{json .DriverOpts}},{{end}}' web
tote network disconnect n2 web; see
tote network connect --driver-opt $name=lan n2 web 2>&1 | grep -o 'File exists.*'
tote network connect --driver-opt $settings=net.ipv4.conf.IFNAME.bogus=1 n2 web 2>&1 || echo $?; see
tote network connect --driver-opt color=red n2 web 2>&1 || echo $?
tote run --rm --network n1 --network "name=n2,driver-opt=$name=eth0" "$IMAGE" true 2>&1 || echo $?
tote run --rm --network "name=n2,driver-opt=$settings=net.ipv4.ip_forward=1" "$IMAGE" true 2>&1 || echo $?
"#;
    let lines = r#"lan lo 1 0
198.51.100.2
lan lo wan 1 0 1 0
lan lo wan 1 0 1 0
{"com.docker.network.endpoint.ifname":"lan","com.docker.network.endpoint.sysctls":"net.ipv4.conf.IFNAME.log_martians=1,net.ipv4.conf.IFNAME.accept_redirects=0"},{"com.docker.network.endpoint.ifname":"wan","com.docker.network.endpoint.sysctls":"net.ipv4.conf.IFNAME.accept_redirects=0,net.ipv4.conf.IFNAME.log_martians=1"},
lan lo 1 0
File exists (os error 17)
tote: cannot change the container's link to network n2: failed to set net/ipv4/conf/eth1/bogus of the container to "1": No such file or directory (os error 2)
1
lan lo 1 0
tote: unknown option "color=red" of a container's link: there are com.docker.network.endpoint.ifname and com.docker.network.endpoint.sysctls
1
tote: cannot call two links of a container eth0: give one of them another name with driver-opt=com.docker.network.endpoint.ifname=NAME
125
tote: invalid argument "name=n2,driver-opt=com.docker.network.endpoint.sysctls=net.ipv4.ip_forward=1" for "--network" flag: invalid setting of a link "net.ipv4.ip_forward=1": give net.ipv4.conf.IFNAME.NAME=VALUE, or one of net.ipv6 or net.mpls
125
"#;
    prints(cx, script, lines)
}

fn told(cx: &Context) -> Result<()> {
    let script = r#"
tote network create lab >/dev/null
id=$(tote run -d --network name=lab,alias=www -h box --name web "$IMAGE" sleep 300)
tote inspect -f '{{with .NetworkSettings.Networks.lab}}{{json .Aliases}} {{json .DNSNames}} {{json .DriverOpts}}{{end}}' web | sed "s/$(echo $id | cut -c 1-12)/ID/"
tote inspect -f '{{json .NetworkSettings.EndpointID}}' web
tote network connect bridge web
tote inspect -f '{{.NetworkSettings.EndpointID}}' web | sed "s/$id/ID/"
tote rm -f -t 0 web >/dev/null
tote events --since 10m --until 0s --filter type=network --format '{{.Action}} {{index .Actor.Attributes "name"}}' | sort
tote events --since 10m --until 0s --filter event=connect --filter event=start --format '{{.Action}}' | head -n 2
tote network rm lab >/dev/null
"#;
    let lines = r#"["www"] ["web","ID","www","box"] null
""
ID
connect bridge
connect lab
create lab
disconnect bridge
disconnect lab
connect
start
"#;
    prints(cx, script, lines)
}

fn of_pods(cx: &Context) -> Result<()> {
    let script = r#"
tote pod create --network bridge --dns-search x.y --dns-option ndots:3 --no-hosts --name g >/dev/null
tote run --rm --pod g "$IMAGE" sh -c 'grep -E "^(search|options)" /etc/resolv.conf; grep -q localhost /etc/hosts 2>/dev/null && echo hosts || echo no hosts'
tote pod rm -f g >/dev/null
tote pod create --expose 80 --publish-all --name g --infra-name of-g >/dev/null
tote pod start g >/dev/null
tote port of-g | grep -c '^80/tcp -> 0.0.0.0:'
tote pod rm -f g >/dev/null
"#;
    prints(cx, script, "search x.y\noptions ndots:3\nno hosts\n1\n")
}

fn foreign(cx: &Context) -> Result<()> {
    let script = r#"
ip link add br-mine type bridge
tote network create -o com.docker.network.bridge.name=br-mine lab >/dev/null
tote run --rm --network lab "$IMAGE" true 2>&1 | grep -c 'the link br-mine is there already' || true
tote run --rm "$IMAGE" true
down
ip -o link show br-mine | grep -c br-mine
ip link del br-mine
tote run --rm --network lab "$IMAGE" busybox nc 198.51.100.9 80 </dev/null
"#;
    prints(cx, script, "1\n1\n198.51.100.2\n")
}

fn isolated(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.77.0/24 -o com.docker.network.bridge.enable_icc=false lab >/dev/null
tote run -d --network lab --ip 192.168.77.10 --name a "$IMAGE" sleep 300 >/dev/null
tote run --rm --network lab "$IMAGE" sh -c '
busybox ping -c 1 -W 1 192.168.77.10 >/dev/null || echo apart
busybox nc 198.51.100.9 80 </dev/null'
busybox ping -c 1 -W 5 192.168.77.10 >/dev/null && echo from the host
"#;
    prints(cx, script, "apart\n198.51.100.2\nfrom the host\n")
}

fn not_translated(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.77.0/24 --subnet fd00:77::/64 -o com.docker.network.bridge.enable_ip_masquerade=false lab >/dev/null
in_server ip route add 192.168.77.0/24 via 198.51.100.2
tote run --rm --network lab --ip 192.168.77.10 "$IMAGE" busybox nc 198.51.100.9 80 </dev/null
"#;
    prints(cx, script, "192.168.77.10\n")
}

fn bound(cx: &Context) -> Result<()> {
    let script = r#"
tote network create -o com.docker.network.bridge.host_binding_ipv4=127.0.0.1 lab >/dev/null
tote run -d --network lab -p 8080:80 -p 198.51.100.2:8081:80 --name a "$IMAGE" sleep 300 >/dev/null
tote port a | sort
"#;
    prints(
        cx,
        script,
        "80/tcp -> 127.0.0.1:8080\n80/tcp -> 198.51.100.2:8081\n",
    )
}

fn refused(cx: &Context) -> Result<()> {
    let script = r#"
tote network create -o com.docker.network.bridge.bogus=1 lab 2>&1 | grep -c 'enable_ip_masquerade and'
tote network create -o com.docker.network.bridge.enable_icc=maybe lab 2>&1 || echo $?
tote network create -o com.docker.network.bridge.name=../lo lab 2>&1 || echo $?
tote network ls -q --filter type=custom
"#;
    let lines = "\
1
tote: cannot make a network with option com.docker.network.bridge.enable_icc=maybe: \"maybe\" is an invalid value
1
tote: cannot make a network with option com.docker.network.bridge.name=../lo: \"../lo\" is an invalid value
1
";
    prints(cx, script, lines)
}
