//! From the catalogue to a scenario of the harness: a cell is an experiment of one size with one candidate.

mod splice;
mod verbs;

use self::splice::Splice;
use crate::catalogue::{Candidate, Catalogue, Experiment};
use crate::record::{Cell, Quantity, Series, Subject};
use anyhow::{Context, Result, bail};
use bench::apparatus::{Archive, Disk, Plan, Service};
use bench::scenario::{self, Bundle, Expectation, Scenario, Text};
use bench::step::Step;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Port of the host that is published, in a network namespace of the run's own.
const PORT: &str = "18080";

/// A scenario and what its candidates mean.
#[derive(Debug)]
pub(crate) struct Composed {
    pub(crate) scenario: Scenario,
    pub(crate) cells: Vec<Cell>,
    pub(crate) subjects: Vec<Subject>,
    pub(crate) series: Vec<Series>,
}

/// Composes all cells; `machine_cgroups` is the layout of control groups here.
pub(crate) fn compose(
    all: &Catalogue,
    quick: bool,
    time_limit_ms: u64,
    machine_cgroups: &str,
) -> Result<Composed> {
    let mut composed = Composed {
        scenario: empty(time_limit_ms),
        cells: Vec::new(),
        subjects: Vec::new(),
        series: Vec::new(),
    };
    let experiments = all.wanted(quick);
    composed
        .series
        .extend(experiments.iter().map(|experiment| series(experiment, quick)));
    for candidate in &all.candidates {
        let refused = all.refused(candidate).map(str::to_owned).or_else(|| {
            let wrong = !candidate.cgroups.is_empty() && candidate.cgroups != machine_cgroups;
            wrong.then(|| {
                format!(
                    "needs control groups {}, this machine has {machine_cgroups}",
                    candidate.cgroups
                )
            })
        });
        let runs_here = refused.is_none() && missing(candidate).is_none();
        composed
            .subjects
            .push(subject(candidate, refused.or_else(|| missing(candidate))));
        if runs_here {
            composed.scenario.apparatus.add(&candidate.apparatus);
            composed.scenario.states.extend(candidate.states.iter().cloned());
            if !candidate.version.is_empty() && candidate.version[0] != "{tote}" {
                composed
                    .scenario
                    .versions
                    .insert(candidate.name.clone(), candidate.version.clone());
            }
        }
    }
    for experiment in &experiments {
        composed.scenario.apparatus.add(&experiment.apparatus);
    }
    // Loading images comes after the start of all daemons.
    for candidate in &all.candidates {
        let runs_here = composed
            .subjects
            .iter()
            .any(|one| one.name == candidate.name && one.skipped.is_none());
        for experiment in experiments.iter().filter(|one| runs_here && one.of.is_none()) {
            for (size, place) in experiment.steps(quick) {
                composed.add(all, candidate, experiment, (&size, place))?;
            }
        }
    }
    Ok(composed)
}

fn empty(time_limit_ms: u64) -> Scenario {
    Scenario {
        name: "comparison".to_owned(),
        about: String::new(),
        time_limit_ms,
        // crun refuses a machine that shows both versions of control groups.
        hidden_mounts: vec![PathBuf::from("/sys/fs/cgroup/unified")],
        programs: BTreeMap::new(),
        trees: BTreeMap::new(),
        // The same kind of file system as the engines' stores.
        tree_disk: Some(Disk::new(&["mkfs.ext4", "-q"], 8192)),
        bundles: BTreeMap::new(),
        states: Vec::new(),
        apparatus: Plan {
            private_network: true,
            private_processes: true,
            ..Plan::default()
        },
        versions: BTreeMap::new(),
        candidates: Vec::new(),
        comparisons: Vec::new(),
    }
}

fn missing(candidate: &Candidate) -> Option<String> {
    let missing = candidate
        .needs
        .iter()
        .find(|name| bench::stage::find_program(name).is_none());
    missing.map(|name| format!("needs {name}"))
}

fn subject(candidate: &Candidate, skipped: Option<String>) -> Subject {
    Subject {
        name: candidate.name.clone(),
        about: candidate.about.clone(),
        manager: candidate.manager.clone(),
        runtime: candidate.runtime.clone(),
        driver: candidate.driver.clone(),
        isolation: candidate.isolation.clone(),
        rootless: candidate.as_user == scenario::AsUser::User,
        skipped,
    }
}

fn series(experiment: &Experiment, quick: bool) -> Series {
    Series {
        name: experiment.name.clone(),
        about: experiment.about.clone(),
        unit: match experiment.quantity() {
            Quantity::Figure => experiment.unit.clone(),
            quantity => quantity.unit().to_owned(),
        },
        more_is_better: match experiment.quantity() {
            Quantity::Figure => !experiment.less,
            quantity => quantity.more_is_better(),
        },
        quantity: experiment.quantity(),
        of: experiment.of.clone(),
        label: experiment.of.as_ref().and(experiment.figure.clone()),
        baseline: experiment.baseline.clone(),
        axis: experiment.axis.clone(),
        rounds: if quick { experiment.quick } else { experiment.runs },
        honesty: experiment.honesty,
    }
}

