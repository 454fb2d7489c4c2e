//! Trial of one point: the scenario's command with one fault, and the checks after it.

use super::call::Call;
use super::scenario::{Act, Fact, Scenario};
use super::stage::Stage;
use super::tracer::{self, Deed, End, Fault, Outcome, Plan};
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

/// Outcome of one point.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// Call that was the process's last, or failed, and its number; `None` if the command made no
    /// such call this time.
    pub(crate) hit: Option<(usize, Call)>,
    /// Lost, left or wrong state, one line each.
    pub(crate) findings: Vec<String>,
    /// Standard error of the command.
    pub(crate) said: String,
}

/// Run of the command without a fault.
#[derive(Debug)]
pub(crate) struct Undisturbed {
    /// Calls of each process.
    pub(crate) calls: Vec<Vec<Call>>,
    /// Texts by which a run with a fault that ends with 0 is compared.
    pub(crate) result: Vec<String>,
}

/// Records the calls and the result of the command without a fault.
///
/// # Errors
/// Fails if even this run has findings: the scenario, the model or the engine is wrong then.
pub(crate) fn record(
    stage: &Stage<'_>,
    tote: &Path,
    scenario: &Scenario,
    limit: Duration,
) -> Result<Undisturbed> {
    let mut result = Vec::new();
    let (outcome, trial) = run(stage, tote, scenario, (None, limit), &mut |found| result = found)?;
    if !trial.findings.is_empty() {
        let found = trial.findings.join("\n  ");
        anyhow::bail!(
            "{}: without any fault:\n  {found}\n{}",
            scenario.name,
            trial.said.trim()
        );
    }
    Ok(Undisturbed {
        calls: outcome.calls,
        result,
    })
}

/// Injects one fault, and checks the state afterwards. A command that says with 0 that it has done its work must have the result of
/// the undisturbed run: a file that it left out because of an error would be seen in no other way.
///
/// # Errors
/// Fails if the stage cannot be examined.
pub(crate) fn attempt(
    stage: &Stage<'_>,
    tote: &Path,
    scenario: &Scenario,
    (fault, limit): (Fault, Duration),
    expected: &[String],
) -> Result<Trial> {
    let mut differs = None;
    let mut compare = |found: Vec<String>| {
        let mut pairs = expected.iter().zip(&found);
        differs = pairs.find(|(expected, found)| expected != found).map(|(expected, found)| {
            format!("the command says that it has done its work, but the result is {found:?} in place of {expected:?}")
        });
    };
    let mut trial = run(stage, tote, scenario, (Some(fault), limit), &mut compare)?.1;
    trial.findings.extend(differs);
    Ok(trial)
}

/// Returns what a command that has succeeded said, if it always says the same, and what shows its work.
fn result(stage: &Stage<'_>, scenario: &Scenario, outcome: &Outcome) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    if scenario.same {
        texts.push(without_ids(&outcome.out));
    }
    for words in scenario.shows {
        let shown = stage.tote(words)?;
        texts.push(format!("{:?} {}", shown.code, without_ids(&shown.out)));
    }
    Ok(texts)
}

/// Replaces ids, which are new each time: twelve hexadecimal digits and more.
fn without_ids(text: &str) -> String {
    let mut shown = String::new();
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let digits = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_id = digits.len() >= 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        shown.push_str(if is_id { "ID" } else { digits });
        shown.push_str(&word[digits.len()..]);
    }
    shown
}

fn run(
    stage: &Stage<'_>,
    tote: &Path,
    scenario: &Scenario,
    (fault, limit): (Option<Fault>, Duration),
    compare: &mut dyn FnMut(Vec<String>),
) -> Result<(Outcome, Trial)> {
    for act in scenario.before {
        stage.act(*act)?;
    }
    let plan = Plan {
        fault,
        front: scenario.front,
        lingers: scenario.lingers,
        limit,
        scratch: stage.scratch().to_owned(),
    };
    let outcome = tracer::run(stage.waiting, tote, &stage.words(scenario.command), &plan)?;
    stage.settle()?;
    let mut findings = Vec::new();
    judge(stage, scenario, fault, &outcome, &mut findings)?;
    let is_killed = matches!(fault, Some(Fault { deed: Deed::Kill, .. })) && outcome.hit.is_some();
    if matches!(outcome.end, End::Code(0)) && !scenario.refused && !is_killed {
        compare(result(stage, scenario, &outcome)?);
    }
    let mut after = |act: Act| {
        if let Err(error) = stage.act(act) {
            findings.push(format!("afterwards {error:#}"));
        }
    };
    for act in scenario.sweep {
        after(*act);
    }
    let mut strangers = stage.strangers()?;
    if strangers.iter().any(|stranger| stranger.starts_with("store/")) {
        // Image commands clean up the store, so the check gives one a chance, whatever command was tried.
        stage.act(Act::Tote(&["image", "prune", "-f"]))?;
        strangers = stage.strangers()?;
    }
    findings.extend(strangers);
    for name in scenario.keeps {
        kept(stage, name, &mut findings)?;
    }
    let mut after = |act: Act| {
        if let Err(error) = stage.act(act) {
            findings.push(format!("at the end {error:#}"));
        }
    };
    for act in scenario.undo {
        after(*act);
    }
    after(Act::Tote(&["store", "verify", "--full"]));
    findings.extend(stage.changes()?);
    let trial = Trial {
        hit: outcome.hit.clone(),
        findings,
        said: outcome.err.clone(),
    };
    Ok((outcome, trial))
}

