//! `build --quiet`.

use rustix::fd::OwnedFd;
use tote_sys::best_effort;

/// Silenced standard output and error, for `--quiet`; drop restores them.
pub(crate) struct Muted(Option<(OwnedFd, OwnedFd)>);

impl Muted {
    pub(crate) fn start() -> Self {
        let mute = || {
            let kept = (
                rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?,
                rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?,
            );
            let null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
            rustix::stdio::dup2_stdout(&null)?;
            rustix::stdio::dup2_stderr(&null)?;
            Ok::<_, std::io::Error>(kept)
        };
        // If the redirection fails, the output of commands is shown.
        Self(mute().ok())
    }
}

impl Drop for Muted {
    fn drop(&mut self) {
        if let Some((out, err)) = &self.0 {
            best_effort(rustix::stdio::dup2_stdout(out));
            best_effort(rustix::stdio::dup2_stderr(err));
        }
    }
}
