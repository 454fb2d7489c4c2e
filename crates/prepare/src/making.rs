//! The plan of a container, made of its options, its image and what the host has.

use crate::cgroup::Planned;
use crate::container::{Container, Entry, State};
use crate::facts::{device_nodes, facts, joins, limits};
use crate::files::Files;
use crate::init::Notify;
use crate::network::{Endpoint, Joined};
use crate::peer::Peers;
use crate::prepared::Prepared;
use crate::rootfs::Source;
use crate::standard::stdin;
use crate::user::{Ids, ids};
use crate::volume::{Filling, VolumeHold, Volumes};
use crate::{EngineError, Home, HostInit, covered, device, secret, spec, storage, volume};
use tote_archive::Shift;
use tote_bundle::{ContainerId, Image, ImageConfig, RunOptions};
use tote_runtime::Timings;
use tote_sandbox::{Facts, Fill, Lifetime, Plan, Request, Switch};
use tote_spec::Spec;

/// Purpose of preparing a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Its plan is shown.
    Plan,
    /// Another process bears it.
    Later,
    /// This very process does, and next.
    Now,
}

/// Notes the time of a step.
pub fn mark(timings: &mut Option<&mut Timings>, what: &str) {
    if let Some(timings) = timings {
        timings.mark(what);
    }
}

/// Sources of a plan.
#[expect(missing_debug_implementations, reason = "a closure is in it")]
pub struct Making<'a> {
    /// State root.
    pub home: &'a Home,
    /// Id of the container.
    pub id: &'a ContainerId,
    /// Name of the container.
    pub name: &'a str,
    /// Image as requested.
    pub image: &'a Image,
    /// Settings of the image.
    pub config: ImageConfig,
    /// Variables of the caller.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// Whether it has a life of its own.
    pub kept: bool,
    /// Whether its files have the owners of [`Container::roots_files`].
    pub roots_files: bool,
    /// Descriptors and settings of the host's init.
    pub init: &'a HostInit,
    /// Whether it has never been started.
    pub first: bool,
    /// Purpose of the preparation.
    pub purpose: Purpose,
    /// Makes the files that the container has beside those that follow from its options, once its place in networks is known.
    pub files: &'a dyn Fn(&Joined) -> Result<Files, EngineError>,
}

impl<'a> Making<'a> {
    /// Prepares a kept container once more, from its record: nothing is taken from the caller's environment. `first` is for
    /// one that has never been started.
    #[must_use]
    pub fn again(
        home: &'a Home,
        container: &'a Container,
        first: bool,
        (image, config): (&'a Image, ImageConfig),
        init: &'a HostInit,
    ) -> Self {
        Self {
            home,
            id: &container.id,
            name: &container.name,
            image,
            config,
            environment: &|_| None,
            kept: true,
            roots_files: container.roots_files,
            init,
            first,
            purpose: Purpose::Later,
            files: &no_files,
        }
    }
}

/// Makes no more files.
///
/// # Errors
/// None.
pub fn no_files(_: &Joined) -> Result<Files, EngineError> {
    Ok(Files::new())
}

/// A plan, and what it rests on.
#[derive(Debug)]
pub struct Made {
    /// Specification of the container.
    pub spec: Spec,
    writable: Vec<String>,
    /// Plan of its birth.
    pub plan: Plan,
    cgroup: Option<Planned>,
    network: Option<tote_sys::ComingNetwork>,
    endpoints: Vec<Endpoint>,
    ids: Ids,
    notify: Option<Notify>,
    beside: tote_driver::Beside,
    /// Locks on the volumes.
    pub volumes: VolumeHold,
    without_network: Option<String>,
    /// Release of the kernel of a virtual machine.
    pub kernel: Option<String>,
    /// Way in which a virtual machine has directories of this one.
    pub shares: Option<&'static str>,
    /// Name of the template from which a virtual machine goes on.
    pub template: Option<String>,
    /// Root of a virtual machine's sandbox, whose lock is held until it is mounted.
    pub beneath: Option<Source>,
}

impl Made {
    /// The prepared container.
    pub fn prepared(
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
            kernel: self.kernel,
            shares: self.shares.map(str::to_owned),
            template: self.template,
            kept_ids: self.ids.shift.map(Shift::kept),
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
            without_network: self.without_network,
            _beneath: self.beneath,
        }
    }
}

