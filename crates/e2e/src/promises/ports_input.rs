//! Published ports that pass the machine's rules for its own programs, see the setting `publish` of `network.json`.

use super::networks::NEEDS;
use super::ports::shows;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test(
        "ports::the_setting_says_whose_rules_a_client_passes",
        NEEDS,
        passed,
    ),
    test("ports::ports_with_a_listener_are_like_others", NEEDS, alike),
    test("ports::ports_with_a_listener_move_and_come_back", NEEDS, moved),
    test("ports::datagrams_pass_a_listener_as_well", NEEDS, datagrams),
    test("ports::a_connection_ends_with_its_container", NEEDS, ended),
    test("ports::a_killed_listener_is_replaced", NEEDS, killed),
    test(
        "ports::a_stopped_listener_is_named_and_not_waited_for",
        NEEDS,
        stopped,
    ),
    test(
        "ports::a_listener_without_room_serves_commands_and_clients_that_wait",
        NEEDS,
        crowded,
    ),
    test("ports::a_damaged_network_closes_no_port", NEEDS, damaged),
];

/// Begins scripts: the setting, and what ends with the last port.
const INPUT: &str = r#"
export TOTE_PUBLISH=input
outside() { in_server busybox nc -w ${2:-3} 198.51.100.2 $1 </dev/null 2>/dev/null || echo refused; }
# The process that listens, of this state root.
listener() { grep -las '^tote published ports' /proc/[0-9]*/cmdline | cut -d / -f 3 | while read one; do ! [ /proc/$one/ns/net -ef /proc/self/ns/net ] || echo $one; done; }
# What else such ports need of the machine.
seen() { look; ip rule; ip -6 rule; ip -4 route show table all | sort; ip -6 route show table all | grep 'table [0-9]' || true; }
nobody() { while [ -n "$(listener)" ]; do sleep 0.02; done; }
"#;

fn shows_input(cx: &Context, script: &str, lines: &str) -> Result<()> {
    shows(cx, &format!("{INPUT}{script}"), lines)
}

fn passed(cx: &Context) -> Result<()> {
    let script = r#"
nft add table inet wall
nft add chain inet wall in '{ type filter hook input priority 0; policy drop; }'
nft add rule inet wall in ct state established accept
nft add rule inet wall in iifname lo accept
seen > "$FILE.before"
for word in forward input; do
    export TOTE_PUBLISH=$word
    serve web -p 8080:80
    echo $word: $(outside 8080 1)
    tote rm -ft 0 web >/dev/null
done
rule=$(nft -ae add rule inet wall in iifname up0 tcp dport 8080 accept | grep -o 'handle [0-9]*')
serve web -p 8080:80
echo a rule: $(outside 8080)
tote rm -ft 0 web >/dev/null
nft delete rule inet wall in $rule
# The file says it for the machine, and a variable for a command.
unset TOTE_PUBLISH
export HOME="$FILE.home"; mkdir -p "$HOME/.config/tote"
echo '{"publish": "input"}' > "$HOME/.config/tote/network.json"
serve web -p 8080:80
outside 8080 1
tote rm -ft 0 web >/dev/null
echo '{"publish": "door"}' > "$HOME/.config/tote/network.json"
tote run --rm -p 8080:80 "$IMAGE" true 2>&1 | grep -o 'invalid publish "door".*'
rm "$HOME/.config/tote/network.json"
down; nobody
seen > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
"#;
    let lines = "\
forward: 198.51.100.9
input: refused
a rule: 198.51.100.9
refused
invalid publish \"door\": give forward or input, the rules of this machine that clients of published ports pass
";
    shows_input(cx, script, lines)
}

