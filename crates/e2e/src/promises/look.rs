//! Commands that show the state: `ps`, `inspect`, `events`, `ls`, `port`, `init`, in docker's words and columns.

use super::drivers::remove_kept;
use crate::context::Context;
use crate::exchange::Running;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::Path;

pub(super) const TESTS: &[Test] = &[
    test("look::ps_has_dockers_columns_and_words", &[], columns),
    test("look::ps_filters_as_docker_does", &[], filters),
    test("look::ps_has_further_columns", &[], further),
    test("look::ps_counts_what_was_written", &[], sizes),
    test("look::ps_reads_few_files", &[], many),
    test("look::events_are_told_as_they_happen", &[], stream),
    test("look::events_of_the_past", &[], past),
    test("look::ls_and_init_are_the_papers", &[], papers),
    test("look::no_port_is_published", &[], ports),
    test("look::commands_have_a_group", &[], group),
];

pub(super) fn create(cx: &Context, words: &[&str]) -> Result<String> {
    let out = cx.tote(&[&["create"], words].concat()).output()?;
    out.exits(0)?;
    Ok(out.out().trim_end().to_owned())
}

/// Starts a container that runs until its input ends.
pub(super) fn running(cx: &Context, name: &str) -> Result<Running> {
    let words = ["-i", "--name", name, &cx.image(), "sh", "-c", "echo ready; cat"];
    let mut running = cx.run_command(&words).spawn()?;
    running.expect("ready")?;
    Ok(running)
}

fn columns(cx: &Context) -> Result<()> {
    let id = create(
        cx,
        &["--name", "made", &cx.image(), "sh", "-c", "echo a long command"],
    )?;
    let mut up = running(cx, "up")?;
    let listed = cx.tote(&["ps"]).output()?;
    let listed = listed.exits(0)?.out();
    let lines: Vec<&str> = listed.lines().collect();
    let heads: Vec<&str> = lines[0]
        .split("   ")
        .map(str::trim)
        .filter(|head| !head.is_empty())
        .collect();
    ensure!(
        heads
            == [
                "CONTAINER ID",
                "IMAGE",
                "COMMAND",
                "CREATED",
                "STATUS",
                "PORTS",
                "NAMES"
            ],
        "{listed}"
    );
    ensure!(
        lines.len() == 2 && lines[1].ends_with("up"),
        "only what runs: {listed}"
    );
    ensure!(
        lines[1].contains("   Up ") && lines[1].contains(&cx.image()),
        "{listed}"
    );
    let all = cx.tote(&["ps", "-a"]).output()?.out();
    ensure!(all.lines().count() == 3, "{all}");
    ensure!(
        all.lines().nth(1).is_some_and(|line| line.ends_with("up")),
        "the newest first: {all}"
    );
    let made = all.lines().nth(2).context("two rows")?;
    for part in [&id[..12], "\"sh -c 'echo a long …\"", " ago   Created"] {
        ensure!(made.contains(part), "{part} in {made}");
    }
    cx.tote(&["ps", "-aq", "--no-trunc", "-f", "name=made"])
        .output()?
        .prints(&format!("{id}\n"))?;
    cx.tote(&["ps", "-lq", "--no-trunc"]).output()?.exits(0)?;
    ensure!(
        cx.tote(&["ps", "-n", "1", "--format", "{{.Names}}"])
            .output()?
            .out()
            == "up\n"
    );
    ensure!(
        cx.tote(&["ps", "-n", "-1", "--format", "{{.Names}}"])
            .output()?
            .out()
            == "up\n"
    );
    let whole = cx
        .tote(&["ps", "-a", "--no-trunc", "-f", "name=made"])
        .output()?
        .out();
    ensure!(whole.contains("\"sh -c 'echo a long command'\""), "{whole}");
    up.close_input();
    up.finish()?.exits(0)?;
    remove_kept(cx)
}

