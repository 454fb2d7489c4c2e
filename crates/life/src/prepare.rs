//! From a request to a plan.

mod again;

pub use again::prepare_again;
pub use again::prepare_still;

use crate::container::{self, Recorded};
use crate::making::{Making, Purpose, mark};
use crate::prepared::Prepared;
use crate::rootfs::Source;
use crate::slim::fall_back;
use crate::standard::check_terminal;
use crate::{EngineError, Home, RunRequest, given, storage, volume};
use tote_bundle::{ContainerId, RestartPolicy};
use tote_runtime::Timings;
use tote_state::new_id;
use tote_sys::best_effort;

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
pub fn prepare_from(
    home: &Home,
    mut request: RunRequest,
    source: Source,
    purpose: Purpose,
    mut timings: Option<&mut Timings>,
) -> Result<Prepared, EngineError> {
    let dry = purpose == Purpose::Plan;
    let member = crate::pod::enlist(home, &mut request, dry)?;
    if let (Some(pod), false) = (&request.options.pod, dry) {
        crate::pod::ensure(home, pod, container::start_alone)?;
    }
    if !dry {
        container::start_required(home, &request.options.requires, container::start_alone)?;
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
    crate::vm::settle(&image, &options)?;
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
        roots_files: true,
        init: &init,
        first: true,
        purpose,
        files: &crate::making::no_files,
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
