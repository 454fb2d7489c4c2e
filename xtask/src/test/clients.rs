//! Programs that drive the engine's command line, and that the distribution does not have as they are used: each from the registry in which
//! its users find it, in a directory beside the runner. Nothing is installed on the machine.

use crate::program::{program, succeed};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the directory beside the runner.
const NAME: &str = "clients";

/// Limit of the time that a registry has, for timeout(1).
const SECONDS: &str = "180";

/// Program that is fetched.
struct Client {
    /// Its directory below [`NAME`].
    directory: &'static str,
    /// Package, with the version that the tests know.
    package: &'static str,
}

const CLIENTS: [Client; 1] = [client("podman-compose", "podman-compose==1.6.0")];

const fn client(directory: &'static str, package: &'static str) -> Client {
    Client { directory, package }
}

/// Returns the directory with those programs that can be had. What cannot be had is said, and the tests that need it are skipped.
///
/// # Errors
/// A directory of the build cannot be used.
pub(super) fn beside(runner: &Path) -> Result<PathBuf> {
    let place = runner.with_file_name(NAME);
    fs::create_dir_all(&place).with_context(|| format!("create {}", place.display()))?;
    for client in &CLIENTS {
        let own = place.join(client.directory);
        let list = own.join("package");
        if fs::read_to_string(&list).is_ok_and(|known| known == client.package) {
            continue;
        }
        let new = place.join(format!("{}.new", client.directory));
        for old in [&own, &new] {
            if old.try_exists()? {
                fs::remove_dir_all(old)?;
            }
        }
        fs::create_dir_all(&new)?;
        println!("fetching {}", client.package);
        match client.fetch(&new) {
            Ok(()) => {
                fs::write(new.join("package"), client.package)?;
                fs::rename(&new, &own).context("name the program")?;
            }
            Err(error) => eprintln!("xtask: no {}: {error:#}", client.directory),
        }
    }
    Ok(place)
}

impl Client {
    fn fetch(&self, to: &Path) -> Result<()> {
        succeed(
            program("timeout")
                .args([SECONDS, "pip3", "install", "--quiet", "--no-compile"])
                .args([
                    "--disable-pip-version-check",
                    "--root-user-action=ignore",
                    "--target",
                ])
                .arg(to)
                .arg(self.package),
        )
    }
}
