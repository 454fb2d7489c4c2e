//! Services of `.container` files.

use super::file::{Quadlet, QuadletError, Surroundings, line, truth, words, wrong};
use super::keys::{CONTAINER, How};
use crate::service::exact;
use crate::syntax::{Entry, UnitFile};

const SECTION: &str = "Container";

/// Settings of `[Service]` that a file may have otherwise.
const USUAL: [(&str, &str); 4] = [
    ("KillMode", "mixed"),
    ("Delegate", "yes"),
    ("SuccessExitStatus", "143"),
    ("SyslogIdentifier", "%N"),
];

/// Adds the commands that run the container.
pub(super) fn complete(
    quadlet: &Quadlet,
    around: &Surroundings<'_>,
    unit: &mut UnitFile,
) -> Result<(), QuadletError> {
    let file = &quadlet.file;
    let last = |key| file.value(SECTION, key);
    let name = quadlet.object_name();
    let mut tote = vec![around.program.to_owned()];
    for entry in file.values(SECTION, "GlobalArgs") {
        tote.extend(words(entry)?);
    }
    let with = |words: &[&str]| -> Vec<String> {
        tote.iter()
            .cloned()
            .chain(words.iter().map(|word| (*word).to_owned()))
            .collect()
    };
    let mut run = with(&["run", "--name", &name, "--replace", "--rm"]);
    let cgroups = last("CgroupsMode").map_or("split", |entry| entry.value.as_str());
    run.push(format!("--cgroups={cgroups}"));
    let kind = file.value("Service", "Type");
    match kind.map(|entry| entry.value.as_str()) {
        // The service is over when the command is.
        Some("oneshot") => run.push("--sdnotify=ignore".to_owned()),
        None | Some("notify") => {
            run.push(format!("--sdnotify={}", notify(last("Notify"))?));
            unit.add_missing("Service", "Type", "notify");
            unit.add("Service", "NotifyAccess", "all");
        }
        Some(_) => {
            let entry = kind.ok_or(QuadletError::Missing("Type"))?;
            return Err(wrong(entry, "must be notify or oneshot"));
        }
    }
    options(quadlet, &mut run)?;
    networks(SECTION, (quadlet, around), unit, &mut run)?;
    user(file, &mut run)?;
    if let Some(entry) = last("Pod") {
        run.extend(["--pod".to_owned(), pod(around, entry, unit)?]);
    }
    mounts(quadlet, around, unit, &mut run)?;
    for key in ["PodmanArgs", "ToteArgs"] {
        for entry in file.values(SECTION, key) {
            run.extend(words(entry)?);
        }
    }
    run.push(image(file)?);
    if let Some(entry) = last("Exec") {
        run.extend(words(entry)?);
    }
    unit.add("Service", "ExecStart", line(&run));
    let exact_name = exact(&name);
    if let Some(command) = reload(file, &with, &exact_name)? {
        unit.add("Service", "ExecReload", command);
    }
    // The container is stopped by its own stop signal, and within its own time.
    unit.add(
        "Service",
        "ExecStop",
        line(&with(&["stop", "--ignore", &exact_name])),
    );
    unit.add(
        "Service",
        "ExecStopPost",
        format!(
            "-{}",
            line(&with(&["rm", "--force", "--volumes", "--ignore", &exact_name]))
        ),
    );
    for (key, value) in USUAL {
        unit.add_missing("Service", key, value);
    }
    Ok(())
}

/// Returns the command that reloads the container, if there is one.
fn reload(
    file: &UnitFile,
    with: &dyn Fn(&[&str]) -> Vec<String>,
    name: &str,
) -> Result<Option<String>, QuadletError> {
    let (command, signal) = (
        file.value(SECTION, "ReloadCmd"),
        file.value(SECTION, "ReloadSignal"),
    );
    Ok(match (command, signal) {
        (Some(entry), Some(_)) => return Err(wrong(entry, "there is a ReloadSignal as well")),
        (Some(entry), None) => Some(line(&[with(&["exec", name]), words(entry)?].concat())),
        (None, Some(entry)) => Some(line(&with(&["kill", "--signal", &entry.value, name]))),
        (None, None) => None,
    })
}

fn notify(entry: Option<&Entry>) -> Result<&'static str, QuadletError> {
    match entry {
        Some(entry) if entry.value == "healthy" => Ok("healthy"),
        Some(entry) if truth(entry)? => Ok("container"),
        _ => Ok("conmon"),
    }
}

