//! Group that `exec` puts a process into: the container's, one below it, or the one its first process has moved to.

use crate::error::of_birth;
use crate::record::Record;
use crate::{GroupError, OciError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tote_cgroup::{Cgroup, Controllers, GroupPlace};
use tote_runtime::{Entry, Reception, RuntimeError};
use tote_sys::{Child, Errno};

/// Group to join.
#[derive(Debug)]
pub(crate) struct Joined {
    cgroup: Cgroup,
    /// True if the caller has named it: then no other one is used instead.
    chosen: bool,
}

impl Joined {
    /// Opens the container's own group, or those below it that `wanted` names, as `[CONTROLLER,…:]PATH`.
    pub(crate) fn open(record: &Record, wanted: &[String]) -> Result<Self, OciError> {
        let text = match wanted {
            [] => record.cgroup.clone(),
            wanted => below(&record.cgroup, &Choices::parse(wanted)?)?,
        };
        Ok(Self {
            cgroup: Cgroup::open(&text)?,
            chosen: !wanted.is_empty(),
        })
    }

    /// Returns the cgroup.
    pub(crate) fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }

    /// Makes the process in the group or, if that is the container's own and cannot take it, in the group of the
    /// first process.
    pub(crate) fn exec(
        &self,
        entry: Entry<'_>,
        own: (&str, u32),
        reception: &mut Reception<'_>,
    ) -> Result<Child, OciError> {
        // The new process begins as a copy of this one, and the container sees it.
        // process: command
        tote_sys::set_title(c"tote oci exec");
        if !self.chosen {
            return tote_runtime::exec_beside(entry, own, reception).map_err(of_birth);
        }
        tote_runtime::exec(entry, reception).map_err(|error| match error {
            RuntimeError::Clone(source @ Errno::BUSY) => OciError::Group(GroupError::SubCgroup {
                path: self
                    .cgroup
                    .paths()
                    .last()
                    .map(|(_, path)| path.to_owned())
                    .unwrap_or_default(),
                source,
            }),
            other => of_birth(other),
        })
    }
}

/// Values of `--cgroup`: a path for each controller, or one without a name for all.
#[derive(Debug, PartialEq, Eq)]
struct Choices<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Choices<'a> {
    /// Parses them by runc's rules, in its words.
    fn parse(wanted: &'a [String]) -> Result<Self, OciError> {
        let mut paths = BTreeMap::new();
        for choice in wanted {
            let bad = |why: &str| {
                Err(OciError::Usage(format!(
                    "invalid --cgroup argument: {choice} ({why})"
                )))
            };
            let (controllers, path) = match choice.split_once(':') {
                Some((controllers, path)) => (controllers, path),
                None if wanted.len() == 1 => ("", &choice[..]),
                None => return bad("missing <controller>: prefix"),
            };
            for name in controllers.split(',') {
                if name.is_empty() && choice.contains(':') {
                    return bad("empty <controller> prefix");
                }
                if paths.insert(name, path).is_some() {
                    return bad("controller specified multiple times");
                }
            }
            if path.split('/').any(|name| name == "..") {
                return Err(OciError::Usage(format!("bad sub cgroup path: {path}")));
            }
        }
        Ok(Self(paths))
    }

    /// Returns the path for a hierarchy with these controllers; those of v2 are not named.
    fn of(&self, place: &GroupPlace) -> Option<&'a str> {
        let named = |name: &str| {
            let one = Controllers::from_name(name);
            !place.is_v2 && one.is_some_and(|one| place.controllers.contains(one))
        };
        let choice = self.0.iter().find(|(name, _)| name.is_empty() || named(name));
        choice.map(|(_, path)| *path)
    }
}

/// Returns the recorded directories, with the chosen ones replaced.
fn below(record: &str, choices: &Choices<'_>) -> Result<String, OciError> {
    let places: Vec<_> = GroupPlace::readable(record).collect();
    let known = places
        .iter()
        .filter(|place| !place.is_v2)
        .fold(Controllers::NONE, |known, place| known.union(place.controllers));
    for name in choices.0.keys().filter(|name| !name.is_empty()) {
        if !Controllers::from_name(name).is_some_and(|one| known.contains(one)) {
            return Err(OciError::Usage(format!("unknown controller {name} in --cgroup")));
        }
    }
    let chosen = places.into_iter().map(|place| match choices.of(&place) {
        Some(path) => Ok(GroupPlace {
            path: existing(&place.path, path)?,
            ..place
        }),
        None => Ok(place),
    });
    Ok(GroupPlace::record(chosen.collect::<Result<Vec<_>, OciError>>()?))
}

/// Checks that the group exists: a missing one is not made.
fn existing(base: &Path, path: &str) -> Result<PathBuf, OciError> {
    let path = path.trim_matches('/');
    if path.is_empty() {
        return Ok(base.to_owned());
    }
    let whole = base.join(path);
    match rustix::fs::stat(&whole) {
        Ok(_) => Ok(whole),
        Err(source) => Err(OciError::Group(GroupError::SubCgroup { path: whole, source })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(wanted: &[&str]) -> Vec<String> {
        wanted.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn groups_below() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().display();
        for sub in ["cpu/sub", "memory", "v2/sub"] {
            std::fs::create_dir_all(dir.path().join(sub)).unwrap();
        }
        let record = format!("v1 0 cpu,cpuacct {base}/cpu\nv1 0 memory {base}/memory\nv2 1  {base}/v2\n");
        let chosen = |wanted: &[&str]| {
            let wanted = texts(wanted);
            Choices::parse(&wanted).and_then(|choices| below(&record, &choices))
        };
        assert_eq!(chosen(&["/"]).unwrap(), record);
        assert_eq!(
            chosen(&["cpu:/sub/", "memory:/"]).unwrap(),
            record.replace("/cpu\n", "/cpu/sub\n")
        );
        for (wanted, words) in [
            (&["sub"][..], " adding pid "),
            (&["cpu:no"], " adding pid "),
            (&["../sub"], "bad sub cgroup path"),
            (&["cpu:sub/.."], "bad sub cgroup path"),
            (&["whaaat:/"], "unknown controller "),
            (&["pids:/"], "unknown controller "),
            (&["cpu:/", "cpu:/sub"], "multiple times"),
            (&["/", "cpu:/"], "missing <controller>"),
            (&[":/"], "empty <controller>"),
        ] {
            let error = chosen(wanted).unwrap_err().to_string();
            assert!(error.contains(words), "{wanted:?}: {error}");
        }
    }
}
