//! `tote debug`.

use crate::commands::PULLING;
use crate::home::home;
use crate::tell::{print, warning};
use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use tote_engine::{DebugForwards, DebugRequest, DebugTools, EngineError, ExecOptions, Executed, Home, Image};
use tote_options::Parsed;

/// Options that are not those of the process.
const OF_THE_SESSION: [&str; 14] = [
    "effective-user",
    "env-of-container",
    "install",
    "keep",
    "kept",
    "forget",
    "tools",
    "shell",
    "command",
    "no-cgroup",
    "quiet",
    "forward",
    "view",
    "port-forward",
];

pub(crate) fn debug(parsed: &Parsed) -> ExitCode {
    let printed = match (parsed.flag("forget"), parsed.flag("kept")) {
        (false, false) => return crate::exec::ended(run(parsed)),
        (true, _) => forget(parsed),
        (false, true) => kept(parsed),
    };
    printed.unwrap_or_else(|error| crate::exec::ended(Err(error)))
}

/// Removes what sessions have kept.
fn forget(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let container = crate::exec::words(parsed).next().unwrap_or_default();
    tote_engine::forget_kept(&home(parsed)?, &container)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what sessions have kept.
fn kept(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let container = crate::exec::words(parsed).next().unwrap_or_default();
    let kept = tote_engine::kept_tools(&home(parsed)?, &container)?;
    let lines = kept.iter().map(|one| match &*one.rights {
        "" => format!("{}\t{}\n", one.tools, one.bytes),
        rights => format!("{}\t{}\t{rights}\n", one.tools, one.bytes),
    });
    Ok(print(&lines.collect::<String>()))
}

fn run(parsed: &Parsed) -> Result<Executed, EngineError> {
    let mut exec = ExecOptions::default();
    for (option, value) in parsed.own_values() {
        let pulls = PULLING.options.iter().any(|pulling| pulling.long == option.long);
        if !pulls && !OF_THE_SESSION.contains(&option.long) {
            exec.set(option.long, &value.to_string_lossy())?;
        }
    }
    if !exec.tty && !exec.interactive {
        exec.interactive = true;
        exec.tty = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    }
    let mut words = crate::exec::words(parsed);
    let mut container = words.next().unwrap_or_default();
    exec.command = words.collect();
    let home = home(parsed)?;
    if let Some(name) = container.strip_prefix("image:") {
        container = match image(parsed, &home, name)? {
            Image::Stored(name) => format!("image:{name}"),
            _ => container,
        };
    }
    let text = |name| parsed.value(name).map(OsStr::to_string_lossy);
    let list = |name| {
        let values = parsed.all(name).map(OsStr::to_string_lossy);
        values.map(Into::into).collect()
    };
    let tools = text("tools").unwrap_or("host".into());
    let request = DebugRequest {
        tools: match tools.strip_prefix("container:") {
            Some(name) => DebugTools::Container(name.to_owned()),
            // No name of an image begins so.
            None if tools.starts_with(['/', '.']) => DebugTools::Image(Image::Rootfs(tools.into())),
            None => DebugTools::Image(image(parsed, &home, &tools)?),
        },
        exec,
        shell: text("shell").map(Into::into),
        script: text("command").map(Into::into),
        no_cgroup: parsed.flag("no-cgroup"),
        env_of_container: parsed.flag("env-of-container"),
        target_view: match text("view").as_deref() {
            None | Some("tools") => false,
            Some("target") => true,
            Some(other) => return Err(tote_engine::DebugError::View(other.to_owned()).into()),
        },
        forwards: DebugForwards {
            sockets: list("forward"),
            ports: list("port-forward"),
        },
        packages: list("install"),
        effective_user: text("effective-user").map(Into::into),
        keep: parsed.flag("keep"),
    };
    tote_engine::debug(&home, &container, request, &mut |text| warning(&text))
}

/// Returns an image; a missing one of a registry is pulled.
fn image(parsed: &Parsed, home: &Home, name: &str) -> Result<Image, EngineError> {
    Ok(match Image::parse(name)? {
        Image::Stored(name) => Image::Stored(crate::remote::present::present(parsed, home, &name)?),
        here => here,
    })
}
