//! `tote save` and `tote import`.

use crate::image::given::platform;
use crate::image::given::platforms;
use crate::output::{archive_to, reading};
use crate::tell::{failure, print_made};
use crate::words::words;
use std::fs::File;
use std::io::Sink;
use std::path::Path;
use std::process::ExitCode;
use tote_engine::{Access, ArchiveError, EngineError, ImportOptions, SaveTarget};
use tote_options::Parsed;

pub(crate) fn save(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let (images, platforms) = (words(parsed), platforms(parsed)?);
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
        let home = reading(parsed)?;
        tote_engine::save::<Sink>(&home, &images, &platforms, SaveTarget::OciDir(path))?;
        return Ok(ExitCode::SUCCESS);
    }
    if format != "docker-archive" && format != "oci-archive" {
        return Ok(failure(
            &format!("unknown format {format}"),
            Some("docker-archive, oci-archive or oci-dir"),
            1,
        ));
    }
    archive_to(parsed, |out| {
        let home = reading(parsed)?;
        match format.as_str() {
            "oci-archive" => tote_engine::save(&home, &images, &platforms, SaveTarget::OciArchive(out))
                .map_err(EngineError::from),
            _ => tote_engine::save(&home, &images, &platforms, SaveTarget::DockerArchive(out))
                .map_err(EngineError::from),
        }
    })
}

pub(crate) fn import(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let mut words = words(parsed).into_iter();
    let source = words.next().unwrap_or_default();
    let text = |option: &str| {
        parsed
            .value(option)
            .map(|value| value.to_string_lossy().into_owned())
    };
    let label = match parsed.converted("disk-size", tote_engine::disk_size_label) {
        Ok(label) => label.map(|(key, size)| format!("LABEL {key}={size}")),
        Err(error) => return Ok(crate::tell::usage_error(&error)),
    };
    let changes = parsed
        .all("change")
        .map(|line| line.to_string_lossy().into_owned());
    let options = ImportOptions {
        name: words.next(),
        changes: changes.chain(label).collect(),
        platform: platform(parsed)?,
        message: text("message"),
    };
    let home = reading(parsed)?;
    let id = if source == "-" {
        tote_engine::import(&home, std::io::stdin(), &options)?
    } else if source.starts_with("http://") || source.starts_with("https://") {
        tote_engine::import_url(&home, &source, &Access::default(), &options)?
    } else {
        let file = File::open(&source).map_err(|error| ArchiveError::LayoutFile {
            path: source.into(),
            source: error,
        })?;
        tote_engine::import(&home, file, &options)?
    };
    Ok(print_made(&id.to_string(), "the image is"))
}
