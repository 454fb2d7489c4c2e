//! Networks of users other than root, each test on a machine of its own, see [`super::networks`]: there a user may open the
//! device that pasta needs, also where the machine that runs the tests forbids it.

use super::networks::on_machine_of;
use super::ports::WORDS;
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const NEEDS: &[Need] = &[
    Need::Root,
    Need::Userns,
    Need::Program("unshare"),
    Need::Program("nsenter"),
    Need::Program("setpriv"),
    Need::Program("ip"),
    Need::Program("nft"),
    Need::Program("perl"),
    Need::Program("busybox"),
    Need::Program("pasta"),
    Need::Program("pgrep"),
];

// Each starts pasta and a process that keeps the namespaces, several times.
pub(super) const TESTS: &[Test] = &[
    test(
        "rootless_networks::a_server_sees_the_machines_address",
        NEEDS,
        outside,
    )
    .slow(2),
    test(
        "rootless_networks::no_connection_has_more_on_its_way_than_pasta_takes",
        NEEDS,
        limits,
    )
    .slow(1),
    test(
        "rootless_networks::containers_find_each_other_by_name",
        NEEDS,
        names,
    )
    .slow(2),
    test(
        "rootless_networks::frames_between_members_pass_by_no_rule",
        NEEDS,
        frames,
    )
    .slow(2),
    test(
        "rootless_networks::a_port_is_reached_and_sees_the_client",
        NEEDS,
        ports,
    )
    .slow(2),
    test(
        "rootless_networks::holders_of_ports_and_low_ports_are_named",
        NEEDS,
        conflicts,
    )
    .slow(2),
    test(
        "rootless_networks::the_machines_loopback_device_is_out_of_reach",
        NEEDS,
        loopback,
    )
    .slow(2)
    .waits(),
    test("rootless_networks::an_egress_policy_holds", NEEDS, egress).slow(2),
    test(
        "rootless_networks::networks_and_ports_change_while_a_container_runs",
        NEEDS,
        changed,
    )
    .slow(2),
    test(
        "rootless_networks::a_policy_holds_in_further_networks",
        NEEDS,
        further,
    )
    .slow(2),
    test("rootless_networks::members_of_a_pod_share_one", NEEDS, pods).slow(2),
    test("rootless_networks::killed_processes_leave_nothing", NEEDS, killed).slow(2),
    test("rootless_networks::two_state_roots_are_apart", NEEDS, two_roots).slow(2),
    test(
        "rootless_networks::without_pasta_its_package_is_named",
        NEEDS,
        without,
    )
    .slow(2),
    test(
        "rootless_networks::containers_make_networks_of_their_own",
        NEEDS,
        cluster,
    )
    .slow(2),
    test("rootless_networks::steps_of_builds_have_them", NEEDS, built).slow(2),
    test(
        "rootless_networks::a_killed_build_ends_its_step_and_leaves_nothing",
        NEEDS,
        killed_build,
    )
    .slow(2),
];

/// The user: one without ranges of ids, for whom nothing on the machine has to be prepared.
const USER: &str = r#"
# Tests that run at the same time must not wait for one another's processes.
USER_ID=$((100000 + $$))
mkdir "$FILE.dev"
mount -t tmpfs none "$FILE.dev"
mknod -m 666 "$FILE.dev/tun" c 10 200
mount --bind "$FILE.dev/tun" /dev/net/tun
# The user may come to this place.
mount -t tmpfs -o mode=755 none /mnt
HOME=/mnt; STATE=/mnt/root
cp "$TOTE" /mnt/tote; cp -r "${IMAGE#rootfs:}" /mnt/image; IMAGE=rootfs:/mnt/image
mkdir "$STATE" "$STATE.other"; chown -R $USER_ID:$USER_ID "$STATE" "$STATE.other" /mnt/image
user() { setpriv --reuid $USER_ID --regid $USER_ID --clear-groups -- env HOME="$STATE" "$@"; }
tote() { user "/mnt/tote" --root "$STATE" "$@"; }
# A command for a container that prints what the server says. Its side of the connection is open until the server has closed the
# other one: pasta of 2023 may lose the end of a connection that both sides close at once.
HEAR='exec 3>&1; exec busybox nc -w 3 198.51.100.9 80 -e sh -c "cat >&3"'
# A process that has ended counts no more, and is there until its new parent looks for it.
down() { while pgrep -r D,R,S,T -u $USER_ID >/dev/null; do sleep 0.02; done; }
"#;

