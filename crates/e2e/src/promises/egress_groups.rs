//! Egress policies of pods and of steps of builds, in the world of [`super::egress`].

use super::egress::prints;
use super::networks::NEEDS;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test("egress_groups::members_of_a_pod_have_its_policy", NEEDS, pod),
    test(
        "egress_groups::steps_of_builds_have_the_builds_policy",
        NEEDS,
        built,
    ),
];

fn pod(cx: &Context) -> Result<()> {
    let script = r#"
tote pod create --egress allow:good.test:80 --name group >/dev/null
tote run --name a --pod group "$IMAGE" sh -c "$TRY" - good.test evil.test 198.51.100.8
tote run --rm --pod group --cap-add ALL "$IMAGE" sh -c 'ip addr add 198.51.100.77/24 dev eth0 && ping -c 1 -W 1 -I 198.51.100.77 198.51.100.8 >/dev/null 2>&1 || echo held'
tote logs --egress a | cut -d ' ' -f 2-3 | sort -u
tote pod stop -t 0 group >/dev/null; tote pod start group >/dev/null
tote run --rm --pod group "$IMAGE" sh -c "$TRY" - 198.51.100.8
tote pod rm -f group >/dev/null
printf 'good.test\n' > "$FILE.list"
tote pod create --egress "@$FILE.list" --network bridge --name group >/dev/null
tote run --rm --pod group "$IMAGE" sh -c "$TRY" - good.test evil.test
tote pod rm -f group >/dev/null
tote pod create --network host --egress none --name group 2>&1 | grep -o 'cannot hold the container to an egress policy' || true
"#;
    let lines = "\
good.test 198.51.100.2
evil.test no such name
198.51.100.8 connection refused
held
dns evil.test
tcp 198.51.100.8:80
198.51.100.8 connection refused
good.test 198.51.100.2
evil.test no such name
cannot hold the container to an egress policy
";
    prints(cx, script, lines)
}

fn built(cx: &Context) -> Result<()> {
    let script = r#"
mkdir -p "$FILE.context"; cp -a "${STEPS#rootfs:}/." "$FILE.context/root"
try='for to in good.test evil.test 198.51.100.8; do busybox nc -w 3 $to 80 </dev/null 2>/dev/null | grep . || echo "$to refused"; done'
printf '%s\n' 'FROM scratch' 'COPY root /' "RUN $try" > "$FILE.context/Dockerfile"
build() { tote build --no-cache "$@" "$FILE.context" 2>&1 | grep -E '^(198|good|evil)|cannot hold the container to an egress policy' | sed 's/.*\(cannot hold\)/\1/'; }
build --egress allow:good.test:80
build --egress allow:good.test:80 --network default
build --egress allow:good.test:80 --network host
build --egress allow:good.test:80 --network none
printf '%s\n' 'FROM scratch' 'COPY root /' "RUN --network=none echo 198.none" "RUN --network=host true" > "$FILE.context/Dockerfile"
build --egress allow:good.test:80
"#;
    let step = "198.51.100.2\nevil.test refused\n198.51.100.8 refused\n";
    let host = "cannot hold the container to an egress policy: with --network host it has this machine's own links\n";
    let none = "cannot hold the container to an egress policy: with --network none it connects nowhere: leave --egress out\n";
    prints(
        cx,
        &format!("unset TOTE_BUILD_NETWORK\n{script}"),
        &[step, step, host, none, "198.none\n", host].concat(),
    )
}
