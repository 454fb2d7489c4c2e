//! `tote run`.

use crate::{engine_error, failure, home, warning};
use std::process::ExitCode;
use tote_engine::{EngineError, Image, Prepared, RunOptions, RunRequest, Timings};
use tote_options::Parsed;

/// Options that are this command's own business; all others are the engine's, by their names.
const OURS: [&str; 4] = ["root", "plan", "timings", "cidfile"];

pub(crate) fn run(parsed: &Parsed) -> ExitCode {
    let mut timings = parsed
        .flag("timings")
        .then(|| Timings::since(Timings::process_start()));
    if let Some(timings) = &mut timings {
        timings.mark("parent: start tote");
    }
    let code = match prepare(parsed, &mut timings) {
        Err(error) => engine_error(&error),
        Ok((_, prepared)) if parsed.flag("plan") => plan(&prepared),
        Ok((home, prepared)) => {
            let finished = tote_engine::run(&home, prepared, timings.as_mut(), &mut |text| warning(&text));
            match finished {
                Err(error) => engine_error(&error),
                Ok(finished) => match finished.reason {
                    Some(reason) => failure(&reason, None, finished.exit_code),
                    None => ExitCode::from(finished.exit_code),
                },
            }
        }
    };
    if let Some(timings) = &timings {
        report(timings);
    }
    code
}

fn prepare(
    parsed: &Parsed,
    timings: &mut Option<Timings>,
) -> Result<(tote_engine::Home, Prepared), EngineError> {
    let (image, options) = request(parsed)?;
    let home = home(parsed)?;
    if let Some(timings) = timings {
        timings.mark("parent: read the command line");
    }
    let prepared = tote_engine::prepare(
        &home,
        RunRequest { image, options },
        parsed.flag("plan"),
        timings.as_mut(),
    )?;
    Ok((home, prepared))
}

/// The command line as the engine wants it.
fn request(parsed: &Parsed) -> Result<(Image, RunOptions), EngineError> {
    let mut options = RunOptions::default();
    for (option, value) in parsed.values() {
        if !OURS.contains(&option.long) {
            options.set(option.long, &value.to_string_lossy())?;
        }
    }
    if let Some(path) = parsed.value("cidfile") {
        options.set("cidfile", &path.to_string_lossy())?;
    }
    let mut words = parsed
        .positionals()
        .iter()
        .map(|word| word.to_string_lossy().into_owned());
    let image = Image::parse(&words.next().unwrap_or_default())?;
    options.command = words.collect();
    Ok((image, options))
}

fn plan(prepared: &Prepared) -> ExitCode {
    if let Some(cgroup) = prepared.cgroup() {
        println!("{}", cgroup.to_string().trim_end());
    }
    println!("{}", prepared.plan());
    ExitCode::SUCCESS
}

fn report(timings: &Timings) {
    let (spans, total) = timings.spans();
    for (what, micros) in spans {
        eprintln!("timings: {micros:.0} {what}");
    }
    eprintln!("timings: {total:.0} total");
}
