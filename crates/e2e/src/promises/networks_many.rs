//! Many containers at once in a network, and networks beside the rules of firewalls that are loaded again.

use super::networks::{NEEDS, prints};
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test(
        "networks_many::fifty_containers_never_share_an_address",
        NEEDS,
        fifty,
    ),
    test(
        "networks_many::rules_of_firewalls_are_loaded_again",
        NEEDS,
        reloaded,
    ),
    test("networks_many::another_way_out_is_followed", NEEDS, rerouted),
];

/// The machine gets another uplink, and IPv6, while a container keeps the network up; the next container makes them ways out for all.
fn rerouted(cx: &Context) -> Result<()> {
    let script = r#"
look > "$FILE.before"
tote network create --subnet 192.168.77.0/24 --subnet fd00:77::/64 lab >/dev/null
tote run -d --network lab --name web "$IMAGE" sleep 300 >/dev/null
ip link add up1 type veth peer name s1 netns $server
ip addr add 203.0.113.2/24 dev up1; ip -6 addr add 2001:db8::2/64 dev up1 nodad; ip link set up1 up
in_server ip addr add 203.0.113.9/24 dev s1; in_server ip -6 addr add 2001:db8::9/64 dev s1 nodad; in_server ip link set s1 up
in_server ip addr add 203.0.113.77/32 dev lo
nsenter -t $server -n perl -MSocket=:all -e 'socket $s, AF_INET6, SOCK_STREAM, 0; setsockopt $s, SOL_SOCKET, SO_REUSEADDR, 1; setsockopt $s, IPPROTO_IPV6, IPV6_V6ONLY, 1;
bind $s, pack_sockaddr_in6(80, IN6ADDR_ANY) or die; listen $s, 9; while ($peer = accept $c, $s) { syswrite $c, inet_ntop(AF_INET6, (unpack_sockaddr_in6 $peer)[1]) . "
"; close $c }' >/dev/null 2>&1 & teller="$teller $!"
while ! in_server grep -q ':0050 0*:0000 0A' /proc/net/tcp6; do sleep 0.02; done
ip route replace default via 203.0.113.9; ip -6 route add default via 2001:db8::9
try() { "$@" busybox nc -w 2 203.0.113.77 80 </dev/null || echo none; "$@" busybox nc -w 2 2001:db8::9 80 </dev/null || echo none; }
try tote exec web 2>/dev/null
cat /proc/sys/net/ipv4/conf/up1/forwarding
try tote run --rm --network lab "$IMAGE"
try tote exec web
cat /proc/sys/net/ipv4/conf/up1/forwarding /proc/sys/net/ipv4/ip_forward
# No router either: what comes in by it for somebody else is dropped.
nft list chain inet tote guard | grep -o 'iifname "up[01]"' | cut -d ' ' -f 2 | sort
tote rm -f web >/dev/null
down
cat /proc/sys/net/ipv4/conf/up1/forwarding /proc/sys/net/ipv6/conf/up1/force_forwarding
ip link del up1; ip route replace default via 198.51.100.9
look | cmp "$FILE.before" -
"#;
    let lines = "\
none
none
0
203.0.113.2
2001:db8::2
203.0.113.2
2001:db8::2
1
0
\"up0\"
\"up1\"
\"up1\"
0
0
";
    prints(cx, script, lines)
}

fn fifty(cx: &Context) -> Result<()> {
    let script = r#"
tote network create lab >/dev/null
begin() { tote run -d --network lab --name $1 "$IMAGE" sleep 300 >/dev/null; }
addresses() { tote ps -q | xargs -r "$TOTE" --root "$STATE" inspect -f '{{.NetworkSettings.Networks.lab.IPAddress}}'; }
jobs=
for block in 0 1 2 3 4; do
  (for place in 0 1 2 3 4 5 6 7 8 9; do begin c$block$place; done) & jobs="$jobs $!"
done
for job in $jobs; do wait $job; done
addresses | sort -u | wc -l
ls "$STATE/networks/lab/leases" | wc -l
# They end in some order, by a command, with their monitor or with their program, while others begin.
(for place in 0 1 2 3 4 5 6 7 8 9; do begin d$place; done) & job=$!
for name in $(perl -MList::Util=shuffle -e 'srand 7; print join " ", shuffle map { sprintf "c%02d", $_ } 0 .. 49'); do
  case $name in
    *[0369]) tote rm -f -t 0 $name >/dev/null ;;
    *[147]) for pid in $(pgrep -f "^tote monitor $name\$" --ns $$ --nslist net); do kill -9 $pid; done ;;
    *) kill -9 $(tote inspect -f '{{.State.Pid}}' $name) ;;
  esac
