//! `tote pod logs`, `stats` and `top`: output, usage and processes of the members.

use super::{tell_all, wanted};
use crate::attach::{Printer, logs_options};
use crate::home::home;
use crate::stats;
use crate::words::values;
use crate::words::words;
use std::process::ExitCode;
use tote_engine::container::Entry;
use tote_engine::{EngineError, Home, Usage, pod};
use tote_options::Parsed;
use tote_view::Listing;

/// Returns the pod that the command names, and the words after it.
fn one(parsed: &Parsed, home: &Home) -> Result<(String, Vec<String>), EngineError> {
    let mut words = words(parsed).into_iter();
    if parsed.flag("latest") {
        let latest = pod::list(home)?.into_iter().next();
        let latest = latest.ok_or_else(|| EngineError::Usage("there is no pod".to_owned()))?;
        return Ok((latest.pod.id.to_string(), words.collect()));
    }
    let name = words.next();
    let name =
        name.ok_or_else(|| EngineError::Usage("you must provide the name or id of a pod".to_owned()))?;
    Ok((name, words.collect()))
}

pub(crate) fn logs(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let (name, more) = one(parsed, &home)?;
    if let Some(more) = more.first() {
        return Err(EngineError::Usage(format!(
            "one pod at a time, and {more:?} is another"
        )));
    }
    let options = logs_options(parsed)?;
    let mut printer = Printer::new(parsed, false);
    let whose = |member: Option<&Entry>| match member {
        Some(member) if parsed.flag("names") => member.container.display().to_owned(),
        Some(member) => member.container.id.short().to_owned(),
        None => String::new(),
    };
    let mut broken = false;
    let named = values(parsed, "container");
    let errors = pod::logs(&home, &name, &named, &options, &mut |member, entry| {
        broken = printer.print(&whose(member), entry).is_err();
        !broken
    })?;
    if broken || printer.flush().is_err() {
        return Ok(ExitCode::FAILURE);
    }
    Ok(tell_all(&errors))
}

pub(crate) fn top(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let (name, words) = one(parsed, &home)?;
    pod::top(&home, &name, &words).map(crate::exec::show)
}

pub(crate) fn stats(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    // Without names the command shows all pods, and their list may change meanwhile.
    let names = if words(parsed).is_empty() && !parsed.flag("latest") {
        Vec::new()
    } else {
        wanted(parsed, &home, |entry| entry.damaged.is_none())?
    };
    stats::repeat(parsed, &mut || pod::usage(&home, &names), &listing)
}

fn listing(parsed: &Parsed, before: &[(String, Usage)], now: &[(String, Usage)]) -> Listing {
    tote_view::usage_of_pods(before, now, stats::is_read_by_people(parsed))
}
