//! A container from a spec, on the kernel of this machine.

use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, Mode, OFlags};
use serde_json::{Value, json};
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use tote_runtime::{Foreground, Maps, Observer, Outcome, Parting, RuntimeError, Stdio, run};
use tote_sandbox::{
    CgroupView, DeviceNodes, Facts, Lifetime, MapOrigin, Plan, Request, Root, SecurityModule, Stdin, Switch,
};
use tote_spec::{NamespaceType, Spec};
use tote_sys::Op;

const BUSYBOX: &str = "/bin/busybox";

/// Bundle with busybox as its root, and a spec to be changed.
pub(crate) struct Bundle {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) spec: Value,
    pub(crate) no_pivot: bool,
}

/// Returns what a test lacks on this machine.
pub(crate) fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("root");
    }
    (!Path::new(BUSYBOX).try_exists().unwrap()).then_some("a static busybox")
}

/// Leaves the test when something that it needs is missing, and prints what.
#[macro_export]
macro_rules! needs {
    () => {
        if let Some(need) = $crate::container::missing() {
            println!("skipped: needs {need}");
            return;
        }
    };
}

impl Bundle {
    /// Makes a bundle whose shell runs `script`.
    pub(crate) fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("rootfs");
        for name in ["bin", "etc", "tmp", "mnt"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        for applet in APPLETS {
            symlink("busybox", root.join("bin").join(applet)).unwrap();
        }
        mode(dir.path(), 0o755);
        let spec = json!({
            "ociVersion": "1.2.0",
            "root": {"path": root},
            "process": {"args": ["sh", "-c", script], "cwd": "/", "env": ["PATH=/bin"],
                "capabilities": {"bounding": CAPS, "permitted": CAPS, "effective": CAPS}},
            "mounts": [
                // It is bound, not copied: while a copy is written, a process that another test clones has it open,
                // and execve fails with ETXTBSY.
                {"destination": "/bin/busybox", "source": BUSYBOX, "options": ["bind", "ro"]},
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755"]},
                {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]},
                {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
            ],
            "linux": {"namespaces": [{"type": "mount"}, {"type": "pid"}, {"type": "uts"}, {"type": "ipc"}, {"type": "network"}]},
        });
        Self {
            dir,
            spec,
            no_pivot: false,
        }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("rootfs")
    }

    /// Adds a mount.
    pub(crate) fn mount(mut self, mount: Value) -> Self {
        self.spec["mounts"].as_array_mut().unwrap().push(mount);
        self
    }

    /// Changes one value, by its JSON pointer.
    pub(crate) fn with(mut self, pointer: &str, value: Value) -> Self {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        self.spec.pointer_mut(parent).unwrap()[key] = value;
        self
    }

    /// Adds a user namespace of 65536 ids, which own the root.
    pub(crate) fn in_user_namespace(mut self) -> Self {
        self.namespace(json!({"type": "user"}));
        let maps = json!([{"containerID": 0, "hostID": 100_000, "size": 65536}]);
        self.spec["linux"]["uidMappings"] = maps.clone();
        self.spec["linux"]["gidMappings"] = maps;
        self.give_away();
        self
    }

    pub(crate) fn namespace(&mut self, namespace: Value) {
        let list = self.spec["linux"]["namespaces"].as_array_mut().unwrap();
        list.retain(|other| other["type"] != namespace["type"]);
        list.push(namespace);
    }

    /// Gives the root to user 100000.
    pub(crate) fn give_away(&self) {
        fn all(path: &Path) {
            std::os::unix::fs::lchown(path, Some(100_000), Some(100_000)).unwrap();
            if path.symlink_metadata().unwrap().is_dir() {
                std::fs::read_dir(path)
                    .unwrap()
                    .for_each(|entry| all(&entry.unwrap().path()));
            }
        }
        all(&self.root());
    }

    /// Plans the bundle.
    pub(crate) fn plan(&self) -> Result<Plan, String> {
        let spec = Spec::parse(&self.spec.to_string()).map_err(|error| error.to_string())?;
        let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let hidden = tote_sandbox::whole_proc_and_sys(&mountinfo, &self.root());
        let maps = spec
            .linux
            .as_ref()
            .is_some_and(|linux| !linux.uid_mappings.is_empty());
        let request = Request {
            spec: &spec,
            attach_point: Path::new("/mnt"),
            files: &[],
            fill: &[],
            id_mapping: if maps {
                MapOrigin::ByParent
            } else {
                MapOrigin::None
            },
            default_filter: false,
            stdin: Stdin::Null,
            init: false,
            lifetime: Lifetime::OfParent,
            preserve_fds: 0,
            switch: if self.no_pivot {
                Switch::Move(&hidden)
            } else {
                Switch::Pivot
            },
            keyring: Some("_ses.test"),
            all_processors: true,
            links: &[],
            facts: Facts {
                bounding: tote_sys::bounding_capabilities(),
                hard_limit: &|_| None,
                oom_score_adj: 0,
                cgroup_view: CgroupView::None,
                waits_for_cgroup: false,
                network_comes: false,
                setgroups: true,
                device_nodes: DeviceNodes::Ruled,
                own_executable: None,
                privileged: true,
                becomes_root: false,
                security_module: SecurityModule::None,
            },
        };
        let joins = spec
            .namespaces()
            .iter()
            .filter_map(|namespace| Some((namespace.kind, open(namespace.path.as_ref()?))))
            .collect::<Vec<(NamespaceType, OwnedFd)>>();
        tote_sandbox::plan(&request, Root::Bind(self.root()), joins).map_err(|error| error.to_string())
    }

