//! Pools whose sandboxes are in networks.

use super::networks::{NEEDS, prints};
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test(
        "pool_networks::sandboxes_have_addresses_of_their_own",
        NEEDS,
        addresses,
    ),
    test(
        "pool_networks::a_container_of_a_pool_has_names_and_finds_others",
        NEEDS,
        named,
    )
    .waits(),
    test(
        "pool_networks::a_container_of_a_pool_has_ports_and_a_policy",
        NEEDS,
        published,
    ),
    test(
        "pool_networks::a_killed_keeper_leaves_no_address_behind",
        NEEDS,
        killed,
    ),
];

/// Waits until a pool has that many sandboxes: `ready NAME COUNT`.
const READY: &str = r#"
leases() { ls "$STATE/networks/$1/leases" | wc -l; }
ready() { while [ "$(tote pool ls --format '{{.Name}} {{.Ready}}' | grep -c "^$1 $2\$")" = 0 ]; do sleep 0.02; done; }
"#;

fn addresses(cx: &Context) -> Result<()> {
    let script = r#"
tote network create lab >/dev/null
tote pool fill -n 3 --network lab p "$IMAGE" >/dev/null
leases lab
for i in 1 2; do tote run --pool p busybox nc 198.51.100.9 80 </dev/null; done
ready p 3
leases lab
# With an empty pool the container is made in the usual way, in the same network.
tote pool fill -n 0 p >/dev/null
tote run --pool p busybox nc 198.51.100.9 80 </dev/null
tote pool rm p >/dev/null
down
leases lab
tote network rm lab >/dev/null
"#;
    prints(
        cx,
        &format!("{READY}{script}"),
        "3\n198.51.100.2\n198.51.100.2\n3\n198.51.100.2\n0\n",
    )
}

fn named(cx: &Context) -> Result<()> {
    let script = r#"
tote network create lab >/dev/null
tote run -d --network lab --name a "$IMAGE" sleep 300 >/dev/null
tote pool fill -n 1 --network name=lab,alias=www p "$IMAGE" >/dev/null
find() { tote exec a busybox nslookup "$1" 127.0.0.11 2>/dev/null | grep -c '^Name' || true; }
# A sandbox that waits is nobody.
find www
tote run --pool p --name b -i sh -c 'busybox nslookup a 127.0.0.11 | grep -c "^Name"; read line' < "$FILE.pipe" > "$FILE.out" &
run=$!
exec 3> "$FILE.pipe"
while [ ! -s "$FILE.out" ]; do sleep 0.02; done
while [ "$(find b)" = 0 ]; do sleep 0.02; done
cat "$FILE.out"; find b; find www
tote inspect -f '{{len .NetworkSettings.Networks}} {{.HostConfig.NetworkMode}}' b
exec 3>&-
wait $run || true
find b
tote rm -f a >/dev/null
tote pool rm p >/dev/null
down
tote network rm lab >/dev/null
"#;
    prints(
        cx,
        &format!("mkfifo \"$FILE.pipe\"\n{READY}{script}"),
        "0\n1\n1\n1\n1 lab\n0\n",
    )
}

fn published(cx: &Context) -> Result<()> {
    let script = r#"
tote pool fill -n 1 -p 8080:80 --egress allow:198.51.100.9:80 p "$IMAGE" >/dev/null
# Nothing listens in a sandbox that waits.
in_server busybox nc -w 2 198.51.100.2 8080 </dev/null 2>/dev/null || echo refused
tote run --pool p --name a sh -c 'echo here | busybox nc -l -p 80 >/dev/null' & run=$!
ask() { in_server busybox nc -w 2 198.51.100.2 8080 </dev/null 2>/dev/null; }
while ! ask > "$FILE.said" || [ ! -s "$FILE.said" ]; do sleep 0.02; done
cat "$FILE.said"
wait $run
# Another sandbox has the port once the first one is gone.
tote pool fill -n 0 p >/dev/null
tote pool fill -n 1 p >/dev/null
tote run --pool p sh -c 'busybox nc 198.51.100.9 80 </dev/null; busybox nc -w 2 198.51.100.9 81 </dev/null 2>/dev/null || echo kept'
tote pool rm p >/dev/null
down
nft list tables | grep -c tote || true
"#;
    prints(
        cx,
        &format!("{READY}{script}"),
        "refused\nhere\n198.51.100.2\nkept\n0\n",
    )
}

fn killed(cx: &Context) -> Result<()> {
    let script = r#"
tote network create lab >/dev/null
tote pool fill -n 2 --network lab p "$IMAGE" >/dev/null
leases lab
for pid in $(pgrep -f '^tote pool p$' --ns $$ --nslist net); do kill -9 $pid; done
tote run --rm --network none "$IMAGE" true
while [ "$(leases lab)" != 0 ]; do tote run --rm --network none "$IMAGE" true; done
tote pool rm p >/dev/null
down
leases lab
tote network rm lab >/dev/null
"#;
    prints(cx, &format!("{READY}{script}"), "2\n0\n")
}
