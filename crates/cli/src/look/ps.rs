//! `tote ps`.

use crate::home::home;
use crate::listing::{Listing, only_ids};
use crate::tell::{failure, print};
use crate::text;
use crate::words::values;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use tote_engine::container::{Container, Entry, HealthStatus, State, Status, mounts};
use tote_engine::pod;
use tote_engine::{EngineError, Home, Selection, container_size, driver_of, networks_of, status_word};
use tote_options::Parsed;

const COLUMNS: &str =
    "{{.ID}}\t{{.Image}}\t{{.Command}}\t{{.RunningFor}}\t{{.Status}}\t{{.Ports}}\t{{.Names}}";

const HEADINGS: &[(&str, &str)] = &[
    ("ID", "CONTAINER ID"),
    ("Image", "IMAGE"),
    ("Command", "COMMAND"),
    ("CreatedAt", "CREATED AT"),
    ("RunningFor", "CREATED"),
    ("Status", "STATUS"),
    ("State", "STATE"),
    ("Ports", "PORTS"),
    ("Names", "NAMES"),
    ("Size", "SIZE"),
    ("Labels", "LABELS"),
    ("Mounts", "MOUNTS"),
    ("LocalVolumes", "LOCAL VOLUMES"),
    ("Networks", "NETWORKS"),
    ("Platform", "PLATFORM"),
    ("Pid", "PID"),
    ("Driver", "DRIVER"),
    ("Rootfs", "ROOTFS"),
    ("IP", "IP"),
    ("Health", "HEALTH"),
    ("ExitCode", "EXIT CODE"),
    ("Pod", "POD ID"),
    ("PodName", "PODNAME"),
    ("CGROUPNS", "CGROUPNS"),
    ("IPC", "IPC"),
    ("MNT", "MNT"),
    ("NET", "NET"),
    ("PIDNS", "PIDNS"),
    ("USERNS", "USERNS"),
    ("UTS", "UTS"),
];

/// The table of podman's `--ns`.
const WITH_NAMESPACES: &str = "{{.ID}}\t{{.Names}}\t{{.Pid}}\t{{.CGROUPNS}}\t{{.IPC}}\t{{.MNT}}\t{{.NET}}\t{{.PIDNS}}\t\
                               {{.USERNS}}\t{{.UTS}}";

pub(crate) fn ps(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let last = match last(parsed) {
        Ok(last) => last,
        Err(code) => return Ok(code),
    };
    let format = parsed.value("format").and_then(std::ffi::OsStr::to_str);
    // docker computes sizes only if they are shown.
    let sizes = parsed.flag("size") || format.is_some_and(|format| format.contains(".Size"));
    let home = home(parsed)?;
    if sizes {
        tote_engine::enter_ids(&home)?;
    }
    let selection = Selection {
        all: parsed.flag("all"),
        last,
        filters: values(parsed, "filter"),
    };
    let mut entries = tote_engine::select(&home, &selection)?;
    if let Some(key) = parsed.value("sort")
        && !sort(&home, &mut entries, &key.to_string_lossy())
    {
        let text = format!("--sort {}: there is no such key", key.display());
        let keys = "command, created, id, image, names, runningfor, size or status";
        return Ok(failure(&text, Some(&format!("give {keys}")), 125));
    }
    let whole = parsed.flag("no-trunc");
    if only_ids(parsed) {
        let ids = entries.iter().map(|entry| format!("{}\n", id(entry, whole)));
        return Ok(print(&ids.collect::<String>()));
    }
    let namespaces = parsed.flag("ns");
    let mut columns = if namespaces { WITH_NAMESPACES } else { COLUMNS }.to_owned();
    if sizes && format.is_none_or(|format| format == "table") {
        columns += "\t{{.Size}}";
    }
    if parsed.flag("pod") {
        columns += "\t{{.Pod}}\t{{.PodName}}";
    }
    let is_usual = parsed.setting("format").is_none();
    let view = View {
        home: &home,
        whole,
        sizes,
        // Fields that need a file to be examined are only computed if they may be shown.
        places: format
            .is_some_and(|format| format == "json" || format.contains("Rootfs") || format.contains("json")),
        namespaces: namespaces
            || format.is_some_and(|format| format.contains("{{") && !format.contains("json")),
        shows: is_usual.then_some(columns.as_str()),
        now: tote_calendar::now().as_secs(),
    };
    let label = |entry: &Entry| json!({ "Label": entry.container.labels });
    let listing = Listing {
        headings: HEADINGS,
        rows: entries.iter().map(|entry| view.row(entry)).collect(),
        methods: entries.iter().filter(|_| !is_usual).map(label).collect(),
        no_heading: parsed.flag("noheading"),
        columns,
    };
    Ok(listing.print(parsed))
}

