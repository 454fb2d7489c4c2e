//! The network of a pod, which its members share.

use super::networks::NEEDS;
use super::ports::shows;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test("pods::a_member_may_name_the_pods_network", NEEDS, named),
    test("pods::options_of_the_network_are_a_new_pods", NEEDS, new),
];

fn named(cx: &Context) -> Result<()> {
    let script = r#"
says() { tote "$@" 2>&1 | sed 's/^tote: //' || true; }
tote network create --subnet 192.168.77.0/24 lab >/dev/null
tote pod create --network lab shop >/dev/null
serve web --pod shop --network pod
tote run --rm --pod shop --network pod "$IMAGE" sh -c 'busybox nc -w 3 127.0.0.1 80 </dev/null; ls /sys/class/net'
tote run --rm --network lab "$IMAGE" sh -c 'busybox nc -w 3 shop 80 </dev/null >/dev/null && echo found'
tote restart -t 0 web >/dev/null; listens web
tote exec web busybox nc -w 3 127.0.0.1 80 </dev/null
tote create --name later --pod shop --network pod "$IMAGE" ls /sys/class/net >/dev/null
tote start -a later
says run --rm --network pod "$IMAGE" true
says run --rm --pod shop --network pod --network lab "$IMAGE" true
says run --rm --pod shop --network lab "$IMAGE" true
tote pod create --share ipc apart >/dev/null
says run --rm --pod apart --network pod "$IMAGE" true
says pod create --network pod inner
says network create pod
says network connect pod web
TOTE_NETWORK=pod tote run --rm "$IMAGE" true 2>&1 | grep -o 'a default cannot be .*'
tote pod rm -fa >/dev/null
"#;
    let lines = "\
127.0.0.1
eth0
lo
found
127.0.0.1
eth0
lo
cannot use the network of a pod outside of pods
  hint: give --pod NAME beside --network pod
invalid argument \"lab\" for \"--network\" flag: conflicting options: cannot attach both user-defined and non-user-defined network-modes
invalid config provided: network cannot be configured when it is shared with a pod
cannot use the network of pod apart: its members share none
  hint: tote pod create --share +net
cannot use the network of a pod outside of pods
  hint: give --pod NAME beside --network pod
network with name pod already exists
network pod not found
a default cannot be the network of one container or pod
";
    shows(cx, script, lines)
}

/// podman's: what a command says of the network of the pod that it makes is said to the pod.
fn new(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.77.0/24 lab >/dev/null
serve web --pod new:shop --network name=lab,ip=192.168.77.20 -p 8080:80 --network-alias www --add-host db:10.1.2.3 --dns-search x.y --net-rate 100mbit --hostname front
in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
tote port web
tote run --rm --network lab "$IMAGE" sh -c 'for name in shop www front; do busybox nc -w 3 $name 80 </dev/null >/dev/null && echo found $name; done'
tote run --rm --pod shop "$IMAGE" sh -c 'ip -o addr show eth0 | grep -o 192.168.77.20/24; grep -o 10.1.2.3.db /etc/hosts | tr "\t" " "; grep search /etc/resolv.conf; hostname'
tote pod inspect -f '{{.InfraConfig.Networks}} {{.InfraConfig.StaticIP}} {{.InfraConfig.PortBindings}} {{.InfraConfig.DNSSearch}}' shop
tote pod stop -t 0 shop >/dev/null; tote pod start shop >/dev/null; listens web
in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
tote run --rm --pod shop -p 8081:81 "$IMAGE" true >/dev/null 2>&1 || echo refused
tote pod rm -f shop >/dev/null
tote run --rm --pod new:held --egress allow:198.51.100.9:80 "$IMAGE" sh -c 'busybox nc -w 3 198.51.100.9 80 </dev/null; busybox nc -w 3 198.51.100.9 81 </dev/null || echo closed' 2>/dev/null
tote run --rm --pod held "$IMAGE" busybox nc -w 3 198.51.100.9 81 </dev/null 2>/dev/null || echo closed
tote run --rm --pod new:off --network none "$IMAGE" ls /sys/class/net
tote pod rm -fa >/dev/null
"#;
    let lines = "\
198.51.100.9
80/tcp -> 0.0.0.0:8080
found shop
found www
found front
192.168.77.20/24
10.1.2.3 db
search x.y
front
[lab] 192.168.77.20 map[80/tcp:[map[HostIp: HostPort:8080]]] [x.y]
198.51.100.9
refused
198.51.100.2
closed
closed
lo
";
    shows(cx, script, lines)
}
