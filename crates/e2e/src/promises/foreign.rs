//! Users of docker or podman who request an unsupported feature get advice on the alternative, and options of docker
//! without a meaning here have no effect.

use super::life::done;
use super::registry::layer;
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("foreign::options_that_are_not_here_have_advice", &[], options),
    test("foreign::commands_that_are_not_here_have_advice", &[], commands),
    test("foreign::a_name_in_use_says_how_to_free_it", &[], name_in_use),
    test(
        "foreign::images_are_in_lower_case_and_no_address",
        &[],
        image_names,
    ),
    test("foreign::one_word_is_no_command_line", &[], one_word),
    test("foreign::a_device_that_is_missing_ends_with_127", &[], no_device),
    test("foreign::dockers_options_without_meaning_are_taken", &[], taken),
    test("foreign::more_cpus_than_there_are_is_refused", &[], cpus),
    test("foreign::what_is_not_there_ends_with_one", &[], exit_codes),
    test("foreign::podmans_options_are_done_or_refused", &[], podmans),
    test("foreign::unshare_has_the_ids_of_containers", &[], unshare),
    test(
        "foreign::keep_groups_keeps_the_callers",
        &[Need::Root, Need::Program("setpriv")],
        groups,
    ),
    test("foreign::what_the_foreground_lacks_is_said", &[], foreground),
    test("foreign::df_has_dockers_parts", &[], df),
];

fn options(cx: &Context) -> Result<()> {
    let image = cx.image();
    let table: [(&[&str], &str); 9] = [
        (&["-p", "[::1]:8080:80"], "127.0.0.1 is for programs"),
        (&["--mac-address", "a"], "invalid mac-address"),
        (&["--link-local-ip", "10.0.0.2"], "--ip and --ip6"),
        (&["--network", "ns:/proc/1/ns/net"], "none, host, container:ID"),
        (&["--arch", "arm64"], "--platform OS/ARCH"),
        (&["--http-proxy=false"], "-e NAME"),
        (&["--read-only-tmpfs"], "--tmpfs /run"),
        (&["--passwd=false"], "keep-id"),
        (&["--retry", "3"], "tried again"),
    ];
    for (words, advice) in table {
        for command in ["run", "create"] {
            let words = [&[command], words, &[&image, "true"]].concat();
            let out = cx.tote(&words).output()?;
            out.exits(125)
                .and_then(|out| out.has_err(advice))
                .with_context(|| format!("{words:?}"))?;
            ensure!(!out.err().contains("did you mean"), "{}", out.transcript());
        }
    }
    Ok(())
}

fn commands(cx: &Context) -> Result<()> {
    for (words, advice) in [
        (&["compose", "up"][..], "there is no compose here"),
        (&["context", "create", "x"], "no daemon"),
        (&["-H", "tcp://a", "ps"], "no daemon"),
        (&["swarm", "init"], "one machine"),
        (&["kube", "play"], "pod create"),
        (&["volume", "mount", "v"], "{{.Mountpoint}}"),
        (&["container", "checkpoint", "c"], "tote pause"),
        (&["system", "connection", "ls"], "no service"),
    ] {
        let out = cx.tote(words).output()?;
        // docker's client uses 125 for options only.
        out.exits(if words.first() == Some(&"-H") { 125 } else { 1 })
            .and_then(|out| out.has_err(advice))
            .with_context(|| format!("{words:?}"))?;
    }
    // A word that only looks similar gets no advice.
    for word in ["bogus", "opus", "logo"] {
        let out = cx.tote(&[word]).output()?;
        out.exits(1)?;
        ensure!(
            word == "logo" || !out.err().contains("did you mean"),
            "{}",
            out.transcript()
        );
    }
    done(cx, &["--log-level", "debug", "ps", "-a"])?;
    Ok(())
}

