//! Cases for containerd, called by ctr(8): it has neither default limits nor networks, and words of its own.

use super::{Case, case};

pub(in super::super) const CONTAINERD: &[Case] = &[
    case("run", "is hello C $I box echo hello"),
    case("exit code 0", "code 0 C $I box true"),
    case("exit code 3", "code 3 C $I box sh -c 'exit 3'"),
    case(
        "exit code 126: not executable",
        "(C $I box /etc/passwd 2>&1 || true) | grep -i 'permission denied'",
    ),
    case(
        "exit code 127: not found",
        "(C $I box nonexistent 2>&1 || true) | grep 'executable file not found in $PATH'",
    ),
    case(
        "exit code 127: not found, a path",
        "(C $I box /nonexistent/program 2>&1 || true) | grep 'no such file or directory'",
    ),
    case(
        "exit code 137: killed",
        "C $I box sleep 1000 & pid=$!; eventually task RUNNING; ctr task kill -s KILL box; code 137 wait $pid",
    ),
    case("standard input", "echo in | is in C $I box head -n 1"),
    case(
        "terminal",
        "script -qefc \"ctr run --rm -t --runc-binary $RUNTIME $I box tty\" /dev/null | grep /dev/pts/",
    ),
    case("environment", "is 'a b' C --env 'X=a b' $I box sh -c 'echo $X'"),
    case("working directory", "is /tmp C --cwd /tmp $I box pwd"),
    case(
        "exec",
        "B $I box sleep 1000; is hello ctr task exec --exec-id e box echo hello",
    ),
    case(
        "exec: exit code",
        "B $I box sleep 1000; code 5 ctr task exec --exec-id e box sh -c 'exit 5'",
    ),
    case(
        "exec: not found",
        "B $I box sleep 1000
         (ctr task exec --exec-id e box nonexistent 2>&1 || true) | grep 'executable file not found in $PATH'",
    ),
    case("exec -i", "B $I box sleep 1000; echo in | is in ctr task exec --exec-id e box head -n 1"),
    case(
        "exec -t",
        "B $I box sleep 1000; script -qefc 'ctr task exec -t --exec-id e box tty' /dev/null | grep /dev/pts/",
    ),
    case(
        "exec -u",
        "B $I box sleep 1000; is 1000 ctr task exec --exec-id e --user 1000 box id -u",
    ),
    case(
        "exec -w",
        "B $I box sleep 1000; is /tmp ctr task exec --exec-id e --cwd /tmp box pwd",
    ),
    case(
        "exec -d",
        "B $I box sleep 1000; ctr task exec -d --exec-id e box touch /tmp/x
         eventually ctr task exec --exec-id f box test -e /tmp/x",
    ),
    case(
        "kill -s",
        "C $I box sh -c 'trap \"exit 42\" USR1; touch /tmp/ready; while :; do sleep 0.1; done' & pid=$!
         eventually ctr task exec --exec-id e box test -e /tmp/ready
         ctr task kill -s USR1 box; code 42 wait $pid",
    ),
    case(
        "pause and unpause",
        "B $I box sleep 1000; ctr task pause box; task PAUSED; ctr task resume box; task RUNNING
         ctr task exec --exec-id e box true",
    ),
    case(
        "stats",
        "B $I box sleep 1000; ctr task metrics box | grep 'memory.usage_in_bytes *[1-9]'",
    ),
    case(
        "top",
        "B $I box sleep 1000; pid=$(ctr task list | awk '$1 == \"box\" {print $2}'); ctr task ps box | grep -w $pid",
    ),
    case(
        "limit: memory",
        "B --memory-limit 33554432 $I box sleep 1000
         is 33554432 cat /sys/fs/cgroup/memory/default/box/memory.limit_in_bytes",
    ),
    case(
        "limit: cpus",
        "B --cpus 0.5 $I box sleep 1000; is 50000 cat /sys/fs/cgroup/cpu/default/box/cpu.cfs_quota_us",
    ),
    case("out of memory", "code 137 C --memory-limit 16777216 $I box tail /dev/zero"),
    case(
        "seccomp: default",
        "is 2 C --seccomp $I box awk '/^Seccomp:/ {print $2}' /proc/self/status",
    ),
    case(
        "seccomp: custom",
        "C --seccomp --seccomp-profile $W/seccomp.json $I box mkdir /tmp/x 2>&1 | grep 'No space left'",
    ),
    case(
        "seccomp: unconfined",
        "is 0 C $I box awk '/^Seccomp:/ {print $2}' /proc/self/status",
    ),
    case(
        "no new privileges",
        "is 1 C $I box awk '/^NoNewPrivs:/ {print $2}' /proc/self/status
         is 0 C --allow-new-privs $I box awk '/^NoNewPrivs:/ {print $2}' /proc/self/status",
    ),
    case(
        "volume",
        "C --mount type=bind,src=$W/volume,dst=/v,options=rbind:rw $I box sh -c 'echo z >/v/z'; is z cat $W/volume/z",
    ),
    case(
        "volume: read-only",
        "refused C --mount type=bind,src=$W/volume,dst=/v,options=rbind:ro $I box touch /v/y",
    ),
    case(
        "read-only",
        "refused C --read-only $I box touch /x; C --read-only $I box test -d /proc/1",
    ),
    case(
        "tmpfs",
        "C --mount type=tmpfs,src=tmpfs,dst=/t,options=size=1m:noexec $I box grep ' /t tmpfs ' /proc/mounts | grep noexec",
    ),
    case("device", "C --device /dev/full $I box test -c /dev/full"),
    case(
        "device: others are forbidden",
        "refused C $I box sh -c 'mknod /tmp/d b 254 0 && head -c 1 /tmp/d'",
    ),
    case(
        "capabilities: default",
        "C $I box grep CapEff /proc/self/status | grep -v 0000000000000000",
    ),
    case(
        "capabilities: added",
        "C --cap-add CAP_NET_ADMIN $I box ip link set lo down",
    ),
    case(
        "privileged",
        "C --privileged $I box sh -c 'grep CapEff /proc/self/status && mount -t tmpfs t /tmp'",
    ),
    case(
        "network of the host",
        "is $(readlink /proc/self/ns/net) C --net-host $I box readlink /proc/self/ns/net",
    ),
    case("no network", "is lo C $I box sh -c 'ls /sys/class/net'"),
    case(
        "process ids of the host",
        "is $(readlink /proc/self/ns/pid) C --with-ns pid:/proc/self/ns/pid $I box readlink /proc/self/ns/pid",
    ),
    case(
        "remove by force",
        "B $I box sleep 1000; ctr task delete -f box; ctr container delete box; [ -z \"$(ctr container list -q)\" ]",
    ),
    case(
        "five at once",
        "for n in 1 2 3 4 5; do C $I c$n true & pids=\"${pids-} $!\"; done; for pid in $pids; do wait $pid; done",
    ),
    case(
        "orphans end with the container",
        "B $I box sh -c 'sleep 987 & sleep 987 & touch /tmp/ready; wait'
         eventually ctr task exec --exec-id e box test -e /tmp/ready
         ctr task kill -s KILL box; eventually task STOPPED; eventually eval '! pgrep -f \"^sleep 987\"'",
    ),
    case(
        "inspect: process id",
        "B $I box sleep 1000; pid=$(ctr task list | awk '$1 == \"box\" {print $2}'); grep -q sleep /proc/$pid/comm",
    ),
];
