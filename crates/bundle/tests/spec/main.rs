//! Options, image and host to whole specifications.

#![expect(
    clippy::unwrap_used,
    reason = "the lint spares only functions marked as tests, not what they call"
)]

mod limits;
mod mounts;
mod process;
mod sandbox;
mod snapshots;

use std::collections::BTreeMap;
use tote_bundle::{ContainerId, Context, HostDevice, ImageConfig, ResolvedUser, RunOptions, SpecError, spec};
use tote_spec::{DeviceType, IdMapping, Spec};

/// A container to be, with everything of the host that a test may change.
struct Case {
    options: RunOptions,
    image: ImageConfig,
    user: ResolvedUser,
    id: ContainerId,
    volumes: BTreeMap<String, String>,
    devices: Vec<HostDevice>,
    environment: BTreeMap<String, String>,
    mappings: Vec<IdMapping>,
    masked_paths: Vec<String>,
}

impl Case {
    fn new(options: &[(&str, &str)]) -> Self {
        let mut case = Self {
            options: RunOptions::default(),
            image: ImageConfig::bare(),
            user: ResolvedUser {
                home: "/root".to_owned(),
                ..ResolvedUser::default()
            },
            id: ContainerId::from_bytes([0x1f; 32]),
            volumes: BTreeMap::new(),
            devices: Vec::new(),
            environment: BTreeMap::new(),
            mappings: Vec::new(),
            masked_paths: Vec::new(),
        };
        for (name, value) in options {
            case.options.set(name, value).unwrap();
        }
        case
    }

    fn with_char_device(mut self, path: &str, major: i64, minor: i64) -> Self {
        self.devices.push(HostDevice {
            path: path.to_owned(),
            kind: DeviceType::Char,
            major,
            minor,
            mode: 0o20666,
            uid: 0,
            gid: 0,
        });
        self
    }

    fn rootless(mut self, size: u32) -> Self {
        self.mappings = vec![IdMapping {
            container_id: 0,
            host_id: 1000,
            size,
        }];
        self
    }

    fn try_with(&self, change: impl FnOnce(&mut Context<'_>)) -> Result<Spec, SpecError> {
        let lookup = |name: &str| self.environment.get(name).cloned();
        let mut context = Context::new(&self.id, "/rootfs", &self.user, &lookup);
        context.volumes = &self.volumes;
        context.devices = &self.devices;
        context.rootless = !self.mappings.is_empty();
        context.uid_mappings = &self.mappings;
        context.gid_mappings = &self.mappings;
        context.setgroups = self.mappings.first().is_none_or(|mapping| mapping.size > 1);
        context.masked_paths = &self.masked_paths;
        change(&mut context);
        spec(&self.options, &self.image, &context)
    }

    fn spec(&self) -> Spec {
        self.try_with(|_| {}).unwrap()
    }

    fn error(&self) -> SpecError {
        self.try_with(|_| {}).unwrap_err()
    }
}
