//! A machine that goes on from a template, until it has said that it is up.

use crate::VmmError;
use crate::machine::{Begin, Machine};
use crate::vmm::{Booted, Vmm, Wires};
use std::os::unix::net::UnixStream;
use std::time::{SystemTime, UNIX_EPOCH};
use tote_channel::{Host, SEED, Wake};
use tote_sys::Errno;

/// A machine that has begun: the attendant's ends of channel and console, and the machine.
pub(crate) type Begun = (UnixStream, UnixStream, Box<dyn Booted>);

/// A machine that goes on from a template.
#[derive(Debug)]
pub(crate) struct Sleeper {
    machine: Machine,
    is_woken: bool,
}

impl Sleeper {
    /// Begins a machine, which is a sleeper only as long as it goes on from a template.
    pub(crate) fn begin(
        vmm: &dyn Vmm,
        machine: &Machine,
        shares: Option<UnixStream>,
        warn: &mut dyn FnMut(String),
    ) -> Result<(Option<Self>, Begun), VmmError> {
        let sleeper = matches!(machine.begin, Begin::Resume(_)).then(|| Self {
            machine: machine.clone(),
            is_woken: false,
        });
        match (boot(vmm, machine, shares), sleeper) {
            (Err(error), Some(sleeper)) => {
                let (warning, begun) = sleeper.boot_instead(vmm, &error)?;
                warn(warning);
                Ok((None, begun))
            }
            (begun, sleeper) => Ok((sleeper, begun?)),
        }
    }

    /// Boots the machine, because it does not go on: a template saves time, and nothing depends on it. Returns a warning, for when the
    /// boot has got further than that.
    pub(crate) fn boot_instead(self, vmm: &dyn Vmm, error: &VmmError) -> Result<(String, Begun), VmmError> {
        let warning = format!(
            "the virtual machine boots, because it does not go on from its template: {}",
            tote_sys::chain(error)
        );
        let machine = Machine {
            begin: Begin::Boot,
            ..self.machine
        };
        Ok((warning, boot(vmm, &machine, None)?))
    }

    /// Tells the guest, once, how it differs from the others that go on from the same template.
    pub(crate) fn wake(&mut self, host: &mut Host) -> Result<(), VmmError> {
        if std::mem::replace(&mut self.is_woken, true) {
            return Ok(());
        }
        let mut seed = [0; SEED];
        let drawn = rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty());
        if drawn.map_err(VmmError::kernel("draw random numbers"))? != SEED {
            return Err(VmmError::kernel("draw random numbers")(Errno::IO));
        }
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let count = |length| u8::try_from(length).unwrap_or(u8::MAX);
        host.wake(&Wake {
            time: u64::try_from(time.as_nanos()).unwrap_or_default(),
            disks: count(self.machine.disks.len().saturating_sub(1)),
            links: count(self.machine.links.len()),
            seed,
        });
        Ok(())
    }
}

fn boot(vmm: &dyn Vmm, machine: &Machine, shares: Option<UnixStream>) -> Result<Begun, VmmError> {
    let (wires, channel, console) = Wires::pairs()?;
    let booted = vmm.boot(machine, Wires { shares, ..wires })?;
    Ok((channel, console, booted))
}
