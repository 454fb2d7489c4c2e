//! From a request to a plan.

use crate::container::{self, Claim, Container, Recorded};
use crate::making::{Making, Purpose, mark};
use crate::prepared::Prepared;
use crate::rootfs::Source;
use crate::slim::fall_back;
use crate::standard::check_terminal;
use crate::{EngineError, Home, HostInit, given, storage, volume};
use tote_bundle::{ContainerId, Image, RestartPolicy, RunOptions};
use tote_runtime::Timings;
use tote_state::new_id;
use tote_sys::best_effort;

/// A request to run a container.
#[derive(Debug)]
pub struct RunRequest {
    /// The image.
    pub image: Image,
    /// Everything else; the command is in it.
    pub options: RunOptions,
    /// The options as they were given, by their long names: what a later start is to know.
    pub given: Vec<(String, String)>,
    /// Whether it has records of its own, as everything has but `run --rm` in the foreground.
    pub kept: bool,
    /// Descriptors and settings of the host's init for it.
    pub init: HostInit,
}

/// Plans a container, and makes what its plan rests on: directories, its claim, its name.
///
/// # Errors
/// [`EngineError`]; nothing of the container is left then.
pub fn prepare(
    home: &Home,
    mut request: RunRequest,
    dry: bool,
    mut timings: Option<&mut Timings>,
) -> Result<Prepared, EngineError> {
    if !request.options.detach {
        check_terminal(&request.options)?;
    }
    request.init.check(request.options.preserve_fds)?;
    let policy = request.options.restart;
    if request.options.rm && policy != RestartPolicy::No {
        return Err(container::LifeError::Start(container::StartError::RestartAndRm).into());
    }
    let whole = fall_back(home, &request.image, &mut request.options, &mut request.given)?;
    let source = Source::open(home, whole.as_ref().unwrap_or(&request.image))?;
    mark(&mut timings, "parent: open the image");
    // Its health checks need a process, and the command is busy with its terminal and its signals.
    request.kept |= tote_bundle::health_of(&request.options, &source.config())?.is_some();
    // The user at its terminal may detach: a process that joins others has no guardian, so a monitor exists from the start.
    let typed = request.options.tty && request.options.interactive;
    request.kept |= typed && crate::peer::joins_another(&request.options);
    let purpose = match (dry, request.kept) {
        (true, _) => Purpose::Plan,
        (false, true) => Purpose::Later,
        (false, false) => Purpose::Now,
    };
    prepare_from(home, request, source, purpose, timings)
}

/// Prepares a container from an open source; the request's image is only its name.
pub(crate) fn prepare_from(
    home: &Home,
    mut request: RunRequest,
    source: Source,
    purpose: Purpose,
    mut timings: Option<&mut Timings>,
) -> Result<Prepared, EngineError> {
    let dry = purpose == Purpose::Plan;
    let member = crate::pod::enlist(home, &mut request, dry)?;
    if let (Some(pod), false) = (&request.options.pod, dry) {
        crate::pod::ensure(home, pod)?;
    }
    let options = &request.options;
    if dry {
        let (id, name) = (new_id()?, options.name.as_ref().map(ToString::to_string));
        return build(
            home,
            (&id, &name.unwrap_or_default()),
            request,
            source,
            purpose,
            timings,
        );
    }
    // One that leaves nothing gets its name when it is born: the way there is short.
    let (id, claim, name) = container::allot(home, options.name.as_ref(), request.kept)?;
    mark(&mut timings, "parent: note the container");
    let built = given::note_id(options, &id)
        .and_then(|()| build(home, (&id, &name), request, source, purpose, timings))
        .and_then(|prepared| {
            if prepared.entry.kept {
                container::store(home, &prepared.entry.container)?;
            }
            Ok(prepared)
        });
    match built {
        Ok(mut prepared) => {
            prepared.claim = Some(claim);
            prepared.member = member.filter(|_| !prepared.entry.kept);
            Ok(prepared)
        }
        Err(error) => {
            // What fails here is found by the next command, which finds the addresses by the container.
            best_effort(crate::network::forget(home, &id));
            container::undo(home, &id, &name, claim);
            Err(error)
        }
    }
}

