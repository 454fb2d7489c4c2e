//! Names of containers in networks, each test on a machine of its own with a server of DNS beyond the uplink.

use super::networks::{NEEDS, on_machine_of};
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("network_names::containers_are_found_by_their_names", NEEDS, found),
    test(
        "network_names::members_of_other_networks_are_not_found",
        NEEDS,
        apart,
    ),
    test(
        "network_names::other_names_go_to_the_hosts_servers",
        NEEDS,
        relayed,
    ),
    test(
        "network_names::servers_of_dns_are_asked_from_inside",
        NEEDS,
        asked_inside,
    ),
    test(
        "network_names::they_are_there_however_a_container_runs",
        NEEDS,
        alive,
    ),
    test("network_names::a_program_may_have_the_port_of_dns", NEEDS, port),
    test(
        "network_names::answers_are_right_while_containers_come_and_go",
        NEEDS,
        churn,
    )
    .slow(10),
    test("network_names::hostile_packets_change_nothing", NEEDS, hostile),
    test(
        "network_names::a_container_is_connected_while_it_runs",
        NEEDS,
        connected,
    ),
    test(
        "network_names::a_container_that_does_not_run_is_connected",
        NEEDS,
        connected_later,
    ),
    test(
        "network_names::a_link_is_a_name_that_one_container_has_for_another",
        NEEDS,
        linked,
    ),
    test(
        "network_names::connections_that_cannot_be_have_dockers_words",
        NEEDS,
        refused,
    ),
];

/// A server that knows one answer, 192.0.2.53, and writes down what it is asked. The machine asks it after one that is not
/// there. `ask` prints the addresses of a name, or nothing.
pub(super) const SERVER: &str = r#"
printf 'search lan\nnameserver 198.51.100.2\nnameserver 198.51.100.9\n' > "$FILE.resolv"
mount --bind "$FILE.resolv" /etc/resolv.conf
nsenter -t $server -n perl -MIO::Socket::INET -e '$| = 1; $s = IO::Socket::INET->new(Proto => "udp", LocalPort => 53) or die;
while ($s->recv($m, 4096)) { ($name) = $m =~ /^.{12}(.*?\0)/s; $kind = unpack "n", substr $m, 12 + length $name;
  print $name =~ s/[\x00-\x1f]/./gr, "\n"; $n = $kind == 1; $question = substr $m, 12, 4 + length $name;
  $s->send(substr($m, 0, 2) . "\x81\x80\0\1" . pack("n", $n) . "\0\0\0\0" . $question . ("\xc0\x0c\0\1\0\1\0\0\0\0\0\4\xc0\0\2\x35" x $n)) }' > "$FILE.asked" 2>&1 &
teller="$teller $!"
while ! in_server grep -q ':0035 00000000:0000 07' /proc/net/udp; do sleep 0.02; done
ASK='for n in "$@"; do echo "$n" $(getent ahostsv4 "$n" | sed -n "s/ *STREAM.*//p" | sort); done'
# The image of the tests has no getent.
IMAGE=host
tote network create --subnet 192.168.77.0/24 --ip-range 192.168.77.128/25 lab >/dev/null
"#;

fn prints(cx: &Context, script: &str, lines: &str) -> Result<()> {
    let out = on_machine_of(cx, &["--net", "--mount"], &format!("{SERVER}{script}"))?;
    ensure!(out.code == 0 && out.out() == lines, "{}", out.transcript());
    cx.nothing_left()
}

