//! Session of disks: durable state, a workload, pictures, and the check of each picture.

use super::check::{Check, Finding};
use super::commands::Commands;
use super::disk::{Disk, Scratch};
use super::sample::{self, Sample, ran};
use super::workload::Workload;
use super::{Experiment, Kind, Options, word};
use crate::chance::Chance;
use anyhow::Result;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Number of pictures of one disk.
const PICTURES: usize = 10;

/// Durable state of a disk before the commands begin.
#[derive(Clone, Debug)]
pub(super) struct Before {
    /// Image that is tagged [`BASE`]. A container and a volume are named [`KEPT`], a pod [`KEPT_POD`].
    pub(super) base: Sample,
}

pub(super) const BASE: &str = "base:1";
pub(super) const KEPT: &str = "kept";
pub(super) const KEPT_POD: &str = "kept-pod";

/// Totals of all pictures of a file system.
#[derive(Clone, Debug, Default)]
struct Sum {
    pictures: usize,
    refused: usize,
    damaged: usize,
    findings: Vec<Finding>,
}

struct Session<'a> {
    options: &'a Options,
    kind: Kind,
    scratch: Scratch,
    samples: Vec<Sample>,
    boot: PathBuf,
    sum: Sum,
}

/// Takes the requested number of pictures of one file system. Returns true if nothing was found.
///
/// # Errors
/// Fails if nothing could be tried.
pub(super) fn run(kind: Kind, options: &Options) -> Result<bool> {
    let scratch = Scratch::new()?;
    let samples = sample::make(&scratch.path("samples"), &options.tote, &options.archives)?;
    let boot = scratch.path("boot");
    fs::write(&boot, "00000000-0000-4000-8000-000000000001\n")?;
    let mut session = Session {
        options,
        kind,
        scratch,
        samples,
        boot,
        sum: Sum::default(),
    };
    let mut round = 0;
    while session.sum.pictures < options.pictures {
        match options.experiment {
            Experiment::Mixed => session.mixed(round)?,
            Experiment::Cut | Experiment::Holey => session.quiet()?,
        }
        round += 1;
    }
    Ok(session.told())
}

