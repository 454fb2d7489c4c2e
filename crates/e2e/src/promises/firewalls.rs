//! Networks beside the firewalls of other programs, which let nothing pass that they do not know: containers reach the world outside and
//! their ports are reached, what the administrator forbids stays forbidden, and nothing of it is left afterwards. Each test has a machine of
//! its own, see [`super::networks`], with rules as the programs make them.

use super::networks::NEEDS;
use super::ports::shows;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test("firewalls::beside_docker", NEEDS, docker),
    test("firewalls::beside_ufw", NEEDS, ufw),
    test("firewalls::beside_firewalld", NEEDS, firewalld),
    test("firewalls::what_is_forbidden_stays_forbidden", NEEDS, forbidden),
    test(
        "firewalls::what_is_forbidden_by_links_stays_forbidden",
        NEEDS,
        forbidden_links,
    ),
    test(
        "firewalls::a_plain_firewall_is_left_and_explained_once",
        NEEDS,
        plain,
    ),
    test("firewalls::a_setting_leaves_them_alone", NEEDS, left),
    test(
        "firewalls::the_next_command_repairs_what_was_flushed",
        NEEDS,
        flushed,
    ),
    test(
        "firewalls::a_firewall_that_comes_later_is_told_by_the_next_command",
        NEEDS,
        later,
    ),
];

/// Rules of other programs, and looks at what passes. Each program's rules are those that it has made on Debian 12.
pub(super) const WORDS: &str = r#"
rules() { nft list ruleset | sed 's/ packets [0-9]* bytes [0-9]*//'; }
docker() { nft -f - <<'END'
table ip filter {
	chain DOCKER { }
	chain DOCKER-ISOLATION-STAGE-2 { oifname "docker0" counter drop; counter return; }
	chain DOCKER-ISOLATION-STAGE-1 { iifname "docker0" oifname != "docker0" counter jump DOCKER-ISOLATION-STAGE-2; counter return; }
	chain DOCKER-USER { counter return; }
	chain FORWARD { type filter hook forward priority 0; policy drop; counter jump DOCKER-USER; counter jump DOCKER-ISOLATION-STAGE-1
		oifname "docker0" ct state related,established counter accept; oifname "docker0" counter jump DOCKER
		iifname "docker0" oifname != "docker0" counter accept; iifname "docker0" oifname "docker0" counter accept; }
}
END
}
ufw() { nft -f - <<END
table ip filter {
	chain ufw-before-logging-forward { }
	chain ufw-user-forward { }
	chain ufw-before-forward { ct state related,established counter accept; icmp type echo-request counter accept; counter jump ufw-user-forward; }
	chain ufw-after-forward { }
	chain ufw-after-logging-forward { limit rate 3/minute burst 10 packets counter log prefix "[UFW BLOCK] "; }
	chain ufw-reject-forward { ${1:-} }
	chain ufw-track-forward { }
	chain FORWARD { type filter hook forward priority 0; policy drop; counter jump ufw-before-logging-forward; counter jump ufw-before-forward
		counter jump ufw-after-forward; counter jump ufw-after-logging-forward; counter jump ufw-reject-forward; counter jump ufw-track-forward; }
}
END
}
firewalld() { nft -f - <<'END'
table inet firewalld {
	chain filter_FWD_public_allow { oifname "eth7" accept; }
	chain filter_FWD_public { jump filter_FWD_public_allow; reject with icmpx admin-prohibited; }
	chain filter_FORWARD_ZONES { goto filter_FWD_public; }
	chain filter_FORWARD { type filter hook forward priority filter + 10; policy accept; ct state { established, related } accept; ct status dnat accept
		iifname "lo" accept; ct state invalid drop; jump filter_FORWARD_ZONES; reject with icmpx admin-prohibited; }
}
END
}
out() { tote exec $1 busybox nc -w 2 198.51.100.9 80 </dev/null 2>/dev/null || echo "no way out"; }
in_() { in_server busybox nc -w 2 198.51.100.2 8080 </dev/null 2>/dev/null || echo "no way in"; }
# A container of another engine's, by a bridge of its own.
neighbour() {
    ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up
    unshare --net sleep 300 >/dev/null 2>&1 & other=$!
    while [ "$(readlink /proc/$other/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
    teller="$teller $other"
    ip link add veth7 type veth peer name eth0 netns $other; ip link set veth7 master docker0 up
    nsenter -t $other -n sh -c 'ip addr add 172.17.0.2/16 dev eth0; ip link set eth0 up; ip route add default via 172.17.0.1'
    nsenter -t $other -n perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 9, LocalPort => 80, ReuseAddr => 1) or die;
while ($c = $s->accept) { print $c "private\n"; close $c }' >/dev/null 2>&1 & teller="$teller $!"
    while ! nsenter -t $other -n grep -q ':0050 00000000:0000 0A' /proc/net/tcp; do sleep 0.02; done
}
# What a container and its clients reach; the rules afterwards are those of before.
passes() {
    rules > "$FILE.before"
    serve web --network bridge -p 8080:80 2>"$FILE.err"; cat "$FILE.err"
    out web; in_
    tote rm -f web >/dev/null; down
    rules | cmp - "$FILE.before" && echo same
}
"#;

