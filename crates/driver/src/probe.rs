//! Drivers that work on this machine, and the reasons why others do not.

use crate::{Driver, look, program};
use rustix::fd::AsFd as _;
use rustix::fs::{CWD, Mode, OFlags};
use std::path::Path;
use tote_sys::Quotas;

/// Result for a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Name of the driver; some of these names are not a [`Driver`]'s.
    pub name: &'static str,
    /// Success if the driver works here, or the reason why not.
    pub usable: Result<(), String>,
    /// Further remark about the driver on this machine.
    pub more: Option<&'static str>,
}

/// Examines the machine and the state root; `privileged` is true if the caller is root of the machine. Creates and
/// mounts nothing.
#[must_use]
pub fn probe(root: &Path, privileged: bool) -> Vec<Probe> {
    // absence: a text for people, which names the driver as missing
    let file_systems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let machine = Machine {
        root,
        privileged,
        file_systems: &file_systems,
    };
    let ours = Driver::ALL.into_iter().map(|driver| Probe {
        name: driver.name(),
        usable: machine.driver(driver),
        more: (driver == Driver::Btrfs).then(|| machine.quotas()).flatten(),
    });
    let others = ["devicemapper", "lvm", "zfs", "aufs"].map(|name| Probe {
        name,
        usable: Err(machine.other(name)),
        more: None,
    });
    ours.chain(others).collect()
}

struct Machine<'a> {
    root: &'a Path,
    privileged: bool,
    file_systems: &'a str,
}

/// True if the caller can see the path.
fn seen(path: &str) -> bool {
    // absence: a text for people, which names the driver as missing
    Path::new(path).try_exists().unwrap_or(false)
}

impl Machine<'_> {
    fn driver(&self, driver: Driver) -> Result<(), String> {
        if driver.needs_root() && !self.privileged {
            return Err("only for root of the machine".to_owned());
        }
        match driver {
            Driver::Split | Driver::Copy => Ok(()),
            Driver::Btrfs if self.sharing() == Some("btrfs") => Ok(()),
            Driver::Btrfs => Err("the state root is not on btrfs".to_owned()),
            Driver::Loop | Driver::LoopXfs if !seen("/dev/loop-control") => {
                Err("no /dev/loop-control: load the module loop".to_owned())
            }
            Driver::Loop => installed("mkfs.ext4", "e2fsprogs"),
            Driver::LoopXfs => self.has("xfs").and_then(|()| installed("mkfs.xfs", "xfsprogs")),
            Driver::Erofs => self
                .has("erofs")
                .and_then(|()| installed("mkfs.erofs", "erofs-utils")),
            Driver::Overlay => self.has("overlay"),
            Driver::Reflink => match self.sharing() {
                Some(_) => Ok(()),
                None => Err(
                    "the state root's file system cannot share content between files (btrfs and xfs can): \
                     files would be copied"
                        .to_owned(),
                ),
            },
        }
    }

    fn has(&self, file_system: &str) -> Result<(), String> {
        if has_file_system(self.file_systems, file_system) {
            Ok(())
        } else {
            Err(format!("not in /proc/filesystems: load the module {file_system}"))
        }
    }

    fn sharing(&self) -> Option<&'static str> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // absence: a text for people, without a remark
        let root = rustix::fs::openat(CWD, self.root, flags, Mode::empty()).ok()?;
        look::sharing_file_system(root)
    }

    fn quotas(&self) -> Option<&'static str> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // absence: a text for people, without a remark
        let root = rustix::fs::openat(CWD, self.root, flags, Mode::empty()).ok()?;
        Some(match tote_sys::quotas(root.as_fd()).ok()? {
            Quotas::On => "with --disk-size, by quotas",
            Quotas::Off => "without --disk-size: quotas are not enabled",
            Quotas::Inconsistent => "without --disk-size: the quotas are inconsistent",
        })
    }

    /// Returns the reason for a driver of other engines, which tote does not have: it could not be tested.
    fn other(&self, name: &str) -> String {
        let device_mapper = || seen("/dev/mapper/control");
        match name {
            "devicemapper" | "lvm" if !device_mapper() => {
                "this kernel has no device mapper (no /dev/mapper/control)".to_owned()
            }
            "zfs" | "aufs" if !has_file_system(self.file_systems, name) => {
                let why = if name == "aufs" {
                    ", and was never part of Linux"
                } else {
                    ""
                };
                format!("not in /proc/filesystems{why}")
            }
            _ => "the kernel has it, tote has no driver for it".to_owned(),
        }
    }
}

fn installed(program: &str, package: &str) -> Result<(), String> {
    match program::find(program) {
        Some(_) => Ok(()),
        None => Err(format!("{program} is not installed: install {package}")),
    }
}

/// True if a text like `/proc/filesystems` lists a file system.
fn has_file_system(text: &str, name: &str) -> bool {
    text.lines()
        .any(|line| line.split('\t').next_back() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::{has_file_system, probe};

    #[test]
    fn file_systems_are_whole_words() {
        let text = "nodev\tsysfs\n\text4\nnodev\toverlay\n";
        assert!(has_file_system(text, "ext4") && has_file_system(text, "overlay"));
        assert!(!has_file_system(text, "ext") && !has_file_system(text, "nodev"));
    }

    #[test]
    fn every_driver_is_told_of() {
        let temp = tempfile::tempdir().unwrap();
        let probes = probe(temp.path(), false);
        let names: Vec<_> = probes.iter().map(|probe| probe.name).collect();
        for name in [
            "overlay",
            "split",
            "copy",
            "reflink",
            "devicemapper",
            "lvm",
            "zfs",
            "aufs",
        ] {
            assert!(names.contains(&name), "{name} is not told of");
        }
        assert!(
            probes
                .iter()
                .any(|probe| probe.name == "copy" && probe.usable.is_ok())
        );
    }
}
