//! From a request to a plan.

use crate::cgroup::Planned;
use crate::container::{self, Claim, Container, Entry, Recorded, State};
use crate::facts::{device_nodes, facts, joins, limits};
use crate::init::Notify;
use crate::network::Endpoint;
use crate::peer::Peers;
use crate::pod::Guard;
use crate::rootfs::Source;
use crate::standard::{check_terminal, stdin};
use crate::user::{Ids, ids};
use crate::volume::VolumeHold;
use crate::{EngineError, Home, HostInit, covered, device, given, spec, storage, volume};
use tote_bundle::{ContainerId, Image, ImageConfig, RestartPolicy, RunOptions};
use tote_runtime::Timings;
use tote_sandbox::{Facts, Lifetime, Plan, Request, Switch};
use tote_spec::Spec;
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

/// Purpose of preparing a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Its plan is shown.
    Plan,
    /// Another process bears it.
    Later,
    /// This very process does, and next.
    Now,
}

/// A container that is planned and not yet born.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) entry: Entry,
    pub(crate) options: RunOptions,
    pub(crate) spec: Spec,
    pub(crate) plan: Plan,
    pub(crate) cgroup: Option<tote_cgroup::Plan>,
    pub(crate) network: Option<tote_sys::ComingNetwork>,
    pub(crate) ids: Ids,
    pub(crate) claim: Option<Claim>,
    /// Held until other commands see the container as a member of its pod.
    pub(crate) member: Option<Guard>,
    pub(crate) init: HostInit,
    pub(crate) notify: Option<Notify>,
    pub(crate) _source: Source,
    pub(crate) beside: tote_driver::Beside,
    /// Until it is written down that it has them.
    pub(crate) volumes: VolumeHold,
}

impl Prepared {
    /// The plan; printing it is what `--plan` does.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The plan of its cgroup, if it needs one.
    #[must_use]
    pub fn cgroup(&self) -> Option<&tote_cgroup::Plan> {
        self.cgroup.as_ref()
    }

    /// Whether it has records of its own.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.entry.kept
    }

    /// The request.
    #[must_use]
    pub fn container(&self) -> &Container {
        &self.entry.container
    }
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
        return Err(container::LifeError::RestartAndRm.into());
    }
    let source = Source::open(home, &request.image)?;
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
    let source = Source::open(home, &image)?;
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
    };
    let made = making.plan(&source, &options, None)?;
    Ok(made.prepared((container, true), options, source, init))
}

fn mark(timings: &mut Option<&mut Timings>, what: &str) {
    if let Some(timings) = timings {
        timings.mark(what);
    }
}

/// A new container's plan, and its record.
fn build(
    home: &Home,
    (id, name): (&ContainerId, &str),
    request: RunRequest,
    source: Source,
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
    let config = source.config();
    storage::choose_driver(home, &config, &mut options, &mut given)?;
    crate::network::choose(&mut options, &mut given)?;
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
    };
    let made = making.plan(&source, &options, timings)?;
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

/// Sources of a plan.
struct Making<'a> {
    home: &'a Home,
    id: &'a ContainerId,
    name: &'a str,
    image: &'a Image,
    config: ImageConfig,
    /// Variables of the caller.
    environment: &'a dyn Fn(&str) -> Option<String>,
    /// Whether it has a life of its own.
    kept: bool,
    init: &'a HostInit,
    purpose: Purpose,
}

/// A plan, and what it rests on.
struct Made {
    spec: Spec,
    writable: Vec<String>,
    plan: Plan,
    cgroup: Option<Planned>,
    network: Option<tote_sys::ComingNetwork>,
    endpoints: Vec<Endpoint>,
    ids: Ids,
    notify: Option<Notify>,
    beside: tote_driver::Beside,
    volumes: VolumeHold,
}

impl Made {
    fn prepared(
        self,
        (container, kept): (Container, bool),
        options: RunOptions,
        source: Source,
        init: HostInit,
    ) -> Prepared {
        let (cgroup, record) = match self.cgroup {
            Some(planned) => (Some(planned.plan), planned.record),
            None => (None, None),
        };
        let state = State {
            writable: self.writable,
            networks: self.endpoints,
            cgroup: record,
            ..State::default()
        };
        Prepared {
            entry: Entry {
                container,
                state,
                kept,
                lost: None,
            },
            options,
            spec: self.spec,
            plan: self.plan,
            cgroup,
            network: self.network,
            ids: self.ids,
            claim: None,
            member: None,
            init,
            notify: self.notify,
            _source: source,
            beside: self.beside,
            volumes: self.volumes,
        }
    }
}

