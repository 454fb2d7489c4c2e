//! The tables themselves: tidy, complete, and what people see of them. `UPDATE=1 cargo test` rewrites `snapshots/`.

use super::TOTE;
use std::ffi::{OsStr, OsString};
use tote_options::{Shell, find, help, parse, table_faults};

#[test]
fn tables_are_tidy() {
    // The names of an OCI runtime's options are given: two are tote's own as well, and one is a command's. The last value
    // of a name counts, whichever of them it was given to.
    let given = [
        "tote oci: --root",
        "tote oci: --version",
        "tote oci spec: --rootless",
    ];
    let mut faults = table_faults(&TOTE);
    faults.retain(|fault| {
        !given
            .iter()
            .any(|name| *fault == format!("{name} is there twice"))
    });
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn help_texts() {
    for (name, words, kept) in [
        ("tote", &[][..], include_str!("snapshots/tote.help")),
        ("run", &["run"], include_str!("snapshots/run.help")),
        ("info", &["info"], include_str!("snapshots/info.help")),
        (
            "completion",
            &["completion"],
            include_str!("snapshots/completion.help"),
        ),
    ] {
        let rendered = help(&find(&TOTE, words).unwrap(), 80);
        if std::env::var_os("UPDATE").is_some() {
            let file = format!(
                "{}/src/commands/snapshots/{name}.help",
                env!("CARGO_MANIFEST_DIR")
            );
            std::fs::write(file, rendered).unwrap();
        } else {
            assert_eq!(
                rendered, kept,
                "the help of {name} has changed; UPDATE=1 rewrites the file"
            );
        }
    }
}

/// The forms that people know from docker, one line for each option of `run`.
#[test]
fn run_takes_dockers_options() {
    for (given, long, value) in [
        ("--name web", "name", "web"),
        ("-h web", "hostname", "web"),
        ("-l a=b", "label", "a=b"),
        ("--annotation a=b", "annotation", "a=b"),
        ("--cidfile f", "cidfile", "f"),
        ("-i", "interactive", "true"),
        ("-t", "tty", "true"),
        ("-it", "tty", "true"),
        ("-eA=b", "env", "A=b"),
        ("--env-file f", "env-file", "f"),
        ("-w /", "workdir", "/"),
        ("-u 1:2", "user", "1:2"),
        ("--group-add 7", "group-add", "7"),
        ("--entrypoint=", "entrypoint", ""),
        ("--init", "init", "true"),
        ("--rm=true", "rm", "true"),
        ("--stop-signal HUP", "stop-signal", "HUP"),
        ("--stop-timeout 3", "stop-timeout", "3"),
        ("--timeout 1.5", "timeout", "1.5"),
        ("--cpu-time 2", "cpu-time", "2"),
        ("-v /a:/b:ro", "volume", "/a:/b:ro"),
        ("--mount type=tmpfs,dst=/t", "mount", "type=tmpfs,dst=/t"),
        ("--tmpfs /t", "tmpfs", "/t"),
        ("--read-only", "read-only", "true"),
        ("--shm-size 1m", "shm-size", "1m"),
        ("--cap-add ALL", "cap-add", "ALL"),
        ("--cap-drop ALL", "cap-drop", "ALL"),
        ("--privileged", "privileged", "true"),
        (
            "--security-opt no-new-privileges",
            "security-opt",
            "no-new-privileges",
        ),
        ("--device /dev/kvm", "device", "/dev/kvm"),
        ("--sysctl a=b", "sysctl", "a=b"),
        ("-m 1g", "memory", "1g"),
        ("--memory-swap -1", "memory-swap", "-1"),
        ("--memory-reservation 1g", "memory-reservation", "1g"),
        ("--cpus .5", "cpus", ".5"),
        ("-c 512", "cpu-shares", "512"),
        ("--cpuset-cpus 0", "cpuset-cpus", "0"),
        ("--cpuset-mems 0", "cpuset-mems", "0"),
        ("--pids-limit -1", "pids-limit", "-1"),
        ("--ulimit nofile=1", "ulimit", "nofile=1"),
        ("--oom-score-adj -5", "oom-score-adj", "-5"),
        ("--pid host", "pid", "host"),
        ("--ipc host", "ipc", "host"),
        ("--uts host", "uts", "host"),
        ("--userns host", "userns", "host"),
        ("--cgroupns host", "cgroupns", "host"),
        ("--net none", "network", "none"),
        ("--network none", "network", "none"),
        ("--add-host a:1.2.3.4", "add-host", "a:1.2.3.4"),
        ("--dns 1.1.1.1", "dns", "1.1.1.1"),
        ("--preserve-fds 2", "preserve-fds", "2"),
        ("-q", "quiet", "true"),
        ("--plan", "plan", "true"),
        ("--timings", "timings", "true"),
    ] {
        let words = ["run"]
            .into_iter()
            .chain(given.split(' '))
            .chain(["image", "ls", "-l"]);
        let parsed = parse(&TOTE, words.map(OsString::from)).unwrap();
        assert_eq!(parsed.value(long), Some(OsStr::new(value)), "{given}");
        assert_eq!(parsed.positionals(), ["image", "ls", "-l"], "{given}");
    }
}

/// The completions name every option of `run` and every command that is not hidden.
#[test]
fn completions_are_complete() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let script = shell.script(&TOTE);
        let run = TOTE.child("run").unwrap();
        for opt in run.own_options() {
            assert!(script.contains(opt.long), "{shell:?}: --{}", opt.long);
        }
        for command in TOTE.children().filter(|command| !command.hidden) {
            assert!(script.contains(command.name), "{shell:?}: {}", command.name);
        }
        assert!(script.contains("__complete"), "{shell:?}");
    }
}
