//! From the catalogue to a scenario of the harness: a cell is an experiment of one size with one candidate.

use crate::catalogue::{Candidate, Catalogue, Experiment};
use crate::record::{Cell, Series, Subject};
use anyhow::{Context, Result, bail};
use bench::apparatus::{Archive, Plan, Service};
use bench::scenario::{self, Bundle, Expectation, Scenario, Text};
use bench::step::{Answer, Note, Repeat, Step, Together};
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
    let wanted = |experiment: &&Experiment| !quick || experiment.quick > 0;
    let experiments: Vec<&Experiment> = all.experiments.iter().filter(wanted).collect();
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
    // Loading images comes after the start of all daemons.
    for candidate in &all.candidates {
        let runs_here = composed
            .subjects
            .iter()
            .any(|one| one.name == candidate.name && one.skipped.is_none());
        for experiment in experiments.iter().filter(|_| runs_here) {
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
        unit: match (&experiment.figure, experiment.idle) {
            (Some(_), _) => experiment.unit.clone(),
            (None, true) => "MB".to_owned(),
            (None, false) => "ms".to_owned(),
        },
        more_is_better: experiment.figure.is_some(),
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
        let Some(phases) = phases(candidate, experiment) else {
            return Ok(());
        };
        let image = self.image(all, candidate, &experiment.image)?;
        let splice = Splice::new(candidate, experiment, &image, size);
        let timed = timed(candidate, experiment, &phases, &splice)?;
        let (laps, mut steps): (Vec<String>, Vec<Step>) = timed.into_iter().unzip();
        let Step::Run(argv) = steps.remove(0) else {
            bail!(
                "the candidate {} cannot be measured with {}: its first step on the clock is no command",
                candidate.name,
                experiment.name
            );
        };
        let name = Cell::name_of(&experiment.name, size, &candidate.name);
        let clean = candidate
            .verbs
            .get("clean")
            .map(Vec::as_slice)
            .unwrap_or_default();
        self.scenario.candidates.push(scenario::Candidate {
            name: name.clone(),
            argv,
            before: before(candidate, &phases)
                .into_iter()
                .map(|step| splice.step(step))
                .collect(),
            then: steps,
            after: clean.iter().map(|step| splice.step(step)).collect(),
            times: 1,
            together: if experiment.together {
                place.max(1.0) as usize
            } else {
                1
            },
            leaves: 0,
            idle: experiment.idle.then(|| "*".to_owned()),
            figure: experiment.figure.clone(),
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
            laps,
        });
        Ok(())
    }

    /// Returns the place of an image in the store of a candidate, and adds what brings it there.
    fn image(&mut self, all: &Catalogue, candidate: &Candidate, image: &str) -> Result<String> {
        let tree = all
            .images
            .get(image)
            .with_context(|| format!("find the image {image}"))?;
        self.scenario
            .trees
            .entry(image.to_owned())
            .or_insert_with(|| tree.clone());
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
        let splice = Splice {
            lists: candidate.words.clone(),
        };
        let run: Vec<String> = splice.words(&candidate.loads).iter().map(named).collect();
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

/// Chooses the verbs on the clock: those of the experiment, or `run` alone for a candidate that knows no other; `None`
/// if the candidate cannot do it.
fn phases(candidate: &Candidate, experiment: &Experiment) -> Option<Vec<String>> {
    let has = |verb: &String| candidate.verbs.get(verb).is_some_and(|steps| !steps.is_empty());
    let network = candidate.words.contains_key(&experiment.network);
    let publishes = !experiment.publish
        || candidate
            .words
            .get("publish")
            .is_some_and(|words| !words.is_empty());
    // What is written into a root that all runs share is there for the next one, which would measure something else.
    let layered = !["read-only root", "shared root"].contains(&candidate.driver.as_str());
    if !network || !publishes || (experiment.writes && !layered) {
        return None;
    }
    if experiment.phases.iter().all(has) {
        let in_container = experiment.phases.first().is_some_and(|first| first == "exec");
        let made = ["create".to_owned(), "start".to_owned()];
        return (!in_container || made.iter().all(has)).then(|| experiment.phases.clone());
    }
    let run = "run".to_owned();
    let alone = experiment.answer.is_none()
        && experiment.client.is_empty()
        && !experiment.idle
        && !experiment.together;
    if alone && has(&run) {
        return Some(vec![run]);
    }
    let whole = ["create", "start", "exec", "stop", "remove"].map(str::to_owned);
    let replaceable = experiment.phases == [run] && !experiment.together;
    (replaceable && whole.iter().all(has)).then(|| whole.to_vec())
}

/// Lists the steps on the clock, each with its phase.
fn timed(
    candidate: &Candidate,
    experiment: &Experiment,
    phases: &[String],
    splice: &Splice,
) -> Result<Vec<(String, Step)>> {
    let mut timed: Vec<(String, Step)> = Vec::new();
    for phase in phases {
        for step in &candidate.verbs[phase] {
            timed.push((phase.clone(), splice.step(step)));
        }
    }
    if let Some(contains) = &experiment.answer {
        let address = format!("127.0.0.1:{PORT}")
            .parse()
            .context("express an address")?;
        let answer = Answer {
            address,
            contains: contains.clone(),
        };
        timed.push(("response".to_owned(), Step::Answer(answer)));
    }
    if !experiment.client.is_empty() {
        timed.push(("client".to_owned(), Step::Run(splice.words(&experiment.client))));
    }
    Ok(timed)
}

/// Lists the steps that make a container in which the first phase runs.
fn before<'a>(candidate: &'a Candidate, phases: &[String]) -> Vec<&'a Step> {
    if phases.first().is_none_or(|phase| phase != "exec") {
        return Vec::new();
    }
    let verbs = ["create", "start"]
        .into_iter()
        .filter_map(|verb| candidate.verbs.get(verb));
    verbs.flatten().collect()
}

