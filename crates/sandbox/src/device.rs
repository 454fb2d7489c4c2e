//! What is in `/dev`.

use crate::error::PlanError;
use crate::plan::{Builder, DeviceNodes, cstring};
use tote_spec::DeviceType;
use tote_sys::{Attributes, CloneSource, Make, Op, Source};

/// The devices that every container has: name, major, minor.
const DEFAULT: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

/// The links that every container has.
const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "dev/fd"),
    ("/proc/self/fd/0", "dev/stdin"),
    ("/proc/self/fd/1", "dev/stdout"),
    ("/proc/self/fd/2", "dev/stderr"),
    ("pts/ptmx", "dev/ptmx"),
];

impl Builder<'_> {
    /// Nodes and links, once `/dev` is mounted.
    pub(crate) fn devices(&mut self) -> Result<(), PlanError> {
        for (name, major, minor) in DEFAULT {
            match self.request.facts.device_nodes {
                DeviceNodes::Bound => self.bound(&format!("/dev/{name}"), &format!("/dev/{name}"))?,
                DeviceNodes::Made => {
                    let path = cstring("path", &format!("dev/{name}"))?;
                    self.push(Op::Device {
                        path,
                        mode: S_IFCHR | 0o666,
                        major,
                        minor,
                        owner: (0, 0),
                    });
                }
            }
        }
        for (text, path) in LINKS {
            self.push(Op::Symlink {
                text: cstring("link", text)?,
                path: cstring("path", path)?,
            });
        }
        let Some(linux) = &self.request.spec.linux else {
            return Ok(());
        };
        for device in &linux.devices {
            match self.request.facts.device_nodes {
                DeviceNodes::Bound => {
                    let host = self
                        .request
                        .device_sources
                        .get(&device.path)
                        .map_or(&device.path, |host| host);
                    self.bound(&host.clone(), &device.path)?;
                }
                DeviceNodes::Made => self.made(device)?,
            }
        }
        Ok(())
    }

    fn bound(&mut self, host: &str, inside: &str) -> Result<(), PlanError> {
        let path = cstring("linux.devices.path", host)?;
        let source = Source::Clone(CloneSource {
            path,
            recursive: false,
            idmap: false,
        });
        let target = self.inside(inside, Make::File)?;
        self.mount(source, target, Attributes::NONE);
        Ok(())
    }

    fn made(&mut self, device: &tote_spec::Device) -> Result<(), PlanError> {
        let kind = match device.kind {
            DeviceType::Block => S_IFBLK,
            DeviceType::Char | DeviceType::Unbuffered => S_IFCHR,
            DeviceType::Fifo => S_IFIFO,
        };
        let number = |what: &'static str, value: i64| {
            u32::try_from(value).map_err(|_| PlanError::Value {
                property: what,
                value: value.to_string(),
                expected: "a device number",
            })
        };
        self.push(Op::Device {
            path: cstring("linux.devices.path", device.path.trim_start_matches('/'))?,
            mode: kind | (device.file_mode.unwrap_or(0o666) & 0o7777),
            major: number("linux.devices.major", device.major)?,
            minor: number("linux.devices.minor", device.minor)?,
            owner: (device.uid.unwrap_or(0), device.gid.unwrap_or(0)),
        });
        Ok(())
    }
}

const S_IFIFO: u32 = 0o010_000;
const S_IFCHR: u32 = 0o020_000;
const S_IFBLK: u32 = 0o060_000;
