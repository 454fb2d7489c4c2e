//! `tote debug`: containers of other engines. Each engine runs with its state in memory, in a mount namespace of the test's own.

use super::life::done;
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need::{Program, Root, SubIds};
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test(
        "debug_engines::podmans_containers",
        &[Root, Program("podman"), Program("runc")],
        podman,
    ),
    test(
        "debug_engines::podmans_containers_of_a_user",
        &[SubIds, Program("podman"), Program("runc")],
        podman_of_user,
    ),
    test(
        "debug_engines::root_names_podmans_containers_of_users",
        &[Root, Program("podman"), Program("runc"), Program("setpriv")],
        podman_of_users,
    ),
    test(
        "debug_engines::containerds_containers",
        &[Root, Program("containerd"), Program("ctr"), Program("runc")],
        containerd,
    ),
    test(
        "debug_engines::dockers_containers",
        &[Root, Program("dockerd"), Program("runc")],
        docker,
    ),
    test(
        "debug_engines::lxcs_containers",
        &[Root, Program("lxc-start")],
        lxc,
    ),
    test(
        "debug_engines::machines_of_systemd_nspawn",
        &[Root, Program("systemd-nspawn")],
        nspawn,
    ),
    test("debug_engines::a_process_by_its_command", &[], by_command),
];

/// Function of the scripts: `look NAME` prints what a session in the container sees. The first process has a value of its
/// own in its environment, and the session shares its namespaces and cgroups but not its mounts.
const LOOK: &str = r#"
look() {
  # An engine may return before its runtime has become the program.
  until "$tote" --root "$state" debug "$1" sh -c 'tr "\0" " " < /proc/1/cmdline' | grep -q '^\(/bin/\)\?sleep'; do :; done
  "$tote" --root "$state" debug "$1" sh -c '
    echo "${MARK:-nothing} $(tr "\0" " " < /proc/1/cmdline)"
    cat /target/mark
    for name in cgroup ipc net pid user uts; do
      test "$(readlink /proc/self/ns/$name)" = "$(readlink /proc/1/ns/$name)" || echo "another $name"
    done
    test "$(cat /proc/self/cgroup)" = "$(cat /proc/1/cgroup)" || echo "other cgroups"
    test "$(grep -E "^(CapEff|CapBnd|Seccomp|NoNewPrivs):" /proc/self/status)" = \
         "$(grep -E "^(CapEff|CapBnd|Seccomp|NoNewPrivs):" /proc/1/status)" || echo "other rights"
    test "$(readlink /proc/self/ns/mnt)" != "$(readlink /proc/1/ns/mnt)" || echo "its mounts"'
  # What the container has set is there on request, and for its own programs.
  "$tote" --root "$state" debug --env-of-container "$1" sh -c 'echo "$MARK on request"'
  "$tote" --root "$state" debug "$1" tote exec sh -c 'echo "$MARK for its own"'
  "$tote" --root "$state" debug --privileged "$1" sh -c 'echo "${MARK:-nothing} with more rights"'
}
# A profile that forbids one call, which tote's default filter allows; and what a session makes of it.
profile() {
  echo '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}' >"$scratch/profile"
  echo "$scratch/profile"
}
forbidden() {
  "$tote" --root "$state" debug "$@" sh -c 'mkdir /tmp/dir 2>/dev/null && echo allowed || echo forbidden'
}
memory() {
  mount --make-rprivate /
  for dir in "$@"; do mkdir -p "$dir"; mount -t tmpfs none "$dir"; done
}
tote=$1 state=$2 rootfs=$3 scratch=$4
"#;

/// Output of `look`.
const SEEN: &str =
    "nothing sleep 1000 \nits root\nhere on request\nhere for its own\nnothing with more rights\n";

fn script(cx: &Context, under: &[&str], text: &str) -> Result<Output> {
    let (dir, _) = cx.own_rootfs("fs")?;
    std::fs::write(dir.join("mark"), "its root\n")?;
    let words = [
        "bash".to_owned(),
        "-c".to_owned(),
        format!("{LOOK}{text}"),
        "-".to_owned(),
        cx.binary().display().to_string(),
        cx.root().display().to_string(),
        dir.display().to_string(),
        cx.scratch().display().to_string(),
    ];
    Invocation::new(words).under(under).output()
}

