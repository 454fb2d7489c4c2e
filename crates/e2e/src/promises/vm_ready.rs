//! Kernel, copy of tote for the guests, and templates that the tests of virtual machines share: they are made once in each run,
//! which takes longer than most tests.

use super::vm::kernel;
use crate::context::Context;
use anyhow::{Context as _, Result};
use rustix::fs::FlockOperation;
use std::fs::{self, DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

/// State root, in the run's directory, in which they are made.
const SHARED: &str = "machines";

/// Directory of virtual machines in a state root.
const MACHINES: &str = "vm";

/// Directory of templates in that one.
const TEMPLATES: &str = "templates";

/// Memory of the machines that have a template.
const MEMORIES: [&str; 2] = ["512m", "256m"];

/// Makes a kernel ready in the test's state root.
pub(super) fn boots(cx: &Context) -> Result<()> {
    give(cx, false)
}

/// Makes a kernel ready in the test's state root, and templates: machines with one processor and the usual memory, or 256 MiB, go on
/// from them.
pub(super) fn resumes(cx: &Context) -> Result<()> {
    give(cx, true)
}

fn give(cx: &Context, template: bool) -> Result<()> {
    if cx.root().join(MACHINES).exists() {
        return Ok(());
    }
    let shared = cx.run_directory().join(SHARED);
    fs::create_dir_all(&shared)?;
    // The first test makes them; others that begin meanwhile wait for it.
    let mut lock = File::options()
        .append(true)
        .create(true)
        .open(cx.run_directory().join("machines.lock"))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    let machines = shared.join(MACHINES);
    if lock.metadata()?.len() == 0 {
        let there = cx.at(shared);
        let kernel = kernel()?;
        there.tote(&["vm", "setup", "-q", &kernel]).output()?.exits(0)?;
        for memory in MEMORIES {
            let words = ["vm", "template", "create", "-m", memory];
            there.tote(&words).output()?.exits(0)?;
        }
        lock.write_all(b"made\n")?;
    }
    // tote makes no directory its state root that has files already.
    cx.tote(&["vm", "template", "ls", "-q"]).output()?.exits(0)?;
    link(&machines, &cx.root().join(MACHINES), template)
}

/// Gives a state root the files of another one, but for its locks.
fn link(from: &Path, to: &Path, template: bool) -> Result<()> {
    DirBuilder::new()
        .mode(fs::metadata(from)?.permissions().mode())
        .create(to)
        .with_context(|| format!("create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("list {}", from.display()))? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if name == ".lock" || (name == TEMPLATES && !template) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            link(&path, &to.join(name), template)?;
        } else {
            fs::hard_link(&path, to.join(name)).with_context(|| format!("link {}", path.display()))?;
        }
    }
    Ok(())
}
