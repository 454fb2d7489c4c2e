//! The cases: scripts of sh(1), run with -e, that succeed if the runtime serves the engine.
//!
//! `E` is the engine, `C` and `B` are its equivalents for containerd, `I` is the image, `W` the directory with
//! files for it. The container is called `box`.

mod containerd;
mod docker;

pub(super) use containerd::CONTAINERD;
pub(super) use docker::{DOCKER, DOCKERS_WORDS, PODMAN, PODMAN_OF_A_USER};

#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) script: &'static str,
}

/// Builds a case of its name and script.
const fn case(name: &'static str, script: &'static str) -> Case {
    Case { name, script }
}

/// Functions that all scripts share.
pub(super) const PRELUDE: &str = r#"
# A container that is removed when it ends; one in the background.
R() { E run --rm --network none "$@"; }
D() { E run --detach --name box --network none "$@" >/dev/null; }
# Exits with 77, which is neither success nor failure.
skip() { echo "$*" >&2; exit 77; }
fail() { echo "$*" >&2; return 1; }
# is WANTED COMMAND…: what the command writes.
is() {
    wanted=$1; shift
    found=$("$@" | tr -d '\r')
    [ "$found" = "$wanted" ] || fail "\"$found\" instead of \"$wanted\": $*"
}
# code WANTED COMMAND…: how it exits.
code() {
    wanted=$1; shift
    found=0; "$@" || found=$?
    [ "$found" = "$wanted" ] || fail "exit code $found instead of $wanted: $*"
}
refused() { if "$@"; then fail "was not refused: $*"; fi; }
eventually() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || fail "did not happen: $*"
        sleep 0.1
    done
}
state() { E inspect --format "{{.State.$1}}" box; }
is_state() { [ "$(state "$1")" = "$2" ]; }
# containerd: one that is removed, one in the background, the task's state.
C() { ctr run --rm --runc-binary "$RUNTIME" "$@"; }
B() { ctr run --detach --runc-binary "$RUNTIME" "$@"; }
task() { ctr task list | grep -q "^box .*$1"; }
said() { E logs box 2>&1 | grep -q "$1"; }
"#;
