//! Host images of prepared hosts, of this host, and of many callers at once.

#![expect(
    clippy::disallowed_methods,
    reason = "files are prepared in a directory of the test's own"
)]

use super::cache::LAYER;
use super::{HostImage, HostImageError, sweep};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// Prepares a host with merged `/usr`, a user alice, and her name in every place that must not be copied.
fn planted_host() -> TempDir {
    let host = tempfile::tempdir().unwrap();
    let at = |path: &str| host.path().join(path);
    for dir in [
        "usr/bin",
        "etc/ssl/certs",
        "etc/ssl/private",
        "etc/alternatives",
        "etc/python3.99",
        "etc/ssh",
    ] {
        fs::create_dir_all(at(dir)).unwrap();
    }
    for (link, target) in [
        ("bin", "usr/bin"),
        ("lib64", "/usr/lib64"),
        ("etc/alternatives/awk", "/usr/bin/mawk"),
        ("etc/ssl/certs/0.0", "Root.pem"),
        ("etc/localtime", "/usr/share/zoneinfo/UTC"),
    ] {
        symlink(target, at(link)).unwrap();
    }
    for (file, mode, content) in [
        ("etc/ld.so.cache", 0o644, "cache"),
        ("etc/ssl/certs/Root.pem", 0o664, "certificate"),
        ("etc/python3.99/sitecustomize.py", 0o755, "pass"),
        ("etc/passwd", 0o644, "alice:x:1000:1000:Alice:/home/alice:/bin/sh"),
        ("etc/group", 0o644, "alice:x:1000:"),
        ("etc/hosts", 0o644, "10.0.0.1 alice-laptop"),
        ("etc/shadow", 0o644, "alice:$6$"),
        ("etc/gitconfig", 0o644, "name = alice"),
        ("etc/ssl/certs/secret.pem", 0o644, "alice"),
        ("etc/ssl/certs/group-only.pem", 0o640, "alice"),
        (
            "etc/ssl/certs/both.pem",
            0o644,
            "-----BEGIN PRIVATE KEY-----\nalice",
        ),
        ("etc/ssl/private/server.key", 0o644, "alice"),
        ("etc/ssl/server.pem", 0o644, "alice"),
        ("etc/ssh/ssh_config", 0o644, "User alice"),
    ] {
        fs::write(at(file), content).unwrap();
        fs::set_permissions(at(file), Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(at("etc/ssl/certs/closed")).unwrap();
    fs::write(at("etc/ssl/certs/closed/open.pem"), "alice").unwrap();
    fs::set_permissions(at("etc/ssl/certs/closed"), Permissions::from_mode(0o750)).unwrap();
    fifo(&at("etc/ssl/certs/fifo.pem"));
    host
}

fn fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

/// Lists every path below `dir`, relative to it.
fn tree(dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(path) = pending.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            found.insert(entry.path().strip_prefix(dir).unwrap().to_owned());
            if entry.file_type().unwrap().is_dir() {
                pending.push(entry.path());
            }
        }
    }
    found
}

fn unfinished(cache: &Path) -> Vec<PathBuf> {
    let hidden = |path: &PathBuf| path.to_string_lossy().starts_with('.');
    fs::read_dir(cache)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into())
        .filter(hidden)
        .collect()
}

#[test]
fn the_skeleton_has_what_programs_need_and_nothing_of_the_hosts_people() {
    let (host, cache) = (planted_host(), tempfile::tempdir().unwrap());
    let image = HostImage::prepare_from(host.path(), &cache.path().join("not/yet")).unwrap();
    let paths = tree(&image.lower);
    for (path, target) in [
        ("bin", "usr/bin"),
        ("lib64", "/usr/lib64"),
        ("etc/alternatives/awk", "/usr/bin/mawk"),
        ("etc/ssl/certs/0.0", "Root.pem"),
        ("etc/localtime", "/usr/share/zoneinfo/UTC"),
        ("var/run", "/run"),
    ] {
        assert_eq!(
            fs::read_link(image.lower.join(path)).unwrap(),
            Path::new(target),
            "{path}"
        );
    }
    for (path, mode) in [
        ("", 0o40755),
        ("usr", 0o40755),
        ("tmp", 0o41777),
        ("var/tmp", 0o41777),
        ("root", 0o40700),
        ("proc", 0o40555),
        ("etc/ld.so.cache", 0o100644),
        ("etc/ssl/certs/Root.pem", 0o100644),
        ("etc/python3.99/sitecustomize.py", 0o100755),
        ("etc/passwd", 0o100644),
    ] {
        assert_eq!(
            fs::metadata(image.lower.join(path)).unwrap().mode(),
            mode,
            "{path}"
        );
    }
    for path in &paths {
        let path = image.lower.join(path);
        if fs::symlink_metadata(&path).unwrap().is_file() {
            let content = fs::read_to_string(&path).unwrap();
            assert!(!content.contains("alice"), "{} gives alice away", path.display());
        }
    }
    for absent in [
        "etc/shadow",
        "etc/hostname",
        "etc/resolv.conf",
        "etc/ssl/private",
        "etc/ssl/certs/fifo.pem",
    ] {
        assert!(!paths.contains(Path::new(absent)), "{absent}");
    }
    assert_eq!(
        fs::metadata(image.lower.parent().unwrap()).unwrap().mode() & 0o777,
        0o700
    );
}

