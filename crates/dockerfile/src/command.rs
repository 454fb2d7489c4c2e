//! The arguments of an instruction.

use crate::duration;
use crate::error::{ArgumentReason, FlagReason, HealthcheckReason, Reason};
use crate::flags::Flags;
use crate::heredoc::{self, Heredoc};
use crate::instruction::{Add, Arg, Command, CommandLine, Copy, Healthcheck, Network, Run, Transfer};
use crate::mount::MountFlag;
use crate::parse::split_name;
use crate::spelling::similar;
use crate::words;
use std::time::Duration;

const NAMES: [&str; 18] = [
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "MAINTAINER",
    "ONBUILD",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];

/// Parses an instruction that is not `FROM`.
pub(crate) fn parse(
    name: &str,
    arguments: &str,
    heredocs: Vec<Heredoc>,
    escape: char,
) -> Result<Command, Reason> {
    let upper = name.to_ascii_uppercase();
    let Some(name) = NAMES.into_iter().find(|known| *known == upper) else {
        return Err(Reason::Unknown {
            suggestion: similar(&upper, &NAMES),
            name: upper,
        });
    };
    let (mut flags, rest) = Flags::parse(arguments, escape);
    // For an instruction without flags, a word like `--x` belongs to its text.
    let command = match name {
        "RUN" => run(&mut flags, rest, heredocs)?,
        "CMD" => Command::Cmd(command_line(rest)?),
        "ENTRYPOINT" => Command::Entrypoint(command_line(at_least_one(name, rest)?)?),
        "COPY" => Command::Copy(Copy {
            from: from(&mut flags)?,
            parents: flags.boolean("parents")?.unwrap_or(false),
            transfer: transfer("COPY", &mut flags, rest, heredocs, escape)?,
        }),
        "ADD" => Command::Add(Add {
            checksum: flags.value("checksum")?,
            keep_git_dir: flags.boolean("keep-git-dir")?.unwrap_or(false),
            unpack: flags.boolean("unpack")?,
            transfer: transfer("ADD", &mut flags, rest, heredocs, escape)?,
        }),
        "ENV" => Command::Env(pairs("ENV", rest, escape)?),
        "LABEL" => Command::Label(pairs("LABEL", rest, escape)?),
        "ARG" => Command::Arg(args(rest, escape)?),
        "EXPOSE" => Command::Expose(blanks(at_least_one(name, rest)?)),
        "USER" => Command::User(exactly_one(name, rest)?),
        "WORKDIR" => Command::Workdir(exactly_one(name, rest)?),
        "STOPSIGNAL" => Command::StopSignal(exactly_one(name, rest)?),
        "MAINTAINER" => Command::Maintainer(exactly_one(name, rest)?),
        "VOLUME" => Command::Volume(volumes(rest)?),
        "SHELL" => Command::Shell(shell(rest)?),
        "HEALTHCHECK" => Command::Healthcheck(healthcheck(&mut flags, rest)?),
        _ => onbuild(arguments, heredocs, escape)?,
    };
    // The flags before a trigger belong to the trigger.
    if name != "ONBUILD" {
        flags.finish()?;
    }
    Ok(command)
}

fn at_least_one<'a>(name: &'static str, rest: &'a str) -> Result<&'a str, Reason> {
    if rest.is_empty() {
        Err(Reason::Argument(ArgumentReason::AtLeastOne(name)))
    } else {
        Ok(rest)
    }
}

/// Returns the whole rest of the line, blanks included.
fn exactly_one(name: &'static str, rest: &str) -> Result<String, Reason> {
    if rest.is_empty() {
        Err(Reason::Argument(ArgumentReason::ExactlyOne(name)))
    } else {
        Ok(rest.to_owned())
    }
}

