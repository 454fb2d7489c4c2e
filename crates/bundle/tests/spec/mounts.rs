use super::Case;
use tote_bundle::{SpecError, volumes_of};
use tote_spec::{Mount, Spec};

fn at<'a>(spec: &'a Spec, destination: &str) -> Option<&'a Mount> {
    let mut found = spec
        .mounts
        .iter()
        .filter(|mount| mount.destination == destination);
    let mount = found.next();
    assert!(found.next().is_none(), "{destination} twice");
    mount
}

fn text(spec: &Spec, destination: &str) -> String {
    let mount = at(spec, destination).unwrap_or_else(|| panic!("no mount at {destination}"));
    let (kind, source) = (mount.kind.as_deref().unwrap(), mount.source.as_deref().unwrap());
    format!("{kind} {source} {}", mount.options.join(","))
}

#[test]
fn shallow_first_and_otherwise_as_given() {
    let case = Case::new(&[
        ("volume", "/1:/a/b/c"),
        ("volume", "/2:/z"),
        ("tmpfs", "/a/b"),
        ("mount", "type=bind,src=/3,dst=/y"),
    ]);
    let spec = case.spec();
    let order: Vec<_> = spec
        .mounts
        .iter()
        .rev()
        .take(4)
        .rev()
        .map(|mount| &*mount.destination)
        .collect();
    assert_eq!(order, ["/z", "/y", "/a/b", "/a/b/c"]);
}

#[test]
fn duplicates() {
    let case = Case::new(&[("volume", "/1:/a"), ("tmpfs", "/a/")]);
    assert_eq!(case.error(), SpecError::DuplicateMount("/a".to_owned()));
}

#[test]
fn forms_of_bind_mounts() {
    for (option, value, expected) in [
        ("volume", "/s:/d", "bind /s rbind,rprivate"),
        ("volume", "/s:/d:ro", "bind /s rbind,rro,rprivate"),
        ("volume", "/s:/d:rslave", "bind /s rbind,rslave"),
        (
            "mount",
            "type=bind,src=/s,dst=/d,bind-nonrecursive,ro",
            "bind /s bind,ro,rprivate",
        ),
        (
            "mount",
            "type=bind,src=/s,dst=/d,bind-recursive=writable,ro",
            "bind /s rbind,ro,rprivate",
        ),
        (
            "tmpfs",
            "/d:size=1m",
            "tmpfs tmpfs noexec,nosuid,nodev,rprivate,size=1m",
        ),
    ] {
        assert_eq!(
            text(&Case::new(&[(option, value)]).spec(), "/d"),
            expected,
            "{value}"
        );
    }
}

#[test]
fn propagation_of_the_root() {
    for (mode, root) in [
        ("private", None),
        ("rslave", Some("rslave")),
        ("shared", Some("shared")),
    ] {
        let spec = Case::new(&[("volume", &format!("/s:/d:{mode}"))]).spec();
        assert_eq!(spec.linux.unwrap().rootfs_propagation.as_deref(), root, "{mode}");
    }
    let both = Case::new(&[("volume", "/s:/d:slave"), ("volume", "/s:/e:shared")]).spec();
    assert_eq!(both.linux.unwrap().rootfs_propagation.as_deref(), Some("shared"));
}

#[test]
fn what_the_user_mounts_replaces_the_defaults() {
    let spec = Case::new(&[("volume", "/dev:/dev"), ("volume", "/c:/sys/fs/cgroup")]).spec();
    assert_eq!(text(&spec, "/dev"), "bind /dev rbind,rprivate");
    assert_eq!(text(&spec, "/sys/fs/cgroup"), "bind /c rbind,rprivate");
    assert!(at(&spec, "/dev/pts").is_none() && at(&spec, "/dev/shm").is_none());
    let shm = Case::new(&[("tmpfs", "/dev/shm")]).spec();
    assert_eq!(text(&shm, "/dev/shm"), "tmpfs tmpfs noexec,nosuid,nodev,rprivate");
}

#[test]
fn volumes() {
    let mut case = Case::new(&[
        ("volume", "db:/data:ro"),
        ("volume", "/cache"),
        ("volume", "/h:/taken"),
    ]);
    case.image.volumes = ["/taken/", "/own", "/own/.", "/", "relative"]
        .map(str::to_owned)
        .to_vec();
    let wanted = volumes_of(&case.options, &case.image);
    let names: Vec<_> = wanted
        .iter()
        .map(|(path, volume)| (&**path, volume.name.as_deref()))
        .collect();
    assert_eq!(names, [("/data", Some("db")), ("/cache", None), ("/own", None)]);
    assert_eq!(case.error(), SpecError::Volume("/data".to_owned()));
    for (path, _) in &wanted {
        case.volumes.insert(path.clone(), format!("/volumes{path}"));
    }
    let spec = case.spec();
    assert_eq!(text(&spec, "/data"), "bind /volumes/data rbind,rro,rprivate");
    assert_eq!(text(&spec, "/own"), "bind /volumes/own rbind,rprivate");
    assert_eq!(text(&spec, "/taken"), "bind /h rbind,rprivate");
}

#[test]
fn shared_memory() {
    let shm = |pairs: &[(&str, &str)]| text(&Case::new(pairs).spec(), "/dev/shm");
    assert_eq!(shm(&[]), "tmpfs shm nosuid,noexec,nodev,mode=1777,size=67108864");
    assert_eq!(
        shm(&[("shm-size", "1m")]),
        "tmpfs shm nosuid,noexec,nodev,mode=1777,size=1048576"
    );
    assert_eq!(
        shm(&[("ipc", "host")]),
        "bind /dev/shm rbind,nosuid,noexec,nodev,rprivate"
    );
    assert!(at(&Case::new(&[("ipc", "none")]).spec(), "/dev/shm").is_none());
    let host = Case::new(&[("ipc", "host")]).spec();
    assert_eq!(
        text(&host, "/dev/mqueue"),
        "bind /dev/mqueue rbind,nosuid,noexec,nodev"
    );
}

#[test]
fn user_namespaces_get_what_they_may_mount() {
    let spec = Case::new(&[]).rootless(1).spec();
    assert_eq!(
        text(&spec, "/dev/pts"),
        "devpts devpts nosuid,noexec,newinstance,ptmxmode=0666,mode=0620"
    );
    assert_eq!(text(&spec, "/sys"), "sysfs sysfs nosuid,noexec,nodev,ro");
    let spec = Case::new(&[("network", "host"), ("pid", "host")])
        .rootless(65536)
        .spec();
    assert!(text(&spec, "/dev/pts").ends_with("gid=5"));
    assert_eq!(
        text(&spec, "/sys"),
        "bind /sys rbind,rprivate,nosuid,noexec,nodev,ro"
    );
    assert_eq!(text(&spec, "/proc"), "bind /proc rbind,nosuid,noexec,nodev");
}
