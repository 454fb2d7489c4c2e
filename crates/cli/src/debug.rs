//! `tote debug`.

use crate::home::home;
use crate::tell::warning;
use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use tote_engine::{DebugRequest, EngineError, ExecOptions, Executed, Image};
use tote_options::Parsed;

pub(crate) fn debug(parsed: &Parsed) -> ExitCode {
    crate::exec::ended(run(parsed))
}

fn run(parsed: &Parsed) -> Result<Executed, EngineError> {
    let mut exec = ExecOptions::default();
    for (option, value) in parsed.own_values().filter(|(option, _)| option.long != "tools") {
        exec.set(option.long, &value.to_string_lossy())?;
    }
    if !exec.tty && !exec.interactive {
        exec.interactive = true;
        exec.tty = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    }
    let mut words = crate::exec::words(parsed);
    let container = words.next().unwrap_or_default();
    exec.command = words.collect();
    let home = home(parsed)?;
    let tools = parsed
        .value("tools")
        .map_or("host".into(), OsStr::to_string_lossy);
    let tools = match Image::parse(&tools)? {
        Image::Stored(name) => Image::Stored(crate::remote::present::present(parsed, &home, &name)?),
        here => here,
    };
    let request = DebugRequest { tools, exec };
    tote_engine::debug(&home, &container, request, &mut |text| warning(&text))
}