/// Lists of words that take the place of one word.
struct Splice {
    lists: BTreeMap<String, Vec<String>>,
}

impl Splice {
    fn new(candidate: &Candidate, experiment: &Experiment, image: &str, size: &str) -> Self {
        let mut lists = candidate.words.clone();
        let network = lists.get(&experiment.network).cloned().unwrap_or_default();
        lists.insert("network".to_owned(), network);
        if !experiment.publish {
            lists.insert("publish".to_owned(), Vec::new());
        }
        let sized = |word: &String| word.replace("{size}", size);
        lists.insert(
            "command".to_owned(),
            experiment.command.iter().map(sized).collect(),
        );
        lists.insert("image".to_owned(), vec![image.to_owned()]);
        lists.insert("port".to_owned(), vec![PORT.to_owned()]);
        Splice { lists }
    }

    fn words(&self, argv: &[String]) -> Vec<String> {
        let mut words = Vec::with_capacity(argv.len());
        for word in argv {
            let name = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
            match name.and_then(|name| self.lists.get(name)) {
                Some(list) if name != Some("image") => words.extend(self.words(list)),
                Some(list) => words.extend(list.iter().cloned()),
                None => {
                    let image = self.lists.get("image").and_then(|words| words.first());
                    let word = word.replace("{port}", PORT);
                    words.push(image.map_or_else(|| word.clone(), |image| word.replace("{image}", image)));
                }
            }
        }
        words
    }

    fn step(&self, step: &Step) -> Step {
        match step {
            Step::Run(argv) => Step::Run(self.words(argv)),
            Step::Note(Note { name, argv }) => Step::Note(Note {
                name: name.clone(),
                argv: self.words(argv),
            }),
            Step::Repeat(Repeat { times, argv }) => Step::Repeat(Repeat {
                times: *times,
                argv: self.words(argv),
            }),
            Step::Together(Together { together, argv }) => Step::Together(Together {
                together: *together,
                argv: self.words(argv),
            }),
            Step::Wait(_) | Step::Answer(_) | Step::Parallel(_) => step.clone(),
        }
    }
}
