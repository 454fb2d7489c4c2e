//! Units for systemd: the test executes their lines as systemd would.

use crate::context::Context;
use crate::exchange::patience;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

pub(super) const ANALYZE: Need = Need::Program("systemd-analyze");

pub(super) const TESTS: &[Test] = &[
    test("units::a_container_anew_with_each_start", &[], anew),
    test("units::the_container_that_is_there", &[], existing),
    test("units::what_systemd_thinks_of_them", &[ANALYZE], verified),
    test("units::files_names_and_formats", &[], shapes),
    test("units::containers_come_back_with_the_machine", &[], boot),
    test("units::pods_begin_and_end_with_theirs", &[], pods),
    test("units::scripts_for_other_inits", &[], scripts),
    test("units::cgroups_can_be_declined", &[], cgroups),
    test(
        "units::cgroups_below_a_parent",
        &[Need::Root, Need::CgroupV1("pids")],
        parent,
    ),
];

pub(super) fn done(cx: &Context, words: &[&str]) -> Result<Output> {
    let output = cx.tote(words).output()?;
    output.exits(0)?;
    Ok(output)
}

/// Splits a unit's line into words by systemd's rules: quotation marks and escapes, `%%`, `$$`, and specifiers.
fn words(unit: &str, key: &str, instance: &str) -> Result<Vec<String>> {
    let start = format!("{key}=");
    let line = unit.lines().find_map(|line| line.strip_prefix(&start));
    let line = line.with_context(|| format!("no {key} in\n{unit}"))?;
    let line = line.strip_prefix('-').unwrap_or(line);
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' => word.push(match letters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(mark @ ('"' | '\\')) => mark,
                other => anyhow::bail!("an escape {other:?} in {line}"),
            }),
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            '%' => match letters.next() {
                Some('%') => word.push('%'),
                Some('i') => word.push_str(instance),
                other => anyhow::bail!("a specifier {other:?} in {line}"),
            },
            '$' => {
                ensure!(letters.next() == Some('$'), "a variable in {line}");
                word.push('$');
            }
            letter => word.push(letter),
        }
    }
    ensure!(!quoted, "a quotation mark is open in {line}");
    words.push(word);
    Ok(words)
}

/// Service as systemd runs it.
pub(super) struct Service<'a> {
    cx: &'a Context,
    unit: String,
    instance: &'a str,
    init: UnixDatagram,
}

impl<'a> Service<'a> {
    pub(super) fn new(cx: &'a Context, unit: String, instance: &'a str) -> Result<Self> {
        let name = cx.scratch().join("notify");
        // Services use the same name one after the other.
        drop(fs::remove_file(&name));
        let init = UnixDatagram::bind(&name)?;
        init.set_read_timeout(Some(patience()))?;
        Ok(Self {
            cx,
            unit,
            instance,
            init,
        })
    }

    pub(super) fn command(&self, key: &str) -> Result<Invocation> {
        let command = Invocation::new(words(&self.unit, key, self.instance)?);
        Ok(command
            .env("HOME", self.cx.scratch())
            .env("NOTIFY_SOCKET", self.cx.scratch().join("notify")))
    }

    /// Waits until the service reports that it is ready.
    pub(super) fn becomes_ready(&self) -> Result<()> {
        let mut text = [0; 4096];
        loop {
            let length = self.init.recv(&mut text).context("it does not become ready")?;
            if String::from_utf8_lossy(&text[..length]).contains("READY=1") {
                return Ok(());
            }
        }
    }
}

/// Program of the tests' services: prints its arguments, and waits.
pub(super) const SCRIPT: &str = "trap \"exit 3\" TERM; echo \"$A|$1|$2\"; sleep 1000 & wait";

