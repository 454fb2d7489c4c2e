//! Whole plans on directories that look like the three layouts: the values written to each file, without a kernel's
//! opinion.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test may panic anywhere"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tote_cgroup::{
    Cgroup, CgroupPath, Controllers, Error, Hierarchy, Layout, PlanError, Policy, Request, Warning,
    default_device_rules, plan,
};
use tote_spec::{BlockIo, Cpu, HugepageLimit, Memory, Network, Pids, Rdma, Resources, ThrottleDevice};

fn hierarchy(root: &Path, name: &str, own: &str, leaf: &str, files: &[&str]) -> Hierarchy {
    let mount_point = root.join(name);
    let dir = mount_point.join(own).join(leaf);
    fs::create_dir_all(&dir).unwrap();
    for file in files {
        fs::write(dir.join(file), "").unwrap();
    }
    let controllers = Controllers::from_list(name, ',');
    Hierarchy {
        controllers,
        name: None,
        mount_point,
        own_path: own.into(),
    }
}

const V1: [(&str, &[&str]); 9] = [
    (
        "cpu,cpuacct",
        &["cpu.shares", "cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.idle"],
    ),
    ("cpuset", &["cpuset.cpus", "cpuset.mems"]),
    (
        "memory",
        &[
            "memory.limit_in_bytes",
            "memory.memsw.limit_in_bytes",
            "memory.soft_limit_in_bytes",
            "memory.swappiness",
        ],
    ),
    ("pids", &["pids.max"]),
    ("blkio", &["blkio.bfq.weight", "blkio.throttle.read_bps_device"]),
    ("net_cls", &["net_cls.classid"]),
    ("hugetlb", &["hugetlb.2MB.limit_in_bytes"]),
    ("devices", &["devices.allow", "devices.deny"]),
    ("rdma", &["rdma.max"]),
];

const V2: [&str; 13] = [
    "pids.max",
    "memory.max",
    "memory.low",
    "memory.swap.max",
    "cpu.weight",
    "cpu.max",
    "cpu.idle",
    "cpuset.cpus",
    "cpuset.mems",
    "io.weight",
    "io.max",
    "hugetlb.2MB.max",
    "memory.high",
];

/// Directory of a layout, whose groups exist already with the files that a kernel would make.
struct World {
    dir: tempfile::TempDir,
    layout: Layout,
}

fn v1() -> World {
    let dir = tempfile::tempdir().unwrap();
    let make =
        |&(name, files): &(&str, &[&str])| hierarchy(dir.path(), name, "own/nested", "tote-web", files);
    let layout = Layout {
        v1: V1.iter().map(make).collect(),
        v2: None,
    };
    World { dir, layout }
}

fn v2() -> World {
    let dir = tempfile::tempdir().unwrap();
    let v2 = hierarchy(dir.path(), "unified", "own", "tote/tote-web", &V2);
    let names = "cpuset cpu io memory hugetlb pids rdma\n";
    fs::write(dir.path().join("unified/own/cgroup.subtree_control"), names).unwrap();
    World {
        dir,
        layout: Layout {
            v1: vec![],
            v2: Some(v2),
        },
    }
}

fn resources() -> Resources {
    let throttle = ThrottleDevice {
        major: 8,
        minor: 0,
        rate: 4096,
    };
    Resources {
        devices: default_device_rules(),
        memory: Some(Memory {
            limit: Some(100 << 20),
            swap: Some(150 << 20),
            reservation: Some(50 << 20),
            ..Memory::default()
        }),
        cpu: Some(Cpu {
            shares: Some(1024),
            quota: Some(50_000),
            period: Some(100_000),
            cpus: Some("0".into()),
            mems: Some("0".into()),
            ..Cpu::default()
        }),
        pids: Some(Pids { limit: Some(100) }),
        block_io: Some(BlockIo {
            weight: Some(500),
            throttle_read_bps_device: vec![throttle],
            ..BlockIo::default()
        }),
        hugepage_limits: vec![HugepageLimit {
            page_size: "2MB".into(),
            limit: 0,
        }],
        ..Resources::default()
    }
}

