use super::Case;
use tote_bundle::SpecError;
use tote_spec::{Linux, NamespaceType as Kind};

fn linux(pairs: &[(&str, &str)]) -> Linux {
    Case::new(pairs).spec().linux.unwrap()
}

fn kinds(linux: &Linux) -> Vec<Kind> {
    linux.namespaces.iter().map(|namespace| namespace.kind).collect()
}

#[test]
fn namespaces() {
    let all = [
        Kind::Mount,
        Kind::Network,
        Kind::Uts,
        Kind::Pid,
        Kind::Ipc,
        Kind::Cgroup,
    ];
    assert_eq!(kinds(&linux(&[])), all);
    for (option, gone) in [
        ("network", Kind::Network),
        ("uts", Kind::Uts),
        ("pid", Kind::Pid),
        ("ipc", Kind::Ipc),
        ("cgroupns", Kind::Cgroup),
    ] {
        let expected: Vec<_> = all.into_iter().filter(|kind| *kind != gone).collect();
        assert_eq!(kinds(&linux(&[(option, "host")])), expected, "{option}");
    }
    let rootless = Case::new(&[]).rootless(1).spec().linux.unwrap();
    assert_eq!(kinds(&rootless).last(), Some(&Kind::User));
    assert_eq!(
        (rootless.uid_mappings.len(), rootless.gid_mappings[0].host_id),
        (1, 1000)
    );
}

#[test]
fn joining() {
    let case = Case::new(&[("pid", "container:web"), ("ipc", "container:web")]);
    let peer = |namespace| SpecError::Peer {
        namespace,
        peer: "web".to_owned(),
    };
    assert_eq!(case.error(), peer("pid"));
    let join = |case: &Case| {
        let spec = case.try_with(|context| {
            (context.pid_peer, context.ipc_peer) = (Some(41), Some(42));
        });
        spec.unwrap()
    };
    let spec = join(&case);
    let path = |kind| spec.namespace(kind).unwrap().path.as_deref();
    assert_eq!(path(Kind::Pid), Some("/proc/41/ns/pid"));
    assert_eq!(path(Kind::Ipc), Some("/proc/42/ns/ipc"));
    let rootless = join(&case.rootless(1));
    assert!(rootless.namespace(Kind::User).unwrap().path.is_some());
    assert!(rootless.linux.unwrap().uid_mappings.is_empty());
}

#[test]
fn host_names() {
    for (pairs, set, shown) in [
        (&[][..], Some("1f1f1f1f1f1f"), "1f1f1f1f1f1f"),
        (&[("hostname", "box")], Some("box"), "box"),
        (&[("network", "host")], Some("metal"), "metal"),
        (&[("network", "host"), ("hostname", "box")], Some("box"), "box"),
        (&[("uts", "host")], None, "metal"),
    ] {
        let spec = Case::new(pairs)
            .try_with(|context| context.machine_hostname = Some("metal"))
            .unwrap();
        assert_eq!(spec.hostname.as_deref(), set, "{pairs:?}");
        assert!(
            spec.process.unwrap().env.contains(&format!("HOSTNAME={shown}")),
            "{pairs:?}"
        );
    }
    assert_eq!(
        Case::new(&[("uts", "host"), ("hostname", "box")]).error(),
        SpecError::Hostname
    );
}

#[test]
fn masks() {
    let default = linux(&[]);
    for path in [
        "/proc/interrupts",
        "/proc/kcore",
        "/sys/devices/virtual/powercap",
        "/sys/firmware",
    ] {
        assert!(default.masked_paths.contains(&path.to_owned()), "{path}");
    }
    assert_eq!(default.readonly_paths.len(), 5);
    for pairs in [
        &[("privileged", "true")],
        &[("security-opt", "systempaths=unconfined")],
    ] {
        let linux = linux(pairs);
        assert!(
            linux.masked_paths.is_empty() && linux.readonly_paths.is_empty(),
            "{pairs:?}"
        );
    }
    let tuned = linux(&[
        ("security-opt", "unmask=/proc/s*:/sys/firmware"),
        ("security-opt", "mask=/etc/secret"),
    ]);
    for gone in [
        "/proc/scsi",
        "/proc/sched_debug",
        "/sys/firmware",
        "/proc/sys",
        "/proc/sysrq-trigger",
    ] {
        assert!(
            !tuned
                .masked_paths
                .iter()
                .chain(&tuned.readonly_paths)
                .any(|path| path == gone),
            "{gone}"
        );
    }
    assert!(tuned.masked_paths.contains(&"/etc/secret".to_owned()));
    let mut case = Case::new(&[]);
    let extra = "/sys/devices/system/cpu/cpu0/thermal_throttle".to_owned();
    case.masked_paths.push(extra.clone());
    assert!(case.spec().linux.unwrap().masked_paths.contains(&extra));
}