fn filters(cx: &Context) -> Result<()> {
    let image = cx.image();
    create(
        cx,
        &[
            "--name",
            "web-1",
            "-l",
            "tier=front",
            "-v",
            "data:/data",
            &image,
            "true",
        ],
    )?;
    create(
        cx,
        &[
            "--name",
            "web-2",
            "-l",
            "tier=front",
            "-l",
            "new",
            "--network",
            "host",
            &image,
            "true",
        ],
    )?;
    create(cx, &["--name", "db", &image, "true"])?;
    for (filters, names) in [
        (&["name=web"][..], "web-2\nweb-1\n"),
        (&["name=^/db$"], "db\n"),
        (&["name=web-[13]$", "name=db"], "db\nweb-1\n"),
        (&["label=tier=front", "label=new"], "web-2\n"),
        (&["status=created"], "db\nweb-2\nweb-1\n"),
        (&["status=running"], ""),
        (&["before=web-2"], "web-1\n"),
        (&["since=web-2"], "db\n"),
        (&["volume=data"], "web-1\n"),
        (&["volume=/data"], "web-1\n"),
        (&["network=host"], "web-2\n"),
        (&["health=none", "name=db"], "db\n"),
        (&[&format!("ancestor={image}")], "db\nweb-2\nweb-1\n"),
        (&["ancestor=other"], ""),
    ] {
        let mut words = vec!["ps", "-a", "--format", "{{.Names}}"];
        words.extend(filters.iter().flat_map(|filter| ["--filter", *filter]));
        cx.tote(&words)
            .output()?
            .prints(names)
            .with_context(|| format!("{filters:?}"))?;
    }
    cx.tote(&["ps", "-f", "colour=red"])
        .output()?
        .refuses(1, &["invalid filter", "colour=red"])?;
    cx.tote(&["ps", "-f", "before=none"])
        .output()?
        .refuses(1, &["No such container: none"])?;
    cx.tote(&["ps", "-n", "few"])
        .output()?
        .refuses(125, &["--last", "few"])?;
    remove_kept(cx)
}

fn further(cx: &Context) -> Result<()> {
    create(cx, &["--name", "made", "-l", "a=b", &cx.image(), "true"])?;
    let mut up = running(cx, "up")?;
    let template = "table {{.Names}}\\t{{.Pid}}\\t{{.State}}\\t{{.Driver}}\\t{{.Rootfs}}\\t{{.IP}}";
    let listed = cx.tote(&["ps", "-a", "--format", template]).output()?.out();
    let rows: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    ensure!(
        rows[0] == ["NAMES", "PID", "STATE", "DRIVER", "ROOTFS", "IP"],
        "{listed}"
    );
    ensure!(
        rows[1][0] == "up" && rows[1][2..4] == ["running", "overlay"],
        "{listed}"
    );
    let pid: i32 = rows[1][1].parse()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    ensure!(
        status
            .lines()
            .any(|line| line.starts_with("NSpid:") && line.ends_with("\t1")),
        "{status}"
    );
    ensure!(rows[2][..3] == ["made", "0", "created"], "{listed}");
    let label = cx
        .tote(&["ps", "-a", "-f", "name=made", "--format", "{{.Label \"a\"}}"])
        .output()?;
    label.prints("b\n")?;
    let json = cx.tote(&["ps", "--format", "json"]).output()?.out();
    let row: Value = serde_json::from_str(&json)?;
    for field in [
        "Command",
        "CreatedAt",
        "ID",
        "Image",
        "Labels",
        "LocalVolumes",
        "Mounts",
        "Names",
        "Networks",
        "Ports",
        "RunningFor",
        "Size",
        "State",
        "Status",
    ] {
        ensure!(row[field].is_string(), "{field} in {json}");
    }
    up.close_input();
    up.finish()?.exits(0)?;
    remove_kept(cx)
}