/// The main promise, checked on the machine that runs the tests.
#[test]
fn every_copied_file_of_this_host_can_be_read_by_everybody() {
    let cache = tempfile::tempdir().unwrap();
    let image = HostImage::prepare(cache.path()).unwrap();
    let written: Vec<&Path> = super::etc::WRITTEN
        .iter()
        .map(|(path, _)| Path::new(*path))
        .collect();
    let mut copied = 0;
    for path in tree(&image.lower).iter().filter(|path| path.starts_with("etc")) {
        if !fs::symlink_metadata(image.lower.join(path)).unwrap().is_file()
            || written.contains(&path.as_path())
        {
            continue;
        }
        let source = Path::new("/").join(path);
        assert_eq!(
            fs::symlink_metadata(&source).unwrap().mode() & 0o4,
            0o4,
            "{}",
            source.display()
        );
        for above in source.ancestors().skip(1) {
            assert_eq!(
                fs::symlink_metadata(above).unwrap().mode() & 0o1,
                0o1,
                "{}",
                above.display()
            );
        }
        copied += 1;
    }
    assert!(copied > 0, "this host has at least the linker's cache");

    let ours = fs::read_to_string(image.lower.join("etc/passwd")).unwrap();
    let names = |passwd: &str| -> BTreeSet<String> {
        passwd
            .lines()
            .filter_map(|line| Some(line.split_once(':')?.0.to_owned()))
            .collect()
    };
    let people = fs::read_to_string("/etc/passwd").unwrap();
    let people = people.lines().filter(|line| {
        let uid = line.split(':').nth(2).and_then(|uid| uid.parse::<u32>().ok());
        uid.is_some_and(|uid| (1000..65534).contains(&uid))
    });
    for name in names(&people.collect::<Vec<_>>().join("\n")) {
        assert!(!names(&ours).contains(&name), "{name}");
    }
}

#[test]
fn an_unchanged_host_is_recognised_and_a_changed_one_built_anew() {
    let (host, cache) = (planted_host(), tempfile::tempdir().unwrap());
    let first = HostImage::prepare_from(host.path(), cache.path()).unwrap();
    let inode = |image: &HostImage| fs::metadata(&image.lower).unwrap().ino();
    let again = HostImage::prepare_from(host.path(), cache.path()).unwrap();
    assert_eq!((&first.lower, inode(&first)), (&again.lower, inode(&again)));

    fs::write(host.path().join("etc/ld.so.cache"), "another cache").unwrap();
    let changed = HostImage::prepare_from(host.path(), cache.path()).unwrap();
    assert_ne!(changed.lower, first.lower);
    assert_eq!(
        fs::read_to_string(changed.lower.join("etc/ld.so.cache")).unwrap(),
        "another cache"
    );
    assert_eq!(
        fs::read_to_string(first.lower.join("etc/ld.so.cache")).unwrap(),
        "cache"
    );
}

