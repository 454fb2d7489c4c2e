//! Environment of a session. Variables of the container would decide what its tools run (`LD_PRELOAD`, `BASH_ENV`, `PYTHONPATH`, a `HOME` with a
//! `.bashrc` in it), so the tools get them only on request, and the container's own programs when `tote exec` starts them.

use super::DebugRequest;
use tote_bundle::{ExecContext, exec_process};
use tote_life::exec::{Target, Users};

/// Home directory of root in a session whose root is the tools.
const OF_ROOT: &str = "/root";

/// Home directory of a session whose root is the container's tree, in which nothing is the container's.
const ASIDE: &str = "/.tote";

/// Returns the home directory that a user has among the tools: one in which the container has no file.
pub(super) fn home_of(uid: u32) -> &'static str {
    match uid {
        0 => OF_ROOT,
        _ => "/",
    }
}

/// Gives the process variables in place of the container's own: all of them, or those of the same names on request.
pub(super) fn adapt(
    target: &mut Target,
    mut variables: Vec<String>,
    users: Option<&Users>,
    request: &DebugRequest,
) {
    let own = target.own_mut();
    if request.exec.tty {
        variables.extend(terminal(std::env::var("TERM").ok()));
    }
    let env = &mut own.process.env;
    if request.env_of_container {
        let name = |line: &String| line.split_once('=').map(|(name, _)| name.to_owned());
        env.retain(|line| !variables.iter().any(|other| name(other) == name(line)));
        // Before the others: `HOME` is changed with the user only where it stands last.
        env.splice(0..0, variables);
        return;
    }
    let uid = users.map_or(own.process.user.uid, |(_, user)| user.uid);
    let home = if request.target_view { ASIDE } else { home_of(uid) };
    // First, since the last one would be taken for that of the container's user.
    variables.insert(0, format!("HOME={home}"));
    *env = variables;
}

/// Returns the variable that says what the caller's terminal is.
fn terminal(kind: Option<String>) -> Option<String> {
    let is_name = |kind: &String| !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_graphic());
    Some(format!("TERM={}", kind.filter(is_name)?))
}

/// Returns the variables of a program of the container that is started in the session: those of an `exec` with the session's options.
pub(super) fn of_programs(target: &Target, users: Option<&Users>, request: &DebugRequest) -> Vec<String> {
    let context = ExecContext {
        linux: None,
        users: users.cloned(),
        setgroups: false,
        all_capabilities: &Vec::new,
        environment: &|name| std::env::var(name).ok(),
    };
    let process = exec_process(target.own().process.clone(), &request.exec, &context);
    // The terminal is the session's, and a name that looks like an option would be one of env(1).
    let is_passed = |line: &String| !line.starts_with("TERM=") && !line.starts_with('-');
    process.env.into_iter().filter(is_passed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_a_plain_name() {
        let of = |kind: &str| terminal(Some(kind.to_owned()));
        assert_eq!(of("xterm-256color").as_deref(), Some("TERM=xterm-256color"));
        for odd in ["", "x\x1b[2J", "a b"] {
            assert_eq!(of(odd), None, "{odd:?}");
        }
        assert_eq!(terminal(None), None);
    }
}