fn found(cx: &Context) -> Result<()> {
    let script = r#"
id=$(tote run -d --network name=lab,ip=192.168.77.10,alias=db.one --network-alias www --name web -h Box "$IMAGE" sleep 300)
tote run -d --network name=lab,ip=192.168.77.11,alias=www --name web2 "$IMAGE" sleep 300 >/dev/null
short=$(echo $id | cut -c 1-12)
tote run --rm --network lab --name asker "$IMAGE" sh -c "$ASK" - web WEB box db.one web.lab www
tote run --rm --network lab "$IMAGE" getent ahostsv4 $short | grep -c '^192.168.77.10 *STREAM'
tote run --rm --network lab "$IMAGE" sh -c 'getent hosts 192.168.77.11; busybox nslookup -type=a web 127.0.0.11 | grep -c 77.10; cat /etc/resolv.conf'
# All addresses, each of them first one time or another.
tote run --rm --network lab "$IMAGE" sh -c 'for n in $(seq 40); do getent ahostsv4 www | head -n 1 | cut -d" " -f1; done' | sort -u
tote rename web site
tote exec web2 sh -c "$ASK" - site web | sed 's/ 192.0.2.53/ elsewhere/'
tote rm -f site >/dev/null
tote exec web2 sh -c "$ASK" - www site | sed 's/ 192.0.2.53/ elsewhere/'
"#;
    let lines = "\
web 192.168.77.10
WEB 192.168.77.10
box 192.168.77.10
db.one 192.168.77.10
web.lab 192.168.77.10
www 192.168.77.10 192.168.77.11
1
192.168.77.11   web2.lab
1
nameserver 127.0.0.11
search lan
options ndots:0
192.168.77.10
192.168.77.11
site 192.168.77.10
web elsewhere
www 192.168.77.11
site elsewhere
";
    prints(cx, script, lines)
}

fn apart(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --internal --subnet 192.168.78.0/24 --ip-range 192.168.78.128/25 other >/dev/null
tote run -d --network name=other,ip=192.168.78.10 --name far "$IMAGE" sleep 300 >/dev/null
tote run -d --network bridge --name default "$IMAGE" sleep 300 >/dev/null
tote run -d --network name=lab,ip=192.168.77.10 --name near "$IMAGE" sleep 300 >/dev/null
tote run --rm --network lab "$IMAGE" sh -c "$ASK" - far far.other default near
tote run --rm --network lab --network other "$IMAGE" sh -c "$ASK" - far near
# Whoever is in internal networks alone learns nothing from outside, nor tells anything there.
tote run --rm --network other "$IMAGE" sh -c "$ASK" - near secret.example.org far
! grep secret "$FILE.asked"
tote run --rm --network bridge "$IMAGE" grep nameserver /etc/resolv.conf
"#;
    let lines = "\
far 192.0.2.53
far.other 192.0.2.53
default 192.0.2.53
near 192.168.77.10
far 192.168.78.10
near 192.168.77.10
near
secret.example.org
far 192.168.78.10
nameserver 198.51.100.2
nameserver 198.51.100.9
";
    prints(cx, script, lines)
}

fn relayed(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --network lab --name a "$IMAGE" sleep 300 >/dev/null
tote exec a sh -c "$ASK" - example.org plain
grep -q '^.example.org.$' "$FILE.asked" && grep -c '^.plain.$' "$FILE.asked" | sed 's/[1-9].*/asked/'
# What is changed on the host counts from then on, and a server that is not there is passed over.
printf 'nameserver 198.51.100.2\n' > "$FILE.resolv"
tote exec a getent ahostsv4 example.org || echo nobody
printf 'nameserver 198.51.100.9\n' > "$FILE.resolv"
tote exec a sh -c "$ASK" - example.org
tote run --rm --network lab --dns-search a.b --dns-option ndots:3 --dns-option timeout:1 "$IMAGE" cat /etc/resolv.conf
"#;
    let lines = "\
example.org 192.0.2.53
plain 192.0.2.53
asked
nobody
example.org 192.0.2.53
nameserver 127.0.0.11
search a.b
options ndots:3 timeout:1
";
    prints(cx, script, lines)
}

fn asked_inside(cx: &Context) -> Result<()> {
    let script = r#"
tote run --rm --network lab --dns 198.51.100.9 "$IMAGE" sh -c "$ASK; grep nameserver /etc/resolv.conf" - example.org
# A server of the container's own, and one that would ask itself.
tote run --rm --network lab --dns 127.0.0.1 "$IMAGE" sh -c 'perl -MIO::Socket::INET -e "\$s = IO::Socket::INET->new(Proto => q(udp), LocalAddr => q(127.0.0.1), LocalPort => 53) or die; close STDOUT;
\$s->recv(\$m, 4096); print STDERR qq(heard\n); exit" 2>&1 >/dev/null &
while ! grep -q "0100007F:0035" /proc/net/udp; do sleep 0.02; done
busybox timeout 1 getent ahostsv4 example.org; wait'
tote run --rm --network lab --dns 127.0.0.11 "$IMAGE" getent ahostsv4 example.org || echo nobody
"#;
    prints(
        cx,
        script,
        "example.org 192.0.2.53\nnameserver 127.0.0.11\nheard\nnobody\n",
    )
}

