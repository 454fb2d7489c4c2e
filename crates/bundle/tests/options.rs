//! Every option of `run`, once with a valid and once with an invalid value.

use tote_bundle::{
    Capability, CgroupnsMode, CgroupsMode, EnvEntry, IpcMode, MountSource, NetworkMode, OptionError, PidMode,
    RunOptions, SdNotify, SeccompChoice, StopTimeout, Swap, UsernsMode, UtsMode,
};

/// Returns the whole line that a user would read: the error and its sources.
fn line(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", line(source)),
        None => error.to_string(),
    }
}

fn options(pairs: &[(&str, &str)]) -> RunOptions {
    let mut options = RunOptions::default();
    for (name, value) in pairs {
        options
            .set(name, value)
            .unwrap_or_else(|error| panic!("{}", line(&error)));
    }
    options
}

#[test]
fn process_options() {
    let options = options(&[
        ("name", "web"),
        ("rm", "true"),
        ("interactive", "true"),
        ("tty", "true"),
        ("tty", "false"),
        ("env", "A=1"),
        ("env", "HOME"),
        ("env-file", "vars"),
        ("workdir", "/srv/../app/"),
        ("user", "web:www"),
        ("group-add", "audio"),
        ("hostname", "box"),
        ("entrypoint", ""),
        ("init", "true"),
        ("stop-signal", "SIGQUIT"),
        ("stop-timeout", "-1"),
        ("add-host", "db:10.0.0.7"),
        ("dns", "10.0.0.1"),
        ("label", "a=b"),
        ("annotation", "c=d"),
        ("cidfile", "id"),
        ("timeout", "1.5"),
        ("cpu-time", "2"),
        ("output-limit", "10k"),
        ("report", "/verdict.json"),
        ("preserve-fds", "3"),
        ("sdnotify", "conmon"),
        ("cgroups", "split"),
        ("cgroup-parent", "/a"),
    ]);
    assert_eq!(options.name.as_ref().map(|name| name.as_str()), Some("web"));
    assert!(options.rm && options.interactive && !options.tty && options.init);
    assert_eq!(
        options.env.entries,
        [
            EnvEntry::Set("A=1".to_owned()),
            EnvEntry::Inherit("HOME".to_owned())
        ]
    );
    assert_eq!(options.env.files, ["vars"]);
    assert_eq!(options.workdir.as_deref(), Some("/app"));
    assert_eq!(options.entrypoint.as_deref(), Some(""));
    assert_eq!(options.stop_signal.as_deref(), Some("SIGQUIT"));
    assert_eq!(options.stop_timeout, Some(StopTimeout::Never));
    assert_eq!(options.labels["a"], "b");
    assert_eq!(options.annotations["c"], "d");
    assert_eq!(options.timeout.map(|timeout| timeout.as_millis()), Some(1500));
    assert_eq!(options.cpu_time.map(|time| time.as_secs()), Some(2));
    assert_eq!(options.output_limit, Some(10240));
    assert_eq!(options.report.as_deref(), Some("/verdict.json"));
    assert_eq!(options.preserve_fds, 3);
    assert_eq!(options.sdnotify, SdNotify::Conmon);
    assert_eq!(options.cgroups, CgroupsMode::Split);
    assert_eq!(options.cgroup_parent, "/a");
}

#[test]
fn sandbox_options() {
    let options = options(&[
        ("volume", "/a:/b"),
        ("mount", "type=tmpfs,target=/c"),
        ("tmpfs", "/d"),
        ("read-only", "true"),
        ("slim-fallback", "true"),
        ("cap-add", "net_admin"),
        ("cap-drop", "ALL"),
        ("privileged", "false"),
        ("security-opt", "no-new-privileges"),
        ("device", "/dev/fuse"),
        ("sysctl", "net.core.somaxconn=1"),
        ("shm-size", "1m"),
        ("pid", "host"),
        ("ipc", "none"),
        ("uts", "host"),
        ("userns", "auto"),
        ("cgroupns", "host"),
        ("network", "host"),
    ]);
    assert!(matches!(options.mounts[0].source, MountSource::Bind(_)));
    assert!(matches!(options.mounts[2].source, MountSource::Tmpfs(_)));
    assert_eq!(options.cap_add, [Capability::One("CAP_NET_ADMIN")]);
    assert_eq!(options.cap_drop, [Capability::All]);
    assert!(options.read_only && options.security.no_new_privileges);
    assert_eq!(options.slim_fallback.as_deref(), Some(""));
    assert_eq!(options.shm_size, Some(1 << 20));
    let modes = (
        options.pid,
        options.ipc,
        options.uts,
        options.userns,
        options.cgroupns,
        options.network,
    );
    let expected = (
        PidMode::Host,
        IpcMode::None,
        UtsMode::Host,
        UsernsMode::Auto,
        CgroupnsMode::Host,
        NetworkMode::Host,
    );
    assert_eq!(modes, expected);
}

