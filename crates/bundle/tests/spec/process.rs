use super::Case;
use tote_bundle::{EnvEntry, SpecError};
use tote_spec::{ConsoleSize, Process, Spec};

fn process(spec: Spec) -> Process {
    spec.process.unwrap()
}

#[test]
fn environment_in_layers() {
    let mut case = Case::new(&[
        ("tty", "true"),
        ("env", "A=user"),
        ("env", "GIVEN"),
        ("env", "LANG"),
        ("env", "D"),
    ]);
    case.image.env = ["PATH=/bin", "LANG=C", "A=image", "B=image"]
        .map(str::to_owned)
        .to_vec();
    case.options.env.file_entries = vec![
        EnvEntry::Set("A=file".to_owned()),
        EnvEntry::Set("B=file".to_owned()),
        EnvEntry::Inherit("MISSING".to_owned()),
    ];
    case.environment
        .insert("GIVEN".to_owned(), "by the caller".to_owned());
    let expected = [
        "PATH=/bin",
        "HOSTNAME=1f1f1f1f1f1f",
        "TERM=xterm",
        "A=user",
        "B=file",
        "GIVEN=by the caller",
        "HOME=/root",
    ];
    assert_eq!(process(case.spec()).env, expected);
    let home = Case::new(&[("env", "HOME=/x")]);
    assert!(process(home.spec()).env.contains(&"HOME=/x".to_owned()));
}

#[test]
fn command() {
    // The plan has an operation for `--init`, so the specification is the same without it.
    let mut case = Case::new(&[("init", "true")]);
    assert_eq!(process(case.spec()).args, ["/bin/sh"]);
    case.options.set("entrypoint", "").unwrap();
    assert_eq!(case.error(), SpecError::NoCommand);
    case.options.command = vec!["id".to_owned()];
    assert_eq!(process(case.spec()).args, ["id"]);
}

#[test]
fn working_directory() {
    let mut case = Case::new(&[]);
    assert_eq!(process(case.spec()).cwd, "/");
    case.image.working_dir = "/srv/".to_owned();
    assert_eq!(process(case.spec()).cwd, "/srv");
    case.options.set("workdir", "/app").unwrap();
    assert_eq!(process(case.spec()).cwd, "/app");
    case.options.workdir = None;
    case.image.working_dir = "srv".to_owned();
    assert_eq!(case.error(), SpecError::Workdir("srv".to_owned()));
}

#[test]
fn terminal_only_with_tty() {
    let size = Some(ConsoleSize {
        height: 24,
        width: 80,
    });
    for (tty, expected) in [("true", size), ("false", None)] {
        let spec = Case::new(&[("tty", tty)]).try_with(|context| context.terminal_size = size);
        let process = process(spec.unwrap());
        assert_eq!(
            (process.terminal, process.console_size),
            (tty == "true", expected)
        );
    }
}

#[test]
fn capabilities_of_root_and_of_others() {
    let mut case = Case::new(&[("cap-add", "NET_ADMIN")]);
    let root = process(case.spec()).capabilities.unwrap();
    assert_eq!(
        (root.bounding.len(), root.effective.len(), root.permitted.len()),
        (15, 15, 15)
    );
    assert!(root.inheritable.is_empty() && root.ambient.is_empty());
    case.user.uid = 1000;
    let user = process(case.spec()).capabilities.unwrap();
    assert_eq!(user.bounding.len(), 15);
    for set in [user.effective, user.permitted, user.inheritable, user.ambient] {
        assert_eq!(set, ["CAP_NET_ADMIN"]);
    }
    let mut case = Case::new(&[("privileged", "true")]);
    assert_eq!(process(case.spec()).capabilities.unwrap().effective.len(), 41);
    case.user.uid = 1000;
    assert!(process(case.spec()).capabilities.unwrap().effective.is_empty());
}