impl Making<'_> {
    /// Adds these warnings to a plan's, and what the container has to do without by its options.
    fn warn(&self, plan: &mut Plan, options: &RunOptions, warnings: Vec<String>) {
        plan.warnings.extend(warnings);
        plan.warnings
            .extend(storage::without_size(self.home, options, &self.config));
        plan.warnings
            .extend(device::without_rules(self.home.caller, options));
        if options.oom_kill_disable && options.memory == 0 {
            let text = "--oom-kill-disable without --memory: a container that nothing limits can leave the whole system \
                        without memory";
            plan.warnings.push(text.to_owned());
        }
    }

    fn plan(
        &self,
        source: &Source,
        options: &RunOptions,
        mut timings: Option<&mut Timings>,
    ) -> Result<Made, EngineError> {
        let (home, id, dry) = (self.home, self.id, self.purpose == Purpose::Plan);
        let ids = ids(options, &self.config, self.image, source, home)?;
        let (peers, options) = Peers::find(home, options)?;
        let (options, asked) = (options.as_ref(), (options.as_ref(), &peers));
        let joined = crate::network::join(home, (id, self.name), (options, &self.config), dry)?;
        let volumes = volume::prepare(home, id, (options, &self.config), dry)?;
        let mut spec = spec::make(home, id, asked, &self.config, &ids, self.environment, &volumes)?;
        let comes = self.purpose == Purpose::Now && tote_sandbox::network_may_come(&spec);
        let network = comes.then(tote_sys::ComingNetwork::begin).and_then(Result::ok);
        let equipment = self.init.equip(home, id, (options, &ids), &mut spec, dry)?;
        mark(&mut timings, "parent: make the spec");
        let device_nodes = device_nodes(options, &spec, home.caller, &ids);
        let devices = (&mut spec, device_nodes);
        let (default_filter, planned) = limits(home, id, options, devices, (self.kept, dry))?;
        mark(&mut timings, "parent: plan the cgroup");
        let named = (options, &peers, &*joined.endpoints);
        let files = covered::files(home, (id, &ids), &mut spec, named, dry)?;
        let facts = Facts {
            hard_limit: &|resource| tote_sys::hard_limit(resource).ok().map(|limit| limit.hard),
            network_comes: network.is_some(),
            ..facts(home, options, &spec, planned.as_ref(), device_nodes)
        };
        mark(&mut timings, "parent: look at the host");
        let request = Request {
            spec: &spec,
            attach_point: &home.attach_point(),
            files: &files,
            fill: &volume::to_fill(options, &self.config, &spec)?,
            id_mapping: ids.mapping_of(&spec),
            default_filter,
            stdin: stdin(options),
            init: options.init,
            lifetime: Lifetime::OfParent,
            preserve_fds: options.preserve_fds.saturating_add(self.init.descriptors()),
            switch: Switch::Pivot,
            keyring: Some(&id.keyring()),
            all_processors: false,
            links: &joined.links,
            facts,
        };
        let wanted = storage::Wanted {
            options,
            config: &self.config,
            spec: &spec,
            files: &files,
            ids: &ids,
            dry,
            runs: true,
        };
        let (root, beside) = storage::root(home, id, source, &wanted)?;
        let writable = storage::copies(&root);
        mark(&mut timings, "parent: prepare the root");
        let parks = !self.kept && self.purpose == Purpose::Later; // in a pool
        let mut plan = tote_sandbox::plan(&request, root, joins(&spec, options, &peers, parks)?)?;
        self.warn(&mut plan, options, [joined.warnings, equipment.warnings].concat());
        mark(&mut timings, "parent: plan");
        Ok(Made {
            spec,
            writable,
            plan,
            cgroup: planned,
            network,
            endpoints: joined.endpoints,
            ids,
            notify: equipment.notify,
            beside,
            volumes: volumes.hold,
        })
    }
}