fn sizes(cx: &Context) -> Result<()> {
    let words = [
        "run",
        "--name",
        "one",
        &cx.image(),
        "sh",
        "-c",
        "head -c 5000 /dev/zero > /written",
    ];
    cx.tote(&words).output()?.exits(0)?;
    let listed = cx.tote(&["ps", "-as"]).output()?.out();
    ensure!(
        listed.lines().next().is_some_and(|line| line.ends_with("SIZE")),
        "{listed}"
    );
    ensure!(listed.contains("5kB"), "{listed}");
    cx.tote(&["ps", "-a", "--format", "{{.Size}}"])
        .output()?
        .prints("5kB\n")?;
    let size = cx.tote(&["inspect", "-s", "-f", "{{.SizeRw}}", "one"]).output()?;
    size.prints("5000\n")?;
    remove_kept(cx)
}

/// A hundred containers, made by writing their files; `ps` does little for each of them.
fn many(cx: &Context) -> Result<()> {
    let id = create(cx, &["--name", "first", &cx.image(), "true"])?;
    let dir = cx.root().join("containers");
    let text = fs::read_to_string(dir.join(&id).join("container.json"))?;
    for number in 0..99 {
        let other = format!("{number:064x}");
        fs::create_dir(dir.join(&other))?;
        let own = text
            .replace(&id, &other)
            .replace("\"first\"", &format!("\"other-{number}\""));
        fs::write(dir.join(&other).join("container.json"), own)?;
        fs::copy(
            dir.join(&id).join("state.json"),
            dir.join(&other).join("state.json"),
        )?;
    }
    let listed = cx.tote(&["ps", "-aq"]).output()?.out();
    ensure!(listed.lines().count() == 100, "{} rows", listed.lines().count());
    if !Path::new("/usr/bin/strace").exists() {
        return remove_kept(cx);
    }
    let trace = cx.path("trace")?;
    let traced = cx
        .tote(&["ps", "-a"])
        .under(&["/usr/bin/strace", "-f", "-c", "-o", &trace])
        .output()?;
    if traced.exits(0).is_ok() {
        let counted = fs::read_to_string(&trace)?;
        let total = counted.lines().last().unwrap_or_default();
        let calls: u64 = total
            .split_whitespace()
            .rev()
            .find_map(|word| word.parse().ok())
            .unwrap_or(0);
        ensure!(
            calls < 2000,
            "{calls} system calls for 100 containers:\n{counted}"
        );
    }
    remove_kept(cx)
}

fn stream(cx: &Context) -> Result<()> {
    cx.tote(&["init"]).output()?.exits(0)?;
    let words = [
        "events",
        "--since",
        "1h",
        "-f",
        "type=volume",
        "--format",
        "{{.Type}} {{.Action}} {{.Actor.ID}}",
    ];
    let mut events = cx.tote(&words).spawn()?;
    // The first event may be reported from the past; after that the command is watching.
    let told = |events: &mut Running, name: &str| -> Result<()> {
        cx.tote(&["volume", "create", name]).output()?.exits(0)?;
        events.expect(&format!("volume create {name}\n"))?;
        Ok(())
    };
    told(&mut events, "one")?;
    told(&mut events, "two")?;
    cx.tote(&["volume", "rm", "one"]).output()?.prints("one\n")?;
    events.expect("volume destroy one\n")?;
    events.signal(rustix::process::Signal::TERM)?;
    events.wait()?;
    Ok(())
}