fn says(cx: &Context, script: &str, lines: &str) -> Result<()> {
    shows(cx, &format!("{WORDS}{script}"), lines)
}

fn docker(cx: &Context) -> Result<()> {
    let script = r#"
docker; neighbour; passes
# What docker keeps from others it keeps from networks of tote's, and a network beside another one changes nothing.
tote network create --subnet 192.168.77.0/24 lab >/dev/null
serve web --network lab; serve more --network bridge -p 8080:80
out web; out more; in_
tote exec web busybox nc -w 1 172.17.0.2 80 </dev/null 2>/dev/null || echo apart
nft list chain ip filter FORWARD | grep -c 'up0.*tote: '
tote rm -f more >/dev/null
while [ -e "$STATE/live/bridge.network" ]; do sleep 0.02; done
nft list chain ip filter FORWARD | grep -c 'up0.*tote: '; out web
# docker makes its rules again, before all others.
nft insert rule ip filter FORWARD counter jump DOCKER-USER; out web
ip link del docker0
"#;
    let lines = "198.51.100.2\n198.51.100.9\nsame\n198.51.100.2\n198.51.100.2\n198.51.100.9\napart\n4\n2\n198.51.100.2\n198.51.100.2\n";
    says(cx, script, lines)
}

fn ufw(cx: &Context) -> Result<()> {
    let script = r#"
ufw; passes
serve web --network bridge
# No packet that passes is logged as one that was blocked, and a reload changes nothing.
nft list chain ip filter FORWARD | grep -A1 'tote: ' | tail -n 1 | grep -o 'jump [a-z-]*'
nft flush chain ip filter ufw-before-forward
nft add rule ip filter ufw-before-forward ct state related,established counter accept; out web
tote rm -f web >/dev/null; down
nft delete table ip filter
# The same with a firewall that refuses what it does not know.
ufw 'counter reject;'; passes
nft delete table ip filter
"#;
    let lines = "198.51.100.2\n198.51.100.9\nsame\njump ufw-after-logging-forward\n198.51.100.2\n198.51.100.2\n198.51.100.9\nsame\n";
    says(cx, script, lines)
}

fn firewalld(cx: &Context) -> Result<()> {
    let script = r#"
firewalld; passes
serve web --network bridge
# A reload makes all of the table anew.
nft delete table inet firewalld; firewalld; out web
tote ps >/dev/null; out web
tote rm -f web >/dev/null; down
nft delete table inet firewalld
"#;
    let lines = "198.51.100.2\n198.51.100.9\nsame\nno way out\n198.51.100.2\n";
    says(cx, script, lines)
}

fn forbidden(cx: &Context) -> Result<()> {
    let script = r#"
docker
nft insert rule ip filter DOCKER-USER iifname up0 ip saddr 198.51.100.9 tcp dport 80 counter drop
passes
# A rule that comes later comes before the exception as well.
nft delete table ip filter; ufw
serve web --network bridge -p 8080:80
in_
nft add rule ip filter ufw-user-forward oifname 'tote-*' tcp dport 80 ct state new counter drop; in_; out web
tote rm -f web >/dev/null; down
nft delete table ip filter
"#;
    let lines = "198.51.100.2\nno way in\nsame\n198.51.100.9\nno way in\n198.51.100.2\n";
    says(cx, script, lines)
}

/// Rules about links alone forbid as others do, before a network comes up and later, and the packets that they drop are counted.
fn forbidden_links(cx: &Context) -> Result<()> {
    let script = r#"
out() { tote exec $1 busybox nc -w 1 198.51.100.9 80 </dev/null 2>/dev/null || echo "no way out"; }
ask() {
    serve web --network bridge 2>"$FILE.err"; out web
    nft list ruleset | grep -o 'packets [0-9]* bytes [0-9]* drop' | grep -vc 'packets 0 ' || true
    grep -c "drops all packets" "$FILE.err" || true
    nft list ruleset | grep -c 'oifname "up0".*tote: ' || true
    tote rm -f web >/dev/null; down; rm -f "$STATE/networks/.warned"
}
docker; nft insert rule ip filter DOCKER-USER iifname 'tote-*' oifname up0 counter drop; ask; nft delete table ip filter
docker; nft insert rule ip filter DOCKER-USER iifname != docker0 oifname up0 counter drop; ask; nft delete table ip filter
ufw; nft add rule ip filter ufw-user-forward iifname 'tote-*' oifname up0 counter drop; ask; nft delete table ip filter
firewalld; nft insert rule inet firewalld filter_FORWARD iifname 'tote-*' oifname up0 counter drop; ask; nft delete table inet firewalld
docker; serve web --network bridge; out web
nft insert rule ip filter DOCKER-USER counter drop; out web
tote ps >/dev/null; out web
tote rm -f web >/dev/null; down; nft delete table ip filter
"#;
    let round = "no way out\n1\n1\n0\n";
    let later = "198.51.100.2\nno way out\nno way out\n";
    says(cx, script, &format!("{}{later}", round.repeat(4)))
}

