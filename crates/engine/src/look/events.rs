//! Events of the past and as they happen: `tote events`.

use super::LookError;
use super::label::{has_label, label};
use crate::container::Event;
use crate::{EngineError, Home};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::OwnedFd;
use rustix::fs::inotify;
use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tote_calendar::Time;
use tote_sys::{Endless, Wait};
/// Which events to tell.
#[derive(Clone, Debug, Default)]
pub struct EventSelection {
    /// From when on, as [`Time::parse`] takes it. Without it and `until`, from now on.
    pub since: Option<String>,
    /// Until when; for ever where it is not given.
    pub until: Option<String>,
    /// `KEY=VALUE` each: values of one key are alternatives, and every key must apply.
    pub filters: Vec<String>,
}

/// Tells `each` of what happened and, until it is time or `each` gives false, of what happens.
///
/// # Errors
/// [`LookError`] for an invalid filter or time, and [`EngineError::State`].
pub fn events(
    home: &Home,
    selection: &EventSelection,
    each: &mut dyn FnMut(&Event) -> bool,
) -> Result<(), EngineError> {
    let filters = Filters::parse(&selection.filters)?;
    let now = Time::now();
    let time = |option: &'static str, text: &Option<String>| {
        let parse = |text: &String| {
            Time::parse(text, now, 0).map_err(|source| LookError::Time {
                option,
                text: text.clone(),
                source,
            })
        };
        text.as_ref().map(parse).transpose()
    };
    let (since, until) = (time("since", &selection.since)?, time("until", &selection.until)?);
    let from_start = since.is_some() || until.is_some();
    let mut journal = Journal::open(home, from_start)?;
    loop {
        while let Some(event) = journal.next()? {
            let when = Time(i128::from(event.time));
            let in_time = since.is_none_or(|since| when >= since) && until.is_none_or(|until| when <= until);
            if in_time && filters.fit(&event) && !each(&event) {
                return Ok(());
            }
        }
        let left = until.map(|until| until.0 - Time::now().0);
        if left.is_some_and(|left| left <= 0) {
            return Ok(());
        }
        journal.wait(left)?;
    }
}

/// The files, read from one place on.
struct Journal {
    path: PathBuf,
    /// The one that is read, and then those that follow it.
    files: Vec<BufReader<File>>,
    /// A line whose end is not written yet.
    begun: Vec<u8>,
    watch: OwnedFd,
}

impl Journal {
    fn open(home: &Home, from_start: bool) -> Result<Self, EngineError> {
        let path = home.events();
        let watch = watch(home.root())?;
        let mut files = Vec::new();
        // The newer first: what is renamed in between is then found twice, and known by its number.
        if let Some(mut file) = open(&path)? {
            if !from_start {
                file.seek(SeekFrom::End(0))
                    .map_err(EngineError::file("read", &path))?;
            }
            files.push(file);
        }
        let earlier = path.with_extension("1");
        if from_start && let Some(file) = open(&earlier)? {
            files.push(file);
        }
        files.reverse();
        // absence: a file that is there twice shows its events twice
        files.dedup_by_key(|file| file.metadata().map(|meta| meta.ino()).ok());
        Ok(Self {
            path,
            files: files.into_iter().map(BufReader::new).collect(),
            begun: Vec::new(),
            watch,
        })
    }

    /// The next lines of the log; `None` if it has no new ones yet.
    fn next(&mut self) -> Result<Option<Event>, EngineError> {
        loop {
            let Some(file) = self.files.first_mut() else {
                let Some(file) = open(&self.path)? else {
                    return Ok(None);
                };
                self.files.push(BufReader::new(file));
                continue;
            };
            let read = file.read_until(b'\n', &mut self.begun);
            if read.map_err(EngineError::file("read", &self.path))? == 0 {
                if !self.follow()? {
                    return Ok(None);
                }
            } else if self.begun.ends_with(b"\n") {
                let line = std::mem::take(&mut self.begun);
                // A line of another tote's may be none to this one.
                if let Ok(event) = serde_json::from_slice(&line) {
                    return Ok(Some(event));
                }
            }
        }
    }

