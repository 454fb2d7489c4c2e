//! Published ports: the clients that reach them, and the address that the container sees. Each test has a machine of its own, see
//! [`super::networks`].

use super::networks::{NEEDS, prints};
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test(
        "ports::a_port_is_reached_from_everywhere_and_sees_the_client",
        NEEDS,
        everywhere,
    ),
    test("ports::containers_reach_a_port_of_the_host", NEEDS, hairpin),
    test(
        "ports::a_port_of_one_address_is_reached_by_no_other",
        NEEDS,
        one_address,
    ),
    test("ports::the_loopback_device_stays_the_hosts", NEEDS, own_loopback).waits(),
    test("ports::udp_is_published_as_well", NEEDS, datagrams),
    test("ports::ranges_and_free_ports_are_published", NEEDS, ranges),
    test("ports::exposed_ports_are_published_on_demand", NEEDS, exposed),
    test("ports::a_pod_publishes_the_ports_of_its_members", NEEDS, pod),
    test(
        "ports::a_container_reaches_its_own_port_of_the_host",
        NEEDS,
        own_port,
    ),
    test("ports::ports_come_and_go_while_a_container_runs", NEEDS, changed),
    test(
        "ports::changed_ports_are_those_of_the_next_start",
        NEEDS,
        changed_later,
    ),
    test(
        "ports::no_connection_is_lost_while_a_container_starts",
        NEEDS,
        first,
    ),
];

/// Functions beside those of the machine. Containers answer each connection to their port 80 with the client's address, as
/// their table of connections has it.
pub(super) const WORDS: &str = r#"
SAY='set -- $(cat /proc/net/tcp /proc/net/tcp6 | awk "\$4 ~ /01|08/ && \$2 ~ /:0050\$/ { sub(/:.*/, \"\", \$3); print substr(\$3, length(\$3) - 7) }" | sed "s/../& /g")
printf "%d.%d.%d.%d\n" 0x$4 0x$3 0x$2 0x$1'
# A container that answers at port 80, by its name and what else it is to have.
serve() {
    name=$1; shift
    tote run -d --name $name "$@" "$IMAGE" busybox nc -ll -p 80 -e sh -c "$SAY" >/dev/null
    listens $name
}
listens() { while ! cat /proc/$(tote inspect -f '{{.State.Pid}}' $1)/net/tcp* | grep -q ':0050 0*:0000 0A'; do sleep 0.02; done; }
ask() { busybox nc -w 3 "$@" </dev/null 2>/dev/null || echo refused; }
# A program of the machine that listens at port 7000 of an address.
listen() {
    perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 9, LocalAddr => $ARGV[0], LocalPort => 7000, ReuseAddr => 1) or die;
while ($c = $s->accept) { print $c "secret\n"; close $c }' $1 >/dev/null 2>&1 & listener=$!
    teller="$teller $listener"
    while ! grep -q ':1B58 00000000:0000 0A' /proc/net/tcp; do sleep 0.02; done
}
"#;

/// Runs a script that is to print these lines.
pub(super) fn shows(cx: &Context, script: &str, lines: &str) -> Result<()> {
    prints(cx, &format!("{WORDS}{script}"), lines)
}