#[test]
fn sysctls() {
    let sysctl = |pairs: &[(&str, &str)]| linux(pairs).sysctl;
    assert_eq!(sysctl(&[])["net.ipv4.ip_unprivileged_port_start"], "0");
    assert_eq!(sysctl(&[])["net.ipv4.ping_group_range"], "0 2147483647");
    assert!(sysctl(&[("network", "host")]).is_empty());
    assert!(
        !Case::new(&[])
            .rootless(1)
            .spec()
            .linux
            .unwrap()
            .sysctl
            .contains_key("net.ipv4.ping_group_range")
    );
    let slashes = sysctl(&[("sysctl", "net/ipv4/ip_unprivileged_port_start=80")]);
    assert_eq!(slashes["net/ipv4/ip_unprivileged_port_start"], "80");
    assert!(!slashes.contains_key("net.ipv4.ip_unprivileged_port_start"));
    for (name, mode) in [
        ("net.core.somaxconn=1", "network"),
        ("kernel.shmmax=1", "ipc"),
        ("fs.mqueue.msg_max=1", "ipc"),
    ] {
        let error = Case::new(&[("sysctl", name), (mode, "host")]).error().to_string();
        assert!(
            error.contains(&format!("not allowed in host {mode} namespace")),
            "{error}"
        );
    }
}

#[test]
fn devices() {
    let missing = Case::new(&[("device", "/dev/fuse")]);
    assert_eq!(missing.error(), SpecError::Device("/dev/fuse".to_owned()));
    let pairs = [("device", "/dev/fuse:/dev/f:r"), ("device", "/dev/snd:/audio")];
    let case = Case::new(&pairs)
        .with_char_device("/dev/fuse", 10, 229)
        .with_char_device("/dev/snd/a", 116, 1)
        .with_char_device("/dev/sndx", 116, 2);
    let linux = case.spec().linux.unwrap();
    let paths: Vec<_> = linux
        .devices
        .iter()
        .map(|device| (&*device.path, device.minor, device.file_mode))
        .collect();
    assert_eq!(
        paths,
        [("/dev/f", 229, Some(0o666)), ("/audio/a", 1, Some(0o666))]
    );
    let rules = linux.resources.unwrap().devices;
    let fuse = &rules[rules.len() - 2];
    assert_eq!(
        (fuse.major, fuse.minor, fuse.access.as_deref()),
        (Some(10), Some(229), Some("r"))
    );
    let rootless = case.rootless(1).spec();
    assert!(rootless.linux.unwrap().devices.is_empty());
    let mount = rootless
        .mounts
        .iter()
        .find(|mount| mount.destination == "/dev/f")
        .unwrap();
    assert_eq!(mount.source.as_deref(), Some("/dev/fuse"));
}

#[test]
fn privileged_gets_all_devices_once() {
    let pairs = [
        ("privileged", "true"),
        ("device", "/dev/fuse"),
        ("device", "/dev/fuse:/dev/f"),
    ];
    let case = Case::new(&pairs)
        .with_char_device("/dev/fuse", 10, 229)
        .with_char_device("/dev/kvm", 10, 232);
    let linux = case.spec().linux.unwrap();
    let paths: Vec<_> = linux.devices.iter().map(|device| &*device.path).collect();
    assert_eq!(paths, ["/dev/fuse", "/dev/kvm", "/dev/f"]);
    let twice =
        Case::new(&[("device", "/dev/fuse"), ("device", "/dev/fuse")]).with_char_device("/dev/fuse", 10, 229);
    assert_eq!(twice.error(), SpecError::DuplicateMount("/dev/fuse".to_owned()));
}