    /// At the end of a file: goes over to the one that follows, if there is one.
    fn follow(&mut self) -> Result<bool, EngineError> {
        if self.files.len() > 1 {
            self.files.remove(0);
            return Ok(true);
        }
        // absence: the file is looked at again with the next event
        let own = self.files.first().and_then(|file| file.get_ref().metadata().ok());
        let Some(next) = open(&self.path)? else {
            return Ok(false);
        };
        // absence: the file is looked at again with the next event
        let is_same = |own: &std::fs::Metadata| next.metadata().is_ok_and(|next| next.ino() == own.ino());
        if own.as_ref().is_none_or(is_same) {
            return Ok(false);
        }
        self.files.push(BufReader::new(next));
        // Something may have been written to the old one before it was renamed.
        Ok(true)
    }

    /// Waits until something is written, or for this number of nanoseconds.
    fn wait(&self, left: Option<i128>) -> Result<(), EngineError> {
        let left = left.map(|left| Duration::from_nanos(u64::try_from(left.max(0)).unwrap_or(u64::MAX)));
        let mut fds = [PollFd::new(&self.watch, PollFlags::IN)];
        let failed = |source| EngineError::Kernel {
            attempt: "wait for events",
            source,
        };
        match Wait::within_or(left, Endless::User).poll(&mut fds) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            other => other.map_err(failed)?,
        };
        // What they say is of no interest: the file is read in any case.
        let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 4096];
        let mut reader = inotify::Reader::new(&self.watch, &mut buffer);
        while reader.next().is_ok() {}
        Ok(())
    }
}

/// Watches the state root, in which nothing is written but this journal.
fn watch(root: &Path) -> Result<OwnedFd, EngineError> {
    let failed = |source| EngineError::Kernel {
        attempt: "watch for events",
        source,
    };
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let watch = inotify::init(flags).map_err(failed)?;
    let what = inotify::WatchFlags::MODIFY | inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
    inotify::add_watch(&watch, root, what).map_err(failed)?;
    Ok(watch)
}

fn open(path: &Path) -> Result<Option<File>, EngineError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(EngineError::file("open", path)(error)),
    }
}

struct Filters {
    all: Vec<(String, String)>,
}

const KEYS: [&str; 10] = [
    "type",
    "event",
    "container",
    "image",
    "volume",
    "network",
    "builder",
    "pod",
    "scope",
    "label",
];

impl Filters {
    fn parse(texts: &[String]) -> Result<Self, LookError> {
        let parse = |text: &String| {
            let (key, value) = text.split_once('=').filter(|(key, _)| KEYS.contains(key))?;
            Some((key.to_owned(), value.to_owned()))
        };
        let all: Result<_, _> = texts
            .iter()
            .map(|text| parse(text).ok_or_else(|| LookError::EventFilter(text.clone())))
            .collect();
        Ok(Self { all: all? })
    }

    fn fit(&self, event: &Event) -> bool {
        KEYS.iter().all(|key| {
            let mut values = self
                .all
                .iter()
                .filter(|(own, _)| own == key)
                .map(|(_, value)| value.as_str());
            match *key {
                "label" => values.all(|value| fits(event, key, value)),
                key => {
                    self.all.iter().all(|(own, _)| own != key) || values.any(|value| fits(event, key, value))
                }
            }
        })
    }
}