fn name_in_use(cx: &Context) -> Result<()> {
    let image = cx.image();
    done(cx, &["create", "--name", "c", &image, "true"])?;
    let again = cx.run(&["--name", "c", &image, "true"])?;
    again.exits(125)?.has_err("tote rm c")?.has_err("--replace")?;
    done(cx, &["rm", "/c"])?;
    done(cx, &["create", "--name", "/c", &image, "true"])?;
    done(cx, &["rm", "c"])?;
    Ok(())
}

fn image_names(cx: &Context) -> Result<()> {
    let run = |image: &str| cx.run(&["--pull", "never", image, "true"]);
    run("Alpine")?
        .exits(125)?
        .has_err("repository name must be lowercase")?;
    run("https://docker.io/alpine")?
        .exits(125)?
        .has_err("without a scheme")?;
    Ok(())
}

fn one_word(cx: &Context) -> Result<()> {
    let image = cx.image();
    cx.run(&[&image, "echo hi"])?
        .exits(127)?
        .has_err("leave them out")?;
    cx.run(&["--entrypoint", "sh -c", &image, "true"])?
        .exits(127)?
        .has_err("--entrypoint takes the program alone")?;
    Ok(())
}

/// docker's CLI ends with 127 where the kernel has said that a file is not there, and a device is one.
fn no_device(cx: &Context) -> Result<()> {
    let image = cx.image();
    for words in [
        ["--device", "/dev/nosuch"],
        ["--device-read-bps", "/dev/nosuch:1mb"],
        ["--blkio-weight-device", "/dev/nosuch:100"],
    ] {
        cx.run(&[&words[..], &[&image, "true"]].concat())?
            .exits(127)?
            .has_err("/dev/nosuch")?;
    }
    Ok(())
}

fn taken(cx: &Context) -> Result<()> {
    for options in [
        &["--security-opt", "apparmor=unconfined"][..],
        &["--kernel-memory", "64m"],
        &[
            "--log-opt",
            "mode=non-blocking",
            "--log-opt",
            "max-buffer-size=4m",
        ],
        &["--log-opt", "compress=true", "--log-opt", "max-size=1m"],
    ] {
        let out = cx
            .shell(options, "echo ran")
            .with_context(|| format!("{options:?}"))?;
        out.prints("ran\n").with_context(|| format!("{options:?}"))?;
    }
    for driver in ["journald", "syslog", "fluentd"] {
        cx.shell(&["--log-driver", driver], "true")?
            .exits(125)?
            .has_err("'tote logs' could not read")?;
    }
    Ok(())
}

fn cpus(cx: &Context) -> Result<()> {
    let many = cx.shell(&["--cpus", "99999"], "true")?;
    many.exits(125)?.has_err("Range of CPUs is from 0.01 to ")?;
    done(
        cx,
        &["create", "--name", "c", "--cpus", "0.5", &cx.image(), "true"],
    )?;
    let update = cx.tote(&["update", "--cpus", "99999", "c"]).output()?;
    update.fails()?.has_err("Range of CPUs is from 0.01 to ")?;
    done(cx, &["rm", "c"])?;
    Ok(())
}

/// Exit codes as docker's, whose client asks the daemon and is refused.
fn exit_codes(cx: &Context) -> Result<()> {
    let missing = cx.path("missing")?;
    for words in [
        &["tag", "nosuch", "other"][..],
        &["save", "-o", &missing, "nosuch"],
        &["load", "-i", &missing],
        &["import", &missing],
        &["images", "-f", "bogus=1"],
        &["ps", "-f", "bogus=1"],
        &["history", "nosuch"],
        &["rmi", "nosuch"],
        &["kill", "--signal=FOO", "nosuch"],
    ] {
        let out = cx.tote(words).output()?;
        out.exits(1).with_context(|| format!("{words:?}"))?;
    }
    let empty = cx.directory("empty")?;
    let load = cx.tote(&["load", "-i", &empty]).output()?;
    load.exits(1)?.has_err("index.json")?.has_err("no OCI layout")?;
    let forced = cx.tote(&["rmi", "-f", "nosuch"]).output()?;
    forced.exits(0)?.has_err("nosuch")?;
    // A file of images may hold secrets.
    let file = cx.path("layer.tar")?;
    std::fs::write(&file, layer(cx)?)?;
    done(cx, &["import", &file, "one:1"])?;
    let saved = cx.path("saved.tar")?;
    done(cx, &["save", "-o", &saved, "one:1"])?;
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&saved)?.permissions());
    ensure!(mode & 0o777 == 0o600, "{mode:o}");
    done(cx, &["rmi", "-a"])?;
    ensure!(done(cx, &["images", "-q"])?.is_empty(), "rmi -a leaves none");
    Ok(())
}

