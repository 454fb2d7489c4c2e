//! Instructions that only change the image's configuration.

use crate::Fault;
use std::time::Duration;
use tote_dockerfile::{CommandLine, Healthcheck};
use tote_image::{ContainerConfig, History, ImageConfig};

/// Shell that runs the shell forms of commands if no `SHELL` names another.
const SHELL: [&str; 2] = ["/bin/sh", "-c"];

pub(crate) fn shell(config: &ContainerConfig) -> Vec<String> {
    match config.shell.as_slice() {
        [] => SHELL.map(ToOwned::to_owned).to_vec(),
        shell => shell.to_vec(),
    }
}

/// Builds the argv of a command line, as an image's configuration holds it.
pub(crate) fn argv(config: &ContainerConfig, line: &CommandLine) -> Vec<String> {
    match line {
        CommandLine::Exec(words) => words.clone(),
        CommandLine::Shell(text) => {
            let mut words = shell(config);
            words.push(text.clone());
            words
        }
    }
}

pub(crate) fn set_env(env: &mut Vec<String>, name: &str, value: &str) {
    let word = format!("{name}={value}");
    let known = env.iter_mut().find(|known| known.split('=').next() == Some(name));
    match known {
        Some(known) => *known = word,
        None => env.push(word),
    }
}

/// Resolves a path against `WORKDIR`.
pub(crate) fn absolute(workdir: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let base = if path.starts_with('/') { "" } else { workdir };
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Parses the ports of `EXPOSE`: `80`, `80/udp`, `8000-8010`.
pub(crate) fn ports(text: &str) -> Result<Vec<String>, Fault> {
    let wrong = || Fault::Value {
        what: "port",
        value: text.to_owned(),
    };
    let (range, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = protocol.to_ascii_lowercase();
    if !["tcp", "udp", "sctp"].contains(&&*protocol) {
        return Err(wrong());
    }
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let first: u16 = first.parse().map_err(|_| wrong())?;
    let last: u16 = last.parse().map_err(|_| wrong())?;
    if first > last {
        return Err(wrong());
    }
    Ok((first..=last).map(|port| format!("{port}/{protocol}")).collect())
}

pub(crate) fn healthcheck(config: &ContainerConfig, check: &Healthcheck) -> tote_image::Healthcheck {
    let nanos =
        |time: &Option<Duration>| time.map_or(0, |time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX));
    match check {
        Healthcheck::None => tote_image::Healthcheck {
            test: vec!["NONE".to_owned()],
            ..tote_image::Healthcheck::default()
        },
        Healthcheck::Command {
            command,
            interval,
            timeout,
            start_period,
            start_interval,
            retries,
        } => tote_image::Healthcheck {
            test: match command {
                CommandLine::Exec(words) => [&["CMD".to_owned()], &words[..]].concat(),
                CommandLine::Shell(text) if config.shell.is_empty() => {
                    vec!["CMD-SHELL".to_owned(), text.clone()]
                }
                // CMD-SHELL would mean /bin/sh, whatever `SHELL` says.
                line @ CommandLine::Shell(_) => [vec!["CMD".to_owned()], argv(config, line)].concat(),
            },
            interval: nanos(interval),
            timeout: nanos(timeout),
            start_period: nanos(start_period),
            start_interval: nanos(start_interval),
            retries: i64::from(retries.unwrap_or(0)),
        },
    }
}

/// Appends an instruction to the history, and the layer that it made to the layers.
pub(crate) fn note(
    config: &mut ImageConfig,
    now: Duration,
    created_by: String,
    layer: Option<tote_image::Digest>,
) {
    let now = tote_calendar::in_nanoseconds(now);
    config.created = Some(now.clone());
    config.history.push(History {
        created: Some(now),
        created_by,
        empty_layer: layer.is_none(),
        ..History::default()
    });
    config.rootfs.diff_ids.extend(layer);
}

/// Says of an image, and of the entries of its history after the first `below`, that they were made at that time.
pub(crate) fn date(config: &mut ImageConfig, below: usize, time: Duration) {
    let time = tote_calendar::in_seconds(time);
    for step in config.history.iter_mut().skip(below) {
        step.created = Some(time.clone());
    }
    config.created = Some(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (workdir, path, expected) in [
            ("", "a", "/a"),
            ("/w", "a/", "/w/a"),
            ("/w", "/a//b/./c", "/a/b/c"),
            ("/w/x", "../y", "/w/y"),
            ("/", "../..", "/"),
        ] {
            assert_eq!(absolute(workdir, path), expected, "{workdir} {path}");
        }
    }

    #[test]
    fn exposed() {
        assert_eq!(ports("80").unwrap(), ["80/tcp"]);
        assert_eq!(ports("53/UDP").unwrap(), ["53/udp"]);
        assert_eq!(ports("8-10").unwrap(), ["8/tcp", "9/tcp", "10/tcp"]);
        for bad in ["", "x", "70000", "9-8", "80/x", "1-2-3"] {
            assert!(ports(bad).is_err(), "{bad}");
        }
    }
}
