//! `cargo xtask conformance SUITE --checkout DIR …`: what an outside suite says of a runtime.
//!
//! The suite stays where it is: it is a checkout given by path, already built, and nothing of it belongs to this
//! project. It is run in an [`enclosure`], since suites and runtimes alike do to a host what they please: chown its
//! device nodes, leave processes, cgroups and mounts behind. One run at a time, which a lock sees to.
//!
//! The command runs itself twice more, in words that only it uses: `--enter` joins the run's own cgroups and unshares,
//! `--inside` is then alone in its namespaces and runs the tests. docs/conformance.md is for who runs it.

mod attempt;
mod enclosure;
mod hierarchy;
mod leftovers;
mod options;
mod passable;
mod runc_bats;
mod runtime_tools;
mod session;
mod suite;
mod tap;

use crate::build::{ENGINE, release};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use options::Options;
use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Base of everything that a run makes outside of the build directory: the lock, the scratch directory, the cgroups.
const NAME: &str = "tote-conformance";

/// The words by which this command calls itself, and what follows them.
pub(crate) fn stage(words: &[&str]) -> Option<Result<ExitCode>> {
    match words {
        ["--enter", outside, rest @ ..] => Some(Err(enclosure::enter(outside, rest))),
        ["--inside", outside, rest @ ..] => Some(inside(outside, rest)),
        _ => None,
    }
}

/// # Errors
/// Where the suite could not be run; that tests failed is in the exit code.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result<ExitCode> {
    let mut options = Options::parse(words)?;
    options.suite.check(&options.checkout)?;
    if options.runtime.is_none() {
        options.runtime = Some(engine_as_runtime(workspace)?);
    }
    let logs = workspace.target.join("conformance").join(options.suite.name());
    remove_tree(&logs)?;
    std::fs::create_dir_all(&logs).with_context(|| format!("create {}", logs.display()))?;
    options.logs = Some(logs);

    let _lock = lock()?;
    let scratch = std::env::temp_dir().join(NAME);
    remove_tree(&scratch)?;
    create(&scratch, 0o755)?;
    create(&scratch.join("tmp"), 0o1777)?;
    let groups = hierarchy::make_groups(NAME)?;
    let result = enclosure::spawn(&options.words());
    let removed = hierarchy::remove_groups(&groups).and_then(|()| remove_tree(&scratch));
    let code = result?;
    removed?;
    Ok(code)
}

/// Runs the tests; everything around is ours alone.
fn inside(outside: &str, words: &[&str]) -> Result<ExitCode> {
    let options = Options::parse(words)?;
    let scratch = std::env::temp_dir().join(NAME);
    enclosure::furnish(outside, &scratch, options.unified)?;
    session::run(&options, &scratch)
}

/// The engine under the name by which it is an OCI runtime.
fn engine_as_runtime(workspace: &Workspace) -> Result<PathBuf> {
    let engine = release(workspace, ENGINE)?;
    let link = engine.with_file_name("tote-oci");
    match std::fs::remove_file(&link) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", link.display()));
        }
        _ => {}
    }
    symlink(&engine, &link).with_context(|| format!("link {}", link.display()))?;
    Ok(link)
}

/// Suites use the same container names in every run. Given back by the kernel however this process ends.
fn lock() -> Result<File> {
    let path = std::env::temp_dir().join(format!("{NAME}.lock"));
    let file = File::options().append(true).create(true).open(&path);
    let file = file.with_context(|| format!("open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!("{}: another run holds it, wait for its end", path.display()),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("lock {}", path.display())),
    }
}

/// Creates a directory that must not exist, with this mode whatever the umask.
fn create(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    DirBuilder::new()
        .mode(0o700)
        .create(path)
        .and_then(|()| File::open(path))
        .and_then(|directory| directory.set_permissions(std::fs::Permissions::from_mode(mode)))
        .with_context(|| format!("create {}", path.display()))
}

/// Removes a directory and what is in it, where it exists.
fn remove_tree(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
