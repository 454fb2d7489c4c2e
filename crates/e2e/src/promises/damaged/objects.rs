//! The records of a state root: how the object of each is made, listed and removed, or why a file is not such a record.

use crate::context::Context;
use crate::output::Output;
use anyhow::Result;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Outcome of a pruning for a damaged object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Removal of a lost one; one of a newer tote stays.
    Goes,
    /// Silence: the object stays.
    Stays,
    /// Exit code 1 after the rest of the work, with the name of the object, which stays.
    Told,
}

/// A kind of objects with a record. `NAME` stands for the name of the object in commands.
pub(super) struct Object {
    /// The record in the layout of the state root.
    pub(super) pattern: &'static str,
    /// Makes an object of that name.
    pub(super) make: fn(&Context, &str) -> Result<Output>,
    /// The list of the kind.
    pub(super) list: &'static [&'static str],
    /// A command that needs the record.
    pub(super) look: &'static [&'static str],
    /// The removal of one; the name follows.
    pub(super) remove: &'static [&'static str],
    /// The removal of all, if there is one.
    pub(super) all: Option<&'static [&'static str]>,
    /// The command that lists and errors propose.
    pub(super) remedy: Option<&'static str>,
    /// True if another object of the same name is refused, with the remedy.
    pub(super) taken: bool,
    /// True if each damaged one needs `-f`.
    pub(super) forced: bool,
    /// True if one of a newer tote needs `-f`.
    pub(super) newer: bool,
    /// True if it may use any volume, which are protected as long as it is there.
    pub(super) protects: bool,
    /// Prunings, in the order in which they are tried.
    pub(super) prunes: &'static [(&'static [&'static str], Fate)],
}

const SYSTEM: &[&str] = &["system", "prune", "-f"];

pub(super) const SECRET: Object = Object {
    pattern: "secrets/NAME.json",
    make: |cx, name| cx.tote(&["secret", "create", name, "-"]).input(b"text").output(),
    list: &["secret", "ls"],
    look: &["secret", "inspect", "NAME"],
    remove: &["secret", "rm"],
    all: Some(&["secret", "rm", "-a"]),
    remedy: Some("'tote secret rm "),
    taken: true,
    forced: false,
    newer: true,
    protects: false,
    prunes: &[(SYSTEM, Fate::Stays)],
};

pub(super) const NETWORK: Object = Object {
    pattern: "networks/NAME/network.json",
    make: |cx, name| cx.tote(&["network", "create", name]).output(),
    list: &["network", "ls"],
    look: &["network", "inspect", "NAME"],
    remove: &["network", "rm"],
    all: None,
    remedy: Some("'tote network rm "),
    taken: true,
    forced: false,
    newer: true,
    protects: false,
    prunes: &[(&["network", "prune", "-f"], Fate::Goes), (SYSTEM, Fate::Goes)],
};

/// Volumes may have the only copy of a user's files, so no pruning takes one, and no removal without `-f`.
pub(super) const VOLUME: Object = Object {
    pattern: "volumes/NAME/volume.json",
    make: |cx, name| cx.tote(&["volume", "create", "--label", "a=b", name]).output(),
    list: &["volume", "ls"],
    look: &["volume", "inspect", "NAME"],
    remove: &["volume", "rm"],
    all: None,
    remedy: Some("'tote volume rm -f "),
    taken: false,
    forced: true,
    newer: true,
    protects: false,
    prunes: &[(SYSTEM, Fate::Stays), (&["volume", "prune", "-af"], Fate::Told)],
};

pub(super) const POD: Object = Object {
    pattern: "pods/ID/pod.json",
    make: |cx, name| cx.tote(&["pod", "create", name]).output(),
    list: &["pod", "ps"],
    look: &["pod", "inspect", "NAME"],
    remove: &["pod", "rm"],
    all: Some(&["pod", "rm", "-fa"]),
    remedy: Some("'tote pod rm "),
    taken: true,
    forced: false,
    newer: true,
    protects: false,
    prunes: &[(SYSTEM, Fate::Stays), (&["pod", "prune", "-f"], Fate::Goes)],
};

pub(super) const POOL: Object = Object {
    pattern: "pools/NAME/pool.json",
    make: |cx, name| {
        let image = cx.image();
        cx.tote(&["pool", "fill", "--size", "1", name, &image, "true"])
            .output()
    },
    list: &["pool", "ls"],
    look: &["pool", "inspect", "NAME"],
    remove: &["pool", "rm"],
    all: None,
    remedy: Some("'tote pool rm "),
    taken: true,
    forced: false,
    newer: true,
    protects: true,
    prunes: &[(&["image", "prune", "-af"], Fate::Told), (SYSTEM, Fate::Told)],
};

