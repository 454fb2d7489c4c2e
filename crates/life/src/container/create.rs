//! Creation of containers.

use super::claim::Claim;
use super::error::{LifeError, StartError};
use super::record::{Container, absolute, absolute_image};
use super::required::required;
use super::state::State;
use super::{fault, mounts, name};
use crate::peer::Peers;
use crate::rootfs::Source;
use crate::slim::fall_back;
use crate::user::ids;
use crate::volume::VolumeHold;
use crate::{
    EngineError, Home, RequestError, RunRequest, etc, given, network, remains, spec, storage, volume,
};
use std::collections::BTreeSet;
use tote_bundle::{
    ContainerAlias, ContainerId, EnvEntry, Name, RunOptions, SdNotify, SpecError, command_line,
};
use tote_image::Digest;
use tote_state::events::append;
use tote_state::new_id;
use tote_state::record::now;
use tote_store::{Steady, StoreError};
use tote_sys::best_effort;

/// Creates a container that can be started: directory, records, name, `--cidfile`. All options are checked as far as
/// possible without a start. The caller has made the request one for a member if the container joins a pod.
///
/// # Errors
/// [`EngineError`]; no part of the container is left then.
pub fn create(home: &Home, request: RunRequest) -> Result<Container, EngineError> {
    let (id, claim, name) = allot(home, request.options.name.as_ref(), true)?;
    let made = examine(home, &id, &name, request).and_then(|(container, _volumes)| {
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

/// The record of a container that is only created: everything that needs no start. Makes what its mounts need, and holds
/// its volumes.
fn examine(
    home: &Home,
    id: &ContainerId,
    name: &str,
    request: RunRequest,
) -> Result<(Container, VolumeHold), EngineError> {
    given::note_id(&request.options, id)?;
    let RunRequest {
        mut options,
        mut given,
        image,
        ..
    } = request;
    given::read_env_files(&mut options.env)?;
    given::read_surroundings(&mut options)?;
    volume::inherit(home, (&mut options, &mut given), true)?;
    volume::settle_images(home, (&mut options, &mut given))?;
    let whole = fall_back(home, &image, &mut options, &mut given)?;
    let mut source = Source::open(home, whole.as_ref().unwrap_or(&image))?;
    crate::vm::settle(&image, &options)?;
    crate::vm::adapt(&options, &mut source);
    let config = source.config();
    storage::choose_driver(home, &config, &mut options, &mut given)?;
    network::choose(&image, &mut options, &mut given)?;
    let ids = ids(&options, &config, &image, &source, home)?;
    crate::secret::copy(home, id, (&options, &ids))?;
    let environment = |name: &str| std::env::var(name).ok();
    let (peers, mut joined) = Peers::find(home, &options)?;
    // The disks of a virtual machine are made as well, but they are not this machine's to mount.
    let brought = match options.vm {
        Some(_) => volume::brought(home, &options, false)?,
        None => volume::Brought::default(),
    };
    if !brought.disks.is_empty() {
        let is_disk = |place: &str| brought.disks.iter().any(|disk| disk.destination == place);
        joined
            .to_mut()
            .mounts
            .retain(|mount| !is_disk(&mount.destination));
    }
    let mut volumes = volume::prepare(home, id, (&joined, &config), false)?;
    volumes.hold.join(brought.hold);
    let asked = (joined.as_ref(), &peers);
    let made = spec::make(home.caller, id, asked, &config, &ids, &environment, &volumes);
    let path_and_args = match made {
        Ok(spec) => spec.process.map_or_else(Vec::new, |process| process.args),
        // It may run by then.
        Err(EngineError::Request(RequestError::Spec(SpecError::Peer { .. } | SpecError::NetworkPeer(_)))) => {
            command_line(options.entrypoint.as_deref(), &options.command, &config)
        }
        Err(error) => return Err(error),
    };
    // What is wrong is said now; the file is made at the start.
    etc::localtime(&options)?;
    let recorded = Recorded {
        image: absolute_image(&image),
        image_id: source.image_id(),
        given: resolve(home, given, &options)?,
        path_and_args,
    };
    let container = recorded.container(id, name, &options, &config)?;
    Ok((container, volumes.hold))
}

/// Lists the images of the store that a container has: its own, and those that it mounts.
fn images(container: &Container) -> Vec<Digest> {
    let mounts_some = container.options.iter().any(|(option, _)| option == "mount");
    let mounted = mounts_some.then(|| mounts(container).map(|mount| mount.source));
    let own = container.image_id.iter().cloned();
    own.chain(mounted.into_iter().flatten())
        .filter_map(|id| id.parse().ok())
        .collect()
}

/// Writes the records of a new container.
///
/// # Errors
/// [`StoreError::NoImage`] for an image that another command has removed, and those of the records.
pub fn store(home: &Home, container: &Container) -> Result<(), EngineError> {
    // A removal of the image sees the container, or the container does not come about.
    let steady = Steady::of(&home.store())?;
    for image in images(container) {
        if !steady.has(&home.store(), &image)? {
            return Err(StoreError::NoImage(image.to_string()).into());
        }
    }
    let dir = home.container(&container.id);
    tote_state::closed::directory(&dir).map_err(EngineError::file("make", dir))?;
    // The state comes first, because the container exists once the other file does.
    State::default().write(home, &container.id)?;
    fault::point("state-new");
    container.write(home)?;
    drop(steady);
    fault::point("recorded");
    append(home, &[container.event("create")]);
    Ok(())
}

/// Allots an id, its claim, and a name: the given one, or a generated one if `any`.
pub fn allot(
    home: &Home,
    given: Option<&Name>,
    any: bool,
) -> Result<(ContainerId, Claim, String), EngineError> {
    let id = new_id()?;
    // No other process knows the id; but a sweep may have seen the file before it was locked, and releases it in a
    // moment.
    let claim = Claim::wait(home, &id)?;
    fault::point("claimed");
    let name = match given {
        Some(name) => name::take(home, name, &id, remains::sweep).map(|()| name.to_string()),
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

/// Removes a container whose creation has failed, with the anonymous volumes that were made for it.
pub fn undo(home: &Home, id: &ContainerId, given: &str, claim: Claim) {
    let made = match claim.promised_volumes() {
        Some(_) => volume::given_to(home, id),
        None => Ok(Vec::new()),
    };
    forget(home, id, given, (claim, false), made);
}

/// Removes an incomplete or ended container with all its parts. If its cgroup or its name cannot be removed, the
/// claim stays with their record: the next command finds the claim free, and clears all.
pub fn discard(home: &Home, id: &ContainerId, given: &str, (claim, leaves_cgroup): (Claim, bool)) {
    forget(home, id, given, (claim, leaves_cgroup), Ok(Vec::new()));
}

fn forget(
    home: &Home,
    id: &ContainerId,
    given: &str,
    (claim, leaves_cgroup): (Claim, bool),
    made: Result<Vec<String>, EngineError>,
) {
    let going = made.and_then(|made| Ok([made, volume::adopted(home, id)?].concat()));
    // The next command, which finds the claim free, clears the parts that cannot be removed now.
    let removed = crate::tree::remove(home, id).is_ok();
    let is_nameless = name::release(home, given, id);
    let Ok(going) = going else { return };
    if leaves_cgroup || !removed || !is_nameless {
        // The text of the claim must stay, and until it is cleared, the volumes belong to the container.
        drop(claim);
        best_effort(volume::remove_unused(home, &going));
        return;
    }
    if !going.is_empty() {
        claim.note_volumes(Some(&going));
    }
    if volume::remove_unused(home, &going).is_ok() {
        claim.release();
    }
}

/// Resolves the given options, so that they mean the same for another process at a later start. The files that
/// options name were read before.
///
/// # Errors
/// Fails if a container for a shared namespace is missing.
pub fn resolve(
    home: &Home,
    given: Vec<(String, String)>,
    options: &RunOptions,
) -> Result<Vec<(String, String)>, EngineError> {
    let mut resolved = Vec::with_capacity(given.len());
    // `--env` takes precedence over the files wherever it stands.
    let of_files = options.env.file_entries.iter().cloned();
    let of_files = of_files.filter_map(|entry| variable(entry, true));
    resolved.extend(of_files.map(|text| ("env".to_owned(), text)));
    let host_env = options.env_base.of_host.iter();
    resolved.extend(host_env.map(|variable| ("host-env".to_owned(), variable.clone())));
    // `--label` takes precedence over the label files, too.
    if !options.label_files.is_empty() {
        let labels = options.labels.iter();
        resolved.extend(labels.map(|(name, value)| ("label".to_owned(), format!("{name}={value}"))));
    }
    // With what its files say.
    resolved.extend(
        options
            .egress
            .iter()
            .map(|policy| ("egress".to_owned(), policy.to_string())),
    );
    for (option, value) in given {
        let value = match option.as_str() {
            // These options apply to this start only and are not stored.
            "name" | "cidfile" | "env-file" | "label-file" | "preserve-fds" | "pod" | "egress" => continue,
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
            "requires" => required(home, &value)?,
            "link" => match value.parse::<ContainerAlias>() {
                Ok(link) => format!(
                    "{}:{}",
                    super::find(home, &link.container)?.container.id,
                    link.alias
                ),
                Err(_) => value,
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

/// Returns a variable with its value. An unset one is the name alone, which removes the image's variable; an unset
/// one of a file is left out.
fn variable(entry: EnvEntry, of_file: bool) -> Option<String> {
    match entry {
        EnvEntry::Set(text) => Some(text),
        EnvEntry::Inherit(name) => match std::env::var(&name) {
            Ok(value) => Some(format!("{name}={value}")),
            Err(_) => (!of_file).then_some(name),
        },
    }
}

/// Facts for the record of a new container.
#[derive(Debug)]
pub struct Recorded {
    /// Image as recorded.
    pub image: String,
    /// Id of the image, if the store has it.
    pub image_id: Option<String>,
    /// Options as given.
    pub given: Vec<(String, String)>,
    /// Program and its arguments.
    pub path_and_args: Vec<String>,
}

impl Recorded {
    /// Builds the record, with defaults from the image's configuration.
    pub fn container(
        self,
        id: &ContainerId,
        name: &str,
        options: &RunOptions,
        config: &tote_bundle::ImageConfig,
    ) -> Result<Container, EngineError> {
        let health = tote_bundle::health_of(options, config)?;
        if options.sdnotify == SdNotify::Healthy && health.is_none() {
            return Err(LifeError::Start(StartError::Unchecked).into());
        }
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
            stop_signal: options
                .stop_signal
                .clone()
                .or_else(of_image)
                .unwrap_or_else(|| "SIGTERM".to_owned()),
            health: health.map(crate::health::record),
            pod: options.pod.clone(),
            driver: options.driver.clone(),
            rm: options.rm,
            roots_files: true,
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