fn create(world: &World, resources: &Resources, policy: Policy) -> Result<(Cgroup, Vec<Warning>), Error> {
    let path = CgroupPath::from_id("web").unwrap();
    let request = Request {
        policy,
        ..Request::new(&path, resources)
    };
    Cgroup::create(&plan(&world.layout, &request)?)
}

fn read(path: PathBuf) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn v1_writes_every_limit() {
    let world = v1();
    let mut resources = resources();
    resources.network = Some(Network {
        class_id: Some(0x10_0001),
        ..Network::default()
    });
    resources.rdma.insert(
        "mlx5_1".into(),
        Rdma {
            hca_handles: Some(3),
            hca_objects: Some(7),
        },
    );
    let (cgroup, warnings) = create(&world, &resources, Policy::Strict).unwrap();
    assert_eq!(warnings, []);
    let expected = [
        ("cpu,cpuacct", "cpu.shares", "1024"),
        ("cpu,cpuacct", "cpu.cfs_period_us", "100000"),
        ("cpu,cpuacct", "cpu.cfs_quota_us", "50000"),
        ("cpuset", "cpuset.cpus", "0"),
        ("cpuset", "cpuset.mems", "0"),
        ("memory", "memory.limit_in_bytes", "104857600"),
        ("memory", "memory.memsw.limit_in_bytes", "157286400"),
        ("memory", "memory.soft_limit_in_bytes", "52428800"),
        ("pids", "pids.max", "100"),
        ("blkio", "blkio.bfq.weight", "500"),
        ("blkio", "blkio.throttle.read_bps_device", "8:0 4096"),
        ("net_cls", "net_cls.classid", "1048577"),
        ("hugetlb", "hugetlb.2MB.limit_in_bytes", "0"),
        ("rdma", "rdma.max", "mlx5_1 hca_handle=3 hca_object=7"),
        ("devices", "devices.deny", "a"),
    ];
    for (name, file, value) in expected {
        let path = world.dir.path().join(name).join("own/nested/tote-web").join(file);
        assert_eq!(read(path), value, "{name}/{file}");
    }
    let allowed = read(world.dir.path().join("devices/own/nested/tote-web/devices.allow"));
    assert!(
        allowed.contains("c 1:3 rwm") && allowed.ends_with("c 136:* rwm"),
        "{allowed}"
    );
    assert_eq!(cgroup.procs_files().count(), V1.len());
}

#[test]
fn v2_converts_every_limit() {
    let world = v2();
    let mut resources = resources();
    resources.unified.insert("memory.high".into(), "90000000".into());
    let path = CgroupPath::from_id("web").unwrap();
    let request = Request {
        policy: Policy::Strict,
        ..Request::new(&path, &resources)
    };
    let plan = plan(&world.layout, &request).unwrap();
    assert!(plan.device_program().is_some_and(|program| program.len() > 20));
    let (cgroup, warnings) = Cgroup::create(&plan).unwrap();
    assert_eq!(warnings, []);
    assert!(cgroup.v2_dir().is_some());
    let expected = [
        ("pids.max", "100"),
        ("memory.max", "104857600"),
        ("memory.swap.max", "52428800"),
        ("memory.low", "52428800"),
        ("memory.high", "90000000"),
        ("cpu.weight", "100"),
        ("cpu.max", "50000 100000"),
        ("cpuset.cpus", "0"),
        ("io.weight", "4950"),
        ("io.max", "8:0 rbps=4096"),
        ("hugetlb.2MB.max", "0"),
    ];
    for (file, value) in expected {
        assert_eq!(
            read(world.dir.path().join("unified/own/tote/tote-web").join(file)),
            value,
            "{file}"
        );
    }
}

