//! All that a description of a container tells.

mod config;

use super::size::{self, ContainerSize};
use crate::container::{self, Entry};
use crate::network::{Endpoint, RefusedDestination};
use crate::{EngineError, Home};
use serde_json::Value;
use std::path::PathBuf;
use tote_bundle::{ContainerAlias, ImageConfig, RunOptions};
use tote_prepare::image_config;

/// A container with all that a description of it tells.
#[derive(Clone, Debug)]
pub struct ContainerDetails {
    home: Home,
    /// The container and its state.
    pub entry: Entry,
    /// Options of the container. What another tote wrote may have options that this one does not know: it shows what it does.
    pub options: RunOptions,
    /// Configuration of the image; that of no image where it is gone.
    pub image: ImageConfig,
    /// Settings of the program as an image has them, in docker's fields: `commit` puts them into its image, too.
    pub config: Value,
    /// Files and directories that exist.
    pub files: ContainerFiles,
    /// Destinations that the egress policy has refused.
    pub refused: Vec<RefusedDestination>,
    /// Size on disk, if it was asked for.
    pub size: Option<ContainerSize>,
}

/// Files and directories of a container, each `None` if the container does not have it.
#[derive(Clone, Debug, Default)]
pub struct ContainerFiles {
    /// File of the log.
    pub log: Option<PathBuf>,
    /// Directory of the changed files.
    pub upper: Option<PathBuf>,
    /// Work directory of the overlay.
    pub work: Option<PathBuf>,
    /// Directory of all files.
    pub tree: Option<PathBuf>,
}

/// Looks at a container; with `sizes` also at what it wrote, for which its files are counted.
///
/// # Errors
/// [`crate::ContainerError`] for an object that is not a container, in docker's words.
pub(super) fn container_details(
    home: &Home,
    wanted: &str,
    sizes: bool,
) -> Result<ContainerDetails, EngineError> {
    let entry = container::find(home, wanted)?;
    let container = &entry.container;
    let options = container.run_options().unwrap_or_default();
    let image = image_config(home, &entry);
    let dir = home.container(&container.id);
    // absence: a path for people; what cannot be examined may be there
    let file = |name: &str| Some(dir.join(name)).filter(|path| path.try_exists().unwrap_or(true));
    let policy = options.egress.as_ref();
    let refused = policy.map(|policy| crate::network::refused(home, &container.id, policy));
    Ok(ContainerDetails {
        config: config::config(&entry, &options, &image),
        files: ContainerFiles {
            log: file(container::logging::file(&options.log)),
            upper: file("upper"),
            work: file("work"),
            tree: file("tree"),
        },
        refused: refused.unwrap_or_default(),
        size: sizes.then(|| size::of_container(home, &entry)),
        home: home.clone(),
        entry,
        options,
        image,
    })
}

/// The options of a container, as docker's `Config` has them.
pub(crate) fn asked_config(home: &Home, entry: &Entry) -> Value {
    let options = entry.container.run_options().unwrap_or_default();
    config::config(entry, &options, &image_config(home, entry))
}

impl ContainerDetails {
    /// Names that other containers have for this one in a network.
    #[must_use]
    pub fn names_in(&self, endpoint: &Endpoint) -> Vec<String> {
        let (id, name) = (&self.entry.container.id, &*self.entry.container.name);
        crate::network::names_of((id, name), &self.options, (None, &endpoint.aliases))
    }

    /// Memory that the processes of a virtual machine take from this one, in bytes: what they share with others counts for each in equal
    /// parts (PSS). `None` if it does not run, or this user may not look.
    #[must_use]
    pub fn machine_memory(&self) -> Option<u64> {
        let (.., pids) = crate::stats::running(&self.entry).ok()?;
        let parts = pids.into_iter().map(|pid| {
            let text = crate::proc::read(pid, "smaps_rollup");
            crate::proc::field(&text, "Pss").unwrap_or_default()
        });
        Some(parts.sum::<u64>() << 10).filter(|bytes| *bytes > 0)
    }

    /// docker's links: the other container's name, and its name here below this container's.
    #[must_use]
    pub fn links(&self) -> Vec<String> {
        let own = self.entry.container.display();
        let links = self.options.host.links.iter();
        let link = |link: &ContainerAlias| {
            let found = container::find(&self.home, &link.container);
            let other = found.map(|entry| entry.container.display().to_owned());
            let other = other.unwrap_or_else(|_| link.container.clone());
            format!("/{other}:/{own}/{}", link.alias)
        };
        links.map(link).collect()
    }

    /// Name and directory of the volume at a destination; without a name that of an anonymous volume.
    #[must_use]
    pub fn volume(&self, name: Option<&str>, destination: &str) -> (String, PathBuf) {
        let container = &self.entry.container;
        let directory = crate::volume::directory(&self.home, &container.id, container.rm, name, destination);
        let anonymous = || crate::volume::anonymous_name(&container.id, destination);
        (name.map_or_else(anonymous, ToOwned::to_owned), directory)
    }
}
