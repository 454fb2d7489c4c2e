//! `cargo xtask guest [--tote PATH] [--accel NAME] [--slow N] [FILTER]`: runs the end-to-end tests on a machine
//! with systemd.
//!
//! The machine is a Debian with only cgroup v2, under its own systemd, in qemu. The tests run once as root, and
//! once as a user in a cgroup that systemd has delegated. Most development machines have another layout, and the
//! tests use the one that they find. Nothing of the machine enters the project: packages come from a mirror of
//! Debian's, and all files are in `target/guest`. An emulated machine is ten to twenty times as slow, so this is
//! not a part of `cargo xtask ci`.

mod image;

use crate::build::{ENGINE, development, release};
use crate::program::{program, succeed, tee};
use crate::test::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Needed programs, with the Debian packages that have them.
const NEEDS: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("mmdebstrap", "mmdebstrap"),
    ("mke2fs", "e2fsprogs"),
    ("tar", "tar"),
];

/// User of the second run; created with the image.
const USER: &str = "tote-test";

/// Options of the command.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    /// A binary, with the test runner and the build with fault points beside it; built if none is named.
    tote: Option<PathBuf>,
    accel: String,
    slow: u32,
    filter: String,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self {
            tote: None,
            accel: "tcg,thread=multi".to_owned(),
            slow: 10,
            filter: String::new(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .with_context(|| format!("guest: {word} needs a value"))
            };
            match *word {
                "--tote" => options.tote = Some(value()?.into()),
                "--accel" => options.accel = (*value()?).to_owned(),
                "--slow" => options.slow = value()?.parse().context("guest: --slow takes a number")?,
                option if option.starts_with('-') => bail!("guest: no option {option}"),
                filter => {
                    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
                    if !filter.chars().all(fits) {
                        bail!("guest: {filter:?} is in no test's name");
                    }
                    options.filter = filter.to_owned();
                }
            }
        }
        Ok(options)
    }
}

pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result<ExitCode> {
    let options = Options::parse(words)?;
    let missing: Vec<_> = NEEDS
        .iter()
        .filter(|(name, _)| !is_there(name))
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        bail!("guest: install the Debian packages {}", missing.join(" "));
    }
    let dir = workspace.target.join("guest");
    image::make(&dir)?;
    share(&dir, &binaries(workspace, options.tote.as_deref())?, &options)?;
    let mut tally = Tally::default();
    let mut runs = 0;
    let status = tee(&mut boot(&dir, &options.accel), |line| {
        if let Some(counted) = Tally::parse_e2e(line) {
            tally += counted;
            runs += 1;
        }
    })?;
    println!("{tally}");
    if !status.success() || runs != 2 {
        bail!(
            "guest: {runs} of 2 runs came to an end ({status}); what the machine said is in {}/console.log",
            dir.display()
        );
    }
    Ok(if tally.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|dir| dir.join(name).metadata().is_ok_and(|found| found.is_file()))
}

/// Returns the tested binary and the tests', with their names in the guest.
fn binaries(workspace: &Workspace, given: Option<&Path>) -> Result<Vec<(PathBuf, &'static str)>> {
    let built =
        |tote: PathBuf, runner, mortal| vec![(tote, "tote"), (runner, "tote-e2e"), (mortal, "tote-mortal")];
    let list = match given {
        Some(tote) => built(
            tote.to_owned(),
            tote.with_file_name("tote-e2e"),
            tote.with_file_name("tote-mortal"),
        ),
        None => built(
            release(workspace, ENGINE)?,
            release(workspace, "tote-e2e")?,
            development(workspace, ENGINE)?,
        ),
    };
    Ok(list
        .into_iter()
        .filter(|(path, _)| path.metadata().is_ok_and(|found| found.is_file()))
        .collect())
}

