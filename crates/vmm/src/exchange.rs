//! Exchange of what the spare disk of a machine has, for a visitor that brings a file.
//!
//! ```text
//! visitor                    attendant                         guest                 VMM
//! ───────                    ─────────                         ─────                 ───
//! file, what to do ────────► order of the machine, what to do ─► holds the disk
//!                                        ◄──────────────────── runs
//!                            file ───────────────────────────────────────────────────► on the disk
//!                            end of the input ────────────────► does it
//!                  ◄──────── runs, output, end ◄──────────────
//! ```
//! The disk of a file that it has already is left alone, and the guest does not hold it then.

use crate::machine::Spare;
use crate::vmm::Booted;
use rustix::fd::OwnedFd;
use rustix::fs::fstat;
use tote_channel::{Event, Host, Session};
use tote_sys::chain;

/// Device, inode, and time of the last change: the file is open as long as it is on the disk, so no other one has them.
type Identity = (u64, u64, i64, u64);

/// The spare disk.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    spare: Option<Spare>,
    /// File that is on it.
    current: Option<Identity>,
    pending: Option<Pending>,
}

/// A file that is to be on it.
#[derive(Debug)]
struct Pending {
    session: Session,
    identity: Identity,
    /// The file, until the VMM has it.
    file: Option<OwnedFd>,
    /// True once the guest holds the disk.
    is_held: bool,
}

impl Exchange {
    pub(crate) fn of(spare: Option<Spare>) -> Self {
        Self {
            spare,
            ..Self::default()
        }
    }

    /// Has the guest do something with that file on the disk, in the namespaces of this process. An error is one line.
    pub(crate) fn begin(
        &mut self,
        (file, plan): (OwnedFd, &[u8]),
        joins: Session,
        host: &mut Host,
    ) -> Result<Session, String> {
        let spare = self.spare.as_ref();
        let spare = spare.ok_or("this virtual machine has no disk for tools")?;
        if self.pending.is_some() {
            return Err("another session is just bringing other tools into this virtual machine".to_owned());
        }
        let found = fstat(&file).map_err(|errno| format!("cannot look at the tools: {errno}"))?;
        let identity = (
            found.st_dev,
            found.st_ino,
            found.st_ctime as i64,
            found.st_ctime_nsec as u64,
        );
        let is_new = self.current != Some(identity);
        let order = if is_new { spare.order.as_bytes() } else { b"" };
        let begun = host.begin(&[order, plan].concat(), None, Some(joins));
        let session = begun.map_err(|error| error.to_string())?;
        if is_new {
            self.pending = Some(Pending {
                session,
                identity,
                file: Some(file),
                is_held: false,
            });
        } else {
            host.end_input(session);
        }
        Ok(session)
    }

    /// Takes what the guest says of the pending exchange; true if that is not for the visitor.
    pub(crate) fn hear(&mut self, event: &Event) -> bool {
        let Some(pending) = &mut self.pending else {
            return false;
        };
        match event {
            Event::Runs(session) if *session == pending.session => {
                pending.is_held = true;
                true
            }
            // The guest does not give the disk away, or has lost the process that holds it.
            Event::Failed(session, ..) | Event::Ended(session, _) if *session == pending.session => {
                // What the VMM has begun it finishes.
                self.pending.take_if(|pending| pending.file.is_some());
                false
            }
            _ => false,
        }
    }

