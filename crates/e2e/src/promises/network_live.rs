//! Containers that come into networks with names while they run, and leave them: they find names at once, and their `/etc/hosts` and
//! `/etc/resolv.conf` follow, whatever their root is made of.

use super::network_names::SERVER;
use super::networks::{NEEDS, on_machine_of};
use super::networks_rootless;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("network_live::names_and_files_follow_at_once", NEEDS, follow).slow(3),
    test(
        "network_live::those_who_share_a_network_follow_as_well",
        NEEDS,
        shared,
    ),
    test("network_live::what_a_container_has_written_stays", NEEDS, written),
    test(
        "network_live::no_link_of_a_containers_leads_to_another_file",
        NEEDS,
        planted,
    ),
    test(
        "network_live::a_program_with_a_lease_keeps_no_command_waiting",
        NEEDS,
        leased,
    ),
    test(
        "network_live::a_server_at_the_machines_loopback_device_is_asked",
        NEEDS,
        loopback,
    ),
    test("network_live::a_name_has_the_same_address_again", NEEDS, again),
    test(
        "rootless_networks::names_and_files_follow_at_once",
        networks_rootless::NEEDS,
        users,
    )
    .slow(2),
    test(
        "rootless_networks::flushed_rules_come_back_with_the_next_command",
        networks_rootless::NEEDS,
        flushed,
    )
    .slow(2),
    test(
        "rootless_networks::a_port_of_roots_container_is_refused",
        networks_rootless::NEEDS,
        held,
    )
    .slow(2),
];

/// A member of the network lab, and one of bridge, whose first process has both files open.
const WORDS: &str = r#"
member() { tote run -d --network bridge "$@" "$PLAIN" sh -c 'exec 3</etc/hosts 4</etc/resolv.conf; while :; do sleep 300; done' >/dev/null; }
# The image of the tests has no resolver that takes the first server alone.
find() { tote exec "$1" sh -c 'busybox nslookup -type=a db $(sed -n "s/nameserver //p" /etc/resolv.conf | head -n 1) 2>/dev/null | grep -o 192.168.77.9 || echo unknown'; }
see() { find "$1"; tote exec "$1" sh -c 'echo $(grep -c "^192.168.77.10" /proc/1/fd/3; grep nameserver /proc/1/fd/4; cmp /etc/hosts /proc/1/fd/3; cmp /etc/resolv.conf /proc/1/fd/4)'; }
tote run -d --network name=lab,ip=192.168.77.9 --name db "$PLAIN" sleep 300 >/dev/null
"#;

fn prints(cx: &Context, script: &str, lines: &str) -> Result<()> {
    let whole = format!("PLAIN=$IMAGE\n{SERVER}{WORDS}{script}");
    let out = on_machine_of(cx, &["--net", "--mount"], &whole)?;
    ensure!(out.code == 0 && out.out() == lines, "{}", out.transcript());
    cx.nothing_left()
}

fn follow(cx: &Context) -> Result<()> {
    let script = r#"
for how in '' --read-only '--driver split' '--driver split --read-only' --rm '--dns 198.51.100.9'; do
  echo "as '$how'"
  member $how --name web
  see web
  tote network connect --ip 192.168.77.10 lab web
  see web
  tote network disconnect lab web
  see web
  tote network connect --ip 192.168.77.10 lab web
  see web
  tote rm -f web >/dev/null
done
"#;
    let one = |how: &str, servers: &str| {
        let without = format!("unknown\n0 {servers}\n");
        let with = "192.168.77.9\n1 nameserver 127.0.0.11\n";
        format!("as '{how}'\n{without}{with}{without}{with}")
    };
    let both = "nameserver 198.51.100.2 nameserver 198.51.100.9";
    let mut lines = String::new();
    for how in [
        "",
        "--read-only",
        "--driver split",
        "--driver split --read-only",
        "--rm",
    ] {
        lines += &one(how, both);
    }
    lines += &one("--dns 198.51.100.9", "nameserver 198.51.100.9");
    prints(cx, script, &lines)
}

fn shared(cx: &Context) -> Result<()> {
    let script = r#"
member --name web
tote run -d --network container:web --name side "$PLAIN" sh -c 'exec 3</etc/hosts 4</etc/resolv.conf; while :; do sleep 300; done' >/dev/null
tote exec side grep -c "$(tote inspect -f '{{.NetworkSettings.IPAddress}}' web)" /etc/hosts
tote network connect --ip 192.168.77.10 lab web
see side
tote network disconnect lab web
see side
"#;
    let lines = "\
1
192.168.77.9
1 nameserver 127.0.0.11
unknown
0 nameserver 198.51.100.2 nameserver 198.51.100.9
";
    prints(cx, script, lines)
}