/// Options of podman on a machine without systemd, where no limit can be raised.
const PODMAN: &str = r#"
podman() {
  command podman --cgroup-manager=cgroupfs --events-backend=none --runtime runc "$@"
}
"#;

fn podman(cx: &Context) -> Result<()> {
    let text = r#"
memory /var/lib/containers /run/containers /run/netns
podman run -d --name podbox --network none --cgroup-parent /tote-test-podman --ulimit nofile=1024:1024 \
  --ulimit nproc=1000:1000 --security-opt seccomp="$(profile)" -e MARK=here --rootfs "$rootfs" sleep 1000 >/dev/null
look podman:podbox
look podbox
forbidden podbox
forbidden --privileged podbox
forbidden --cap-add SYS_NICE podbox
# All sessions have compiled its profile once.
ls "$state/filters" | wc -l
# What a session keeps among the tools is there for the next one, and goes when it is to go.
"$tote" --root "$state" debug --keep podman:podbox sh -c 'echo kept >/etc/own'
"$tote" --root "$state" debug --keep podbox cat /etc/own
podman rm -f -t 0 podbox >/dev/null
"$tote" --root "$state" debug --kept podman:podbox | cut -f 1
"$tote" --root "$state" debug --forget podman:podbox
"$tote" --root "$state" debug --kept podman:podbox 2>/dev/null || echo forgotten
ls "$state/tools"
# The process beside the container ends a moment after it.
while compgen -G "/sys/fs/cgroup/*/tote-test-podman" || compgen -G /sys/fs/cgroup/tote-test-podman; do
  rmdir /sys/fs/cgroup/{,*/}tote-test-podman/* /sys/fs/cgroup/{,*/}tote-test-podman 2>/dev/null
done >/dev/null
true
"#;
    let out = script(cx, &["unshare", "-m"], &format!("{PODMAN}{text}"))?;
    let expected = format!("{SEEN}{SEEN}forbidden\nallowed\nallowed\n1\nkept\nhost\nforgotten\n");
    ensure!(out.out() == expected, "{}", out.transcript());
    Ok(())
}

fn podman_of_user(cx: &Context) -> Result<()> {
    let text = r#"
export XDG_DATA_HOME=$scratch/data XDG_RUNTIME_DIR=$scratch/run HOME=$scratch
mkdir -p "$XDG_DATA_HOME" "$XDG_RUNTIME_DIR"
chmod 700 "$XDG_RUNTIME_DIR"
podman run -d --name podbox --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 -e MARK=here \
  --security-opt seccomp="$(profile)" --rootfs "$rootfs" sleep 1000 >/dev/null
look podman:podbox
forbidden podman:podbox
# All ids of the range are there, in the container's tree and in the tools.
"$tote" --root "$state" debug podman:podbox sh -c '
  for file in /target/tmp/theirs /tmp/theirs; do touch $file && chown 1234:77 $file && stat -c "%u %g" $file; done
  test "$(cat /proc/self/uid_map)" = "$(cat /proc/1/uid_map)" && setpriv --reuid 1234 --clear-groups id -u'
# With its storage elsewhere, only the process beside the container says where it is.
XDG_DATA_HOME=$scratch/none look podman:podbox
# The tools may come from it.
"$tote" --root "$state" run -d --name own "rootfs:$rootfs" sleep 1000 >/dev/null
echo tools >"$rootfs/tools"
"$tote" --root "$state" debug --tools container:podman:podbox own cat /tools
"$tote" --root "$state" debug --keep podman:podbox sh -c 'echo kept >/etc/own; chown 1234:77 /etc/own'
"$tote" --root "$state" debug --keep podman:podbox sh -c 'stat -c "%u %g" /etc/own; cat /etc/own'
"$tote" --root "$state" debug --forget podman:podbox
"$tote" --root "$state" rm -f own
podman rm -f -t 0 podbox >/dev/null
podman unshare rm -rf "$XDG_DATA_HOME"
kill "$(cat "$XDG_RUNTIME_DIR/libpod/tmp/pause.pid")"
"#;
    let out = script(cx, &[], &format!("{PODMAN}{text}"))?;
    let expected = format!("{SEEN}forbidden\n1234 77\n1234 77\n1234\n{SEEN}tools\n1234 77\nkept\nown\n");
    ensure!(out.out() == expected, "{}", out.transcript());
    Ok(())
}

