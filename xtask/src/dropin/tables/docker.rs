//! Cases for docker and podman, in their common words.

use super::{Case, case};

/// Cases for both.
pub(in super::super) const DOCKERS_WORDS: &[Case] = &[
    case("run", "is hello R $I echo hello"),
    case("exit code 0", "code 0 R $I true"),
    case("exit code 3", "code 3 R $I sh -c 'exit 3'"),
    case("exit code 126: not executable", "code 126 R $I /etc/passwd"),
    case("exit code 127: not found", "code 127 R $I nonexistent"),
    case("exit code 127: not found, a path", "code 127 R $I /nonexistent/program"),
    case("exit code 137: killed", "D $I sleep 1000; E kill box; is 137 E wait box"),
    case("standard input", "echo in | is in R -i $I cat"),
    case("terminal", "R -t $I tty | grep -q ^/dev/"),
    case("create and start", "E create --name box --network none $I echo hello; is hello E start -a box"),
    case("environment", "is 'a b' R -e 'X=a b' $I sh -c 'echo $X'"),
    case("working directory", "is /tmp R -w /tmp $I pwd"),
    case("exec", "D $I sleep 1000; is hello E exec box echo hello"),
    case("exec: exit code", "D $I sleep 1000; code 5 E exec box sh -c 'exit 5'"),
    case(
        "exec: not found",
        "D $I sleep 1000; found=0; E exec box nonexistent || found=$?; [ $found = 126 ] || [ $found = 127 ]",
    ),
    case("exec -i", "D $I sleep 1000; echo in | is in E exec -i box cat"),
    case("exec -t", "D $I sleep 1000; E exec -t box tty | grep -q ^/dev/"),
    case("exec -u", "D $I sleep 1000; is 1000:2000 E exec -u 1000:2000 box sh -c 'echo $(id -u):$(id -g)'"),
    case("exec -u by name", "D $I sleep 1000; is 1000 E exec -u guest box id -u"),
    case(
        "exec -u: writes to standard output",
        "D $I sleep 1000; is hello E exec -u 1000 box sh -c 'echo hello >/dev/stdout'",
    ),
    case("exec -w", "D $I sleep 1000; is /tmp E exec -w /tmp box pwd"),
    case("exec -e", "D $I sleep 1000; is y E exec -e X=y box sh -c 'echo $X'"),
    case("exec -d", "D $I sleep 1000; E exec -d box touch /tmp/x; eventually E exec box test -e /tmp/x"),
    case(
        "exec: same namespaces and cgroup",
        "D $I sleep 1000; is same E exec box sh -c \
         'for n in mnt pid net uts ipc; do [ $(readlink /proc/1/ns/$n) = $(readlink /proc/self/ns/$n) ] || echo $n; done
          cmp /proc/1/cgroup /proc/self/cgroup && echo same'",
    ),
    case("exec --privileged", "D $I sleep 1000; E exec --privileged box true"),
    case(
        "exec into a user's container",
        "D -u 1000 $I sleep 1000; is 1000 E exec box id -u; is 0 E exec -u 0 box id -u",
    ),
    case(
        "exec: many at once",
        "D $I sleep 1000
         for n in 1 2 3 4 5 6; do E exec box true & pids=\"${pids-} $!\"; done
         for pid in $pids; do wait $pid; done",
    ),
    case("kill -s", "D $I sh -c 'trap \"exit 42\" USR1; echo ready; while :; do sleep 0.1; done'
         eventually said ready; E kill -s USR1 box; is 42 E wait box"),
    case("stop: at once", "D $I sh -c 'trap \"exit 7\" TERM; echo ready; while :; do sleep 0.1; done'
         eventually said ready; E stop box; is 7 state ExitCode"),
    case("stop: after a time", "D $I sleep 1000; E stop -t 1 box; is 137 state ExitCode"),
    case("stop signal", "D --stop-signal USR2 $I sh -c 'trap \"exit 8\" USR2; echo ready; while :; do sleep 0.1; done'
         eventually said ready; E stop box; is 8 state ExitCode"),
    case(
        "pause and unpause",
        "D $I sleep 1000; E pause box; is paused state Status; refused E exec box true
         E unpause box; is running state Status; E exec box true",
    ),
    case("stats", "D $I sleep 1000; E stats --no-stream --format '{{.PIDs}} {{.MemUsage}}' box | grep '^1 [0-9.]*[1-9]'"),
    case("top", "D $I sleep 1000; E top box | grep -q sleep"),
    case("logs", "D $I sh -c 'echo out; echo err >&2'; E wait box; is 'err
out' eval 'E logs box 2>&1 | sort'"),
    case("cp in", "D $I sleep 1000; echo x >$W/volume/in; E cp $W/volume/in box:/tmp/in; is x E exec box cat /tmp/in"),
    case("cp out", "D $I sh -c 'echo y >/tmp/out; sleep 1000'; eventually E exec box test -s /tmp/out
         E cp box:/tmp/out $W/volume/out; is y cat $W/volume/out"),
    case(
        "update: memory",
        "D -m 64m --memory-swap 64m $I sleep 1000; E update -m 32m --memory-swap 32m box
         is 33554432 E exec box cat /sys/fs/cgroup/memory/memory.limit_in_bytes",
    ),
    case(
        "update: cpu",
        "D $I sleep 1000; E update --cpu-shares 512 box
         is 512 E exec box cat /sys/fs/cgroup/cpu/cpu.shares",
    ),
    case("limit: memory", "is 33554432 R -m 32m $I cat /sys/fs/cgroup/memory/memory.limit_in_bytes"),
    case("limit: little memory", "is hello R -m 6m $I echo hello"),
    case("limit: reservation", "is 16777216 R --memory-reservation 16m $I cat /sys/fs/cgroup/memory/memory.soft_limit_in_bytes"),
    case("limit: cpus", "is 50000 R --cpus 0.5 $I cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
    case("limit: cpu shares", "is 512 R --cpu-shares 512 $I cat /sys/fs/cgroup/cpu/cpu.shares"),
    case("limit: cpuset", "is 1 R --cpuset-cpus 0 $I nproc"),
    case("limit: pids", "is 20 R --pids-limit 20 $I cat /sys/fs/cgroup/pids/pids.max"),
    case("limit: pids hold", "refused R --pids-limit 5 $I sh -c 'for n in 1 2 3 4 5 6 7 8; do sleep 1 & done; wait'"),
    case("out of memory", "D -m 16m --memory-swap 16m $I tail /dev/zero; is 137 E wait box"),
    case("cgroup parent", "R --cgroup-parent /parent $I grep -q /parent/ /proc/self/cgroup"),
    case("seccomp: default", "is 2 R $I awk '/^Seccomp:/ {print $2}' /proc/self/status"),
    case("seccomp: unconfined", "is 0 R --security-opt seccomp=unconfined $I awk '/^Seccomp:/ {print $2}' /proc/self/status"),
    case(
        "seccomp: custom",
        "R --security-opt seccomp=$W/seccomp.json $I true
         R --security-opt seccomp=$W/seccomp.json $I mkdir /tmp/x 2>&1 | grep 'No space left'",
    ),
    case("no new privileges", "is 1 R --security-opt no-new-privileges $I awk '/^NoNewPrivs:/ {print $2}' /proc/self/status"),
    case("user", "is 1000:1000 R -u 1000:1000 $I sh -c 'echo $(id -u):$(id -g)'"),
    case("user: by name", "is 1000 R -u guest $I id -u"),
    case("user: further groups", "R --group-add 2000 -u 1000 $I id -G | grep -w 2000"),
    case("user: writes to standard output", "is hello R -u 1000 $I sh -c 'echo hello >/dev/stdout'"),
    case("volume", "R -v $W/volume:/v $I sh -c 'echo z >/v/z'; is z cat $W/volume/z"),
    case("volume: read-only", "refused R -v $W/volume:/v:ro $I touch /v/y"),
    case("volume: a file", "echo y >$W/volume/y; is y R -v $W/volume/y:/tmp/name $I cat /tmp/name"),
    case("volume: shared subtree", "R -v $W/volume:/v:rshared $I true || skip needs a shared mount of the host"),
    case("volume: named", "R -v some:/v $I touch /v/x; R -v some:/v $I test -e /v/x"),
    case("mount option", "refused R --mount type=bind,source=$W/volume,target=/v,readonly $I touch /v/y"),
    case("read-only", "refused R --read-only $I touch /x; R --read-only $I test -d /proc/1"),
    case("read-only with a tmpfs", "R --read-only --tmpfs /tmp $I touch /tmp/x"),
    case(
        "tmpfs",
        "R --tmpfs /t:size=1m,mode=700,noexec $I grep ' /t tmpfs ' /proc/mounts >$W/tmp/t
         grep -q noexec $W/tmp/t; grep -q size=1024k $W/tmp/t; grep -q mode=700 $W/tmp/t",
    ),
    case("shared memory's size", "R --shm-size 2m $I grep ' /dev/shm ' /proc/mounts | grep -q size=2048k"),
    case("hostname", "is there R --hostname there $I hostname"),
    case("device", "R --device /dev/zero:/dev/nil $I sh -c 'test -c /dev/nil && head -c 4 /dev/nil | wc -c' | grep -q 4"),
    case("device: read-only", "refused R --device /dev/kmsg:/dev/nil:r $I sh -c 'echo x >/dev/nil'"),
    case("device: others are forbidden", "refused R $I sh -c 'mknod /tmp/d b 254 0 && head -c 1 /tmp/d'"),
    case("ulimit", "is 100:200 R --ulimit nofile=100:200 $I sh -c 'echo $(ulimit -Sn):$(ulimit -Hn)'"),
    case("sysctl", "is 77 R --sysctl net.core.somaxconn=77 $I cat /proc/sys/net/core/somaxconn"),
    case("capabilities: default", "R $I grep CapEff /proc/self/status | grep -v 0000000000000000"),
    case("capabilities: none", "is 0000000000000000 R --cap-drop ALL $I awk '/^CapEff/ {print $2}' /proc/self/status"),
    case("capabilities: one", "is 0000000000000400 R --cap-drop ALL --cap-add NET_BIND_SERVICE $I awk '/^CapEff/ {print $2}' /proc/self/status"),
    case("capabilities: added", "R --cap-add NET_ADMIN $I ip link add name d type bridge || R --cap-add NET_ADMIN $I ip link set lo down"),
    case("privileged", "R --privileged $I sh -c 'grep CapEff /proc/self/status && mount -t tmpfs t /tmp'"),
    case("privileged: devices", "R --privileged $I test -c /dev/full"),
    case("init", "[ -x /usr/bin/tini-static ] || skip needs tini
         R --init $I sh -c 'test $$ -gt 1'; code 9 R --init $I sh -c 'exit 9'"),
    case("oom score", "is 500 R --oom-score-adj 500 $I cat /proc/self/oom_score_adj"),
    case("masked paths", "is 0 eval 'R $I cat /proc/timer_list /proc/keys 2>/dev/null | wc -c'; refused R $I sh -c 'echo 1 >/proc/sys/kernel/panic'"),
    case("network of the host", "is $(readlink /proc/self/ns/net) E run --rm --network host $I readlink /proc/self/ns/net"),
    case("network of another", "D $I sleep 1000; is $(E exec box readlink /proc/self/ns/net) E run --rm --network container:box $I readlink /proc/self/ns/net"),
    case("no network", "is lo R $I sh -c 'ls /sys/class/net'"),
    case("process ids of the host", "is $(readlink /proc/self/ns/pid) R --pid host $I readlink /proc/self/ns/pid"),
    case("process ids of another", "D $I sleep 1000; R --pid container:box $I sh -c 'ps | grep \"[s]leep 1000\"'"),
    case("ipc of the host", "is $(readlink /proc/self/ns/ipc) R --ipc host $I readlink /proc/self/ns/ipc"),
    case("uts of the host", "is $(readlink /proc/self/ns/uts) R --uts host $I readlink /proc/self/ns/uts"),
    case("restart", "D $I sh -c 'echo up; sleep 1000'; eventually said up; E restart -t 0 box
         eventually eval '[ $(E logs box | grep -c up) = 2 ]'; is running state Status"),
    case("restart policy", "D --restart on-failure:2 $I sh -c 'echo x; exit 4'
         eventually eval '[ $(E logs box | grep -c x) = 3 ]'; eventually is_state Status exited; is 4 state ExitCode"),
    case("detached removal", "E run -d --rm --name box --network none $I sleep 1000; E kill box
         eventually eval '[ -z \"$(E ps -aq)\" ]'"),
    case("remove by force", "D $I sleep 1000; E rm -f box; [ -z \"$(E ps -aq)\" ]"),
    case("five at once", "for n in 1 2 3 4 5; do R $I true & pids=\"${pids-} $!\"; done
         for pid in $pids; do wait $pid; done"),
    case("orphans end with the container", "D $I sh -c 'sleep 987 & sleep 987 & wait'
         eventually eval '[ $(E top box | grep -c \"sleep 987\") -ge 2 ]'; E kill box; E wait box
         eventually eval '! pgrep -f \"^sleep 987\"'"),
    case("inspect: process id", "D $I sleep 1000; pid=$(state Pid); grep -q sleep /proc/$pid/comm"),
];

/// Cases for podman only.
pub(in super::super) const PODMAN: &[Case] = &[
    case(
        "health",
        "D --health-cmd true $I sleep 1000; E healthcheck run box",
    ),
    case(
        "user namespace",
        "is 100000 R --uidmap 0:100000:1000 $I awk '{print $2}' /proc/self/uid_map",
    ),
    case("ps", "D $I sleep 1000; E ps --format '{{.Status}}' | grep -q Up"),
    case(
        "pod",
        "E pod create --name p --infra=false; R --pod p $I true; E pod rm -f p",
    ),
];

/// Cases for podman run by an ordinary user.
pub(in super::super) const PODMAN_OF_A_USER: &[Case] = &[
    case(
        "health",
        "D --health-cmd true $I sleep 1000; E healthcheck run box",
    ),
    case("ps", "D $I sleep 1000; E ps --format '{{.Status}}' | grep -q Up"),
    case(
        "pod",
        "E pod create --name p --infra=false; R --pod p $I true; E pod rm -f p",
    ),
    case(
        "user namespace: the user's own id",
        "is $(id -u) R --userns keep-id $I id -u",
    ),
    case(
        "user namespace",
        "is 1 R --uidmap 0:1:1000 $I awk '{print $2}' /proc/self/uid_map",
    ),
    case(
        "tmpfs: modes",
        "is '1777 700' R --tmpfs /t --tmpfs /u:mode=0700 $I sh -c 'echo $(stat -c %a /t /u)'",
    ),
    case(
        "devices of the host",
        "R -v /dev:/dev:rslave $I sh -c 'echo x >/dev/null'",
    ),
];

/// Cases for docker only.
pub(in super::super) const DOCKER: &[Case] = &[
    case(
        "health",
        "D --health-cmd true --health-interval 1s $I sleep 1000; eventually is_state Health.Status healthy",
    ),
    case(
        "live update: pids",
        "D --pids-limit 50 $I sleep 1000; E update --pids-limit 20 box; is 20 E exec box cat /sys/fs/cgroup/pids/pids.max",
    ),
    case(
        "device cgroup rule",
        "refused R $I sh -c 'mknod /tmp/k c 1 11 && : >/tmp/k'
         R --device-cgroup-rule 'c 1:11 w' $I sh -c 'mknod /tmp/k c 1 11 && : >/tmp/k'",
    ),
    case("userns host", "R --userns host $I true"),
    case("working directory is made", "is /new/one R -w /new/one $I pwd"),
    case("seccomp: default forbids", "refused R $I unshare -U true"),
    case(
        "out of memory: told",
        "D -m 16m --memory-swap 16m $I tail /dev/zero; is 137 E wait box; is true state OOMKilled",
    ),
];