fn written(cx: &Context) -> Result<()> {
    let script = r#"
member --name web
tote exec web sh -c 'echo nameserver 192.0.2.1 > /etc/resolv.conf; echo 192.0.2.7 mine >> /etc/hosts; echo 192.0.2.8 first | cat - /etc/hosts > /tmp/h; cat /tmp/h > /etc/hosts'
tote network connect --ip 192.168.77.10 lab web 2>&1
tote exec web sh -c 'cat /etc/resolv.conf; grep -e mine -e first /etc/hosts; grep -c ^192.168.77.10 /etc/hosts; busybox nslookup -type=a db 127.0.0.11 | grep -o 192.168.77.9'
tote network disconnect lab web 2>&1
tote exec web sh -c 'cat /etc/resolv.conf; grep -e mine -e first /etc/hosts; grep -c ^192.168.77.10 /etc/hosts || true'
"#;
    let lines = "\
tote: warning: /etc/resolv.conf was changed in the container, and stays as it is: names of containers are found at 127.0.0.11
nameserver 192.0.2.1
192.0.2.8 first
192.0.2.7 mine
1
192.168.77.9
nameserver 192.0.2.1
192.0.2.8 first
192.0.2.7 mine
0
";
    prints(cx, script, lines)
}

fn planted(cx: &Context) -> Result<()> {
    let script = r#"
mkdir "$FILE.v"; echo before > "$FILE.v/victim"
for bad in 'ln -s /v/victim' 'ln -s ../v/victim' mkfifo mkdir; do
  member -v "$FILE.v:/v" --name web
  tote exec web sh -c "rm /etc/hosts /etc/resolv.conf; $bad /etc/hosts; $bad /etc/resolv.conf"
  tote network connect lab web
  cat "$FILE.v/victim"
  tote rm -f web >/dev/null
done
mkdir "$FILE.etc"; echo before > "$FILE.etc/hosts"; echo before > "$FILE.etc/resolv.conf"
for how in '' '--driver split'; do
  # Files of the machine's at both.
  tote run -d --network bridge $how -v "$FILE.etc/hosts:/etc/hosts" -v "$FILE.etc/resolv.conf:/etc/resolv.conf" --name web "$PLAIN" sleep 300 >/dev/null
  tote network connect lab web
  cat "$FILE.etc/hosts" "$FILE.etc/resolv.conf"
  tote rm -f web >/dev/null
  # A directory of the machine's at /etc.
  for access in rw ro; do
    tote run -d --network bridge $how -v "$FILE.etc:/etc:$access" --name web "$PLAIN" sleep 300 >/dev/null
    tote network connect lab web
    cat "$FILE.etc/hosts" "$FILE.etc/resolv.conf"
    tote rm -f web >/dev/null
  done
done
"#;
    prints(cx, script, &"before\n".repeat(16))
}

/// A program that has a lease (fcntl(2)) on one of the files keeps no command waiting for the time in which it may give it back.
fn leased(cx: &Context) -> Result<()> {
    let script = r#"
member --name web
mkfifo "$FILE.leased"
perl -e '$SIG{IO} = "IGNORE"; open F, "<", "/proc/$ARGV[0]/root/etc/hosts" or die; fcntl(F, 1024, 0) or die "no lease: $!";
open P, ">", $ARGV[1] or die; print P "leased\n"; close P; sleep 300' "$(tote inspect -f '{{.State.Pid}}' web)" "$FILE.leased" >/dev/null &
holder=$!
cat "$FILE.leased"
tote network connect --ip 192.168.77.10 lab web 2>&1 | grep -o 'its next start: .*available'
kill $holder
find web
"#;
    let lines = "\
leased
its next start: cannot change the container's /etc/hosts: Resource temporarily unavailable
192.168.77.9
";
    prints(cx, script, lines)
}

/// Such as dnsmasq and unbound are, where no systemd-resolved is that tells which servers it asks.
fn loopback(cx: &Context) -> Result<()> {
    let script = r#"
printf 'search lan\nnameserver 127.0.0.1\noptions timeout:2\n' > "$FILE.resolv"
perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Proto => "udp", LocalAddr => "127.0.0.1", LocalPort => 53) or die;
while ($s->recv($m, 4096)) { ($name) = $m =~ /^.{12}(.*?\0)/s; $n = 1 == unpack "n", substr $m, 12 + length $name;
  $s->send(substr($m, 0, 2) . "\x81\x80\0\1" . pack("n", $n) . "\0\0\0\0" . substr($m, 12, 4 + length $name) . ("\xc0\x0c\0\1\0\1\0\0\0\0\0\4\xc0\0\2\x4d" x $n)) }' >/dev/null 2>&1 &