#[test]
fn hybrid_takes_from_v2_only_what_v1_has_not() {
    let dir = tempfile::tempdir().unwrap();
    let v1 = vec![hierarchy(dir.path(), "pids", "", "tote-web", &["pids.max"])];
    let v2 = hierarchy(
        dir.path(),
        "unified",
        "",
        "tote/tote-web",
        &["hugetlb.2MB.max", "pids.max"],
    );
    fs::write(dir.path().join("unified/cgroup.subtree_control"), "hugetlb").unwrap();
    let world = World {
        dir,
        layout: Layout { v1, v2: Some(v2) },
    };
    let mut resources = Resources {
        pids: Some(Pids { limit: Some(7) }),
        ..Resources::default()
    };
    let (cgroup, _) = create(&world, &resources, Policy::Strict).unwrap();
    assert!(cgroup.v2_dir().is_none(), "nothing asks for v2");
    resources.hugepage_limits = vec![HugepageLimit {
        page_size: "2MB".into(),
        limit: 4096,
    }];
    create(&world, &resources, Policy::Strict).unwrap();
    assert_eq!(read(world.dir.path().join("pids/tote-web/pids.max")), "7");
    assert_eq!(
        read(world.dir.path().join("unified/tote/tote-web/hugetlb.2MB.max")),
        "4096"
    );
    assert_eq!(read(world.dir.path().join("unified/tote/tote-web/pids.max")), "");
    resources.unified.insert("pids.max".into(), "9".into());
    let error = create(&world, &resources, Policy::Strict).unwrap_err();
    assert!(matches!(error, Error::Plan(PlanError::NoUnified(_))), "{error}");
}

#[test]
fn a_plan_prints_one_line_per_operation() {
    let layout = Layout::parse(
        "2:pids:/\n1:memory:/a\n0::/b\n",
        "1 0 0:1 / /p rw - cgroup c rw,pids\n2 0 0:2 / /m rw - cgroup c rw,memory\n3 0 0:3 / /u rw - cgroup2 c rw\n",
    );
    let path = CgroupPath::from_id("x").unwrap();
    let resources = Resources {
        memory: Some(Memory {
            limit: Some(4096),
            ..Memory::default()
        }),
        pids: Some(Pids { limit: Some(0) }),
        cpu: Some(Cpu {
            quota: Some(-1),
            ..Cpu::default()
        }),
        ..Resources::default()
    };
    let text = plan(&layout, &Request::new(&path, &resources))
        .unwrap()
        .to_string();
    let expected = "mkdir /p/tote-x\nwrite 1 to /p/tote-x/pids.max\n\
        mkdir /m/a/tote-x\nwrite 4096 to /m/a/tote-x/memory.limit_in_bytes\n\
        write +cpu to /u/b/cgroup.subtree_control\nmkdir /u/b/tote\nwrite +cpu to /u/b/tote/cgroup.subtree_control\n\
        mkdir /u/b/tote/tote-x\nwrite max 100000 to /u/b/tote/tote-x/cpu.max\n";
    assert_eq!(text, expected);
    let explicit = CgroupPath::from_oci("/top/x").unwrap();
    let text = plan(&layout, &Request::new(&explicit, &Resources::default()))
        .unwrap()
        .to_string();
    assert_eq!(text, "mkdir /p/top/x\n");
    let nothing = Resources::default();
    let request = Request {
        all: true,
        ..Request::new(&explicit, &nothing)
    };
    assert_eq!(
        plan(&layout, &request).unwrap().to_string(),
        "mkdir /p/top/x\nmkdir /m/top/x\nmkdir /u/top/x\n"
    );
}

#[test]
fn what_is_missing_is_one_warning_or_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout {
        v1: vec![hierarchy(dir.path(), "pids", "", "tote-web", &[])],
        v2: None,
    };
    let world = World { dir, layout };
    let (_, warnings) = create(&world, &resources(), Policy::Warn).unwrap();
    let text: Vec<_> = warnings.iter().map(Warning::to_string).collect();
    assert_eq!(
        text,
        [
            "these limits have no effect: cpu, cpuset, memory, blkio, hugetlb, devices, pids (not available here)"
        ]
    );
    let error = create(&world, &resources(), Policy::Strict).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot set cpu limit: container could not join or create cgroup"
    );
}

