//! `Mounts`: binds, volumes and memory.

use super::Subject;
use serde_json::{Value, json};
use tote_bundle::{MountRequest, MountSource, volumes_of};

impl Subject<'_> {
    /// Mounts of the options, then volumes of the image. Mounts of `--tmpfs` stand elsewhere, as docker has it.
    pub(super) fn mounts(&self) -> Vec<Value> {
        let tmpfs = self.tmpfs();
        let is_tmpfs = |request: &&MountRequest| {
            matches!(request.source, MountSource::Tmpfs(_)) && tmpfs.get(&request.destination).is_some()
        };
        let requests = self.options.mounts.iter().filter(|request| !is_tmpfs(request));
        let mut mounts: Vec<Value> = requests.map(|request| self.mount(request)).collect();
        let implied = volumes_of(&self.options, &self.image);
        let asked = |destination: &str| {
            let mut requests = self.options.mounts.iter();
            requests.any(|request| request.destination == destination)
        };
        let implied = implied.into_iter().filter(|(destination, _)| !asked(destination));
        mounts.extend(implied.map(|(destination, _)| self.volume(None, &destination, true)));
        mounts
    }

    fn mount(&self, request: &MountRequest) -> Value {
        let destination = &request.destination;
        match &request.source {
            MountSource::Bind(bind) => json!({
                "Type": "bind",
                "Source": bind.path,
                "Destination": destination,
                "Mode": mode(request.readonly),
                "RW": !request.readonly,
                "Propagation": bind.propagation.as_str(),
            }),
            MountSource::Volume(volume) => {
                self.volume(volume.name.as_deref(), destination, !request.readonly)
            }
            MountSource::Image(image) => json!({
                "Type": "image",
                "Source": image,
                "Destination": destination,
                "Mode": mode(request.readonly),
                "RW": !request.readonly,
                "Propagation": "",
            }),
            MountSource::Tmpfs(options) => json!({
                "Type": "tmpfs",
                "Source": "",
                "Destination": destination,
                "Mode": options.join(","),
                "RW": !options.iter().any(|option| option == "ro"),
                "Propagation": "",
            }),
        }
    }

    fn volume(&self, name: Option<&str>, destination: &str, writable: bool) -> Value {
        let container = &self.entry.container;
        let directory = crate::volume::directory(self.home, &container.id, container.rm, name, destination);
        let anonymous = || crate::volume::anonymous_name(&container.id, destination);
        json!({
            "Type": "volume",
            "Name": name.map_or_else(anonymous, ToOwned::to_owned),
            "Source": directory.display().to_string(),
            "Destination": destination,
            "Driver": "local",
            "Mode": mode(!writable),
            "RW": writable,
            "Propagation": "",
        })
    }
}

/// docker's: what stands behind the second colon of `-v`.
fn mode(readonly: bool) -> &'static str {
    if readonly { "ro" } else { "" }
}
