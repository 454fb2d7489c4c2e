//! The options of `exec`, and the process that they make out of a container's own.

use crate::capability::{Capability, named};
use crate::environment::{EnvOptions, Environment};
use crate::error::{OptionError, ValueError, set_option};
use crate::options::add_all;
use crate::path::clean_absolute;
use crate::user::ResolvedUser;
use crate::value::{parse_boolean, parse_unsigned};
use tote_spec::{Capabilities, IdMapping, Linux, Process, User};

/// Options of `exec`, and the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOptions {
    /// The program and its arguments; not an option, the caller fills it in.
    pub command: Vec<String>,
    /// `--detach`: the caller does not wait for the process.
    pub detach: bool,
    /// `--interactive`: pass standard input on.
    pub interactive: bool,
    /// `--tty`: give the process a pseudo-terminal.
    pub tty: bool,
    /// `--env` and `--env-file`.
    pub env: EnvOptions,
    /// `--workdir`: absolute and clean.
    pub workdir: Option<String>,
    /// `--user`: `name|uid[:group|gid]`, unresolved; see [`crate::resolve_user`].
    pub user: Option<String>,
    /// `--privileged`: all capabilities.
    pub privileged: bool,
    /// `--cap-add`: capabilities beside those of the container; only `debug` has it.
    pub cap_add: Vec<Capability>,
    /// True if the process has the container's capabilities with any user; only `debug` has it.
    pub keeps_capabilities: bool,
    /// Capability that the container lacks and the process has with any user, so that the kernel keeps the container's processes out of it; only
    /// `debug` has it.
    pub mark: Option<&'static str>,
    /// `--detach-keys`, as written.
    pub detach_keys: Option<String>,
    /// `--preserve-fds`: number of descriptors from 3 on that the process inherits.
    pub preserve_fds: u32,
}

impl ExecOptions {
    /// Takes one option, by its long name; flags as `true` or `false`.
    ///
    /// # Errors
    /// [`OptionError`] names the option and the value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        set_option(name, value, |name, value| self.apply(name, value))
    }

    fn apply(&mut self, name: &str, value: &str) -> Result<bool, ValueError> {
        match name {
            "detach" => self.detach = parse_boolean(value)?,
            "interactive" => self.interactive = parse_boolean(value)?,
            "tty" => self.tty = parse_boolean(value)?,
            "workdir" => {
                let clean = clean_absolute(value).ok_or_else(|| ValueError::Workdir(value.to_owned()))?;
                self.workdir = Some(clean);
            }
            "user" => self.user = (!value.is_empty()).then(|| value.to_owned()),
            "privileged" => self.privileged = parse_boolean(value)?,
            "cap-add" => add_all(&mut self.cap_add, value)?,
            "detach-keys" => self.detach_keys = Some(value.to_owned()),
            "preserve-fds" => self.preserve_fds = parse_unsigned(value, 1 << 20)? as u32,
            _ => return Ok(self.env.apply(name, value)?),
        }
        Ok(true)
    }
}

/// Facts that `exec` needs beside its options and the container's own process.
pub struct ExecContext<'a> {
    /// The container's `linux` section, for the id mappings of its user namespace.
    pub linux: Option<&'a Linux>,
    /// The user of the container's own process and the user of the new one, both looked up in the container's
    /// passwd(5). Set only with `--user`.
    pub users: Option<(ResolvedUser, ResolvedUser)>,
    /// True if setgroups(2) is allowed in the container's user namespace.
    pub setgroups: bool,
    /// All capabilities by name, for `--privileged`.
    pub all_capabilities: &'a dyn Fn() -> Vec<String>,
    /// The caller's environment.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
}

impl std::fmt::Debug for ExecContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecContext")
            .field("users", &self.users)
            .finish_non_exhaustive()
    }
}

/// Builds the process of an `exec`: the container's own, changed by the options.
#[must_use]
pub fn exec_process(own: Process, options: &ExecOptions, context: &ExecContext<'_>) -> Process {
    let env = environment(&own, options, context);
    let mut process = Process {
        terminal: options.tty,
        console_size: None,
        args: options.command.clone(),
        env,
        ..own
    };
    if let Some((_, user)) = &context.users {
        process.user = groups(user, context);
    }
    if let Some(workdir) = &options.workdir {
        process.cwd.clone_from(workdir);
    }
    let everything = options.privileged || options.cap_add.contains(&Capability::All);
    if everything {
        let all = (context.all_capabilities)();
        process.capabilities = Some(Capabilities {
            bounding: all.clone(),
            effective: all.clone(),
            permitted: all,
            ..Capabilities::default()
        });
    } else if !options.cap_add.is_empty() {
        let sets = process.capabilities.get_or_insert_default();
        for set in [&mut sets.bounding, &mut sets.effective, &mut sets.permitted] {
            for name in named(&options.cap_add) {
                if !set.iter().any(|held| held == name) {
                    set.push(name.to_owned());
                }
            }
        }
    }
    if options.keeps_capabilities {
        // By the ambient set a program gets them although its user is not root.
        let sets = process.capabilities.get_or_insert_default();
        for set in [&mut sets.permitted, &mut sets.inheritable, &mut sets.ambient] {
            set.clone_from(&sets.effective);
        }
    }
    if let Some(mark) = options.mark {
        let sets = process.capabilities.get_or_insert_default();
        for set in [
            &mut sets.bounding,
            &mut sets.effective,
            &mut sets.permitted,
            &mut sets.inheritable,
            &mut sets.ambient,
        ] {
            if !set.iter().any(|held| held == mark) {
                set.push(mark.to_owned());
            }
        }
    }
    process
}