/// Returns the value of `Image` or `Rootfs`; exactly one of them must be given.
fn image(file: &UnitFile) -> Result<String, QuadletError> {
    match (file.value(SECTION, "Image"), file.value(SECTION, "Rootfs")) {
        (Some(_), Some(entry)) => Err(wrong(entry, "there is an Image as well")),
        (Some(image), None) if image.value.ends_with(".image") || image.value.ends_with(".build") => Err(
            wrong(image, "tote has no .image and .build files: give an image's name"),
        ),
        (Some(image), None) => Ok(image.value.clone()),
        (None, Some(rootfs)) => Ok(format!("rootfs:{}", rootfs.value)),
        (None, None) => Err(QuadletError::Missing("Image")),
    }
}

/// Adds options whose values are those of keys, unchanged.
pub(super) fn plain(
    file: &UnitFile,
    section: &str,
    table: &[(&str, &str, How)],
    run: &mut Vec<String>,
) -> Result<(), QuadletError> {
    for (key, option, how) in table {
        let mut add = |value: &str| run.extend([format!("--{option}"), value.to_owned()]);
        match how {
            How::Own => {}
            How::Last => file
                .value(section, key)
                .into_iter()
                .for_each(|entry| add(&entry.value)),
            How::Each => file
                .values(section, key)
                .into_iter()
                .for_each(|entry| add(&entry.value)),
            How::Words => {
                for entry in file.values(section, key) {
                    words(entry)?.iter().for_each(|word| add(word));
                }
            }
            How::Flag => {
                if let Some(entry) = file.value(section, key) {
                    run.push(format!("--{option}={}", truth(entry)?));
                }
            }
        }
    }
    Ok(())
}

/// Adds options whose values need a conversion.
fn options(quadlet: &Quadlet, run: &mut Vec<String>) -> Result<(), QuadletError> {
    let file = &quadlet.file;
    plain(file, SECTION, CONTAINER, run)?;
    let mut add = |option: &str, value: String| run.extend([format!("--{option}"), value]);
    for entry in file.values(SECTION, "AddDevice") {
        for word in words(entry)? {
            match word.strip_prefix('-') {
                // The presence of a device is known only when the container starts.
                Some(_) => return Err(wrong(entry, "a device cannot be left out where it is missing")),
                None => add("device", word),
            }
        }
    }
    for entry in file.values(SECTION, "EnvironmentFile") {
        for word in words(entry)? {
            add("env-file", absolute(quadlet, &word));
        }
    }
    if let Some(entry) = file.value(SECTION, "NoNewPrivileges")
        && truth(entry)?
    {
        add("security-opt", "no-new-privileges".to_owned());
    }
    if let Some(entry) = file.value(SECTION, "SecurityLabelDisable")
        && truth(entry)?
    {
        add("security-opt", "label=disable".to_owned());
    }
    for (key, option) in [("Mask", "mask"), ("Unmask", "unmask")] {
        for entry in file.values(SECTION, key) {
            add("security-opt", format!("{option}={}", entry.value));
        }
    }
    if let Some(entry) = file.value(SECTION, "SeccompProfile") {
        add("security-opt", format!("seccomp={}", entry.value));
    }
    Ok(())
}

fn user(file: &UnitFile, run: &mut Vec<String>) -> Result<(), QuadletError> {
    match (file.value(SECTION, "User"), file.value(SECTION, "Group")) {
        (Some(user), Some(group)) => {
            run.extend(["--user".to_owned(), format!("{}:{}", user.value, group.value)])
        }
        (Some(user), None) => run.extend(["--user".to_owned(), user.value.clone()]),
        (None, Some(group)) => return Err(wrong(group, "there is no User beside it")),
        (None, None) => {}
    }
    Ok(())
}