/// Runs a script as such a user on a machine, and compares the links, rules and settings of the machine.
pub(super) fn shows(cx: &Context, script: &str, lines: &str) -> Result<()> {
    let whole = format!(
        "{USER}{WORDS}look > \"$FILE.machine\"\n{script}\ntote rm -fa >/dev/null\ndown\nlook | cmp \"$FILE.machine\" - && echo unchanged\n"
    );
    let out = on_machine_of(cx, &["--net", "--mount"], &whole)?;
    out.exits(0)?.prints(&format!("{lines}unchanged\n"))?;
    cx.nothing_left()
}

fn outside(cx: &Context) -> Result<()> {
    let script = r#"
tote run --rm --network bridge "$IMAGE" sh -c "$HEAR"
tote run --rm --network bridge "$IMAGE" sh -c "$HEAR"
tote network ls --format '{{.Name}}'
tote network create lab >/dev/null
tote run --rm --network lab --network bridge "$IMAGE" ls /sys/class/net
"#;
    shows(
        cx,
        script,
        "198.51.100.2\n198.51.100.2\nbridge\nhost\nnone\neth0\neth1\nlo\n",
    )
}

/// A rule that drops what passes from a member to another one is asked about nothing: what a kernel asks costs time.
fn frames(cx: &Context) -> Result<()> {
    let script = r#"
tote network create lab >/dev/null
serve near --network lab
inside() { nsenter --net=/proc/$(pgrep -u $USER_ID '^pas(ta|st)')/fd/0 "$@"; }
inside nft -f - <<END
table inet other {
    chain between {
        type filter hook forward priority -10
        iifname "tote-*" oifname "tote-*" drop
    }
}
END
inside nft list table inet other | grep -c drop
tote run --rm --network lab "$IMAGE" busybox nc -w 3 near 80 </dev/null >/dev/null && echo reached
"#;
    shows(cx, script, "1\nreached\n")
}

/// pasta drops what is more, and the sender finds out by timeouts (docs/networks.md).
fn limits(cx: &Context) -> Result<()> {
    let script = r#"
limits() { tote run --rm "$@" "$IMAGE" busybox awk '{ print $1, $2, $3 }' /proc/sys/net/ipv4/tcp_wmem; }
limits --network bridge
limits --network bridge --sysctl net.ipv4.tcp_wmem='4096 16384 1000000'
limits --network bridge --sysctl net/ipv4/tcp_wmem='4096 16384 2000000'
[ "$(limits --network none)" = "$(busybox awk '{ print $1, $2, $3 }' /proc/sys/net/ipv4/tcp_wmem)" ] && echo "the machine's"
"#;
    let lines = "4096 16384 524288\n4096 16384 1000000\n4096 16384 2000000\nthe machine's\n";
    shows(cx, script, lines)
}

fn names(cx: &Context) -> Result<()> {
    let script = r#"
tote network create lab >/dev/null; tote network create other >/dev/null
serve web --network lab --network-alias www
tote run --rm --network lab "$IMAGE" sh -c 'busybox nc -w 3 web 80 </dev/null >/dev/null && busybox nc -w 3 www 80 </dev/null >/dev/null && echo found'
tote run --rm --network other "$IMAGE" busybox nc -w 1 $(tote inspect -f '{{.NetworkSettings.Networks.lab.IPAddress}}' web) 80 </dev/null 2>/dev/null || echo apart
tote exec web sh -c 'ls /sys/class/net' | head -1
tote restart -t 0 web
listens web
tote run --rm --network lab "$IMAGE" busybox nc -w 3 web 80 </dev/null >/dev/null && echo again
"#;
    shows(cx, script, "found\napart\neth0\nweb\nagain\n")
}

