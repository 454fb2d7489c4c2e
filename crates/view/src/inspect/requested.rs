//! Fields of podman, the whole command, and the mounts of `--mount`: requests without a field of docker's `Config`.

use serde_json::{Map, Value, json};
use tote_bundle::{MountRequest, MountSource, Propagation, Recursion, SecretForm, parse_mount};
use tote_engine::ContainerDetails;
use tote_engine::container::Container;

/// Returns podman's fields of `Config`: those that an option has set, and the command.
pub(super) fn podmans_config(of: &ContainerDetails) -> Map<String, Value> {
    let (container, options) = (&of.entry.container, &of.options);
    let mut fields = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    add("CreateCommand", Some(json!(create_command(container))));
    let action = container.option("health-on-failure");
    add(
        "HealthcheckOnFailureAction",
        action.filter(|action| !action.is_empty()).map(Value::from),
    );
    add("Timezone", options.timezone.as_deref().map(Value::from));
    add("Umask", options.umask.map(|mask| format!("{mask:04o}").into()));
    let limit = options.timeout.map(|limit| limit.as_secs());
    add("Timeout", limit.filter(|limit| *limit > 0).map(Value::from));
    let secrets: Vec<_> = options.secrets.iter().map(secret).collect();
    add("Secrets", (!secrets.is_empty()).then(|| secrets.into()));
    fields
}

fn secret(of: &tote_bundle::SecretRequest) -> Value {
    match &of.form {
        SecretForm::File { mode, uid, gid, .. } => {
            json!({ "Name": of.source, "UID": uid, "GID": gid, "Mode": mode })
        }
        SecretForm::Variable(_) => json!({ "Name": of.source, "UID": 0, "GID": 0, "Mode": 0 }),
    }
}

/// Returns the words by which `create` makes another such container.
fn create_command(of: &Container) -> Vec<String> {
    let mut words = vec![
        "tote".to_owned(),
        "create".to_owned(),
        format!("--name={}", of.name),
    ];
    words.extend(of.pod.iter().map(|pod| format!("--pod={pod}")));
    for (option, value) in &of.options {
        let is_the_pods = of.pod.is_some() && value.starts_with("container:");
        match option.as_str() {
            // Mounts of --volumes-from and variables of --env-host are looked up anew, and nothing is created in the background.
            "inherit" | "host-env" | "infra" | "detach" => {}
            "pid" | "ipc" | "network" | "uts" if is_the_pods => {}
            option => words.push(format!("--{option}={value}")),
        }
    }
    words.push(of.image.clone());
    words.extend(of.command.iter().cloned());
    words
}

/// Returns docker's `HostConfig.Mounts`: the mounts of `--mount`; `None` without one.
pub(super) fn mounts(of: &ContainerDetails) -> Option<Value> {
    let given = of.entry.container.values("mount").into_iter();
    // What this release does not understand is in the command.
    let requests = given.filter_map(|text| parse_mount(text).ok());
    let mounts: Vec<_> = requests.map(|request| mount(&request)).collect();
    (!mounts.is_empty()).then(|| mounts.into())
}

fn mount(of: &MountRequest) -> Value {
    let (kind, source, options) = match &of.source {
        MountSource::Bind(bind) => {
            let mut options = Map::new();
            if bind.propagation != Propagation::default() {
                options.insert("Propagation".to_owned(), bind.propagation.as_str().into());
            }
            match bind.recursion {
                Recursion::Enabled => {}
                Recursion::Disabled => drop(options.insert("NonRecursive".to_owned(), true.into())),
                Recursion::Writable => drop(options.insert("ReadOnlyNonRecursive".to_owned(), true.into())),
            }
            if bind.create {
                options.insert("CreateMountpoint".to_owned(), true.into());
            }
            ("bind", bind.path.as_str(), ("BindOptions", options))
        }
        MountSource::Volume(volume) => {
            let mut options = Map::new();
            if !volume.copy && volume.subpath.is_none() {
                options.insert("NoCopy".to_owned(), true.into());
            }
            if !volume.labels.is_empty() {
                options.insert("Labels".to_owned(), pairs(&volume.labels));
            }
            if !volume.options.is_empty() {
                let driver = json!({ "Name": "local", "Options": pairs(&volume.options) });
                options.insert("DriverConfig".to_owned(), driver);
            }
            if let Some(subpath) = &volume.subpath {
                options.insert("Subpath".to_owned(), subpath.as_str().into());
            }
            let name = volume.name.as_deref().unwrap_or_default();
            ("volume", name, ("VolumeOptions", options))
        }
        MountSource::Tmpfs(given) => {
            let value = |name: &str| given.iter().find_map(|option| option.strip_prefix(name));
            let mut options = Map::new();
            if let Some(size) = value("size=").and_then(|size| size.parse::<u64>().ok()) {
                options.insert("SizeBytes".to_owned(), size.into());
            }
            if let Some(mode) = value("mode=").and_then(|mode| u32::from_str_radix(mode, 8).ok()) {
                options.insert("Mode".to_owned(), mode.into());
            }
            ("tmpfs", "", ("TmpfsOptions", options))
        }
        MountSource::Image(image) => ("image", image.as_str(), ("ImageOptions", Map::new())),
    };
    let mut mount = json!({ "Type": kind, "Target": of.destination });
    let (name, options) = options;
    if let Some(fields) = mount.as_object_mut() {
        if !source.is_empty() {
            fields.insert("Source".to_owned(), source.into());
        }
        if of.readonly {
            fields.insert("ReadOnly".to_owned(), true.into());
        }
        if !options.is_empty() {
            fields.insert(name.to_owned(), options.into());
        }
    }
    mount
}

/// Returns an object of `KEY=VALUE`.
fn pairs(texts: &[String]) -> Value {
    let pairs = texts
        .iter()
        .map(|text| text.split_once('=').unwrap_or((text, "")))
        .map(|(key, value)| (key.to_owned(), Value::from(value)));
    pairs.collect::<Map<_, _>>().into()
}
