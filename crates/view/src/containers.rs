//! Containers in lists, as docker's and podman's `ps` show them.

use crate::listing::Listing;
use crate::text::{self, cut, joined};
use serde_json::{Value, json};
use tote_engine::container::{Container, Entry, HealthStatus, State, Status, mounts};
use tote_engine::pod;
use tote_engine::{Home, container_size, driver_of, networks_of, port_keeper, status_word};

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

/// Choice of what a list of containers shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContainerColumns<'a> {
    /// True if nothing is cut to the width of its column.
    pub whole: bool,
    /// True if sizes are measured, which reads the containers' directories.
    pub sizes: bool,
    /// True for the table of podman's `--ns`.
    pub namespaces: bool,
    /// True if the table has columns for pods.
    pub pods: bool,
    /// The option `--format` as it was given.
    pub format: Option<&'a str>,
    /// True if neither the command line nor a setting has a format.
    pub is_usual: bool,
}

/// Lists containers with docker's fields.
#[must_use]
pub fn containers(home: &Home, entries: &[Entry], wanted: ContainerColumns<'_>) -> Listing {
    let mut columns = if wanted.namespaces {
        WITH_NAMESPACES
    } else {
        COLUMNS
    }
    .to_owned();
    if wanted.sizes && wanted.format.is_none_or(|format| format == "table") {
        columns += "\t{{.Size}}";
    }
    if wanted.pods {
        columns += "\t{{.Pod}}\t{{.PodName}}";
    }
    let format = wanted.format;
    let view = View {
        home,
        whole: wanted.whole,
        sizes: wanted.sizes,
        // Fields that need a file to be examined are only computed if they may be shown.
        places: format
            .is_some_and(|format| format == "json" || format.contains("Rootfs") || format.contains("json")),
        namespaces: wanted.namespaces
            || format.is_some_and(|format| format.contains("{{") && !format.contains("json")),
        shows: wanted.is_usual.then_some(columns.as_str()),
        now: tote_calendar::now().as_secs(),
    };
    let label = |entry: &Entry| json!({ "Label": entry.container.labels });
    let rows = entries.iter().map(|entry| view.row(entry)).collect();
    let methods = entries.iter().filter(|_| !wanted.is_usual).map(label).collect();
    Listing {
        headings: HEADINGS,
        rows,
        methods,
        columns,
        ..Listing::default()
    }
}

/// Sorts by podman's `--sort`; returns whether the key is known. `created` puts the oldest first, as podman
/// does.
#[must_use]
pub fn sort_containers(home: &Home, entries: &mut [Entry], key: &str) -> bool {
    match key {
        "created" | "runningfor" => entries.sort_by_key(|entry| entry.container.created),
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

/// The id of a container in a list.
#[must_use]
pub fn id_of(entry: &Entry, whole: bool) -> &str {
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
            "ID" => id_of(entry, self.whole).into(),
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
            "Rootfs" if self.places => crate::place::rootfs(self.home, entry).into(),
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
            "Ports" if state.runs() => self.ports(entry).into(),
            name if state.runs() && namespace(name).is_some() => number(state, name).into(),
            "IP" if state.runs() => {
                let addresses = state.networks.iter().map(|endpoint| endpoint.address.to_string());
                addresses.collect::<Vec<_>>().join(",").into()
            }
            _ => "".into(),
        }
    }

    fn ports(&self, entry: &Entry) -> String {
        // Without the container that keeps its network a member is reached by no port.
        let keeper = port_keeper(self.home, entry).ok().flatten();
        crate::ports::shown(entry, keeper.as_ref())
    }

    fn mounts(&self, container: &Container) -> String {
        let sources = mounts(container).filter(|mount| !mount.source.is_empty());
        let sources: Vec<String> = sources.map(|mount| self.cut(&mount.source, 15)).collect();
        sources.join(",")
    }

    fn age(&self, nanoseconds: u64) -> u64 {
        self.now.saturating_sub(nanoseconds / 1_000_000_000)
    }

    fn cut(&self, text: &str, most: usize) -> String {
        cut(text, if self.whole { usize::MAX } else { most })
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
    // absence: a text for people
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

/// Formats the state in docker's words: `Up 5 minutes (healthy)`, `Exited (0) 2 hours ago`. `now` is in seconds since 1970.
#[must_use]
pub fn status(state: &State, now: u64) -> String {
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