fn podmans(cx: &Context) -> Result<()> {
    let image = cx.image();
    let out = cx.run(&["--entrypoint", "[\"echo\",\"a b\"]", &image, "c"])?;
    out.prints("a b c\n")?;
    cx.run(&["--entrypoint", "[", &image, "1", "=", "1", "]"])?
        .exits(127)?
        .has_err("exec: \"[\": executable file not found")?;
    let twice = [
        "-v",
        "/tmp:/w:ro",
        "-v",
        "/tmp:/w:ro",
        "--health-on-failure",
        "none",
    ];
    cx.shell(&twice, "echo ran")?.prints("ran\n")?;
    for (option, value, advice) in [
        ("-v", "/tmp:/w:O,upperdir=/x", "the layer of O"),
        ("-v", "/tmp:/w:dev", "--device"),
        ("--health-on-failure", "reboot", "kill, stop or restart"),
    ] {
        cx.shell(&[option, value], "true")?
            .exits(125)
            .and_then(|out| out.has_err(advice))
            .with_context(|| format!("{option} {value}"))?;
    }
    cx.run(&["--rootfs", &cx.shared_rootfs().display().to_string(), "echo", "a"])?
        .prints("a\n")?;
    let dir = cx.directory("programs")?;
    let program = std::path::Path::new(&dir).join("program");
    std::fs::write(&program, "#!/bin/sh\necho ran\n")?;
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    cx.shell(&["-v", &format!("{dir}:/w:ro")], "/w/program")?
        .prints("ran\n")?;
    cx.shell(&["-v", &format!("{dir}:/w:ro,noexec,nosuid")], "/w/program")?
        .exits(126)?
        .has_err("Permission denied")?;
    Ok(())
}

/// The ids of a user's containers.
fn unshare(cx: &Context) -> Result<()> {
    let caller = rustix::process::geteuid();
    let unshare = |words: &[&str]| cx.tote(&[&["unshare"], words].concat()).output();
    if caller.is_root() {
        return unshare(&["id", "-u"])?
            .exits(125)?
            .has_err("has the ids of all containers already")
            .map(drop);
    }
    unshare(&["id", "-u"])?.prints("0\n")?;
    let map = unshare(&["cat", "/proc/self/uid_map"])?.exits(0)?.out();
    let first: Vec<&str> = map.split_whitespace().take(3).collect();
    ensure!(first[..] == ["0", &caller.as_raw().to_string(), "1"], "{map}");
    unshare(&["sh", "-c", "exit 3"])?.exits(3)?;
    unshare(&["/nosuch"])?
        .exits(127)?
        .has_err("cannot execute /nosuch")?;
    Ok(())
}

