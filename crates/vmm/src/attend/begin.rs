//! The begin of the process whose streams the attendant has.

use super::{Attendant, Verdict};
use crate::VmmError;

impl Attendant<'_> {
    /// Sends the plan of a process without a terminal before the other attendant has greeted: a plan says in which form it is.
    pub(crate) fn begin_at_once(&mut self, plan: &[u8]) -> Result<(), VmmError> {
        if self.streams.size().is_none() {
            self.begin_container(plan)?;
            self.write_channel();
        }
        Ok(())
    }

    /// Begins the container with the plan that is there now; returns the verdict of a machine that is not wanted.
    pub(super) fn take_plan(&mut self) -> Result<Option<Verdict>, VmmError> {
        let Some(bringer) = &mut self.bringer else {
            return Ok(None);
        };
        match bringer.bring()? {
            Some(plan) => self.begin_container(&plan).map(|()| None),
            None => Ok(Some(Verdict::code(0))),
        }
    }

    pub(super) fn begin_container(&mut self, plan: &[u8]) -> Result<(), VmmError> {
        let terminal = self.streams.size();
        if terminal.is_some() {
            self.streams.make_raw()?;
        }
        self.session = Some(self.host.begin(plan, terminal, self.joins)?);
        Ok(())
    }
}
