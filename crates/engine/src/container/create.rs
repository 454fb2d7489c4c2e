//! Creating containers.

use super::claim::Claim;
use super::error::LifeError;
use super::record::Container;
use super::state::State;
use super::{fault, name};
use crate::{EngineError, Home, RunRequest, prepare};
use std::collections::BTreeSet;
use std::path::Path;
use tote_bundle::{ContainerId, EnvEntry, Image, Name, RunOptions, SdNotify};
use tote_state::events::append;
use tote_state::new_id;
use tote_state::record::now;
use tote_sys::best_effort;

/// Creates a container that can be started: directory, records, name, `--cidfile`. What can be checked without starting
/// it is checked.
///
/// # Errors
/// [`EngineError`]; nothing of it is left then.
pub fn create(home: &Home, mut request: RunRequest) -> Result<Container, EngineError> {
    let _guard = crate::pod::enlist(home, &mut request, false)?;
    let (id, claim, name) = allot(home, request.options.name.as_ref(), true)?;
    let made = prepare::examine(home, &id, &name, request).and_then(|(container, _volumes)| {
        store(home, &container)?;
        Ok(container)
    });
    match made {
        Ok(container) => {
            fault::point("created");
            claim.release();
            Ok(container)
        }
        Err(error) => {
            undo(home, &id, &name, claim);
            Err(error)
        }
    }
}

/// Writes the records of a container that is new.
pub(crate) fn store(home: &Home, container: &Container) -> Result<(), EngineError> {
    let dir = home.container(&container.id);
    tote_state::closed::directory(&dir).map_err(EngineError::file("make", dir))?;
    // The state first: there is a container when there is the other file.
    State::default().write(home, &container.id)?;
    fault::point("state-new");
    container.write(home)?;
    fault::point("recorded");
    append(home, &[container.event("create")]);
    Ok(())
}

/// An id, its claim, and a name: the one that is asked for, or any where one is wanted now.
pub(crate) fn allot(
    home: &Home,
    given: Option<&Name>,
    any: bool,
) -> Result<(ContainerId, Claim, String), EngineError> {
    let id = new_id()?;
    // Nobody else knows the id; but a sweep may have seen the file before it was locked, and lets go of it in a moment.
    let claim = Claim::wait(home, &id)?;
    fault::point("claimed");
    let name = match given {
        Some(name) => name::take(home, name, &id).map(|()| name.to_string()),
        None if any => name::take_any(home, &id).map(|name| name.to_string()),
        None => Ok(String::new()),
    };
    match name {
        Ok(name) => {
            fault::point("named");
            Ok((id, claim, name))
        }
        Err(error) => {
            claim.release();
            Err(error)
        }
    }
}

/// Forgets a container whose making has failed, with the volumes that were made for it and that nobody named.
pub(crate) fn undo(home: &Home, id: &ContainerId, given: &str, claim: Claim) {
    let made = match claim.promised_volumes() {
        Some(_) => crate::volume::given_to(home, id),
        None => Ok(Vec::new()),
    };
    forget(home, id, given, (claim, false), made);
}

/// Forgets a container that was not wholly made or has ended, and removes what there is of it. Where something stays, its
/// cgroup or its name, so does its claim, which says where that is: the next command finds the claim unheld, and clears all.
pub(crate) fn discard(home: &Home, id: &ContainerId, given: &str, (claim, leaves_cgroup): (Claim, bool)) {
    forget(home, id, given, (claim, leaves_cgroup), Ok(Vec::new()));
}

fn forget(
    home: &Home,
    id: &ContainerId,
    given: &str,
    (claim, leaves_cgroup): (Claim, bool),
    made: Result<Vec<String>, EngineError>,
) {
    let going = made.and_then(|made| Ok([made, crate::volume::adopted(home, id)?].concat()));
    // What cannot be removed now is cleared by the next command, which finds the claim unheld.
    let removed = crate::tree::remove(home, id).is_ok();
    let is_nameless = name::release(home, given, id);
    let Ok(going) = going else { return };
    if leaves_cgroup || !removed || !is_nameless {
        // What the claim says must stay, and as long as it does, the volumes are the container's.
        drop(claim);
        best_effort(crate::volume::remove_unused(home, &going));
        return;
    }
    if !going.is_empty() {
        claim.note_volumes(Some(&going));
    }
    if crate::volume::remove_unused(home, &going).is_ok() {
        claim.release();
    }
}

/// The image as it can be asked for from anywhere.
pub(crate) fn absolute_image(image: &Image) -> String {
    match image {
        Image::Host => "host".to_owned(),
        Image::Rootfs(dir) => format!("rootfs:{}", absolute(dir)),
        Image::Stored(name) => name.clone(),
    }
}