#[test]
fn groups() {
    let mut case = Case::new(&[]);
    case.user.gid = 7;
    case.user.additional_gids = vec![10, 20];
    let gids = |spec: Spec| process(spec).user.additional_gids;
    assert_eq!(
        gids(case.try_with(|context| context.added_gids = &[20, 30]).unwrap()),
        [7, 10, 20, 30]
    );
    let case = case.rootless(15);
    assert_eq!(gids(case.spec()), [7, 10]);
    let added = case.try_with(|context| context.added_gids = &[30]);
    let not_mapped = |kind, id, file| SpecError::NotMapped { kind, id, file };
    assert_eq!(added, Err(not_mapped("group", 30, "subgid")));
}

#[test]
fn a_single_mapped_id() {
    let mut case = Case::new(&[]).rootless(1);
    case.user.additional_gids = vec![10];
    assert!(process(case.spec()).user.additional_gids.is_empty());
    let added = case.try_with(|context| context.added_gids = &[0]);
    assert_eq!(added, Err(SpecError::Setgroups));
    case.user.uid = 1000;
    let expected = SpecError::NotMapped {
        kind: "user",
        id: 1000,
        file: "subuid",
    };
    assert_eq!(case.error(), expected);
}

#[test]
fn the_rest() {
    let case = Case::new(&[
        ("ulimit", "nofile=1:2"),
        ("ulimit", "core=-1"),
        ("security-opt", "no-new-privileges"),
        ("security-opt", "apparmor=x"),
        ("oom-score-adj", "5"),
    ]);
    let process = process(case.spec());
    let limits: Vec<_> = process
        .rlimits
        .iter()
        .map(|limit| (&*limit.kind, limit.soft, limit.hard))
        .collect();
    assert_eq!(
        limits,
        [("RLIMIT_CORE", u64::MAX, u64::MAX), ("RLIMIT_NOFILE", 1, 2)]
    );
    assert!(process.no_new_privileges);
    assert_eq!(
        (process.apparmor_profile.as_deref(), process.oom_score_adj),
        (Some("x"), Some(5))
    );
}

#[test]
fn the_callers_environment_is_below_the_images() {
    let mut case = Case::new(&[
        ("host-env", "A=host"),
        ("host-env", "B=host"),
        ("host-env", "C=host"),
        ("env", "C=user"),
    ]);
    case.image.env = vec!["PATH=/bin".to_owned(), "B=image".to_owned()];
    let expected = [
        "PATH=/bin",
        "HOSTNAME=1f1f1f1f1f1f",
        "A=host",
        "B=image",
        "C=user",
        "HOME=/root",
    ];
    assert_eq!(process(case.spec()).env, expected);
}

#[test]
fn details() {
    let spec = Case::new(&[("domainname", "example.com"), ("umask", "0027")]).spec();
    assert_eq!(spec.domainname.as_deref(), Some("example.com"));
    assert_eq!(spec.process.unwrap().user.umask, Some(0o27));
    assert_eq!(Case::new(&[]).spec().domainname, None);
    for (pairs, expected) in [
        (
            &[
                ("unsetenv", "HOME"),
                ("unsetenv", "HOSTNAME"),
                ("unsetenv", "PATH"),
            ][..],
            vec![],
        ),
        (&[("unsetenv-all", "true"), ("env", "A=1")], vec!["A=1"]),
        (
            &[("unsetenv-all", "true"), ("unsetenv", "A"), ("env", "A=1")],
            vec!["A=1"],
        ),
    ] {
        assert_eq!(
            Case::new(pairs).spec().process.unwrap().env,
            expected,
            "{pairs:?}"
        );
    }
    for (pairs, error) in [
        (&[("domainname", "a"), ("uts", "host")][..], SpecError::Domainname),
        (
            &[("no-hosts", "true"), ("add-host", "a:1.2.3.4")],
            SpecError::NoHosts,
        ),
        (
            &[("expose", "80"), ("network", "container:web")],
            SpecError::Exposed,
        ),
    ] {
        assert_eq!(Case::new(pairs).error(), error);
    }
}
