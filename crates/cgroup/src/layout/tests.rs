use super::*;
use proptest::prelude::*;

const HYBRID_OWN: &str = "5:pids:/\n4:memory:/process/ed19\n3:cpu,cpuacct:/a b\n2:devices:/docker/x\n1:name=systemd:/init\n0::/u\n";
const HYBRID_MOUNTS: &str = "\
22 1 8:1 / / rw - ext4 /dev/root rw\n\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
32 31 0:29 / /sys/fs/cgroup/pids rw,relatime shared:5 master:1 - cgroup cgroup rw,pids\n\
33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
34 31 0:31 / /odd\\040place rw - cgroup cgroup rw,cpu,cpuacct\n\
35 31 0:32 /docker/x /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n\
36 31 0:33 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
37 31 0:34 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";

fn own_dir(layout: &Layout, controllers: Controllers) -> String {
    let hierarchy = layout
        .v1
        .iter()
        .find(|h| h.controllers.contains(controllers) && h.name.is_none());
    hierarchy.unwrap().own_dir().to_str().unwrap().to_owned()
}

#[test]
fn hybrid_with_a_nested_memory_group() {
    let layout = Layout::parse(HYBRID_OWN, HYBRID_MOUNTS);
    assert_eq!(layout.kind(), Kind::Hybrid);
    assert_eq!(own_dir(&layout, Controllers::PIDS), "/sys/fs/cgroup/pids");
    assert_eq!(
        own_dir(&layout, Controllers::MEMORY),
        "/sys/fs/cgroup/memory/process/ed19"
    );
    assert_eq!(
        own_dir(&layout, Controllers::CPU.union(Controllers::CPUACCT)),
        "/odd place/a b"
    );
    assert_eq!(
        own_dir(&layout, Controllers::DEVICES),
        "/sys/fs/cgroup/devices",
        "the mount's root is its own group"
    );
    assert_eq!(
        layout
            .v1
            .iter()
            .filter(|h| h.name.as_deref() == Some("systemd"))
            .count(),
        1
    );
    assert_eq!(
        layout.v2.unwrap().own_dir(),
        Path::new("/sys/fs/cgroup/unified/u")
    );
}

#[test]
fn names_of_hierarchies() {
    let layout = Layout::parse(HYBRID_OWN, HYBRID_MOUNTS);
    for (dir, name) in [
        ("/odd place/a b/c", Some("cpu,cpuacct")),
        ("/sys/fs/cgroup/systemd/init/c", Some("systemd")),
        ("/sys/fs/cgroup/pids", Some("pids")),
        ("/sys/fs/cgroup/unified/u", None),
    ] {
        assert_eq!(layout.v1_name(Path::new(dir)).as_deref(), name, "{dir}");
    }
}

#[test]
fn pure_versions() {
    let v2 = Layout::parse(
        "0::/a.slice/b.scope\n",
        "30 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    );
    assert_eq!(v2.kind(), Kind::V2);
    assert_eq!(v2.v2.unwrap().own_path, Path::new("a.slice/b.scope"));
    let v1 = Layout::parse("1:pids:/\n0::/\n", "30 1 0:1 / /p rw - cgroup cgroup rw,pids\n");
    assert_eq!(v1.kind(), Kind::V1);
    assert_eq!(Layout::parse("", ""), Layout::default());
}

#[test]
fn a_mount_over_another_hides_it() {
    let mounts = format!("{HYBRID_MOUNTS}40 31 0:40 / /sys/fs/cgroup rw - cgroup2 none rw\n");
    let layout = Layout::parse(HYBRID_OWN, &mounts);
    assert_eq!(layout.v2.unwrap().mount_point, Path::new("/sys/fs/cgroup"));
    assert_eq!(
        layout.v1.len(),
        1,
        "only the one elsewhere is left: {:?}",
        layout.v1
    );
}

#[test]
fn a_path_outside_the_cgroup_namespace_starts_at_the_mount() {
    let layout = Layout::parse(
        "0::/../other\n",
        "30 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    );
    assert_eq!(layout.v2.unwrap().own_dir(), Path::new("/sys/fs/cgroup"));
}

#[test]
fn the_widest_of_several_mounts_wins() {
    let mounts =
        "30 1 0:1 /a /small rw - cgroup cgroup rw,pids\n31 1 0:1 / /whole rw - cgroup cgroup rw,pids\n";
    assert_eq!(
        own_dir(&Layout::parse("1:pids:/a/b\n", mounts), Controllers::PIDS),
        "/whole/a/b"
    );
}

#[test]
fn the_short_way_agrees_with_the_long_one() {
    let own = read_proc("/proc/self/cgroup").unwrap();
    let parsed = Layout::parse(&own, &read_proc("/proc/self/mountinfo").unwrap());
    match Layout::standard(&own, Path::new(STANDARD)) {
        Some(standard) => assert_eq!(standard, parsed),
        None => println!("skipped: needs cgroups mounted below {STANDARD}"),
    }
    assert_eq!(Layout::read().unwrap(), parsed);
}

#[test]
fn a_place_that_is_no_cgroup_is_not_standard() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Layout::standard("0::/\n", dir.path()), None);
}

proptest! {
    #[test]
    fn any_text_parses(own in ".{0,200}", mounts in ".{0,200}") {
        prop_assert!(Layout::parse(&own, &mounts).v1.len() <= MAX_HIERARCHIES);
    }

    #[test]
    fn own_paths_are_plain(path in "[/.a]{0,20}", root in "[/.a]{1,8}", point in "(/|\\\\|0|4|[a-z]){1,10}") {
        let mounts = format!("1 1 0:1 {root} {point} rw - cgroup2 c rw\n");
        if let Some(v2) = Layout::parse(&format!("0::{path}\n"), &mounts).v2 {
            let plain = v2.own_path.components().all(|c| matches!(c, std::path::Component::Normal(_)));
            prop_assert!(plain);
        }
    }
}