/// Keeps the groups that the container maps. An unmapped one is dropped silently, because the user did not name it.
fn groups(user: &ResolvedUser, context: &ExecContext<'_>) -> User {
    let maps: &[IdMapping] = context.linux.map_or(&[], |linux| &linux.gid_mappings);
    let mapped = |gid: &u32| maps.is_empty() || IdMapping::outside(maps, *gid).is_some();
    // The primary group comes first, so that no setgid(2) can shed it (CVE-2022-36109).
    let all = std::iter::once(&user.gid).chain(&user.additional_gids).copied();
    User {
        uid: user.uid,
        gid: user.gid,
        additional_gids: all.filter(|gid| context.setgroups && mapped(gid)).collect(),
        ..User::default()
    }
}

/// Merges the container's variables, the files and `--env`, each over those before. `TERM` is set for a terminal,
/// and `HOME` for the user, unless one of these sources has set them.
fn environment(own: &Process, options: &ExecOptions, context: &ExecContext<'_>) -> Vec<String> {
    /// Default `TERM` of a container with a terminal.
    const TERM: &str = "TERM=xterm";
    let mut environment = Environment::default();
    for line in &own.env {
        // This `TERM` belongs to the container's terminal; the new process has no terminal or another one.
        if !(own.terminal && !options.tty && line == TERM) {
            environment.set(line.clone());
        }
    }
    if options.tty && !environment.contains("TERM") {
        environment.set(TERM.to_owned());
    }
    if let Some((from, to)) = &context.users {
        // The start of the container appends `HOME` only if nothing else has set it, so a default `HOME` stands
        // last.
        let added = format!("HOME={}", from.home);
        if own.env.last() == Some(&added) {
            environment.set(format!("HOME={}", to.home));
        }
    }
    environment.set_all(&options.env, context.environment);
    environment.into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Process {
        Process {
            terminal: true,
            env: ["PATH=/bin", "TERM=xterm", "A=1", "HOME=/root"]
                .map(str::to_owned)
                .to_vec(),
            cwd: "/srv".to_owned(),
            no_new_privileges: true,
            ..Process::default()
        }
    }

    fn user(uid: u32, home: &str) -> ResolvedUser {
        ResolvedUser {
            uid,
            gid: uid,
            additional_gids: vec![7, 70_000],
            home: home.to_owned(),
        }
    }

    fn made(options: &ExecOptions, users: Option<(ResolvedUser, ResolvedUser)>) -> Process {
        let linux = Linux {
            gid_mappings: vec![IdMapping {
                container_id: 0,
                host_id: 100_000,
                size: 65_536,
            }],
            ..Linux::default()
        };
        let context = ExecContext {
            linux: Some(&linux),
            users,
            setgroups: true,
            all_capabilities: &|| vec!["CAP_X".to_owned()],
            environment: &|name| (name == "HERE").then(|| "1".to_owned()),
        };
        exec_process(own(), options, &context)
    }

    #[test]
    fn the_containers_process_with_changes() {
        let mut options = ExecOptions::default();
        for (name, value) in [
            ("env", "A=2"),
            ("env", "HERE"),
            ("env", "PATH"),
            ("workdir", "/tmp/"),
        ] {
            options.set(name, value).unwrap();
        }
        options.env.add_file("A=file\nB=file\nGONE").unwrap();
        let process = made(&options, None);
        assert_eq!(process.env, ["A=2", "HOME=/root", "B=file", "HERE=1"]);
        assert_eq!(process.cwd, "/tmp");
        assert!(!process.terminal && process.no_new_privileges);
    }

    #[test]
    fn the_home_is_the_users() {
        let users = (user(0, "/root"), user(5, "/home/u"));
        let process = made(&ExecOptions::default(), Some(users));
        assert_eq!(process.env.last().unwrap(), "HOME=/home/u");
        assert_eq!((process.user.uid, process.user.additional_gids), (5, vec![5, 7]));
        let given = made(&ExecOptions::default(), Some((user(0, "/"), user(5, "/home/u"))));
        assert_eq!(given.env.last().unwrap(), "HOME=/root", "somebody has set it");
    }

    #[test]
    fn privileged_has_everything() {
        let options = ExecOptions {
            privileged: true,
            tty: true,
            ..ExecOptions::default()
        };
        let process = made(&options, None);
        assert_eq!(process.capabilities.unwrap().effective, ["CAP_X"]);
        assert!(process.terminal && process.no_new_privileges);
        assert!(process.env.contains(&"TERM=xterm".to_owned()));
    }

    #[test]
    fn options_are_checked() {
        let mut options = ExecOptions::default();
        for (name, value) in [
            ("workdir", "x"),
            ("env", "=x"),
            ("detach", "perhaps"),
            ("name", "x"),
        ] {
            assert!(options.set(name, value).is_err(), "{name} {value}");
        }
        options.set("user", "").unwrap();
        assert_eq!(options, ExecOptions::default());
    }
}
