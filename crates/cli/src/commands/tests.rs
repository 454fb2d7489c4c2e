//! The tables themselves: whether they are consistent and complete, and the texts that users see. `UPDATE=1 cargo
//! test` rewrites `snapshots/`.

use super::TOTE;
use std::ffi::{OsStr, OsString};
use tote_options::{Command, Completes, Shell, find, help, parse, table_faults};

#[test]
fn tables_are_tidy() {
    // OCI runtimes need these option names, of which three are tote's own as well, and one is a command's. The last
    // value of a name counts, whichever of them it was given to.
    let given = [
        "tote oci: --root",
        "tote oci: --version",
        "tote oci: --debug",
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

/// The forms that docker's users know, one line for each option of `run`.
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
        ("--cpu-period 1000", "cpu-period", "1000"),
        ("--cpu-quota -1", "cpu-quota", "-1"),
        ("--memory-swappiness -1", "memory-swappiness", "-1"),
        ("--oom-kill-disable", "oom-kill-disable", "true"),
        ("--blkio-weight 10", "blkio-weight", "10"),
        ("--device-read-bps /dev/a:1", "device-read-bps", "/dev/a:1"),
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
        run_takes(given, long, value);
    }
}

fn run_takes(given: &str, long: &str, value: &str) {
    let words = ["run"]
        .into_iter()
        .chain(given.split(' '))
        .chain(["image", "ls", "-l"]);
    let parsed = parse(&TOTE, words.map(OsString::from)).unwrap();
    assert_eq!(parsed.value(long), Some(OsStr::new(value)), "{given}");
    assert_eq!(parsed.positionals(), ["image", "ls", "-l"], "{given}");
}

/// Options that change a single detail each.
#[test]
fn run_takes_dockers_details() {
    for (given, long, value) in [
        ("--dns-search example.com", "dns-search", "example.com"),
        ("--dns-opt ndots:2", "dns-option", "ndots:2"),
        ("--dns-option ndots:2", "dns-option", "ndots:2"),
        ("--domainname example.com", "domainname", "example.com"),
        ("--label-file f", "label-file", "f"),
        ("--expose 80", "expose", "80"),
        ("--volumes-from db:ro", "volumes-from", "db:ro"),
        ("--volume-driver local", "volume-driver", "local"),
        ("--storage-opt size=1g", "storage-opt", "size=1g"),
        ("-a stdin", "attach", "stdin"),
        ("--runtime runc", "runtime", "runc"),
        ("--isolation default", "isolation", "default"),
        ("--gpus all", "gpus", "all"),
        ("--link db", "link", "db"),
        ("--disable-content-trust", "disable-content-trust", "true"),
        ("--umask 0027", "umask", "0027"),
        ("--unsetenv A", "unsetenv", "A"),
        ("--unsetenv-all", "unsetenv-all", "true"),
        ("--no-hosts", "no-hosts", "true"),
        ("--env-host", "env-host", "true"),
        ("--tz local", "tz", "local"),
        ("--rmi", "rmi", "true"),
    ] {
        run_takes(given, long, value);
    }
}

/// Lists the commands as users type them, without `tote`, including those of groups; of `oci` only the group.
fn typed() -> Vec<(String, &'static Command)> {
    let mut all: Vec<(String, &'static Command)> = Vec::new();
    for command in TOTE.children().filter(|command| !command.hidden) {
        all.push((command.name.to_owned(), command));
        if command.name != "oci" {
            let children = command.children().filter(|child| !child.hidden);
            all.extend(children.map(|child| (format!("{} {}", command.name, child.name), child)));
        }
    }
    all
}

/// docs/commands.md describes exactly the existing commands.
#[test]
fn the_page_of_commands_is_complete() {
    let page = include_str!("../../../../docs/commands.md");
    let mut cells = Vec::new();
    for table in page.split("\n\n") {
        let mut column = table
            .lines()
            .filter(|line| line.starts_with("| "))
            .filter_map(|line| line.split('|').nth(2))
            .map(str::trim);
        // Tables with another heading are about options.
        if column.next() == Some("tote") {
            cells.extend(column.filter(|cell| !cell.is_empty() && *cell != "none"));
        }
    }
    let named: Vec<&str> = cells
        .iter()
        .flat_map(|cell| cell.split(", "))
        .map(|word| word.trim_matches('`'))
        .collect();
    let all = typed();
    for (name, _) in &all {
        // A command with and without the group `container` is on the page once.
        let short = name.strip_prefix("container ").unwrap_or(name);
        assert!(
            named.contains(&name.as_str()) || named.contains(&short),
            "docs/commands.md does not name {name}"
        );
    }
    for name in named {
        assert!(
            all.iter().any(|(typed, _)| typed == name),
            "docs/commands.md names {name:?}"
        );
    }
}

/// Every command has a manual page with its name, and is in the script of every shell. A command that takes a
/// container, an image or a volume completes with existing ones.
#[test]
fn every_command_has_a_page_and_completions() {
    let scripts = [Shell::Bash, Shell::Zsh, Shell::Fish].map(|shell| (shell, shell.script(&TOTE)));
    for (name, command) in typed() {
        let words: Vec<&str> = name.split(' ').collect();
        let path = find(&TOTE, &words).unwrap();
        let page = tote_options::man(&path, "1");
        let title = tote_options::man_name(&path);
        assert!(title.ends_with(&name.replace(' ', "-")), "{title}");
        assert!(
            page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"),
            "{name}"
        );
        for (shell, script) in &scripts {
            for opt in command.own_options() {
                assert!(script.contains(opt.long), "{shell:?}: {name} --{}", opt.long);
            }
            assert!(
                words.iter().all(|word| script.contains(word)),
                "{shell:?}: {name}"
            );
        }
        for positional in command.positionals {
            let kind = match positional.name {
                "CONTAINER" => Completes::Containers,
                "IMAGE" => Completes::Images,
                "POD" => Completes::Pods,
                "NETWORK" if name != "network create" => Completes::Networks,
                "VOLUME" if name != "volume create" => Completes::Volumes,
                _ => continue,
            };
            assert_eq!(positional.completes, kind, "{name} {}", positional.name);
        }
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
