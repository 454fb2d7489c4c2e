//! Sweep of the remains of killed commands and killed monitors.

use super::claim::Claim;
use super::entry::REMOVING;
use super::name;
use super::record::Container;
use super::removing::{FORCED, takes_volumes};
use super::stamp::Stamp;
use super::state::{State, Status};
use super::{Entry, open, stopped};
use crate::{EngineError, Home};
use tote_bundle::ContainerId;
use tote_state::StateError;
use tote_state::events::append;
use tote_state::record::now;
use tote_state::record::{RecordError, is_there};

/// Clears the remains of killed commands and monitors: a free claim names each container. Returns the ids of the
/// repaired ones.
pub fn sweep(home: &Home) -> Vec<ContainerId> {
    let (mut mended, mut has_network) = (Vec::new(), false);
    // absence: the next command looks again
    for entry in std::fs::read_dir(home.live()).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let Some(file) = file.to_str() else { continue };
        if let Some(renamed) = file.strip_suffix(name::RENAMING).and_then(|id| id.parse().ok()) {
            name::end_rename(home, &renamed);
        }
        if let Some(connected) = file
            .strip_suffix(crate::network::CONNECTING)
            .and_then(|id| id.parse().ok())
        {
            crate::network::end_connection(home, &connected);
        }
        if let Some(removed) = file.strip_suffix(FORCED).and_then(|id| id.parse().ok()) {
            super::remove::go_on(home, &removed);
        }
        if let Some(mounted) = tote_records::mounted::container_of(file) {
            tote_records::mounted::sweep(home, &mounted);
        }
        if let Some(ended) = super::foreground::container_of(file) {
            super::foreground::sweep(home, &ended);
        }
        if let Some(network) = file.strip_suffix(crate::network::UP) {
            crate::network::sweep(home, network);
            has_network = true;
        }
        let Ok(id) = file.parse::<ContainerId>() else {
            continue;
        };
        if let Some(claim) = Claim::abandoned(home, &id) {
            // absence: the file of the claim goes, and the state still says that the container is due
            let is_due = || matches!(open(home, &id), Ok(Some(entry)) if is_due_again(home, &entry));
            // The file of one that is to be started again stays, unheld, until a command starts it.
            if mend(home, &id, &claim) && !is_due() {
                claim.release();
            }
            mended.push(id);
        }
    }
    if has_network {
        crate::network::repair(home);
    }
    mended
}

/// Whether the container's monitor was killed, and its restart policy demands another start.
pub(crate) fn is_due_again(home: &Home, entry: &Entry) -> bool {
    let (container, state) = (&entry.container, &entry.state);
    let policy = container
        .run_options()
        .map(|options| options.restart)
        .unwrap_or_default();
    let killed = entry.kept && state.status == Status::Exited && state.error == super::state::UNWATCHED;
    let stopped = stopped::is_stopped(home, &container.id);
    killed && !stopped && super::restart::is_due(policy, state.exit_code, state.restart_count)
}

/// Repairs one container, whose free claim the caller has just taken. The steps are independent: a failed one is
/// tried again when its claim is found once more, and a repetition does no harm. Returns true if all succeeded.
///
/// A container with unreadable records is left alone: `ps -a` shows it, and `rm` removes it on request.
pub(crate) fn mend(home: &Home, id: &ContainerId, claim: &Claim) -> bool {
    let container = match Container::read(home, id) {
        Ok(Some(container)) => container,
        Ok(None) => return clear(home, id, None, claim),
        Err(_) => return false,
    };
    let marked = is_there(&home.container(id).join(REMOVING));
    let (Ok(mut state), Ok(marked)) = (State::read(home, id), marked) else {
        return false;
    };
    let cgroup = state.cgroup.take();
    let mut cleared = crate::cgroup::clear(id, cgroup.as_deref()).is_ok();
    if let Some(process) = state.process {
        tote_state::process::kill(process.pid, process.start_time);
    }
    cleared &= crate::network::forget(home, id).is_ok();
    if marked {
        return clear(home, id, Some(&container), claim);
    }
    if !cleared {
        state.cgroup.clone_from(&cgroup);
    }
    if state.correct(false, Stamp::of(home, id)) {
        let unwatched = !state.error.is_empty();
        if unwatched {
            state.finished_at = now();
        }
        if state.write(home, id).is_err() {
            return false;
        }
        Stamp::forget_end(home, id);
        if unwatched {
            let died = container.event("die").with("exitCode", state.exit_code);
            append(home, &[died]);
        }
        crate::pod::member_ended(home, &container);
        if container.rm {
            return clear(home, id, Some(&container), claim);
        }
    } else if cgroup.is_some() {
        // The cgroup was recorded, but not used.
        return state.write(home, id).is_ok() && cleared;
    }
    cleared
}