impl Session<'_> {
    /// Runs many commands at once, and takes pictures at random moments.
    fn mixed(&mut self, round: u64) -> Result<()> {
        let mut chance = Chance::new(self.options.seed.wrapping_mul(1000) + round);
        let disk = self.scratch.disk(self.kind)?;
        disk.mount()?;
        let commands = Commands::new(&self.options.tote, &disk.at().join("state"));
        let (before, samples) = match self.samples.split_last() {
            Some((base, rest)) if round % 2 == 1 => (Some(self.before(&commands, base)?), rest),
            _ => (None, self.samples.as_slice()),
        };
        commands.done(&["images"])?;
        disk.sync()?;
        // When a container that stays ends, the kernel syncs the file system of its upper directory.
        let stays = round % 4 < 2;
        let workload = Workload::begin(
            &commands,
            samples,
            &self.scratch.path("build"),
            stays,
            &mut chance,
        )?;
        let wanted = PICTURES.min(self.options.pictures - self.sum.pictures);
        let mut pictures = Vec::new();
        for number in 0..wanted {
            std::thread::sleep(Duration::from_millis(200 + chance.below(8000)));
            pictures.push(disk.picture(&format!("picture{number}"))?);
        }
        workload.end()?;
        disk.unmount()?;
        disk.remove()?;
        for picture in pictures {
            self.look(picture, before.as_ref(), chance.next())?;
        }
        Ok(())
    }

    /// Runs one command for each image, then nothing, and takes pictures at the given numbers of seconds after that.
    fn quiet(&mut self) -> Result<()> {
        let disk = self.scratch.disk(self.kind)?;
        disk.mount()?;
        let commands = Commands::new(&self.options.tote, &disk.at().join("state"));
        commands.done(&["images"])?;
        disk.sync()?;
        let holey = self.options.experiment == Experiment::Holey;
        for sample in self.samples.iter().filter(|sample| !holey || sample.imported) {
            commands.done(&sample.words())?;
            if !holey {
                commands.done(&["create", &sample.image, "sh"])?;
            }
        }
        let began = Instant::now();
        let mut pictures = Vec::new();
        let mut after = self.options.after.clone();
        after.sort_unstable();
        for seconds in after {
            std::thread::sleep(Duration::from_secs(seconds).saturating_sub(began.elapsed()));
            pictures.push(disk.picture(&format!("picture{seconds}"))?);
        }
        disk.unmount()?;
        disk.remove()?;
        for (number, picture) in (0..).zip(pictures) {
            // Every other picture is examined only after another archive with the same files was loaded.
            self.look(picture, None, if holey { 2 } else { number })?;
        }
        Ok(())
    }

    fn before(&self, commands: &Commands, base: &Sample) -> Result<Before> {
        commands.done(&base.words())?;
        commands.done(&["tag", &base.image, BASE])?;
        let file = self.scratch.path("kept");
        fs::write(&file, KEPT)?;
        commands.done(&[
            "create",
            "--name",
            KEPT,
            "--network",
            "none",
            BASE,
            "cat",
            "/kept",
        ])?;
        commands.done(&["cp", word(&file), "kept:/kept"])?;
        commands.done(&["volume", "create", KEPT])?;
        let mut words = ran(BASE, "echo kept > /v/file").to_vec();
        words.splice(1..1, ["-v", "kept:/v"]);
        commands.done(&words)?;
        commands.done(&["pod", "create", "--name", KEPT_POD, "--network", "none"])?;
        Ok(Before { base: base.clone() })
    }

    /// Checks a picture, in an order that `draw` decides.
    fn look(&mut self, picture: Disk, before: Option<&Before>, draw: u64) -> Result<()> {
        let number = self.sum.pictures;
        self.sum.pictures += 1;
        let as_taken = match &self.options.keep {
            Some(_) => Some(picture.picture("as-taken")?),
            None => None,
        };
        picture.mend()?;
        picture.mount()?;
        let commands = Commands::new(&self.options.tote, &picture.at().join("state"));
        let mut check = Check::new(commands.after_boot(&self.boot), &self.samples, draw);
        check.all(before)?;
        self.sum.refused += check.refused;
        self.sum.damaged += usize::from(check.damaged);
        picture.unmount()?;
        // More than the first few findings of one picture add nothing.
        for finding in check.findings.iter().take(12) {
            println!("{} picture {number}: {finding}", self.kind.name);
        }
        if let (Some(dir), Some(as_taken), false) = (&self.options.keep, &as_taken, check.findings.is_empty())
        {
            let name = format!("{}-{}-{number}.img", self.kind.name, self.options.seed);
            as_taken.keep(&dir.join(name))?;
        }
        self.sum.findings.append(&mut check.findings);
        if let Some(as_taken) = as_taken {
            as_taken.remove()?;
        }
        picture.remove()
    }

    fn told(&self) -> bool {
        let Sum {
            pictures,
            refused,
            damaged,
            findings,
        } = &self.sum;
        let count = |which: fn(&Finding) -> bool| findings.iter().filter(|found| which(found)).count();
        println!(
            "{}: {pictures} pictures, {damaged} with damage that was noticed, {refused} runs refused; {} committed lost, \
             {} wrong bytes, {} hung, {} failed, {} left",
            self.kind.name,
            count(|found| matches!(found, Finding::Lost(_))),
            count(|found| matches!(found, Finding::Wrong(_))),
            count(|found| matches!(found, Finding::Hung(_))),
            count(|found| matches!(found, Finding::Failed(_))),
            count(|found| matches!(found, Finding::Left(_))),
        );
        findings.is_empty()
    }
}