fn anew(cx: &Context) -> Result<()> {
    let image = cx.image();
    let odd = "a b\"c\\d $HOME 100% 'x'";
    let given = format!("A={odd}");
    let words = [
        "create",
        "--name",
        "c",
        "--restart",
        "always",
        "-e",
        &given,
        &image,
        "sh",
        "-c",
        SCRIPT,
        "sh",
        "",
        "%n\t;",
    ];
    done(cx, &words)?;
    for (options, instance, name) in [
        (&["--new", "--name"][..], "", "c"),
        (&["--new", "--name", "--template"], "7", "c-7"),
    ] {
        let out = done(cx, &[&["generate", "systemd"], options, &["c"]].concat())?;
        let service = Service::new(cx, out.out(), instance)?;
        if !options.contains(&"--template") {
            done(cx, &["rm", "c"])?;
        }
        let mut running = service.command("ExecStart")?.spawn()?;
        service.becomes_ready()?;
        let said = running.expect("\n")?;
        ensure!(said == format!("{odd}||%n\t;\n"), "it was given {said:?}");
        service.command("ExecStop")?.output()?.exits(0)?;
        running.finish()?.exits(3)?;
        service.command("ExecStopPost")?.output()?.exits(0)?;
        service.command("ExecStopPost")?.output()?.exits(0)?;
        let left = done(cx, &["ps", "-aq", "--filter", &format!("name=^{name}$")])?;
        left.prints("")?;
        if !options.contains(&"--template") {
            done(cx, &words)?;
        }
    }
    done(cx, &["rm", "c"])?;
    Ok(())
}

fn existing(cx: &Context) -> Result<()> {
    let image = cx.image();
    done(
        cx,
        &[
            "create",
            "--name",
            "c",
            "--stop-timeout",
            "1",
            &image,
            "sleep",
            "1000",
        ],
    )?;
    let id = done(cx, &["ps", "-aq", "--no-trunc"])?.out().trim().to_owned();
    let unit = done(cx, &["generate", "systemd", "c"])?.out();
    ensure!(unit.starts_with(&format!("# container-{id}.service\n")), "{unit}");
    let service = Service::new(cx, unit, "")?;
    for _ in 0..2 {
        service
            .command("ExecStart")?
            .output()?
            .prints(&format!("{id}\n"))?;
        service.becomes_ready()?;
        done(cx, &["ps", "-q", "--no-trunc"])?.prints(&format!("{id}\n"))?;
        service.command("ExecStop")?.output()?.exits(0)?;
        done(cx, &["ps", "-q"])?.prints("")?;
    }
    done(cx, &["rm", "c"])?;
    Ok(())
}

/// Checks that systemd has no complaints about these units.
pub(super) fn verify(cx: &Context, units: &[&str]) -> Result<()> {
    let words = ["systemd-analyze", "verify", "--man=no"];
    let said = Invocation::new(words.iter().chain(units))
        .env("HOME", cx.scratch())
        .env("XDG_RUNTIME_DIR", cx.scratch())
        .output()?;
    let about: Vec<_> = units
        .iter()
        .filter_map(|unit| Path::new(unit).file_name()?.to_str())
        .collect();
    let text = said.err();
    let found = text
        .lines()
        .find(|line| about.iter().any(|unit| line.contains(unit)));
    ensure!(found.is_none(), "systemd says: {}", found.unwrap_or_default());
    Ok(())
}

fn verified(cx: &Context) -> Result<()> {
    let image = cx.image();
    done(
        cx,
        &["create", "--name", "c", "-e", "A=b c", &image, "sleep", "1000"],
    )?;
    let more = [
        "--restart-policy",
        "always",
        "--restart-sec",
        "2",
        "--start-timeout",
        "30",
        "--stop-timeout",
        "5",
        "--wants",
        "basic.target",
        "--after",
        "basic.target",
        "--requires",
        "basic.target",
        "-e",
        "B=c d",
    ];
    let mut units = Vec::new();
    for (name, words) in [
        ("one.service", &["--name", "c"][..]),
        ("two.service", &["--new", "c"]),
        ("three@.service", &["--new", "--template", "c"]),
        ("four.service", &[&more[..], &["c"]].concat()),
        ("five.service", &["--restart"]),
    ] {
        let text = done(cx, &[&["generate", "systemd"], words].concat())?.out();
        units.push(cx.file(name, &text)?);
    }
    let units: Vec<_> = units.iter().map(String::as_str).collect();
    verify(cx, &units)?;
    let wrong = cx.file("wrong.service", "[Service]\nExecStart=/bin/true\nNonsense=1\n")?;
    ensure!(verify(cx, &[&wrong]).is_err(), "systemd finds no mistakes");
    done(cx, &["rm", "c"])?;
    Ok(())
}