done
wait $job
# Those whose monitor was killed end at once, and the next command finds what they have left.
while [ "$(tote ps -q | wc -l)" != 10 ]; do sleep 0.02; done
tote run --rm --network none "$IMAGE" true
while [ "$(ls "$STATE/networks/lab/leases" | wc -l)" != 10 ]; do tote run --rm --network none "$IMAGE" true; done
addresses | sort -u | wc -l
addresses | sort > "$FILE.told"; ls "$STATE/networks/lab/leases" | sort | cmp - "$FILE.told"
tote rm -fa -t 0 >/dev/null
down
ls "$STATE/networks/lab/leases" | wc -l
tote network rm lab >/dev/null
"#;
    prints(cx, script, "50\n50\n10\n0\n")
}

fn reloaded(cx: &Context) -> Result<()> {
    let script = r#"
# As ufw has them, with the rules that let networks pass; `flush table` and all chains again is a reload.
cat > "$FILE.ufw" <<'END'
table ip filter { }
flush table ip filter
table ip filter {
  chain ufw-user-forward { iifname "tote-*" accept
    oifname "tote-*" accept
  }
  chain INPUT { type filter hook input priority 0; policy drop; iifname "lo" accept
    ct state established,related accept
    tcp dport 22 accept
  }
  chain FORWARD { type filter hook forward priority 0; policy drop; ct state established,related accept
    jump ufw-user-forward
  }
}
END
# As firewalld has them: a table of its own that rejects what no zone takes, removed and made again.
cat > "$FILE.firewalld" <<'END'
table inet firewalld { }
delete table inet firewalld
table inet firewalld {
  chain filter_FORWARD { type filter hook forward priority 10; policy accept; ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    iifname "tote-*" accept
    reject with icmpx type admin-prohibited
  }
  chain nat_POSTROUTING { type nat hook postrouting priority 110; policy accept; }
}
END
load() { nft -f "$FILE.ufw"; nft -f "$FILE.firewalld"; }
foreign() { nft list table ip filter; nft list table inet firewalld; }
talks() { tote exec web busybox nc 198.51.100.9 80 </dev/null; in_server busybox nc -w 2 198.51.100.2 8080 </dev/null; }
load
foreign > "$FILE.before"
look > "$FILE.all"
tote run -d --network bridge -p 8080:80 --name web "$IMAGE" sh -c 'while :; do echo web | busybox nc -l -p 80 >/dev/null; done' >/dev/null 2>"$FILE.err"
while ! tote exec web grep -q ':0050 0*:0000 0A' /proc/net/tcp /proc/net/tcp6 2>/dev/null; do sleep 0.02; done
talks
foreign | cmp - "$FILE.before"
load
while ! tote exec web grep -q ':0050 0*:0000 0A' /proc/net/tcp /proc/net/tcp6 2>/dev/null; do sleep 0.02; done
talks
foreign | cmp - "$FILE.before"
# A reload that flushes everybody's rules: the next container brings the network's back, with the port.
nft flush ruleset; load
tote run --rm --network bridge "$IMAGE" busybox nc 198.51.100.9 80 </dev/null 2>>"$FILE.err"
while ! tote exec web grep -q ':0050 0*:0000 0A' /proc/net/tcp /proc/net/tcp6 2>/dev/null; do sleep 0.02; done
talks
tote rm -f -t 0 web >/dev/null
down
look | cmp - "$FILE.all"
"#;
    let talk = "198.51.100.2\nweb\n";
    prints(cx, script, &format!("{talk}{talk}198.51.100.2\n{talk}"))
}