    /// Runs it; returns its output, or the reason why it could not be run.
    pub(crate) fn run(&self) -> Result<String, String> {
        seal();
        let mut plan = self.plan()?;
        let output = rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC).unwrap();
        let copy = || rustix::io::fcntl_dupfd_cloexec(&output, 3).unwrap();
        plan.insert_stdio(vec![
            Op::Stdio {
                fd: copy(),
                number: 1,
            },
            Op::Stdio {
                fd: copy(),
                number: 2,
            },
        ]);
        // Each test is one of the byte form as well.
        let plan = plan.handed_over().map_err(|error| error.to_string())?;
        let ended = perform(&plan);
        let mut text = String::new();
        let mut file = std::fs::File::from(output);
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        match ended {
            Ok(Parting::Ended(ended)) if ended.outcome == Outcome::Exited(0) => Ok(text),
            Ok(parting) => Err(format!("{parting:?}: {text}")),
            Err(error) => Err(tote_sys::chain(&error)),
        }
    }
}

/// Performs a plan, with the maps of [`Bundle::in_user_namespace`] where it asks for some.
pub(crate) fn perform(plan: &Plan) -> Result<Parting, RuntimeError> {
    perform_telling(plan, &mut |_, _| {})
}

/// Performs a plan as [`perform`] does, and calls `born` when the process is there.
pub(crate) fn perform_telling(
    plan: &Plan,
    born: &mut dyn FnMut(u32, Option<String>),
) -> Result<Parting, RuntimeError> {
    let maps = Maps {
        uid: vec![tote_spec::IdMapping::new(0, 100_000, 65536)],
        gid: vec![tote_spec::IdMapping::new(0, 100_000, 65536)],
        privileged: true,
    };
    let foreground = Foreground {
        plan,
        cgroup: None,
        maps: Some(&maps),
        network: None,
        stdio: Stdio::default(),
        interactive: false,
        follow_size: false,
        timeout: Some(std::time::Duration::from_secs(20)),
        cpu_time: None,
        asides: Vec::new(),
        guarded: false,
        keys: None,
    };
    let observer = Observer {
        born,
        runs: &mut || {},
        warn: &mut |_| {},
        leave: &mut |_, _| Ok(()),
        stays: &mut || {},
    };
    run(foreground, None, observer)
}

pub(crate) fn open(path: &String) -> OwnedFd {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a directory of the test's own, where nobody plants links"
)]
pub(crate) fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

const CAPS: [&str; 9] = [
    "CAP_CHOWN",
    "CAP_KILL",
    "CAP_SETUID",
    "CAP_SETGID",
    "CAP_MKNOD",
    "CAP_DAC_OVERRIDE",
    "CAP_SYS_ADMIN",
    "CAP_SYS_NICE",
    "CAP_SETFCAP",
];

const APPLETS: [&str; 22] = [
    "awk", "cat", "cut", "echo", "find", "grep", "head", "id", "ionice", "ip", "ls", "mkdir", "mount",
    "readlink", "sh", "sleep", "stat", "taskset", "touch", "true", "uname", "unshare",
];

/// Seals this program once, for all tests in it. Otherwise each test would seal it, with a descriptor that all of
/// them share, and could not in a mount namespace in which this program's file is not mounted.
pub(crate) fn seal() {
    static SEALED: std::sync::Once = std::sync::Once::new();
    SEALED.call_once(|| tote_runtime::seal_in_place().unwrap());
}

/// Runs a test in a mount namespace of its own, all of whose mounts have that propagation.
#[expect(
    deprecated,
    reason = "what makes it unsafe is shared descriptor tables, which this flag does not touch"
)]
pub(crate) fn in_mount_namespace(
    propagation: rustix::mount::MountPropagationFlags,
    test: impl FnOnce() + Send + 'static,
) {
    seal();
    let thread = std::thread::spawn(move || {
        rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS).unwrap();
        let all = rustix::mount::MountPropagationFlags::REC;
        let private = rustix::mount::MountPropagationFlags::PRIVATE;
        rustix::mount::mount_change("/", private | all).unwrap();
        rustix::mount::mount_change("/", propagation | all).unwrap();
        test();
    });
    thread.join().unwrap();
}
