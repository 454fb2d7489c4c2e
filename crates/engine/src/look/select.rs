//! Which containers `ps` shows.

use super::LookError;
use super::Pattern;
use crate::container::{self, Container, Entry, HealthStatus, State, Status};
use crate::look::label::has_label;
use crate::look::label::label;
use crate::{EngineError, Home};
use std::path::{Path, PathBuf};
use tote_bundle::{NetworkMode, RestartPolicy, RunOptions};
use tote_image::{Digest, Reference};
use tote_store::Store;

/// Which containers to list.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Also those that do not run.
    pub all: bool,
    /// At most this many, the newest, whether they run or not.
    pub last: Option<usize>,
    /// `KEY=VALUE` each: values of one key are alternatives, but of `label`; every key must apply.
    pub filters: Vec<String>,
}

/// The containers that are asked for, the newest first.
///
/// # Errors
/// [`LookError::Filter`] for an invalid filter, and those of looking up the object that a filter names.
pub fn select(home: &Home, selection: &Selection) -> Result<Vec<Entry>, EngineError> {
    let filters = Filters::parse(home, &selection.filters)?;
    let all = selection.all || selection.last.is_some() || filters.of("status").next().is_some();
    let mut chosen = Vec::new();
    for entry in container::list(home)? {
        let shown = all || matches!(entry.state.status, Status::Running | Status::Restarting);
        if shown && filters.fit(&entry) {
            chosen.push(entry);
        }
        if selection.last.is_some_and(|last| chosen.len() >= last) {
            break;
        }
    }
    if selection.last == Some(0) {
        chosen.clear();
    }
    Ok(chosen)
}

/// Filters that each container must match.
pub(crate) struct Filters {
    all: Vec<(&'static str, Filter)>,
}

enum Filter {
    Text(Pattern),
    Id(String),
    Label(String, Option<String>),
    Exited(i32),
    Status(Status),
    Paused,
    Health(Option<HealthStatus>),
    Ancestor(Ancestor),
    Before(u64),
    Since(u64),
    Volume(String),
    Network(String),
    /// Ports as `80/tcp`.
    Expose(Vec<String>),
    /// Containers that publish ports which the filter names.
    Publish(Publishers),
    /// Whether it is a task of a swarm, which none is.
    Task(bool),
    Pod(String),
    Policy(String),
    /// Whether it is to start with the machine; where containers are.
    AtBoot(bool, PathBuf),
}

impl Filters {
    pub(crate) fn parse(home: &Home, texts: &[String]) -> Result<Self, EngineError> {
        let mut all = Vec::new();
        for text in texts {
            let parsed = match text.split_once('=') {
                Some((key, value)) => parse(home, key, value)?,
                None => None,
            };
            all.push(parsed.ok_or_else(|| LookError::Filter(text.clone()))?);
        }
        Ok(Self { all })
    }

    fn of(&self, wanted: &'static str) -> impl Iterator<Item = &Filter> {
        let same = self.all.iter().filter(move |(key, _)| *key == wanted);
        same.map(|(_, filter)| filter)
    }