/// Writes the second disk: a tar archive of the binaries and of the script.
fn share(dir: &Path, binaries: &[(PathBuf, &str)], options: &Options) -> Result<()> {
    let stage = dir.join("share");
    drop(std::fs::remove_dir_all(&stage));
    std::fs::create_dir_all(&stage).with_context(|| stage.display().to_string())?;
    for (path, name) in binaries {
        succeed(program("strip").arg("-o").arg(stage.join(name)).arg(path))?;
    }
    std::fs::write(stage.join("run"), script(options)).context("write the script")?;
    let archive = dir.join("share.raw");
    succeed(
        program("tar")
            .arg("-C")
            .arg(&stage)
            .arg("-cf")
            .arg(&archive)
            .arg("--owner=0")
            .arg("--group=0")
            .arg("."),
    )?;
    // qemu needs whole sectors; records of tar have 10 KiB, so the archive consists of whole sectors.
    std::fs::remove_dir_all(&stage).with_context(|| stage.display().to_string())
}

/// Builds the guest's script: the tests as root, and as a user in a unit of its own systemd.
fn script(options: &Options) -> String {
    let tests = format!("/opt/tote/tote-e2e --tote /opt/tote/tote {}", options.filter);
    let mut script = format!(
        "export TOTE_TEST_SLOW={}\nmodprobe -aq overlay loop btrfs xfs erofs\n",
        options.slow
    );
    // The script goes on after a failure; failures are counted by the output.
    _ = writeln!(script, "{tests}\n");
    _ = write!(
        script,
        "uid=$(id -u {USER})\nsetpriv --reuid {USER} --regid {USER} --init-groups --reset-env env HOME=/home/{USER} \
         XDG_RUNTIME_DIR=/run/user/$uid PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin \
         systemd-run --user --quiet --wait --pipe -p Delegate=yes -E TOTE_TEST_SLOW={} -E PATH \
         --working-directory=/home/{USER} {tests}\n",
        options.slow
    );
    script
}

/// Builds the command of the machine: changes to its disk are discarded, its console is a file, and the tests'
/// output becomes this command's.
fn boot(dir: &Path, accel: &str) -> std::process::Command {
    let mut qemu = program("qemu-system-x86_64");
    let drive = |name: &str, rest: &str| format!("file={}/{name},if=virtio,format=raw{rest}", dir.display());
    qemu.args([
        "-accel", accel, "-cpu", "max", "-smp", "2", "-m", "2048", "-nic", "none", "-display", "none",
    ]);
    qemu.args([
        "-monitor",
        "none",
        "-no-reboot",
        "-append",
        "root=/dev/vda rw console=ttyS0 mitigations=off quiet",
    ]);
    qemu.arg("-kernel")
        .arg(dir.join("vmlinuz"))
        .arg("-initrd")
        .arg(dir.join("initrd"));
    qemu.arg("-drive").arg(drive("disk.raw", ",snapshot=on"));
    qemu.arg("-drive").arg(drive("share.raw", ",readonly=on"));
    qemu.arg("-serial")
        .arg(format!("file:{}", dir.join("console.log").display()));
    qemu.args(["-serial", "stdio"]);
    qemu
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let options = Options::parse(&["--slow", "3", "--accel", "kvm", "limits::"]).unwrap();
        assert_eq!(
            (options.slow, options.accel.as_str(), options.filter.as_str()),
            (3, "kvm", "limits::")
        );
        for words in [&["--slow"][..], &["--slow", "much"], &["--what"], &["a;b"]] {
            Options::parse(words).unwrap_err();
        }
    }

    #[test]
    fn both_runs_are_of_the_same_tests() {
        let script = script(&Options::parse(&["--slow", "3", "pods"]).unwrap());
        assert_eq!(
            script.matches("tote-e2e --tote /opt/tote/tote pods\n").count(),
            2,
            "{script}"
        );
        assert_eq!(script.matches("TOTE_TEST_SLOW=3").count(), 2, "{script}");
    }
}
