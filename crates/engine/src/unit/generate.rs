//! `tote generate systemd`.

use super::{UnitError, program};
use crate::container::{self, Container};
use crate::{EngineError, Home, Wishes};
use std::time::Duration;
use tote_bundle::StopTimeout;
use tote_unit::{RESTART_POLICIES, Service, UnitFile, exact};

/// Default stop timeout of docker, in seconds.
pub(super) const STOP_SECONDS: u64 = 10;

/// Options for units.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// True if each start makes a new container.
    pub new: bool,
    /// True if units are named after names instead of ids.
    pub name: bool,
    /// True for a template unit.
    pub template: bool,
    /// Settings for the init.
    pub wishes: Wishes,
    /// Stop timeout in seconds; by default the container's own.
    pub stop_seconds: Option<u64>,
    /// Prefix of the names of containers' units.
    pub container_prefix: String,
    /// Prefix of the names of pods' units.
    pub pod_prefix: String,
    /// Separator behind the prefix.
    pub separator: String,
}

/// Unit for systemd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedUnit {
    /// Name without `.service`.
    pub name: String,
    /// Text of the unit.
    pub text: String,
}

/// Makes the units of a container, or of a pod and its members.
///
/// # Errors
/// [`UnitError`], or an error if the name is unknown.
pub fn generate_units(
    home: &Home,
    wanted: &str,
    options: &GenerateOptions,
) -> Result<Vec<GeneratedUnit>, EngineError> {
    if options.template && !options.new {
        return Err(UnitError::Options("--template cannot be set without --new").into());
    }
    if let Some(policy) = options.wishes.restart.as_deref()
        && !RESTART_POLICIES.contains(&policy)
    {
        return Err(UnitError::Restart(policy.to_owned()).into());
    }
    let services = match container::find(home, wanted) {
        Err(error) if error.is_missing_container() => match crate::pod::find(home, wanted) {
            Ok(pod) => super::pod::of_pod(home, &pod, options)?,
            // If the name matches nothing, report it as a missing container.
            Err(_) => return Err(error),
        },
        Err(error) => return Err(error),
        Ok(entry) if !entry.kept => {
            return Err(UnitError::Unkept(entry.container.display().to_owned()).into());
        }
        Ok(entry) => vec![of_container(home, &entry.container, options)?],
    };
    let unit = |service: Service| GeneratedUnit {
        text: service.text(&options.wishes),
        name: service.name,
    };
    Ok(services.into_iter().map(unit).collect())
}

pub(super) fn of_container(
    home: &Home,
    container: &Container,
    options: &GenerateOptions,
) -> Result<Service, EngineError> {
    let called = if options.name {
        &*container.name
    } else {
        container.id.as_str()
    };
    let mark = if options.template { "@" } else { "" };
    // With --new the container of the id is gone by then.
    let target = if options.new { &*container.name } else { called };
    let target = if options.template {
        format!("{target}-%i")
    } else {
        target.to_owned()
    };
    let own_seconds = match container.run_options()?.stop_timeout {
        Some(StopTimeout::After(limit)) => limit.as_secs(),
        Some(StopTimeout::Never) | None => STOP_SECONDS,
    };
    let stop_seconds = options.stop_seconds.unwrap_or(own_seconds);
    let tote = tote(home);
    let with = |words: &[&str]| -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        tote.iter().cloned().chain(words).collect()
    };
    let seconds = stop_seconds.to_string();
    let commands = if options.new {
        let exact = exact(&target);
        let mut run = with(&["run", "--name", &target, "--replace", "--rm"]);
        run.extend(asked_for(home, container)?);
        [
            Vec::new(),
            run,
            with(&["stop", "--ignore", "-t", &seconds, &exact]),
            with(&["rm", "--force", "--ignore", &exact]),
        ]
    } else {
        let exact = if options.name {
            exact(&target)
        } else {
            target.clone()
        };
        // A container with its own readiness notification is awaited; for any other one its start is enough.
        let start = if container.option("sdnotify").is_some() {
            with(&["start", &exact])
        } else {
            with(&["start", "--sdnotify=conmon", &exact])
        };
        let stop = with(&["stop", "-t", &seconds, &exact]);
        [Vec::new(), start, stop.clone(), stop]
    };
    Ok(Service {
        name: format!("{}{}{called}{mark}", options.container_prefix, options.separator),
        mounts_for: home.root().display().to_string(),
        bound_to: Vec::new(),
        leads: Vec::new(),
        instance: options.template.then_some(target),
        commands,
        stop_seconds,
    })
}

/// Returns the command of this program, with the state root if it is not the default.
pub(super) fn tote(home: &Home) -> Vec<String> {
    let mut words = vec![program()];
    if !home.is_default() {
        words.extend(["--root".to_owned(), home.root().display().to_string()]);
    }
    words
}

/// Lists options, image and command of `run`, with the additions for systemd.
fn asked_for(home: &Home, container: &Container) -> Result<Vec<String>, EngineError> {
    let mut words = Vec::new();
    if container.option("cgroups").is_none() && container.option("cgroup-parent").is_none() {
        words.push("--cgroups=split".to_owned());
    }
    if container.option("sdnotify").is_none() {
        words.push("--sdnotify=conmon".to_owned());
    }
    words.extend(given(home, container)?);
    Ok(words)
}