/// A user who has one id starts a container, and root knows it by its name.
fn podman_of_users(cx: &Context) -> Result<()> {
    let text = r#"
# The user need not be able to come to where the tests were started.
cd /
memory /var/tmp
chmod 1777 /var/tmp
home=/var/tmp/home
mkdir -p $home/run
cp -a "$rootfs" $home/fs
chown -R 65534:65534 $home
as_user() {
  setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=$home XDG_RUNTIME_DIR=$home/run "$@"
}
as_user podman --cgroup-manager=cgroupfs --events-backend=none --runtime runc run -d --name theirbox --network none   --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 -e MARK=here --rootfs $home/fs sleep 1000 >/dev/null
look podman:theirbox
look theirbox
"$tote" --root "$state" debug podman:theirbox sh -c '
  id -u; touch /target/by-root; umount /usr 2>/dev/null || mount -o remount,rw,bind /usr 2>/dev/null || echo locked'
stat -c %u $home/fs/by-root
as_user podman --cgroup-manager=cgroupfs --events-backend=none --runtime runc rm -f -t 0 theirbox >/dev/null
kill "$(cat $home/run/libpod/tmp/pause.pid)"
"#;
    let out = script(cx, &["unshare", "-m"], text)?;
    let expected = format!("{SEEN}{SEEN}0\nlocked\n65534\n");
    ensure!(out.out() == expected, "{}", out.transcript());
    Ok(())
}

fn containerd(cx: &Context) -> Result<()> {
    let text = r#"
memory /run/containerd /var/lib/containerd
containerd --log-level error >"$scratch/containerd.log" 2>&1 &
pid=$!
until ctr version >/dev/null 2>&1; do kill -0 $pid || exit 1; done
ctr run -d --env MARK=here --env PATH=/bin --rootfs "$rootfs" ctrbox sleep 1000 </dev/null
look containerd:ctrbox
look containerd:default/ctrbox
look ctrbox
# Kubernetes names its containers by annotations.
ctr -n k8s.io run -d --annotation io.kubernetes.cri.sandbox-namespace=prod --annotation io.kubernetes.cri.sandbox-name=web \
  --annotation io.kubernetes.cri.container-name=app --seccomp --seccomp-profile "$(profile)" \
  --env MARK=here --env PATH=/bin --rootfs "$rootfs" podctr sleep 1000 </dev/null
look k8s:web/app
look k8s:prod/web/app
look crictl:podctr
"$tote" --root "$state" debug k8s:test/web/app true 2>/dev/null || echo none
forbidden k8s:web/app
end() {
  ctr -n $1 task kill -s KILL $2
  while ctr -n $1 task ls | grep -q RUNNING; do :; done
  ctr -n $1 task delete $2 >/dev/null 2>&1
  ctr -n $1 container delete $2
}
end default ctrbox
end k8s.io podctr
kill $pid
wait $pid
# containerd leaves a group for each of its namespaces.
rmdir /sys/fs/cgroup/{,*/}{default,k8s.io} 2>/dev/null || true
"#;
    let expected = format!("{}none\nforbidden\n", SEEN.repeat(6));
    script(cx, &["unshare", "-m"], text)?.prints(&expected)?;
    Ok(())
}