    /// docker's rule: one of each key, and all of the labels.
    pub(crate) fn fit(&self, entry: &Entry) -> bool {
        self.all.iter().all(|(key, filter)| match filter {
            Filter::Label(..) | Filter::Before(_) | Filter::Since(_) => filter.fits(entry),
            _ => self.of(key).any(|filter| filter.fits(entry)),
        })
    }
}

fn parse(home: &Home, key: &str, value: &str) -> Result<Option<(&'static str, Filter)>, EngineError> {
    let created = |name: &str| Ok::<_, EngineError>(container::find(home, name)?.container.created);
    Ok(match key {
        "id" => Some(("id", Filter::Id(value.to_owned()))),
        "name" => Pattern::parse(value).map(|pattern| ("name", Filter::Text(pattern))),
        "label" => {
            let (key, value) = label(value);
            Some(("label", Filter::Label(key, value)))
        }
        "exited" => value.parse().ok().map(|code| ("exited", Filter::Exited(code))),
        "status" if value == "paused" => Some(("status", Filter::Paused)),
        "status" => status(value).map(|status| ("status", Filter::Status(status))),
        "health" => health(value).map(|health| ("health", Filter::Health(health))),
        "ancestor" => Some(("ancestor", Filter::Ancestor(Ancestor::find(home, value)?))),
        "before" => Some(("before", Filter::Before(created(value)?))),
        "since" => Some(("since", Filter::Since(created(value)?))),
        "volume" => Some(("volume", Filter::Volume(value.to_owned()))),
        "network" => Some(("network", Filter::Network(crate::network::name_of(home, value)?))),
        "expose" => ports(value).map(|ports| ("expose", Filter::Expose(ports))),
        "is-task" => value.parse().ok().map(|is| ("is-task", Filter::Task(is))),
        "publish" => match ports(value) {
            Some(ports) => Some(("publish", Filter::Publish(Publishers::find(home, &ports)?))),
            None => None,
        },
        "pod" => Some(("pod", Filter::Pod(crate::pod::id_of(home, value)))),
        "restart-policy" => Some(("restart-policy", Filter::Policy(value.to_owned()))),
        "should-start-on-boot" => {
            let wanted = value.parse().ok();
            wanted.map(|wanted| ("should-start-on-boot", Filter::AtBoot(wanted, home.containers())))
        }
        _ => None,
    })
}

fn status(word: &str) -> Option<Status> {
    Some(match word {
        "created" => Status::Created,
        "running" => Status::Running,
        "restarting" => Status::Restarting,
        "removing" => Status::Removing,
        // podman's word, too.
        "exited" | "stopped" => Status::Exited,
        "dead" => Status::Dead,
        _ => return None,
    })
}

fn health(word: &str) -> Option<Option<HealthStatus>> {
    Some(match word {
        "none" => None,
        "starting" => Some(HealthStatus::Starting),
        "healthy" => Some(HealthStatus::Healthy),
        "unhealthy" => Some(HealthStatus::Unhealthy),
        _ => return None,
    })
}

impl Filter {
    fn fits(&self, entry: &Entry) -> bool {
        let (container, state) = (&entry.container, &entry.state);
        match self {
            // docker's names begin with a slash inside, and so do patterns that people copied.
            Self::Text(pattern) => {
                pattern.is_in(&container.name) || pattern.is_in(&format!("/{}", container.name))
            }
            Self::Id(part) => container.id.as_str().starts_with(part.as_str()),
            Self::Label(key, value) => has_label(&container.labels, key, value.as_deref()),
            Self::Exited(code) => state.status == Status::Exited && state.exit_code == *code,
            Self::Status(status) => state.status == *status && !state.paused,
            Self::Paused => state.paused,
            Self::Health(wanted) => *wanted == state.health.as_ref().map(|health| health.status),
            Self::Ancestor(ancestor) => ancestor.is_of(container),
            Self::Before(created) => container.created < *created,
            Self::Since(created) => container.created > *created,
            Self::Volume(volume) => has_mount(container, volume),
            Self::Network(network) => networks_of(container).contains(network),
            Self::Expose(ports) => container.exposed.iter().any(|port| ports.contains(port)),
            Self::Publish(publishers) => publishers.include(container),
            Self::Task(is) => !is,
            Self::Pod(pod) => container
                .pod
                .as_ref()
                .is_some_and(|own| own.starts_with(pod.as_str())),
            Self::Policy(wanted) => policy(container).as_str() == wanted,
            Self::AtBoot(wanted, dir) => starts_at_boot(container, dir) == *wanted,
        }
    }
}

/// Ports as `--expose` takes them; `None` for an invalid text.
fn ports(text: &str) -> Option<Vec<String>> {
    let mut options = RunOptions::default();
    options.set("expose", text).ok()?;
    Some(options.exposed)
}

/// The ids and names of containers that publish certain ports.
struct Publishers(Vec<String>);

impl Publishers {
    /// `ports` are the host's, each as `8080/tcp`.
    fn find(home: &Home, ports: &[String]) -> Result<Self, EngineError> {
        let mut all = container::list(home)?;
        all.retain(|entry| {
            let mut published = crate::network::ports_of(&entry.state.networks);
            published.any(|port| ports.contains(&format!("{}/{}", port.host.port(), port.protocol)))
        });
        let words = all
            .into_iter()
            .flat_map(|entry| [entry.container.id.to_string(), entry.container.name]);
        Ok(Self(words.collect()))
    }

