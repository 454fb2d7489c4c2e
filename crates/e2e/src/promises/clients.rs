//! Programs of others that drive the command line, each from the registry in which its users find it.

use super::networks::{self, on_machine_of};
use super::networks_rootless;
use crate::context::Context;
use crate::need::{self, Need};
use crate::promise::{Test, test};
use anyhow::{Context as _, Result};

pub(super) const TESTS: &[Test] = &[
    test("clients::podman_compose_of_root", ROOT_COMPOSE, compose).slow(3),
    test("clients::podman_compose_of_a_user", USER_COMPOSE, compose_of_user).slow(3),
];

const ROOT_COMPOSE: &[Need] = &with::<{ networks::NEEDS.len() + 2 }>(networks::NEEDS, "podman-compose");
const USER_COMPOSE: &[Need] =
    &with::<{ networks_rootless::NEEDS.len() + 2 }>(networks_rootless::NEEDS, "podman-compose");

/// Python and a program in it, beside other needs.
const fn with<const MORE: usize>(needs: &[Need], client: &'static str) -> [Need; MORE] {
    let mut all = [Need::Program("python3"); MORE];
    let mut place = 0;
    while place < needs.len() {
        all[place] = needs[place];
        place += 1;
    }
    all[place] = Need::Client(client);
    all
}

/// A project of two services, one of which waits for the health of the other and finds it by a name of a network. `drive` runs the
/// program with tote called podman, and `tote` is that of the machine.
const PROJECT: &str = r#"
(cd "${IMAGE#rootfs:}" && tar c .) | tote import -q - localhost/box >/dev/null
mkdir "$PLACE/project"; cd "$PLACE/project"; chmod 755 .
cat > compose.yaml <<'END'
services:
  store:
    image: localhost/box
    command: ["sh", "-c", "echo stored > /data/file; exec busybox nc -ll -p 80 -e cat /data/file"]
    volumes: ["data:/data"]
    networks: {back: {aliases: [shelf]}}
    healthcheck: {test: ["CMD", "test", "-f", "/data/file"], interval: 1s, start_period: 5s, start_interval: 1s}
  web:
    image: localhost/box
    command: ["sh", "-c", "until busybox nc -w 3 shelf 80 </dev/null; do :; done; exec sleep 1000"]
    depends_on: {store: {condition: service_healthy}}
    networks: [back]
volumes: {data: {}}
networks: {back: {}}
END
drive up -d
tote inspect -f '{{.State.Health.Status}} {{.State.Running}}' project_store_1 project_web_1 2>&1 | head -n 1
until tote logs project_web_1 2>/dev/null | grep -q stored; do sleep 0.05; done
drive ps --format '{{.Names}}' | sort
drive logs --no-color --no-log-prefix web
drive exec -T web echo executed
drive stop -t 0
tote ps -q | wc -l
drive start
tote ps -q | wc -l
drive up -d
drive down -t 0 -v
tote ps -aq; tote volume ls -q; tote network ls -q -f type=custom; tote pod ps -q
"#;

/// Output of [`PROJECT`].
const LINES: &str = "\
healthy true
project_store_1
project_web_1
stored
executed
0
2
";

fn compose(cx: &Context) -> Result<()> {
    let script = format!("{}{PROJECT}", driver("podman-compose")?);
    let out = on_machine_of(cx, &["--net", "--mount"], &script)?;
    out.exits(0)?.prints(LINES)?;
    cx.nothing_left()
}

fn compose_of_user(cx: &Context) -> Result<()> {
    let script = format!(
        "AS=user; PLACE=/mnt/place\n{}{PROJECT}",
        driver("podman-compose")?
    );
    networks_rootless::shows(cx, &script, LINES)
}

/// Functions of a script: `drive` runs podman-compose, as a user where `AS` says so. It calls the tote of the script by the name of podman.
fn driver(name: &str) -> Result<String> {
    let client = need::client(name).with_context(|| format!("{name}, which the test needs"))?;
    Ok(format!("CLIENT='{}'\n{DRIVE}", client.display()))
}

const DRIVE: &str = r#"
: "${AS:=env}" "${PLACE:=$FILE.place}"
mkdir -p "$PLACE/bin"; cp -r "$CLIENT" "$PLACE/client"
tool="$TOTE"; [ "$AS" = env ] || tool=/mnt/tote
for name in podman docker; do ln -s "$tool" "$PLACE/bin/$name"; done
drive() {
  $AS env PYTHONPATH="$PLACE/client" PYTHONDONTWRITEBYTECODE=1 TOTE_ROOT="$STATE" PATH="$PLACE/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    timeout 60 python3 -m podman_compose "$@" > "$PLACE/said" 2> "$PLACE/wrong" || { echo "$1 failed"; cat "$PLACE/wrong"; }
  case $1 in up | down | start | stop) ;; *) cat "$PLACE/said" ;; esac
}
"#;
