//! Command line before it runs: tote's, or another program's that ends in tote's.

use crate::exchange::{Ends, Running};
use crate::output::Output;
use crate::terminal::{self, Terminal};
use anyhow::{Context as _, Result};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

/// Command to be started; its environment has only the given variables.
#[derive(Debug)]
pub(crate) struct Invocation {
    words: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    directory: Option<OsString>,
    input: Option<Vec<u8>>,
}

impl Invocation {
    /// Makes a command of these words, the first being the program.
    pub(crate) fn new(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let words = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        Self {
            words,
            variables: Vec::new(),
            directory: None,
            input: None,
        }
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        // Most tests are not about networks, run at the same time, and compare the machine's links and rules before and after: their
        // containers and builds get no network. Tests of networks name them, in network namespaces of their own, and those of the default
        // (`default_network.rs`) take these variables away.
        .env("TOTE_NETWORK", "none")
        .env("TOTE_BUILD_NETWORK", "none")
    }

    /// Puts words in front: a program that runs the rest.
    pub(crate) fn under(mut self, words: &[&str]) -> Self {
        self.words.splice(0..0, words.iter().map(OsString::from));
        self
    }

    /// Adds an environment variable.
    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Starts in this directory.
    pub(crate) fn within(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.as_os_str().to_owned());
        self
    }

    /// Feeds these bytes to standard input, which is `/dev/null` otherwise.
    pub(crate) fn input(mut self, bytes: &[u8]) -> Self {
        self.input = Some(bytes.to_vec());
        self
    }

    /// Runs to the end.
    pub(crate) fn output(mut self) -> Result<Output> {
        let input = self.input.take();
        let mut running = self.start(if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })?;
        running.send(&input.unwrap_or_default());
        running.finish()
    }

    /// Starts the command with pipes for all three streams.
    pub(crate) fn spawn(self) -> Result<Running> {
        self.start(Stdio::piped())
    }

    /// Starts the command with this standard input.
    pub(crate) fn spawn_with(self, input: impl Into<OwnedFd>) -> Result<Running> {
        self.start(Stdio::from(input.into()))
    }

    /// Starts the command as the leader of a session on a new terminal of this size, which has all three streams.
    pub(crate) fn spawn_in_terminal(self, rows: u16, columns: u16) -> Result<(Running, Terminal)> {
        let terminal = Terminal::open(rows, columns)?;
        let this = std::env::current_exe().context("find this program")?;
        let shown = self.shown();
        let this = this.to_str().context("this program's path is not text")?;
        let mut command = self.under(&[this, terminal::LEAD_SESSION]).command()?;
        let end = || Ok::<_, anyhow::Error>(Stdio::from(terminal.other_end()?));
        let child = command
            .stdin(end()?)
            .stdout(end()?)
            .stderr(end()?)
            .spawn()
            .with_context(|| shown.clone())?;
        // The command's own copies would keep the terminal open for ever.
        drop(command);
        let (input, output) = (Some(terminal.our_end()?), Some(terminal.our_end()?));
        let running = Running::new(
            shown,
            child.id().try_into()?,
            Ends {
                input,
                output,
                errors: None,
            },
        )?;
        Ok((running, terminal))
    }

    fn start(self, stdin: Stdio) -> Result<Running> {
        let shown = self.shown();
        let mut command = self.command()?;
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("start {shown}"))?;
        let ends = Ends {
            input: child.stdin.take().map(OwnedFd::from),
            output: child.stdout.take().map(OwnedFd::from),
            errors: child.stderr.take().map(OwnedFd::from),
        };
        Running::new(shown, child.id().try_into()?, ends)
    }

    fn command(&self) -> Result<Command> {
        let (program, args) = self.words.split_first().context("a command without words")?;
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        Ok(command)
    }

    fn shown(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }
}