fn docker(cx: &Context) -> Result<()> {
    let text = r#"
memory /run/docker /var/lib/docker /run/containerd /var/lib/containerd
address=unix:///run/docker/test.sock
dockerd --iptables=false --ip6tables=false --bridge=none --storage-driver=vfs -H $address \
  --pidfile "$scratch/pid" --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent /tote-test-docker >"$scratch/dockerd.log" 2>&1 &
pid=$!
docker() { command docker -H $address "$@"; }
until docker version >/dev/null 2>&1; do kill -0 $pid || exit 1; done
tar -C "$rootfs" -c . | docker import - tiny >/dev/null
docker run -d --name dockbox --network none --ulimit nofile=1024:1024 --security-opt seccomp="$(profile)" \
  -e MARK=here tiny sleep 1000 >/dev/null
look docker:dockbox
look dockbox
forbidden dockbox
docker rm -f dockbox >/dev/null
kill $pid
wait $pid
rmdir /sys/fs/cgroup/*/tote-test-docker /sys/fs/cgroup/tote-test-docker 2>/dev/null || true
"#;
    script(cx, &["unshare", "-m"], text)?.prints(&format!("{SEEN}{SEEN}forbidden\n"))?;
    Ok(())
}

fn lxc(cx: &Context) -> Result<()> {
    let text = r#"
memory /var/lib/lxc
mkdir -p /var/lib/lxc/lxcbox
cat >/var/lib/lxc/lxcbox/config <<END
lxc.uts.name = lxcbox
lxc.rootfs.path = dir:$rootfs
lxc.net.0.type = empty
lxc.environment = MARK=here
lxc.environment = PATH=/bin
lxc.init.cmd = sleep 1000
lxc.mount.auto = proc:mixed sys:ro
END
lxc-start -n lxcbox -d
look lxc:lxcbox
look lxcbox
lxc-stop -n lxcbox -k
# LXC leaves a group that its process beside the container was in.
while pgrep -f '^\[lxc monitor\] .* lxcbox' >/dev/null; do :; done
rmdir /sys/fs/cgroup/{,*/}lxc.pivot 2>/dev/null || true
"#;
    let out = script(cx, &["unshare", "-m"], text)?;
    // LXC's own choice of rights is not that of its first process's children.
    ensure!(out.out() == SEEN.repeat(2), "{}", out.transcript());
    Ok(())
}

/// The machine is not registered, as on a machine without systemd-machined: its systemd-nspawn names it.
fn nspawn(cx: &Context) -> Result<()> {
    let text = r#"
memory /run/systemd
mkdir -p "$rootfs"/{usr,run,tmp,sys,dev,proc,var,root}
echo ID=test >"$rootfs/etc/os-release"
systemd-nspawn -q --register=no --keep-unit -D "$rootfs" -M nspawnbox -E MARK=here -E PATH=/bin /bin/sleep 1000 \
  >"$scratch/nspawn.log" 2>&1 </dev/null &
pid=$!
until "$tote" --root "$state" debug nspawn:nspawnbox true 2>/dev/null; do kill -0 $pid || exit 1; done
look nspawn:nspawnbox | sed 's:/bin/sleep:sleep:'
look nspawnbox | sed 's:/bin/sleep:sleep:'
"$tote" --root "$state" debug nspawn:none true || echo none
kill $pid
wait $pid || true
# systemd-nspawn leaves the groups of its two processes.
rmdir /sys/fs/cgroup/{,*/}{payload,supervisor} 2>/dev/null || true
"#;
    let out = script(cx, &["unshare", "-m"], text)?;
    ensure!(
        out.out() == format!("{}none\n", SEEN.repeat(2)),
        "{}",
        out.transcript()
    );
    Ok(())
}

fn by_command(cx: &Context) -> Result<()> {
    let (image, unique) = (cx.image(), format!("1000.{}", std::process::id()));
    done(
        cx,
        &["run", "-d", "--name", "c", "-e", "A=1", &image, "sleep", &unique],
    )?;
    let target = format!("command:sleep {unique}");
    let script = "echo $A; tr '\\0' ' ' < /proc/1/cmdline";
    cx.tote(&["debug", "--env-of-container", &target, "sh", "-c", script])
        .output()?
        .prints(&format!("1\nsleep {unique} "))?;
    cx.tote(&["debug", "command:no-such-program-1", "true"])
        .output()?
        .refuses(1, &["no-such-program-1"])?;
    done(cx, &["rm", "-f", "c"])?;
    Ok(())
}
