//! `--change`: instructions of a Dockerfile that are about configuration.

use super::ChangeError;
use tote_dockerfile::{Command, CommandLine, Dockerfile, expand, expand_words};
use tote_image::ContainerConfig;

/// What escapes in a Dockerfile that does not say otherwise.
const ESCAPE: char = '\\';

/// Applies instructions, in order.
pub(crate) fn apply(config: &mut ContainerConfig, changes: &[String]) -> Result<(), ChangeError> {
    let mut changing = Changing {
        config,
        has_cmd: false,
    };
    for text in changes {
        let file =
            Dockerfile::parse(&format!("FROM scratch\n{text}")).map_err(|source| ChangeError::Instruction {
                text: text.clone(),
                source,
            })?;
        // A second FROM begins a second stage.
        if file.stages.len() > 1 {
            return Err(ChangeError::NoChange(text.clone()));
        }
        for instruction in file.stages.into_iter().flat_map(|stage| stage.instructions) {
            changing.one(instruction.command, text)?;
        }
    }
    Ok(())
}

struct Changing<'a> {
    config: &'a mut ContainerConfig,
    /// Whether a command was given, so that it is meant for the entrypoint that is given, too.
    has_cmd: bool,
}

impl Changing<'_> {
    fn one(&mut self, command: Command, text: &str) -> Result<(), ChangeError> {
        match command {
            Command::Cmd(line) => {
                self.config.cmd = self.words(line);
                self.has_cmd = true;
            }
            Command::Entrypoint(line) => {
                self.config.entrypoint = self.words(line);
                if !self.has_cmd {
                    self.config.cmd.clear();
                }
            }
            Command::Env(pairs) => {
                for (name, value) in pairs {
                    let (name, value) = (self.expand(&name, text)?, self.expand(&value, text)?);
                    put_env(&mut self.config.env, &name, &value);
                }
            }
            Command::Label(pairs) => {
                for (name, value) in pairs {
                    let (name, value) = (self.expand(&name, text)?, self.expand(&value, text)?);
                    self.config.labels.insert(name, value);
                }
            }
            Command::Expose(words) => {
                for word in words {
                    for port in self.expand_words(&word, text)? {
                        self.config.exposed_ports.extend(ports(&port)?);
                    }
                }
            }
            Command::Volume(paths) => {
                for path in paths {
                    let path = self.expand(&path, text)?;
                    self.config.volumes.insert(path);
                }
            }
            Command::User(user) => self.config.user = self.expand(&user, text)?,
            Command::Workdir(dir) => {
                let dir = self.expand(&dir, text)?;
                self.config.working_dir = below(&self.config.working_dir, &dir);
            }
            Command::StopSignal(signal) => self.config.stop_signal = self.expand(&signal, text)?,
            Command::Onbuild(line, _) => self.config.on_build.push(line),
            _ => return Err(ChangeError::NoChange(text.to_owned())),
        }
        Ok(())
    }

    fn words(&self, line: CommandLine) -> Vec<String> {
        match line {
            CommandLine::Exec(words) => words,
            CommandLine::Shell(line) if self.config.shell.is_empty() => {
                vec!["/bin/sh".to_owned(), "-c".to_owned(), line]
            }
            CommandLine::Shell(line) => self.config.shell.iter().cloned().chain([line]).collect(),
        }
    }

    /// The variables are those of the image.
    fn variable(&self, name: &str) -> Option<String> {
        let mut variables = self.config.env.iter().filter_map(|line| line.split_once('='));
        variables.find_map(|(known, value)| (known == name).then(|| value.to_owned()))
    }

    fn expand(&self, word: &str, text: &str) -> Result<String, ChangeError> {
        expand(word, ESCAPE, &|name| self.variable(name)).map_err(|source| ChangeError::Expand {
            text: text.to_owned(),
            source,
        })
    }

    fn expand_words(&self, word: &str, text: &str) -> Result<Vec<String>, ChangeError> {
        expand_words(word, ESCAPE, &|name| self.variable(name)).map_err(|source| ChangeError::Expand {
            text: text.to_owned(),
            source,
        })
    }
}

