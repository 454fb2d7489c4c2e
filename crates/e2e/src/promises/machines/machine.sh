# A machine: its links, files, rules and settings, each made by the function AXIS_VALUE of a cell's value.
# Variables: who (root, user), TOTE (the program), IMAGE, STATE (root's state root), FILE (a prefix for files).
set -eu

# Other machines: the LAN, with a server that tells the address of each client, name servers, and a registry.
in_lan() { nsenter -t $lan -n "$@"; }
ended= ; finish() { kill $lan $ended 2>/dev/null; [ -z "${made:-}" ] || tote rm -fa >/dev/null 2>&1 || true; }
stays() { ended="$ended $!"; }
apart() { unshare --net sleep 600 >/dev/null 2>&1 & lan=$!; trap finish EXIT
    while [ "$(readlink /proc/$lan/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done; }
# A veth pair, up0 or up1 here and s0 or s1 in the LAN.
link() { ip link add up$1 mtu $2 type veth peer name s$1 mtu $2 netns $lan; ip link set up$1 up; in_lan ip link set s$1 up; }

uplink_one() {
    link 0 1400
    ip addr add 198.51.100.2/24 dev up0; in_lan ip addr add 198.51.100.9/24 dev s0
    ip -6 addr add 2001:db8::2/64 dev up0 nodad; in_lan ip -6 addr add 2001:db8::9/64 dev s0 nodad
    ip route add default via 198.51.100.9; ip -6 route add default via 2001:db8::9
}
# Both lead out; the second one is the second choice, and the only way to some.
uplink_two() {
    link 0 1500; link 1 1500
    ip addr add 198.51.100.2/24 dev up0; in_lan ip addr add 198.51.100.9/24 dev s0
    ip addr add 203.0.113.2/24 dev up1; in_lan ip addr add 203.0.113.9/24 dev s1
    ip route add default via 198.51.100.9 metric 100; ip route add default via 203.0.113.9 metric 200
}
# The default route leads by a tunnel that takes less at a time than the link below it.
uplink_vpn() {
    link 1 1500; link 0 1280
    ip addr add 203.0.113.2/24 dev up1; in_lan ip addr add 203.0.113.9/24 dev s1
    ip addr add 198.51.100.2/24 dev up0; in_lan ip addr add 198.51.100.9/24 dev s0
    ip route add default via 203.0.113.9 metric 200; ip route add default via 198.51.100.9 metric 50
}
uplink_changed() { uplink_one; }
# The machine is given another address while its first container runs, as after a wake in another place.
move() {
    ip link set up0 down; ip addr flush dev up0
    ip addr add 198.51.100.$1/24 dev up0; ip link set up0 up; ip route add default via 198.51.100.9
    here=198.51.100.$1
}
# The servers are there, but the link to them is down.
uplink_none() { link 0 1400; in_lan ip addr add 198.51.100.9/24 dev s0; ip link set up0 down; }

# Files of the machine's own below /etc.
own_etc() {
    mkdir "$FILE.tmp"; mount -t tmpfs -o mode=755 none "$FILE.tmp"; mkdir "$FILE.tmp/upper" "$FILE.tmp/work"
    mount -t overlay none -o "lowerdir=/etc,upperdir=$FILE.tmp/upper,workdir=$FILE.tmp/work" /etc
    umount /etc/resolv.conf 2>/dev/null || true; rm -f /etc/resolv.conf
    mount -t tmpfs none /run
}
servers() { for server; do echo "nameserver $server"; done > /etc/resolv.conf; }
resolv_lan() { servers 198.51.100.9; }
resolv_resolved() {
    mkdir -p /run/systemd/resolve; echo 'nameserver 198.51.100.9' > /run/systemd/resolve/resolv.conf
    printf 'nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch .\n' > /run/systemd/resolve/stub-resolv.conf
    ln -s ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf
}
resolv_dnsmasq() { servers 127.0.0.1; }
resolv_unbound() { servers 127.0.0.5; }
resolv_dead() { servers 198.51.100.77 198.51.100.9; }
resolv_search() { printf '# of the LAN\nsearch lan.test corp.test\noptions timeout:2 attempts:1\nnameserver 198.51.100.9\n' > /etc/resolv.conf; }
resolv_readonly() { servers 198.51.100.9; chmod 444 /etc/resolv.conf; sealed=yes; }
resolv_empty() { : > /etc/resolv.conf; }
resolv_missing() { :; }
resolv_nowhere() { ln -s ../run/NetworkManager/resolv.conf /etc/resolv.conf; }

firewall_none() { :; }
firewall_docker() { docker; }
firewall_ufw() { ufw; }
firewall_firewalld() { firewalld; }
# Somebody loads rules of their own while containers run, as `systemctl restart nftables` does.
firewall_flushed() { :; }
firewall_nft() { nft add table inet mine; nft add chain inet mine forward '{ type filter hook forward priority 0; policy drop; }'; }
firewall_legacy() { iptables-legacy -P FORWARD DROP; }

forward_0() { echo 0 > /proc/sys/net/ipv4/ip_forward; }
forward_1() { echo 1 > /proc/sys/net/ipv4/ip_forward; }
filtered() { for link in all default up0 up1; do [ ! -e /proc/sys/net/ipv4/conf/$link ] || echo $1 > /proc/sys/net/ipv4/conf/$link/rp_filter; done; }
rp_0() { filtered 0; }
rp_1() { filtered 1; }
rp_2() { filtered 2; }
frames() { [ ! -e /proc/sys/net/bridge ] || echo $1 > /proc/sys/net/bridge/bridge-nf-call-iptables; }
frames_0() { frames 0; }
frames_1() { frames 1; }

# A device file of the machine's own, also where the machine that runs the tests has none.
own_tun() { mkdir "$FILE.dev"; mount -t tmpfs none "$FILE.dev"; mknod -m $1 "$FILE.dev/tun" c 10 200; mount --bind "$FILE.dev" /dev/net; }
tun_there() { own_tun 666; }
tun_missing() { own_tun 666; rm "$FILE.dev/tun"; }
tun_closed() { own_tun 600; }
ranges() { for range; do echo "machine:$range"; done | tee /etc/subuid > /etc/subgid; }
subid_one() { ranges 300000:65536; }
subid_none() { ranges; }
subid_several() { ranges 300000:1000 400000:64536 500000:65536; }

umask_022() { mask=022; }
umask_077() { mask=077; }
umask_000() { mask=000; }
home_set() { variables="HOME=$home"; }
home_unset() { variables='-u HOME'; }
home_other() { mount -t tmpfs -o mode=700,uid=$USER_ID,gid=$USER_ID none "$home"; variables="HOME=$home"; }
proc_open() { :; }
proc_hidepid() { mount -t proc -o hidepid=2 proc /proc; }
place_plain() { place="$own/place"; }
place_odd() { place="$own/$(printf 'pl\344tz, a:b')"; }
path_plain() { :; }
# As these tools are where they have not been set up for a user.
path_shims() {
    mkdir "$own/shims"
    for name in python3 python perl node npm cargo rustc tar gzip xz git busybox ip nft iptables curl openssl; do
        printf '#!/bin/sh\necho "%s: no version is set" >&2\nexit 127\n' $name > "$own/shims/$name"; chmod 755 "$own/shims/$name"
    done
    variables="$variables PATH=$own/shims:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}
shell_sh() { variables="$variables SHELL=/bin/sh"; }
shell_gone() { variables="$variables SHELL=/opt/homebrew/bin/fish"; }

# The one who runs commands, with a directory that is this one's own.
USER_ID=0 own="$FILE.own" as=
mkdir "$FILE.mnt"
if [ $who = user ]; then
    # Tests that run at the same time must not wait for one another's processes.
    USER_ID=$((100000 + $$)); as="setpriv --reuid $USER_ID --regid $USER_ID --clear-groups --"
    mount -t tmpfs -o mode=755 none /mnt; own=/mnt/own
    cp "$TOTE" /mnt/tote; TOTE=/mnt/tote; cp -r "${IMAGE#rootfs:}" /mnt/image; chown -R $USER_ID:$USER_ID /mnt/image; IMAGE=rootfs:/mnt/image
fi
home=$own/home; mkdir -p "$home"
[ $who = root ] || STATE=$home/state
# Runs tote as its user does on this machine.
tote() { ( umask $mask; cd "$place"; exec $as env $variables "$TOTE" --root "$STATE" "$@" ) }
look() { nft -n list ruleset | sed 's/ packets [0-9]* bytes [0-9]*//'; ip -4 -o addr; ip -o route; grep . /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/*/forwarding; }
# The end of all processes and networks is waited for. A process that has ended counts no more, and is there until its parent looks for it.
down() {
    if [ $who = user ]; then while pgrep -r D,R,S,T -u $USER_ID >/dev/null; do sleep 0.02; done
    else while nft list table inet tote >/dev/null 2>&1 || ip -o link 2>/dev/null | grep -qE ': (tote-|tv)' || ls "$STATE"/live/*.network >/dev/null 2>&1; do sleep 0.02; done
    fi
}