#[test]
fn limits() {
    let options = options(&[
        ("ulimit", "nofile=1"),
        ("ulimit", "host"),
        ("ulimit", "nofile=2:3"),
        ("memory", "64m"),
        ("memory-swap", "-1"),
        ("memory-reservation", "32m"),
        ("cpus", "1.5"),
        ("cpu-shares", "512"),
        ("cpuset-cpus", "0-1"),
        ("cpuset-mems", "0"),
        ("pids-limit", "-1"),
        ("oom-score-adj", "-500"),
    ]);
    assert_eq!(
        (options.ulimits["nofile"].soft, options.ulimits["nofile"].hard),
        (2, 3)
    );
    assert_eq!((options.memory, options.memory_reservation), (64 << 20, 32 << 20));
    assert_eq!(options.memory_swap, Swap::Unlimited);
    assert_eq!((options.nano_cpus, options.cpu_shares), (1_500_000_000, 512));
    assert_eq!(
        (options.pids_limit, options.oom_score_adj),
        (Some(-1), Some(-500))
    );
    let unset = self::options(&[
        ("memory", "0"),
        ("memory-swap", "0"),
        ("cpuset-cpus", ""),
        ("cpus", "0"),
    ]);
    assert_eq!(unset, RunOptions::default());
}

#[test]
fn refusals_name_option_and_value_and_what_is_right() {
    for (name, value, expected) in [
        (
            "memory",
            "64x",
            "invalid argument \"64x\" for \"--memory\" flag: invalid suffix: 'x': give bytes",
        ),
        (
            "memory",
            "4m",
            "minimum memory limit allowed is 6MB: give at least 6m",
        ),
        ("cpus", "many", "failed to parse \"many\" as a rational number"),
        ("rm", "perhaps", "must be true or false"),
        ("network", "name=", "invalid network \"name=\": give none, host"),
        (
            "workdir",
            "app",
            "the working directory 'app' is invalid, it needs to be an absolute path",
        ),
        ("cap-add", "FLY", "unknown capability: \"CAP_FLY\""),
        (
            "sysctl",
            "vm.swappiness=1",
            "sysctl 'vm.swappiness=1' is not allowed",
        ),
        (
            "ulimit",
            "nofile=3:2",
            "ulimit soft limit must be less than or equal to hard limit: 3 > 2",
        ),
        ("volume", "./a:/b", "use absolute path"),
        ("name", "-x", "only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"),
        ("stop-signal", "SIGNOPE", "invalid signal: SIGNOPE"),
        ("pids-limit", "-2", "must be a whole number from -1"),
        (
            "oom-score-adj",
            "1001",
            "must be a whole number from -1000 to 1000",
        ),
        ("cpu-shares", "-1", "must be a whole number from 0"),
        ("env", "=x", "invalid environment variable: =x"),
        ("entrypoint", "a\0b", "a NUL byte"),
        ("cidfile", "", "must not be empty"),
        ("report", "", "must not be empty"),
    ] {
        let error = RunOptions::default().set(name, value).unwrap_err();
        let line = line(&error);
        assert!(
            line.starts_with(&format!("invalid argument {value:?} for \"--{name}\" flag: ")),
            "{line}"
        );
        assert!(line.contains(expected), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
    let error = RunOptions::default().set("detach-keys", "x").unwrap_err();
    assert_eq!(error, OptionError::Unknown("detach-keys".to_owned()));
}

#[test]
fn env_files() {
    let mut options = RunOptions::default();
    options.env.add_file("A=1\nB").unwrap();
    options.env.add_file("C=2").unwrap();
    assert_eq!(options.env.file_entries.len(), 3);
    let error = OptionError::EnvFile(options.env.add_file("=x").unwrap_err());
    assert!(line(&error).starts_with("--env-file: invalid env file: no variable name on line '=x'"));
}

#[test]
fn which_filter() {
    for (pairs, choice) in [
        (&[][..], SeccompChoice::Default),
        (&[("privileged", "true")], SeccompChoice::Unconfined),
        (
            &[("security-opt", "seccomp=unconfined")],
            SeccompChoice::Unconfined,
        ),
        (
            &[("security-opt", "seccomp=p.json"), ("privileged", "true")],
            SeccompChoice::File("p.json".to_owned()),
        ),
    ] {
        assert_eq!(options(pairs).seccomp(), choice, "{pairs:?}");
    }
}
