//! All tests of a run, one after the other, and the totals at the end.

use super::attempt::Conditions;
use super::options::Options;
use super::passable::Passable;
use super::suite::Verdict;
use crate::enclosure::Before;
use crate::test::Tally;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

/// Parent group of many of runc's tests, which no runtime has to remove.
const SUITES_OWN: &[&str] = &["runc-cgroups-integration-test"];

/// Runs the tests that the options choose. The last line of output has the totals.
///
/// The run stops if the mount namespace is damaged: some runtimes have pivoted the one they were called in, and
/// then no test can run.
///
/// Returns exit code 0 if every test on the list passed; without a list, if no test failed.
pub(super) fn run(options: &Options, scratch: &Path) -> Result<ExitCode> {
    let passable = options.passable.as_deref().map(Passable::read).transpose()?;
    let (Some(runtime), Some(logs)) = (&options.runtime, &options.logs) else {
        bail!("conformance: --inside is not for people");
    };
    let wanted = |test: &str| {
        options
            .filter
            .as_deref()
            .is_none_or(|filter| test.contains(filter))
    };
    let mut tests = options.suite.tests(&options.checkout)?;
    tests.retain(|test| wanted(test));

    let conditions = Conditions {
        suite: options.suite,
        checkout: &options.checkout,
        runtime,
        directory: scratch.join("tmp"),
        limit: options.limit,
    };
    let before = Before::look(SUITES_OWN)?;
    let mut tally = Tally::default();
    let mut passed = BTreeSet::new();
    let mut leaking = 0;
    for test in tests {
        let attempt = conditions.attempt(&test, &logs.join(file_name(&test)));
        let broken = !logs.metadata().is_ok_and(|found| found.is_dir());
        let verdict = match attempt {
            Err(_) if broken => {
                Verdict::Failed("the root of the host was replaced, the run ends here".to_owned())
            }
            attempt => attempt?,
        };
        count(&mut tally, &verdict);
        report(&test, &verdict);
        if broken {
            break;
        }
        let left = before.restore()?;
        empty(&conditions.directory)?;
        leaking += usize::from(!left.is_empty());
        for what in left {
            println!("        left behind: {what}");
        }
        if verdict == Verdict::Passed {
            passed.insert(test);
        }
    }
    println!("tests that left something behind: {leaking}");
    let compared = passable.map(|passable| passable.compare(&passed, wanted));
    let sound = match &compared {
        None => tally.failed == 0,
        Some(difference) => difference.lost.is_empty(),
    };
    if let Some(difference) = compared {
        list("lost", &difference.lost);
        list("won", &difference.won);
    }
    println!("{tally}");
    Ok(if sound && tally != Tally::default() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn count(tally: &mut Tally, verdict: &Verdict) {
    match verdict {
        Verdict::Passed => tally.passed += 1,
        Verdict::Failed(_) => tally.failed += 1,
        Verdict::Skipped(_) => tally.skipped += 1,
    }
}

fn report(test: &str, verdict: &Verdict) {
    match verdict {
        Verdict::Passed => println!("ok      {test}"),
        Verdict::Failed(why) => println!("failed  {test}: {why}"),
        Verdict::Skipped(why) => println!("skipped {test}: {why}"),
    }
}

fn list(what: &str, tests: &[String]) {
    println!("{what}: {}", tests.len());
    for test in tests {
        println!("  {test}");
    }
}

/// Builds the name of a test's log file.
fn file_name(test: &str) -> String {
    format!("{}.log", test.replace('%', "%25").replace('/', "%2F"))
}

/// Removes files that tests left in their directory; their mounts are gone already.
fn empty(directory: &Path) -> Result<()> {
    let read = || format!("read {}", directory.display());
    for entry in std::fs::read_dir(directory).with_context(read)? {
        let path = entry.with_context(read)?.path();
        let removed = match path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            true => std::fs::remove_dir_all(&path),
            false => std::fs::remove_file(&path),
        };
        removed.with_context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        assert_eq!(file_name("kill: runc [a/b]"), "kill: runc [a%2Fb].log");
        assert_ne!(file_name("a/b"), file_name("a%2Fb"));
    }
}
