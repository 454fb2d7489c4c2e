//! `--change`: a line of a build file that concerns an image's configuration.

use tote_image::{ContainerConfig, Healthcheck};

/// Reason why a line of `--change` is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Unknown instruction.
    #[error(
        "--change {0:?}: CMD, ENTRYPOINT, ENV, EXPOSE, HEALTHCHECK, LABEL, ONBUILD, STOPSIGNAL, USER, VOLUME and WORKDIR can be changed"
    )]
    Unknown(String),
    /// Instruction with missing or invalid arguments.
    #[error("--change {0:?}: {1}")]
    Malformed(String, &'static str),
}

/// Applies a line to a configuration.
pub fn apply(line: &str, config: &mut ContainerConfig) -> Result<(), ChangeError> {
    let malformed = |why| ChangeError::Malformed(line.to_owned(), why);
    let (instruction, rest) = line
        .trim()
        .split_once(char::is_whitespace)
        .unwrap_or((line.trim(), ""));
    let rest = rest.trim();
    if rest.is_empty() {
        return Err(malformed("an instruction and what it is to be are needed"));
    }
    match instruction.to_ascii_uppercase().as_str() {
        "CMD" => config.cmd = command(rest),
        "ENTRYPOINT" => config.entrypoint = command(rest),
        "ENV" => {
            for (name, value) in pairs(rest).ok_or_else(|| malformed("NAME=VALUE is needed"))? {
                config
                    .env
                    .retain(|variable| variable.split('=').next() != Some(&name));
                config.env.push(format!("{name}={value}"));
            }
        }
        "LABEL" => config
            .labels
            .extend(pairs(rest).ok_or_else(|| malformed("KEY=VALUE is needed"))?),
        "EXPOSE" => {
            for port in rest.split_whitespace() {
                let protocol = if port.contains('/') { "" } else { "/tcp" };
                config.exposed_ports.insert(format!("{port}{protocol}"));
            }
        }
        "HEALTHCHECK" => {
            let check = healthcheck(rest, &config.shell);
            config.healthcheck = Some(check.map_err(malformed)?);
        }
        "VOLUME" => config.volumes.extend(list(rest).unwrap_or_else(|| words(rest))),
        "ONBUILD" => config.on_build.push(rest.to_owned()),
        "STOPSIGNAL" => rest.clone_into(&mut config.stop_signal),
        "USER" => rest.clone_into(&mut config.user),
        "WORKDIR" => {
            config.working_dir = if rest.starts_with('/') {
                rest.to_owned()
            } else {
                format!("{}/{rest}", config.working_dir.trim_end_matches('/'))
            };
        }
        _ => return Err(ChangeError::Unknown(line.to_owned())),
    }
    Ok(())
}

/// Parses `NONE`, or `[OPTIONS] CMD COMMAND`, as a Dockerfile has them.
fn healthcheck(text: &str, shell: &[String]) -> Result<Healthcheck, &'static str> {
    let mut check = Healthcheck::default();
    let mut rest = text;
    while let Some(option) = rest.strip_prefix("--") {
        let (option, after) = option.split_once(char::is_whitespace).unwrap_or((option, ""));
        let (name, value) = option
            .split_once('=')
            .ok_or("an option of HEALTHCHECK is --NAME=VALUE")?;
        let time = || {
            let nanos = tote_calendar::parse_duration(value)
                .ok_or("a time of HEALTHCHECK is a number with a unit, such as 30s")?;
            match nanos {
                0 | 1_000_000.. => Ok(nanos),
                _ => Err("a time of HEALTHCHECK is at least 1ms"),
            }
        };
        match name {
            "interval" => check.interval = time()?,
            "timeout" => check.timeout = time()?,
            "start-period" => check.start_period = time()?,
            "start-interval" => check.start_interval = time()?,
            "retries" => {
                let retries = value.parse::<u32>();
                check.retries =
                    i64::from(retries.map_err(|_| "the retries of HEALTHCHECK are a whole number")?);
            }
            _ => {
                return Err(
                    "the options of HEALTHCHECK are interval, timeout, start-period, start-interval and retries",
                );
            }
        }
        rest = after.trim_start();
    }
    let (kind, line) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let line = line.trim();
    check.test = match kind.to_ascii_uppercase().as_str() {
        "NONE" if line.is_empty() && rest == text => vec!["NONE".to_owned()],
        "CMD" if !line.is_empty() => match (list(line), shell) {
            (Some(words), _) if words.is_empty() => return Err("a command is needed after CMD"),
            (Some(words), _) => [vec!["CMD".to_owned()], words].concat(),
            (None, []) => vec!["CMD-SHELL".to_owned(), line.to_owned()],
            // CMD-SHELL would mean /bin/sh, whatever the image's shell is.
            (None, shell) => [&["CMD".to_owned()], shell, &[line.to_owned()]].concat(),
        },
        _ => return Err("HEALTHCHECK is NONE, or CMD and a command"),
    };
    Ok(check)
}