    /// A pod's member is reached by the ports of the container that keeps the pod's network, and `ps` shows them with it.
    fn include(&self, container: &Container) -> bool {
        let network = network_of(container);
        let keeper = network
            .strip_prefix("container:")
            .filter(|_| container.pod.is_some());
        let publishes = |word: &str| self.0.iter().any(|known| known == word);
        publishes(container.id.as_str()) || keeper.is_some_and(publishes)
    }
}

fn policy(container: &Container) -> RestartPolicy {
    let given = container.option("restart").and_then(|text| text.parse().ok());
    given.unwrap_or_default()
}

/// docker's rule: one that was stopped stays so, unless it is always to run.
fn starts_at_boot(container: &Container, containers: &Path) -> bool {
    match policy(container) {
        RestartPolicy::Always => true,
        RestartPolicy::UnlessStopped => !container::was_stopped(&containers.join(container.id.as_str())),
        RestartPolicy::No | RestartPolicy::OnFailure(_) => false,
    }
}

/// The names of a container's networks, at least one.
#[must_use]
pub fn networks_of(container: &Container) -> Vec<String> {
    let mut mode = NetworkMode::default();
    for (_, value) in container.options.iter().filter(|(option, _)| option == "network") {
        match (&mut mode, value.parse()) {
            (NetworkMode::Networks(own), Ok(NetworkMode::Networks(more))) => own.extend(more),
            (mode, Ok(last)) => *mode = last,
            // A record that this release does not understand names what it names.
            (_, Err(_)) => return vec![value.clone()],
        }
    }
    match mode {
        NetworkMode::None => vec!["none".to_owned()],
        NetworkMode::Host => vec!["host".to_owned()],
        NetworkMode::Container(peer) => vec![format!("container:{peer}")],
        NetworkMode::Networks(networks) => networks.into_iter().map(|one| one.network).collect(),
    }
}

/// The name of a container's network, of several the first: docker's `NetworkMode`.
#[must_use]
pub fn network_of(container: &Container) -> String {
    networks_of(container).swap_remove(0)
}

/// The name of a container's storage driver.
#[must_use]
pub fn driver_of(container: &Container) -> String {
    let driver = container.driver.clone();
    driver.unwrap_or_else(|| tote_driver::Driver::default().name().to_owned())
}

/// Whether a volume of that name, a source or a destination of that path is among the mounts.
fn has_mount(container: &Container, wanted: &str) -> bool {
    container::mounts(container).any(|mount| mount.source == wanted || mount.destination == wanted)
}

/// An image, by what containers of it or of images that are built on it have in common.
struct Ancestor {
    /// The given text.
    given: String,
    name: Option<Reference>,
    /// Every image that begins with its layers, itself included.
    heirs: Vec<String>,
}

impl Ancestor {
    fn find(home: &Home, given: &str) -> Result<Self, EngineError> {
        let store = crate::open_store(home)?;
        Ok(Self {
            given: given.to_owned(),
            name: Reference::parse(given).ok(),
            heirs: match tote_images::find(&store, given, &[]) {
                Ok(found) => heirs(&store, &found.images())?,
                Err(_) => Vec::new(),
            },
        })
    }

    fn is_of(&self, container: &Container) -> bool {
        if let Some(id) = &container.image_id {
            return self.heirs.contains(id);
        }
        container.image == self.given
            || self.name.is_some() && Reference::parse(&container.image).ok() == self.name
    }
}

/// Whether an image is another one, or is built on it. An image that only changes settings has no layer more: then its
/// history is longer.
fn is_heir(ancestor: &tote_store::Image, image: &tote_store::Image) -> bool {
    let (own, below) = (image.layers(), ancestor.layers());
    let history = |image: &tote_store::Image| image.config.value().history.clone();
    image.id == ancestor.id
        || own.starts_with(below)
            && (own.len() > below.len() || history(image).starts_with(&history(ancestor)))
}

fn heirs(store: &Store, ancestors: &[Digest]) -> Result<Vec<String>, EngineError> {
    let images = store.images()?;
    let mut heirs = Vec::new();
    for ancestor in ancestors {
        let ancestor = store.image(ancestor)?;
        let is_heir = |image: &&tote_store::Image| is_heir(&ancestor, image);
        heirs.extend(images.iter().filter(is_heir).map(|image| image.id.to_string()));
    }
    Ok(heirs)
}

/// docker's word for how a container is doing; a frozen one is paused.
#[must_use]
pub fn status_word(state: &State) -> &'static str {
    match state.status {
        Status::Running if state.paused => "paused",
        status => status.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        (dir, home)
    }

