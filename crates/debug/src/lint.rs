//! Faults of a container's command that can be seen without running it.

use rustix::fd::BorrowedFd;
use tote_rootfs::{interpreter_of, lookup_executable};

/// Number of interpreters of interpreters that the kernel follows.
const DEEPEST: usize = 4;

/// Lists what is wrong with a command in this root; `path` is its search path.
pub(super) fn complaints(
    root: BorrowedFd<'_>,
    command: &[String],
    path: Option<&str>,
    cwd: &str,
) -> Vec<String> {
    let Some(program) = command.first() else {
        return vec!["the container has no command".to_owned()];
    };
    let path = path.unwrap_or(tote_bundle::DEFAULT_PATH);
    let mut found = Vec::new();
    if let [shell, option, script, ..] = command
        && shell.ends_with("sh")
        && option == "-c"
        && !script.trim_start().starts_with("exec ")
    {
        found.push(
            "a shell runs the command, and may keep signals such as that of 'tote stop' from it: write it as a list of words \
             (CMD [\"program\", \"argument\"]), or begin it with 'exec'"
                .to_owned(),
        );
    }
    let mut at = match lookup_executable(root, program.as_ref(), path.as_ref(), cwd.as_ref()) {
        Ok(at) => at,
        Err(error) => {
            found.push(format!("{program:?} cannot be executed: {error}"));
            return found;
        }
    };
    for _ in 0..DEEPEST {
        let interpreter = match interpreter_of(root, &at) {
            Ok(Some(interpreter)) => interpreter,
            Ok(None) => return found,
            Err(error) => {
                found.push(format!("{} cannot be read: {error}", at.display()));
                return found;
            }
        };
        let needed = interpreter.path;
        match lookup_executable(root, needed.as_os_str(), path.as_ref(), cwd.as_ref()) {
            Ok(next) => at = next,
            Err(error) => {
                found.push(format!(
                    "{} needs the interpreter {}, which cannot be executed: {error}",
                    at.display(),
                    needed.display()
                ));
                return found;
            }
        }
    }
    found
}