fn create(cx: &Context, name: &str) -> Result<Output> {
    cx.tote(&["create", "--name", name, &cx.image(), "true"]).output()
}

/// Containers may have the only copy of a user's files, and whether one should run is lost: no pruning takes it.
pub(super) const CONTAINER: Object = Object {
    pattern: "containers/ID/container.json",
    make: create,
    list: &["ps", "-a", "--no-trunc"],
    look: &["inspect", "NAME"],
    remove: &["rm"],
    all: Some(&["rm", "-fa"]),
    remedy: None,
    taken: false,
    forced: false,
    newer: true,
    protects: true,
    prunes: &[
        (&["container", "prune", "-f"], Fate::Told),
        (&["image", "prune", "-af"], Fate::Told),
        (&["volume", "prune", "-af"], Fate::Told),
        (SYSTEM, Fate::Told),
    ],
};

pub(super) const STATE: Object = Object {
    pattern: "containers/ID/state.json",
    protects: false,
    prunes: &[(&["container", "prune", "-f"], Fate::Told), (SYSTEM, Fate::Told)],
    ..CONTAINER
};

pub(super) const PROFILE: Object = Object {
    pattern: "graph/profiles/NAME.json",
    make: |cx, name| {
        import(cx, "tools")?.exits(0)?;
        cx.tote(&["graph", "profile", "set", name, "tools-tool"]).output()
    },
    list: &["graph", "profile", "ls"],
    look: &[
        "graph",
        "run",
        "--rm",
        "--network",
        "none",
        "profile:NAME",
        "/opt/tools-tool/start",
    ],
    remove: &["graph", "profile", "rm"],
    all: None,
    remedy: Some("'tote graph profile rm "),
    taken: true,
    forced: false,
    newer: true,
    protects: false,
    prunes: &[(SYSTEM, Fate::Stays), (&["graph", "gc"], Fate::Told)],
};

/// Imports are made anew by the same command, so no name is taken.
pub(super) const IMPORT: Object = Object {
    pattern: "graph/roots/DIGEST",
    make: import,
    list: &["graph", "ls", "--roots"],
    look: &["graph", "ls"],
    remove: &["graph", "rm"],
    all: None,
    remedy: Some("'tote graph rm "),
    taken: false,
    forced: false,
    newer: true,
    protects: false,
    prunes: &[(SYSTEM, Fate::Stays), (&["graph", "gc"], Fate::Told)],
};

#[cfg(test)]
pub(super) const OBJECTS: &[&Object] = &[
    &SECRET, &NETWORK, &VOLUME, &POD, &POOL, &CONTAINER, &STATE, &PROFILE, &IMPORT,
];

