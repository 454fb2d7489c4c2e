//! What becomes of a pod when its last container ends.

use super::{Pod, find};
use crate::Home;
use crate::container::{Claim, Container, Entry, Status};
use rustix::process::{Signal, pidfd_send_signal};
use tote_state::events::append;
use tote_state::process;
use tote_sys::best_effort;

/// A member has ended for now, which its record says: where it was the last one, and the pod is to stop then, its infra
/// container is asked to end. Nobody waits for that.
pub(crate) fn member_ended(home: &Home, member: &Container) {
    if member.is_infra() {
        return;
    }
    let id = member.pod.as_ref().and_then(|pod| pod.parse().ok());
    let pod = id.and_then(|id| Pod::read(home, &id).ok().flatten());
    let Some(pod) = pod.filter(|pod| pod.stops) else {
        return;
    };
    // Whoever may be another member that runs keeps the pod alive.
    let Ok(members) = find::members_whole(home, &pod.id) else {
        return;
    };
    // Of two that end at once the one that gives back its claim later sees the other's end.
    let lives = |entry: &Entry| {
        let lives = matches!(entry.state.status, Status::Running | Status::Restarting);
        lives || Claim::is_held(home, &entry.container.id)
    };
    let mut others = members.iter().filter(|entry| !entry.container.is_infra());
    if others.any(|entry| entry.container.id != member.id && lives(entry)) {
        return;
    }
    let infra = members.iter().find(|entry| entry.container.is_infra());
    let process = infra
        .filter(|infra| infra.state.runs())
        .and_then(|infra| infra.state.process);
    if let Some(infra) = process.and_then(|process| process::open(process.pid, process.start_time)) {
        best_effort(pidfd_send_signal(infra, Signal::TERM));
        append(home, &[pod.event("stop")]);
    }
}
