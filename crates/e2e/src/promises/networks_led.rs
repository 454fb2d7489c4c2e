//! Connections of a user's networks that the holder leads on, each test on a machine of its own, see [`super::networks_rootless`].

use super::networks_rootless::{NEEDS, shows};
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test(
        "rootless_networks::connections_go_on_without_pasta",
        NEEDS,
        onward,
    )
    .slow(2),
    test(
        "rootless_networks::connections_by_ports_begin_in_the_container",
        NEEDS,
        near,
    )
    .slow(2),
];

/// A refusal is told at once, which pasta of 2023 does not do, and nothing of a connection is a packet at the way out. An internal network
/// has none, whatever its members try.
fn onward(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --network bridge --name one "$IMAGE" sleep 300 >/dev/null
inside() { nsenter --net=/proc/$(pgrep -u $USER_ID '^pas(ta|st)')/fd/0 "$@"; }
inside nft -f - <<END
table inet other {
    chain out {
        type filter hook forward priority -10
        oifname "uplink" meta l4proto tcp counter
    }
}
END
tote exec one sh -c "$HEAR"
tote exec one busybox nc -w 30 198.51.100.9 81 </dev/null 2>&1 | grep -o refused
inside nft list table inet other | grep -o 'packets 0'
tote network create --internal shut >/dev/null
gateway=$(tote network inspect -f '{{(index .IPAM.Config 0).Gateway}}' shut)
tote run --rm --network shut --cap-add NET_ADMIN "$IMAGE" sh -c "busybox ip route add default via $gateway && echo routed
    busybox nc -w 2 198.51.100.9 80 </dev/null || echo shut" 2>/dev/null
"#;
    shows(cx, script, "198.51.100.2\nrefused\npackets 0\nrouted\nshut\n")
}

/// The program's network namespace has both ends, unless the link does something for the container.
fn near(cx: &Context) -> Result<()> {
    let script = r#"
# A client that has nothing to say has ended its side, which each end of a connection tells by its state.
ENDS='awk "/:0050 / && \$4 ~ /01|04|05|08/" /proc/net/tcp /proc/net/tcp6 | wc -l'
ends() {
    name=$1; port=$2; shift 2
    tote run -d --name $name -p $port:80 "$@" "$IMAGE" busybox nc -ll -p 80 -e sh -c "$ENDS" >/dev/null
    listens $name
    echo $name $(ask 127.0.0.1 $port) $(in_server busybox nc -w 3 198.51.100.2 $port </dev/null)
}
ends web 8080
ends limited 8081 --net-rate 100mbit
ends routing 8082 --cap-add NET_ADMIN
tote restart -t 0 web >/dev/null
listens web
ask 127.0.0.1 8080
"#;
    shows(cx, script, "web 2 2\nlimited 1 1\nrouting 1 1\n2\n")
}