/// Removes all parts that the id names, of a container that should not stay, or was incomplete.
fn clear(home: &Home, id: &ContainerId, container: Option<&Container>, claim: &Claim) -> bool {
    let noted = claim.noted();
    let (state, name) = match &noted {
        Some(entry) => (entry.state.clone(), entry.container.name.clone()),
        None => {
            let state = match State::read(home, id) {
                // A state that a power cut has emptied names no cgroup any more.
                Err(EngineError::State(StateError::Record(RecordError::Damaged { .. }))) => State::default(),
                Err(_) => return false,
                Ok(state) => state,
            };
            let name = container.map_or_else(String::new, |container| container.name.clone());
            (state, name)
        }
    };
    let mut cleared = crate::cgroup::clear(id, state.cgroup.as_deref()).is_ok();
    if let Some(process) = state.process {
        tote_state::process::kill(process.pid, process.start_time);
    }
    if !cleared && state.cgroup.is_some() {
        // Only the record has the path of the cgroup.
        return false;
    }
    super::foreground::deafen(home, id);
    cleared &= crate::network::forget(home, id).is_ok();
    cleared &= if name.is_empty() {
        name::release_any(home, id)
    } else {
        name::release(home, &name, id)
    };
    let promised = claim.promised_volumes();
    if promised.is_some() {
        // Half made or half removed volumes are not recorded as the container's.
        crate::volume::sweep(home);
    }
    // While there is a record, the mark decides; the claim's text may come from the container's creation.
    let Ok(takes_volumes) = takes_volumes(home, id) else {
        return false;
    };
    let unnamed = match (container, promised) {
        (Some(container), _) if takes_volumes => crate::volume::unnamed_of(home, container),
        (None, Some(names)) => crate::volume::given_to(home, id).map(|given| [given, names].concat()),
        _ => Ok(Vec::new()),
    };
    let (Ok(adopted), Ok(unnamed)) = (crate::volume::adopted(home, id), unnamed) else {
        return false;
    };
    let volumes = [adopted, unnamed].concat();
    claim.note_volumes((!volumes.is_empty()).then_some(&volumes));
    crate::tree::remove(home, id).is_ok() && crate::volume::remove_unused(home, &volumes).is_ok() && cleared
}

#[cfg(test)]
mod tests {
    use super::super::tests::{container, id};
    use super::super::{list, list_whole, open};
    use super::*;