impl Composed {
    fn add(
        &mut self,
        all: &Catalogue,
        candidate: &Candidate,
        experiment: &Experiment,
        (size, place): (&str, f64),
    ) -> Result<()> {
        let Some(phases) = verbs::phases(candidate, experiment) else {
            return Ok(());
        };
        let many = experiment.together || phases == [verbs::DETACH];
        if many && candidate.most.is_some_and(|most| place > most) {
            return Ok(());
        }
        let of = experiment.image_of(size);
        if !candidate.images.is_empty() && !candidate.images.iter().any(|image| image == of) {
            return Ok(());
        }
        let image = match phases.as_slice() {
            [only] if [verbs::LOAD, verbs::PULL].contains(&&**only) => self.unloaded(all, of)?,
            _ => self.image(all, candidate, of)?,
        };
        let splice = Splice::new(candidate, experiment, &image, size);
        let timed = verbs::timed(candidate, experiment, &phases, &splice)?;
        let (laps, mut steps): (Vec<String>, Vec<Step>) = timed.into_iter().unzip();
        let Step::Run(argv) = steps.remove(0) else {
            bail!(
                "the candidate {} cannot be measured with {}: its first step on the clock is no command",
                candidate.name,
                experiment.name
            );
        };
        let number = place.max(1.0) as usize;
        let times = if phases == [verbs::DETACH] { number } else { 1 };
        let name = Cell::name_of(&experiment.name, size, &candidate.name);
        self.scenario.candidates.push(scenario::Candidate {
            name: name.clone(),
            argv,
            before: verbs::before(candidate, experiment, &phases, &splice),
            then: steps,
            after: verbs::after(candidate, experiment, &phases, &splice),
            times,
            together: if experiment.together { number } else { 1 },
            leaves: 0,
            idle: experiment.quantity().rests().then(|| "*".to_owned()),
            figure: experiment.figure.clone(),
            further: all.labels(&experiment.name),
            adds: !experiment.under.is_empty(),
            every: 1,
            as_user: candidate.as_user,
            needs: experiment.needs.clone(),
            env: candidate.env.clone(),
            expect: Expectation {
                exit: experiment.exit,
                stdout: Text::Contains(experiment.contains.clone()),
            },
        });
        self.cells.push(Cell {
            name,
            candidate: candidate.name.clone(),
            experiment: experiment.name.clone(),
            size: size.to_owned(),
            place,
            laps: std::iter::repeat_n(laps, times).flatten().collect(),
        });
        Ok(())
    }

    /// Adds the archive of an image that is loaded on the clock, and returns the image's name.
    fn unloaded(&mut self, all: &Catalogue, image: &str) -> Result<String> {
        self.tree(all, image)?;
        let archives = &mut self.scenario.apparatus.archives;
        archives
            .entry(image.to_owned())
            .or_insert_with(|| Archive::of_tree(&format!("bench/{image}:1"), image));
        Ok(image.to_owned())
    }

    /// Adds the tree of an image.
    fn tree(&mut self, all: &Catalogue, image: &str) -> Result<()> {
        let tree = all
            .images
            .get(image)
            .with_context(|| format!("find the image {image}"))?;
        let trees = &mut self.scenario.trees;
        trees.entry(image.to_owned()).or_insert_with(|| tree.clone());
        Ok(())
    }

