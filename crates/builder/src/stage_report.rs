//! Reports by which the process of a stage says at its end, to the build that has started it, how the stage went, and what the build
//! learns by that.

use super::attest::Material;
use super::checkout::FoundCommit;
use super::stage_inputs::Commit;
use super::worker::Building;
use super::{BuildFault, EngineError};
use crate::container::{failure_line, listen_failure};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tote_build::{BuildError, Built, Outcome, Repository, Told};
use tote_image::{Digest, ImageConfig, Read as _};

/// Report of a stage.
#[derive(Serialize, Deserialize)]
pub(crate) struct StageReport {
    went: Went,
    learnt: Learnt,
}

#[derive(Serialize, Deserialize)]
enum Went {
    Well {
        id: Digest,
        /// Document of the configuration.
        config: String,
        args: Vec<(String, Option<String>)>,
        below: (usize, usize),
        asked: Vec<String>,
    },
    Wrong {
        /// Line and text of the instruction, for the failure of one.
        place: Option<(usize, String)>,
        reason: Reason,
    },
}

#[derive(Serialize, Deserialize)]
enum Reason {
    Command {
        command: String,
        code: u8,
        reason: Option<String>,
        offline: bool,
    },
    /// Line of [`failure_line`].
    Other(Vec<u8>),
}

/// Facts that a build remembers of its stages.
#[derive(Serialize, Deserialize)]
struct Learnt {
    /// Images by name and platform.
    bases: Vec<(String, Option<String>, Digest, ImageConfig)>,
    commits: Vec<Commit>,
    downloaded: Vec<Material>,
    /// Records for `--cache-to`.
    noted: Vec<(String, bool, ImageConfig)>,
    hashes: String,
    /// Directories of layers below the workspace, the topmost first.
    made: Vec<(Vec<Digest>, Vec<PathBuf>)>,
}

impl StageReport {
    /// Makes the report of a stage that has ended in this process; paths are told from the workspace's on.
    pub(crate) fn of(building: &Building<'_>, outcome: Outcome<Building<'_>>, workspace: &Path) -> Self {
        let made = building.made.iter().filter_map(|(layers, lowers)| {
            let uppers = lowers.uppers().iter().map(|upper| upper.strip_prefix(workspace));
            let uppers: Vec<PathBuf> = uppers
                .map(|upper| upper.map(Path::to_owned))
                .collect::<Result<_, _>>()
                .ok()?;
            (!uppers.is_empty()).then(|| (layers.clone(), uppers))
        });
        let bases = building.bases.iter().map(|((name, platform), built)| {
            (name.clone(), platform.clone(), built.id, built.config.clone())
        });
        Self {
            went: Went::of(outcome),
            learnt: Learnt {
                bases: bases.collect(),
                commits: commits_of(building),
                downloaded: building.downloaded.clone(),
                noted: building.exports.noted(),
                hashes: building.hashes.text(),
                made: made.collect(),
            },
        }
    }

    /// Adds what the stage has taught to the build, and returns how it went.
    ///
    /// # Errors
    /// [`EngineError`] if a configuration or a tree of the stage cannot be read.
    pub(crate) fn hear<'a>(
        self,
        at: usize,
        building: &mut Building<'a>,
    ) -> Result<Outcome<Building<'a>>, EngineError> {
        let Learnt {
            bases,
            commits,
            downloaded,
            noted,
            hashes,
            made,
        } = self.learnt;
        for (name, platform, id, config) in bases {
            let built = Built { id, config };
            building.bases.entry((name, platform)).or_insert(built);
        }
        building.exports.add(noted);
        building.hashes.add(&hashes);
        hear_inputs(building, at, (commits, downloaded));
        for (layers, uppers) in made {
            building.know(&layers, &uppers)?;
        }
        self.went.outcome()
    }
}

impl Went {
    fn of(outcome: Outcome<Building<'_>>) -> Self {
        let error = match outcome {
            Ok(told) => {
                let config = told.built.config.to_json();
                return Self::Well {
                    id: told.built.id,
                    config: String::from_utf8_lossy(&config).into_owned(),
                    args: told.args,
                    below: told.below,
                    asked: told.asked,
                };
            }
            Err(error) => error,
        };
        let (place, reason) = match &error {
            BuildError::Step { line, text, source } => (Some((*line, text.clone())), Reason::of(source)),
            BuildError::Instruction { line, text, source } => (
                Some((*line, text.clone())),
                Reason::said(&tote_sys::chain(source)),
            ),
            BuildError::Result(source) => (None, Reason::of(source)),
            other => (None, Reason::said(&tote_sys::chain(other))),
        };
        Self::Wrong { place, reason }
    }

    fn outcome<'a>(self) -> Result<Outcome<Building<'a>>, EngineError> {
        Ok(match self {
            Self::Well {
                id,
                config,
                args,
                below,
                asked,
            } => {
                let config =
                    ImageConfig::read(config.as_bytes()).map_err(crate::ImageFault::ImageDocument)?;
                let built = Built { id, config };
                Ok(Told {
                    built,
                    args,
                    below,
                    asked,
                })
            }
            Self::Wrong { place, reason } => {
                let source = reason.error();
                Err(match place {
                    Some((line, text)) => BuildError::Step { line, text, source },
                    None => BuildError::Result(source),
                })
            }
        })
    }
}