fn fits(event: &Event, key: &str, value: &str) -> bool {
    let attribute = |name: &str| event.attributes.get(name).map_or("", String::as_str);
    // An object is named by its id, the beginning of that, or its name.
    let is = |kind: &str| {
        event.kind == kind && (attribute("name") == value || !value.is_empty() && event.id.starts_with(value))
    };
    match key {
        "type" => event.kind == value,
        // Every event is one of this machine.
        "scope" => value == "local",
        // `health_status` stands for `health_status: healthy`.
        "event" => event.action == value || event.action.split(':').next() == Some(value),
        "image" => {
            is("image") || {
                let image = attribute("image");
                image == value || image.split(':').next() == Some(value)
            }
        }
        "label" => {
            let (key, value) = label(value);
            has_label(&event.attributes, &key, value.as_deref())
        }
        kind => is(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tote_state::events::append;

    fn event(action: &str, time: u64) -> Event {
        Event {
            time,
            kind: "container".to_owned(),
            action: action.to_owned(),
            id: "abc123".to_owned(),
            attributes: [("name", "web"), ("image", "alpine:3"), ("tier", "front")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        }
    }

    fn told(home: &Home, selection: &EventSelection) -> Vec<String> {
        let mut actions = Vec::new();
        events(home, selection, &mut |event| {
            actions.push(event.action.clone());
            true
        })
        .unwrap();
        actions
    }

    fn selection(since: &str, until: &str, filters: &[&str]) -> EventSelection {
        EventSelection {
            since: Some(since.to_owned()),
            until: Some(until.to_owned()),
            filters: filters.iter().map(|filter| (*filter).to_owned()).collect(),
        }
    }

    #[test]
    fn what_was_is_told_in_order_and_in_time() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        append(
            &home,
            &[event("create", 1_000_000_000), event("start", 2_000_000_000)],
        );
        std::fs::rename(home.events(), home.events().with_extension("1")).unwrap();
        append(
            &home,
            &[
                event("die", 3_000_000_000),
                event("health_status: healthy", 4_000_000_000),
            ],
        );
        let all = ["create", "start", "die", "health_status: healthy"];
        assert_eq!(told(&home, &selection("0", "5", &[])), all);
        assert_eq!(told(&home, &selection("2", "3.5", &[])), ["start", "die"]);
        for (filters, count) in [
            (&["event=die"][..], 1),
            (&["event=die", "event=start"], 2),
            (&["event=health_status"], 1),
            (&["type=container"], 4),
            (&["type=volume"], 0),
            (&["type=volume", "type=container"], 4),
            (&["network=web"], 0),
            (&["scope=local"], 4),
            (&["scope=swarm"], 0),
            (&["container=web"], 4),
            (&["container=abc"], 4),
            (&["container=we"], 0),
            (&["image=alpine"], 4),
            (&["image=alpine:3", "event=die"], 1),
            (&["label=tier"], 4),
            (&["label=tier=front"], 4),
            (&["label=tier=back"], 0),
            (&["label=tier", "label=none"], 0),
        ] {
            assert_eq!(
                told(&home, &selection("0", "5", filters)).len(),
                count,
                "{filters:?}"
            );
        }
        for bad in ["event", "nothing=1", ""] {
            let refused = events(&home, &selection("0", "1", &[bad]), &mut |_| true);
            assert!(
                refused.unwrap_err().to_string().starts_with("invalid filter"),
                "{bad}"
            );
        }
        let refused = events(&home, &selection("never", "1", &[]), &mut |_| true);
        assert!(refused.unwrap_err().to_string().starts_with("--since never"));
    }

    #[test]
    fn what_happens_is_told_also_in_the_next_file() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        append(&home, &[event("before", 1)]);
        let mut journal = Journal::open(&home, false).unwrap();
        assert_eq!(journal.next().unwrap(), None);
        append(&home, &[event("one", 2)]);
        journal.wait(None).unwrap();
        assert_eq!(journal.next().unwrap().unwrap().action, "one");
        append(&home, &[event("two", 3)]);
        std::fs::rename(home.events(), home.events().with_extension("1")).unwrap();
        append(&home, &[event("three", 4)]);
        journal.wait(None).unwrap();
        assert_eq!(journal.next().unwrap().unwrap().action, "two");
        assert_eq!(journal.next().unwrap().unwrap().action, "three");
        assert_eq!(journal.next().unwrap(), None);
    }
}
