//! `image trace`: where a command writes, so that the split driver can do without a list by hand.

use super::container;
use super::differences::{differences, walk_failed};
use crate::container::forget;
use crate::{EngineError, Finished, Home, RunRequest, enter_ids, open_store, prepare, run};
use std::collections::{BTreeMap, BTreeSet};
use tote_archive::{Change, Difference, EntryPath, Kind, Status};

/// Paths that a traced command wrote to.
#[derive(Debug)]
pub struct Traced {
    /// How it ended. Where it failed, nothing was noted.
    pub finished: Finished,
    /// The set, sorted; none of the paths is below another.
    pub set: Vec<WritablePath>,
    /// Files written in the root directory itself, which no set can have.
    pub outside: Vec<String>,
}

/// A directory of a writable set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritablePath {
    /// Absolute.
    pub path: String,
    /// Files written there, for people.
    pub because: Vec<String>,
}

/// Runs a command in a container that is thrown away, and notes with its image where it wrote.
///
/// # Errors
/// [`EngineError`].
pub fn trace(
    home: &Home,
    mut request: RunRequest,
    warn: &mut dyn FnMut(String),
) -> Result<Traced, EngineError> {
    (request.options.rm, request.kept) = (false, true);
    request.options.driver = Some("overlay".to_owned());
    let prepared = prepare(home, request, false, None)?;
    let id = prepared.container().id.clone();
    let finished = run(home, prepared, None, None, warn)?;
    let found = enter_ids(home)
        .map_err(EngineError::from)
        .and_then(|()| written(home, id.as_str()));
    forget(home, &id);
    let (image, written) = found?;
    let (set, outside) = reduce(&written);
    if finished.exit_code == 0
        && outside.is_empty()
        && let Some(image) = image
    {
        let store = open_store(home)?;
        let paths: Vec<_> = set.iter().map(|entry| entry.path.clone()).collect();
        store.set_writable(&store.resolve(&image)?, &paths)?;
    }
    Ok(Traced {
        finished,
        set,
        outside,
    })
}

/// A path that was written, and how.
#[derive(Clone, Debug)]
struct Written {
    path: EntryPath,
    status: Status,
    is_dir: bool,
}

fn written(home: &Home, id: &str) -> Result<(Option<String>, Vec<Written>), EngineError> {
    let container = container::find(home, id)?;
    let source = container.source(home)?;
    let mut written = Vec::new();
    for found in differences(&container, source.dir()?)? {
        let found: Difference = found.map_err(|source| walk_failed(container.id.short(), source))?;
        if !found.passage {
            written.push(Written {
                is_dir: matches!(&found.change, Change::Add(entry) if entry.kind == Kind::Directory),
                path: found.change.path().clone(),
                status: found.status,
            });
        }
    }
    Ok((container.entry.container.image_id, written))
}

/// The fewest directories below which everything was written, and what is in none but the root.
///
/// A name that comes or goes needs a directory that can be written, and how a file was changed, in place or by another
/// that took its name, cannot be told afterwards. So the directory counts. One that is itself new counts as its parent,
/// unless that is the root: the driver makes directories that an image lacks.
fn reduce(written: &[Written]) -> (Vec<WritablePath>, Vec<String>) {
    let added: BTreeSet<&EntryPath> = written
        .iter()
        .filter(|found| found.is_dir && found.status == Status::Added)
        .map(|found| &found.path)
        .collect();
    let mut set: BTreeMap<EntryPath, Vec<String>> = BTreeMap::new();
    let mut outside = Vec::new();
    for found in written {
        let is_itself = found.is_dir && found.status != Status::Deleted;
        let mut dir = match is_itself {
            true => found.path.clone(),
            false => found.path.parent().unwrap_or_default(),
        };
        while added.contains(&dir)
            && let Some(parent) = dir.parent().filter(|parent| !parent.is_root())
        {
            dir = parent;
        }
        let letter = match found.status {
            Status::Added => 'A',
            Status::Changed => 'C',
            Status::Deleted => 'D',
        };
        let text = format!("{letter} {}", found.path);
        if dir.is_root() {
            outside.push(text);
        } else {
            set.entry(dir).or_default().push(text);
        }
    }
    let mut whole: Vec<(EntryPath, Vec<String>)> = Vec::new();
    for (path, because) in set {
        match whole.last_mut() {
            // Sorted, what is below another comes right after it.
            Some((above, reasons)) if path.starts_with(above) => reasons.extend(because),
            _ => whole.push((path, because)),
        }
    }
    let set = whole.into_iter().map(|(path, because)| WritablePath {
        path: format!("/{}", String::from_utf8_lossy(path.as_bytes())),
        because,
    });
    (set.collect(), outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced(lines: &[&str]) -> (Vec<String>, Vec<String>) {
        let written = lines.iter().map(|line| {
            let (letter, path) = line.split_once(' ').unwrap();
            Written {
                path: EntryPath::parse(path.as_bytes()).unwrap(),
                status: match letter {
                    "A" => Status::Added,
                    "C" => Status::Changed,
                    _ => Status::Deleted,
                },
                is_dir: path.ends_with('/'),
            }
        });
        let (set, outside) = reduce(&written.collect::<Vec<_>>());
        (set.into_iter().map(|entry| entry.path).collect(), outside)
    }

    #[test]
    fn the_fewest_directories() {
        for (written, set) in [
            (&["A /var/lib/app/db"][..], &["/var/lib/app"][..]),
            (&["C /etc/passwd", "A /etc/x/", "A /etc/x/y"], &["/etc"]),
            (&["A /data/", "A /data/sub/", "A /data/sub/file"], &["/data"]),
            (
                &["C /home/", "D /home/a/b", "A /srv/www/x"],
                &["/home", "/srv/www"],
            ),
            (&["A /a/b", "A /a/b-c/d", "A /a-/x"], &["/a", "/a-"]),
            (&["C /opt/a/"], &["/opt/a"]),
            (&["D /opt/a/"], &["/opt"]),
            (&[], &[]),
        ] {
            assert_eq!(
                reduced(written),
                (set.iter().map(ToString::to_string).collect(), vec![]),
                "{written:?}"
            );
        }
        let (set, outside) = reduced(&["A /file", "D /bin", "A /tmp/x"]);
        assert_eq!(
            (set, outside),
            (
                vec!["/tmp".to_owned()],
                vec!["A /file".to_owned(), "D /bin".to_owned()]
            )
        );
    }
}
