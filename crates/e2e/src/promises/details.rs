//! Options of docker and podman that change one small thing each.

use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("details::a_domain_name_is_set_and_resolved", &[], domain),
    test("details::labels_come_from_files", &[], labels),
    test("details::exposed_ports_are_shown", &[], exposed),
    test("details::the_resolver_gets_domains_and_options", &[], resolver),
    test("details::what_is_to_be_attached_is_noted", &[], attach),
    test(
        "details::the_program_begins_as_podman_would_have_it",
        &[],
        program,
    ),
    test("details::the_hosts_ipc_needs_no_message_queues", &[], host_ipc),
    test("details::an_image_goes_with_its_container", &[], image_too),
    test(
        "details::what_means_nothing_here_is_refused_with_a_reason",
        &[],
        refused,
    ),
];

fn domain(cx: &Context) -> Result<()> {
    let script = "cat /proc/sys/kernel/domainname; hostname; tail -n1 /etc/hosts";
    cx.shell(&["--domainname", "example.com", "-h", "box"], script)?
        .prints("example.com\nbox\n127.0.1.1\tbox.example.com box\n")?;
    cx.shell(&["--domainname", "example.com", "--uts", "host"], "true")?
        .refuses(125, &["conflicting options", "--domainname"])
        .map(drop)
}

/// Kernels without message queues have no `/dev/mqueue`, and neither have hosts that do not mount one.
fn host_ipc(cx: &Context) -> Result<()> {
    cx.shell(
        &["--ipc", "host"],
        "test -d /dev/shm && readlink /proc/self/ns/ipc",
    )?
    .prints(&format!(
        "{}\n",
        std::fs::read_link("/proc/self/ns/ipc")?.display()
    ))
    .map(drop)
}

fn labels(cx: &Context) -> Result<()> {
    let first = cx.file("first", "# no label\n\na=1\nb=two words\nbare\n")?;
    let second = cx.file("second", "b=later\n")?;
    let words = [
        "create",
        "--name",
        "web",
        "--label-file",
        &first,
        "-l",
        "a=said",
        "--label-file",
        &second,
    ];
    cx.tote(&[&words[..], &[&cx.image(), "true"]].concat())
        .output()?
        .exits(0)?;
    cx.tote(&["inspect", "-f", "{{json .Config.Labels}}", "web"])
        .output()?
        .prints("{\"a\":\"said\",\"b\":\"later\",\"bare\":\"\"}\n")?;
    cx.tote(&["ps", "-aq", "-f", "label=b=later"])
        .output()?
        .exits(0)?;
    cx.tote(&["rm", "web"]).output()?.exits(0)?;
    let wrong = cx.file("wrong", "a b=1\n")?;
    cx.shell(&["--label-file", &wrong], "true")?
        .refuses(125, &["--label-file", "contains whitespaces"])?;
    cx.shell(&["--label-file", "/none"], "true")?
        .refuses(125, &["label-file", "/none"])
        .map(drop)
}

fn exposed(cx: &Context) -> Result<()> {
    let words = [
        "run",
        "-d",
        "--name",
        "web",
        "--expose",
        "8000-8002",
        "--expose",
        "53/udp",
        "--expose",
        "8001",
    ];
    cx.tote(&[&words[..], &[&cx.image(), "sleep", "600"]].concat())
        .output()?
        .exits(0)?;
    cx.tote(&["ps", "--format", "{{.Ports}}"])
        .output()?
        .prints("53/udp, 8000-8002/tcp\n")?;
    cx.tote(&["inspect", "-f", "{{json .Config.ExposedPorts}}", "web"])
        .output()?
        .prints("{\"53/udp\":{},\"8000/tcp\":{},\"8001/tcp\":{},\"8002/tcp\":{}}\n")?;
    cx.tote(&["rm", "-f", "web"]).output()?.exits(0)?;
    cx.shell(&["--expose", "80:80"], "true")?
        .refuses(125, &["invalid port format for --expose: 80:80"])
        .map(drop)
}

fn resolver(cx: &Context) -> Result<()> {
    let all = [
        "--dns",
        "10.0.0.1",
        "--dns-search",
        "a.example",
        "--dns-search",
        "b.example",
        "--dns-opt",
        "ndots:2",
    ];
    cx.shell(&all, "cat /etc/resolv.conf")?
        .prints("nameserver 10.0.0.1\nsearch a.example b.example\noptions ndots:2\n")?;
    cx.shell(
        &["--dns", "10.0.0.1", "--dns-search", "."],
        "cat /etc/resolv.conf",
    )?
    .prints("nameserver 10.0.0.1\n")?;
    cx.shell(&["--dns-search", "10.0.0.1"], "true")?
        .refuses(125, &["10.0.0.1 is not a valid domain"])
        .map(drop)
}

