//! Containers of other engines, found by the files in which their engines keep what runs. No program of theirs is
//! started.

use super::DebugError;
use super::engines::{ENGINES, Engine};
use super::kubernetes::kubernetes;
use super::noted::{NotedProcess, Process, is_id};
use super::processes::Processes;
use serde::Deserialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Splits a target with a prefix; `None` for a bare name.
pub(crate) fn parse(wanted: &str) -> Result<Option<(Engine, &str)>, DebugError> {
    let Some((prefix, name)) = wanted.split_once(':') else {
        return Ok(None);
    };
    match ENGINES.into_iter().find(|(_, known)| *known == prefix) {
        Some((engine, _)) => Ok(Some((engine, name))),
        None => Err(DebugError::Engine(wanted.to_owned(), prefix.to_owned())),
    }
}

fn process(engine: Engine, name: &str, noted: NotedProcess) -> Process {
    Process {
        pid: noted.pid,
        container: noted.container(engine.name(), name),
        specs: noted.specs,
    }
}

/// Finds the first process of a container that runs.
///
/// # Errors
/// [`DebugError`], also if the process is a later one that has got the number of the container's.
pub(crate) fn find(engine: Engine, name: &str) -> Result<Process, DebugError> {
    if engine == Engine::Pid {
        let number = name.parse::<u32>().ok().filter(|pid| *pid > 0);
        return number
            .map(Process::from)
            .ok_or_else(|| DebugError::Pid(name.to_owned()));
    }
    let missing = || DebugError::Missing {
        engine: engine.name(),
        name: name.to_owned(),
    };
    if engine == Engine::Command {
        let found = Some(name).filter(|name| !name.is_empty());
        let found = found.map_or(Ok(None), |name| Processes::here().by_command(name))?;
        return found
            .map(Process::from)
            .ok_or_else(|| DebugError::NoCommand(name.to_owned()));
    }
    let noted = look(engine, name, Some(&Processes::here()))?.ok_or_else(missing)?;
    if noted.is_reused() {
        return Err(DebugError::Reused {
            engine: engine.name(),
            name: name.to_owned(),
            pid: noted.pid,
            path: noted.path,
        });
    }
    Ok(process(engine, name, noted))
}

/// Finds a container of that name in any engine whose state this user can read: in files, and only then among the processes,
/// which takes as long as half of a session's start.
pub(super) fn find_anywhere(name: &str) -> Result<Option<Process>, DebugError> {
    let processes = Processes::here();
    for processes in [None, Some(&processes)] {
        let mut found = Vec::new();
        for (engine, prefix) in ENGINES.into_iter().filter(|(engine, _)| engine.is_tried()) {
            match look(engine, name, processes) {
                Ok(Some(noted)) if !noted.is_reused() => {
                    found.push((process(engine, name, noted), format!("{prefix}:{name}")));
                }
                Ok(_) => {}
                // A bare name does not say that it is meant; docker's files are root's.
                Err(DebugError::State { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {}
                Err(error) => return Err(error),
            }
        }
        if found.len() > 1 {
            return Err(DebugError::Ambiguous {
                name: name.to_owned(),
                engines: found.into_iter().map(|(_, name)| name).collect(),
            });
        }
        if let Some((process, _)) = found.pop() {
            return Ok(Some(process));
        }
    }
    Ok(None)
}

/// Looks for a container in an engine's files, and where there are `processes`, among these.
fn look(
    engine: Engine,
    name: &str,
    processes: Option<&Processes>,
) -> Result<Option<NotedProcess>, DebugError> {
    // A name becomes a part of a path, or is compared with what files say.
    if name.is_empty() || name.starts_with('.') || name.contains("..") {
        return Ok(None);
    }
    match engine {
        Engine::Docker => docker(Path::new("/var/lib/docker/containers"), name),
        // Root's podman notes nothing of containers of users, nor one user's podman of a storage elsewhere.
        Engine::Podman => match podman(&podman_storages(), name)? {
            Some(found) => Ok(Some(found)),
            None => processes.map_or(Ok(None), |processes| processes.of_podman(name)),
        },
        Engine::Containerd => containerd(Path::new(CONTAINERD), name),
        // A machine that is not registered has no file.
        Engine::Nspawn => match nspawn(Path::new("/run/systemd/machines"), name)? {
            Some(found) => Ok(Some(found)),
            None => Ok(processes.and_then(|processes| processes.of_nspawn(name))),
        },
        Engine::Lxc | Engine::Lxd => {
            Ok(processes.and_then(|processes| processes.of_lxc(name, engine == Engine::Lxd)))
        }
        // containerd's containers for Kubernetes are in a namespace of their own, CRI-O's in root's storage of podman.
        Engine::Crictl => match containerd(Path::new(CONTAINERD), &format!("k8s.io/{name}"))? {
            Some(found) => Ok(Some(found)),
            None => podman(&root_storages(), name),
        },
        Engine::Kubernetes => kubernetes(Path::new(CONTAINERD), &root_storages(), name),
        Engine::Command | Engine::Pid => Ok(None),
    }
}

/// Directory of containerd's running containers.
const CONTAINERD: &str = "/run/containerd/io.containerd.runtime.v2.task";

/// Such directories of docker's containerd, which is the machine's or one of docker's own.
const DOCKERS: [&str; 2] = [
    CONTAINERD,
    "/run/docker/containerd/daemon/io.containerd.runtime.v2.task",
];

/// Name of the spec in a bundle.
pub(super) const SPEC: &str = "config.json";

/// Reads a file of an engine; `None` if it is missing.
pub(super) fn read(engine: Engine, path: &Path) -> Result<Option<String>, DebugError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(state(engine, path, source)),
    }
}

