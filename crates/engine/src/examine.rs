//! A container that is only created: everything that needs no start.

use crate::container::{self, Container, Recorded};
use crate::peer::Peers;
use crate::rootfs::Source;
use crate::user::ids;
use crate::volume::VolumeHold;
use crate::{EngineError, Home, RunRequest, etc, given, network, spec, storage, volume};
use tote_bundle::{ContainerId, SpecError, command_line};

/// The record of a container that is only created: everything that needs no start. Makes what its mounts need, and holds
/// its volumes.
pub(crate) fn examine(
    home: &Home,
    id: &ContainerId,
    name: &str,
    request: RunRequest,
) -> Result<(Container, VolumeHold), EngineError> {
    given::note_id(&request.options, id)?;
    let RunRequest {
        mut options,
        mut given,
        image,
        ..
    } = request;
    given::read_env_files(&mut options.env)?;
    given::read_surroundings(&mut options)?;
    volume::inherit(home, (&mut options, &mut given), true)?;
    let source = Source::open(home, &image)?;
    let config = source.config();
    storage::choose_driver(home, &config, &mut options, &mut given)?;
    network::choose(&image, &mut options, &mut given)?;
    let ids = ids(&options, &config, &image, &source, home)?;
    let environment = |name: &str| std::env::var(name).ok();
    let (peers, joined) = Peers::find(home, &options)?;
    let volumes = volume::prepare(home, id, (&joined, &config), false)?;
    let asked = (joined.as_ref(), &peers);
    let made = spec::make(home, id, asked, &config, &ids, &environment, &volumes);
    let path_and_args = match made {
        Ok(spec) => spec.process.map_or_else(Vec::new, |process| process.args),
        // It may run by then.
        Err(EngineError::Spec(SpecError::Peer { .. } | SpecError::NetworkPeer(_))) => {
            command_line(options.entrypoint.as_deref(), &options.command, &config)
        }
        Err(error) => return Err(error),
    };
    // What is wrong is said now; the file is made at the start.
    etc::localtime(&options)?;
    let recorded = Recorded {
        image: container::absolute_image(&image),
        image_id: source.image_id(),
        given: container::resolve(home, given, &options)?,
        path_and_args,
    };
    let container = recorded.container(id, name, &options, &config)?;
    Ok((container, volumes.hold))
}
