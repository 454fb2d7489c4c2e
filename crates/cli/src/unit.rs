//! `tote generate`: units for the host's init.

use crate::about::VERSION;
use crate::home::home;
use crate::tell::{engine_error, failure, print};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use tote_engine::{
    EngineError, GenerateOptions, GeneratedUnit, QuadletOptions, ScriptInit, WholeFile, Wishes,
};
use tote_options::Parsed;

/// Returns the command for which a generator's link of this name stands; `None` for other names.
pub(crate) fn called_as(program: &OsString) -> Option<&'static [&'static str]> {
    match PathBuf::from(program).file_name()?.to_str()? {
        "tote-system-generator" => Some(&["generate", "quadlet"]),
        "tote-user-generator" => Some(&["generate", "quadlet", "--user"]),
        _ => None,
    }
}

fn texts(parsed: &Parsed, option: &str) -> Vec<String> {
    parsed
        .all(option)
        .map(|text| text.to_string_lossy().into_owned())
        .collect()
}

fn text(parsed: &Parsed, option: &str) -> Option<String> {
    parsed
        .value(option)
        .map(|text| text.to_string_lossy().into_owned())
}

fn number<T: std::str::FromStr<Err: std::fmt::Display>>(
    parsed: &Parsed,
    option: &str,
) -> Result<Option<T>, EngineError> {
    let number = parsed.number(option);
    number.map_err(|error| EngineError::Usage(error.to_string()))
}

pub(crate) fn systemd(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let wanted = parsed.positionals().first().map(|word| word.to_string_lossy());
    let units = match (parsed.flag("restart"), wanted) {
        (true, None) => vec![tote_engine::restart_unit(&home)],
        (false, Some(wanted)) => tote_engine::generate_units(&home, &wanted, &options(parsed)?)?,
        (true, Some(_)) => {
            return Ok(failure(
                "--restart is about all containers: give no name",
                None,
                125,
            ));
        }
        (false, None) => {
            return Ok(failure(
                "tote generate systemd requires the name of a container or pod",
                None,
                125,
            ));
        }
    };
    let units: Vec<GeneratedUnit> = units.into_iter().map(|unit| with_header(parsed, unit)).collect();
    let mut shown = Vec::new();
    for unit in units {
        let text = if parsed.flag("files") {
            write(&unit)?
        } else {
            unit.text
        };
        shown.push((unit.name, text));
    }
    Ok(match text(parsed, "format").as_deref() {
        Some("json") => {
            let object: serde_json::Map<_, _> = shown
                .into_iter()
                .map(|(name, text)| (name, serde_json::Value::from(text)))
                .collect();
            print(&format!(
                "{}\n",
                serde_json::to_string_pretty(&object).unwrap_or_default()
            ))
        }
        Some(other) => failure(&format!("--format takes json, not {other:?}"), None, 125),
        None => {
            let apart = if parsed.flag("files") { "" } else { "\n" };
            let texts: Vec<_> = shown.into_iter().map(|(_, text)| text).collect();
            print(&texts.join(apart))
        }
    })
}

pub(crate) fn runit(parsed: &Parsed) -> ExitCode {
    script(parsed, ScriptInit::Runit)
}

pub(crate) fn openrc(parsed: &Parsed) -> ExitCode {
    script(parsed, ScriptInit::OpenRc)
}

fn script(parsed: &Parsed, init: ScriptInit) -> ExitCode {
    let wanted = parsed.positionals().first().map(|word| word.to_string_lossy());
    let text = home(parsed).and_then(|home| {
        tote_engine::generate_script(&home, &wanted.unwrap_or_default(), init, parsed.flag("new"))
    });
    match text {
        Ok(text) => print(&text),
        Err(error) => engine_error(&error),
    }
}

fn options(parsed: &Parsed) -> Result<GenerateOptions, EngineError> {
    let environment = texts(parsed, "env").into_iter().filter_map(|variable| {
        if variable.contains('=') {
            return Some(variable);
        }
        let value = std::env::var(&variable).ok()?;
        Some(format!("{variable}={value}"))
    });
    Ok(GenerateOptions {
        new: parsed.flag("new"),
        name: parsed.flag("name"),
        template: parsed.flag("template"),
        wishes: Wishes {
            restart: text(parsed, "restart-policy"),
            restart_seconds: number(parsed, "restart-sec")?,
            start_seconds: number(parsed, "start-timeout")?,
            wants: texts(parsed, "wants"),
            after: texts(parsed, "after"),
            requires: texts(parsed, "requires"),
            environment: environment.collect(),
        },
        stop_seconds: number(parsed, "stop-timeout")?,
        container_prefix: text(parsed, "container-prefix").unwrap_or_else(|| "container".to_owned()),
        pod_prefix: text(parsed, "pod-prefix").unwrap_or_else(|| "pod".to_owned()),
        separator: text(parsed, "separator").unwrap_or_else(|| "-".to_owned()),
    })
}

fn with_header(parsed: &Parsed, unit: GeneratedUnit) -> GeneratedUnit {
    if parsed.flag("no-header") {
        return unit;
    }
    let GeneratedUnit { name, text } = unit;
    let text = format!("# {name}.service\n# Generated by tote {VERSION}\n\n{text}");
    GeneratedUnit { name, text }
}

/// Writes a unit to the current directory; returns its path as a line.
fn write(unit: &GeneratedUnit) -> Result<String, EngineError> {
    let name = PathBuf::from(format!("{}.service", unit.name));
    let path = std::path::absolute(&name).unwrap_or(name);
    WholeFile::put("files", &path, &unit.text)?;
    Ok(format!("{}\n", path.display()))
}

pub(crate) fn quadlet(parsed: &Parsed) -> ExitCode {
    let output = parsed.positionals().first().map(PathBuf::from);
    let dry = parsed.flag("dryrun");
    if output.is_none() && !dry {
        return failure(
            "tote generate quadlet requires a directory for the units",
            Some("--dryrun prints them"),
            125,
        );
    }
    let options = QuadletOptions {
        user: parsed.flag("user"),
        dirs: parsed.all("unit-dir").map(PathBuf::from).collect(),
        output: output.filter(|_| !dry),
    };
    let outcome = tote_engine::generate_quadlets(&options);
    let mut code = ExitCode::SUCCESS;
    if dry {
        for unit in &outcome.units {
            print(&format!("---{}---\n{}\n", unit.name, unit.text));
        }
    }
    for text in &outcome.warnings {
        crate::tell::warning(text);
    }
    for error in outcome.errors {
        engine_error(&EngineError::from(error));
        code = ExitCode::FAILURE;
    }
    code
}
