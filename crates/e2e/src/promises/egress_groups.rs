//! Egress policies of pods and of steps of builds, and what tools of programmers do under one, in the world of [`super::egress`].

use super::egress::prints;
use super::networks::NEEDS;
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test("egress_groups::members_of_a_pod_have_its_policy", NEEDS, pod),
    test(
        "egress_groups::steps_of_builds_have_the_builds_policy",
        NEEDS,
        built,
    ),
    test(
        "egress_groups::git_and_pip_reach_an_allowed_mirror",
        MIRROR,
        git_and_pip,
    )
    .slow(2)
    .waits(),
];

const MIRROR: &[Need] = &[
    Need::Root,
    Need::Program("unshare"),
    Need::Program("nsenter"),
    Need::Program("ip"),
    Need::Program("nft"),
    Need::Program("perl"),
    Need::Program("busybox"),
    Need::Program("git"),
    Need::Program("/usr/bin/python3"),
    Need::Program("/usr/bin/pip3"),
];

fn git_and_pip(cx: &Context) -> Result<()> {
    let script = r#"
mkdir -p "$FILE.www/simple/leaf"
(cd "$FILE.www"; git init -q --bare repo.git; git init -q work; git -C work -c user.name=a -c user.email=a@b commit -q --allow-empty -m cloned
git -C work push -q ../repo.git HEAD:refs/heads/one; git -C repo.git symbolic-ref HEAD refs/heads/one; git -C repo.git update-server-info
/usr/bin/python3 - <<'END'
import zipfile
with zipfile.ZipFile('leaf-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('leaf.py', 'print("installed")\n')
    wheel.writestr('leaf-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\nName: leaf\nVersion: 1.0\n')
    wheel.writestr('leaf-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr('leaf-1.0.dist-info/RECORD', '')
END
echo '<a href="/leaf-1.0-py3-none-any.whl">leaf-1.0-py3-none-any.whl</a>' > simple/leaf/index.html)
for address in 198.51.100.9 198.51.100.8; do
  nsenter -t $server -n /usr/bin/python3 -m http.server --bind $address -d "$FILE.www" 8000 >/dev/null 2>&1 & teller="$teller $!"
done
while [ "$(in_server grep -c ':1F40 00000000:0000 0A' /proc/net/tcp)" != 2 ]; do sleep 0.02; done
for host in good.test evil.test 198.51.100.8; do
  tote run --rm --egress allow:good.test:8000 "$IMAGE" sh -c 'cd /tmp
git clone -q http://$1:8000/repo.git clone >/dev/null 2>&1 && git -C clone log --format=%s || echo $1 not cloned
/usr/bin/pip3 install -q --retries 0 --no-cache-dir --disable-pip-version-check --trusted-host $1 --index-url http://$1:8000/simple -t /tmp/to leaf >/dev/null 2>&1
PYTHONPATH=/tmp/to /usr/bin/python3 -c "import leaf" 2>/dev/null || echo $1 not installed' - $host
done
"#;
    let lines = "\
cloned
installed
evil.test not cloned
evil.test not installed
198.51.100.8 not cloned
198.51.100.8 not installed
";
    prints(cx, script, lines)
}

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
printf '%s\n' 'FROM scratch AS root' 'COPY root /' 'FROM root AS one' "RUN $try" 'FROM root AS two' "RUN : two; $try" 'FROM one' 'COPY --from=two /bin/busybox /two' \
  > "$FILE.context/Dockerfile"
tote build --no-cache --jobs 2 --egress allow:good.test:80 "$FILE.context" 2>&1 | sed -nE 's/^\[stage [23].4 (one|two)\] (198|evil)/\2/p' | sort
"#;
    let twice = "198.51.100.2\n198.51.100.2\n198.51.100.8 refused\n198.51.100.8 refused\nevil.test refused\nevil.test refused\n";
    let step = "198.51.100.2\nevil.test refused\n198.51.100.8 refused\n";
    let host = "cannot hold the container to an egress policy: with --network host it has this machine's own links\n";
    let none = "cannot hold the container to an egress policy: with --network none it connects nowhere: leave --egress out\n";
    prints(
        cx,
        &format!("unset TOTE_BUILD_NETWORK\n{script}"),
        &[step, step, host, none, "198.none\n", host, twice].concat(),
    )
}
