//! Published ports: no two containers have one port, and no port outlives its container.

use super::networks::NEEDS;
use super::ports::shows;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test("ports::whoever_has_a_port_is_named", NEEDS, conflict),
    test("ports::no_two_containers_get_one_free_port", NEEDS, together),
    test("ports::a_killed_monitor_leaves_no_port_behind", NEEDS, killed),
    test(
        "ports::a_container_that_is_started_again_has_its_ports",
        NEEDS,
        revived,
    ),
    test(
        "ports::flushed_ports_come_back_with_the_next_container",
        NEEDS,
        flushed,
    ),
    test("ports::a_port_goes_with_its_network", NEEDS, disconnected),
    test("ports::a_port_moves_to_the_network_that_is_left", NEEDS, moved),
    test("ports::two_state_roots_share_the_machine", NEEDS, two_roots),
    test(
        "ports::state_roots_that_end_together_leave_no_rule",
        NEEDS,
        ends_together,
    ),
    test("ports::networks_that_cannot_publish_refuse_it", NEEDS, refused),
];

fn conflict(cx: &Context) -> Result<()> {
    let script = r#"
try() { tote run --rm "$@" "$IMAGE" true 2>&1 || echo $?; }
serve web -p 8080:80
try -p 8080:80
try -p 127.0.0.1:8080:81
try -p 9000:1 -p 9000:2
try -p 8080:80/udp && echo another protocol
listen 127.0.0.1
try -p 7000:80 | sed "s/process $listener /process PID /"
tote create --name other -p 8080:80 "$IMAGE" true >/dev/null
tote start other 2>&1 | grep -c 'already used by container web'
tote rm -f web >/dev/null
tote start -a other && echo free again
"#;
    let lines = "\
tote: cannot publish 0.0.0.0:8080: port 8080/tcp is already used by container web
125
tote: cannot publish 127.0.0.1:8080: port 8080/tcp is already used by container web
125
tote: cannot publish 0.0.0.0:9000: port 9000/tcp is already used by this container itself, which asks for it twice
125
another protocol
tote: cannot publish 0.0.0.0:7000: port 7000/tcp is already used by process PID (perl) of this machine
125
1
free again
";
    shows(cx, script, lines)
}

fn together(cx: &Context) -> Result<()> {
    let script = r#"
# Few to choose from, so that they meet.
echo '40000 40024' > /proc/sys/net/ipv4/ip_local_port_range
for n in $(seq 20); do tote run -d -p 80 --name c$n "$IMAGE" sleep 300 >/dev/null & started="${started:-} $!"; done
for one in $started; do wait $one; done
for n in $(seq 20); do tote port c$n 80; done | sort -u | wc -l
nft list map inet tote ports-any | grep -c comment
tote rm -f c1 c2 c3 >/dev/null
nft list map inet tote ports-any | grep -o 'comment "[0-9a-f]*"' | sort -u | wc -l
"#;
    shows(cx, script, "20\n20\n17\n")
}

fn killed(cx: &Context) -> Result<()> {
    let script = r#"
look > "$FILE.before"
tote run -d --rm -p 8080:80 --name a "$IMAGE" sleep 300 >/dev/null
kill -9 $(tote inspect -f '{{.State.Pid}}' a | xargs -I{} awk '/^PPid/ { print $2 }' /proc/{}/status)
while tote ps -q | grep -q .; do sleep 0.02; done
# The next command that runs something brings into order what was left.
tote run --rm "$IMAGE" true
down
look > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
serve b -p 8080:80
ask 127.0.0.1 8080 | wc -l
"#;
    shows(cx, script, "1\n")
}

/// A restart policy holds after the monitor was killed as well: the next command that starts or removes a container starts it again.
fn revived(cx: &Context) -> Result<()> {
    let script = r#"
look > "$FILE.before"
# The container ends with its monitor, if not in the same moment.
killed() {
    first=$(tote inspect -f '{{.State.Pid}}' $1); kill -9 $(awk '/^PPid/ { print $2 }' /proc/$first/status)
    while tote ps -q | grep -q . || grep -qs '^State:.[DRST]' /proc/$first/status; do sleep 0.02; done
}
for policy in always unless-stopped; do
for next in 'tote run --rm --network none "$IMAGE" true' 'tote run --name kept --network none "$IMAGE" true; tote rm kept >/dev/null' 'tote rm -f another'; do
    serve web --restart $policy -p 8080:80
    killed web; ask 127.0.0.1 8080
    eval "$next"
    tote ps -q | wc -l
    listens web; in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
    tote port web
    # One that was stopped on purpose stays stopped.
    tote stop -t 0 web >/dev/null; tote run --rm --network none "$IMAGE" true; tote ps -q | wc -l
    tote rm web >/dev/null
done
done
down
look > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
"#;
    let lines = "refused\n1\n198.51.100.9\n80/tcp -> 0.0.0.0:8080\n0\n".repeat(6);
    shows(cx, script, &lines)
}

