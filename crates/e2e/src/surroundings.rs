//! Reset of inherited process attributes that would affect every test: ignored signals, as under nohup(1) or behind
//! an `&` in a script, and the file mode creation mask. Closed standard streams are `/dev/null` by the time `main`
//! runs.

use anyhow::{Context as _, Error, Result, bail};
use rustix::fs::Mode;
use rustix::process::{Signal, umask};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Variable that is set once the signals have been reset.
const RESET: &str = "TOTE_E2E_SIGNALS_RESET";

/// Signals 1 to 31.
const STANDARD: u64 = (1 << 31) - 1;

/// Sets the usual mask and the default actions of signals. If a signal is ignored, this executes the program again,
/// and returns only on failure.
pub(crate) fn reset() -> Result<()> {
    umask(Mode::from_raw_mode(0o022));
    let status = std::fs::read_to_string("/proc/self/status").context("read the ignored signals")?;
    if ignored(&status)? == 0 {
        return Ok(());
    }
    if std::env::var_os(RESET).is_some() {
        bail!(
            "signals are ignored, and env(1) does not reset them: it must know --default-signal (coreutils 8.31)"
        );
    }
    let this = std::env::current_exe().context("find this program")?;
    let error = Command::new("env")
        .arg("--default-signal")
        .arg(this)
        .args(std::env::args_os().skip(1))
        .env(RESET, "1")
        .exec();
    Err(Error::new(error).context("reset the ignored signals with env(1)"))
}

/// Parses the set of ignored signals of /proc/PID/status. SIGPIPE is left out, because a Rust program ignores it
/// itself but its children do not; so are signals above 31, because glibc's posix_spawn(3) ignores two of its own
/// there, which no program resets.
fn ignored(status: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let set =
        u64::from_str_radix(line.unwrap_or_default().trim(), 16).context("the set of ignored signals")?;
    Ok(set & STANDARD & !(1 << (Signal::PIPE.as_raw() - 1)))
}

#[cfg(test)]
mod tests {
    use super::ignored;

    #[test]
    fn a_closed_pipe_is_our_own_affair() {
        for (set, expected) in [
            ("0000000000001000", 0),
            ("0000000000001007", 7),
            ("0000000180001000", 0),
        ] {
            let status = format!("Name:\tx\nSigIgn:\t{set}\nSigCgt:\t0\n");
            assert_eq!(ignored(&status).unwrap(), expected);
        }
        assert!(ignored("Name:\tx\n").is_err());
    }
}
