//! Orders to a guest by a copy of this process, which speaks to the attendant itself: no process joins the sandbox for that, and this one stays
//! in the caller's namespaces.

use super::enter::way;
use crate::EngineError;
use crate::exec::{Conversation, Target, converse_apart};
use std::io::Write as _;
use tote_sys::best_effort;
use tote_vmm::Streams;

/// Has the guest do what the order says, in the container of this target; with `input` it gets some. It ends with this process.
pub(crate) fn ask(target: &Target, order: &[u8], input: bool) -> Result<Conversation, EngineError> {
    let (socket, name) = way(target)?;
    converse_apart(input, move || {
        let verdict = Streams::own().map(|mut streams| {
            // It may wait for the end of a commit before.
            streams.patience = tote_sys::WORK_LOCK;
            // The guest has nothing to warn of.
            tote_vmm::visit_by((socket, &name), order, streams, (&mut || {}, &mut |_| {}))
        });
        let (code, message) = match verdict {
            Ok(verdict) => (verdict.code, verdict.message),
            Err(error) => (125, Some(tote_sys::chain(&error))),
        };
        // A reader that has gone needs no reason.
        best_effort(std::io::stderr().write_all(message.unwrap_or_default().as_bytes()));
        code
    })
}
