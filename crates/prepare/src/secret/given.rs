//! Secrets of a container. It has copies from its creation, as podman's containers do: what becomes of a secret later
//! changes no container.

use super::SecretFault;
use super::record::{fault, find};
use crate::user::Ids;
use crate::{EngineError, Home, owner};
use rustix::fs::{Mode, OFlags};
use std::path::{Path, PathBuf};
use tote_bundle::{ContainerId, RunOptions, SecretForm, SecretRequest};
use tote_spec::{Mount, Spec};
use tote_state::record::is_there;

/// Copies the secrets for a new container.
///
/// # Errors
/// [`SecretFault`].
pub fn copy(home: &Home, id: &ContainerId, (options, ids): (&RunOptions, &Ids)) -> Result<(), EngineError> {
    for (copy, request) in copies(home, id, options) {
        if !is_there(&copy)? {
            make_copy(home, id, ids, request, &copy)?;
        }
    }
    Ok(())
}

/// Lists the files of the copies, and what is asked of each.
fn copies<'a>(
    home: &'a Home,
    id: &'a ContainerId,
    options: &'a RunOptions,
) -> impl Iterator<Item = (PathBuf, &'a SecretRequest)> {
    let requests = options.secrets.iter().enumerate();
    requests.map(move |(number, request)| (home.container(id).join(format!("secret-{number}")), request))
}

/// Adds the secrets to a container's spec: mounts of its copies, and variables.
///
/// # Errors
/// [`SecretFault`].
pub fn give(
    home: &Home,
    id: &ContainerId,
    (options, ids): (&RunOptions, &Ids),
    spec: &mut Spec,
) -> Result<(), EngineError> {
    copy(home, id, (options, ids))?;
    for (copy, request) in copies(home, id, options) {
        match &request.form {
            SecretForm::File { target, .. } => spec.mounts.push(mount(target, &copy)),
            SecretForm::Variable(name) => {
                let text = read(&request.source, copy)?;
                if let Some(process) = &mut spec.process {
                    let is_it = |line: &String| line.split_once('=').is_some_and(|(other, _)| other == name);
                    process.env.retain(|line| !is_it(line));
                    process.env.push(format!("{name}={text}"));
                }
            }
        }
    }
    Ok(())
}

fn mount(target: &str, copy: &Path) -> Mount {
    Mount {
        destination: target.to_owned(),
        kind: Some("bind".to_owned()),
        source: Some(copy.display().to_string()),
        options: ["bind", "ro", "nosuid", "nodev", "noexec", "rprivate"]
            .map(str::to_owned)
            .to_vec(),
        ..Mount::default()
    }
}

fn failed(path: PathBuf) -> impl FnOnce(std::io::Error) -> EngineError {
    move |source| fault(SecretFault::Copy { path, source })
}

fn read(name: &str, copy: PathBuf) -> Result<String, EngineError> {
    let bytes = std::fs::read(&copy).map_err(failed(copy))?;
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| fault(SecretFault::NotText(name.to_owned())))
}

/// Writes the bytes of a secret to a file of the container, in whose directory no other user can look.
fn make_copy(
    home: &Home,
    id: &ContainerId,
    ids: &Ids,
    request: &SecretRequest,
    copy: &Path,
) -> Result<(), EngineError> {
    let found = find(home, &request.source).map_err(|error| match error.part() {
        Some(SecretFault::Missing(name)) => fault(SecretFault::Unknown(name.clone())),
        _ => error,
    });
    let (name, record) = found?;
    let bytes = record.bytes(home, &name).map_err(fault)?;
    let dir = home.container(id);
    tote_state::closed::directory(&dir).map_err(failed(dir.clone()))?;
    // A copy that a killed command left is not a whole one.
    let fresh = copy.with_extension("new");
    tote_state::closed::write_new(&fresh, bytes).map_err(failed(fresh.clone()))?;
    if let SecretForm::File { mode, uid, gid, .. } = &request.form {
        let (uid, gid) = (*uid, *gid);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(&fresh, flags, Mode::empty())
            .and_then(|file| rustix::fs::fchmod(file, Mode::from_raw_mode(*mode)))
            .map_err(|errno| failed(fresh.clone())(errno.into()))?;
        let owner =
            owner::outside(ids, (uid, gid)).ok_or_else(|| fault(SecretFault::NoId { name, uid, gid }))?;
        owner::give(home, &fresh, owner, |path, source| failed(path)(source))?;
    }
    std::fs::rename(&fresh, copy).map_err(failed(copy.to_owned()))
}
