# What is tried on a machine. Each try prints its name and what was seen; standard error of all commands is in one file.
own_etc; ip link set lo up; apart
# A new namespace has the settings of the machine that runs the tests.
forward_0
uplink_$cell_uplink; resolv_$cell_resolv
# Answers to questions of names, with an address that tells which server was asked.
cat > "$FILE.dns" <<'END'
use IO::Socket::INET; use IO::Select; $all = IO::Select->new;
for (@ARGV) { ($at, $told) = split /=/; $n{$at} = $told; $all->add(IO::Socket::INET->new(Proto => "udp", LocalAddr => "$at:53") || die "$at: $!") }
while (@ready = $all->can_read) { for $s (@ready) { defined $s->recv($m, 4096) or next;
  ($q) = $m =~ /^.{12}(.*?\0)/s; $kind = unpack "n", substr $m, 12 + length $q; $is = $q =~ /registry/ ? pack("C4", 198, 51, 100, 9) : pack("C4", 192, 0, 2, $n{$s->sockhost});
  $found = $q =~ /\x04test\0/ && $kind == 1;
  $s->send(substr($m, 0, 2) . ($q =~ /\x04test\0/ ? "\x81\x80" : "\x81\x83") . "\0\1" . ($found ? "\0\1" : "\0\0") . "\0\0\0\0" . substr($m, 12, 4 + length $q)
    . ($found ? "\xc0\x0c" . pack("nnNn", 1, 1, 1, 4) . $is : "")) } }
END
nsenter -t $lan -n perl "$FILE.dns" 198.51.100.9=1 & stays
perl "$FILE.dns" 127.0.0.1=2 127.0.0.5=3 127.0.0.53=4 & stays
nsenter -t $lan -n perl -MIO::Socket::IP -e '$SIG{CHLD} = "IGNORE"; $s = IO::Socket::IP->new(Listen => 9, LocalHost => "::", LocalPort => 80, ReuseAddr => 1, V6Only => 0) or die;
while ($c = $s->accept) { $from = $c->peerhost; $from =~ s/^::ffff://; print $c "$from\n"; close $c }' >/dev/null 2>&1 & stays
while ! in_lan grep -q ':0035 0*:0000 07' /proc/net/udp || [ $(grep -c ':0035 0*:0000 07' /proc/net/udp) != 3 ] || ! in_lan grep -q ':0050 0*:0000 0A' /proc/net/tcp6; do sleep 0.02; done
# Adds up what it is sent.
nsenter -t $lan -n perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 9, LocalPort => 81, ReuseAddr => 1) or die;
while ($c = $s->accept) { $n = 0; while ($got = sysread $c, $m, 65536) { $n += $got; last if $n >= 3000000 } print $c "$n\n"; close $c }' >/dev/null 2>&1 & stays
while ! in_lan grep -q ':0051 0*:0000 0A' /proc/net/tcp; do sleep 0.02; done

for axis in $AXES; do case $axis in uplink|resolv|firewall) ;; *) eval ${axis}_\$cell_$axis ;; esac; done
firewall_$cell_firewall
mkdir "$place"
[ $who = root ] || { echo "machine:x:$USER_ID:$USER_ID::$home:/bin/sh" >> /etc/passwd; chown -R $USER_ID:$USER_ID "$own"; }
[ -z "${sealed:-}" ] || mount -o remount,ro,bind /etc 2>/dev/null || { mount --bind /etc /etc; mount -o remount,ro,bind /etc; }
unset TOTE_BUILD_NETWORK TOTE_NETWORK
look > "$FILE.before"

say() { printf '%s\t%s\n' $1 "$2"; }
try() { name=$1; shift; echo "== $name" >> "$FILE.err"; saw=$("$@" 2>>"$FILE.err" </dev/null | tail -n 1) || true; say $name "$saw"; }
# Its side of the connection is open until the server has closed the other one: pasta of 2023 may lose the end of a connection that both
# sides close at once.
# Where nothing can come back, that is known sooner.
wait=5; case "$cell_firewall $cell_uplink" in nft*|legacy*|*none) wait=1 ;; esac
HEAR='exec 3>&1; exec busybox nc -w '$wait' 198.51.100.9 80 -e sh -c "cat >&3"'
run() { tote run --rm "$@"; }
named() { run --network $1 "$IMAGE" busybox timeout 3 busybox nslookup -type=a name.test. | grep -o '192.0.2.*'; }
neighbour() { run --network lab "$IMAGE" sh -c 'busybox nc -w '$wait' web 80 </dev/null | grep -q 192.168.77 && echo hears'; }
bulk() { run --network lab "$IMAGE" sh -c 'exec 3>&1; exec busybox nc -w '$wait' 198.51.100.9 81 -e sh -c "head -c 3000000 /dev/zero; cat >&3"'; }
cp -r "${IMAGE#rootfs:}" "$place/root"; rm -f "$place"/root/bin/probe "$place"/root/bin/packets "$place"/root/bin/tracer
printf 'FROM scratch\nCOPY root /\nRUN %s | grep 198.51.100\n' "( $HEAR )" > "$place/Dockerfile"; chown -R $USER_ID:$USER_ID "$place"
built() { tote build -q --no-cache . >/dev/null && echo built; }

made=yes
tote network create --subnet 192.168.77.0/24 lab >/dev/null 2>>"$FILE.err" || true
started() { tote run -d --name web --network lab -p 8080:80 "$IMAGE" busybox nc -ll -p 80 -e sh -c "$SAY" >/dev/null && listens web && echo started; }
try start started
[ $cell_uplink != changed ] || move 3
if [ $cell_firewall = flushed ]; then nft flush ruleset; tote ps >/dev/null 2>>"$FILE.err"; fi
try out tote exec web sh -c "$HEAR"
try in in_lan busybox nc -w $wait ${here:-198.51.100.2} 8080
try member run --network bridge "$IMAGE" sh -c "$HEAR"
try default run "$IMAGE" sh -c "$HEAR"
try name named lab
try bridge-name named bridge
try neighbour neighbour
try allowed run --network lab --egress allow:198.51.100.9:80 "$IMAGE" sh -c "$HEAR"
try refused run --network lab --egress allow:198.51.100.9:81 "$IMAGE" sh -c "( $HEAR ) 2>/dev/null || echo none"
try bulk bulk
try build built
try debug tote debug web id -un
try end tote rm -f web
down
[ $cell_uplink != changed ] || move 2
look | diff "$FILE.before" - >> "$FILE.err" && say left nothing || say left something