/// Sorts by podman's `--sort`; returns whether the key is known. `created` puts the newest first, the default
/// order.
fn sort(home: &Home, entries: &mut [Entry], key: &str) -> bool {
    match key {
        "created" | "runningfor" => entries.sort_by_key(|entry| std::cmp::Reverse(entry.container.created)),
        "id" => entries.sort_by(|a, b| a.container.id.as_str().cmp(b.container.id.as_str())),
        "names" => entries.sort_by(|a, b| a.container.display().cmp(b.container.display())),
        "image" => entries.sort_by(|a, b| a.container.image.cmp(&b.container.image)),
        "command" => entries.sort_by(|a, b| a.container.path_and_args.cmp(&b.container.path_and_args)),
        "status" => entries.sort_by_key(|entry| status_word(&entry.state)),
        "size" => entries.sort_by_cached_key(|entry| container_size(home, entry).written),
        _ => return false,
    }
    true
}

/// Parses `-l` and `-n`; docker takes -1 for all.
fn last(parsed: &Parsed) -> Result<Option<usize>, ExitCode> {
    if parsed.flag("latest") {
        return Ok(Some(1));
    }
    match parsed.number::<i64>("last") {
        Ok(Some(last)) => Ok(usize::try_from(last).ok()),
        Ok(None) => Ok(None),
        Err(error) => Err(failure(&error.to_string(), Some(&error.hint()), 125)),
    }
}

fn id(entry: &Entry, whole: bool) -> &str {
    let id = &entry.container.id;
    if whole { id.as_str() } else { id.short() }
}

/// Settings and context for showing rows.
struct View<'a> {
    home: &'a Home,
    whole: bool,
    sizes: bool,
    places: bool,
    /// True if the numbers of namespaces may be shown.
    namespaces: bool,
    /// The columns of the default table, if nothing else is shown.
    shows: Option<&'a str>,
    now: u64,
}