fn blanks(rest: &str) -> Vec<String> {
    rest.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Parses a JSON array of strings; `None` if the text is not a JSON array.
fn json(rest: &str) -> Result<Option<Vec<String>>, Reason> {
    if !rest.starts_with('[') {
        return Ok(None);
    }
    match serde_json::from_str::<Vec<serde_json::Value>>(rest) {
        Err(_) => Ok(None),
        Ok(values) => {
            let strings = values.into_iter().map(|value| match value {
                serde_json::Value::String(text) => Ok(text),
                _ => Err(Reason::Argument(ArgumentReason::NotStrings)),
            });
            strings.collect::<Result<_, _>>().map(Some)
        }
    }
}

fn command_line(rest: &str) -> Result<CommandLine, Reason> {
    Ok(match json(rest)? {
        Some(words) => CommandLine::Exec(words),
        None => CommandLine::Shell(rest.to_owned()),
    })
}

fn run(flags: &mut Flags, rest: &str, heredocs: Vec<Heredoc>) -> Result<Command, Reason> {
    let mounts = flags
        .values("mount")?
        .iter()
        .map(|text| MountFlag::parse(text))
        .collect::<Result<_, _>>()?;
    let network = match flags.value("network")?.as_deref() {
        None | Some("default") => Network::Default,
        Some("none") => Network::None,
        Some("host") => Network::Host,
        Some(other) => return Err(Reason::Flag(FlagReason::Network(other.to_owned()))),
    };
    let insecure = match flags.value("security")?.as_deref() {
        None | Some("sandbox") => false,
        Some("insecure") => true,
        Some(other) => return Err(Reason::Flag(FlagReason::Security(other.to_owned()))),
    };
    let devices = flags.values("device")?;
    // A missing command is an empty one, as for docker's builder.
    let command = command_line(rest)?;
    Ok(Command::Run(Run {
        command,
        heredocs,
        mounts,
        network,
        insecure,
        devices,
    }))
}

/// Parses `--from` of `COPY`; only a `FROM` has variables in such a place.
fn from(flags: &mut Flags) -> Result<Option<String>, Reason> {
    match flags.value("from")? {
        Some(name) if name.contains('$') => Err(Reason::Flag(FlagReason::From)),
        from => Ok(from),
    }
}

fn transfer(
    name: &'static str,
    flags: &mut Flags,
    rest: &str,
    heredocs: Vec<Heredoc>,
    escape: char,
) -> Result<Transfer, Reason> {
    let mut sources = match json(rest)? {
        Some(words) => words,
        None if heredocs.is_empty() => names(name, rest, escape)?,
        None => heredoc::joined(names(name, rest, escape)?),
    };
    let destination = match sources.len() {
        0 => return Err(Reason::Argument(ArgumentReason::AtLeastOne(name))),
        1 => return Err(Reason::Argument(ArgumentReason::NoDestination(name))),
        _ => sources.pop().unwrap_or_default(),
    };
    if !heredocs.is_empty() {
        if heredoc::parse(&destination, escape).is_some() {
            return Err(Reason::Argument(ArgumentReason::HeredocDestination(name)));
        }
        sources.retain(|source| heredoc::parse(source, escape).is_none());
    }
    Ok(Transfer {
        sources,
        heredocs,
        destination,
        chown: flags.value("chown")?,
        chmod: flags.value("chmod")?,
        link: flags.boolean("link")?.unwrap_or(false),
        exclude: flags.values("exclude")?,
    })
}

/// Splits the names of `COPY` and `ADD` at blanks. Docker's builder ignores quotes here and would then miss a file
/// named by half of a quoted name, so a quoted blank is refused.
fn names(name: &'static str, rest: &str, escape: char) -> Result<Vec<String>, Reason> {
    let words = blanks(rest);
    match words.len() == words::split(rest, escape).len() {
        true => Ok(words),
        false => Err(Reason::Argument(ArgumentReason::QuotedBlank(name))),
    }
}

/// Parses `NAME=VALUE …`, or the old form of a name and the rest of the line.
fn pairs(name: &'static str, rest: &str, escape: char) -> Result<Vec<(String, String)>, Reason> {
    let words = words::split(at_least_one(name, rest)?, escape);
    let pairs = if words.first().is_some_and(|word| word.contains('=')) {
        let split = |word: String| match word.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(Reason::Argument(ArgumentReason::NoEquals(word))),
        };
        words.into_iter().map(split).collect::<Result<Vec<_>, _>>()?
    } else {
        let (key, value) = rest
            .split_once(|next: char| next.is_ascii_whitespace())
            .ok_or(Reason::Argument(ArgumentReason::TwoArguments(name)))?;
        vec![(key.to_owned(), value.trim_start().to_owned())]
    };
    if pairs.iter().any(|(key, _)| key.is_empty()) {
        Err(Reason::Argument(ArgumentReason::BlankName(name)))
    } else {
        Ok(pairs)
    }
}

