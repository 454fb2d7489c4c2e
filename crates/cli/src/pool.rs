//! `tote pool …`, and `tote run --pool`.

use crate::home::home;
use crate::listing::{describe, each_named, only_ids, show};
use crate::tell::{engine_error, failure, print, tell_damaged, warning};
use crate::words::words;
use std::process::ExitCode;
use tote_engine::{EngineError, FillRequest, Home, HostInit, Image, PoolRun, Timings, chain};
use tote_options::Parsed;

pub(crate) fn fill(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let size = match parsed.number::<u32>("size") {
        Ok(size) => size,
        Err(error) => return Ok(crate::tell::usage_error(&error)),
    };
    let home = home(parsed)?;
    let mut words = words(parsed).into_iter();
    let name = words.next().unwrap_or_default();
    let mut image = words.next().map(|image| Image::parse(&image)).transpose()?;
    if let Some(Image::Stored(name)) = &image {
        image = Some(Image::Stored(crate::remote::present::present(
            parsed, &home, name,
        )?));
    }
    let mut given = crate::run::given(parsed)?;
    given.retain(|(option, _)| option != "size");
    if image.is_some() {
        given.extend(crate::run::driver_of_environment(parsed));
    }
    let request = FillRequest {
        name,
        size,
        image,
        given,
        command: words.collect(),
    };
    let filled = tote_engine::fill_pool(&home, request, &mut |text| warning(&text))?;
    Ok(print(&format!("{}\n", filled.ready)))
}

pub(crate) fn list(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    if only_ids(parsed) {
        let names = tote_engine::pool_names(&home);
        let lines = names.iter().map(|name| format!("{name}\n"));
        return Ok(print(&lines.collect::<String>()));
    }
    let rows = tote_engine::pools(&home)?;
    tell_damaged(rows.iter().filter(|row| row.damaged).map(|row| &row.error));
    Ok(show(&tote_view::pools(&rows), parsed))
}

pub(crate) fn inspect(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let rows = tote_engine::pools(&home)?;
    let (mut found, mut code) = (Vec::new(), None);
    for name in words(parsed) {
        match rows
            .iter()
            .find(|row| row.pool.name.as_str() == name && !row.damaged)
        {
            Some(row) => found.push(tote_view::pool(row)),
            None => code = Some(missing(&home, &name)),
        }
    }
    let printed = describe(parsed, &found);
    Ok(code.unwrap_or(printed))
}

/// Reports why a pool was not found.
fn missing(home: &Home, name: &str) -> ExitCode {
    match tote_engine::Pool::find(home, name) {
        Err(error) => failed(&error),
        // The pool was created just now.
        Ok(_) => ExitCode::from(1),
    }
}

pub(crate) fn remove(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    Ok(each_named(parsed, |name| {
        tote_engine::remove_pool(&home, name, parsed.flag("force"))?;
        Ok(format!("{name}\n"))
    }))
}

/// Reports an error with the exit code of docker's commands.
fn failed(error: &EngineError) -> ExitCode {
    failure(&chain(error), error.hint().as_deref(), 1)
}

/// Runs `tote run --pool`, where every word belongs to the command.
pub(crate) fn run(parsed: &Parsed, pool: String, timings: &mut Option<Timings>) -> ExitCode {
    let given = match crate::run::given(parsed) {
        Ok(given) => given,
        Err(error) => return engine_error(&error),
    };
    let request = PoolRun {
        pool,
        given,
        command: words(parsed),
    };
    if let Some(option) = crate::run::OURS
        .iter()
        .find(|option| !matches!(**option, "timings" | "pool") && parsed.value(option).is_some())
    {
        let text = format!("--{option} cannot be combined with --pool");
        return failure(&text, Some("see 'tote run --help'"), 125);
    }
    if HostInit::look().is_there() {
        warning("a sandbox of a pool was made before: NOTIFY_SOCKET and LISTEN_FDS do not reach it");
    }
    let ran = home(parsed).and_then(|home| {
        if let Some(timings) = timings {
            timings.mark("parent: read the command line");
        }
        tote_engine::run_from_pool(&home, request, timings.as_mut(), &mut |text| warning(&text))
    });
    match ran {
        Ok(finished) => crate::tell::finished(finished),
        Err(error) => engine_error(&error),
    }
}