fn everywhere(cx: &Context) -> Result<()> {
    let script = r#"
look > "$FILE.before"
tote run -d -p 8080:80 --name late "$IMAGE" sleep 300 >/dev/null
# Nobody listens yet.
ask 127.0.0.1 8080
tote rm -f late >/dev/null
serve web -p 8080:80
in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
gateway=$(tote inspect -f '{{.NetworkSettings.Gateway}}' web)
[ "$(ask 127.0.0.1 8080)" = $gateway ] && echo loopback
[ "$(ask 127.8.9.10 8080)" = $gateway ] && echo loopback
ask 198.51.100.2 8080
[ "$(ask $gateway 8080)" = $gateway ] && echo gateway
# But not its own address from outside, published or not.
in_server ip route add 10.0.0.0/8 via 198.51.100.2
in_server busybox nc -w 1 $(tote inspect -f '{{.NetworkSettings.IPAddress}}' web) 80 </dev/null 2>/dev/null || echo closed
tote port web
tote port web 80
tote port web 81 2>&1 || echo $?
tote ps --format '{{.Ports}}'
tote inspect -f '{{json .NetworkSettings.Ports}} {{json .HostConfig.PortBindings}} {{json .Config.ExposedPorts}}' web
tote inspect -f '{{.HostConfig.NetworkMode}}' web
tote ps -q -f publish=8080 | wc -l
tote stop -t 0 web >/dev/null
tote port web
ask 127.0.0.1 8080
tote start web >/dev/null
tote port web
tote rm -f web >/dev/null
down
look > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
"#;
    let lines = r#"refused
198.51.100.9
loopback
loopback
198.51.100.2
gateway
closed
80/tcp -> 0.0.0.0:8080
0.0.0.0:8080
tote: No public port '81/tcp' published for web
1
0.0.0.0:8080->80/tcp
{"80/tcp":[{"HostIp":"0.0.0.0","HostPort":"8080"}]} {"80/tcp":[{"HostIp":"","HostPort":"8080"}]} {"80/tcp":{}}
bridge
1
refused
80/tcp -> 0.0.0.0:8080
"#;
    shows(cx, script, lines)
}

fn pod(cx: &Context) -> Result<()> {
    let script = r#"
look > "$FILE.before"
tote pod create -p 8080:80 --name group >/dev/null
serve web --pod group
in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
# The member shows them as well, and with a filter alone.
tote ps --format '{{.Ports}}' | grep .
tote ps -f name=web --format '{{.Names}} {{.Ports}}'
tote ps -f publish=8080 --format '{{.Names}}' | grep -cx web
tote ps -f publish=8081 --quiet
tote pod rm -f group >/dev/null
down
look > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
"#;
    let port = "0.0.0.0:8080->80/tcp\n";
    shows(cx, script, &format!("198.51.100.9\n{port}{port}web {port}1\n"))
}

fn hairpin(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.77.0/24 --ip-range 192.168.77.128/25 one >/dev/null
tote network create --subnet 192.168.78.0/24 --ip-range 192.168.78.128/25 two >/dev/null
tote network create --subnet 192.168.79.0/24 --ip-range 192.168.79.128/25 --internal in >/dev/null
serve web --network one -p 8080:80
for network in one two in; do
    tote run --rm --network $network "$IMAGE" sh -c 'busybox nc -w 1 198.51.100.2 8080 </dev/null 2>/dev/null || echo refused'
done
# A member of the network sees its neighbour's own address.
tote run --rm --network name=one,ip=192.168.77.77 "$IMAGE" busybox nc -w 3 \
    $(tote inspect -f '{{.NetworkSettings.Networks.one.IPAddress}}' web) 80 </dev/null
"#;
    let lines = "192.168.77.1\n192.168.77.1\nrefused\n192.168.77.77\n";
    shows(cx, script, lines)
}

fn one_address(cx: &Context) -> Result<()> {
    let script = r#"
serve inside -p 127.0.0.1:8080:80
ask 127.0.0.1 8080 | wc -l
ask 198.51.100.2 8080
in_server busybox nc -w 1 198.51.100.2 8080 </dev/null 2>/dev/null || echo refused
serve outside -p 198.51.100.2:8080:80
in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
tote run --rm -p 192.0.2.77:80:80 "$IMAGE" true 2>&1 || echo $?
tote port inside; tote port outside
"#;
    let lines = "\
1
refused
refused
198.51.100.9
tote: cannot publish a port at 192.0.2.77: this machine has no such address: Cannot assign requested address (os error 99)
125
80/tcp -> 127.0.0.1:8080
80/tcp -> 198.51.100.2:8080
";
    shows(cx, script, lines)
}

