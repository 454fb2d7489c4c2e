//! Hooks: programs that callers want to be run at points of a container's life.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::MemfdFlags;
use std::ffi::CString;
use std::fs::File;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tote_sys::{Endless, Errno, Program, Wait, best_effort};

/// Hook, as `config.json` has it.
#[derive(Clone, Copy, Debug)]
pub struct HookSpec<'a> {
    /// Path of the executable.
    pub path: &'a str,
    /// Arguments, `argv[0]` included; if empty, the path alone.
    pub args: &'a [String],
    /// Complete environment; if empty, the caller's.
    pub env: &'a [String],
    /// Timeout in seconds.
    pub timeout: Option<u32>,
}

/// Reason why a hook failed.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The hook could not be started, or could not be waited for.
    #[error("cannot run {path}")]
    Run {
        /// Path of the executable.
        path: String,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// The hook took too long and was killed.
    #[error("{path} was killed after its time limit of {seconds} seconds")]
    Timeout {
        /// Path of the executable.
        path: String,
        /// Limit in seconds.
        seconds: u32,
    },
    /// The hook ended with another status than 0.
    #[error("{status}, output: {said}")]
    Status {
        /// Status in words.
        status: String,
        /// Beginning of its output.
        said: String,
    },
}

/// Upper bound of a hook's output in a message, in bytes.
const SAID: usize = 1024;

/// Runs a hook in the caller's own namespaces, with the container's state on its standard input.
///
/// # Errors
/// [`HookError`]; the hook has ended then.
pub fn run_hook(hook: HookSpec<'_>, state: &[u8]) -> Result<(), HookError> {
    let failed = |source: std::io::Error| HookError::Run {
        path: hook.path.to_owned(),
        source,
    };
    let memory = || memory().map_err(|errno| failed(errno.into()));
    let (input, output) = (memory()?, memory()?);
    set_state(input.as_fd(), state).map_err(|errno| failed(errno.into()))?;
    let said = File::from(output);
    let mut child = spawn(hook, input, &said).map_err(failed)?;
    let limit = hook.timeout.map(|seconds| Duration::from_secs(seconds.into()));
    let ended = Wait::within_or(limit, Endless::Program).finish(&mut child);
    if !matches!(ended, Ok(Some(_))) {
        best_effort(child.kill());
        best_effort(Wait::ending().finish(&mut child));
    }
    match ended.map_err(failed)? {
        None => Err(HookError::Timeout {
            path: hook.path.to_owned(),
            seconds: hook.timeout.unwrap_or(0),
        }),
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(HookError::Status {
            status: describe(status),
            said: start_of(&said),
        }),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "running a given program is what a hook is"
)]
fn spawn(hook: HookSpec<'_>, input: OwnedFd, output: &File) -> std::io::Result<Child> {
    // process: programs of the host
    let mut command = Command::new(hook.path);
    if let Some((name, args)) = hook.args.split_first() {
        command.arg0(name).args(args);
    }
    if !hook.env.is_empty() {
        command
            .env_clear()
            .envs(hook.env.iter().filter_map(|line| line.split_once('=')));
    }
    command
        .stdin(Stdio::from(input))
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .spawn()
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    }
}

fn start_of(said: &File) -> String {
    use std::os::unix::fs::FileExt as _;
    let mut bytes = [0; SAID];
    let length = said.read_at(&mut bytes, 0).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..length])
        .trim()
        .replace('\n', " ")
}

/// Point at which hooks run in the container's namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before the container's root is entered, in the root's directory.
    CreateContainer,
    /// Immediately before the program, in the program's directory.
    StartContainer,
}

/// Prepares hooks that the new process runs in the container's namespaces. They share one state, which the parent
/// writes to the returned descriptor ([`set_state`]) before the process comes to them.
///
/// `environment` is for hooks without one of their own.
///
/// # Errors
/// memfd_create(2)'s; `EINVAL` for a text with a NUL byte.
pub fn hooks_inside(
    point: Point,
    hooks: &[HookSpec<'_>],
    environment: &[String],
) -> Result<(Vec<tote_sys::Hook>, Option<OwnedFd>), Errno> {
    if hooks.is_empty() {
        return Ok((Vec::new(), None));
    }
    let state = memory()?;
    let word = match point {
        Point::CreateContainer => "createContainer",
        Point::StartContainer => "startContainer",
    };
    let prepared = hooks.iter().enumerate().map(|(number, hook)| {
        let text = |text: &str| CString::new(text).map_err(|_| Errno::INVAL);
        let texts = |texts: &[String]| texts.iter().map(|one| text(one)).collect::<Result<Vec<_>, _>>();
        let path = text(hook.path)?;
        let args = if hook.args.is_empty() {
            vec![path.clone()]
        } else {
            texts(hook.args)?
        };
        let env = if hook.env.is_empty() {
            environment
        } else {
            hook.env
        };
        Ok(tote_sys::Hook {
            name: format!("{word} hook #{number}"),
            path,
            program: Program::new(args, texts(env)?),
            input: rustix::io::fcntl_dupfd_cloexec(&state, 3)?,
            output: memory()?,
            timeout: hook.timeout,
            at_root: point == Point::CreateContainer,
        })
    });
    Ok((prepared.collect::<Result<_, Errno>>()?, Some(state)))
}

/// Writes the state to the file that hooks read.
///
/// # Errors
/// write(2)'s.
pub fn set_state(file: BorrowedFd<'_>, state: &[u8]) -> Result<(), Errno> {
    let mut rest = state;
    while !rest.is_empty() {
        let written = rustix::io::write(file, rest)?;
        rest = &rest[written..];
    }
    rustix::fs::seek(file, rustix::fs::SeekFrom::Start(0)).map(drop)
}

fn memory() -> Result<OwnedFd, Errno> {
    rustix::fs::memfd_create(c"tote-hook", MemfdFlags::CLOEXEC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, timeout: Option<u32>) -> Result<(), HookError> {
        let args = ["sh".to_owned(), "-c".to_owned(), script.to_owned()];
        let env = ["PATH=/usr/bin:/bin".to_owned(), "A=b".to_owned()];
        let hook = HookSpec {
            path: "/bin/sh",
            args: &args,
            env: &env,
            timeout,
        };
        run_hook(hook, br#"{"id":"x"}"#)
    }

    #[test]
    fn state_environment_and_arguments_arrive() {
        sh(r#"test "$(cat)" = '{"id":"x"}' && test "$A$HOME" = b"#, None).unwrap();
    }

    #[test]
    fn a_failure_says_what_the_hook_wrote() {
        let error = sh("echo why >&2; exit 3", None).unwrap_err().to_string();
        assert_eq!(error, "exit status 3, output: why");
        let error = sh("kill -9 $$", None).unwrap_err().to_string();
        assert!(error.starts_with("signal 9"), "{error}");
    }

    #[test]
    fn time_is_limited() {
        let error = sh("exec sleep 1000", Some(0)).unwrap_err();
        assert!(matches!(error, HookError::Timeout { .. }), "{error}");
        sh("exit 0", Some(100)).unwrap();
    }

    #[test]
    fn a_missing_program_is_named() {
        let hook = HookSpec {
            path: "/no/such/hook",
            args: &[],
            env: &[],
            timeout: None,
        };
        let error = run_hook(hook, b"").unwrap_err().to_string();
        assert_eq!(error, "cannot run /no/such/hook");
    }
}
