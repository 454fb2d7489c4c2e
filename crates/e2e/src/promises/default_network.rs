//! The network of containers and of builds whose command line names none. The runner's environment says `none` for all other tests.

use super::networks::{NEEDS, prints};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test(
        "default_network::containers_of_images_are_in_bridge",
        NEEDS,
        bridged,
    ),
    test("default_network::steps_of_builds_are_in_bridge", NEEDS, built),
    test("default_network::a_setting_changes_it", NEEDS, set),
    test("default_network::links_are_names_in_hosts", NEEDS, linked),
    test(
        "default_network::a_machine_that_cannot_have_it_says_so_once",
        NEEDS,
        without,
    ),
    test(
        "default_network::a_user_without_networks_is_told_so_once",
        &[Need::Unprivileged],
        told,
    ),
];

fn linked(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --name db "$IMAGE" sleep 300 >/dev/null
ip=$(tote inspect -f '{{.NetworkSettings.IPAddress}}' db)
id=$(tote inspect -f '{{.Id}}' db | cut -c 1-12)
tote run --rm --link db:mysql "$IMAGE" grep mysql /etc/hosts | sed "s/^$ip/ADDRESS/; s/$id/ID/"
tote create --name web --link db "$IMAGE" sh -c "grep '^$ip' /etc/hosts" >/dev/null
tote inspect -f '{{json .HostConfig.Links}}' web
tote start -a web | sed "s/^$ip/ADDRESS/; s/$id/ID/"
tote rename db other
tote start -a web | sed "s/^$ip/ADDRESS/; s/$id/ID/"
tote network create lab >/dev/null
tote run --rm --network lab --link other "$IMAGE" true 2>&1 | head -n 1
tote run --rm --network host --link other "$IMAGE" true 2>&1 | head -n 1
tote run --rm --link nosuch "$IMAGE" true 2>&1 | head -n 1
tote stop -t 0 other >/dev/null
tote start web 2>&1 | head -n 1
"#;
    prints(
        cx,
        &format!("{UNSET}{script}"),
        "ADDRESS\tmysql ID db\n[\"/db:/web/db\"]\nADDRESS\tdb ID\nADDRESS\tdb ID other\n\
         tote: Cannot link to /other, as it does not belong to a network of this container\n\
         tote: conflicting options: host type networking can't be used with links. This would result in undefined behavior\n\
         tote: No such container: nosuch\n\
         tote: Cannot link to a non running container: /other AS /web/db\n",
    )
}

/// Begins each script: no setting counts, and `ask` asks the server which address it sees.
const UNSET: &str = r#"
unset TOTE_NETWORK TOTE_BUILD_NETWORK
ask() { tote run --rm "$@" "$IMAGE" busybox nc 198.51.100.9 80 </dev/null 2>>"$FILE.err" || echo apart; }
"#;

fn bridged(cx: &Context) -> Result<()> {
    let script = r#"
ask
tote run -d --name a "$IMAGE" sleep 300 >/dev/null
tote create --name b "$IMAGE" sh -c 'exec sleep 300' >/dev/null
tote start b >/dev/null
for name in a b; do
  tote inspect -f '{{.HostConfig.NetworkMode}} {{len .NetworkSettings.Networks}}' $name
  tote exec $name busybox nc 198.51.100.9 80 </dev/null
done
tote ps --filter network=bridge -q | wc -l
tote pod create p >/dev/null
ask --pod p
tote pod rm -f p >/dev/null
# The programs of the host image are this machine's own.
tote run --rm host ip -o link | grep -c eth0 || true
tote run --rm -p 8080:80 host ip -o link | grep -c eth0
cat "$FILE.err"
"#;
    prints(
        cx,
        &format!("{UNSET}{script}"),
        "198.51.100.2\nbridge 1\n198.51.100.2\nbridge 1\n198.51.100.2\n2\n198.51.100.2\n0\n1\n",
    )
}

/// Begins scripts that build: `built` prints what `RUN` prints.
const BUILD: &str = r#"
mkdir -p "$FILE.context"; cp -a "${IMAGE#rootfs:}/." "$FILE.context/root"
built() { tote build --no-cache "$@" "$FILE.context" | grep -E '^(198|apart)'; }
"#;