fn shapes(cx: &Context) -> Result<()> {
    let image = cx.image();
    done(cx, &["create", "--name", "c", &image, "sleep", "1000"])?;
    let words = [
        "generate",
        "systemd",
        "--name",
        "--files",
        "--container-prefix",
        "p",
        "--separator",
        "_",
        "c",
    ];
    let written = cx.tote(&words).within(cx.scratch()).output()?;
    let path = cx.path("p_c.service")?;
    written.prints(&format!("{path}\n"))?;
    let json = done(
        cx,
        &[
            "generate",
            "systemd",
            "--name",
            "--no-header",
            "--format",
            "json",
            "c",
        ],
    )?;
    let object: serde_json::Value = serde_json::from_str(&json.out())?;
    let text = object["container-c"].as_str().context("no unit")?;
    ensure!(text.starts_with("[Unit]\n"), "{text}");
    for (words, naming) in [
        (&["--template", "c"][..], &["--template", "--new"][..]),
        (
            &["--restart-policy", "sometimes", "c"],
            &["sometimes", "on-failure"],
        ),
        (&["--restart", "c"], &["--restart"]),
        (&[], &["requires"]),
        (&["--format", "yaml", "c"], &["yaml"]),
    ] {
        let words = [&["generate", "systemd"], words].concat();
        cx.tote(&words).output()?.refuses(125, naming)?;
    }
    cx.tote(&["generate", "systemd", "no"])
        .output()?
        .refuses(1, &["no such container"])?;
    done(cx, &["rm", "c"])?;
    Ok(())
}

fn boot(cx: &Context) -> Result<()> {
    let image = cx.image();
    for (name, policy) in [
        ("never", "no"),
        ("failed", "on-failure"),
        ("ever", "always"),
        ("stopped", "unless-stopped"),
        ("unstopped", "unless-stopped"),
    ] {
        let words = [
            "create",
            "--name",
            name,
            "--restart",
            policy,
            "--stop-timeout",
            "0",
        ];
        done(cx, &[&words[..], &[&image, "sleep", "1000"]].concat())?;
    }
    done(cx, &["start", "ever", "stopped", "unstopped"])?;
    done(cx, &["stop", "-t", "0", "ever", "stopped"])?;
    // The init asks the monitor to stop, as at a shutdown.
    let state = done(cx, &["inspect", "--format", "{{.Id}}", "unstopped"])?.out();
    let file = cx.root().join("containers").join(state.trim()).join("state.json");
    let state: serde_json::Value = serde_json::from_slice(&fs::read(file)?)?;
    let monitor = state["monitor"]["pid"].as_i64().context("no monitor")?;
    let monitor = rustix::process::Pid::from_raw(i32::try_from(monitor)?).context("no process")?;
    rustix::process::kill_process(monitor, rustix::process::Signal::TERM)?;
    done(cx, &["wait", "unstopped"])?;
    done(cx, &["ps", "-q"])?.prints("")?;
    let unit = done(cx, &["generate", "systemd", "--restart"])?.out();
    let service = Service::new(cx, unit, "")?;
    service.command("ExecStart")?.output()?.exits(0)?;
    let running = done(cx, &["ps", "--format", "{{.Names}}"])?.out();
    let mut names: Vec<_> = running.lines().collect();
    names.sort_unstable();
    ensure!(names == ["ever", "unstopped"], "these run: {names:?}");
    service.command("ExecStop")?.output()?.exits(0)?;
    done(cx, &["ps", "--format", "{{.Names}}"])?.prints("unstopped\n")?;
    cx.tote(&["start", "--all", "ever"])
        .output()?
        .refuses(125, &["--all"])?;
    cx.tote(&["start"])
        .output()?
        .refuses(1, &["requires at least 1 argument"])?;
    let file = cx.file("id", &done(cx, &["ps", "-q", "--no-trunc"])?.out())?;
    done(cx, &["stop", "-t", "0", "--cidfile", &file])?;
    done(cx, &["stop", "--ignore", "nobody"])?.prints("")?;
    done(
        cx,
        &["rm", "--cidfile", &file, "never", "failed", "ever", "stopped"],
    )?;
    Ok(())
}