    /// Returns the place of an image in the store of a candidate, and adds what brings it there.
    fn image(&mut self, all: &Catalogue, candidate: &Candidate, image: &str) -> Result<String> {
        self.tree(all, image)?;
        let named = |text: &String| text.replace("{image}", image);
        if let Some(bundle) = &candidate.bundle {
            let name = format!("{}-{image}", candidate.name);
            self.scenario.trees.entry("nothing".to_owned()).or_default();
            let mut patch = bundle.patch.clone();
            if patch.is_null() {
                patch = serde_json::json!({});
            }
            patch["root"] = serde_json::json!({"path": format!("{{tree:{image}}}"), "readonly": false});
            self.scenario
                .bundles
                .entry(name.clone())
                .or_insert_with(|| Bundle {
                    spec: bundle.spec.clone(),
                    tree: "nothing".to_owned(),
                    args: bundle.args.clone(),
                    binds: Vec::new(),
                    patch,
                });
            return Ok(format!("{{bundle:{name}}}"));
        }
        let value = named(&candidate.image);
        if candidate.loads.is_empty() {
            return Ok(value);
        }
        let archive = format!("{{archive:{image}}}");
        if candidate
            .loads
            .iter()
            .map(named)
            .any(|word| word.contains(&archive))
        {
            let archives = &mut self.scenario.apparatus.archives;
            archives
                .entry(image.to_owned())
                .or_insert_with(|| Archive::of_tree(&format!("bench/{image}:1"), image));
        }
        let run: Vec<String> = Splice::of(candidate)
            .words(&candidate.loads)
            .iter()
            .map(named)
            .collect();
        let services = &mut self.scenario.apparatus.services;
        let same = |service: &&Service| service.run.first() == Some(&run) && service.value == value;
        if let Some(service) = services.iter().find(same) {
            return Ok(format!("{{have:{}}}", service.name));
        }
        let name = format!("{}-{image}", candidate.name);
        services.push(Service::of_command(&name, &value, run));
        Ok(format!("{{have:{name}}}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Composes everything, also what cannot run here, with programs that every machine has.
    fn composed() -> Composed {
        let mut all = Catalogue::read(None).unwrap();
        for candidate in &mut all.candidates {
            candidate.needs.clear();
        }
        compose(&all, false, 1000, "v2").unwrap()
    }

    fn cell<'a>(composed: &'a Composed, name: &str) -> &'a scenario::Candidate {
        composed
            .scenario
            .candidates
            .iter()
            .find(|one| one.name == name)
            .unwrap()
    }

    fn told(steps: &[Step]) -> String {
        steps.iter().map(Step::told).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn what_is_on_the_clock() {
        let all = composed();
        let nginx = told(&cell(&all, "nginx-load:c64-r10000/tote").then);
        assert!(
            nginx.contains("$(echo c64-r10000 |") && nginx.contains(":18080/index.html"),
            "{nginx}"
        );
        let database = cell(&all, "postgres-read:t1-c4/docker").argv.join(" ");
        assert!(database.contains("127.0.0.1:18080:5432"), "{database}");
        let density = cell(&all, "density:30/podman");
        assert_eq!((density.times, density.idle.as_deref()), (30, Some("*")));
        assert!(
            told(&density.after).contains("rm -f -t 0 {id}-{n}"),
            "{}",
            told(&density.after)
        );
        let laps = &all
            .cells
            .iter()
            .find(|cell| cell.name == density.name)
            .unwrap()
            .laps;
        assert_eq!(laps.len(), 30);
        let load = cell(&all, "load/docker");
        assert!(
            load.argv.join(" ").ends_with("--input {archive:bulk}"),
            "{:?}",
            load.argv
        );
        let size = cell(&all, "image-size/tote").argv.join(" ");
        assert!(
            size.contains(" sh {disk:home}/tote {tote} --root {disk:home}/tote load"),
            "{size}"
        );
        let prime = cell(&all, "sysbench-cpu/crun");
        assert_eq!(prime.further, ["95th percentile:"], "another experiment shows it");
        let calls = cell(&all, "system-calls/crun");
        assert!(
            calls.adds && calls.argv.join(" ").contains("perf stat"),
            "{:?}",
            calls.argv
        );
        assert!(
            calls
                .then
                .iter()
                .filter_map(Step::argv)
                .all(|argv| argv[0] == "sh"),
            "{}",
            told(&calls.then)
        );
        for (name, _) in all
            .scenario
            .trees
            .iter()
            .filter(|(_, tree)| tree.programs.is_empty())
        {
            assert_eq!(name, "nothing");
        }
    }

    #[test]
    fn a_container_that_is_talked_to_is_there_first_and_goes_last() {
        let all = composed();
        let ping = cell(&all, "ping-peer:p100/tote");
        let before = told(&ping.before);
        let peer = before.find("{id}-peer").unwrap();
        assert!(peer < before.find("create --name {id} ").unwrap(), "{before}");
        assert!(
            ping.before
                .iter()
                .any(|step| matches!(step, Step::Note(note) if note.name == "peer"))
        );
        assert!(ping.argv.join(" ").contains("{noted:peer}"), "{:?}", ping.argv);
        assert!(
            told(&ping.after).ends_with("rm -f -t 0 {id}-peer"),
            "{}",
            told(&ping.after)
        );
    }

    #[test]
    fn candidates_are_asked_only_for_what_they_can() {
        let all = composed();
        let has = |name: &str| all.cells.iter().any(|cell| cell.name == name);
        assert!(has("concurrency:4/tote-vm") && !has("concurrency:8/tote-vm"));
        assert!(
            has("disk-write:cached/host") && has("disk-write:cached/crun"),
            "what the command removes"
        );
        assert!(!has("disk-write:cached/bubblewrap") && !has("db-write:xs/crun"));
        assert!(!has("load/tote-rootless") && !has("load/crun") && !has("ping-gateway:p100/crun"));
        assert!(has("debug/tote") && has("debug/host") && !has("debug/podman"));
        assert!(has("run/tote-pool") && !has("memory/tote-pool"));
        assert!(has("debug/cntr") && !has("memory/cntr") && !has("run/cntr"));
        assert!(has("run/tote-slim") && has("image-size/tote-slim") && !has("io-read:10/tote-slim"));
        assert!(has("load-distribution/podman-btrfs") && !has("image-size/podman-btrfs"));
        assert!(
            !all.cells.iter().any(|cell| cell.experiment == "processor"),
            "it shows the runs of another one"
        );
        assert!(
            all.series
                .iter()
                .any(|series| series.name == "processor" && series.source() == "run")
        );
    }
}