fn state(engine: Engine, path: &Path, source: std::io::Error) -> DebugError {
    DebugError::State {
        engine: engine.name(),
        path: path.to_owned(),
        source,
    }
}

/// Lists the names in a directory; none if it is missing.
pub(super) fn list(engine: Engine, dir: &Path) -> Result<Vec<String>, DebugError> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|source| state(engine, dir, source))?,
    };
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.map_err(|source| state(engine, dir, source))?;
        Ok(entry.file_name().to_string_lossy().into_owned())
    };
    entries.map(name).collect()
}

/// The process that a file names; `None` if it says that the container does not run. The engine gave a runtime one of the `specs`.
pub(super) fn running(
    pid: Option<u32>,
    id: &str,
    path: PathBuf,
    specs: Vec<PathBuf>,
) -> Option<NotedProcess> {
    let pid = pid.filter(|pid| *pid > 0)?;
    let id = id.to_owned();
    Some(NotedProcess { pid, id, path, specs })
}

/// `config.v2.json` of a container of docker.
#[derive(Deserialize)]
struct DockerContainer {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "Name")]
    name: String,
    #[serde(rename = "State")]
    state: DockerState,
}

#[derive(Deserialize)]
struct DockerState {
    #[serde(rename = "Pid")]
    pid: u32,
}

fn docker(dir: &Path, wanted: &str) -> Result<Option<NotedProcess>, DebugError> {
    for id in list(Engine::Docker, dir)? {
        let path = dir.join(&id).join("config.v2.json");
        let Some(text) = read(Engine::Docker, &path)? else {
            continue;
        };
        // A container that is being made or removed may have half a file.
        let Ok(container) = serde_json::from_str::<DockerContainer>(&text) else {
            continue;
        };
        let name = container.name.strip_prefix('/').unwrap_or(&container.name);
        if name == wanted || is_id(wanted, &container.id) {
            let bundles = DOCKERS.map(|tasks| Path::new(tasks).join("moby").join(&container.id));
            let specs = bundles.map(|bundle| bundle.join(SPEC)).into();
            return Ok(running(Some(container.state.pid), &container.id, path, specs));
        }
    }
    Ok(None)
}

/// A container in podman's `containers.json`.
#[derive(Deserialize)]
struct PodmanContainer {
    id: String,
    #[serde(default)]
    names: Vec<String>,
}

/// Directories of podman: where it notes containers, and where it notes what runs.
pub(super) type PodmanStorage = (PathBuf, PathBuf);

/// Storage drivers of podman, each of which has a directory for containers; vfs is the one that needs no right.
const PODMAN_DRIVERS: [&str; 4] = ["overlay", "vfs", "btrfs", "zfs"];

/// Returns the directories of root's podman, and of CRI-O.
fn root_storages() -> Vec<PodmanStorage> {
    storages(
        Path::new("/var/lib/containers/storage"),
        Path::new("/run/containers/storage"),
    )
}

fn storages(graph: &Path, run: &Path) -> Vec<PodmanStorage> {
    let directories = PODMAN_DRIVERS.map(|driver| format!("{driver}-containers"));
    directories
        .map(|directory| (graph.join(&directory), run.join(&directory)))
        .into()
}

fn podman_storages() -> Vec<PodmanStorage> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if rustix::process::geteuid().is_root() {
        return root_storages();
    }
    let (graph, run) = {
        let data = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")));
        match (data, variable("XDG_RUNTIME_DIR")) {
            (Some(data), Some(run)) => (data.join("containers/storage"), run.join("containers")),
            _ => return Vec::new(),
        }
    };
    storages(&graph, &run)
}

fn podman(storages: &[PodmanStorage], wanted: &str) -> Result<Option<NotedProcess>, DebugError> {
    for (graph, run) in storages {
        let Some(text) = read(Engine::Podman, &graph.join("containers.json"))? else {
            continue;
        };
        let containers: Vec<PodmanContainer> = serde_json::from_str(&text).unwrap_or_default();
        let known = |container: &&PodmanContainer| {
            is_id(wanted, &container.id) || container.names.iter().any(|name| name == wanted)
        };
        let Some(container) = containers.iter().find(known) else {
            continue;
        };
        let path = run.join(&container.id).join("userdata/pidfile");
        let pid = read(Engine::Podman, &path)?.and_then(|text| text.trim().parse().ok());
        let specs = [graph, run].map(|dir| dir.join(&container.id).join("userdata").join(SPEC));
        return Ok(running(pid, &container.id, path, specs.into()));
    }
    Ok(None)
}

