//! Copies to and from a container that is in a virtual machine, which its guest does.

use super::ask::ask;
use super::still::StillMachine;
use crate::changes::ContainerError;
use crate::container::{Entry, keep_still};
use crate::exec::{Conversation, Target, refuse_paused};
use crate::{EngineError, Home};

/// Has the guest copy what `asked` says; with `writes` it gets an archive. For a stopped container a machine begins, which the caller ends,
/// unless one that the caller has is this container's.
pub fn copying(
    home: &Home,
    entry: &Entry,
    (asked, writes): (&[u8], bool),
    machine: Option<&StillMachine>,
) -> Result<(Conversation, Option<StillMachine>), EngineError> {
    let order = [tote_guest::AT_ROOT, asked].concat();
    if let Some(machine) = machine.filter(|machine| machine.is_of(&entry.container.id)) {
        return Ok((machine.ask(&order, writes)?, None));
    }
    match keep_still(home, entry)? {
        None => {
            let entry = crate::container::find(home, entry.container.id.as_str())?;
            let target = Target::of(home, entry)?;
            refuse_paused(&target)?;
            Ok((ask(&target, &order, writes)?, None))
        }
        Some(still) => {
            if !entry.kept || entry.container.rm {
                return Err(ContainerError::InMemory(entry.container.id.short().to_owned()).into());
            }
            let machine = StillMachine::boot(home, still)?;
            Ok((machine.ask(&order, writes)?, Some(machine)))
        }
    }
}