/// Lists options, image and command as they were given.
fn given(home: &Home, container: &Container) -> Result<Vec<String>, EngineError> {
    let mut words = Vec::new();
    let pod = container.pod.as_ref();
    let pod = pod.map(|pod| crate::pod::find(home, pod)).transpose()?;
    if let Some(pod) = &pod {
        words.push(format!("--pod={}", pod.pod.name));
    }
    // A member's shared namespaces follow from its pod.
    let infra = pod.and_then(|pod| pod.pod.infra);
    let shared = infra.map(|infra| format!("container:{infra}"));
    for (option, value) in &container.options {
        // The init restarts the container, which runs in the foreground without a user's input.
        let otherwise = matches!(
            option.as_str(),
            // Mounts of --volumes-from and variables of --env-host are looked up anew.
            "rm" | "detach" | "restart" | "interactive" | "replace" | "attach" | "inherit" | "host-env"
        );
        if !otherwise && shared.as_ref() != Some(value) {
            words.push(format!("--{option}={value}"));
        }
    }
    words.push(container.image.clone());
    words.extend(container.command.iter().cloned());
    Ok(words)
}

/// Kind of init that runs services by scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptInit {
    /// `run` script of runit's runsv(8), and of s6 and daemontools.
    Runit,
    /// Service script of OpenRC, under its supervise-daemon(8).
    OpenRc,
}

/// Makes the script of a container, which runs in the foreground: with `new` a new one at each start, otherwise the
/// present one.
///
/// # Errors
/// [`UnitError`], or an error if the container is missing.
pub fn generate_script(
    home: &Home,
    wanted: &str,
    init: ScriptInit,
    new: bool,
) -> Result<String, EngineError> {
    let entry = container::find(home, wanted)?;
    let container = &entry.container;
    if !entry.kept {
        return Err(UnitError::Unkept(container.display().to_owned()).into());
    }
    let name = &*container.name;
    let tote = tote(home);
    let words: Vec<String> = if new {
        let run = ["run", "--name", name, "--replace", "--rm"].map(str::to_owned);
        run.into_iter().chain(given(home, container)?).collect()
    } else {
        ["start", "--attach", &exact(name)].map(str::to_owned).to_vec()
    };
    let quoted = |words: &[String]| words.iter().map(|word| shell(word)).collect::<Vec<_>>().join(" ");
    let (program, global) = tote
        .split_first()
        .map_or(("tote", &[][..]), |(first, rest)| (first, rest));
    let arguments = quoted(&[global, &words].concat());
    Ok(match init {
        ScriptInit::Runit => format!("#!/bin/sh\nexec 2>&1\nexec {} {arguments}\n", shell(program)),
        ScriptInit::OpenRc => format!(
            "#!/sbin/openrc-run\n\nsupervisor=supervise-daemon\ndescription={}\ncommand={}\ncommand_args={}\n\n\
             depend() {{\n\tafter net\n}}\n",
            shell(&format!("tote container {name}")),
            shell(program),
            // OpenRC splits the arguments once more.
            shell(&arguments),
        ),
    })
}

/// Quotes a word for sh(1).
fn shell(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Makes the unit that restarts containers at the boot of the machine.
#[must_use]
pub fn restart_unit(home: &Home) -> GeneratedUnit {
    let line = |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned());
        let words: Vec<_> = tote(home).into_iter().chain(words).collect();
        let words: Vec<_> = words.iter().map(|word| tote_unit::quote_literal(word)).collect();
        words.join(" ")
    };
    let mut unit = UnitFile::default();
    let limit = Duration::from_secs(STOP_SECONDS).as_secs() + 60;
    for (section, key, value) in [
        (
            "Unit",
            "Description",
            "tote: start containers that are to run again after a restart".to_owned(),
        ),
        ("Unit", "Documentation", "man:tote-generate-systemd(1)".to_owned()),
        ("Unit", "Wants", "network-online.target".to_owned()),
        ("Unit", "After", "network-online.target".to_owned()),
        (
            "Unit",
            "RequiresMountsFor",
            tote_unit::quote_literal(&home.root().display().to_string()),
        ),
        ("Service", "Type", "oneshot".to_owned()),
        ("Service", "RemainAfterExit", "yes".to_owned()),
        ("Service", "Delegate", "yes".to_owned()),
        ("Service", "TimeoutStopSec", limit.to_string()),
        (
            "Service",
            "ExecStart",
            line(&["start", "--all", "--filter", "should-start-on-boot=true"]),
        ),
        (
            "Service",
            "ExecStop",
            line(&["stop", "--all", "--filter", "restart-policy=always"]),
        ),
        ("Install", "WantedBy", "default.target".to_owned()),
    ] {
        unit.add(section, key, value);
    }
    GeneratedUnit {
        name: "tote-restart".to_owned(),
        text: unit.to_string(),
    }
}