fn flushed(cx: &Context) -> Result<()> {
    let script = r#"
serve web -p 8080:80
nft flush ruleset
ask 127.0.0.1 8080
tote run --rm --network bridge "$IMAGE" true
ask 127.0.0.1 8080 | wc -l
tote run --rm -p 8080:80 "$IMAGE" true 2>&1 | grep -c 'used by container web'
nft flush ruleset
tote rm -f web && echo gone
"#;
    shows(cx, script, "refused\n1\n1\nweb\ngone\n")
}

/// Another container may get the address to which the port of a disconnected one would lead.
fn disconnected(cx: &Context) -> Result<()> {
    let script = r#"
look > "$FILE.before"
serve web -p 8080:80
tote run -d --network bridge --name other "$IMAGE" sleep 300 >/dev/null
tote network disconnect bridge web
ask 127.0.0.1 8080
tote port web | wc -l
nft list map inet tote ports-any | grep -c comment || true
tote rm -f web other >/dev/null
down
look > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
"#;
    shows(cx, script, "refused\n0\n0\n")
}

fn moved(cx: &Context) -> Result<()> {
    let script = r#"
look > "$FILE.before"
tote network create --internal in >/dev/null; tote network create one >/dev/null; tote network create two >/dev/null
serve web --network one --network in --network two -p 8080:80 -p 127.0.0.1:8081:80
ask 198.51.100.2 8080 >/dev/null && echo reached
tote network disconnect one web
in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
tote port web
ask 127.0.0.1 8081 >/dev/null && echo reached
# No network is left that leads in, until there is one again.
tote network disconnect two web; ask 198.51.100.2 8080; tote port web | wc -l
tote network connect one web; in_server busybox nc -w 3 198.51.100.2 8080 </dev/null; tote port web
# At the next start they are as they were asked for.
tote restart -t 0 web >/dev/null; listens web; in_server busybox nc -w 3 198.51.100.2 8080 </dev/null
tote rm -ft 0 web >/dev/null; tote network rm in one two >/dev/null
down
look > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
"#;
    let ports = "80/tcp -> 0.0.0.0:8080\n80/tcp -> 127.0.0.1:8081\n";
    let client = "198.51.100.9\n";
    let lines = [
        "reached\n",
        client,
        ports,
        "reached\nrefused\n0\n",
        client,
        ports,
        client,
    ]
    .concat();
    shows(cx, script, &lines)
}

fn two_roots(cx: &Context) -> Result<()> {
    let script = r#"
other() { "$TOTE" --root "$STATE/second" "$@"; }
serve web -p 8080:80
other run -d --name their -p 80 --network bridge "$IMAGE" sleep 300 >/dev/null
other run --rm -p 8080:80 "$IMAGE" true 2>&1 | grep -c 'port 8080/tcp is already used by container [0-9a-f]* of another state root'
tote rm -f web >/dev/null
other port their 80 | wc -l
other rm -f their >/dev/null
while nft list table inet tote >/dev/null 2>&1; do sleep 0.02; done
rm -r "$STATE/second"
"#;
    shows(cx, script, "1\n1\n")
}

/// Networks that end together all see the rules of the others, so that each takes another one for the last.
fn ends_together(cx: &Context) -> Result<()> {
    let script = r#"
of() { root=$1; shift; "$TOTE" --root "$STATE/$root" "$@"; }
for root in 1 2 3 4 5 6; do of $root run -d --name c --network bridge "$IMAGE" sleep 300 >/dev/null; done
removals=
for root in 1 2 3 4 5 6; do of $root rm -f c >/dev/null & removals="$removals $!"; done
wait $removals
while nft list table inet tote >/dev/null 2>&1; do sleep 0.02; done
rm -r "$STATE"/[1-6]
"#;
    shows(cx, script, "")
}

fn refused(cx: &Context) -> Result<()> {
    let script = r#"
try() { tote run --rm "$@" "$IMAGE" echo ran 2>&1 || echo $?; }
tote network create --internal in >/dev/null
serve web --network bridge
try --network none -p 8080:80
try --network in -p 8080:80
try --network container:web -p 8080:80
try --network host -p 8080:80
try -p '[::1]:8080:80' | grep -c '127.0.0.1 is for programs'
"#;
    let lines = "\
tote: cannot publish ports: a container with --network none has no address that they could lead to
125
tote: cannot publish ports: none of the container's networks has the driver bridge and is not internal, which a port needs
125
tote: conflicting options: port publishing and the container type network mode
125
tote: warning: published ports are discarded when using host network mode
ran
1
";
    shows(cx, script, lines)
}