teller="$teller $!"
while ! grep -q '0100007F:0035 00000000:0000 07' /proc/net/udp; do sleep 0.02; done
ask='busybox nslookup -type=a example.org 127.0.0.11 | grep -o "192.0.2.77"; cat /etc/resolv.conf'
tote run --rm --network bridge "$PLAIN" sh -c "$ask"
tote run -d --network bridge --read-only --name web "$PLAIN" sleep 300 >/dev/null
tote exec web sh -c "$ask" | head -n 1
# Names of containers come with the first network that has them, and go with it.
find web
tote network connect lab web
find web
tote network disconnect lab web
find web
tote exec web sh -c "$ask" | head -n 1
# What is asked for is not replaced.
tote run --rm --network bridge --dns 192.0.2.1 "$PLAIN" cat /etc/resolv.conf
"#;
    let lines = "\
192.0.2.77
nameserver 127.0.0.11
search lan
options timeout:2
192.0.2.77
unknown
192.168.77.9
unknown
192.0.2.77
nameserver 192.0.2.1
search lan
options timeout:2
";
    prints(cx, script, lines)
}

fn again(cx: &Context) -> Result<()> {
    let script = r#"
address() { tote inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}' "$1"; }
run() { tote run -d "$@" "$PLAIN" sleep 300 >/dev/null; }
same() { [ "$(address "$1")" = "$first" ] && echo same || echo "$(address "$1") is not $first"; }
# So wide that no other container has the address by chance.
tote network create --subnet 10.77.0.0/16 wide >/dev/null
tote network create --ipv6 --subnet 10.80.0.0/16 --subnet fd00:80::/64 both >/dev/null
for net in bridge wide both; do
  run --network $net --name web; first=$(address web)
  tote rm -f web >/dev/null; run --network $net; run --network $net --name web; same web
  # As compose does it: the other one is there before the first one goes.
  tote rename web old_web
  tote create --network $net --name web "$PLAIN" sleep 300 >/dev/null
  tote stop -t 0 old_web >/dev/null; tote rm old_web >/dev/null; tote start web >/dev/null; same web
  # While another one has it, the next one is given.
  tote rename web old_web; run --network $net --name web
  [ "$(address web)" != "$first" ] && echo another
  tote rm -f web old_web >/dev/null
done
"#;
    prints(cx, script, &"same\nsame\nanother\n".repeat(3))
}

fn users(cx: &Context) -> Result<()> {
    let script = format!(
        r#"
PLAIN=$IMAGE
tote network create --subnet 192.168.77.0/24 --ip-range 192.168.77.128/25 lab >/dev/null
{WORDS}
for how in '' --read-only; do
  member $how --name web
  see web | sed 's/nameserver.*/elsewhere/'
  tote network connect --ip 192.168.77.10 lab web
  see web
  tote network disconnect lab web
  see web | sed 's/nameserver.*/elsewhere/'
  tote rm -f web >/dev/null
done
"#
    );
    let one = "unknown\n0 elsewhere\n192.168.77.9\n1 nameserver 127.0.0.11\nunknown\n0 elsewhere\n";
    networks_rootless::shows(cx, &script, &one.repeat(2))
}

fn flushed(cx: &Context) -> Result<()> {
    let script = r#"
serve web -p 8188:80
asked() { in_server busybox nc -w 3 198.51.100.2 8188 </dev/null; }
inside() { nsenter --net=/proc/$(pgrep -u $USER_ID '^pas(ta|st)')/fd/0 "$@"; }
# Connections out are led by pasta from then on.
rules() { inside nft list ruleset | sed '/log group/d; /socket transparent/d; /chain onward/,/}/d; /^$/d'; }
rules > "$FILE.before"; grep -c 'table inet tote {' "$FILE.before"
inside nft flush ruleset
rules
tote ps >/dev/null
rules > "$FILE.after"
for table in tote tote-clients; do
  for file in before after; do sed -n "/^table inet $table {/,/^}/p" "$FILE.$file" > "$FILE.$file-$table"; done
  diff "$FILE.before-$table" "$FILE.after-$table" && echo again
done
asked
tote exec web sh -c "$HEAR"
"#;
    networks_rootless::shows(cx, script, "1\nagain\nagain\n198.51.100.9\n198.51.100.2\n")
}

fn held(cx: &Context) -> Result<()> {
    let script = r#"
roots() { "$TOTE" --root "$FILE.roots" "$@"; }
roots run -d --network bridge -p 8188:80 --name held "$IMAGE" busybox nc -ll -p 80 -e echo held >/dev/null
while [ "$(busybox nc -w 1 127.0.0.1 8188 </dev/null 2>/dev/null)" != held ]; do sleep 0.02; done
tote run --rm -p 8188:80 "$IMAGE" true 2>&1 | grep -o 'port 8188/tcp is already used by the packet filter of this machine'
roots rm -f held >/dev/null
while nft list table inet tote >/dev/null 2>&1; do sleep 0.02; done
tote run --rm -p 8188:80 "$IMAGE" echo free
"#;
    let lines = "port 8188/tcp is already used by the packet filter of this machine\nfree\n";
    networks_rootless::shows(cx, script, lines)
}