fn ports(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d -p 8080:80 --name late "$IMAGE" sleep 300 >/dev/null
ask 127.0.0.1 8080 | grep -v refused | wc -c
tote rm -f late >/dev/null
serve web -p 8080:80 -p 127.0.0.1:8081:80
in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
gateway=$(tote inspect -f '{{.NetworkSettings.Gateway}}' web)
[ "$(ask 127.0.0.1 8080)" = $gateway ] && echo loopback
[ "$(ask 127.0.0.1 8081)" = $gateway ] && echo loopback
ask 198.51.100.2 8080
ask 198.51.100.2 8081
tote run --rm --network bridge "$IMAGE" busybox nc -w 3 198.51.100.2 8080 </dev/null >/dev/null && echo inside
tote port web
tote ps --format '{{.Ports}}'
tote run -d -p 5353:53/udp --name echo "$IMAGE" sleep 300 >/dev/null
inside=$(tote inspect -f '{{.State.Pid}}' echo)
nsenter -t $inside -n perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Proto => "udp", LocalPort => 53) or die;
while ($s->recv($got, 99)) { chomp $got; $s->send("$got " . $s->peerhost . "\n") }' >/dev/null 2>&1 & answerer=$!
teller="$teller $answerer"
while ! grep -q ':0035 00000000:0000 07' /proc/$inside/net/udp; do sleep 0.02; done
in_server perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Proto => "udp", PeerAddr => "198.51.100.2:5353") or die;
$s->send("hello\n"); $s->recv($got, 99); print $got'
tote stop -t 0 web >/dev/null
ask 127.0.0.1 8080
"#;
    let lines = "\
0
198.51.100.9
loopback
loopback
198.51.100.2
refused
inside
80/tcp -> 0.0.0.0:8080
80/tcp -> 127.0.0.1:8081
0.0.0.0:8080->80/tcp, 127.0.0.1:8081->80/tcp
hello 198.51.100.9
refused
";
    shows(cx, script, lines)
}

fn conflicts(cx: &Context) -> Result<()> {
    let script = r#"
try() { tote run --rm "$@" "$IMAGE" true 2>&1 || echo $?; }
serve web -p 8080:80
try -p 8080:80
listen 127.0.0.1
try -p 7000:80 | sed "s/process $listener .*/PROCESS/; s/a process of this machine/PROCESS/"
try -p 81:80 | grep -c net.ipv4.ip_unprivileged_port_start=81
echo 80 > /proc/sys/net/ipv4/ip_unprivileged_port_start
try -p 81:80 && echo allowed
try -p 9000:80/sctp
"#;
    let lines = "\
tote: cannot publish 0.0.0.0:8080: port 8080/tcp is already used by container web
125
tote: cannot publish 0.0.0.0:7000: port 7000/tcp is already used by PROCESS
125
1
allowed
tote: cannot publish a port of sctp: users other than root publish those of tcp and udp
125
";
    shows(cx, script, lines)
}

fn loopback(cx: &Context) -> Result<()> {
    let script = r#"
listen 127.0.0.1
ask 127.0.0.1 7000
for address in 198.51.100.9 198.51.100.2 127.0.0.1 169.254.1.1 10.210.0.1; do
    tote run --rm --network bridge "$IMAGE" busybox nc -w 1 $address 7000 </dev/null 2>/dev/null || echo closed
done
"#;
    shows(cx, script, "secret\nclosed\nclosed\nclosed\nclosed\nclosed\n")
}

fn egress(cx: &Context) -> Result<()> {
    let script = r#"
tote run --rm --egress allow:198.51.100.9:80 "$IMAGE" sh -c "$HEAR"
tote run --name shut --egress allow:198.51.100.8:80 "$IMAGE" busybox nc -w 3 198.51.100.9 80 </dev/null 2>/dev/null || echo closed
tote logs --egress shut | awk '{ sub(/^[0-9]+/, "PID", $5); print $2, $3, $5 }'
"#;
    shows(
        cx,
        script,
        "198.51.100.2\nclosed\ntcp 198.51.100.9:80 PID/busybox\n",
    )
}

