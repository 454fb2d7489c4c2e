//! Services of `.container` files.

use super::file::{Quadlet, QuadletError, Surroundings, line, truth, words, wrong};
use super::keys::{CONTAINER, How};
use crate::service::exact;
use crate::syntax::{Entry, UnitFile};

const SECTION: &str = "Container";

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
    user(file, &mut run)?;
    if let Some(entry) = last("Pod") {
        run.extend(["--pod".to_owned(), pod(around, entry, unit)?]);
    }
    for entry in file.values(SECTION, "Volume") {
        let volume = volume(quadlet, around, entry, unit)?;
        run.extend(["--volume".to_owned(), volume]);
    }
    for entry in file.values(SECTION, "Mount") {
        let mount = mount(quadlet, around, entry, unit)?;
        run.extend(["--mount".to_owned(), mount]);
    }
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
    // The container is stopped by its own stop signal, and within its own time.
    let exact = exact(&name);
    unit.add("Service", "ExecStop", line(&with(&["stop", "--ignore", &exact])));
    unit.add(
        "Service",
        "ExecStopPost",
        format!(
            "-{}",
            line(&with(&["rm", "--force", "--volumes", "--ignore", &exact]))
        ),
    );
    for (key, value) in [
        ("KillMode", "mixed"),
        ("Delegate", "yes"),
        ("SuccessExitStatus", "143"),
        ("SyslogIdentifier", "%N"),
    ] {
        unit.add_missing("Service", key, value);
    }
    Ok(())
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
    for entry in file.values(SECTION, "Network") {
        if entry.value.ends_with(".network") {
            return Err(wrong(
                entry,
                "tote has no .network files: make the network with 'tote network create', and give its name",
            ));
        }
        add("network", entry.value.clone());
    }
    if let Some(entry) = file.value(SECTION, "NoNewPrivileges")
        && truth(entry)?
    {
        add("security-opt", "no-new-privileges".to_owned());
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
