//! docker's `Config`: the settings of a container's program as an image has them.

use crate::container::Entry;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tote_bundle::{EnvEntry, ImageConfig, PortBinding, RunOptions, StopTimeout, Stream, health_of};

/// Gives docker's `Config`: the options of a container, and what its image says where they say nothing.
pub(super) fn config(entry: &Entry, options: &RunOptions, image: &ImageConfig) -> Value {
    let container = &entry.container;
    let short = container.id.short();
    let set = |names: &[String]| -> Map<String, Value> {
        names.iter().map(|name| (name.clone(), json!({}))).collect()
    };
    let entrypoint = match options.entrypoint.as_deref() {
        Some("") => Vec::new(),
        Some(word) => vec![word.to_owned()],
        None => image.entrypoint.clone(),
    };
    let command = match &options.command {
        words if words.is_empty() && options.entrypoint.is_none() => image.cmd.clone(),
        words => words.clone(),
    };
    // docker's: both, and the input where it is kept open; nothing of what begins in the background.
    let attaches = |stream: Stream| match options.attach.as_slice() {
        [] => !options.detach && (stream != Stream::Stdin || options.interactive),
        given => given.contains(&stream),
    };
    let stdin = attaches(Stream::Stdin);
    let mut config = json!({
        "Hostname": options.host.hostname.clone().unwrap_or_else(|| short.to_owned()),
        "Domainname": options.host.domainname,
        "User": options.user.clone().unwrap_or_else(|| image.user.clone()),
        "AttachStdin": stdin,
        "AttachStdout": attaches(Stream::Stdout),
        "AttachStderr": attaches(Stream::Stderr),
        "Tty": options.tty,
        "OpenStdin": options.interactive,
        "StdinOnce": stdin && options.interactive,
        "Env": environment(options, image),
        "Cmd": or_null(command),
        "Image": container.image,
        "Volumes": Value::Null,
        "WorkingDir": options.workdir.clone().unwrap_or_else(|| image.working_dir.clone()),
        "Entrypoint": or_null(entrypoint),
        "OnBuild": Value::Null,
        "Labels": container.labels,
        "StopSignal": container.stop_signal,
    });
    let Some(fields) = config.as_object_mut() else {
        return config;
    };
    let published = options.published.iter().map(PortBinding::private).collect();
    let exposed = [options.exposed.clone(), image.exposed_ports.clone(), published].concat();
    if !exposed.is_empty() {
        fields.insert("ExposedPorts".to_owned(), set(&exposed).into());
    }
    let volumes = container.values("volume").into_iter();
    let own = volumes
        .filter(|volume| !volume.contains(':'))
        .map(ToOwned::to_owned);
    let volumes = [own.collect(), image.volumes.clone()].concat();
    if !volumes.is_empty() {
        fields.insert("Volumes".to_owned(), set(&volumes).into());
    }
    match options.stop_timeout {
        Some(StopTimeout::After(time)) => fields.insert("StopTimeout".to_owned(), time.as_secs().into()),
        Some(StopTimeout::Never) => fields.insert("StopTimeout".to_owned(), (-1).into()),
        None => None,
    };
    if let Ok(Some(check)) = health_of(options, image) {
        let check = json!({
            "Test": check.test,
            "Interval": check.interval,
            "Timeout": check.timeout,
            "StartPeriod": check.start_period,
            "StartInterval": check.start_interval,
            "Retries": check.retries,
        });
        fields.insert("Healthcheck".to_owned(), check);
    }
    config
}

/// The options' variables first, then those of the image that they leave alone, as docker has them.
fn environment(options: &RunOptions, image: &ImageConfig) -> Vec<String> {
    let entries = options.env.iter();
    let mut said: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    let mut order = Vec::new();
    for entry in entries {
        let (name, text) = match entry {
            EnvEntry::Set(text) => (name_of(text), Some(text.as_str())),
            EnvEntry::Inherit(name) => (name.as_str(), None),
        };
        if said.insert(name, text).is_none() {
            order.push(name);
        }
    }
    let asked = order.iter().filter_map(|name| said.get(name).copied().flatten());
    let base = &options.env_base;
    let kept = |text: &&str| {
        let name = name_of(text);
        !base.unset_all && !said.contains_key(name) && !base.unset.iter().any(|unset| unset == name)
    };
    let of_image: BTreeSet<&str> = image.env.iter().map(|text| name_of(text)).collect();
    let host = base
        .of_host
        .iter()
        .filter(|text| !of_image.contains(name_of(text)));
    let image = image.env.iter().chain(host).map(String::as_str).filter(kept);
    asked.chain(image).map(ToOwned::to_owned).collect()
}

fn name_of(variable: &str) -> &str {
    variable.split_once('=').map_or(variable, |(name, _)| name)
}

fn or_null(words: Vec<String>) -> Value {
    if words.is_empty() {
        Value::Null
    } else {
        words.into()
    }
}