impl Making<'_> {
    /// True if the container is one of a pool, and waits for its program.
    fn parks(&self) -> bool {
        !self.kept && self.purpose == Purpose::Later
    }

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

    /// Plans it, without the network that it did not ask for where there can be none; its options say so then.
    pub fn plan(
        &self,
        source: &Source,
        options: &mut RunOptions,
        timings: Option<&mut Timings>,
    ) -> Result<Made, EngineError> {
        self.plan_by(options, timings, |options, timings| {
            self.plan_with(source, options, timings)
        })
    }

    /// Does so with another way to plan.
    pub fn plan_by(
        &self,
        options: &mut RunOptions,
        mut timings: Option<&mut Timings>,
        plan: impl Fn(&RunOptions, Option<&mut Timings>) -> Result<Made, EngineError>,
    ) -> Result<Made, EngineError> {
        let error = match plan(options, timings.as_deref_mut()) {
            Err(error) => error,
            made => return made,
        };
        let Some(reason) = crate::network::go_without(self.home, self.id, options, &error) else {
            return Err(error);
        };
        let mut made = plan(options, timings)?;
        made.without_network = Some(reason.clone());
        made.plan.warnings.push(reason);
        Ok(made)
    }

    /// Lists the volumes that get files of the image, and locks them.
    fn fills(&self, options: &RunOptions, spec: &Spec, ids: &Ids) -> Result<Vec<Fill>, EngineError> {
        let filling = Filling {
            home: self.home,
            id: self.id,
            options,
            config: &self.config,
            user: &ids.user,
            first: self.first,
            dry: self.purpose == Purpose::Plan,
        };
        filling.of(spec)
    }

    /// Makes the storage of its root.
    fn root(
        &self,
        source: &Source,
        options: &RunOptions,
        (spec, files, ids): (&Spec, &Files, &Ids),
    ) -> Result<(tote_sandbox::Root, tote_driver::Beside), EngineError> {
        let wanted = storage::Wanted {
            options,
            config: &self.config,
            spec,
            files,
            ids,
            dry: self.purpose == Purpose::Plan,
            runs: true,
            again: self.purpose == Purpose::Later,
        };
        storage::root(self.home, self.id, source, &wanted)
    }

    /// Makes the spec, with the files that its mounts ask for.
    fn spec(
        &self,
        asked: (&RunOptions, &Peers),
        ids: &mut Ids,
        volumes: &Volumes,
    ) -> Result<Spec, EngineError> {
        let (home, id) = (self.home, self.id);
        let (config, environment) = (&self.config, self.environment);
        let mut spec = spec::make(home.caller, id, asked, config, ids, environment, volumes)?;
        ids.join(&spec, home.caller)?;
        if !self.roots_files {
            ids.shift = None;
        }
        let ids = &*ids;
        if self.purpose != Purpose::Plan {
            volume::treat(home, id, (asked.0, ids), &mut spec)?;
            secret::give(home, id, (asked.0, ids), &mut spec)?;
        }
        Ok(spec)
    }

    /// Plans it in the kernel of this machine.
    pub fn plan_with(
        &self,
        source: &Source,
        options: &RunOptions,
        mut timings: Option<&mut Timings>,
    ) -> Result<Made, EngineError> {
        let (home, id, dry) = (self.home, self.id, self.purpose == Purpose::Plan);
        let entered = crate::network::enter_for(home, options, dry)?;
        let mut ids = ids(options, &self.config, self.image, source, home)?;
        let (peers, options) = Peers::find(home, options)?;
        let (options, asked) = (options.as_ref(), (options.as_ref(), &peers));
        let joined = crate::network::join(home, (id, self.name), (options, &self.config), dry)?;
        let volumes = volume::prepare(home, id, (options, &self.config), dry)?;
        let mut spec = self.spec(asked, &mut ids, &volumes)?;
        let comes = self.purpose == Purpose::Now && tote_sandbox::network_may_come(&spec);
        let network = comes.then(tote_sys::ComingNetwork::begin).and_then(Result::ok);
        let equipment = self.init.equip(home, id, (options, &ids), &mut spec, dry)?;
        mark(&mut timings, "parent: make the spec");
        let device_nodes = device_nodes(options, &spec, home.caller, &ids);
        let devices = (&mut spec, device_nodes);
        let (default_filter, planned) = limits(home, id, options, devices, (self.kept, dry))?;
        mark(&mut timings, "parent: plan the cgroup");
        let linked = match self.purpose {
            Purpose::Plan => std::borrow::Cow::Borrowed(options),
            _ => crate::docker_links::with_hosts(home, self.name, options, &joined.endpoints)?,
        };
        let named = (&*linked, &peers, &*joined.endpoints);
        let mut files = covered::files(home, (id, &ids), &mut spec, named, dry)?;
        files.extend((self.files)(&joined)?);
        let facts = Facts {
            hard_limit: &|resource| tote_sys::hard_limit(resource).ok().map(|limit| limit.hard),
            network_comes: network.is_some(),
            ..facts(home, options, &spec, planned.as_ref(), device_nodes, &ids)
        };
        mark(&mut timings, "parent: look at the host");
        let request = Request {
            spec: &spec,
            attach_point: &home.attach_point(),
            files: &files,
            fill: &self.fills(options, &spec, &ids)?,
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
        let (root, beside) = self.root(source, options, (&spec, &files, &ids))?;
        let writable = storage::copies(&root);
        mark(&mut timings, "parent: prepare the root");
        let mut plan = tote_sandbox::plan(&request, root, joins(&spec, options, &peers)?)?;
        let warnings = [entered, joined.warnings, equipment.warnings].concat();
        self.warn(&mut plan, options, warnings);
        if !self.kept && !self.parks() {
            plan.await_record();
        }
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
            without_network: None,
            kernel: None,
            shares: None,
            template: None,
            beneath: None,
        })
    }
}