    /// Has the VMM do what can be done; returns the session whose file is on the disk now, or the reason why it is not.
    pub(crate) fn advance(
        &mut self,
        booted: &mut dyn Booted,
        host: &mut Host,
    ) -> Option<(Session, Result<(), String>)> {
        let replaced = booted.replaced();
        let pending = self.pending.as_mut().filter(|pending| pending.is_held)?;
        let done = match pending.file.take() {
            Some(file) => match booted.replace(&self.spare.as_ref()?.serial, file) {
                Ok(()) => return None,
                Err(error) => Err(error),
            },
            None => replaced?,
        };
        let (session, identity) = (pending.session, pending.identity);
        self.pending = None;
        self.current = done.is_ok().then_some(identity);
        host.end_input(session);
        let done = done.map_err(|error| format!("cannot bring the tools: {}", chain(&error)));
        Some((session, done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, Plug, VmmError};
    use rustix::fd::{AsFd as _, BorrowedFd};
    use std::fs::File;
    use tote_channel::{End, Guest, Order};

    /// A VMM that notes what it is asked for.
    #[derive(Debug)]
    struct Fake {
        ended: OwnedFd,
        asked: Vec<String>,
        answer: Option<Result<(), VmmError>>,
    }

    impl Booted for Fake {
        fn control(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        fn ended(&self) -> BorrowedFd<'_> {
            self.ended.as_fd()
        }

        fn advance(&mut self) -> Result<Vec<Change>, VmmError> {
            Ok(Vec::new())
        }

        fn attach(&mut self, _: Plug) -> Result<(), VmmError> {
            Err(VmmError::Elsewhere)
        }

        fn detach(&mut self, _: &str) -> Result<(), VmmError> {
            Err(VmmError::Elsewhere)
        }

        fn replace(&mut self, serial: &str, _: OwnedFd) -> Result<(), VmmError> {
            self.asked.push(serial.to_owned());
            Ok(())
        }

        fn replaced(&mut self) -> Option<Result<(), VmmError>> {
            self.answer.take()
        }

        fn end(&mut self) -> String {
            String::new()
        }
    }

    struct Scene {
        exchange: Exchange,
        vmm: Fake,
        host: Host,
        guest: Guest,
    }

    impl Scene {
        /// A machine whose container is the first process.
        fn new() -> Self {
            let spare = Spare {
                serial: "tools".to_owned(),
                order: "hold\n".to_owned(),
            };
            let mut scene = Self {
                exchange: Exchange::of(Some(spare)),
                vmm: Fake {
                    ended: file("/dev/null"),
                    asked: Vec::new(),
                    answer: None,
                },
                host: Host::new(),
                guest: Guest::new("6.1"),
            };
            scene.hears();
            scene.host.begin(b"container", None, None).unwrap();
            scene.orders();
            scene
        }

        fn begin(&mut self, path: &str) -> Result<Session, String> {
            let brought = (file(path), &b"do"[..]);
            self.exchange.begin(brought, Session::FIRST, &mut self.host)
        }

        /// Brings a file, and has the VMM begin as soon as the guest holds the disk.
        fn held(&mut self, path: &str) -> Session {
            let session = self.begin(path).unwrap();
            self.orders();
            self.guest.runs(session.number());
            self.hears();
            self.advance();
            session
        }

        fn orders(&mut self) -> Vec<Order> {
            let bytes = std::mem::take(self.host.outgoing());
            self.guest.received(&bytes).unwrap()
        }

        /// Returns what the visitor is told of what the guest says.
        fn hears(&mut self) -> Vec<Event> {
            let bytes = std::mem::take(self.guest.outgoing());
            let mut events = self.host.received(&bytes).unwrap();
            events.retain(|event| !self.exchange.hear(event));
            events
        }

        fn advance(&mut self) -> Option<(Session, Result<(), String>)> {
            self.exchange.advance(&mut self.vmm, &mut self.host)
        }
    }

    fn file(path: &str) -> OwnedFd {
        File::open(path).unwrap().into()
    }

    fn begun(orders: &[Order]) -> (&[u8], bool) {
        match orders {
            [Order::Begin { plan, .. }] => (plan, false),
            [Order::Begin { plan, .. }, Order::InputEnd(_)] => (plan, true),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_is_brought_once() {
        let mut scene = Scene::new();
        let session = scene.begin("/dev/null").unwrap();
        assert_eq!(begun(&scene.orders()), (&b"hold\ndo"[..], false));
        assert!(
            scene.advance().is_none() && scene.vmm.asked.is_empty(),
            "the guest has the disk"
        );
        let again = scene.begin("/dev/null").unwrap_err();
        assert!(again.contains("another session"), "{again}");
        scene.guest.runs(session.number());
        assert!(scene.hears().is_empty(), "the visitor is told later");
        assert!(scene.advance().is_none());
        assert_eq!(scene.vmm.asked, ["tools"]);
        assert!(
            scene.advance().is_none() && scene.orders().is_empty(),
            "the VMM is not ready"
        );
        scene.vmm.answer = Some(Ok(()));
        assert_eq!(scene.advance(), Some((session, Ok(()))));
        assert_eq!(scene.orders(), [Order::InputEnd(session.number())]);
        // It is there already.
        scene.begin("/dev/null").unwrap();
        assert_eq!(begun(&scene.orders()), (&b"do"[..], true));
        assert_eq!(scene.vmm.asked.len(), 1);
        scene.begin("/dev/zero").unwrap();
        assert_eq!(begun(&scene.orders()).0, b"hold\ndo");
    }

    #[test]
    fn a_disk_in_use_stays_as_it_is() {
        let mut scene = Scene::new();
        let session = scene.begin("/dev/null").unwrap();
        scene.orders();
        scene.guest.failed(session.number(), 126, "in use");
        assert_eq!(scene.hears(), [Event::Failed(session, 126, "in use".to_owned())]);
        assert!(scene.advance().is_none() && scene.vmm.asked.is_empty());
        scene.begin("/dev/null").unwrap();
        assert_eq!(begun(&scene.orders()).0, b"hold\ndo");
        assert!(
            Exchange::of(None)
                .begin((file("/dev/null"), b""), Session::FIRST, &mut Host::new())
                .is_err()
        );
    }

    #[test]
    fn a_file_that_the_vmm_refuses_is_brought_anew() {
        let mut scene = Scene::new();
        let session = scene.held("/dev/null");
        scene.vmm.answer = Some(Err(VmmError::Qmp("no".to_owned())));
        let (_, done) = scene.advance().unwrap();
        assert!(done.unwrap_err().contains("cannot bring the tools"));
        assert_eq!(scene.orders(), [Order::InputEnd(session.number())]);
        scene.begin("/dev/null").unwrap();
        assert_eq!(begun(&scene.orders()).0, b"hold\ndo");
    }

    #[test]
    fn a_guest_that_ends_its_process_meanwhile_is_no_matter() {
        let mut scene = Scene::new();
        let session = scene.held("/dev/null");
        scene.guest.ended(session.number(), End::Code(0));
        assert_eq!(scene.hears().len(), 1);
        assert!(
            scene.begin("/dev/zero").is_err(),
            "the VMM does one after another"
        );
        scene.vmm.answer = Some(Ok(()));
        assert!(scene.advance().is_some() && scene.orders().is_empty());
        scene.begin("/dev/zero").unwrap();
        assert_eq!(begun(&scene.orders()).0, b"hold\ndo");
    }
}