fn args(rest: &str, escape: char) -> Result<Vec<Arg>, Reason> {
    let words = words::split(at_least_one("ARG", rest)?, escape);
    let split = |word: String| match word.split_once('=') {
        Some(("", _)) => Err(Reason::Argument(ArgumentReason::BlankName("ARG"))),
        Some((name, value)) => Ok(Arg {
            name: name.to_owned(),
            default: Some(value.to_owned()),
        }),
        None => Ok(Arg {
            name: word,
            default: None,
        }),
    };
    words.into_iter().map(split).collect()
}

fn volumes(rest: &str) -> Result<Vec<String>, Reason> {
    let volumes = json(rest)?.unwrap_or_else(|| blanks(rest));
    if volumes.is_empty() {
        return Err(Reason::Argument(ArgumentReason::AtLeastOne("VOLUME")));
    }
    if volumes.iter().any(|volume| volume.trim().is_empty()) {
        Err(Reason::Argument(ArgumentReason::EmptyVolume))
    } else {
        Ok(volumes)
    }
}

fn shell(rest: &str) -> Result<Vec<String>, Reason> {
    match json(rest)? {
        Some(words) if words.is_empty() => Err(Reason::Argument(ArgumentReason::AtLeastOne("SHELL"))),
        Some(words) => Ok(words),
        None if rest.is_empty() => Err(Reason::Argument(ArgumentReason::AtLeastOne("SHELL"))),
        None => Err(Reason::Argument(ArgumentReason::ShellForm)),
    }
}

fn healthcheck(flags: &mut Flags, rest: &str) -> Result<Healthcheck, Reason> {
    let (kind, rest) = split_name(at_least_one("HEALTHCHECK", rest)?);
    match &*kind.to_ascii_uppercase() {
        "NONE" if rest.is_empty() => Ok(Healthcheck::None),
        "NONE" => Err(Reason::Healthcheck(HealthcheckReason::HealthNone)),
        "CMD" if rest.is_empty() => Err(Reason::Healthcheck(HealthcheckReason::HealthCommand)),
        "CMD" => {
            let retries = flags.value("retries")?.map(|text| {
                text.parse()
                    .map_err(|_| Reason::Healthcheck(HealthcheckReason::Retries(text)))
            });
            let command = command_line(rest)?;
            if command == CommandLine::Exec(Vec::new()) {
                return Err(Reason::Healthcheck(HealthcheckReason::HealthCommand));
            }
            Ok(Healthcheck::Command {
                command,
                interval: interval(flags, "interval")?,
                timeout: interval(flags, "timeout")?,
                start_period: interval(flags, "start-period")?,
                start_interval: interval(flags, "start-interval")?,
                retries: retries.transpose()?,
            })
        }
        _ => Err(Reason::Healthcheck(HealthcheckReason::HealthType(
            kind.to_owned(),
        ))),
    }
}

/// Parses a flag with a duration; `None` selects the default, for a missing value as well as for 0.
fn interval(flags: &mut Flags, name: &'static str) -> Result<Option<Duration>, Reason> {
    let Some(text) = flags.value(name)?.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    match duration::parse(&text)? {
        Duration::ZERO => Ok(None),
        short if short < Duration::from_millis(1) => {
            Err(Reason::Healthcheck(HealthcheckReason::ShortInterval(name)))
        }
        duration => Ok(Some(duration)),
    }
}

fn onbuild(arguments: &str, heredocs: Vec<Heredoc>, escape: char) -> Result<Command, Reason> {
    let (name, rest) = split_name(at_least_one("ONBUILD", arguments)?);
    match &*name.to_ascii_uppercase() {
        "ONBUILD" => Err(Reason::OnbuildChain),
        upper @ ("FROM" | "MAINTAINER") => Err(Reason::OnbuildTrigger(upper.to_owned())),
        _ => {
            let mut text = arguments.to_owned();
            for doc in &heredocs {
                text += &format!("\n{}{}", doc.content, doc.name);
            }
            let command = parse(name, rest, heredocs, escape)?;
            Ok(Command::Onbuild(text, Box::new(command)))
        }
    }
}