fn alive(cx: &Context) -> Result<()> {
    let script = r#"
asks() { "$@" sh -c "$ASK" - web; }
tote create --network name=lab,ip=192.168.77.10 --name web "$IMAGE" sh -c 'getent hosts web >/dev/null && echo self; sleep 300' >/dev/null
asks tote run --rm --network lab "$IMAGE"
tote start web >/dev/null
asks tote run --rm --network lab "$IMAGE"
tote restart -t 0 web >/dev/null
asks tote exec web
while [ "$(tote logs web | grep -c self)" -lt 2 ]; do sleep 0.02; done
asks tote run --rm --network container:web "$IMAGE"
tote pod create --network name=lab,ip=192.168.77.20 group >/dev/null
asks tote run --rm --pod group "$IMAGE"
tote exec web getent hosts group
tote pod rm -f group >/dev/null
# The policy starts it again, with names.
tote run -d --restart on-failure:1 --network lab --name again "$IMAGE" sh -c 'getent hosts web; exit 1' >/dev/null
tote wait again >/dev/null || true
while [ "$(tote inspect -f '{{.State.Status}}{{.RestartCount}}' again)" != exited1 ]; do sleep 0.02; done
tote logs again
# A killed monitor takes its container along, and its name is nobody's.
tote run -d --network lab --name other "$IMAGE" sleep 300 >/dev/null
kill -9 $(tote inspect -f '{{.State.Pid}}' web | xargs -I{} awk '/^PPid/ { print $2 }' /proc/{}/status)
while tote ps -q --filter name=web | grep -q .; do sleep 0.02; done
tote run --rm "$IMAGE" true
asks tote exec other
tote rm -f other web again >/dev/null
find "$STATE/networks/lab/names" "$STATE/networks/lab/called" "$STATE/networks/.members" -mindepth 1
"#;
    let lines = "\
web 192.0.2.53
web 192.168.77.10
web 192.168.77.10
web 192.168.77.10
web 192.168.77.10
192.168.77.20   group
192.168.77.10   web
192.168.77.10   web
web 192.0.2.53
";
    prints(cx, script, lines)
}

fn port(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --network name=lab,ip=192.168.77.10 --name web "$IMAGE" sleep 300 >/dev/null
tote run --rm --network lab "$IMAGE" perl -MIO::Socket::INET -e '
IO::Socket::INET->new(Proto => "udp", LocalPort => 53) && IO::Socket::INET->new(Proto => "tcp", Listen => 1, LocalPort => 53) && print "both\n";
exec "getent", "hosts", "web"'
"#;
    prints(cx, script, "both\n192.168.77.10   web\n")
}

/// Each name has an address of its own, so that every answer can be told to be right; one container is there all the time.
fn churn(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --network name=lab,ip=192.168.77.10 --name c0 "$IMAGE" sleep 300 >/dev/null
tote run -d --network lab --name asker "$IMAGE" perl -MSocket -e '
socket($s, PF_INET, SOCK_DGRAM, 0); connect($s, sockaddr_in(53, inet_aton("127.0.0.11"))); $| = 1;
sub ask { my ($name, $id) = @_;
  send $s, pack("n", $id) . "\1\0\0\1\0\0\0\0\0\0" . pack("C/a*", $name) . "\0\0\1\0\1", 0;
  vec(my $ready = "", fileno $s, 1) = 1;
  do { select(my $r = $ready, undef, undef, 5) or return "lost"; recv $s, $m, 4096, 0 } until unpack("n", $m) == $id;
  return unpack("n", substr $m, 6) ? join ".", unpack "C4", substr $m, -4 : "none" }
# One question in 25 is for a container that comes and goes; those that are not there are asked beyond the uplink.
for (1 .. 100000) { $id = $_ & 65535; $n = $_ % 25; $n = 0 if $n > 4; $is = ask("c$n", $id); $right = "192.168.77.1$n";
  if ($is eq "lost") { $lost++ } elsif ($is eq $right) { $found[$n]++ } elsif ($n == 0 || $is ne "192.0.2.53") { $wrong++ } }
printf "%d lost, %d wrong, %d of c0, %s\n", $lost, $wrong, $found[0], $found[1] + $found[2] + $found[3] + $found[4] > 0 ? "some" : "none"' >/dev/null
round() { for n in 1 2 3 4; do tote run -d --rm --network name=lab,ip=192.168.77.1$n --name c$n "$IMAGE" sleep 300 >/dev/null; done
  tote rm -f c2 c4 >/dev/null; tote rm -f c1 c3 >/dev/null; }
while [ -z "$(tote logs asker)" ]; do round; done
tote logs asker
"#;
    prints(cx, script, "0 lost, 0 wrong, 84000 of c0, some\n")
}

