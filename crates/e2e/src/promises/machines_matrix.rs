//! Networks on machines as people have them: each cell is a firewall, servers of names, settings of the kernel and surroundings of the
//! command, and in each of them the same things work. Each test has a machine of its own, see [`super::networks`].

use super::firewalls::WORDS;
use super::networks::{NEEDS, on_machine_of};
use super::ports;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test("machines::without_a_firewall", NEEDS, none).slow(2),
    test("machines::with_docker", NEEDS, docker).slow(2),
    test("machines::with_ufw", NEEDS, ufw).slow(2),
    test("machines::with_firewalld", NEEDS, firewalld).slow(2),
];

/// Axes of the matrix but for the firewall, each with its values; the first value of each is the usual one.
const AXES: &[(&str, &[&str])] = &[
    ("resolv", &["lan", "loopback", "two", "search", "empty"]),
    ("forward", &["0", "1"]),
    ("rp", &["0", "1", "2"]),
    ("frames", &["0", "1"]),
    ("mask", &["022", "077", "000"]),
    ("home", &["set", "none"]),
];

/// Each cell of one firewall in which one value is not the usual one, and one with the last value of each axis but the servers': its names and values as
/// assignments of a shell.
fn cells() -> Vec<String> {
    let cell = |value: &dyn Fn(usize, &[&'static str]) -> &'static str| {
        let words = AXES.iter().enumerate().map(|(place, (name, values))| {
            let value = value(place, values);
            format!("{name}={value}")
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let mut all = vec![cell(&|_, values| values[0])];
    for (axis, (_, values)) in AXES.iter().enumerate() {
        for other in &values[1..] {
            all.push(cell(&|place, values| {
                if place == axis { *other } else { values[0] }
            }));
        }
    }
    all.push(cell(&|place, values| {
        values[if place == 0 { 0 } else { values.len() - 1 }]
    }));
    all
}

/// Servers of names, and what is tried in a cell; a line is printed for each thing that does not work.
const TRIES: &str = r#"
cat > "$FILE.dns" <<'END'
use IO::Socket::INET; $s = IO::Socket::INET->new(Proto => "udp", LocalAddr => "$ARGV[0]:53") or die;
while (defined $s->recv($m, 4096)) { ($q) = $m =~ /^.{12}(.*?\0)/s; $kind = unpack "n", substr $m, 12 + length $q;
  $s->send(substr($m, 0, 2) . "\x81\x80\0\1" . ($kind == 1 ? "\0\1" : "\0\0") . "\0\0\0\0" . substr($m, 12, 4 + length $q)
    . ($kind == 1 ? "\xc0\x0c" . pack("nnNnC4", 1, 1, 1, 4, 192, 0, 2, $ARGV[1]) : "")) }
END
nsenter -t $server -n perl "$FILE.dns" 198.51.100.9 1 & teller="$teller $!"
perl "$FILE.dns" 127.0.0.5 2 & teller="$teller $!"
while ! in_server grep -q ':0035 0*:0000 07' /proc/net/udp || ! grep -q ':0035 0*:0000 07' /proc/net/udp; do sleep 0.02; done
: > "$FILE.resolv"; mount --bind "$FILE.resolv" /etc/resolv.conf
mkdir "$FILE.context"; cp -a "${IMAGE#rootfs:}" "$FILE.context/root"
printf 'FROM scratch\nCOPY root /\nRUN test "$(busybox nc -w 5 198.51.100.9 80 </dev/null)" = 198.51.100.2\n' > "$FILE.context/Dockerfile"
unset TOTE_BUILD_NETWORK
tote() { ( umask $mask; if [ $home = none ]; then unset HOME; fi; exec "$TOTE" --root "$STATE" "$@" ) }
resolv() { case $1 in
    lan) echo nameserver 198.51.100.9 ;;
    loopback) echo nameserver 127.0.0.5 ;;
    two) printf 'nameserver 198.51.100.9\nnameserver 127.0.0.5\n' ;;
    search) printf '# of the LAN\nsearch lan.test\noptions timeout:2 attempts:1\nnameserver 198.51.100.9\n' ;;
    empty) ;;
esac > "$FILE.resolv"; }
answer() { case $1 in loopback) echo 192.0.2.2 ;; empty) echo none ;; *) echo 192.0.2.1 ;; esac; }
expect() { what=$1 wanted=$2; shift 2; saw=$("$@" 2>&1 | tail -n 1); tries=$((tries + 1)); [ "$saw" = "$wanted" ] || echo "$cell: $what: $saw"; }
named() { tote run --rm --network lab "$IMAGE" busybox nslookup -type=a $1. 2>&1 | grep -o '192.0.2.*' || echo none; }
built() { tote build -q --no-cache "$FILE.context" >/dev/null && echo built; }
tries=0 cells=0
try() {
    cell=$*; eval "$*"
    resolv $resolv
    echo $forward > /proc/sys/net/ipv4/ip_forward
    for link in all up0; do echo $rp > /proc/sys/net/ipv4/conf/$link/rp_filter; done
    echo $frames 2>/dev/null > /proc/sys/net/bridge/bridge-nf-call-iptables || true
    $firewall; rules > "$FILE.before"
    STATE="$FILE.state$cells"; cells=$((cells + 1))
    tote network create --subnet 192.168.77.0/24 lab >/dev/null
    serve web --network lab -p 8080:80
    expect out 198.51.100.2 tote exec web busybox nc -w 5 198.51.100.9 80
    expect in 198.51.100.9 in_server busybox nc -w 5 198.51.100.2 8080
    expect member 198.51.100.2 tote run --rm --network bridge "$IMAGE" sh -c 'busybox nc -w 5 198.51.100.9 80 </dev/null'
    expect name "$(answer $resolv)" named name.test
    expect neighbour hears tote run --rm --network lab "$IMAGE" sh -c 'busybox nc -w 5 web 80 </dev/null | grep -q 192.168.77 && echo hears'
    expect allowed 198.51.100.2 tote run --rm --network lab --egress allow:198.51.100.9:80 "$IMAGE" sh -c 'busybox nc -w 5 198.51.100.9 80 </dev/null'
    expect refused none tote run --rm --network lab --egress allow:198.51.100.9:81 "$IMAGE" sh -c 'busybox nc -w 5 198.51.100.9 80 </dev/null 2>/dev/null || echo none'
    expect build built built
    expect debug root tote debug web id -un
    tote rm -f web >/dev/null; down
    rules | cmp - "$FILE.before" || echo "$cell: rules are left"
    [ "$(cat /proc/sys/net/ipv4/ip_forward)" = $forward ] || echo "$cell: ip_forward is changed"
    nft flush ruleset
}
"#;

/// Tries each cell of a firewall.
fn beside(cx: &Context, firewall: &str) -> Result<()> {
    let cells = cells();
    let tries: String = cells.iter().map(|cell| format!("try {cell}\n")).collect();
    let count = cells.len();
    let script = format!(
        "{}{WORDS}{TRIES}\nfirewall={firewall}\n{tries}echo $cells cells $tries tries\n",
        ports::WORDS
    );
    let out = on_machine_of(cx, &["--net", "--mount"], &script)?;
    out.exits(0)?
        .prints(&format!("{count} cells {} tries\n", count * 9))?;
    cx.nothing_left()
}

fn none(cx: &Context) -> Result<()> {
    beside(cx, ":")
}

fn docker(cx: &Context) -> Result<()> {
    beside(cx, "docker")
}

fn ufw(cx: &Context) -> Result<()> {
    beside(cx, "ufw")
}

fn firewalld(cx: &Context) -> Result<()> {
    beside(cx, "firewalld")
}