    /// Three containers: the first created, the second ended, the third started and ended badly.
    fn three(home: &Home) {
        for (number, name, status, exit_code, options) in [
            (
                1_u8,
                "web-1",
                Status::Created,
                0,
                r#"[["volume","data:/data"],["network","host"]]"#,
            ),
            (2, "web-2", Status::Exited, 0, r#"[["volume","/srv:/srv:ro"]]"#),
            (3, "db", Status::Exited, 3, "[]"),
        ] {
            let id = tote_bundle::ContainerId::from_bytes([number; 32]);
            let text = format!(
                r#"{{"id":"{id}","name":"{name}","image":"host","created":{number},"options":{options},
                    "labels":{{"tier":"{name}","all":""}}}}"#
            );
            let container: Container = serde_json::from_str(&text).unwrap();
            std::fs::create_dir_all(home.container(&id)).unwrap();
            std::os::unix::fs::symlink(id.as_str(), home.names().join(name)).unwrap();
            container.write(home).unwrap();
            let state = State {
                status,
                exit_code,
                ..State::default()
            };
            state.write(home, &id).unwrap();
        }
    }

    fn names(home: &Home, selection: &Selection) -> Vec<String> {
        let entries = select(home, selection).unwrap();
        entries.into_iter().map(|entry| entry.container.name).collect()
    }

    fn all(filters: &[&str]) -> Selection {
        Selection {
            all: true,
            last: None,
            filters: filters.iter().map(|filter| (*filter).to_owned()).collect(),
        }
    }

    #[test]
    fn filters() {
        let (_dir, home) = home();
        three(&home);
        for (filters, expected) in [
            (&[][..], &["db", "web-2", "web-1"][..]),
            (&["name=web"], &["web-2", "web-1"]),
            (&["name=^/web-1$"], &["web-1"]),
            (&["name=^db$", "name=1$"], &["db", "web-1"]),
            (&["id=0202"], &["web-2"]),
            (&["label=tier=db"], &["db"]),
            (&["label=all", "label=tier=db"], &["db"]),
            (&["label=tier=x", "label=all"], &[]),
            (&["exited=3"], &["db"]),
            (&["exited=0"], &["web-2"]),
            (&["status=exited"], &["db", "web-2"]),
            (&["status=created", "status=running"], &["web-1"]),
            (&["before=web-2"], &["web-1"]),
            (&["since=web-2"], &["db"]),
            (&["volume=data"], &["web-1"]),
            (&["volume=/srv"], &["web-2"]),
            (&["network=host"], &["web-1"]),
            (&["network=none"], &["db", "web-2"]),
            (&["health=none"], &["db", "web-2", "web-1"]),
            (&["health=healthy"], &[]),
            (&["ancestor=host"], &["db", "web-2", "web-1"]),
            (&["ancestor=other"], &[]),
        ] {
            assert_eq!(names(&home, &all(filters)), expected, "{filters:?}");
        }
    }

    #[test]
    fn how_many() {
        let (_dir, home) = home();
        three(&home);
        assert_eq!(names(&home, &Selection::default()), [""; 0]);
        let last = |last| Selection {
            last: Some(last),
            ..Selection::default()
        };
        assert_eq!(names(&home, &last(2)), ["db", "web-2"]);
        assert_eq!(names(&home, &last(0)), [""; 0]);
        // A filter of the status says which are meant.
        let exited = Selection {
            all: false,
            ..all(&["status=exited"])
        };
        assert_eq!(names(&home, &exited), ["db", "web-2"]);
    }

    #[test]
    fn refusals() {
        let (_dir, home) = home();
        for bad in [
            "name",
            "colour=red",
            "status=well",
            "exited=x",
            "health=ill",
            "name=(",
        ] {
            let error = select(&home, &all(&[bad])).unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid filter {bad:?}")), "{error}");
        }
        let error = select(&home, &all(&["before=nobody"])).unwrap_err().to_string();
        assert_eq!(error, "No such container: nobody");
    }
}