impl View<'_> {
    /// Builds the row of a container with the fields of docker's `--format json` and tote's own; only those that
    /// are shown.
    fn row(&self, entry: &Entry) -> Value {
        let shown = HEADINGS.iter().map(|(field, _)| *field);
        let shown = shown.filter(|field| self.shows.is_none_or(|columns| columns.contains(field)));
        // Namespaces are shown on request only: docker's JSON has none.
        let shown = shown.filter(|field| self.namespaces || namespace(field).is_none());
        shown
            .map(|field| (field.to_owned(), self.field(field, entry)))
            .collect()
    }

    fn field(&self, name: &str, entry: &Entry) -> Value {
        let (container, state) = (&entry.container, &entry.state);
        match name {
            "ID" => id(entry, self.whole).into(),
            "Image" => image(container, self.whole).into(),
            "Command" => format!("{:?}", self.cut(&command(&container.path_and_args), 20)).into(),
            "CreatedAt" => text::moment(&tote_engine::moment(container.created)).into(),
            "RunningFor" => format!("{} ago", text::duration(self.age(container.created))).into(),
            "Status" => self.status(state).into(),
            "State" => status_word(state).into(),
            "Names" => container.display().into(),
            "Size" => self.size(entry).into(),
            "Labels" => joined(&container.labels).into(),
            "Mounts" => self.mounts(container).into(),
            "LocalVolumes" => mounts(container)
                .filter(|mount| mount.volume)
                .count()
                .to_string()
                .into(),
            "Networks" => networks_of(container).join(",").into(),
            "Platform" => Value::Null,
            "Pid" => state.pid().into(),
            "Driver" => driver_of(container).into(),
            "Rootfs" if self.places => super::places::rootfs(self.home, entry).into(),
            "Health" => state
                .health
                .as_ref()
                .map_or("", |health| health_word(health.status))
                .into(),
            "ExitCode" => state.exit_code.into(),
            "Pod" => self.pod(container.pod.as_deref().unwrap_or_default()).into(),
            "PodName" => container
                .pod
                .as_deref()
                .map_or_else(String::new, |id| pod::name_of(self.home, id))
                .into(),
            "Ports" if state.runs() => super::ports::shown(entry).into(),
            name if state.runs() && namespace(name).is_some() => number(state, name).into(),
            // IP stays empty.
            _ => "".into(),
        }
    }

    fn mounts(&self, container: &Container) -> String {
        let sources = mounts(container).filter(|mount| !mount.source.is_empty());
        let sources: Vec<String> = sources.map(|mount| self.cut(&mount.source, 15)).collect();
        sources.join(",")
    }

    fn age(&self, nanoseconds: u64) -> u64 {
        self.now.saturating_sub(nanoseconds / 1_000_000_000)
    }

    /// Cuts a text to `most` letters; the last letter of a cut text is an ellipsis.
    fn cut(&self, text: &str, most: usize) -> String {
        if self.whole || text.chars().count() <= most {
            return text.to_owned();
        }
        text.chars().take(most - 1).chain(['…']).collect()
    }

    fn status(&self, state: &State) -> String {
        status(state, self.now)
    }

    fn pod<'b>(&self, id: &'b str) -> &'b str {
        if self.whole {
            id
        } else {
            id.get(..12).unwrap_or(id)
        }
    }

    fn size(&self, entry: &Entry) -> String {
        if !self.sizes {
            return "0B".to_owned();
        }
        let size = container_size(self.home, entry);
        let (written, together) = (text::size(size.written), text::size(size.written + size.image));
        if size.image == 0 {
            written
        } else {
            format!("{written} (virtual {together})")
        }
    }
}

/// Name of a namespace below `/proc/PID/ns`, by its column.
fn namespace(column: &str) -> Option<&'static str> {
    Some(match column {
        "CGROUPNS" => "cgroup",
        "IPC" => "ipc",
        "MNT" => "mnt",
        "NET" => "net",
        "PIDNS" => "pid",
        "USERNS" => "user",
        "UTS" => "uts",
        _ => return None,
    })
}

/// Number of a namespace of the container's first process; empty if the process has ended meanwhile.
fn number(state: &State, column: &str) -> String {
    let kind = namespace(column).unwrap_or_default();
    let link = std::fs::read_link(format!("/proc/{}/ns/{kind}", state.pid())).unwrap_or_default();
    let text = link.to_string_lossy();
    let number = text
        .split_once('[')
        .map(|(_, number)| number.trim_end_matches(']'));
    number.unwrap_or_default().to_owned()
}

fn health_word(status: HealthStatus) -> &'static str {
    match status {
        HealthStatus::Starting => "starting",
        HealthStatus::Healthy => "healthy",
        HealthStatus::Unhealthy => "unhealthy",
    }
}

/// Returns the image as it was given; ids are cut.
fn image(container: &Container, whole: bool) -> String {
    match container.image.strip_prefix("sha256:") {
        Some(digits) if !whole && digits.len() > 12 => digits[..12].to_owned(),
        _ => container.image.clone(),
    }
}