/// A neighbour, and a container that may send whatever it likes, send to 127.0.0.1 of the machine: neither a program that
/// listens there nor a port that is published there answers.
fn own_loopback(cx: &Context) -> Result<()> {
    let script = r#"
listen 127.0.0.1
serve web -p 127.0.0.1:8080:80
cat /proc/sys/net/ipv4/conf/tote-*/route_localnet /proc/sys/net/ipv4/conf/up0/route_localnet
ask 127.0.0.1 7000
attack='ip addr del 127.0.0.1/8 dev lo; echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet
ip route add 127.0.0.1 via GATEWAY dev LINK src OWN
for port in 7000 8080; do busybox nc -w 1 127.0.0.1 $port </dev/null 2>/dev/null || echo refused; done'
in_server sh -c "$(echo "$attack" | sed 's/GATEWAY/198.51.100.2/; s/LINK/s0/; s/OWN/198.51.100.9/')"
tote run -d --name enemy --network name=bridge,ip=10.210.7.7 "$IMAGE" sleep 300 >/dev/null
enemy=$(tote inspect -f '{{.State.Pid}}' enemy)
gateway=$(tote inspect -f '{{.NetworkSettings.Gateway}}' enemy)
nsenter -t $enemy -n sh -c "$(echo "$attack" | sed "s/GATEWAY/$gateway/; s/LINK/eth0/; s/OWN/10.210.7.7/")"
"#;
    let lines = "1\n0\nsecret\nrefused\nrefused\nrefused\nrefused\n";
    shows(cx, script, lines)
}

fn datagrams(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --name echo -p 5353:53/udp "$IMAGE" sleep 300 >/dev/null
answer() {
    inside=$(tote inspect -f '{{.State.Pid}}' $1)
    nsenter -t $inside -n perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Proto => "udp", LocalPort => 53) or die;
while ($s->recv($got, 99)) { chomp $got; $s->send("$got " . $s->peerhost . "\n") }' >/dev/null 2>&1 & answerer=$!
    teller="$teller $answerer"
    while ! grep -q ':0035 00000000:0000 07' /proc/$inside/net/udp; do sleep 0.02; done
}
answer echo
send() { perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Proto => "udp", PeerAddr => $ARGV[0]) or die;
$s->send("hello\n"); $SIG{ALRM} = sub { print "nothing\n"; exit }; alarm 3; $s->recv($got, 99); print $got' $1; }
in_server perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Proto => "udp", PeerAddr => "198.51.100.2:5353") or die;
$s->send("hello\n"); $s->recv($got, 99); print $got'
send 198.51.100.2:5353
send 127.0.0.1:5353 | cut -d" " -f1
tote port echo
tote port echo 53 2>&1 || echo $?
tote port echo 53/udp
kill $answerer; teller=${teller% *}
"#;
    let lines = "\
hello 198.51.100.9
hello 198.51.100.2
hello
53/udp -> 0.0.0.0:5353
tote: No public port '53/tcp' published for echo
1
0.0.0.0:5353
";
    shows(cx, script, lines)
}