/// Checks that the command's answer is true.
fn judge(
    stage: &Stage<'_>,
    scenario: &Scenario,
    fault: Option<Fault>,
    outcome: &Outcome,
    findings: &mut Vec<String>,
) -> Result<()> {
    let killed = matches!(fault, Some(Fault { deed: Deed::Kill, .. }));
    match outcome.end {
        End::Hung => findings.push("the command hangs".to_owned()),
        _ if killed && outcome.hit.is_some() => {}
        End::Killed(signal) => findings.push(format!("the command is ended by {signal}")),
        End::Code(0) if scenario.refused => {
            findings.push("the command should refuse, and says nothing".to_owned())
        }
        End::Code(0) => {
            for fact in scenario.done {
                if let Some(wrong) = is_wrong(stage, *fact, outcome)? {
                    findings.push(format!("the command says that it has done its work, but {wrong}"));
                }
            }
        }
        // The failed call was a write to standard error, so the command cannot report anything.
        End::Code(_)
            if outcome
                .hit
                .as_ref()
                .is_some_and(|(_, call)| call.object.ends_with("/err")) => {}
        End::Code(code) if outcome.err.trim().is_empty() => {
            findings.push(format!("the command ends with {code} and says nothing"));
        }
        End::Code(code) if outcome.err.contains("panicked") => {
            findings.push(format!("the command panics ({code}): {}", outcome.err.trim()));
        }
        End::Code(code) if fault.is_none() && !scenario.refused => {
            findings.push(format!("the command ends with {code}: {}", outcome.err.trim()));
        }
        End::Code(_) => {}
    }
    Ok(())
}

/// Explains why a fact is not true; `None` if it is true.
fn is_wrong(stage: &Stage<'_>, fact: Fact, outcome: &Outcome) -> Result<Option<String>> {
    let listed = |words: &[&str], line: &str| -> Result<bool> {
        Ok(stage.tote(words)?.out.lines().any(|listed| listed == line))
    };
    let containers = &["ps", "-a", "--format", "{{.Names}} {{.State}}"];
    let images = &["images", "--format", "{{.Repository}}:{{.Tag}}"];
    let volumes = &["volume", "ls", "-q"];
    let pods = &["pod", "ls", "--format", "{{.Name}}"];
    let has = |path: String| stage.root().join(path).exists();
    let (wanted, there, what) = match fact {
        Fact::Container(name, state) => {
            let line = format!("{name} {state}");
            (true, listed(containers, &line)?, format!("container {line}"))
        }
        Fact::NoContainer(name) => (false, has(format!("names/{name}")), format!("container {name}")),
        Fact::Volume(name) => (true, listed(volumes, name)?, format!("volume {name}")),
        Fact::NoVolume(name) => (false, listed(volumes, name)?, format!("volume {name}")),
        Fact::Image(name) => (true, listed(images, name)?, format!("image {name}")),
        Fact::NoImage(name) => (false, listed(images, name)?, format!("image {name}")),
        Fact::Pod(name) => (true, listed(pods, name)?, format!("pod {name}")),
        Fact::NoPod(name) => (false, listed(pods, name)?, format!("pod {name}")),
        Fact::Pool(name) => (
            true,
            has(format!("pools/{name}/pool.json")),
            format!("pool {name}"),
        ),
        Fact::NoPool(name) => (false, has(format!("pools/{name}")), format!("pool {name}")),
        Fact::Network(name) => (
            true,
            has(format!("networks/{name}/network.json")),
            format!("network {name}"),
        ),
        Fact::NoNetwork(name) => (false, has(format!("networks/{name}")), format!("network {name}")),
        Fact::File(name) => {
            let full = std::fs::metadata(stage.file(name)).is_ok_and(|file| file.len() > 0);
            (true, full, format!("file {name} with something in it"))
        }
        Fact::Says(text) => (true, outcome.out.contains(text), format!("output {text:?}")),
    };
    Ok(match (wanted, there) {
        (true, false) => Some(format!("there is no {what}")),
        (false, true) => Some(format!("there is still {what}")),
        _ => None,
    })
}

/// Checks a container that must survive every fault, and its file.
fn kept(stage: &Stage<'_>, name: &str, findings: &mut Vec<String>) -> Result<()> {
    let asked = stage.tote(&["inspect", "--format", "{{.Id}}", name])?;
    let mark = stage
        .root()
        .join("containers")
        .join(asked.out.trim())
        .join("upper/mark");
    match std::fs::read_to_string(&mark) {
        _ if asked.code != Some(0) => {
            findings.push(format!("the container {name} is lost: {}", asked.err.trim()))
        }
        Ok(text) if text == "precious\n" => {}
        Ok(text) => findings.push(format!("the file of the container {name} says {text:?}")),
        Err(error) => findings.push(format!("the file of the container {name} is lost: {error}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::without_ids;

    #[test]
    fn ids_are_not_compared_and_numbers_are() {
        for (one, other, same) in [
            ("3 nodes, 3 of them new\n", "2 nodes, 2 of them new\n", false),
            (
                "sha256:0123456789abcdef is made\n",
                "sha256:fedcba9876543210 is made\n",
                true,
            ),
            ("0123456789ab", "0123456789ac", true),
            ("0123456789a", "0123456789b", false),
            ("/bin/sh\n/lib/libc.so.6\n", "/bin/sh\n", false),
        ] {
            assert_eq!(without_ids(one) == without_ids(other), same, "{one} {other}");
        }
    }
}
