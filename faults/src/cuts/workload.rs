//! Commands that run while pictures are taken.

use super::commands::Commands;
use super::sample::{Sample, ran};
use super::word;
use crate::chance::Chance;
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Number of commands that run at once.
const WORKERS: u64 = 2;

/// Prefix of the names of images that commands make; the file `/made` of each holds the rest of its name.
pub(super) const MADE: &str = "made:";

pub(super) struct Workload {
    commands: Commands,
    over: Arc<AtomicBool>,
    workers: Vec<JoinHandle<Result<()>>>,
}

struct Worker {
    commands: Commands,
    samples: Vec<Sample>,
    build: PathBuf,
    stays: bool,
    number: u64,
    made: u64,
    chance: Chance,
}

impl Workload {
    /// Starts the workers. `stays` is true if some containers remain after their end.
    pub(super) fn begin(
        commands: &Commands,
        samples: &[Sample],
        build: &Path,
        stays: bool,
        chance: &mut Chance,
    ) -> Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let mut workers = Vec::new();
        for number in 0..WORKERS {
            let mut worker = Worker {
                commands: commands.clone(),
                samples: samples.to_vec(),
                build: build.join(number.to_string()),
                stays,
                number,
                made: 0,
                chance: Chance::new(chance.next()),
            };
            fs::create_dir_all(&worker.build)?;
            let over = Arc::clone(&over);
            workers.push(std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    worker.step()?;
                }
                Ok(())
            }));
        }
        Ok(Self {
            commands: commands.clone(),
            over,
            workers,
        })
    }

    /// Waits for the commands, then removes everything that they have started.
    pub(super) fn end(self) -> Result<()> {
        self.over.store(true, Ordering::Relaxed);
        for worker in self.workers {
            worker
                .join()
                .map_err(|_| anyhow::anyhow!("a worker has panicked"))??;
        }
        for pod in self.commands.done(&["pod", "ps", "-q"])?.lines() {
            self.commands.done(&["pod", "rm", "-f", pod])?;
        }
        for container in self.commands.done(&["ps", "-aq", "--no-trunc"])?.lines() {
            self.commands.done(&["rm", "-f", container])?;
        }
        Ok(())
    }
}

impl Worker {
    /// Runs one random command of a user. A command may fail because another worker has removed the image.
    fn step(&mut self) -> Result<()> {
        let which = usize::try_from(self.chance.below(self.samples.len() as u64))?;
        let sample = self.samples[which].clone();
        let image = sample.image.as_str();
        let n = self.number;
        let own = |what: &str| format!("{what}{n}");
        match self.chance.below(20) {
            0..=3 => self.give(&sample.words()),
            4 | 5 => self.give(&["rmi", "-f", image]),
            6 | 7 => self.give(&ran(image, "cat /etc/hostname")),
            8 | 9 => self.give(&["create", "--network", "none", image, "sh"]),
            // An image without a list has no shell, so its copies could not be checked.
            10 if !sample.list.is_empty() => self.made(image),
            11 if !sample.list.is_empty() => self.built(image),
            12 => {
                let tag = own("tagged:");
                self.give(&["tag", image, &tag])?;
                self.give(&["rmi", &tag])
            }
            13 => self.removed(),
            14 => {
                let pod = own("pod");
                self.give(&["pod", "create", "--name", &pod, "--network", "none"])?;
                self.give(&["create", "--pod", &pod, image, "sh"])?;
                self.give(&["pod", "rm", "-f", &pod])
            }
            15 => {
                let (name, other) = (own("named"), own("renamed"));
                self.give(&["create", "--name", &name, "-v", "/unnamed", image, "sh"])?;
                self.give(&["rename", &name, &other])?;
                self.give(&["rm", "-v", &other])
            }
            16 => {
                let volume = own("volume");
                self.give(&["volume", "create", "--label", "a=b", &volume])?;
                let place = format!("{volume}:/v");
                let mut words = ran(image, "echo volume > /v/file").to_vec();
                words.splice(1..1, ["-v", &place]);
                self.give(&words)?;
                self.give(&["volume", "rm", &volume])
            }
            17 if self.stays => {
                let name = own("detached");
                let script = "echo said; echo own > /own; sleep 1000";
                self.give(&["rm", "-f", &name])?;
                self.give(&[
                    "run",
                    "-d",
                    "--name",
                    &name,
                    "--network",
                    "none",
                    image,
                    "sh",
                    "-c",
                    script,
                ])
            }
            18 if self.stays => {
                self.give(&["run", "--network", "none", image, "sh", "-c", "echo own > /own"])
            }
            // This command syncs the disk and so hides errors; it is rare.
            19 if self.chance.below(12) == 0 => self.give(&["image", "prune", "-f"]),
            _ => self.give(&sample.words()),
        }
    }

    fn give(&self, words: &[&str]) -> Result<()> {
        let outcome = self.commands.give(words)?;
        anyhow::ensure!(!outcome.hung, "without a power cut: {}", outcome.told());
        Ok(())
    }

    fn next_made(&mut self) -> String {
        self.made += 1;
        format!("{MADE}{}-{}", self.number, self.made % 4)
    }

    /// Makes an image of a container that has not run.
    fn made(&mut self, image: &str) -> Result<()> {
        let name = self.next_made();
        let container = format!("committed{}", self.number);
        let file = self.build.join("made");
        fs::write(&file, name.trim_start_matches(MADE))?;
        self.give(&["create", "--name", &container, "--network", "none", image, "sh"])?;
        self.give(&["cp", word(&file), &format!("{container}:/made")])?;
        self.give(&["commit", &container, &name])?;
        self.give(&["rm", &container])
    }

    fn built(&mut self, image: &str) -> Result<()> {
        let name = self.next_made();
        let said = name.trim_start_matches(MADE);
        let text = format!("FROM {image}\nCOPY more /more\nRUN printf %s {said} > /made\n");
        fs::write(self.build.join("more"), said)?;
        fs::write(self.build.join("Dockerfile"), text)?;
        self.give(&["build", "-q", "--pull=false", "-t", &name, word(&self.build)])
    }

    /// Removes a few containers of this workload, but none of the durable ones.
    fn removed(&mut self) -> Result<()> {
        let filter = [
            "ps",
            "-aq",
            "--no-trunc",
            "-f",
            "status=created",
            "-f",
            "status=exited",
        ];
        let words = [filter.as_slice(), &["--format", "{{.ID}} {{.Names}}"]].concat();
        let listed = self.commands.give(&words)?;
        for line in listed.out.lines().take(4) {
            let (id, name) = line.split_once(' ').unwrap_or((line, ""));
            if name != super::session::KEPT && !name.contains("infra") {
                self.give(&["rm", id])?;
            }
        }
        Ok(())
    }
}
