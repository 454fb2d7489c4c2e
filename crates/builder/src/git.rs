//! Runs of git(1) for builds: with an environment and a configuration of its own, without the caller's, and without
//! settings by which a repository could make it execute programs.

use super::error::GitFailure;
use super::{BuildFault, RepositoryFault, SecretFault, SecretSource};
use crate::EngineError;
use std::collections::{BTreeMap, VecDeque};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use tote_build::{Repository, redacted};
use tote_sys::best_effort;

/// Limit of git's output, in bytes.
const OUTPUT_MAX: u64 = 16 << 20;
/// Length of the end of git's messages that is kept, in bytes.
const MESSAGES_MAX: usize = 16 << 10;
/// Protocols for repositories and their submodules. Local paths and remote helpers are excluded.
const PROTOCOLS: &str = "http:https:git:ssh";
/// Configuration of git in place of all files.
const CONFIGURATION: [(&str, &str); 9] = [
    ("core.hooksPath", "/dev/null"),
    ("core.attributesFile", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.symlinks", "true"),
    ("credential.helper", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("advice.detachedHead", "false"),
    ("init.defaultBranch", "master"),
];
/// Variables of the caller that git may use: proxies and certificates.
const INHERITED: [&str; 13] = [
    "PATH",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
];

/// Environment of git for one repository.
#[derive(Debug)]
pub(crate) struct Git<'a> {
    repository: &'a Repository,
    /// Directory for git's output.
    dir: &'a Path,
    /// Settings beside the configuration.
    credentials: Vec<(String, String)>,
    agent: Option<PathBuf>,
}

/// Output and exit status of git.
pub(crate) struct GitAnswer {
    pub output: String,
    pub(crate) messages: String,
    status: ExitStatus,
}

impl<'a> Git<'a> {
    /// Prepares git. `dir` is an existing directory. Secrets and agents are those of the build.
    pub(crate) fn new(
        repository: &'a Repository,
        dir: &'a Path,
        secrets: &BTreeMap<String, SecretSource>,
        agents: &BTreeMap<String, PathBuf>,
    ) -> Result<Self, EngineError> {
        let own = || std::env::var_os("SSH_AUTH_SOCK").map(PathBuf::from);
        Ok(Self {
            repository,
            dir,
            credentials: credentials(&repository.remote, secrets)?,
            agent: agents.get("default").cloned().or_else(own),
        })
    }

    /// Runs git in a directory. Returns its output, or its message as an error.
    pub(crate) fn run(&self, tree: &Path, arguments: &[&str]) -> Result<String, EngineError> {
        let said = self.try_run(tree, arguments)?;
        match said.status.success() {
            true => Ok(said.output),
            false => Err(self.refused(&said).into()),
        }
    }

    /// Runs git like [`Self::run`]; if the server does not support shallow histories, repeats the command without
    /// asking for one.
    pub(crate) fn run_shallow(&self, tree: &Path, arguments: &[&str]) -> Result<String, EngineError> {
        let said = self.try_run(tree, arguments)?;
        if said.status.success() {
            return Ok(said.output);
        }
        let whole: Vec<&str> = arguments
            .iter()
            .copied()
            .filter(|word| *word != "--depth=1")
            .collect();
        let is_depth = said.messages.contains("shallow") || said.messages.contains("--depth");
        if is_depth && whole.len() < arguments.len() {
            return self.run(tree, &whole);
        }
        Err(self.refused(&said).into())
    }

    /// True if a commit is present.
    pub(crate) fn has(&self, tree: &Path, commit: &str) -> Result<bool, EngineError> {
        let said = self.try_run(tree, &["cat-file", "-e", &format!("{commit}^{{commit}}")])?;
        Ok(said.status.success())
    }

    fn try_run(&self, tree: &Path, arguments: &[&str]) -> Result<GitAnswer, EngineError> {
        let path = self.dir.join("output");
        best_effort(std::fs::remove_file(&path));
        let output = std::fs::File::create_new(&path).map_err(EngineError::file("make", &path))?;
        let mut command = self.command();
        command.current_dir(tree).args(arguments);
        command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());
        let mut child = tote_sys::spawn_mortal(&mut command).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => {
                BuildFault::Git(RepositoryFault::NoGit(self.repository.to_string()))
            }
            _ => BuildFault::Git(RepositoryFault::GitStart(source)),
        })?;
        let mut messages = VecDeque::new();
        let mut buffer = [0; 4096];
        while let Some(pipe) = &mut child.stderr {
            match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => messages.extend(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(BuildFault::Git(RepositoryFault::GitStart(error)).into()),
            }
            messages.drain(..messages.len().saturating_sub(MESSAGES_MAX));
        }
        let status = tote_sys::await_program(&mut child).map_err(RepositoryFault::GitStart)?;
        let mut text = Vec::new();
        let read = std::fs::File::open(&path).and_then(|file| file.take(OUTPUT_MAX).read_to_end(&mut text));
        read.map_err(EngineError::file("read", &path))?;
        Ok(GitAnswer {
            output: String::from_utf8_lossy(&text).into_owned(),
            messages: String::from_utf8_lossy(&Vec::from(messages)).into_owned(),
            status,
        })
    }

    fn command(&self) -> Command {
        // process: programs of the host
        #[expect(
            clippy::disallowed_methods,
            reason = "repositories come by git(1), as with docker; no container's start waits for it"
        )]
        let mut command = Command::new("git");
        command.env_clear();
        command.envs(
            INHERITED
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        );
        command.envs([
            ("LC_ALL", "C"),
            ("HOME", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            // Templates would give hooks to each repository and submodule.
            ("GIT_TEMPLATE_DIR", ""),
            ("GIT_ALLOW_PROTOCOL", PROTOCOLS),
        ]);
        // A repository around the state root does not belong to this build.
        command.envs(self.dir.parent().map(|above| ("GIT_CEILING_DIRECTORIES", above)));
        command.env("GIT_SSH_COMMAND", ssh(std::env::var("HOME").ok().as_deref()));
        command.envs(self.agent.as_ref().map(|socket| ("SSH_AUTH_SOCK", socket)));
        // The settings go into the environment, because every user could read credentials on the command line.
        let own = CONFIGURATION.iter().map(|(key, value)| (*key, *value));
        let given = (self.credentials.iter()).map(|(key, value)| (&**key, &**value));
        let mut count = 0;
        for (key, value) in own.chain(given) {
            command.env(format!("GIT_CONFIG_KEY_{count}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        command.env("GIT_CONFIG_COUNT", count.to_string());
        command
    }

    fn refused(&self, said: &GitAnswer) -> BuildFault {
        let messages = (said.messages).replace(&self.repository.remote, &redacted(&self.repository.remote));
        let why = reason(&messages);
        BuildFault::Git(RepositoryFault::Git {
            url: self.repository.to_string(),
            kind: GitFailure::of(&why),
            why,
        })
    }
}

/// Finds the line of git's messages with the reason of the failure.
fn reason(messages: &str) -> String {
    const LENGTH_MAX: usize = 300;
    let lines = || messages.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut errors =
        lines().filter_map(|line| (line.strip_prefix("fatal: ")).or_else(|| line.strip_prefix("error: ")));
    let why = errors
        .next()
        .or_else(|| lines().next_back())
        .unwrap_or("git ended without a message");
    why.chars().take(LENGTH_MAX).collect()
}

/// Builds the command of ssh(1), without the caller's configuration: keys come from the agent, and host keys from the
/// caller's known hosts.
fn ssh(home: Option<&str>) -> String {
    let mut command = "ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes".to_owned();
    let is_plain = |home: &&str| {
        let fits = |letter: char| letter.is_alphanumeric() || "/._-+@".contains(letter);
        home.starts_with('/') && home.chars().all(fits)
    };
    if let Some(home) = home.filter(is_plain) {
        command += &format!(" -o UserKnownHostsFile={home}/.ssh/known_hosts");
    }
    command
}

/// Finds the caller's credentials for a server over HTTP, under BuildKit's names: the secret `GIT_AUTH_HEADER.HOST`
/// or `GIT_AUTH_TOKEN.HOST`, or one of these without a host.
fn credentials(
    remote: &str,
    secrets: &BTreeMap<String, SecretSource>,
) -> Result<Vec<(String, String)>, EngineError> {
    use base64::Engine as _;
    let Some((_, rest)) = remote
        .split_once("://")
        .filter(|(scheme, _)| scheme.starts_with("http"))
    else {
        return Ok(Vec::new());
    };
    let host = rest.split('/').next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    for (name, is_token) in [
        (format!("GIT_AUTH_HEADER.{host}"), false),
        (format!("GIT_AUTH_TOKEN.{host}"), true),
        ("GIT_AUTH_HEADER".to_owned(), false),
        ("GIT_AUTH_TOKEN".to_owned(), true),
    ] {
        let Some(secret) = secrets.get(&name) else {
            continue;
        };
        let content = secret.read(&name)?;
        let value = String::from_utf8(content).map_err(|_| SecretFault::NotText(name.clone()))?;
        let value = value.trim_end_matches(['\r', '\n']);
        let value = match is_token {
            true => {
                let login = format!("x-access-token:{value}");
                format!(
                    "basic {}",
                    base64::engine::general_purpose::STANDARD.encode(login)
                )
            }
            false => value.to_owned(),
        };
        // Submodules at the same place get the credentials as well, those at other servers do not.
        let github = ["https://github.com/", "https://www.github.com/"];
        let scope = github
            .into_iter()
            .find(|start| remote.starts_with(start))
            .unwrap_or(remote);
        return Ok(vec![(
            format!("http.{scope}.extraHeader"),
            format!("Authorization: {value}"),
        )]);
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons() {
        for (messages, why) in [
            ("", "git ended without a message"),
            ("remote: hello\nfatal: not found\n", "not found"),
            ("warning: x\nerror: one\nfatal: two\n", "one"),
            ("ssh: connect: refused\n\n", "ssh: connect: refused"),
        ] {
            assert_eq!(reason(messages), why, "{messages:?}");
        }
        assert_eq!(
            reason(&format!("fatal: {}", "ä".repeat(1000))).chars().count(),
            300
        );
    }

    #[test]
    fn a_home_is_no_part_of_a_shells_command() {
        assert!(ssh(Some("/home/me")).ends_with("UserKnownHostsFile=/home/me/.ssh/known_hosts"));
        for home in [None, Some("/home/a b"), Some("/x;id"), Some("$(id)"), Some("")] {
            assert!(!ssh(home).contains("UserKnownHosts"), "{home:?}");
        }
    }
}