fn hostile(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --network name=lab,ip=192.168.77.10 --name web "$IMAGE" sleep 300 >/dev/null
watcher=$(tote inspect -f '{{.State.Pid}}' web | xargs -I{} awk '/^PPid/ { print $2 }' /proc/{}/status)
fds() { ls /proc/$watcher/fd | wc -l; }
before=$(fds)
tote exec web perl -MSocket -e '
srand 7; sub bytes { join "", map { chr rand 256 } 1 .. shift }
$to = sockaddr_in(53, inet_aton("127.0.0.11"));
for (1 .. 3000) { socket($u, PF_INET, SOCK_DGRAM, 0) if $_ % 100 == 1;
  my $head = bytes(2) . "\1\0\0\1\0\0\0\0\0\0"; send $u, $_ % 2 ? bytes(rand 700) : $head . bytes(rand 300), 0, $to }
# More questions than it has under way, and more connections than it takes.
for (1 .. 400) { send $u, pack("n", $_) . "\1\0\0\1\0\0\0\0\0\0" . pack("C/a*", "n$_") . "\0\0\1\0\1", 0, $to }
for (1 .. 60) { socket($t[$_], PF_INET, SOCK_STREAM, 0); connect $t[$_], $to; send $t[$_], bytes(rand 3000), 0x4000 }
'
tote exec web getent hosts web
while [ "$(fds)" -gt "$before" ]; do tote exec web getent hosts web >/dev/null; sleep 0.1; done
echo as before
tote exec web getent ahostsv4 example.org | sed -n 's/ *STREAM.*//p'
"#;
    prints(cx, script, "192.168.77.10   web\nas before\n192.0.2.53\n")
}

fn connected(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.78.0/24 --ip-range 192.168.78.128/25 more >/dev/null
tote network create --subnet 192.168.79.0/24 --ip-range 192.168.79.128/25 --internal inner >/dev/null
tote run -d --network name=inner,ip=192.168.79.10 --name web "$IMAGE" sleep 300 >/dev/null
tote run -d --network more --name asker "$IMAGE" sleep 300 >/dev/null
tote exec asker sh -c "$ASK" - web www
tote network connect --ip 192.168.78.10 --alias www more web
tote exec asker sh -c "$ASK" - web www
tote exec asker busybox ping -c 1 -W 2 www >/dev/null && echo reached
# The way out is by the network that leads out, and the next one once that is gone.
tote exec web sh -c 'ls /sys/class/net; ip route | grep -o "default via [^ ]*"'
tote network connect lab web
tote network disconnect more web
tote exec asker sh -c "$ASK" - web
tote exec web sh -c 'ls /sys/class/net; ip route | grep -o "default via [^ ]*"'
tote inspect -f '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}},{{end}}' web
ls "$STATE/networks/more/leases" | wc -l
tote restart -t 0 web >/dev/null
tote exec web sh -c 'ls /sys/class/net; ip -o -4 addr show eth0 | grep -o "192.168.79.10/24"'
tote rm -f web >/dev/null
find "$STATE"/networks/*/leases "$STATE"/networks/*/names -mindepth 1 | grep -v -e asker -e "$(tote inspect -f '{{slice .Id 0 12}}' asker)" | wc -l
"#;
    let lines = "\
web 192.0.2.53
www 192.0.2.53
web 192.168.78.10
www 192.168.78.10
reached
eth0
eth1
lo
default via 192.168.78.1
web 192.0.2.53
eth0
eth2
lo
default via 192.168.77.1
inner,lab,
1
eth0
eth1
lo
192.168.79.10/24
1
";
    prints(cx, script, lines)
}

