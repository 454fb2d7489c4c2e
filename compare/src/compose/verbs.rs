//! From verbs of a candidate to steps on the clock and around it.

use super::PORT;
use super::splice::Splice;
use crate::catalogue::{Candidate, Experiment};
use anyhow::{Context, Result};
use bench::scenario::AsUser;
use bench::step::{Answer, Note, Step};

/// Verbs of the life of a container, all of which the verb `run` can replace.
const LIFE: [&str; 6] = ["create", "start", "exec", "stop", "remove", "run"];

/// The phase in which a candidate loads the image.
pub(super) const LOAD: &str = "load";

/// The verb that fetches the image from a registry, which has it.
pub(super) const PULL: &str = "pull";

/// The verb that starts a container with a command of its own and leaves it running.
pub(super) const DETACH: &str = "detach";

/// The word that becomes the directory in which a candidate keeps its images.
const STORE: &str = "{store}";

/// Word at the end of the name of the container that another one talks to.
const PEER: &str = "peer";

/// Chooses the verbs on the clock: those of the experiment, or `run` alone for a candidate that knows no other; `None`
/// if the candidate cannot do it.
pub(super) fn phases(candidate: &Candidate, experiment: &Experiment) -> Option<Vec<String>> {
    let has = |verb: &str| !candidate.verb(verb).is_empty();
    let named = |name: &str| experiment.phases == [name];
    let detaches = has(DETACH) && has("clear");
    if !is_suited(candidate, experiment) || (!experiment.peer.is_empty() && !detaches) {
        return None;
    }
    if named(PULL) {
        let own = candidate.as_user == AsUser::Root && has(PULL) && has("unpull");
        return own.then(|| experiment.phases.clone());
    }
    if named(LOAD) {
        let own = candidate.as_user == AsUser::Root && !candidate.loads.is_empty() && has("unload");
        return own.then(|| experiment.phases.clone());
    }
    if named(DETACH) && !detaches {
        return None;
    }
    if experiment.phases.iter().all(|verb| has(verb)) {
        let in_container = is_inside(&experiment.phases) && has("create");
        return (!in_container || has("start")).then(|| experiment.phases.clone());
    }
    let run = "run".to_owned();
    let alone = experiment.answer.is_none()
        && experiment.client.is_empty()
        && experiment.peer.is_empty()
        && !experiment.quantity().rests()
        && !experiment.together
        && experiment.phases.iter().all(|verb| LIFE.contains(&&**verb));
    if alone && has(&run) {
        return Some(vec![run]);
    }
    let whole = ["create", "start", "exec", "stop", "remove"].map(str::to_owned);
    let replaceable = experiment.phases == [run] && !experiment.together;
    (replaceable && whole.iter().all(|verb| has(verb))).then(|| whole.to_vec())
}

/// True if the candidate has the network that an experiment asks for, a place for what it writes, and a store that can be looked at.
fn is_suited(candidate: &Candidate, experiment: &Experiment) -> bool {
    let network = candidate.words.contains_key(&experiment.network);
    let publishes =
        !experiment.publish || (candidate.words.get("publish")).is_some_and(|words| !words.is_empty());
    // What is written into a root that all runs share is there for the next one, which would measure something else.
    let keeps = match candidate.driver.as_str() {
        "read-only root" => true,
        "shared root" => !experiment.tidies,
        _ => false,
    };
    let stores = !experiment.under.iter().any(|word| word == STORE)
        || candidate
            .words
            .get("store")
            .is_some_and(|words| !words.is_empty());
    network && publishes && stores && !(experiment.writes && keeps)
}

/// True if the first verb enters a container that runs.
fn is_inside(phases: &[String]) -> bool {
    phases
        .first()
        .is_some_and(|first| first == "exec" || first == "debug")
}

/// Lists the steps on the clock, each with its phase.
pub(super) fn timed(
    candidate: &Candidate,
    experiment: &Experiment,
    phases: &[String],
    splice: &Splice,
) -> Result<Vec<(String, Step)>> {
    let above = splice.words(&experiment.under);
    if phases == [LOAD] {
        let load = Step::Run(splice.words(&candidate.loads));
        return Ok(vec![(LOAD.to_owned(), under(&above, load))]);
    }
    let mut timed: Vec<(String, Step)> = Vec::new();
    for phase in phases {
        for step in &candidate.verbs[phase] {
            timed.push((phase.clone(), under(&above, splice.step(step))));
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

/// Puts a command behind the words of another one that counts what it does.
fn under(words: &[String], step: Step) -> Step {
    match step {
        Step::Run(argv) if !words.is_empty() => Step::Run(words.iter().cloned().chain(argv).collect()),
        step => step,
    }
}

/// Lists the steps before the clock: preparations, the container that is talked to, and the one that is entered.
pub(super) fn before(
    candidate: &Candidate,
    experiment: &Experiment,
    phases: &[String],
    splice: &Splice,
) -> Vec<Step> {
    let verb = |name: &str| candidate.verb(name).iter();
    let mut steps: Vec<Step> = verb("prepare").map(|step| splice.step(step)).collect();
    if !experiment.peer.is_empty() {
        let peer = splice.beside(&experiment.peer, PEER);
        steps.extend(verb(DETACH).map(|step| peer.step(step)));
        let asked = peer.beside(&["/bin/busybox", "hostname", "-i"].map(str::to_owned), PEER);
        for step in verb("exec") {
            if let Step::Run(argv) = asked.step(step) {
                let name = format!("{{id}}-{PEER}");
                let argv = argv.iter().map(|word| word.replace("{id}", &name)).collect();
                steps.push(Step::Note(Note {
                    name: PEER.to_owned(),
                    argv,
                }));
            }
        }
    }
    if is_inside(phases) {
        steps.extend(
            ["create", "start"]
                .into_iter()
                .flat_map(verb)
                .map(|step| splice.step(step)),
        );
    }
    steps
}

/// Lists the steps after the clock, which clean up.
pub(super) fn after(
    candidate: &Candidate,
    experiment: &Experiment,
    phases: &[String],
    splice: &Splice,
) -> Vec<Step> {
    let verb = |name: &str| candidate.verb(name).iter();
    let own = match phases {
        [only] if only == LOAD => "unload",
        [only] if only == PULL => "unpull",
        [only] if only == DETACH => "clear",
        _ => "clean",
    };
    let mut steps: Vec<Step> = verb(own).map(|step| splice.step(step)).collect();
    if !experiment.peer.is_empty() {
        let peer = splice.beside(&experiment.peer, PEER);
        steps.extend(verb("clear").map(|step| peer.step(step)));
    }
    steps
}