#[test]
fn controllers_that_cannot_be_enabled_are_lost() {
    let dir = tempfile::tempdir().unwrap();
    let v2 = hierarchy(dir.path(), "unified", "a/b", "none", &[]);
    fs::write(dir.path().join("unified/a/cgroup.subtree_control"), "pids\n").unwrap();
    fs::create_dir(dir.path().join("unified/a/tote-web")).unwrap();
    fs::write(dir.path().join("unified/a/tote-web/pids.max"), "").unwrap();
    let world = World {
        dir,
        layout: Layout {
            v1: vec![],
            v2: Some(v2),
        },
    };
    let pids = Resources {
        pids: Some(Pids { limit: Some(5) }),
        ..Resources::default()
    };
    let (cgroup, warnings) = create(&world, &pids, Policy::Warn).unwrap();
    assert_eq!(warnings, []);
    let at: Vec<_> = cgroup.paths().map(|(_, path)| path.to_path_buf()).collect();
    assert_eq!(
        at,
        [world.dir.path().join("unified/a/tote-web")],
        "the nearest ancestor that hands out pids"
    );
    assert_eq!(read(at[0].join("pids.max")), "5");
}

#[test]
fn shares_out_of_range() {
    let world = v1();
    let cpu = Cpu {
        shares: Some(1),
        ..Cpu::default()
    };
    let resources = Resources {
        cpu: Some(cpu),
        ..Resources::default()
    };
    let (_, warnings) = create(&world, &resources, Policy::Warn).unwrap();
    assert_eq!(
        warnings[0].to_string(),
        "cpu shares of 1 is out of range: 2 is used"
    );
    let error = create(&world, &resources, Policy::Strict).unwrap_err();
    assert_eq!(error.to_string(), "the minimum allowed cpu-shares is 2");
}

#[test]
fn values_that_are_wrong_everywhere() {
    let world = v2();
    let memory = |memory| Resources {
        memory: Some(memory),
        ..Resources::default()
    };
    let unified = |key: &str| Resources {
        unified: BTreeMap::from([(key.to_owned(), "1".to_owned())]),
        ..Resources::default()
    };
    let huge = vec![HugepageLimit {
        page_size: "2MB/../x".into(),
        limit: 1,
    }];
    let cases = [
        memory(Memory {
            swappiness: Some(101),
            ..Memory::default()
        }),
        memory(Memory {
            limit: Some(100),
            swap: Some(50),
            ..Memory::default()
        }),
        memory(Memory {
            swap: Some(50),
            ..Memory::default()
        }),
        unified("../pids.max"),
        unified("pids"),
        unified(".."),
        Resources {
            hugepage_limits: huge,
            ..Resources::default()
        },
    ];
    for resources in cases {
        let error = create(&world, &resources, Policy::Warn).unwrap_err();
        assert!(matches!(error, Error::Plan(_)), "{error}");
    }
}

#[test]
fn a_record_finds_the_group_again() {
    let world = v1();
    let (cgroup, _) = create(&world, &resources(), Policy::Strict).unwrap();
    let again = Cgroup::open(&cgroup.record()).unwrap();
    assert_eq!(again.record(), cgroup.record());
    let update = Resources {
        pids: Some(Pids { limit: Some(-1) }),
        ..Resources::default()
    };
    fs::write(world.dir.path().join("pids/own/nested/tote-web/pids.max"), "").unwrap();
    assert_eq!(again.update(&update, Policy::Strict).unwrap(), []);
    assert_eq!(
        read(world.dir.path().join("pids/own/nested/tote-web/pids.max")),
        "max"
    );
    assert!(Cgroup::open("v1 0 pids /does/not/exist\n").unwrap().is_empty());
    for record in ["x 0 pids /a", "v1 0 pids a", "v1 -1 pids /a", "v1"] {
        assert!(
            matches!(Cgroup::open(record), Err(Error::Record { .. })),
            "{record}"
        );
    }
}