/// The address of the other network that the policy names is reached, and the next one is not.
fn further(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.77.0/24 lab >/dev/null; tote network create --subnet 192.168.78.0/24 more >/dev/null
serve near --network name=more,ip=192.168.78.10; serve open --network name=more,ip=192.168.78.11
tote run -d --name a --network lab --egress allow:192.168.78.11:80 "$IMAGE" sleep 300 >/dev/null
tote network connect more a
tote exec a busybox nc -w 3 192.168.78.11 80 </dev/null >/dev/null && echo reached
tote exec a busybox nc -w 3 192.168.78.10 80 </dev/null 2>/dev/null || echo closed
tote logs --egress a | awk '{ sub(/^[0-9]+/, "PID", $5); print $2, $3, $5 }'
"#;
    shows(cx, script, "reached\nclosed\ntcp 192.168.78.10:80 PID/busybox\n")
}

fn pods(cx: &Context) -> Result<()> {
    let script = r#"
tote network create lab >/dev/null
serve web --pod new:shop --network lab -p 8080:80
in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
tote run --rm --pod shop --network pod "$IMAGE" sh -c 'busybox nc -w 3 127.0.0.1 80 </dev/null >/dev/null && echo shared'
tote run --rm --network lab "$IMAGE" sh -c 'busybox nc -w 3 shop 80 </dev/null >/dev/null && echo found'
tote pod rm -f shop >/dev/null
"#;
    shows(cx, script, "198.51.100.9\nshared\nfound\n")
}

fn changed(cx: &Context) -> Result<()> {
    let script = r#"
tote network create lab >/dev/null
serve web --network bridge
tote network connect lab web
tote run --rm --network lab "$IMAGE" busybox nc -w 3 web 80 </dev/null >/dev/null && echo connected
tote port add -p 8080:80 web
in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
tote port rm web 8080:80
ask 127.0.0.1 8080
tote network disconnect lab web
tote run --rm --network lab "$IMAGE" busybox nc -w 1 web 80 </dev/null 2>/dev/null || echo disconnected
"#;
    let lines = "connected\n80/tcp -> 0.0.0.0:8080\n198.51.100.9\nrefused\ndisconnected\n";
    shows(cx, script, lines)
}

fn killed(cx: &Context) -> Result<()> {
    let script = r#"
monitor() { awk '/^PPid/ { print $2 }' /proc/$(tote inspect -f '{{.State.Pid}}' $1)/status; }
serve a -p 8080:80
kill -9 $(monitor a)
while tote ps -q | grep -q .; do sleep 0.02; done
# As for root's: the next command that runs something brings into order what was left.
tote run --rm "$IMAGE" true
serve b -p 8080:80
ask 127.0.0.1 8080 | wc -l
# The holder, or the next container, has another pasta started.
kill -9 $(pgrep -u $USER_ID '^pas(ta|st)')
while ! tote run --rm --network bridge "$IMAGE" sh -c "$HEAR" 2>/dev/null | grep -q .; do sleep 0.02; done
tote exec b sh -c "$HEAR"
kill -9 $(tote inspect -f '{{.State.Pid}}' b)
while tote ps -q | grep -q .; do sleep 0.02; done
tote rm a b
down
ls "$STATE/networks/bridge/leases" | wc -l
serve c -p 8080:80
kill -9 $(pgrep -u $USER_ID -f 'tote rootless')
while pgrep -r D,R,S,T -u $USER_ID '^pas(ta|st)' >/dev/null; do sleep 0.02; done
tote rm -f c
serve c -p 8080:80
in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
"#;
    shows(cx, script, "1\n198.51.100.2\na\nb\n0\nc\n198.51.100.9\n")
}

fn two_roots(cx: &Context) -> Result<()> {
    let script = r#"
other() { user "/mnt/tote" --root "$STATE.other" "$@"; }
serve a -p 8080:80
other run -d --name b --network bridge "$IMAGE" sleep 300 >/dev/null
other run --rm -p 8080:80 "$IMAGE" true 2>&1 | sed 's/used by .*/used/'
other exec b sh -c "$HEAR"
other rm -f b
in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
"#;
    let lines = "\
tote: cannot publish 0.0.0.0:8080: port 8080/tcp is already used
198.51.100.2
b
198.51.100.9
";
    shows(cx, script, lines)
}

