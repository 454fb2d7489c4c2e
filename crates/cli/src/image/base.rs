//! `tote image trace` and `tote image bootstrap`.

use crate::home::home;
use crate::run::source::of_volume;
use crate::tell::{failure, print, print_made, say, warning};
use crate::words::words;
use std::process::ExitCode;
use tote_engine::{BootstrapOptions, EngineError, HostInit, Image, RunOptions, RunRequest, Traced};
use tote_options::Parsed;

/// Maximum number of reasons printed for a directory.
const REASONS: usize = 5;

pub(crate) fn trace(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let mut options = RunOptions::default();
    for (option, value) in parsed.own_values() {
        match option.long {
            "volume" => options.set("volume", &of_volume(value)?)?,
            long => options.set(long, &value.to_string_lossy())?,
        }
    }
    let mut words = words(parsed).into_iter();
    let image = Image::parse(&words.next().unwrap_or_default())?;
    options.command = words.collect();
    let home = home(parsed)?;
    // The container is thrown away and never started again, so its options need not be recorded.
    let request = RunRequest {
        image,
        options,
        given: Vec::new(),
        kept: true,
        init: HostInit::default(),
    };
    let traced = tote_engine::trace(&home, request, &mut |text| warning(&text))?;
    if traced.finished.exit_code != 0 {
        let reason = traced.finished.reason.clone();
        let reason = reason.unwrap_or_else(|| "the command failed".to_owned());
        return Ok(failure(
            &format!("{reason}; nothing is noted"),
            None,
            traced.finished.exit_code,
        ));
    }
    let code = print(&report(&traced));
    if traced.outside.is_empty() {
        return Ok(code);
    }
    let outside = traced.outside.join(", ");
    Ok(failure(
        &format!("the command writes to the root directory itself, so nothing is noted: {outside}"),
        Some("--driver overlay, reflink and copy let it"),
        1,
    ))
}

fn report(traced: &Traced) -> String {
    let mut text = String::new();
    for entry in &traced.set {
        text += &format!("{}\n", entry.path);
        for reason in entry.because.iter().take(REASONS) {
            text += &format!("    {reason}\n");
        }
        if let Some(more) = entry.because.len().checked_sub(REASONS).filter(|more| *more > 0) {
            text += &format!("    and {more} more\n");
        }
    }
    text
}

pub(crate) fn bootstrap(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let text = |option: &str| {
        parsed
            .value(option)
            .map(|value| value.to_string_lossy().into_owned())
    };
    let packages = parsed.all("packages").flat_map(|list| {
        let list = list.to_string_lossy().into_owned();
        list.split(',').map(ToOwned::to_owned).collect::<Vec<_>>()
    });
    let variant = parsed.setting("variant").unwrap_or_default();
    let options = BootstrapOptions {
        what: words(parsed).pop().unwrap_or_default(),
        packages: packages.filter(|package| !package.is_empty()).collect(),
        variant: variant.to_string_lossy().into_owned(),
        mirror: text("mirror"),
        name: text("tag"),
        quiet: parsed.flag("quiet"),
    };
    let home = home(parsed)?;
    let id = tote_engine::bootstrap(&home, &options)?;
    if !options.quiet {
        say(&format!(
            "made {}\n",
            options.name.as_deref().unwrap_or(&options.what)
        ));
    }
    Ok(print_made(&id.to_string(), "the image is"))
}