fn alike(cx: &Context) -> Result<()> {
    let script = r#"
seen > "$FILE.before"
tote run -d -p 8080:80 --name late "$IMAGE" sleep 300 >/dev/null
# Nobody listens yet: the client gets a reset at once, and not an answer that never comes.
in_server perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new("198.51.100.2:8080") or die; $s->sysread($got, 9) or print "$!\n"'
tote rm -ft 0 late >/dev/null
serve web -p 8080:80 -p 127.0.0.1:8081:80
for address in 127.0.0.1:8080 127.0.0.1:8081 198.51.100.2:8080 198.51.100.2:8081; do echo $address $(ask ${address%:*} ${address#*:} | grep -vc refused || true); done
echo outside $(outside 8080) $(outside 8081)
tote port web
tote ps --format '{{.Ports}}'
tote run --rm -p 8080:81 "$IMAGE" true 2>&1 || echo $?
TOTE_PUBLISH=forward tote run --rm -p 8080:81 "$IMAGE" true 2>&1 || echo $?
listen 127.0.0.1
tote run --rm -p 7000:80 "$IMAGE" true 2>&1 | sed "s/process $listener /process PID /"
tote run --rm -p 9000:80/sctp "$IMAGE" true 2>&1 || echo $?
tote port add web -p 9090:80
outside 9090
tote port rm web 9090:80
outside 9090
# A neighbour, and the container itself.
tote run --rm --network bridge "$IMAGE" sh -c 'busybox nc -w 3 198.51.100.2 8080 </dev/null' | grep -c '^10\.'
tote exec web busybox nc -w 3 198.51.100.2 8080 </dev/null | grep -c '^10\.'
# A container of another network, which is masqueraded on the way.
tote network create --subnet 192.168.77.0/24 lab >/dev/null
tote run --rm --network name=lab,ip=192.168.77.7 "$IMAGE" busybox nc -w 3 198.51.100.2 8080 </dev/null
tote network rm lab >/dev/null
# One process for all of them, and none after them.
serve more -p 8090:80 -p 8091:80
listener | wc -l
tote rm -ft 0 web more >/dev/null
down; nobody
seen > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
"#;
    let lines = "\
Connection reset by peer
127.0.0.1:8080 1
127.0.0.1:8081 1
198.51.100.2:8080 1
198.51.100.2:8081 0
outside 198.51.100.9 refused
80/tcp -> 0.0.0.0:8080
80/tcp -> 127.0.0.1:8081
0.0.0.0:8080->80/tcp, 127.0.0.1:8081->80/tcp
tote: cannot publish 0.0.0.0:8080: port 8080/tcp is already used by container web
125
tote: cannot publish 0.0.0.0:8080: port 8080/tcp is already used by container web
125
tote: cannot publish 0.0.0.0:7000: port 7000/tcp is already used by process PID (perl) of this machine
tote: cannot publish a port of sctp so that it passes this machine's rules for its own programs: that is for tcp and udp; publish it with TOTE_PUBLISH=forward
125
80/tcp -> 0.0.0.0:9090
198.51.100.9
refused
1
1
10.210.0.1
1
";
    shows_input(cx, script, lines)
}

fn moved(cx: &Context) -> Result<()> {
    let script = r#"
seen > "$FILE.before"
tote network create --subnet 192.168.77.0/24 one >/dev/null
tote network create --subnet 192.168.78.0/24 two >/dev/null
serve web --network one --network two -p 8080:80
outside 8080
tote network disconnect one web
outside 8080
tote network disconnect two web
outside 8080
tote network connect one web
outside 8080
tote restart -t 0 web >/dev/null; listens web
outside 8080
# Rules that were flushed come back with the next container.
nft flush ruleset
tote run --rm --network one "$IMAGE" true
outside 8080
nft list map inet tote ports-listened | grep -c comment
kill -9 $(awk '/^PPid/ { print $2 }' /proc/$(tote inspect -f '{{.State.Pid}}' web)/status); while tote ps -q | grep -q .; do sleep 0.02; done
tote rm -f web >/dev/null
down; nobody
tote network rm one two >/dev/null
seen > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
"#;
    let lines = "\
198.51.100.9
198.51.100.9
refused
198.51.100.9
198.51.100.9
198.51.100.9
1
";
    shows_input(cx, script, lines)
}

fn datagrams(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --name echo -p 5353:53/udp "$IMAGE" sleep 300 >/dev/null
inside=$(tote inspect -f '{{.State.Pid}}' echo)
nsenter -t $inside -n perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Proto => "udp", LocalPort => 53) or die;
while ($s->recv($got, 99)) { chomp $got; $s->send("$got " . $s->peerhost . "\n") }' >/dev/null 2>&1 & teller="$teller $!"
while ! grep -q ':0035 00000000:0000 07' /proc/$inside/net/udp; do sleep 0.02; done
SEND='$s = IO::Socket::INET->new(Proto => "udp", PeerAddr => $ARGV[0]) or die;
$s->send("hello\n"); $SIG{ALRM} = sub { print "nothing\n"; exit }; alarm 3; $s->recv($got, 99); print $got'
in_server perl -MIO::Socket::INET -e "$SEND" 198.51.100.2:5353
perl -MIO::Socket::INET -e "$SEND" 127.0.0.1:5353 | cut -d " " -f 1
nft add table inet wall
nft add chain inet wall in '{ type filter hook input priority 0; policy accept; }'
nft add rule inet wall in udp dport 5353 drop
in_server perl -MIO::Socket::INET -e "$SEND" 198.51.100.2:5353
"#;
    shows_input(cx, script, "hello 198.51.100.9\nhello\nnothing\n")
}

/// A client that goes on listening keeps neither the process nor what the container said last.
fn ended(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d -p 8080:80 --name web "$IMAGE" busybox nc -ll -p 80 -e sh -c 'echo first; exec sleep 300' >/dev/null; listens web
nsenter -t $server -n perl -MIO::Socket::INET -e '$| = 1; $s = IO::Socket::INET->new("198.51.100.2:8080") or die; print scalar <$s>; sleep 300' > "$FILE.heard" & client=$!
while [ ! -s "$FILE.heard" ]; do sleep 0.02; done
# Nothing of the connection ends with the port.
tote port rm web 80; listener | wc -l
tote rm -ft 0 web >/dev/null
nobody
kill $client; cat "$FILE.heard"
tote run -d --rm -p 8080:80 --name last "$IMAGE" sh -c 'busybox nc -l -p 80 -e sh -c "busybox seq 100000"' >/dev/null; listens last
outside 8080 | tail -n 1
nobody
"#;
    shows_input(cx, script, "1\nfirst\n100000\n")
}

fn killed(cx: &Context) -> Result<()> {
    let script = r#"
serve web -p 8080:80
kill -9 $(listener); nobody
outside 8080
# The next port that is published brings back the others.
serve more -p 8090:80
for port in 8080 8090; do outside $port; done
"#;
    shows_input(cx, script, "refused\n198.51.100.9\n198.51.100.9\n")
}

fn stopped(cx: &Context) -> Result<()> {
    let script = r#"
serve web -p 8080:80
kill -STOP $(listener)
begin=$(date +%s)
tote run -d -p 8090:80 --name late "$IMAGE" sleep 300 2>&1 | sed 's/process [0-9][0-9]*.*, has/PROCESS has/' || true
[ $(($(date +%s) - begin)) -lt 30 ] && echo in time
# Other containers and networks go on.
tote run --rm "$IMAGE" echo alive
kill -CONT $(listener)
serve more -p 8090:80
outside 8090
"#;
    let lines = "\
tote: cannot ask the process that keeps networks or listens at published ports: PROCESS has not answered for 10 s
in time
alive
198.51.100.9
";
    shows_input(cx, script, lines)
}

/// The listener has descriptors for a few connections only. Clients that stay silent have them all.
fn crowded(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --name web -p 8080:80 "$IMAGE" sleep 300 >/dev/null
nsenter -t $(tote inspect -f '{{.State.Pid}}' web) -n perl -MIO::Socket::INET -MIO::Select -e '$s = IO::Socket::INET->new(Listen => 128, LocalPort => 80) or die;
$all = IO::Select->new($s); while (@ready = $all->can_read) { for $one (@ready) {
if ($one == $s) { $c = $s->accept; syswrite $c, "hi\n"; $all->add($c) } elsif (!sysread $one, $got, 9) { $all->remove($one); close $one } } }' >/dev/null 2>&1 & teller="$teller $!"
listens web
prlimit --pid $(listener) --nofile=64:64
cat > "$FILE.clients" <<'END'
use IO::Socket::INET;
use IO::Select;
$| = 1;
my @clients = map { IO::Socket::INET->new("198.51.100.2:8080") or die } 1..60;
print "connected\n";
<STDIN>;
my $answered = 0;
# Each client that goes makes room for another one, which no event announces.
for my $client (@clients) {
    $answered++ if IO::Select->new($client)->can_read(10) && $client->sysread(my $got, 9);
    close $client;
}
print "$answered answered\n";
END
mkfifo "$FILE.go" "$FILE.said"
nsenter -t $server -n perl "$FILE.clients" < "$FILE.go" > "$FILE.said" & exec 7> "$FILE.go" 8< "$FILE.said"
read -r line <&8; echo $line
tote run -d -p 8090:80 --name more "$IMAGE" sleep 300 >/dev/null && echo published
echo >&7
read -r line <&8; echo $line
"#;
    shows_input(cx, script, "connected\npublished\n60 answered\n")
}

/// Neither the record of another network nor that of the container's own takes a port away that is led.
fn damaged(cx: &Context) -> Result<()> {
    let script = r#"
seen > "$FILE.before"
serve web -p 8080:80
tote network create lab >/dev/null
record="$STATE/networks/lab/network.json"
for how in empty newer directory; do
    rm -rf "$record"
    case $how in
    empty) : > "$record" ;;
    newer) echo '{"version":99}' > "$record" ;;
    *) mkdir "$record" ;;
    esac
    serve $how -p 8090:80
    echo $how $(outside 8080) $(outside 8090)
    tote rm -ft 0 $how >/dev/null
    echo $how $(outside 8080) $(outside 8090 1)
done
tote network rm lab
# The network of the container itself: it stays in it until it ends, and then the network is made anew.
tote network create other >/dev/null
: > "$STATE/networks/bridge/network.json"
tote run -d -p 8091:80 --name late "$IMAGE" true 2>&1 | grep -o 'network bridge cannot be used'
serve more --network other -p 8090:80
echo own $(outside 8080) $(outside 8090)
tote rm -ft 0 web more
down; nobody
tote run --rm --network bridge "$IMAGE" true && echo anew
tote network rm other
down
seen > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
"#;
    let lines = "\
empty 198.51.100.9 198.51.100.9
empty 198.51.100.9 refused
newer 198.51.100.9 198.51.100.9
newer 198.51.100.9 refused
directory 198.51.100.9 198.51.100.9
directory 198.51.100.9 refused
lab
network bridge cannot be used
own 198.51.100.9 198.51.100.9
web
more
anew
other
";
    shows_input(cx, script, lines)
}