/// Joins the words in a single line; docker quotes those with spaces.
fn command(words: &[String]) -> String {
    let words = words.iter().enumerate().map(|(index, word)| {
        if index > 0 && word.contains(' ') {
            format!("'{word}'")
        } else {
            word.clone()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

pub(crate) fn joined(labels: &BTreeMap<String, String>) -> String {
    let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(",")
}

/// Formats the state in docker's words: `Up 5 minutes (healthy)`, `Exited (0) 2 hours ago`. `now` is in seconds since 1970.
pub(crate) fn status(state: &State, now: u64) -> String {
    let since = |nanoseconds: u64| text::duration(now.saturating_sub(nanoseconds / 1_000_000_000));
    match state.status {
        Status::Created => "Created".to_owned(),
        Status::Running => {
            let health = state.health.as_ref().map(|health| health.status);
            let beside = match (state.paused, health) {
                (true, _) => " (Paused)",
                (false, Some(HealthStatus::Starting)) => " (health: starting)",
                (false, Some(HealthStatus::Healthy)) => " (healthy)",
                (false, Some(HealthStatus::Unhealthy)) => " (unhealthy)",
                (false, None) => "",
            };
            format!("Up {}{beside}", since(state.started_at))
        }
        Status::Restarting => format!(
            "Restarting ({}) {} ago",
            state.exit_code,
            since(state.finished_at)
        ),
        Status::Removing => "Removal In Progress".to_owned(),
        // The time is unknown if the container was not watched to its end.
        Status::Exited if state.finished_at == 0 => format!("Exited ({})", state.exit_code),
        Status::Exited => format!("Exited ({}) {} ago", state.exit_code, since(state.finished_at)),
        Status::Dead if state.error.is_empty() => "Dead".to_owned(),
        Status::Dead => format!("Dead: {}", state.error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(home: &Home) -> View<'_> {
        View {
            home,
            whole: false,
            sizes: false,
            shows: None,
            places: false,
            namespaces: false,
            now: 10_000,
        }
    }

    #[test]
    fn dockers_words() {
        let dir = std::env::temp_dir().join(format!("tote-ps-{}", std::process::id()));
        let home = Home::open(Some(&dir)).unwrap();
        let view = view(&home);
        let at = |seconds: u64| seconds * 1_000_000_000;
        let running = State {
            status: Status::Running,
            started_at: at(9700),
            ..State::default()
        };
        let exited = State {
            status: Status::Exited,
            exit_code: 3,
            finished_at: at(2800),
            ..State::default()
        };
        for (state, words) in [
            (State::default(), "Created"),
            (running.clone(), "Up 5 minutes"),
            (
                State {
                    paused: true,
                    ..running.clone()
                },
                "Up 5 minutes (Paused)",
            ),
            (
                State {
                    health: Some(tote_engine::container::Health::default()),
                    ..running
                },
                "Up 5 minutes (health: starting)",
            ),
            (exited.clone(), "Exited (3) 2 hours ago"),
            (
                State {
                    finished_at: 0,
                    ..exited.clone()
                },
                "Exited (3)",
            ),
            (
                State {
                    status: Status::Restarting,
                    ..exited.clone()
                },
                "Restarting (3) 2 hours ago",
            ),
            (
                State {
                    status: Status::Removing,
                    ..exited.clone()
                },
                "Removal In Progress",
            ),
            (
                State {
                    status: Status::Dead,
                    ..exited.clone()
                },
                "Dead",
            ),
            (
                State {
                    status: Status::Dead,
                    error: "failed to read it".to_owned(),
                    ..exited
                },
                "Dead: failed to read it",
            ),
        ] {
            assert_eq!(view.status(&state), words);
        }
        std::fs::remove_dir_all(dir).unwrap();
        let words = ["sh", "-c", "echo \"a\" b"].map(str::to_owned);
        let command = view.cut(&command(&words), 20);
        assert_eq!(format!("{command:?}"), r#""sh -c 'echo \"a\" b'""#);
        assert_eq!(view.cut("nginx -g 'daemon off;'", 20), "nginx -g 'daemon of…");
    }
}