/// Files that are no records of objects, with the reason.
#[cfg(test)]
pub(super) const OTHERS: &[(&str, &[&str])] = &[
    (
        "a lock, a mark or a socket: its content is nothing, or a hint that a sweep may lack",
        &[
            "live/ID.socket",
            "live/ID.renaming",
            "live/ID.removing",
            "live/ID.mounted",
            "live/ID.connecting",
            "live/NAME.network",
            "containers/ID/state.end",
            "containers/ID/socket",
            "containers/ID/stop",
            "containers/ID/removing",
            "containers/ID/copying",
            "containers/.subvolumes-gone/N",
            "templates/.subvolumes-gone/N",
            "pods/ID/removing",
            "pools/NAME/lock",
            "pools/NAME/queue",
            "pools/NAME/GENERATION/ID",
            "pools/NAME/GENERATION/ID.fresh",
            "networks/.lock",
            "networks/.rootless",
            "networks/.rootless-lock",
            "networks/.ports",
            "networks/.ports-lock",
            "networks/.rootless-pasta",
            "build/kept/ID",
            "secrets/.lock",
            "volumes/NAME/lock",
            "vm/.lock",
            "vm/templates/.lock",
            "graph/.lock",
            "store/lock",
            "store/gate",
            "store/garbage",
            "store/unsynced",
            "store/.adding-PID-N",
            "store/layers/.lock-DIGEST",
            "store/images/DIGEST/misses.lock",
            "store/trees/.lock-CHAIN",
        ],
    ),
    (
        "written by the process that still lives, which is asked instead: its records end with it",
        &["live/ID"],
    ),
    (
        "a text before it gets its name: no command reads it",
        &[
            "containers/ID/container.new",
            "containers/ID/state.new",
            "containers/ID/config.new",
            "containers/ID/removing.new",
            "containers/ID/secret-N.new",
            "containers/ID/image.fresh",
            "containers/ID/disk.fresh",
            "pods/ID/pod.new",
            "pods/ID/cgroup.new",
            "pools/NAME/pool.new",
            "networks/NAME/network.new",
            "secrets/NAME.new",
            "volumes/NAME/volume.new",
            "volumes/NAME/disk.fresh",
            "graph/roots/DIGEST.new",
            "graph/profiles/NAME.new",
            "graph/starts/DIGEST.new",
            "filters/.HASH-PID",
            "store/names/.new-PID-N",
        ],
    ),
    (
        "lines, of which a reader passes over those that are damaged",
        &[
            "containers/ID/log.json",
            "containers/ID/log.json.N",
            "containers/ID/ctr.log",
            "containers/ID/ctr.log.N",
            "containers/ID/egress.log",
            "events",
            "events.N",
            "networks/.forwarding",
            "pools/NAME/error",
            "pods/ID/cgroup",
            "build/hashes/KEY",
        ],
    ),
    (
        "part of one container or volume, and read for that alone",
        &[
            "containers/ID/config.json",
            "containers/ID/image",
            "containers/ID/disk",
            "containers/ID/tools/TOOLS/of",
            "tools/ENGINE-UID-CONTAINER/of",
            "volumes/NAME/disk",
        ],
    ),
    (
        "has a checksum, or is compared with what it would be, and is made again",
        &[
            "filters/HASH",
            "templates/CHAIN.erofs",
            "templates/dir-HASH-HASH.erofs",
            "store/trees/CHAIN/image.erofs",
            "store/trees/CHAIN/lease",
        ],
    ),
    (
        "known by its digest: power_cuts::each_damage_is_found_and_mended and ::what_is_damaged_can_be_removed",
        &[
            "store/layers/DIGEST/framing",
            "store/layers/DIGEST/contents",
            "store/layers/DIGEST/layer.json",
            "store/layers/DIGEST/blobs.json",
            "store/layers/DIGEST/known",
            "store/images/DIGEST/config.json",
            "store/images/DIGEST/manifest.json",
            "store/images/DIGEST/image.json",
            "store/images/DIGEST/writable.json",
            "store/images/DIGEST/misses.json",
            "store/images/DIGEST/index.json",
            "store/images/DIGEST/DIGEST",
            "store/names/NAME",
        ],
    ),
    (
        "of virtual machines, and made again by `vm setup` or the next start; vm_template has the list of templates",
        &[
            "vm/kernel",
            "vm/qemu.json",
            "vm/kernels/DIGEST/kernel.json",
            "vm/templates/DIGEST/template.json",
        ],
    ),
];

pub(super) const NODES: &str = "store/nodes/DIGEST";

/// Records that commands make again.
pub(super) const CACHES: &[&str] = &["build/cache/KEY", "graph/starts/DIGEST"];

/// The name by which commands find an object: an import has that of its directory.
pub(super) fn handle(cx: &Context, name: &str) -> String {
    let dir = cx.scratch().join("imports").join(name);
    match dir.symlink_metadata() {
        Ok(_) => dir.display().to_string(),
        Err(_) => name.to_owned(),
    }
}

/// Imports a directory with a package of its own.
fn import(cx: &Context, name: &str) -> Result<Output> {
    let dir = cx.scratch().join("imports").join(name);
    if !dir.exists() {
        let package = format!("{name}-tool");
        for sub in ["bin", "var/lib/dpkg/info", &format!("opt/{package}")] {
            fs::create_dir_all(dir.join(sub))?;
        }
        for file in ["bin/busybox", "bin/sh"] {
            fs::copy(cx.shared_rootfs().join("bin/busybox"), dir.join(file))?;
        }
        let start = dir.join(format!("opt/{package}/start"));
        fs::write(&start, "#!/bin/sh\ntrue\n")?;
        fs::set_permissions(&start, fs::Permissions::from_mode(0o755))?;
        let status =
            format!("Package: {package}\nStatus: install ok installed\nArchitecture: all\nVersion: 1.0\n\n");
        fs::write(dir.join("var/lib/dpkg/status"), status)?;
        let list = format!("/opt/{package}/start\n");
        fs::write(dir.join(format!("var/lib/dpkg/info/{package}.list")), list)?;
    }
    cx.tote(&["graph", "import", text(&dir)]).output()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}