fn absolute(path: &str) -> String {
    std::path::absolute(Path::new(path)).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

/// What was given, so that it means the same when somebody else starts the container tomorrow. The files that options name
/// were read before.
///
/// # Errors
/// There is no such container as another namespace is to be of.
pub(crate) fn resolve(
    home: &Home,
    given: Vec<(String, String)>,
    options: &RunOptions,
) -> Result<Vec<(String, String)>, EngineError> {
    let mut resolved = Vec::with_capacity(given.len());
    // `--env` wins over the files wherever it stands.
    let of_files = options.env.file_entries.iter().cloned();
    let of_files = of_files.filter_map(|entry| variable(entry, true));
    resolved.extend(of_files.map(|text| ("env".to_owned(), text)));
    let host_env = options.env_base.of_host.iter();
    resolved.extend(host_env.map(|variable| ("host-env".to_owned(), variable.clone())));
    // And `--label` over those, too.
    if !options.label_files.is_empty() {
        let labels = options.labels.iter();
        resolved.extend(labels.map(|(name, value)| ("label".to_owned(), format!("{name}={value}"))));
    }
    for (option, value) in given {
        let value = match option.as_str() {
            // These are for once.
            "name" | "cidfile" | "env-file" | "label-file" | "preserve-fds" | "pod" => continue,
            "env" => match EnvEntry::parse(&value) {
                Ok(entry) => variable(entry, false).unwrap_or(value),
                Err(_) => value,
            },
            "security-opt" => match value.split_once(['=', ':']) {
                Some(("seccomp", file)) if !matches!(file, "builtin" | "default" | "unconfined") => {
                    format!("seccomp={}", absolute(file))
                }
                _ => value,
            },
            "pid" | "ipc" | "network" | "uts" => match value.strip_prefix("container:") {
                Some(peer) => format!("container:{}", super::find(home, peer)?.container.id),
                None => value,
            },
            _ => value,
        };
        resolved.push((option, value));
    }
    Ok(resolved)
}

/// A variable with its value. One without is the name alone, which takes the image's away; of a file's it is nothing.
fn variable(entry: EnvEntry, of_file: bool) -> Option<String> {
    match entry {
        EnvEntry::Set(text) => Some(text),
        EnvEntry::Inherit(name) => match std::env::var(&name) {
            Ok(value) => Some(format!("{name}={value}")),
            Err(_) => (!of_file).then_some(name),
        },
    }
}

/// What is recorded of a new container.
pub(crate) struct Recorded {
    pub(crate) image: String,
    pub(crate) image_id: Option<String>,
    pub(crate) given: Vec<(String, String)>,
    pub(crate) path_and_args: Vec<String>,
}

impl Recorded {
    /// The record; the image's configuration has a say in it.
    pub(crate) fn container(
        self,
        id: &ContainerId,
        name: &str,
        options: &RunOptions,
        config: &tote_bundle::ImageConfig,
    ) -> Result<Container, EngineError> {
        let health = tote_bundle::health_of(options, config)?;
        if options.sdnotify == SdNotify::Healthy && health.is_none() {
            return Err(LifeError::Unchecked.into());
        }
        let stop_signal = options.stop_signal.map(|signal| signal.to_string());
        let of_image = || Some(config.stop_signal.clone()).filter(|signal| !signal.is_empty());
        Ok(Container {
            id: id.clone(),
            name: name.to_owned(),
            created: now(),
            image: self.image,
            image_id: self.image_id,
            options: self.given,
            command: options.command.clone(),
            path_and_args: self.path_and_args,
            labels: tote_bundle::labels_of(options, config),
            exposed: exposed(options, config),
            stop_signal: stop_signal
                .or_else(of_image)
                .unwrap_or_else(|| "SIGTERM".to_owned()),
            health: health.map(crate::health::record),
            pod: options.pod.clone(),
            driver: options.driver.clone(),
            rm: options.rm,
        })
    }
}

fn exposed(options: &RunOptions, config: &tote_bundle::ImageConfig) -> Vec<String> {
    let ports = options.exposed.iter().chain(&config.exposed_ports).cloned();
    let published = options.published.iter().map(|binding| binding.private());
    let ports: BTreeSet<String> = ports.chain(published).collect();
    ports.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn no_sweep_takes_a_claim_away() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    super::super::sweep(&home);
                }
            });
            for _ in 0..3000 {
                let allotted = allot(&home, None, false);
                if allotted.is_err() {
                    over.store(true, Ordering::Relaxed);
                }
                allotted.unwrap().1.release();
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}
