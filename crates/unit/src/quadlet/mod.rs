//! Files that describe a container, a volume, a network or a pod, in the syntax of podman's quadlets, and the services made from
//! them.

mod container;
mod file;
mod install;
mod keys;
mod network;
mod pod;
mod volume;

pub use file::{Kind, Quadlet, QuadletError, Surroundings, Unused};
pub use install::Installed;

use crate::syntax::UnitFile;
use crate::words::quote;
use file::{truth, words};

/// Service made from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// File name, `NAME.service`.
    pub name: String,
    /// Contents of the unit.
    pub text: String,
    /// Links that `[Install]` asks for.
    pub links: Vec<Installed>,
    /// Keys of the file that have no effect.
    pub unused: Vec<Unused>,
}

impl Quadlet {
    /// Makes the service.
    ///
    /// # Errors
    /// [`QuadletError`] names the line.
    pub fn service(&self, around: &Surroundings<'_>) -> Result<Made, QuadletError> {
        let section = self.kind.section();
        if self.file.sections.iter().all(|one| one.name != section) {
            return Err(QuadletError::Missing(match self.kind {
                Kind::Container => "[Container] section",
                Kind::Volume => "[Volume] section",
                Kind::Pod => "[Pod] section",
                Kind::Network => "[Network] section",
            }));
        }
        let mut unit = self.passed_on(around)?;
        match self.kind {
            Kind::Container => container::complete(self, around, &mut unit)?,
            Kind::Volume => volume::complete(self, around, &mut unit)?,
            Kind::Pod => pod::complete(self, around, &mut unit)?,
            Kind::Network => network::complete(self, around, &mut unit)?,
        }
        let name = self.service_name();
        Ok(Made {
            links: install::links(&self.file, &name)?,
            text: unit.to_string(),
            unused: keys::unused(self),
            name,
        })
    }

    /// Returns systemd's own sections, with units in place of files; the object's section gets a name that systemd
    /// ignores.
    fn passed_on(&self, around: &Surroundings<'_>) -> Result<UnitFile, QuadletError> {
        let mut unit = self.file.clone();
        unit.sections.retain(|section| section.name != "Quadlet");
        for section in &mut unit.sections {
            if section.name == self.kind.section() {
                section.name = format!("X-{}", section.name);
            }
            if section.name == "Unit" {
                for entry in section
                    .entries
                    .iter_mut()
                    .filter(|entry| keys::ORDER.contains(&entry.key.as_str()))
                {
                    let names = words(entry)?.into_iter().map(|word| match Kind::of(&word) {
                        Some((kind, name)) => format!("{}.service", kind.service(name)),
                        None => word,
                    });
                    entry.value = names.map(|name| quote(&name)).collect::<Vec<_>>().join(" ");
                }
            }
        }
        unit.add("Unit", "SourcePath", &*self.path);
        let online = self.file.value("Quadlet", "DefaultDependencies");
        let online = online.map(truth).transpose()?.unwrap_or(true);
        // A user's units cannot wait for those of the system.
        if online && !around.user {
            unit.add("Unit", "Wants", "network-online.target");
            unit.add("Unit", "After", "network-online.target");
        }
        if let Some(dir) = around.mounts_for {
            unit.add("Unit", "RequiresMountsFor", dir);
        }
        Ok(unit)
    }
}

#[cfg(test)]
mod tests;