fn built(cx: &Context) -> Result<()> {
    let script = r#"
step='["sh", "-c", "busybox nc 198.51.100.9 80 </dev/null 2>/dev/null || echo apart"]'
printf '%s\n' 'FROM scratch' 'COPY root /' "RUN $step" "RUN --network=none $step" "RUN --network=host $step" > "$FILE.context/Dockerfile"
built
built --network none
built --network host
TOTE_BUILD_NETWORK=none built
tote build --network container:a "$FILE.context" 2>&1 | grep -o 'give default, none or host'
"#;
    let (seen, apart) = ("198.51.100.2\n", "apart\n");
    let expected = [
        [seen, apart, seen],
        [apart, apart, seen],
        [seen, apart, seen],
        [apart, apart, seen],
    ]
    .concat()
    .concat();
    prints(
        cx,
        &format!("{UNSET}{BUILD}{script}"),
        &format!("{expected}give default, none or host\n"),
    )
}

fn set(cx: &Context) -> Result<()> {
    let script = r#"
export HOME="$FILE.home"; mkdir -p "$HOME/.config/tote"
tote network create lab >/dev/null
mode() { tote create "$@" "$IMAGE" true >"$FILE.id"; tote inspect -f '{{.HostConfig.NetworkMode}}' "$(cat "$FILE.id")"; }
TOTE_NETWORK=none ask
TOTE_NETWORK=none mode -p 80
TOTE_NETWORK=container:a tote create "$IMAGE" true 2>&1 | grep -o 'TOTE_NETWORK: invalid network'
echo '{"container": "lab"}' > "$HOME/.config/tote/network.json"
mode
mode -p 80
mode --network none
TOTE_NETWORK=host mode
echo '{"run": "lab"}' > "$HOME/.config/tote/network.json"
tote create "$IMAGE" true 2>&1 | grep -o 'cannot parse the configuration of networks'
rm "$HOME/.config/tote/network.json"
tote rm -fa >/dev/null
tote network rm lab >/dev/null
"#;
    prints(
        cx,
        &format!("{UNSET}{script}"),
        "apart\nbridge\nTOTE_NETWORK: invalid network\nlab\nlab\nnone\nhost\ncannot parse the configuration of networks\n",
    )
}

fn without(cx: &Context) -> Result<()> {
    let script = r#"
ask
down
# The network has its subnet by now, and a route has come to it since, and to all others that it could have.
subnet() { tote network inspect -f '{{(index .IPAM.Config 0).Subnet}}' bridge; }
before=$(subnet)
ip route add 10.208.0.0/12 via 198.51.100.9
ask
grep -c 'tote: warning' "$FILE.err"; grep -c 'no network but a loopback device.*overlaps' "$FILE.err"
tote run --rm --network bridge "$IMAGE" true 2>/dev/null || echo $?
tote run -d --name a "$IMAGE" sleep 300 >/dev/null 2>&1
tote inspect -f '{{.State.Running}} {{.HostConfig.NetworkMode}}' a
printf '%s\n' 'FROM scratch' 'COPY root /' 'RUN ["true"]' 'RUN ["true"]' > "$FILE.context/Dockerfile"
tote build --no-cache -q "$FILE.context" 2>&1 >/dev/null | grep -c 'no network but a loopback device'
ls "$STATE/live" | grep -c network || true
# With the route gone, its next start has the network.
[ "$(subnet)" = "$before" ]
ip route del 10.208.0.0/12
tote restart -t 0 a >/dev/null
tote exec a busybox nc 198.51.100.9 80 </dev/null
"#;
    prints(
        cx,
        &format!("{UNSET}{BUILD}{script}"),
        "198.51.100.2\napart\n1\n1\n125\ntrue bridge\n1\n0\n198.51.100.2\n",
    )
}

fn told(cx: &Context) -> Result<()> {
    let says = "no network but a loopback device";
    // Whatever this machine has: the programs that map ids are found, and pasta(1) is not.
    let programs = cx.directory("programs")?;
    for name in ["newuidmap", "newgidmap"] {
        std::os::unix::fs::symlink(format!("/usr/bin/{name}"), format!("{programs}/{name}"))?;
    }
    let unset = |words: &[&str]| {
        cx.tote(words)
            .env("PATH", &programs)
            .env("TOTE_NETWORK", "")
            .env("TOTE_BUILD_NETWORK", "")
    };
    let image = cx.image();
    let run = unset(&["run", "--rm", &image, "sh", "-c", "ls /sys/class/net"]).output()?;
    run.exits(0)?.prints("lo\n")?.has_err(says)?;
    ensure!(run.err().lines().count() == 1, "{}", run.err());
    let quiet = unset(&["run", "--rm", "--network", "none", &image, "true"]).output()?;
    ensure!(quiet.exits(0)?.err().is_empty(), "{}", quiet.err());
    let host = unset(&["run", "--rm", "host", "true"]).output()?;
    ensure!(host.exits(0)?.err().is_empty(), "{}", host.err());
    cx.nothing_left()
}