/// Plans a container that was created before, from its record alone.
///
/// # Errors
/// [`EngineError`]; the claim is given back then, and the container is as it was.
pub fn prepare_again(
    home: &Home,
    container: Container,
    claim: Claim,
    init: HostInit,
) -> Result<Prepared, EngineError> {
    claimed(home, container, claim, |container| {
        plan_again(home, container, init, &|_| {})
    })
}

/// Plans a container that stays stopped, for a visitor of its root: `still` removes the options that the visit has no
/// use for. It has no part in a pod then.
///
/// # Errors
/// As for [`prepare_again`].
pub(crate) fn prepare_still(
    home: &Home,
    container: Container,
    claim: Claim,
    still: fn(&mut RunOptions),
) -> Result<Prepared, EngineError> {
    let init = HostInit::default();
    claimed(home, container, claim, |container| {
        plan_again(home, container, init, &still)
    })
}

/// Plans a container whose claim the caller has taken.
fn claimed(
    home: &Home,
    container: Container,
    claim: Claim,
    plan: impl FnOnce(Container) -> Result<Prepared, EngineError>,
) -> Result<Prepared, EngineError> {
    let id = container.id.clone();
    match plan(container) {
        Ok(mut prepared) => {
            prepared.claim = Some(claim);
            Ok(prepared)
        }
        Err(error) => match crate::network::forget(home, &id) {
            Ok(()) => {
                claim.release();
                Err(error)
            }
            // The claim stays unheld, so that the next command tries again.
            Err(_) => Err(error),
        },
    }
}

fn plan_again(
    home: &Home,
    container: Container,
    init: HostInit,
    adapt: &dyn Fn(&mut RunOptions),
) -> Result<Prepared, EngineError> {
    let mut options = container.run_options()?;
    // Its record has the id; what was asked for may have been a name.
    options.pod.clone_from(&container.pod);
    adapt(&mut options);
    let image = container.source()?;
    let mut source = Source::open(home, &image)?;
    crate::vm::adapt(&options, &mut source);
    let making = Making {
        home,
        id: &container.id,
        name: &container.name,
        image: &image,
        config: source.config(),
        environment: &|_| None,
        kept: true,
        init: &init,
        purpose: Purpose::Later,
        files: Vec::new(),
    };
    let made = crate::vm::plan(&making, &source, &mut options, None)?;
    Ok(made.prepared((container, true), options, source, init))
}

/// A new container's plan, and its record.
fn build(
    home: &Home,
    (id, name): (&ContainerId, &str),
    request: RunRequest,
    mut source: Source,
    purpose: Purpose,
    timings: Option<&mut Timings>,
) -> Result<Prepared, EngineError> {
    let dry = purpose == Purpose::Plan;
    let RunRequest {
        image,
        mut options,
        mut given,
        kept,
        init,
    } = request;
    given::read_env_files(&mut options.env)?;
    given::read_surroundings(&mut options)?;
    volume::inherit(home, (&mut options, &mut given), !dry)?;
    volume::settle_images(home, (&mut options, &mut given))?;
    crate::vm::settle(&image, &mut options, &mut given)?;
    crate::vm::adapt(&options, &mut source);
    let config = source.config();
    storage::choose_driver(home, &config, &mut options, &mut given)?;
    crate::network::choose(&image, &mut options, &mut given)?;
    let making = Making {
        home,
        id,
        name,
        image: &image,
        config,
        environment: &|name| std::env::var(name).ok(),
        kept,
        init: &init,
        purpose,
        files: Vec::new(),
    };
    let made = crate::vm::plan(&making, &source, &mut options, timings)?;
    let recorded = Recorded {
        image: container::absolute_image(&image),
        image_id: source.image_id(),
        given: if kept && !dry {
            container::resolve(home, given, &options)?
        } else {
            given
        },
        path_and_args: made
            .spec
            .process
            .as_ref()
            .map_or_else(Vec::new, |process| process.args.clone()),
    };
    let container = recorded.container(id, name, &options, &making.config)?;
    Ok(made.prepared((container, kept), options, source, init))
}
