//! From the record of a container to a plan: a later start, or a visit of its root.

use crate::container::{Claim, Container, State};
use crate::making::Making;
use crate::prepared::Prepared;
use crate::rootfs::Source;
use crate::{EngineError, Home, HostInit};
use tote_bundle::RunOptions;

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
pub fn prepare_still(
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
    let first = State::read(home, &container.id)?.started_at == 0;
    let making = Making::again(home, &container, first, (&image, source.config()), &init);
    let made = crate::vm::plan(&making, &source, &mut options, None)?;
    Ok(made.prepared((container, true), options, source, init))
}