fn put_env(env: &mut Vec<String>, name: &str, value: &str) {
    let line = format!("{name}={value}");
    let known = env
        .iter_mut()
        .find(|known| known.split_once('=').is_some_and(|(known, _)| known == name));
    match known {
        Some(known) => *known = line,
        None => env.push(line),
    }
}

/// `80`, `80/udp` or `8000-8002/tcp` as the configuration has them.
fn ports(text: &str) -> Result<Vec<String>, ChangeError> {
    let wrong = || ChangeError::Port(text.to_owned());
    let (range, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = protocol.to_ascii_lowercase();
    if !["tcp", "udp", "sctp"].contains(&protocol.as_str()) {
        return Err(wrong());
    }
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let number = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => {
            Ok((first..=last).map(|port| format!("{port}/{protocol}")).collect())
        }
        _ => Err(wrong()),
    }
}

/// A directory as seen from another, without `.`, `..` and doubled slashes.
fn below(base: &str, dir: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let base = if dir.starts_with('/') { "" } else { base };
    for part in base.split('/').chain(dir.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(changes: &[&str]) -> Result<ContainerConfig, ChangeError> {
        let mut config = ContainerConfig {
            env: vec!["PATH=/bin".to_owned()],
            cmd: vec!["sh".to_owned()],
            working_dir: "/srv".to_owned(),
            ..ContainerConfig::default()
        };
        let changes: Vec<_> = changes.iter().map(ToString::to_string).collect();
        apply(&mut config, &changes).map(|()| config)
    }

    #[test]
    fn every_instruction() {
        let config = changed(&[
            "ENV A=1 PATH=$PATH:/x B=\"two words\"",
            "env OLD form",
            "EXPOSE 80 53/UDP 8000-8001",
            "LABEL a=b \"c d\"=e",
            "ONBUILD RUN make",
            "USER www:www",
            "VOLUME [\"/data\", \"/logs\"]",
            "VOLUME /one /two",
            "WORKDIR sub/../deep",
            "STOPSIGNAL INT",
            "CMD [\"serve\", \"-x\"]",
            "ENTRYPOINT run me",
        ])
        .unwrap();
        assert_eq!(config.env, ["PATH=/bin:/x", "A=1", "B=two words", "OLD=form"]);
        let ports: Vec<_> = config.exposed_ports.into_iter().collect();
        assert_eq!(ports, ["53/udp", "80/tcp", "8000/tcp", "8001/tcp"]);
        assert_eq!(config.labels["a"], "b");
        assert_eq!(config.labels["c d"], "e");
        assert_eq!(config.on_build, ["RUN make"]);
        let volumes: Vec<_> = config.volumes.into_iter().collect();
        assert_eq!(volumes, ["/data", "/logs", "/one", "/two"]);
        assert_eq!(
            (config.user.as_str(), config.working_dir.as_str(), config.stop_signal.as_str()),
            ("www:www", "/srv/deep", "INT")
        );
        assert_eq!(config.entrypoint, ["/bin/sh", "-c", "run me"]);
        assert_eq!(config.cmd, ["serve", "-x"]);
    }

    #[test]
    fn an_entrypoint_alone_takes_no_command_of_the_image() {
        let config = changed(&["ENTRYPOINT [\"/init\"]"]).unwrap();
        assert_eq!(config.entrypoint, ["/init"]);
        assert!(config.cmd.is_empty());
    }

    #[test]
    fn refused() {
        for bad in [
            "RUN true",
            "COPY a b",
            "FROM other",
            "NOSUCH x",
            "EXPOSE no",
            "EXPOSE 5-4",
            "EXPOSE 80/icmp",
            "USER",
        ] {
            assert!(changed(&[bad]).is_err(), "{bad}");
        }
    }
}
