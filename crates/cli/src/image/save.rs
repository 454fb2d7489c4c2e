//! `tote save` and `tote import`.

use super::words;
use crate::{failure, home, print};
use std::fs::File;
use std::io::{BufWriter, IsTerminal as _, Sink, Write};
use std::path::Path;
use std::process::ExitCode;
use tote_engine::{EngineError, Home, ImportOptions, SaveTarget, WholeFile};
use tote_options::Parsed;

pub(super) fn save(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let images = words(parsed);
    let output = parsed.value("output").map(Path::new);
    let format = parsed
        .setting("format")
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if format == "oci-dir" {
        let Some(path) = output else {
            return Ok(failure("--format oci-dir: --output DIR is needed", None, 1));
        };
        let home = ready(parsed)?;
        tote_engine::save::<Sink>(&home, &images, SaveTarget::OciDir(path))?;
        return Ok(ExitCode::SUCCESS);
    }
    if format != "docker-archive" && format != "oci-archive" {
        return Ok(failure(
            &format!("unknown format {format}"),
            Some("docker-archive, oci-archive or oci-dir"),
            1,
        ));
    }
    if let Some(path) = output {
        let failed = |attempt| {
            move |source| EngineError::File {
                option: "output",
                attempt,
                path: path.to_owned(),
                source,
            }
        };
        let mut file = WholeFile::create(path).map_err(failed("make"))?;
        let code = archive(&ready(parsed)?, &images, &format, &mut file)?;
        file.finish().map_err(failed("write"))?;
        return Ok(code);
    }
    let out = std::io::stdout().lock();
    if out.is_terminal() {
        return Ok(failure(
            "an archive is not written to a terminal",
            Some("use -o FILE, or redirect the output"),
            1,
        ));
    }
    archive(
        &ready(parsed)?,
        &images,
        &format,
        BufWriter::with_capacity(256 << 10, out),
    )
}

/// Files of every owner are read.
fn ready(parsed: &Parsed) -> Result<Home, EngineError> {
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    Ok(home)
}

fn archive(home: &Home, images: &[String], format: &str, out: impl Write) -> Result<ExitCode, EngineError> {
    let target = if format == "oci-archive" {
        SaveTarget::OciArchive(out)
    } else {
        SaveTarget::DockerArchive(out)
    };
    tote_engine::save(home, images, target)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn import(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let mut words = words(parsed).into_iter();
    let source = words.next().unwrap_or_default();
    let text = |option: &str| {
        parsed
            .value(option)
            .map(|value| value.to_string_lossy().into_owned())
    };
    let options = ImportOptions {
        name: words.next(),
        changes: parsed
            .all("change")
            .map(|line| line.to_string_lossy().into_owned())
            .collect(),
        message: text("message"),
    };
    let home = ready(parsed)?;
    let id = if source == "-" {
        tote_engine::import(&home, std::io::stdin().lock(), &options)?
    } else {
        let file = File::open(&source).map_err(|error| EngineError::LayoutFile {
            path: source.into(),
            source: error,
        })?;
        tote_engine::import(&home, file, &options)?
    };
    Ok(print(&format!("{id}\n")))
}