/// Adds `--network`: the network may be a `.network` file, with options of the container there behind it.
pub(super) fn networks(
    section: &str,
    (quadlet, around): (&Quadlet, &Surroundings<'_>),
    unit: &mut UnitFile,
    run: &mut Vec<String>,
) -> Result<(), QuadletError> {
    for entry in quadlet.file.values(section, "Network") {
        let (name, options) = match entry.value.split_once(':') {
            Some((name, options)) => (name, format!(":{options}")),
            None => (entry.value.as_str(), String::new()),
        };
        let network = match name.strip_suffix(".network") {
            Some(file) => {
                let Some(name) = around.networks.get(file) else {
                    return Err(QuadletError::Unknown {
                        line: entry.line,
                        key: entry.key.clone(),
                        file: name.to_owned(),
                    });
                };
                let service = format!("{}.service", super::Kind::Network.service(file));
                unit.add("Unit", "Requires", &*service);
                unit.add("Unit", "After", service);
                name.as_str()
            }
            None => name,
        };
        run.extend(["--network".to_owned(), format!("{network}{options}")]);
    }
    Ok(())
}

/// Ties a container's start and end to those of its pod.
fn pod(around: &Surroundings<'_>, entry: &Entry, unit: &mut UnitFile) -> Result<String, QuadletError> {
    let Some(file) = entry.value.strip_suffix(".pod") else {
        return Err(wrong(entry, "not the name of a .pod file"));
    };
    let Some(name) = around.pods.get(file) else {
        return Err(QuadletError::Unknown {
            line: entry.line,
            key: entry.key.clone(),
            file: entry.value.clone(),
        });
    };
    let service = format!("{}.service", super::Kind::Pod.service(file));
    unit.add("Unit", "BindsTo", &*service);
    unit.add("Unit", "After", service);
    Ok(name.clone())
}

/// Adds volumes and other mounts.
fn mounts(
    quadlet: &Quadlet,
    around: &Surroundings<'_>,
    unit: &mut UnitFile,
    run: &mut Vec<String>,
) -> Result<(), QuadletError> {
    for entry in quadlet.file.values(SECTION, "Volume") {
        let volume = volume(quadlet, around, entry, unit)?;
        run.extend(["--volume".to_owned(), volume]);
    }
    for entry in quadlet.file.values(SECTION, "Mount") {
        let mount = mount(quadlet, around, entry, unit)?;
        run.extend(["--mount".to_owned(), mount]);
    }
    Ok(())
}

/// Converts `SOURCE:DIR[:OPTIONS]`: the source may be a `.volume` file, or relative to this file.
fn volume(
    quadlet: &Quadlet,
    around: &Surroundings<'_>,
    entry: &Entry,
    unit: &mut UnitFile,
) -> Result<String, QuadletError> {
    match entry.value.split_once(':') {
        Some((from, rest)) => Ok(format!("{}:{rest}", source(quadlet, around, entry, from, unit)?)),
        None => Ok(entry.value.clone()),
    }
}

/// Converts `source=` of `Mount=` in the same way.
fn mount(
    quadlet: &Quadlet,
    around: &Surroundings<'_>,
    entry: &Entry,
    unit: &mut UnitFile,
) -> Result<String, QuadletError> {
    let mut fields = Vec::new();
    for field in entry.value.split(',') {
        fields.push(match field.split_once('=') {
            Some((key @ ("source" | "src"), from)) => {
                format!("{key}={}", source(quadlet, around, entry, from, unit)?)
            }
            _ => field.to_owned(),
        });
    }
    Ok(fields.join(","))
}

fn source(
    quadlet: &Quadlet,
    around: &Surroundings<'_>,
    entry: &Entry,
    from: &str,
    unit: &mut UnitFile,
) -> Result<String, QuadletError> {
    let Some(file) = from.strip_suffix(".volume") else {
        return Ok(if from.starts_with('.') {
            absolute(quadlet, from)
        } else {
            from.to_owned()
        });
    };
    let Some(name) = around.volumes.get(file) else {
        return Err(QuadletError::Unknown {
            line: entry.line,
            key: entry.key.clone(),
            file: from.to_owned(),
        });
    };
    let service = format!("{}.service", super::Kind::Volume.service(file));
    unit.add("Unit", "Requires", &*service);
    unit.add("Unit", "After", service);
    Ok(name.clone())
}

/// Makes a path absolute, unless it begins with a specifier, which stands for an absolute path.
fn absolute(quadlet: &Quadlet, path: &str) -> String {
    if path.starts_with(['/', '%']) {
        return path.to_owned();
    }
    let dir = quadlet.path.rsplit_once('/').map_or("", |(dir, _)| dir);
    format!("{dir}/{}", path.strip_prefix("./").unwrap_or(path))
}