fn linked(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.78.0/24 --ip-range 192.168.78.128/25 more >/dev/null
member() { tote run -d --network name=more,ip=192.168.78.$1 --name $2 "$IMAGE" sleep 300 >/dev/null; }
from() { name=$1; shift; tote exec $name sh -c "$ASK" - "$@" | sed 's/ 192.0.2.53/ elsewhere/'; }
member 10 db; member 11 third
tote run -d --network lab --name web "$IMAGE" sleep 300 >/dev/null
tote network connect --link db:MySQL --link later --link third:db more web
tote inspect -f '{{json .NetworkSettings.Networks.more.Links}}' web
# A link comes before the name of another container, and one for a container that is not there yet finds it later.
from web mysql mysql.more later db
member 12 later
from web later
# No other container calls it so.
from third mysql db
tote restart -t 0 web >/dev/null
tote rename db other
from web mysql db
tote network disconnect more web
from web mysql
ls -A "$STATE/networks/more/linked"
tote network connect --link db bridge web 2>&1 || echo $?
tote network connect --link a/b more web 2>&1 || echo $?
"#;
    let lines = "\
[\"db:MySQL\",\"later:later\",\"third:db\"]
mysql 192.168.78.10
mysql.more 192.168.78.10
later elsewhere
db 192.168.78.11
later 192.168.78.12
mysql elsewhere
db 192.168.78.10
mysql 192.168.78.10
db 192.168.78.11
mysql elsewhere
tote: cannot link to containers in network bridge, which has no names: give --link to run, or connect the container with a network that you have made
1
tote: invalid argument \"a/b\" for \"--link\" flag: bad format for links: \"a/b\": give CONTAINER or CONTAINER:ALIAS, such as web:www
125
";
    prints(cx, script, lines)
}

fn connected_later(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.78.0/24 --ip-range 192.168.78.128/25 more >/dev/null
tote create --name web --network lab --network-alias old "$IMAGE" sleep 300 >/dev/null
tote network connect --ip 192.168.78.10 --alias www more web
tote network disconnect lab web
tote start web >/dev/null
tote run --rm --network more "$IMAGE" sh -c "$ASK" - web www old
tote exec web ls /sys/class/net
tote rm -f web >/dev/null
# One that asked for no network gets one.
tote create --name late "$IMAGE" sleep 300 >/dev/null
tote network connect bridge late
tote start late >/dev/null
tote exec late busybox nc 198.51.100.9 80 </dev/null
"#;
    let lines = "web 192.168.78.10\nwww 192.168.78.10\nold 192.0.2.53\neth0\nlo\n198.51.100.2\n";
    prints(cx, script, lines)
}

fn refused(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --network lab --name web "$IMAGE" sleep 300 >/dev/null
tote create --network none --name alone "$IMAGE" true >/dev/null
tote create --network host --name wide "$IMAGE" true >/dev/null
says() { "$@" 2>&1 | sed "s/[0-9a-f]\{64\}/ID/" || true; "$@" >/dev/null 2>&1 || echo $?; }
says tote network connect lab web
says tote network disconnect bridge web
says tote network connect lab alone
says tote network connect lab wide
says tote network connect host web
says tote network connect nosuch web
says tote network connect lab nosuch
says tote network connect --alias www bridge web
says tote network connect --ip 10.0.0.1 bridge web
says tote network disconnect -f bridge web
tote network ls --filter dangling=true -q | wc -l
tote inspect -f '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}}{{end}}' web
"#;
    let lines = "\
tote: endpoint with name web already exists in network lab
1
tote: container ID is not connected to network bridge
1
tote: container cannot be connected to multiple networks with one of the networks in private (none) mode
1
tote: container sharing network namespace with another container or host cannot be connected to any other network
1
tote: container cannot be disconnected from host network or connected to host network
1
tote: network nosuch not found
1
tote: No such container: nosuch
1
tote: network-scoped alias is supported only for containers in user defined networks
1
tote: no configured subnet contains IP address 10.0.0.1
1
0
lab
";
    prints(cx, script, lines)
}
