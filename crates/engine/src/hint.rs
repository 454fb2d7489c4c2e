//! Remedies for errors of the engine.

use crate::changes::{BootstrapError, ContainerError};
use crate::exec::ExecError;
use crate::{BuildFault, EngineError};
use tote_build::BuildError;
use tote_driver::PrepareError;
use tote_image::{Reference, ReferenceError};
use tote_state::StateError;
use tote_store::StoreError;
use tote_sys::Errno;

pub(crate) fn of(error: &EngineError) -> Option<String> {
    let text = match error {
        EngineError::Run(error) | EngineError::Exec(ExecError::Start(error)) => return error.hint(),
        EngineError::NameTaken { name, .. } => {
            return Some(format!(
                "remove that container with 'tote rm {name}' (with -f where it still runs; run --replace does both), or choose another name"
            ));
        }
        EngineError::NoRemap => {
            "run as an unprivileged user, whose containers have user namespaces of their own"
        }
        EngineError::Bootstrap(BootstrapError::NoProgram) => {
            "install it (package mmdebstrap), or import an archive that it made elsewhere: tote import"
        }
        EngineError::Container(ContainerError::InMemory(_)) => "start it without --rm",
        EngineError::Container(ContainerError::OfHost(_)) => {
            "start it from an image of the store, or from a directory (rootfs:DIR)"
        }
        EngineError::BuildFault(fault) => return for_build(fault).map(str::to_owned),
        EngineError::Build(error) => {
            return match &**error {
                BuildError::Step { source, .. } | BuildError::Result(source) => of(source),
                _ => None,
            };
        }
        EngineError::Life(error) => return error.hint(),
        EngineError::Stream(crate::container::StreamError::Unkept(_)) => crate::container::UNKEPT,
        EngineError::Pod(error) => return error.hint(),
        EngineError::Debug(error) => return error.hint(),
        EngineError::Pool(error) => return error.hint(),
        EngineError::Slim(error) => return error.hint(),
        EngineError::Copy(error) => return error.hint().map(str::to_owned),
        EngineError::Storage(error) => return for_storage(error),
        EngineError::ImageDisk(_) => "say it yourself: --disk-size SIZE, or --driver overlay for none",
        EngineError::NoTree(_) => "load or pull the image once more",
        EngineError::NotATerminal => "leave out -t, or run in a terminal",
        EngineError::NoRanges(_) => {
            "add this user to /etc/subuid and /etc/subgid (usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER) and install uidmap"
        }
        EngineError::Store(StoreError::NoImage(name)) if name.contains("://") => {
            "an image is named without a scheme: REGISTRY/REPOSITORY:TAG"
        }
        EngineError::Store(StoreError::NoImage(name)) if is_capital(name) => {
            "repository name must be lowercase; tags may have capitals"
        }
        EngineError::Store(StoreError::NoImage(_)) => {
            "see 'tote images'; give host for this machine's file system, or rootfs:DIR for an unpacked one"
        }
        EngineError::Store(
            StoreError::Lost { .. } | StoreError::LostLayers { .. } | StoreError::Damaged { .. },
        ) => "load or pull the image once more: only what is lost is written",
        EngineError::Store(StoreError::Owner { .. }) => {
            "the image has files of more ids than this user's ranges in /etc/subuid and /etc/subgid"
        }
        EngineError::Store(StoreError::Io { source, .. }) => return for_state(source),
        EngineError::Images(error) => return error.hint().map(str::to_owned),
        EngineError::Registry(error) => return error.hint().map(str::to_owned),
        EngineError::State(StateError::HomeOwner { .. } | StateError::HomeInUse { .. }) => {
            "give --root an empty directory of your own, or one that is not there"
        }
        EngineError::State(StateError::Home { source, .. } | StateError::File { source, .. }) => {
            return for_state(source);
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Whether a name of an image would be one but for capitals.
fn is_capital(name: &str) -> bool {
    matches!(Reference::parse(name), Err(ReferenceError::UpperCase(_)))
}

fn for_build(fault: &BuildFault) -> Option<&'static str> {
    Some(match fault {
        BuildFault::Command { .. } if has_one_id() => {
            "this user has one id in containers, and what makes users or gives files away fails: add ranges to /etc/subuid and /etc/subgid"
        }
        BuildFault::AgentKey(_) => "start an agent, ssh-add the key, and give --ssh default",
        BuildFault::ForeignCommand { .. } => {
            "install qemu-user-static and binfmt-support, or whatever else registers an interpreter that containers see (flag F) in /proc/sys/fs/binfmt_misc; or let the stage run here: FROM --platform=$BUILDPLATFORM"
        }
        BuildFault::PushNameless => "give it one that says where it goes: -t REGISTRY/NAME",
        BuildFault::NoDockerfile(_) => "give the Dockerfile's path with -f, or another directory",
        BuildFault::Command { offline: true, .. } => {
            "if the command needs a network: this RUN step had none; with --network host it has this machine's"
        }
        BuildFault::NoGit(_) => "install git, or clone the repository elsewhere and give its directory",
        BuildFault::Git { why, .. }
            if why.contains("terminal prompts disabled") || why.contains("Authentication") =>
        {
            "give a token: --secret id=GIT_AUTH_TOKEN,env=VARIABLE"
        }
        BuildFault::Git { why, .. } if why.contains("Host key verification") => {
            "add the host to ~/.ssh/known_hosts; keys are those of --ssh default"
        }
        BuildFault::Context { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            "give a directory, an archive (rootfs.tar) or - for standard input; a name goes to -t"
        }
        _ => return None,
    })
}

/// Whether this user's containers have no other id than root's.
fn has_one_id() -> bool {
    !rustix::process::geteuid().is_root() && tote_images::ranges(0, 0).is_none()
}

fn for_storage(error: &PrepareError) -> Option<String> {
    Some(match error {
        PrepareError::Look {
            source: Errno::ACCESS,
            ..
        } => "a directory of the image is closed to all ids that you have: use --driver overlay".to_owned(),
        PrepareError::NoQuotas { path } => format!(
            "enable them, for all of that file system, with 'btrfs quota enable {}', or use --driver loop",
            path.display()
        ),
        PrepareError::InconsistentQuotas { path } => format!(
            "have all that is used counted again with 'btrfs quota rescan -w {}', or use --driver loop",
            path.display()
        ),
        _ => return None,
    })
}

fn for_state(source: &std::io::Error) -> Option<String> {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
    matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem | StorageFull)
        .then(|| "give a directory with room that you can write: --root DIR or TOTE_ROOT".to_owned())
}
