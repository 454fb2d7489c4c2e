//! Repositories of git in an `ADD`.

use super::ContextError;
use super::checkout::{Fetcher, FoundCommit};
use super::select::{Chosen, Filter, choose};
use super::worker::Building;
use crate::EngineError;
use tote_build::{CopyStep, Key, Origin, Repository};
use tote_dockerfile::Ignore;

impl Building<'_> {
    /// Finds the commit of a repository in an `ADD`. The result stays the same during a build.
    pub(crate) fn commit_of(&mut self, repository: &Repository) -> Result<FoundCommit, EngineError> {
        let known = self.commits.iter().find(|(known, _)| known == repository);
        if let Some((_, found)) = known {
            return Ok(found.clone());
        }
        let found = Fetcher::new(self.request, self.workspace)?.find(repository)?;
        self.commits.push((repository.clone(), found.clone()));
        Ok(found)
    }

    /// Builds a key that differs if the files of a step's repositories do. It consists of commits, so nothing is
    /// fetched for it.
    pub(crate) fn repositories_key(&mut self, step: &CopyStep) -> Result<Key, EngineError> {
        let mut key = Key::new("repositories");
        for repository in &step.repositories {
            let FoundCommit { commit, .. } = self.commit_of(repository)?;
            let Repository {
                subdir,
                submodules,
                commit_times,
                ..
            } = repository;
            // The kept directory contains the address.
            let kept = repository.keeps_git_dir().then(|| repository.to_string());
            key = key
                .with(&commit)
                .with(subdir)
                .with(submodules)
                .with(commit_times)
                .with(&kept);
        }
        Ok(key)
    }

    /// Fetches the files of a step's repositories.
    pub(crate) fn repositories(&mut self, step: &CopyStep) -> Result<Vec<Chosen>, EngineError> {
        let mut chosen = Vec::new();
        for repository in &step.repositories {
            let found = self.commit_of(repository)?;
            let checkout = Fetcher::new(self.request, self.workspace)?.fetch(repository, &found)?;
            let all = CopyStep::of(Origin::Context, "/".to_owned(), step.destination.clone());
            let filter = Filter {
                ignore: &Ignore::default(),
                exclude: Ignore::parse(&step.exclude.join("\n")).map_err(ContextError::Ignore)?,
                sockets: false,
            };
            chosen.extend(choose(&checkout.root, &all, &filter)?);
        }
        Ok(chosen)
    }
}