/// Looks in every namespace of containerd, unless the name has one: `NAMESPACE/ID`.
fn containerd(dir: &Path, wanted: &str) -> Result<Option<NotedProcess>, DebugError> {
    let (spaces, wanted) = match wanted.split_once('/') {
        Some((space, id)) => (vec![space.to_owned()], id),
        None => (list(Engine::Containerd, dir)?, wanted),
    };
    if wanted.contains('/') {
        return Ok(None);
    }
    for space in spaces {
        let space = dir.join(space);
        for id in list(Engine::Containerd, &space)? {
            if id == wanted || is_id(wanted, &id) {
                let bundle = space.join(&id);
                let path = bundle.join("init.pid");
                let pid = read(Engine::Containerd, &path)?.and_then(|text| text.trim().parse().ok());
                return Ok(running(pid, &id, path, vec![bundle.join(SPEC)]));
            }
        }
    }
    Ok(None)
}

fn nspawn(dir: &Path, wanted: &str) -> Result<Option<NotedProcess>, DebugError> {
    if wanted.contains('/') {
        return Ok(None);
    }
    let path = dir.join(wanted);
    let Some(text) = read(Engine::Nspawn, &path)? else {
        return Ok(None);
    };
    let leader = text.lines().find_map(|line| line.strip_prefix("LEADER="));
    let pid = leader.and_then(|pid| pid.parse().ok());
    Ok(running(pid, wanted, path, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: PathBuf, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn targets_are_split_at_the_prefix() {
        assert_eq!(parse("web").unwrap(), None);
        assert_eq!(parse("docker:web").unwrap(), Some((Engine::Docker, "web")));
        assert!(parse("dokcer:web").unwrap_err().to_string().contains("dokcer"));
        assert_eq!(find(Engine::Pid, "7").unwrap().pid, 7);
        for bad in ["", "0", "-1", "x", "99999999999"] {
            find(Engine::Pid, bad).unwrap_err();
        }
    }

    #[test]
    fn names_do_not_leave_the_directory() {
        for bad in ["", ".", "..", "../x", "a/../../b"] {
            assert!(look(Engine::Nspawn, bad, None).unwrap().is_none(), "{bad}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert!(nspawn(dir.path(), "a/b").unwrap().is_none());
    }

    #[test]
    fn each_engine_keeps_its_containers_in_its_own_way() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let pid = |found: Result<Option<NotedProcess>, DebugError>| found.unwrap().map(|process| process.pid);
        write(
            at("d/abcdef/config.v2.json"),
            r#"{"ID":"abcdef","Name":"/web","State":{"Pid":7}}"#,
        );
        write(at("d/fedcba/config.v2.json"), "half a fi");
        write(
            at("d/012345/config.v2.json"),
            r#"{"ID":"012345","Name":"/off","State":{"Pid":0}}"#,
        );
        assert_eq!(pid(docker(&at("d"), "web")), Some(7));
        assert_eq!(pid(docker(&at("d"), "abcd")), Some(7));
        assert_eq!(pid(docker(&at("d"), "abc")), None, "too short for an id");
        assert_eq!(pid(docker(&at("d"), "off")), None, "it does not run");
        assert_eq!(pid(docker(&at("missing"), "web")), None);

        write(
            at("g/containers.json"),
            r#"[{"id":"aaaa1","names":["db"]},{"id":"bbbb1"}]"#,
        );
        write(at("r/aaaa1/userdata/pidfile"), "8");
        let storages = [(at("g"), at("r"))];
        assert_eq!(pid(podman(&storages, "db")), Some(8));
        assert_eq!(pid(podman(&storages, "bbbb1")), None, "it does not run");

        write(at("c/moby/cccc1/init.pid"), "9");
        assert_eq!(pid(containerd(&at("c"), "cccc1")), Some(9));
        assert_eq!(pid(containerd(&at("c"), "moby/cccc")), Some(9));
        assert_eq!(pid(containerd(&at("c"), "k8s.io/cccc1")), None);

        let config = r#"{"annotations":{"io.kubernetes.cri.sandbox-namespace":"prod",
            "io.kubernetes.cri.sandbox-name":"web","io.kubernetes.cri.container-name":"app"}}"#;
        write(at("c/k8s.io/dddd1/config.json"), config);
        write(at("c/k8s.io/dddd1/init.pid"), "11");
        let config = r#"{"annotations":{"io.kubernetes.pod.name":"db","io.kubernetes.container.name":"pg"}}"#;
        write(at("r/eeee1/userdata/config.json"), config);
        write(at("r/eeee1/userdata/pidfile"), "12");
        let of_pod = |wanted| pid(kubernetes(&at("c"), &storages, wanted));
        assert_eq!(of_pod("web/app"), Some(11));
        assert_eq!(of_pod("prod/web/app"), Some(11));
        assert_eq!(of_pod("test/web/app"), None);
        assert_eq!(of_pod("db/pg"), Some(12));
        assert_eq!(of_pod("web"), None);

        write(at("m/guest"), "NAME=guest\nLEADER=10\n");
        assert_eq!(pid(nspawn(&at("m"), "guest")), Some(10));
    }
}