fn attach(cx: &Context) -> Result<()> {
    let told =
        "{{.Config.AttachStdin}} {{.Config.AttachStdout}} {{.Config.AttachStderr}} {{.Config.StdinOnce}}";
    for (options, expected) in [
        (
            &["--name", "some", "-a", "STDOUT", "-i"][..],
            "false true false false\n",
        ),
        (&["--name", "usual", "-i"], "true true true true\n"),
    ] {
        let image = cx.image();
        let command = [image.as_str(), "sh", "-c", "echo out; echo err >&2"];
        let words = [&["create"], options, &command].concat();
        cx.tote(&words).output()?.exits(0)?;
        cx.tote(&["inspect", "-f", told, options[1]])
            .output()?
            .prints(expected)?;
    }
    // The option is only recorded: as with docker, the options of `start` decide.
    cx.tote(&["start", "-a", "some"])
        .output()?
        .exits(0)?
        .has_out("out\n")?
        .has_err("err\n")?;
    cx.tote(&["rm", "some", "usual"]).output()?.exits(0)?;
    cx.tote(&["create", "-a", "all", &cx.image(), "true"])
        .output()?
        .refuses(125, &["valid streams are STDIN, STDOUT and STDERR"])?;
    cx.tote(&["run", "-d", "-a", "stdout", &cx.image(), "true"])
        .output()?
        .refuses(1, &["cannot specify both --attach and --detach"])
        .map(drop)
}

fn program(cx: &Context) -> Result<()> {
    cx.shell(
        &["--umask", "0027"],
        "umask; touch /tmp/file; stat -c %a /tmp/file",
    )?
    .prints("0027\n640\n")?;
    cx.shell(&[], "umask")?.prints("0022\n")?;
    cx.run(&[
        "--unsetenv",
        "HOSTNAME",
        "--unsetenv",
        "PATH",
        "-e",
        "A=1",
        &cx.image(),
        "/bin/env",
    ])?
    .prints("A=1\nHOME=/root\n")?;
    cx.run(&["--unsetenv-all", "-e", "A=1", &cx.image(), "/bin/env"])?
        .prints("A=1\n")?;
    let words = [
        "create",
        "--name",
        "later",
        "--env-host",
        "-e",
        "HOME=/x",
        "--unsetenv",
        "PATH",
    ];
    cx.tote(&[&words[..], &[&cx.image(), "/bin/sh", "-c", "echo $MARK $HOME"]].concat())
        .env("MARK", "here")
        .output()?
        .exits(0)?;
    cx.tote(&["start", "-a", "later"]).output()?.prints("here /x\n")?;
    cx.tote(&["rm", "later"]).output()?.exits(0)?;
    cx.shell(
        &["--tz", "local"],
        "test -s /etc/localtime && head -c 4 /etc/localtime",
    )?
    .prints("TZif")?;
    cx.shell(&["--tz", "Nowhere/Atlantis"], "true")?
        .refuses(125, &["--tz", "Nowhere/Atlantis"])?;
    cx.shell(&["--no-hosts"], "cat /etc/hosts 2>/dev/null || echo none")?
        .prints("none\n")?;
    cx.shell(&["--no-hosts", "--add-host", "a:1.2.3.4"], "true")?
        .refuses(125, &["--no-hosts and --add-host cannot be set together"])
        .map(drop)
}

fn image_too(cx: &Context) -> Result<()> {
    let archive = cx.path("image.tar")?;
    let rootfs = cx.shared_rootfs();
    let made = std::process::Command::new("tar")
        .args(["--owner=0", "--group=0", "-cf", &archive, "-C"])
        .arg(&rootfs)
        .arg("bin")
        .status()?;
    ensure!(made.success(), "tar");
    cx.tote(&["import", &archive, "one"]).output()?.exits(0)?;
    cx.tote(&["create", "--name", "user", "one", "true"])
        .output()?
        .exits(0)?;
    let run = ["run", "--rmi", "one", "sh", "-c", "echo here; exit 3"];
    // Another container uses the image, so the image stays.
    cx.tote(&run).output()?.exits(3)?.has_out("here\n")?;
    cx.tote(&["rm", "user"]).output()?.exits(0)?;
    cx.tote(&["images", "--format", "{{.Repository}}"])
        .output()?
        .prints("one\n")?;
    cx.tote(&run).output()?.exits(3)?.has_out("here\n")?;
    cx.tote(&["images", "-q"]).output()?.prints("")?;
    cx.shell(&["--rmi"], "echo here")?.prints("here\n")?;
    cx.tote(&["run", "-d", "--rmi", &cx.image(), "true"])
        .output()?
        .refuses(125, &["conflicting options", "--rmi"])?;
    cx.nothing_left()
}

fn refused(cx: &Context) -> Result<()> {
    for (options, naming) in [
        (["--gpus", "all"], "--device"),
        (["--runtime", "runsc"], "unknown or invalid runtime name: runsc"),
        (["--isolation", "hyperv"], "invalid isolation: hyperv"),
        (["--volume-driver", "nfs"], "plugin not found"),
        (
            ["--storage-opt", "dm.basesize=1g"],
            "unknown storage option dm.basesize",
        ),
    ] {
        cx.shell(&options, "true")?.refuses(125, &[options[0], naming])?;
    }
    let taken = [
        "--runtime",
        "runc",
        "--isolation",
        "default",
        "--volume-driver",
        "local",
        "--disable-content-trust=false",
    ];
    cx.shell(&taken, "echo here")?.prints("here\n")?;
    cx.nothing_left()
}