fn pods(cx: &Context) -> Result<()> {
    let image = cx.image();
    let member = [
        "create",
        "--pod",
        "p",
        "--name",
        "c",
        "--stop-timeout",
        "0",
        &image,
        "sleep",
        "1000",
    ];
    done(cx, &["pod", "create", "--hostname", "h", "p"])?;
    done(cx, &member)?;
    for options in [&["--name"][..], &["--name", "--new"]] {
        let words = [&["generate", "systemd", "--format", "json"], options, &["p"]].concat();
        let object: serde_json::Value = serde_json::from_str(&done(cx, &words)?.out())?;
        let unit = |name: &str| {
            object[name]
                .as_str()
                .map(str::to_owned)
                .context(format!("no {name}: {object}"))
        };
        let (pod, container) = (unit("pod-p")?, unit("container-c")?);
        for line in ["BindsTo=pod-p.service\n", "After=pod-p.service\n"] {
            ensure!(container.contains(line), "no {line}: {container}");
        }
        for line in ["Wants=container-c.service\n", "Before=container-c.service\n"] {
            ensure!(pod.contains(line), "no {line}: {pod}");
        }
        let pod = Service::new(cx, pod, "")?;
        if options.contains(&"--new") {
            pod.command("ExecStartPre")?.output()?.exits(0)?;
        }
        pod.command("ExecStart")?.output()?.exits(0)?;
        pod.becomes_ready()?;
        let container = Service::new(cx, container, "")?;
        let running = container.command("ExecStart")?.spawn()?;
        container.becomes_ready()?;
        done(cx, &["exec", "c", "hostname"])?.prints("h\n")?;
        container.command("ExecStop")?.output()?.exits(0)?;
        running.finish()?;
        pod.command("ExecStop")?.output()?.exits(0)?;
        done(cx, &["ps", "-q"])?.prints("")?;
        if options.contains(&"--new") {
            container.command("ExecStopPost")?.output()?.exits(0)?;
            pod.command("ExecStopPost")?.output()?.exits(0)?;
        }
    }
    done(cx, &["pod", "ps", "-q"])?.prints("")?;
    Ok(())
}

fn scripts(cx: &Context) -> Result<()> {
    let image = cx.image();
    let words = [
        "create", "--name", "c", "-e", "A=it's", &image, "sh", "-c", SCRIPT, "sh", "", "$x",
    ];
    done(cx, &words)?;
    for options in [&["--new"][..], &[]] {
        let runit = done(cx, &[&["generate", "runit"], options, &["c"]].concat())?.out();
        let openrc = done(cx, &[&["generate", "openrc"], options, &["c"]].concat())?.out();
        // The script of supervise-daemon does this.
        let openrc = openrc.replace("\n\tafter net\n", "\n\t:\n");
        let openrc = format!("{openrc}\neval exec \"$command\" $command_args\n");
        for (name, script) in [("runit", runit), ("openrc", openrc)] {
            let path = cx.file(name, &script)?;
            let mut running = Invocation::new(["sh", &path]).env("HOME", cx.scratch()).spawn()?;
            let said = running.expect("\n")?;
            ensure!(said == "it's||$x\n", "it was given {said:?}");
            running.signal(rustix::process::Signal::TERM)?;
            running.finish()?.exits(3)?;
            if options.contains(&"--new") {
                done(cx, &words)?;
            }
        }
    }
    done(cx, &["rm", "c"])?;
    Ok(())
}

fn cgroups(cx: &Context) -> Result<()> {
    for mode in ["enabled", "no-conmon", "split", "disabled"] {
        let option = format!("--cgroups={mode}");
        cx.run(&[&option, &cx.image(), "echo", mode])?
            .prints(&format!("{mode}\n"))?;
    }
    cx.run(&["--cgroups=disabled", "--memory", "64m", &cx.image(), "true"])?
        .refuses(125, &["--cgroups=disabled"])?;
    cx.run(&["--cgroups=some", &cx.image(), "true"])?
        .refuses(125, &["split"])?;
    Ok(())
}

fn parent(cx: &Context) -> Result<()> {
    let parent = format!("/tote-e2e-{}", std::process::id());
    for (given, seen) in [
        (parent.clone(), format!("{parent}/tote-")),
        ("a-b.slice".to_owned(), "/a.slice/a-b.slice/tote-".to_owned()),
    ] {
        let words = [
            "--cgroupns=host",
            "--cgroup-parent",
            &given,
            &cx.image(),
            "grep",
            "pids",
            "/proc/self/cgroup",
        ];
        let out = cx.run(&words)?;
        out.exits(0)?.has_out(&format!(":pids:{seen}"))?;
    }
    Ok(())
}