fn ranges(cx: &Context) -> Result<()> {
    let script = r#"
serve web -p 8000-8002:79-81
ask 127.0.0.1 8001 | wc -l
tote port web
tote ps --format '{{.Ports}}'
# Of several ports for one the first free one is taken.
serve next -p 8001-8005:80
tote port next
serve any -p 80
port=$(tote port any 80); port=${port#0.0.0.0:}
[ $port -ge 32768 ] && [ $port -le 60999 ] && echo between
ask 127.0.0.1 $port | wc -l
tote restart -t 0 any >/dev/null
[ $(tote port any 80) = 0.0.0.0:$port ] && echo the same
tote run --rm -p 8000-8001:81 "$IMAGE" true 2>&1 || echo $?
tote run --rm -p 1-4:80-81 "$IMAGE" true 2>&1 | grep -c 'invalid ranges specified'
"#;
    let lines = "\
1
79/tcp -> 0.0.0.0:8000
80/tcp -> 0.0.0.0:8001
81/tcp -> 0.0.0.0:8002
0.0.0.0:8000->79/tcp, 0.0.0.0:8001->80/tcp, 0.0.0.0:8002->81/tcp
80/tcp -> 0.0.0.0:8003
between
1
the same
tote: cannot publish a port: none of 8000-8001/tcp is free
125
1
";
    shows(cx, script, lines)
}

fn exposed(cx: &Context) -> Result<()> {
    let script = r#"
serve web -P --expose 80 --expose 53/udp -p 8443:443
tote port web | sed 's/:[3-6][0-9]*$/:any/'
tote inspect -f '{{.HostConfig.PublishAllPorts}} {{json .Config.ExposedPorts}}' web
port=$(tote port web 80); ask 127.0.0.1 ${port#0.0.0.0:} | wc -l
serve plain --network bridge --expose 80
tote inspect -f '{{json .NetworkSettings.Ports}}' plain
"#;
    let lines = r#"53/udp -> 0.0.0.0:any
80/tcp -> 0.0.0.0:any
443/tcp -> 0.0.0.0:8443
true {"443/tcp":{},"53/udp":{},"80/tcp":{}}
1
{"80/tcp":null}
"#;
    shows(cx, script, lines)
}

/// With the packet filter in the bridge (br_netfilter), which a new namespace has where the machine has the module, and without.
fn own_port(cx: &Context) -> Result<()> {
    let script = r#"
serve web -p 8080:80
serve late --network bridge
tote port add -p 8081:80 late
gateway=$(tote inspect -f '{{.NetworkSettings.Gateway}}' web)
for filtered in 1 0; do
    echo $filtered 2>/dev/null > /proc/sys/net/bridge/bridge-nf-call-iptables || true
    for pair in web:8080 late:8081 web:8081; do
        for address in 198.51.100.2 $gateway; do
            [ "$(tote exec ${pair%:*} busybox nc -w 3 $address ${pair#*:} </dev/null 2>&1)" = $gateway ] && echo $pair
        done
    done
done
"#;
    shows(
        cx,
        script,
        &"web:8080\nweb:8080\nlate:8081\nlate:8081\nweb:8081\nweb:8081\n"
            .repeat(2)
            .replacen("web", "80/tcp -> 0.0.0.0:8081\nweb", 1),
    )
}

fn changed(cx: &Context) -> Result<()> {
    let script = r#"
look > "$FILE.before"
serve web --network bridge
in_server busybox nc -w 1 198.51.100.2 8080 </dev/null 2>/dev/null || echo refused
tote port add -p 8080:80 -p 127.0.0.1:8000-8001:80-81 web
in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
ask 127.0.0.1 8000 | wc -l
tote ps --format '{{.Ports}}'
tote inspect -f '{{json .NetworkSettings.Ports}} {{json .HostConfig.PortBindings}}' web
serve other -p 9090:80
tote port add web -p 9090:80 2>&1 || echo $?
tote port add other -p 9091:80 -p 8080:80 2>&1 || echo $?
tote port other
listen 127.0.0.1
tote port add other -p 7000:80 2>&1 | sed "s/$listener/PID/"
tote port rm web 8000:80 82 2>&1 || echo $?
tote port rm web 8000:80 8080:80
in_server busybox nc -w 1 198.51.100.2 8080 </dev/null 2>/dev/null || echo refused
tote port web
tote restart -t 0 web >/dev/null
tote port web
tote rm -f other >/dev/null
tote port add web -p 9090:80
# Monitors that are killed leave no ports.
kill -9 $(tote inspect -f '{{.State.Pid}}' web | xargs -I{} awk '/^PPid/ { print $2 }' /proc/{}/status)
while tote ps -q | grep -q .; do sleep 0.02; done
tote rm -f web >/dev/null
tote run --rm "$IMAGE" true
down
look > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
"#;
    let lines = r#"refused
80/tcp -> 0.0.0.0:8080
80/tcp -> 127.0.0.1:8000
81/tcp -> 127.0.0.1:8001
198.51.100.9
1
0.0.0.0:8080->80/tcp, 127.0.0.1:8000->80/tcp, 127.0.0.1:8001->81/tcp
{"80/tcp":[{"HostIp":"0.0.0.0","HostPort":"8080"},{"HostIp":"127.0.0.1","HostPort":"8000"}],"81/tcp":[{"HostIp":"127.0.0.1","HostPort":"8001"}]} {"80/tcp":[{"HostIp":"","HostPort":"8080"},{"HostIp":"127.0.0.1","HostPort":"8000"}],"81/tcp":[{"HostIp":"127.0.0.1","HostPort":"8001"}]}
tote: cannot publish 0.0.0.0:9090: port 9090/tcp is already used by container other
125
tote: cannot publish 0.0.0.0:8080: port 8080/tcp is already used by container web
125
80/tcp -> 0.0.0.0:9090
tote: cannot publish 0.0.0.0:7000: port 7000/tcp is already used by process PID (perl) of this machine
tote: No public port '82/tcp' published for web
1
refused
81/tcp -> 127.0.0.1:8001
81/tcp -> 127.0.0.1:8001
80/tcp -> 0.0.0.0:9090
"#;
    shows(cx, script, lines)
}

fn changed_later(cx: &Context) -> Result<()> {
    let script = r#"
tote create --name web --network bridge -P --expose 80-81 "$IMAGE" busybox nc -ll -p 80 -e true >/dev/null
tote port rm web 81
tote port add web -p 8080:80
tote inspect -f '{{json .HostConfig.PortBindings}} {{.HostConfig.PublishAllPorts}}' web
tote start web >/dev/null
tote port web | sed 's/:[3-6][0-9]*$/:any/'
tote port rm web 80
tote port web
for network in none host container:web; do
    tote create --name other --network $network "$IMAGE" true >/dev/null
    tote port add other -p 80 2>&1 || echo $?
    tote rm other >/dev/null
done
tote port add web 2>&1 || echo $?
tote port add web -p x 2>&1 | grep -c 'invalid containerPort'
tote port add nosuch -p 80 2>&1 || echo $?
"#;
    let lines = r#"{"80/tcp":[{"HostIp":"","HostPort":""},{"HostIp":"","HostPort":"8080"}]} false
80/tcp -> 0.0.0.0:8080
80/tcp -> 0.0.0.0:any
tote: cannot publish ports: a container with --network none has no address that they could lead to
125
tote: cannot publish ports of container other: it has the network of another container or of this machine; publish them at that container
125
tote: cannot publish ports of container other: it has the network of another container or of this machine; publish them at that container
125
tote: give the ports to publish with --publish
125
1
tote: No such container: nosuch
1
"#;
    shows(cx, script, lines)
}

fn first(cx: &Context) -> Result<()> {
    let script = r#"
# Connects until a connection stands.
connect() {
    perl -MIO::Socket::INET -e 'until (IO::Socket::INET->new("127.0.0.1:8080")) { select undef, undef, undef, 0.001 }' &
    client=$!
}
# How often the kernel has waited in vain for the answer to a packet, which takes a second for the first one of a connection.
waits() { awk '/^TcpExt/ { if (!n) { for (i = 1; i <= NF; i++) if ($i == "TCPTimeouts") n = i } else print $n }' /proc/net/netstat; }
before=$(waits)
connect
serve web -p 8080:80
wait $client
for start in 1 2 3 4; do
    tote stop -t 0 web >/dev/null
    connect
    tote start web >/dev/null
    wait $client
done
echo $(($(waits) - before)) in vain
tote rm -f web >/dev/null
down

# What waits for the container's hardware address is lost if the bridge loses its carrier meanwhile. A bridge loses it once when
# it is made, and gets it with the first container.
serve web -p 8080:80
changes=$(ip -s -s link show type bridge | awk '/transns/ { getline; print $NF }')
test "$changes" -le 2 && echo one carrier || echo "the carrier changed $changes times"
tote rm -f web >/dev/null
down
"#;
    shows(cx, script, "0 in vain\none carrier\n")
}