fn past(cx: &Context) -> Result<()> {
    let id = create(cx, &["--name", "web", "-l", "tier=front", &cx.image(), "true"])?;
    let past = |words: &[&str]| {
        cx.tote(&[&["events", "--since", "1h", "--until", "0s"], words].concat())
            .output()
    };
    let text = past(&["-f", "container=web"])?;
    text.exits(0)?
        .has_out(&format!("Z container create {id} ("))?
        .has_out("name=web")?
        .has_out("tier=front")?;
    let line = past(&["-f", "event=create", "-f", "type=container", "--format", "json"])?.out();
    let event: Value = serde_json::from_str(&line)?;
    ensure!(
        event["Type"] == "container" && event["status"] == "create",
        "{line}"
    );
    ensure!(
        event["Actor"]["Attributes"]["name"] == "web" && event["timeNano"].is_u64(),
        "{line}"
    );
    past(&["-f", "label=tier=back"])?.prints("")?;
    let template = [
        "--format",
        "{{.Type}} {{.Action}} {{.Actor.ID}} {{.From}} {{json .Actor.Attributes.tier}}",
    ];
    for filters in [
        &["label=tier", "label=tier=front"][..],
        &["type=container", "type=volume"],
        &["event=create", "event=die", "scope=local"],
        &["container=web", "image=none", "image=rootfs"],
    ] {
        let mut words: Vec<&str> = filters.iter().flat_map(|filter| ["-f", *filter]).collect();
        words.extend(template);
        past(&words)?.prints(&format!("container create {id} {} \"front\"\n", cx.image()))?;
    }
    for filters in [
        &["label=tier", "label=none"][..],
        &["network=web"],
        &["volume=web"],
        &["scope=swarm"],
    ] {
        let words: Vec<&str> = filters.iter().flat_map(|filter| ["-f", *filter]).collect();
        past(&words)?.prints("")?;
    }
    let whole = past(&["--format", "{{json .}}"])?.out();
    ensure!(
        whole == past(&["--format", "json"])?.out() && whole.contains("\"Actor\""),
        "{whole}"
    );
    past(&[
        "-f",
        "container=web",
        "--format",
        "{{.Action}} {{.Actor.Attributes.name}}",
    ])?
    .prints("create web\n")?;
    cx.tote(&["events", "--since", "then"])
        .output()?
        .refuses(1, &["--since then"])?;
    cx.tote(&["system", "events", "-f", "x"])
        .output()?
        .refuses(1, &["invalid filter"])?;
    remove_kept(cx)
}

fn papers(cx: &Context) -> Result<()> {
    let said = cx.tote(&["init"]).output()?.exits(0)?.out();
    ensure!(
        said.contains(" is ready at ") && said.contains("containers: 0"),
        "{said}"
    );
    cx.tote(&["init"]).output()?.prints(&said)?;
    create(cx, &["--name", "made", &cx.image(), "true"])?;
    let mut up = running(cx, "up")?;
    let listed = cx.tote(&["ls"]).output()?.out();
    let rows: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    ensure!(rows[0] == ["NAME", "DEVICE", "MOUNTPOINT", "STATUS"], "{listed}");
    ensure!(rows[1][0] == "up" && rows[1][3] == "running", "{listed}");
    ensure!(rows[2] == ["made", "overlay", "-", "created"], "{listed}");
    ensure!(
        Path::new(rows[1][2]).join("proc").exists(),
        "the mount point shows the container: {listed}"
    );
    up.close_input();
    up.finish()?.exits(0)?;
    let said = cx.tote(&["init"]).output()?.out();
    ensure!(said.contains("containers: 1, of which 0 run"), "{said}");
    remove_kept(cx)
}

fn ports(cx: &Context) -> Result<()> {
    create(cx, &["--name", "web", &cx.image(), "true"])?;
    cx.tote(&["port", "web"]).output()?.prints("")?;
    let words = ["No public port '80/tcp' published for web"];
    cx.tote(&["port", "web", "80"]).output()?.refuses(1, &words)?;
    cx.tote(&["port", "web", "http"])
        .output()?
        .refuses(1, &["invalid port"])?;
    cx.tote(&["port", "none"])
        .output()?
        .refuses(1, &["No such container: none"])?;
    remove_kept(cx)
}

fn group(cx: &Context) -> Result<()> {
    let made = cx
        .tote(&["container", "create", "--name", "web", &cx.image(), "true"])
        .output()?;
    made.exits(0)?;
    for words in [["container", "ls"], ["container", "list"], ["container", "ps"]] {
        let listed = cx
            .tote(&[&words[..], &["-a", "--format", "{{.Names}}"]].concat())
            .output()?;
        listed.prints("web\n")?;
    }
    cx.tote(&["container", "run", "--rm", &cx.image(), "echo", "here"])
        .output()?
        .prints("here\n")?;
    cx.tote(&["container", "diff", "web"]).output()?.prints("")?;
    cx.tote(&["container"])
        .output()?
        .exits(0)?
        .has_out("Work with containers")?;
    remove_kept(cx)
}
