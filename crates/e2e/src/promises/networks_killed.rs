//! Commands about networks that are killed on the way: the next command finds the network, and the container, as they were
//! before or as they should be.

use super::networks::{NEEDS, prints};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const MORTAL: [Need; NEEDS.len() + 1] = {
    let mut needs = [Need::FaultPoints; NEEDS.len() + 1];
    let mut at = 0;
    while at < NEEDS.len() {
        needs[at] = NEEDS[at];
        at += 1;
    }
    needs
};

pub(super) const TESTS: &[Test] = &[
    test(
        "networks::killed_while_a_container_is_connected",
        &MORTAL,
        connecting,
    ),
    test(
        "networks::killed_while_a_container_is_disconnected",
        &MORTAL,
        disconnecting,
    ),
    test(
        "networks::a_half_connected_container_leaves_no_address_behind",
        &MORTAL,
        ending,
    ),
    test(
        "networks::a_damaged_container_leaves_no_address_behind",
        NEEDS,
        damaged,
    ),
    test(
        "networks::killed_while_they_are_made_and_removed",
        &MORTAL,
        making,
    ),
];

/// `die POINT COMMAND…` runs tote until it dies at the point; `shown` prints the container's links, how many addresses the
/// network `more` has given away, and how many links of containers the machine has.
const KILLED: &str = r#"
die() { point=$1; shift; { TOTE_FAULT=$point "$MORTAL" --root "$STATE" "$@" >/dev/null && echo "$point: alive"; } 2>/dev/null || true; }
links() { ip -o link | grep -c ': tv' || true; }
shown() { echo "$1" $(tote exec web ls /sys/class/net) $(ls "$STATE/networks/more/leases" | wc -l) $(links); }
tote network create --subnet 192.168.77.0/24 lab >/dev/null
tote network create --subnet 192.168.78.0/24 more >/dev/null
tote run -d --network lab --name web "$IMAGE" sleep 300 >/dev/null
"#;

fn connecting(cx: &Context) -> Result<()> {
    let script = r#"
for point in connect-leased connect-linked connect-plugged connect-written; do
    die $point network connect --alias www more web
    tote run --rm --network none "$IMAGE" true
    shown $point
    ls "$STATE/live" | grep connecting || true
    # The next connection, too, goes on where the last one was killed.
    [ $point = connect-written ] && break
    die $point network connect more web
    tote network connect more web
    shown again
    tote network disconnect more web
    tote network rm more >/dev/null
    tote network create --subnet 192.168.78.0/24 more >/dev/null
done
tote network disconnect more web
shown end
"#;
    let lines = "\
connect-leased eth0 lo 0 1
again eth0 eth1 lo 1 2
connect-linked eth0 lo 0 1
again eth0 eth1 lo 1 2
connect-plugged eth0 lo 0 1
again eth0 eth1 lo 1 2
connect-written eth0 eth1 lo 1 2
end eth0 lo 0 1
";
    prints(cx, &[KILLED, script].concat(), lines)
}

fn disconnecting(cx: &Context) -> Result<()> {
    let script = r#"
for point in disconnect-written disconnect-unlinked disconnect-released; do
    tote network connect --alias www more web
    die $point network disconnect more web
    tote network rm more >/dev/null
    tote network create --subnet 192.168.78.0/24 more >/dev/null
    shown $point
done
tote inspect -f '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}},{{end}}' web
"#;
    let lines = "\
disconnect-written eth0 lo 0 1
disconnect-unlinked eth0 lo 0 1
disconnect-released eth0 lo 0 1
lab,
";
    prints(cx, &[KILLED, script].concat(), lines)
}

fn ending(cx: &Context) -> Result<()> {
    let script = r#"
pid=$(tote inspect -f '{{.State.Pid}}' web)
die connect-leased network connect more web
ls "$STATE/networks/more/leases" | wc -l
kill -9 $pid
# No command comes: the process that watches the container clears what is left.
while ls "$STATE"/live/*.connecting >/dev/null 2>&1; do sleep 0.02; done
ls "$STATE"/networks/*/leases | grep -c ^192 || true
"#;
    // The script's end waits until all links are gone.
    prints(cx, &[KILLED, script].concat(), "1\n0\n")
}

fn damaged(cx: &Context) -> Result<()> {
    let script = r#"
id=$(tote inspect -f '{{.Id}}' web)
printf '{' > "$STATE/containers/$id/state.json"
tote rm -f $id >/dev/null
ls "$STATE"/networks/*/leases | grep -c ^192 || true
tote network rm lab
"#;
    prints(cx, &[KILLED, script].concat(), "0\nlab\n")
}

fn making(cx: &Context) -> Result<()> {
    let script = r#"
# A list shows the default network, which is written down for that.
there() { echo $1 $(ls "$STATE/networks" | grep -v bridge) $(tote network ls -q -f name=other | wc -l) $(ls "$STATE"/live/other.network 2>/dev/null | wc -l); }
for point in network-unwritten network-written; do
    die $point network create other
    tote run --rm --network none "$IMAGE" true
    there $point
    # The name is free, or another command frees it.
    tote network rm other >/dev/null 2>&1 || { tote network create other >/dev/null; tote network rm other >/dev/null; }
done
tote network create other >/dev/null
die network-unrecorded network rm other
tote network create other >/dev/null
die network-unrecorded network rm other
tote run --rm --network none "$IMAGE" true
there network-unrecorded
"#;
    let lines = "\
network-unwritten lab more 0 0
network-written lab more other 1 0
network-unrecorded lab more 0 0
";
    prints(cx, &[KILLED, script].concat(), lines)
}