impl Reason {
    fn of(error: &EngineError) -> Self {
        match error.part() {
            Some(BuildFault::Command {
                command,
                code,
                reason,
                offline,
            }) => Self::Command {
                command: command.clone(),
                code: *code,
                reason: reason.clone(),
                offline: *offline,
            },
            _ => Self::Other(failure_line(error)),
        }
    }

    /// Makes the reason of an error that has only a text.
    fn said(text: &str) -> Self {
        Self::Other([&[1], text.as_bytes()].concat())
    }

    fn error(self) -> EngineError {
        match self {
            Self::Command {
                command,
                code,
                reason,
                offline,
            } => BuildFault::Command {
                command,
                code,
                reason,
                offline,
            }
            .into(),
            Self::Other(line) => listen_failure(&line).into(),
        }
    }
}

fn commits_of(building: &Building<'_>) -> Vec<Commit> {
    let commits = building.commits.iter().cloned();
    commits
        .map(|(repository, found)| Commit { repository, found })
        .collect()
}

/// Adds the inputs of a stage, and orders all of them by stages.
fn hear_inputs(building: &mut Building<'_>, at: usize, heard: (Vec<Commit>, Vec<Material>)) {
    let so_far = (commits_of(building), building.downloaded.clone());
    let inputs = &mut building.stages.inputs;
    let before = inputs.before.get_or_insert_with(|| Box::new(so_far));
    inputs.of_stages.insert(at, heard);
    let mut commits: Vec<(Repository, FoundCommit)> = Vec::new();
    let mut downloaded: Vec<Material> = Vec::new();
    for (some, others) in std::iter::once(&**before).chain(inputs.of_stages.values()) {
        for Commit { repository, found } in some {
            if !commits.iter().any(|(known, _)| known == repository) {
                commits.push((repository.clone(), found.clone()));
            }
        }
        for material in others {
            if !downloaded.contains(material) {
                downloaded.push(material.clone());
            }
        }
    }
    (building.commits, building.downloaded) = (commits, downloaded);
}

impl Building<'_> {
    /// Notes directories of layers that a process of this build has made, so that the next stage need not make a tree of them.
    fn know(&mut self, layers: &[Digest], uppers: &[PathBuf]) -> Result<(), EngineError> {
        let Some(below) = layers.len().checked_sub(uppers.len()) else {
            return Ok(());
        };
        if self.made.contains_key(layers) {
            return Ok(());
        }
        let mut lowers = self.lowers(&layers[..below])?;
        for upper in uppers.iter().rev() {
            let Some(higher) = lowers.and(self.workspace.path().join(upper)) else {
                return Ok(());
            };
            lowers = higher;
        }
        self.made.insert(layers.to_vec(), lowers);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(error: BuildError<EngineError>) -> BuildError<EngineError> {
        let text = serde_json::to_vec(&Went::of(Err(error))).unwrap();
        let went: Went = serde_json::from_slice(&text).unwrap();
        went.outcome().unwrap().unwrap_err()
    }

    /// Text, hint and exit code of an error are the same in the process that hears of it.
    #[test]
    fn errors_arrive() {
        let command = BuildFault::Command {
            command: "false".to_owned(),
            code: 143,
            reason: Some("out of memory".to_owned()),
            offline: true,
        };
        let step = |source: BuildFault| BuildError::Step {
            line: 3,
            text: "RUN false".to_owned(),
            source: source.into(),
        };
        let fault = || BuildError::Instruction {
            line: 9,
            text: "COPY a b c".to_owned(),
            source: tote_build::Fault::Destination("COPY"),
        };
        for (sent, same) in [
            (step(command), true),
            (step(BuildFault::PushNameless), true),
            (
                BuildError::Result(BuildFault::NoAgent("x".to_owned()).into()),
                true,
            ),
            (fault(), false),
        ] {
            let (text, hint) = (tote_sys::chain(&sent), hint_of(&sent));
            let arrived = heard(sent);
            assert_eq!(tote_sys::chain(&arrived), text);
            assert_eq!(hint_of(&arrived), hint);
            assert_eq!(matches!(arrived, BuildError::Step { line: 9, .. }), !same);
        }
    }

    fn hint_of(error: &BuildError<EngineError>) -> Option<String> {
        match error {
            BuildError::Step { source, .. } | BuildError::Result(source) => source.hint(),
            _ => None,
        }
    }

    #[test]
    fn what_a_stage_made_arrives() {
        let mut config = ImageConfig::default();
        config.config.env.push("A=b".to_owned());
        let told = Told {
            built: Built {
                id: tote_store::sha256(b"id"),
                config,
            },
            args: vec![("A".to_owned(), None), ("B".to_owned(), Some("1".to_owned()))],
            below: (2, 5),
            asked: vec!["A".to_owned()],
        };
        let text = serde_json::to_vec(&Went::of(Ok(told.clone()))).unwrap();
        let went: Went = serde_json::from_slice(&text).unwrap();
        assert_eq!(went.outcome().unwrap().unwrap(), told);
    }
}