    #[test]
    fn what_cannot_be_read_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let container = container(&home, 0x31, "web");
        drop(Claim::take(&home, &id(0x31)).unwrap());
        for name in ["container.json", "state.json"] {
            let record = home.container(&container.id).join(name);
            let text = std::fs::read(&record).unwrap();
            std::fs::write(&record, "").unwrap();
            sweep(&home);
            assert!(record.try_exists().unwrap(), "{name}");
            assert!(
                home.live().join(container.id.as_str()).try_exists().unwrap(),
                "{name}"
            );
            let entry = open(&home, &container.id).unwrap().unwrap();
            assert!(entry.state.error.contains(name), "{}", entry.state.error);
            assert_eq!(list(&home).unwrap().len(), 1);
            assert_eq!(list_whole(&home).is_err(), name == "container.json");
            std::fs::write(&record, text).unwrap();
        }
        sweep(&home);
        assert!(open(&home, &container.id).unwrap().unwrap().lost.is_none());
        // A container without a record was never complete.
        std::fs::remove_file(home.container(&container.id).join("container.json")).unwrap();
        drop(Claim::take(&home, &id(0x31)).unwrap());
        sweep(&home);
        assert!(!home.container(&container.id).try_exists().unwrap());
    }

    #[test]
    fn what_a_failed_removal_left_goes() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let socket = home.live().join(format!("{}.socket", id(0x32)));
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        sweep(&home);
        assert!(socket.try_exists().unwrap(), "somebody listens");
        drop(listener);
        let claim = Claim::take(&home, &id(0x32)).unwrap().unwrap();
        sweep(&home);
        assert!(socket.try_exists().unwrap(), "somebody has the claim");
        claim.release();
        sweep(&home);
        assert!(!socket.try_exists().unwrap());
        // A volume in the making for a container that never existed.
        let half = home.volumes().join(".making-1");
        std::fs::create_dir_all(half.join("_data")).unwrap();
        drop(Claim::take(&home, &id(0x33)).unwrap());
        sweep(&home);
        assert!(half.try_exists().unwrap(), "nobody has promised any volume");
        drop(Claim::take(&home, &id(0x33)).unwrap());
        Claim::promise_volumes(&home, &id(0x33)).unwrap();
        sweep(&home);
        assert!(!half.try_exists().unwrap());
    }

    #[test]
    fn a_cgroup_that_cannot_be_opened_is_not_gone() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let container = container(&home, 0x35, "web");
        let claimed = home.live().join(container.id.as_str());
        // open(2) of a file as a directory fails, as that of a directory may with EMFILE or EINTR.
        let group = dir.path().join("group");
        let record = format!("v1 0 memory {}\n", group.display());
        for marked in [false, true] {
            std::fs::write(&group, "").unwrap();
            let state = State {
                cgroup: Some(record.clone()),
                ..State::default()
            };
            state.write(&home, &container.id).unwrap();
            drop(Claim::take(&home, &container.id).unwrap());
            if marked {
                std::fs::write(home.container(&container.id).join(REMOVING), "").unwrap();
            }
            sweep(&home);
            assert!(claimed.try_exists().unwrap(), "marked: {marked}");
            assert_eq!(State::read(&home, &container.id).unwrap().cgroup, state.cgroup);
            std::fs::remove_file(&group).unwrap();
            sweep(&home);
            assert!(!claimed.try_exists().unwrap(), "marked: {marked}");
            assert_eq!(home.container(&container.id).try_exists().unwrap(), !marked);
        }
    }

    #[test]
    fn a_claim_names_the_volumes_that_go() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let claim = Claim::take(&home, &id(0x36)).unwrap().unwrap();
        assert_eq!(claim.promised_volumes(), None);
        let others = ["inherited".to_owned(), "another".to_owned()];
        for name in &others {
            std::fs::create_dir_all(home.volumes().join(name).join("_data")).unwrap();
        }
        claim.note_volumes(Some(&others[..1].to_vec()));
        assert_eq!(claim.promised_volumes().as_deref(), Some(&others[..1]));
        assert!(open(&home, &id(0x36)).unwrap().is_none(), "it is no container");
        drop(claim);
        sweep(&home);
        assert!(!home.live().join(id(0x36).as_str()).try_exists().unwrap());
        assert!(!home.volumes().join("inherited").try_exists().unwrap());
        assert!(home.volumes().join("another").try_exists().unwrap());
    }

    #[test]
    fn a_claim_is_kept_for_what_stays() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let claimed = home.live().join(id(0x34).as_str());
        let aside = home.root().join("aside");
        let discard = || {
            let claim = Claim::take(&home, &id(0x34)).unwrap().unwrap();
            super::super::discard(&home, &id(0x34), "web", (claim, false));
        };
        // The container of an unreadable name is unknown.
        std::fs::rename(home.names(), &aside).unwrap();
        std::fs::write(home.names(), "").unwrap();
        discard();
        assert!(claimed.try_exists().unwrap());
        std::fs::remove_file(home.names()).unwrap();
        std::fs::rename(&aside, home.names()).unwrap();
        sweep(&home);
        assert!(!claimed.try_exists().unwrap());
        discard();
        assert!(!claimed.try_exists().unwrap());
    }
}