/// The groups of the process that calls tote.
fn groups(cx: &Context) -> Result<()> {
    let groups = |options: &[&str]| {
        let image = cx.image();
        let words = [
            &["run", "--rm"],
            options,
            &[&image, "grep", "Groups", "/proc/self/status"],
        ];
        let caller = ["setpriv", "--groups", "0,4321"];
        cx.tote(&words.concat()).under(&caller).output()
    };
    groups(&["--group-add", "keep-groups"])?.prints("Groups:\t0 4321 \n")?;
    groups(&["--group-add", "5"])?.prints("Groups:\t0 5 \n")?;
    let both = groups(&["--group-add", "5", "--group-add", "keep-groups"])?;
    both.exits(125)?.has_err("leave out the other --group-add")?;

    // `exec` keeps the groups of its own caller.
    let exec = |options: &[&str]| {
        let image = cx.image();
        let words = [&["run", "-d", "--name", "c"], options, &[&image, "sleep", "100"]];
        cx.tote(&words.concat()).output()?.exits(0)?;
        let words = ["exec", "c", "grep", "Groups", "/proc/self/status"];
        let out = cx
            .tote(&words)
            .under(&["setpriv", "--groups", "0,4321"])
            .output()?;
        cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
        anyhow::Ok(out)
    };
    exec(&["--group-add", "keep-groups"])?.prints("Groups:\t0 4321 \n")?;
    exec(&["--group-add", "5"])?.prints("Groups:\t0 5 \n")?;
    Ok(())
}

/// A container of `run --rm` in the foreground has neither a monitor nor records.
fn foreground(cx: &Context) -> Result<()> {
    let words = ["-i", "--name", "c", &cx.image(), "sh", "-c", "echo ready; cat"];
    let mut running = cx.run_command(&words).spawn()?;
    running.expect("ready\n")?;
    for words in [
        &["logs", "c"][..],
        &["attach", "c"],
        &["rename", "c", "d"],
        &["update", "--restart", "no", "c"],
    ] {
        let out = cx.tote(words).output()?;
        out.refuses(1, &["--rm", "with -d beside --rm"])
            .with_context(|| format!("{words:?}"))?;
    }
    for (words, instead) in [
        (&["restart", "c"][..], "run it again, or start it without --rm"),
        (&["commit", "c", "it"], "start it without --rm"),
        (&["diff", "c"], "start it without --rm"),
    ] {
        let out = cx.tote(words).output()?;
        out.refuses(1, &["--rm", instead])
            .with_context(|| format!("{words:?}"))?;
    }
    running.close_input();
    running.finish()?.exits(0)?;
    Ok(())
}

fn df(cx: &Context) -> Result<()> {
    let file = cx.path("layer.tar")?;
    std::fs::write(&file, layer(cx)?)?;
    done(cx, &["import", &file, "one:1"])?;
    done(cx, &["create", "--name", "c", &cx.image(), "true"])?;
    done(cx, &["tag", "one:1", "two:1"])?;
    let shown = done(cx, &["system", "df", "-v"])?;
    for heading in [
        "Images space usage:\n\nREPOSITORY   TAG       IMAGE ID",
        "Containers space usage:\n\nCONTAINER ID   IMAGE",
        "Local Volumes space usage:\n\nVOLUME NAME   LINKS     SIZE",
        "Build cache usage: 0B\n\nCACHE ID   CACHE TYPE",
    ] {
        let squeezed = squeeze(&shown);
        ensure!(squeezed.contains(&squeeze(heading)), "{heading}:\n{shown}");
    }
    ensure!(
        shown.starts_with("Images space usage:") && shown.contains(" Created "),
        "{shown}"
    );
    ensure!(
        shown.contains("\none ") && !shown.contains("\ntwo "),
        "an image is there once: {shown}"
    );
    let shown = done(cx, &["system", "df"])?;
    let rows: Vec<&str> = shown.lines().take(5).collect();
    ensure!(
        rows[4].starts_with("Build Cache") && !rows[2].contains('%'),
        "{shown}"
    );
    done(cx, &["rm", "c"])?;
    done(cx, &["rmi", "-a"])?;
    Ok(())
}

/// Spaces as one.
fn squeeze(text: &str) -> String {
    let lines = text.lines();
    let squeezed = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    squeezed.collect::<Vec<_>>().join("\n")
}
