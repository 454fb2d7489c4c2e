//! A profile: what a name stands for now, and what it stood for before.

use crate::node::NodeId;
use serde::{Deserialize, Serialize};
use tote_image::Digest;

/// Reason why a profile cannot change so.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No generation has this number.
    #[error("profile {name} has no generation {number}")]
    NoGeneration {
        /// Name of the profile.
        name: String,
        /// The number.
        number: u64,
    },
    /// Nothing was before.
    #[error("profile {0} has no earlier generation")]
    First(String),
}

/// Content of a profile at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// Number, from 1.
    pub number: u64,
    /// Nodes whose closure it is.
    pub nodes: Vec<NodeId>,
    /// Image of the closure.
    pub image: Digest,
    /// Program that its containers run.
    pub program: Option<String>,
    /// Time in nanoseconds since 1970.
    pub created: u64,
}

/// A profile. It is written as one document, so that a switch is one rename(2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Number of the generation that the name stands for; 0 before the first one.
    pub current: u64,
    /// Generations, the oldest first.
    pub generations: Vec<Generation>,
}

impl Profile {
    /// The generation that the name stands for.
    #[must_use]
    pub fn current(&self) -> Option<&Generation> {
        self.generations
            .iter()
            .find(|generation| generation.number == self.current)
    }

    /// Adds a generation under the next number and switches to it. Nothing changes if the current one is the same.
    pub fn set(&mut self, mut generation: Generation) {
        let is_same =
            |current: &Generation| current.image == generation.image && current.nodes == generation.nodes;
        if self.current().is_some_and(is_same) {
            return;
        }
        let numbers = self.generations.iter().map(|generation| generation.number);
        generation.number = numbers.max().unwrap_or(0) + 1;
        self.current = generation.number;
        self.generations.push(generation);
    }

    /// Switches to a generation, or to the one before the current one.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn switch(&mut self, name: &str, number: Option<u64>) -> Result<(), ProfileError> {
        let found = match number {
            Some(number) => self
                .generations
                .iter()
                .find(|generation| generation.number == number)
                .ok_or(ProfileError::NoGeneration {
                    name: name.to_owned(),
                    number,
                })?,
            None => self
                .generations
                .iter()
                .rfind(|generation| generation.number < self.current)
                .ok_or_else(|| ProfileError::First(name.to_owned()))?,
        };
        self.current = found.number;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::tests::hash;

    fn generation(image: &[u8]) -> Generation {
        Generation {
            number: 0,
            nodes: vec![],
            image: hash(image),
            program: None,
            created: 1,
        }
    }

    #[test]
    fn a_switch_and_the_way_back() {
        let mut profile = Profile::default();
        assert!(profile.current().is_none());
        profile.set(generation(b"a"));
        profile.set(generation(b"b"));
        profile.set(generation(b"b"));
        assert_eq!((profile.current, profile.generations.len()), (2, 2));
        profile.switch("web", None).unwrap();
        assert_eq!(profile.current().unwrap().image, hash(b"a"));
        assert!(matches!(profile.switch("web", None), Err(ProfileError::First(_))));
        assert!(matches!(
            profile.switch("web", Some(7)),
            Err(ProfileError::NoGeneration { number: 7, .. })
        ));
        profile.switch("web", Some(2)).unwrap();
        assert_eq!(profile.current().unwrap().image, hash(b"b"));
        profile.switch("web", Some(1)).unwrap();
        profile.set(generation(b"c"));
        assert_eq!(profile.current, 3);
    }
}