/// Parses a list in JSON; any other text becomes a command line of the shell.
fn command(text: &str) -> Vec<String> {
    list(text).unwrap_or_else(|| ["/bin/sh", "-c", text].map(ToOwned::to_owned).to_vec())
}

fn list(text: &str) -> Option<Vec<String>> {
    serde_json::from_str(text).ok()
}

/// Parses `A=b C="d e"`, or the older `A b`.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if !first.contains('=') {
        return (!rest.is_empty()).then(|| vec![(first.to_owned(), rest.trim().to_owned())]);
    }
    words(text)
        .into_iter()
        .map(|word| {
            word.split_once('=')
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        })
        .collect()
}

/// Splits a text at spaces that are neither quoted nor behind a backslash.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let current = words.len() - 1;
        match letter {
            '\\' => words[current].extend(letters.next()),
            '"' | '\'' if quote.is_none() => quote = Some(letter),
            letter if quote == Some(letter) => quote = None,
            letter if quote.is_none() && letter.is_whitespace() => words.push(String::new()),
            letter => words[current].push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes() {
        let mut config = ContainerConfig {
            env: vec!["A=old".to_owned()],
            ..ContainerConfig::default()
        };
        for line in [
            r#"CMD ["a", "b c"]"#,
            "entrypoint echo $HOME",
            r#"ENV A=b C="d e" E=f\ g"#,
            "ENV H i  j",
            "EXPOSE 80 53/udp",
            "LABEL x=y",
            "VOLUME /a /b",
            r#"VOLUME ["/c d"]"#,
            "USER www:www",
            "WORKDIR /srv",
            "WORKDIR data",
            "STOPSIGNAL SIGQUIT",
        ] {
            apply(line, &mut config).unwrap();
        }
        assert_eq!(config.cmd, ["a", "b c"]);
        assert_eq!(config.entrypoint, ["/bin/sh", "-c", "echo $HOME"]);
        assert_eq!(config.env, ["A=b", "C=d e", "E=f g", "H=i  j"]);
        assert_eq!(
            config.exposed_ports.iter().collect::<Vec<_>>(),
            ["53/udp", "80/tcp"]
        );
        assert_eq!(config.volumes.iter().collect::<Vec<_>>(), ["/a", "/b", "/c d"]);
        assert_eq!(
            (config.user.as_str(), config.working_dir.as_str()),
            ("www:www", "/srv/data")
        );
        assert_eq!(config.labels["x"], "y");
    }

    #[test]
    fn health_checks() {
        for (line, test, times) in [
            ("HEALTHCHECK CMD true", &["CMD-SHELL", "true"][..], [0; 3]),
            ("healthcheck none", &["NONE"], [0; 3]),
            (
                r#"HEALTHCHECK --interval=5s --retries=2 --timeout=1m30s  cmd ["a", "b c"]"#,
                &["CMD", "a", "b c"],
                [5_000_000_000, 90_000_000_000, 2],
            ),
        ] {
            let mut config = ContainerConfig::default();
            apply(line, &mut config).unwrap();
            let check = config.healthcheck.unwrap();
            assert_eq!(check.test, test, "{line}");
            assert_eq!([check.interval, check.timeout, check.retries], times, "{line}");
        }
        for arguments in [
            "true",
            "CMD",
            "CMD []",
            "NONE x",
            "--interval=5s NONE",
            "--interval=5 CMD true",
            "--interval=1us CMD true",
            "--interval CMD true",
            "--retries=-1 CMD true",
            "--x=1 CMD true",
        ] {
            let line = format!("HEALTHCHECK {arguments}");
            assert!(apply(&line, &mut ContainerConfig::default()).is_err(), "{line}");
        }
    }

    #[test]
    fn no_changes() {
        for line in ["", "CMD", "ENV", "ENV A", "RUN true", "FROM x"] {
            assert!(apply(line, &mut ContainerConfig::default()).is_err(), "{line}");
        }
    }
}