#[test]
fn directories_of_a_host_without_merged_usr_are_bound() {
    let (host, cache) = (planted_host(), tempfile::tempdir().unwrap());
    fs::remove_file(host.path().join("bin")).unwrap();
    fs::create_dir(host.path().join("bin")).unwrap();
    fs::write(host.path().join("bin/sh"), "").unwrap();
    let image = HostImage::prepare_from(host.path(), cache.path()).unwrap();
    let binds: Vec<_> = image
        .binds
        .iter()
        .map(|bind| (bind.source.as_path(), bind.target.as_path()))
        .collect();
    assert_eq!(
        binds,
        [
            (Path::new("/usr"), Path::new("usr")),
            (Path::new("/bin"), Path::new("bin"))
        ]
    );
    assert_eq!(fs::read_dir(image.lower.join("bin")).unwrap().count(), 0);
    assert!(image.lower.join("lib64").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn threads_preparing_at_once_agree_on_one_skeleton() {
    let (host, cache) = (planted_host(), tempfile::tempdir().unwrap());
    let lowers: BTreeSet<(PathBuf, u64)> = std::thread::scope(|scope| {
        let prepare = || {
            let image = HostImage::prepare_from(host.path(), cache.path()).unwrap();
            let inode = rustix::fs::fstat(image.layer()).unwrap().st_ino;
            (image.lower, inode)
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(prepare)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(lowers.len(), 1, "{lowers:?}");
    assert_eq!(unfinished(cache.path()), Vec::<PathBuf>::new());
}

const CACHE: &str = "TOTE_TEST_CACHE";

#[test]
#[ignore = "is a process of processes_preparing_at_once_agree"]
fn prepares_as_a_process() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let cache = PathBuf::from(std::env::var_os(CACHE).expect("started by its parent test"));
    assert!(
        HostImage::prepare(&cache)
            .unwrap()
            .lower
            .join("usr")
            .metadata()
            .unwrap()
            .is_dir()
    );
}

#[test]
fn processes_preparing_at_once_agree() {
    let cache = tempfile::tempdir().unwrap();
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "host::tests::prepares_as_a_process"])
            .env(CACHE, cache.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..4).map(|_| start()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }
    let entries: Vec<_> = fs::read_dir(cache.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    // The process's umask must not affect the modes.
    let mode = |path: &str| fs::metadata(entries[0].join(LAYER).join(path)).unwrap().mode() & 0o7777;
    assert_eq!(
        (mode(""), mode("tmp"), mode("etc"), mode("etc/passwd")),
        (0o755, 0o1777, 0o755, 0o644)
    );
}

#[test]
fn sweeping_spares_what_is_held_kept_or_being_built() {
    let (host, cache) = (planted_host(), tempfile::tempdir().unwrap());
    let prepare = |content: &str| {
        fs::write(host.path().join("etc/ld.so.cache"), content).unwrap();
        HostImage::prepare_from(host.path(), cache.path()).unwrap()
    };
    let (held, unused, keep) = (prepare("1"), prepare("22").lower, prepare("333"));
    fs::create_dir_all(cache.path().join(".building-1-0/root")).unwrap();
    fs::create_dir(cache.path().join(".building-1-1")).unwrap();
    let builder = fs::File::open(cache.path().join(".building-1-1")).unwrap();
    builder.lock().unwrap();
    fs::write(cache.path().join("unrelated"), "").unwrap();

    let swept = sweep(cache.path(), &keep).unwrap();

    assert_eq!(swept, [unused.parent().unwrap()]);
    assert!(
        held.lower.join("etc").metadata().unwrap().is_dir()
            && keep.lower.join("etc").metadata().unwrap().is_dir()
    );
    assert_eq!(unfinished(cache.path()), [Path::new(".building-1-1")]);
    assert!(cache.path().join("unrelated").try_exists().unwrap());
    drop(held);
    assert_eq!(sweep(cache.path(), &keep).unwrap().len(), 1);
}

#[test]
fn preparing_and_sweeping_at_once_never_hands_out_a_dead_skeleton() {
    let (host, cache) = (planted_host(), tempfile::tempdir().unwrap());
    let other = planted_host();
    let keep = HostImage::prepare_from(other.path(), cache.path()).unwrap();
    let building = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let users: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..8 {
                        match HostImage::prepare_from(host.path(), cache.path()) {
                            Ok(image) => {
                                assert!(image.lower.join("etc/passwd").metadata().unwrap().is_file())
                            }
                            Err(HostImageError::Vanishes { .. }) => {}
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                while building.load(Ordering::Relaxed) {
                    sweep(cache.path(), &keep).unwrap();
                }
            });
        }
        let ended: Vec<_> = users.into_iter().map(|user| user.join()).collect();
        building.store(false, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok), "a builder failed");
    });
    // The last sweep removes all that three builders and two sweepers left behind.
    sweep(cache.path(), &keep).unwrap();
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
}

#[test]
fn a_skeleton_that_others_can_write_to_is_refused() {
    let (host, cache) = (planted_host(), tempfile::tempdir().unwrap());
    let lower = HostImage::prepare_from(host.path(), cache.path()).unwrap().lower;
    fs::set_permissions(&lower, Permissions::from_mode(0o777)).unwrap();
    let error = HostImage::prepare_from(host.path(), cache.path()).unwrap_err();
    assert!(matches!(error, HostImageError::Untrusted { .. }), "{error}");
}

/// A path that is too long stands for every failure that says nothing about the file: a skeleton without it would be kept.
#[test]
fn a_host_that_cannot_be_seen_is_an_error() {
    let cache = tempfile::tempdir().unwrap();
    let host = Path::new("/").join("x".repeat(300));
    let made = HostImage::prepare_from(&host, cache.path());
    assert!(matches!(made, Err(HostImageError::Build { .. })), "{made:?}");
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
}
