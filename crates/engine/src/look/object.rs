//! Whatever has a name.

use super::LookError;
use super::details::{ContainerDetails, container_details};
use super::select::network_of;
use crate::container::{Entry, find};
use crate::network::PortRecord;
use crate::pod::PodEntry;
use crate::{
    ContainerError, EngineError, Home, ImageDetails, NetworkDetails, NetworkFault, VolumeDetails, VolumeFault,
};
use std::str::FromStr;
use tote_store::StoreError;

/// An object with all that a description of it tells.
#[derive(Clone, Debug)]
pub enum InspectedObject {
    /// A container.
    Container(Box<ContainerDetails>),
    /// An image.
    Image(Box<ImageDetails>),
    /// A network.
    Network(NetworkDetails),
    /// A volume.
    Volume(VolumeDetails),
    /// A pod.
    Pod(PodEntry),
}

/// Kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A container.
    Container,
    /// An image.
    Image,
    /// A network.
    Network,
    /// A volume.
    Volume,
    /// A pod.
    Pod,
}

impl FromStr for ObjectKind {
    type Err = LookError;

    fn from_str(word: &str) -> Result<Self, LookError> {
        match word {
            "container" => Ok(Self::Container),
            "image" => Ok(Self::Image),
            "network" => Ok(Self::Network),
            "volume" => Ok(Self::Volume),
            "pod" => Ok(Self::Pod),
            other => Err(LookError::Kind(other.to_owned())),
        }
    }
}

/// Looks for a container, or else an image, a network, a volume, or a pod, in docker's order; `kind` says which of them it must
/// be. `sizes` counts what a container wrote.
///
/// # Errors
/// In docker's words: [`LookError::Nothing`], or those of the kind.
pub fn inspect_object(
    home: &Home,
    wanted: &str,
    kind: Option<ObjectKind>,
    sizes: bool,
) -> Result<InspectedObject, EngineError> {
    use InspectedObject::{Container, Image, Network, Pod, Volume};
    let container = || Ok(Container(Box::new(container_details(home, wanted, sizes)?)));
    let image = || Ok(Image(Box::new(crate::inspect_image(home, wanted, &[])?)));
    let network = || Ok(Network(crate::inspect_network(home, wanted)?));
    let volume = || Ok(Volume(crate::inspect_volume(home, wanted)?));
    let pod = || Ok(Pod(crate::pod::find(home, wanted)?));
    match kind {
        Some(ObjectKind::Pod) => return pod(),
        Some(ObjectKind::Container) => return container(),
        Some(ObjectKind::Image) => return image(),
        Some(ObjectKind::Network) => return network(),
        Some(ObjectKind::Volume) => return volume(),
        None => {}
    }
    let all: [&dyn Fn() -> Result<InspectedObject, EngineError>; 5] =
        [&container, &image, &network, &volume, &pod];
    for look in all {
        match look() {
            Err(error) if is_missing(&error) => {}
            other => return other,
        }
    }
    Err(LookError::Nothing(wanted.to_owned()).into())
}

fn is_missing(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Container(ContainerError::NoContainer(_))
            | EngineError::Store(StoreError::NoImage(_))
            | EngineError::Pod(crate::pod::PodError::Missing(_))
    ) || matches!(error.part(), Some(NetworkFault::NotFound(_)))
        || matches!(error.part(), Some(VolumeFault::Missing(_)))
}

/// The ports of a container that are published, of a pod's member those of the pod, a line each; with `port` only where that one leads.
///
/// # Errors
/// [`LookError::NoPort`] if that port is not published, and [`LookError::Port`] if it is invalid.
pub fn ports(home: &Home, wanted: &str, port: Option<&str>) -> Result<Vec<String>, EngineError> {
    let entry = find(home, wanted)?;
    let entry = port_keeper(home, &entry)?.unwrap_or(entry);
    let mut published: Vec<_> = published(&entry).collect();
    published.sort_by_key(|port| (port.container, port.protocol.clone(), port.host));
    let Some(port) = port else {
        let lines = published
            .iter()
            .map(|port| format!("{} -> {}", port.private(), port.host));
        return Ok(lines.collect());
    };
    let (number, protocol) = port.split_once('/').unwrap_or((port, "tcp"));
    let number = number.parse::<u16>().ok().filter(|number| *number > 0);
    let Some(number) = number.filter(|_| matches!(protocol, "tcp" | "udp" | "sctp")) else {
        return Err(LookError::Port(port.to_owned()).into());
    };
    let is_wanted = |port: &&&PortRecord| port.container == number && port.protocol == protocol;
    let lines: Vec<_> = published
        .iter()
        .filter(is_wanted)
        .map(|port| port.host.to_string())
        .collect();
    if !lines.is_empty() {
        return Ok(lines);
    }
    Err(LookError::NoPort {
        container: entry.container.display().to_owned(),
        port: format!("{number}/{protocol}"),
    }
    .into())
}

/// The container by whose ports a pod's member is reached: the one that keeps the pod's network. `None` of a container whose ports are
/// its own.
///
/// # Errors
/// Those of a container that is named, if it is not there.
pub fn port_keeper(home: &Home, entry: &Entry) -> Result<Option<Entry>, EngineError> {
    match network_of(&entry.container).strip_prefix("container:") {
        Some(infra) if entry.container.pod.is_some() => find(home, infra).map(Some),
        _ => Ok(None),
    }
}

/// The ports of a container that are published now.
pub fn published(entry: &Entry) -> impl Iterator<Item = &PortRecord> {
    crate::network::ports_of(&entry.state.networks)
}