/// A firewall that no program keeps, whose administrator has written a policy that drops, is the administrator's. Its rules may let
/// networks pass by their names; then there is nothing to say.
fn plain(cx: &Context) -> Result<()> {
    let script = r#"
nft add table inet mine; nft add chain inet mine forward '{ type filter hook forward priority 0; policy drop; }'
rules > "$FILE.before"
ask() { tote run --rm --network $1 "$IMAGE" busybox nc -w 1 198.51.100.9 80 </dev/null 2>>"$FILE.err" || echo "no way out"; }
tote network create --subnet 192.168.77.0/24 lab >/dev/null
ask bridge; down; ask lab; down
rules | cmp - "$FILE.before" && echo same
grep ^tote: "$FILE.err" > "$FILE.said"; wc -l < "$FILE.said"
# What the line says, helps.
tote run -d --name web --network bridge "$IMAGE" sleep 300 >/dev/null; out web
bridge=$(ip -o link | grep -o 'tote-[0-9a-f]*' | head -n 1)
sed "s/.*pass with '//; s/' and '/\n/; s/'$//; s/$/\n/" "$FILE.said" | sed "s/tote-[0-9a-f]*/$bridge/" > "$FILE.help"
sh -eu "$FILE.help"; out web
tote rm -f web >/dev/null; down
# As soon as another chain drops, that is said.
nft flush chain inet mine forward; nft add rule inet mine forward iifname 'tote-*' accept; nft add rule inet mine forward oifname 'tote-*' accept
nft add chain inet mine more '{ type filter hook forward priority 1; }'; nft add rule inet mine more reject
ask bridge; down; grep -c 'chain inet mine more' "$FILE.err"
nft flush chain inet mine more
rm "$FILE.err" "$STATE/networks/.warned"; ask bridge; cat "$FILE.err"
down; nft delete table inet mine
"#;
    let lines = "no way out\nno way out\nsame\n1\nno way out\n198.51.100.2\nno way out\n1\n198.51.100.2\n";
    says(cx, script, lines)
}

fn left(cx: &Context) -> Result<()> {
    let script = r#"
docker
rules > "$FILE.before"
mkdir "$FILE.config"; export XDG_CONFIG_HOME="$FILE.config"; mkdir "$FILE.config/tote"
echo '{ "firewall": "leave" }' > "$FILE.config/tote/network.json"
ask() { tote run --rm --network bridge "$IMAGE" busybox nc -w 1 198.51.100.9 80 </dev/null 2>>"$FILE.err" || echo "no way out"; }
ask; grep -o "nft insert rule ip filter DOCKER-USER [io]*ifname" "$FILE.err"
down; rules | cmp - "$FILE.before" && echo same
export TOTE_FIREWALL=admit; ask; down
export TOTE_FIREWALL=maybe; tote run --rm --network bridge "$IMAGE" true 2>&1 | grep -o 'invalid firewall.*give admit or leave'
export TOTE_FIREWALL=
nft delete table ip filter
"#;
    let lines = "no way out\nnft insert rule ip filter DOCKER-USER iifname\nnft insert rule ip filter DOCKER-USER oifname\nsame\n198.51.100.2\ninvalid firewall \"maybe\": give admit or leave\n";
    says(cx, script, lines)
}

fn flushed(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.77.0/24 lab >/dev/null
serve web --network lab -p 8080:80; serve more --network bridge
in_; out web; out more
for command in "ps -q" "run --rm --network none $IMAGE true" "network reload -a"; do
    nft flush ruleset; in_; out more
    tote $command >/dev/null
    in_; out web; out more
done
# Only what was lost comes again: what is there stays.
nft flush map inet tote ports-any
in_; tote network reload web; in_
tote network reload nosuch 2>&1 | head -n 1
"#;
    let round = "no way in\nno way out\n198.51.100.9\n198.51.100.2\n198.51.100.2\n";
    let first = "198.51.100.9\n198.51.100.2\n198.51.100.2\n";
    let last = "no way in\nweb\n198.51.100.9\ntote: No such container: nosuch\n";
    says(cx, script, &format!("{first}{round}{round}{round}{last}"))
}

fn later(cx: &Context) -> Result<()> {
    let script = r#"
serve web --network bridge -p 8080:80
out web; in_
docker; out web; in_
tote run --rm --network none "$IMAGE" true; out web; in_
tote rm -f web >/dev/null; down
nft list chain ip filter FORWARD | grep -c 'tote: ' || nft delete table ip filter
"#;
    let lines = "198.51.100.2\n198.51.100.9\nno way out\nno way in\n198.51.100.2\n198.51.100.9\n0\n";
    says(cx, script, lines)
}