/// Makes a context for builds, with this step, of which `apart` prints a line where it has no network.
const BUILD: &str = r#"
unset TOTE_BUILD_NETWORK
mkdir /mnt/context; cp -a "${IMAGE#rootfs:}" /mnt/context/root
step() { printf 'FROM scratch\nCOPY root /\nRUN %s\n' "$1" > /mnt/context/Dockerfile; chown -R $USER_ID:$USER_ID /mnt/context; }
"#;

fn built(cx: &Context) -> Result<()> {
    let script = r#"
step "( $HEAR ) || echo apart"
build() { tote build --no-cache "$@" /mnt/context 2>/dev/null | grep -E '^(198|apart)'; }
build
build --network bridge
build --network host
build --network none
# A network of a running container's and of steps is one.
serve web --network bridge
step "busybox nc -w 3 $(tote inspect -f '{{.NetworkSettings.IPAddress}}' web) 80 </dev/null >/dev/null && echo 198.neighbour"
build
step true
lacking() { user PATH=/nowhere "/mnt/tote" --root "$STATE" build --no-cache "$@" /mnt/context 2>&1; }
lacking | grep -c 'warning: RUN: no network but a loopback device.*install the package passt'
lacking --network bridge | grep -c 'line 3.*cannot use a network.*install the package passt'
"#;
    shows(
        cx,
        &format!("{BUILD}{script}"),
        "198.51.100.2\n198.51.100.2\n198.51.100.2\napart\n198.neighbour\n1\n1\n",
    )
}

fn killed_build(cx: &Context) -> Result<()> {
    let script = r#"
step 'echo begun; exec sleep 300'
for signal in TERM KILL; do
  mkfifo "$FILE.$signal"
  # exec: the process is the build itself.
  (exec setpriv --reuid $USER_ID --regid $USER_ID --clear-groups -- env HOME="$STATE" /mnt/tote --root "$STATE" build --no-cache /mnt/context > "$FILE.$signal" 2>/dev/null) & build=$!
  sed /begun$/q "$FILE.$signal" >/dev/null
  kill -$signal $build
  wait $build || echo $?
  down
done
# The next command that runs something looks for what the last one has left.
tote run --rm --network none "$IMAGE" true
down
tote ps -aq | wc -l
ls "$STATE"/build/work "$STATE"/networks/bridge/leases "$STATE"/live
"#;
    let ended =
        "143\n137\n0\n/mnt/root/build/work:\n\n/mnt/root/live:\n\n/mnt/root/networks/bridge/leases:\n";
    shows(cx, &format!("{BUILD}{script}"), ended)
}

fn without(cx: &Context) -> Result<()> {
    let script = r#"
lacking() { user PATH=/nowhere "/mnt/tote" --root "$STATE" "$@" 2>&1 || echo $?; }
lacking run --rm --network bridge "$IMAGE" true | grep -c 'install the package passt'
lacking network create lab | grep -c 'install the package passt'
lacking run --rm "$IMAGE" echo none
chmod 600 "$FILE.dev/tun"
tote run --rm --network bridge "$IMAGE" true 2>&1 | grep -c 'may not open /dev/net/tun'
chmod 666 "$FILE.dev/tun"
# No way out: the networks are there all the same.
ip route del default
tote run --rm --network bridge "$IMAGE" ls /sys/class/net 2>&1 | sed 's/networks: .*/networks/'
ip route add default via 198.51.100.9
"#;
    let lines = "\
1
1
none
1
tote: warning: containers of this user reach nothing outside of their networks
eth0
lo
";
    shows(cx, script, lines)
}

fn cluster(cx: &Context) -> Result<()> {
    let script = r#"
tote run --rm --network bridge --privileged host sh -ec '
unshare -n sleep 5 & node=$!
while [ "$(readlink /proc/$node/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do busybox sleep 0.02; done
ip link add switch type bridge; ip link set switch up; ip addr add 10.55.0.1/24 dev switch
ip link add v0 type veth peer name v1 netns $node; ip link set v0 master switch; ip link set v0 up
nsenter -t $node -n ip addr add 10.55.0.2/24 dev v1; nsenter -t $node -n ip link set v1 up
busybox ping -c 1 -W 2 10.55.0.2 >/dev/null && echo reached
kill $node'
"#;
    shows(cx, script, "reached\n")
}
