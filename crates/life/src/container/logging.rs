//! Log of a container: file, format and attributes.

use super::{Container, LifeError, StartError};
use crate::look::Pattern;
use serde_json::json;
use std::collections::BTreeMap;
use tote_bundle::{LogChoice, LogDriver, RunOptions};
use tote_monitor::{LogFormat, LogOptions};
use tote_spec::Spec;
use tote_template::Template;

/// Returns the name of a container's log in its directory.
pub fn file(choice: &LogChoice) -> &'static str {
    match choice.driver {
        LogDriver::K8sFile => "ctr.log",
        _ => "log.json",
    }
}

/// Returns the options of a container's log, if it has one.
pub fn options(
    container: &Container,
    (options, spec): (&RunOptions, &Spec),
) -> Result<Option<LogOptions>, LifeError> {
    let choice = &options.log;
    let format = match choice.driver {
        LogDriver::None => return Ok(None),
        LogDriver::K8sFile => LogFormat::Plain,
        LogDriver::JsonFile | LogDriver::Local => LogFormat::Json,
    };
    Ok(Some(LogOptions {
        max_size: choice.max_size(),
        max_files: choice.max_files(),
        attributes: attributes(container, (choice, spec))?,
        format,
    }))
}

/// Builds the attributes of every entry: labels, variables, the tag.
fn attributes(container: &Container, (log, spec): (&LogChoice, &Spec)) -> Result<Option<String>, LifeError> {
    let mut attributes = BTreeMap::new();
    let labels_regex = pattern("labels-regex", log.labels_regex.as_deref())?;
    let env_regex = pattern("env-regex", log.env_regex.as_deref())?;
    for (name, value) in &container.labels {
        if log.labels.contains(name) || fits(labels_regex.as_ref(), name) {
            attributes.insert(name.as_str(), value.as_str());
        }
    }
    let process = spec.process.as_ref();
    let env = process.into_iter().flat_map(|process| &process.env);
    for (name, value) in env.filter_map(|entry| entry.split_once('=')) {
        if log.env.iter().any(|wanted| wanted == name) || fits(env_regex.as_ref(), name) {
            attributes.insert(name, value);
        }
    }
    let tag = log
        .tag
        .as_ref()
        .map(|tag| expand(tag, container, spec))
        .transpose()?;
    attributes.extend(tag.as_deref().map(|tag| ("tag", tag)));
    // Strings always have a form in JSON.
    let text = || serde_json::to_string(&attributes).ok();
    Ok((!attributes.is_empty()).then(text).flatten())
}

/// Reads the pattern of an option of the log.
fn pattern(option: &'static str, text: Option<&str>) -> Result<Option<Pattern>, LifeError> {
    let wrong = |text: &str| {
        LifeError::Start(StartError::LogPattern {
            option,
            text: text.to_owned(),
        })
    };
    text.map(|text| Pattern::parse(text).ok_or_else(|| wrong(text)))
        .transpose()
}

fn fits(pattern: Option<&Pattern>, name: &str) -> bool {
    pattern.is_some_and(|pattern| pattern.is_in(name))
}

/// Expands the template of a tag with docker's words about a container.
fn expand(tag: &str, container: &Container, spec: &Spec) -> Result<String, LifeError> {
    let failed = |source| {
        LifeError::Start(StartError::Tag {
            tag: tag.to_owned(),
            source,
        })
    };
    let image = container.image_id.as_deref().unwrap_or(&container.image);
    let short = image.strip_prefix("sha256:").unwrap_or(image);
    let words = json!({
        "ID": container.id.short(),
        "FullID": container.id.as_str(),
        "Name": container.name,
        "ImageID": short.get(..12).unwrap_or(short),
        "ImageFullID": image,
        "ImageName": container.image,
        "Command": container.path_and_args.join(" "),
        "Hostname": spec.hostname,
        "DaemonName": "tote",
    });
    Template::parse(tag)
        .and_then(|template| template.render(&words))
        .map_err(failed)
}
