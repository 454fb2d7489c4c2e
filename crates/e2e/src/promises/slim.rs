//! `tote slim`: a smaller image has the files that runs use, does the same, and has no name otherwise.

use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

pub(super) const TESTS: &[Test] = &[
    test("slim::what_a_run_uses_stays_as_it_was", TAR, stays),
    test("slim::a_slim_image_cannot_be_made_smaller", TAR, twice),
    test("slim::an_image_that_fails_its_probes_gets_no_name", TAR, unlike),
    test("slim::a_service_is_asked_in_its_network", TAR, service),
    test("slim::users_include_and_exclude", TAR, chosen),
    test("slim::a_run_cannot_bring_files_of_the_machine", TAR, hostile),
    test(
        "slim::users_trace_by_a_listener",
        &[Need::Unprivileged, Need::Program("tar")],
        users,
    ),
    test("slim::the_rest_is_kept_and_shares_every_file", TAR, rest),
    test("slim::a_miss_falls_through_and_is_learned", TAR, misses),
    test("slim::rights_that_were_used_are_enough", TAR, rights),
];

const TAR: &[Need] = &[Need::Program("tar")];

/// Bytes of the files that no run uses.
const LARGE: usize = 300_000;

/// Imports an image `app:1` whose script `start` reads a file in a language of its own.
fn image(cx: &Context) -> Result<()> {
    let (dir, _) = cx.own_rootfs("image")?;
    let app = dir.join("opt/app");
    fs::create_dir_all(app.join("unused"))?;
    fs::create_dir_all(dir.join("srv"))?;
    fs::write(app.join("used"), "said\n")?;
    fs::write(app.join("seen"), "only its presence counts\n")?;
    fs::write(app.join("unused/large"), vec![b'x'; LARGE])?;
    fs::write(dir.join("srv/index.html"), "hello\n")?;
    fs::write(dir.join("srv/never"), "no run asks for this\n")?;
    symlink("srv", dir.join("way"))?;
    fs::write(app.join("start"), "#!/opt/sh -e\ncat /opt/app/link\n")?;
    for (name, mode) in [("used", 0o640), ("start", 0o755)] {
        fs::set_permissions(app.join(name), Permissions::from_mode(mode))?;
    }
    // Only root may give a file away; a user's image has the user's files.
    if rustix::process::getuid().is_root() {
        chown(app.join("used"), Some(1234), Some(2000))?;
        fs::set_permissions(app.join("used"), Permissions::from_mode(0o4640))?;
    }
    fs::hard_link(app.join("used"), app.join("again"))?;
    symlink("used", app.join("link"))?;
    symlink("../bin/sh", dir.join("opt/sh"))?;
    let (archive, from) = (cx.path("image.tar")?, cx.path("image")?);
    Invocation::new(["tar", "--numeric-owner", "-C", &from, "-cf", &archive, "."])
        .output()?
        .exits(0)?;
    let change = "--change=CMD [\"/opt/app/start\"]";
    cx.tote(&["import", change, &archive, "app:1"])
        .output()?
        .exits(0)?;
    Ok(())
}

fn slim(cx: &Context, words: &[&str]) -> Result<crate::output::Output> {
    let words: Vec<&str> = ["slim", "--network", "none"]
        .iter()
        .chain(words)
        .copied()
        .collect();
    cx.tote(&words).output()
}

fn names(cx: &Context) -> Result<String> {
    let listed = cx
        .tote(&["images", "-a", "--format", "{{.Repository}}:{{.Tag}}"])
        .output()?;
    Ok(listed.exits(0)?.out())
}

fn stays(cx: &Context) -> Result<()> {
    image(cx)?;
    let page = cx.path("page.html")?;
    let explained = [
        "/opt/app/used",
        "/opt/app/unused/large",
        "/bin/busybox",
        "/opt/sh",
        "/nowhere",
    ];
    let explained = explained.iter().flat_map(|path| ["--explain", path]);
    let words: Vec<&str> = ["--html", &page, "app:1"].into_iter().chain(explained).collect();
    let told = slim(cx, &words)?;
    told.exits(0)?
        .has_out("app.slim:1 is ")?
        .has_out("/opt/app/used stays: traced by PID ")?
        .has_out("/opt/app/unused/large is removed")?
        .has_out("/opt/sh stays: link to /bin/busybox")?
        .has_out("/bin/busybox stays: traced by PID 1 ")?
        .has_out("/nowhere is not in the image")?
        .has_out("300kB  /opt/app/unused\n")?;
    let page = fs::read_to_string(page)?;
    ensure!(
        page.contains("<svg") && page.contains("/opt/app/unused/large"),
        "{page}"
    );
    cx.run(&["app.slim:1"])?.prints("said\n")?;
    let owner = "stat -c '%a %u %g' /opt/app/used";
    let before = cx.run(&["app:1", "sh", "-c", owner])?.exits(0)?.out();
    if rustix::process::getuid().is_root() {
        ensure!(before == "4640 1234 2000\n", "{before}");
    }
    let look = "stat -c %h /opt/app/used; readlink /opt/app/link; test -d /opt/app/unused && echo directory";
    let look = format!("{owner}; {look}");
    cx.run(&["app.slim:1", "sh", "-c", &look])?
        .prints(&format!("{before}1\nused\ndirectory\n"))?;
    cx.run(&["app.slim:1", "cat", "/opt/app/unused/large"])?.fails()?;
    cx.tote(&["slim", "diff", "app:1", "app.slim:1"])
        .output()?
        .exits(0)?
        .has_out("D /opt/app/unused/large\n")?
        .has_out("D /opt/app/seen\n")?;
    // Every file is in the store already.
    let written = slim(
        cx,
        &[
            "-t",
            "other",
            "--format",
            "{{.BytesWritten}} {{.SizeAfter}}",
            "app:1",
        ],
    )?;
    ensure!(written.exits(0)?.out().starts_with("0 "), "{}", written.out());
    let history = cx.tote(&["image", "history", "--no-trunc", "other"]).output()?;
    history.exits(0)?.has_out("tote slim app:1")?;
    cx.nothing_left()
}

fn twice(cx: &Context) -> Result<()> {
    image(cx)?;
    let first = slim(cx, &["-q", "app:1"])?;
    let again = slim(cx, &["-t", "again:1", "app.slim:1"])?;
    again.exits(0)?.has_out("app.slim:1 has nothing to remove")?;
    let id = cx.tote(&["inspect", "--format", "{{.Id}}", "again:1"]).output()?;
    ensure!(
        id.exits(0)?.out() == first.exits(0)?.out(),
        "{} {}",
        id.out(),
        first.out()
    );
    Ok(())
}

fn unlike(cx: &Context) -> Result<()> {
    image(cx)?;
    // The file is looked for and never opened, which no report of the kernel tells.
    let seen = "test -e /opt/app/seen || exit 7; cat /opt/app/used";
    slim(cx, &["app:1", "--", "sh", "-c", seen])?
        .refuses(1, &["got no name", "exit code 7", "--include-path"])?;
    let probed = slim(
        cx,
        &[
            "--exec",
            "test -e /opt/app/seen",
            "--probe-timeout",
            "2s",
            "app:1",
            "--",
            "sleep",
            "60",
        ],
    )?;
    probed.refuses(
        1,
        &["got no name", "--exec test -e /opt/app/seen fails", "exit code 1"],
    )?;
    slim(cx, &["app:1", "--", "sh", "-c", "exit 3"])?.refuses(1, &["in the image itself", "exit code 3"])?;
    slim(cx, &["app:1", "--", "no-such-program"])?.refuses(127, &["no-such-program"])?;
    slim(cx, &["--http-probe", "https://localhost/", "app:1"])?.refuses(1, &["https://localhost/"])?;
    slim(cx, &["host"])?.refuses(1, &["not an image of the store"])?;
    ensure!(names(cx)? == "app:1\n", "left: {}", names(cx)?);
    // With the file it passes.
    slim(
        cx,
        &["--include-path", "/opt/app/seen", "app:1", "--", "sh", "-c", seen],
    )?
    .exits(0)?;
    ensure!(names(cx)?.contains("app.slim:1"), "{}", names(cx)?);
    cx.nothing_left()
}

fn service(cx: &Context) -> Result<()> {
    image(cx)?;
    // Without the trap the server, as process 1, would not hear that it is to end.
    let serve = [
        "sh",
        "-c",
        "trap 'exit 0' TERM; busybox httpd -f -p 8080 -h /srv & wait",
    ];
    let probes = [
        "--http-probe",
        "http://web:8080/index.html",
        "--http-probe",
        "404=8080/no",
        "--probe",
        "test ${#TOTE_CONTAINER} = 64",
        "--also",
        "cat /opt/app/used",
        "app:1",
        "--",
    ];
    let words: Vec<&str> = probes.into_iter().chain(serve).collect();
    slim(cx, &words)?.exits(0)?;
    cx.run(&["app.slim:1", "cat", "/srv/index.html"])?
        .prints("hello\n")?;
    cx.run(&["app.slim:1", "cat", "/opt/app/used"])?
        .prints("said\n")?;
    // Nothing listens there.
    let words: Vec<&str> = ["--http-probe", "8081/", "--probe-timeout", "1s", "app:1", "--"]
        .into_iter()
        .chain(serve)
        .collect();
    slim(cx, &words)?.refuses(1, &["--http-probe http://localhost:8081/ fails", "no answer"])?;
    cx.nothing_left()
}

fn chosen(cx: &Context) -> Result<()> {
    image(cx)?;
    let list = cx.file("list", "# a list\n\n/opt/app/seen\n")?;
    let words = [
        "--include-from",
        &list,
        "--include-path",
        "/opt/app/unused",
        "--exclude-pattern",
        "/etc/**",
        "app:1",
    ];
    slim(cx, &words)?.exits(0)?;
    let look = "cat /opt/app/seen; wc -c < /opt/app/unused/large; test -e /etc/passwd || echo gone";
    cx.run(&["app.slim:1", "sh", "-c", look])?
        .prints("only its presence counts\n300000\ngone\n")?;
    slim(cx, &["--exclude-pattern", "*a*b*c*d*e*f*g*h", "app:1"])?.refuses(1, &["*a*b*c", "wildcards"])?;
    Ok(())
}

fn hostile(cx: &Context) -> Result<()> {
    image(cx)?;
    // Paths that exist here and not in the image, a FIFO that would hold a reader up, and mounts of its own.
    let script = "mkdir -p /usr/lib /root/x && echo mine > /usr/lib/os-release && ln -s / /root/x/up && \
        cat /root/x/up/usr/lib/os-release > /dev/null && mkfifo /tmp/f && (cat /tmp/f > /dev/null & echo x > /tmp/f) && \
        mount -t tmpfs none /mnt && echo y > /mnt/shadow && cat /mnt/shadow > /dev/null && mount -o bind /etc /srv && \
        cat /srv/passwd > /dev/null && cat /opt/app/used";
    let script = script.replace("mkfifo /tmp/f", "mknod /tmp/f p");
    let words = [
        "--cap-add",
        "SYS_ADMIN",
        "--security-opt",
        "seccomp=unconfined",
        "app:1",
        "--",
        "sh",
        "-c",
        &script,
    ];
    slim(cx, &words)?.exits(0)?;
    let diff = cx.tote(&["slim", "diff", "app:1", "app.slim:1"]).output()?;
    for line in diff.exits(0)?.out().lines() {
        ensure!(
            line.starts_with("D "),
            "{line}: the smaller image has what the image lacks"
        );
    }
    cx.run(&[
        "app.slim:1",
        "sh",
        "-c",
        "test -e /usr/lib/os-release || echo none",
    ])?
    .prints("none\n")?;
    cx.nothing_left()
}

fn users(cx: &Context) -> Result<()> {
    image(cx)?;
    let words = [
        "--exec",
        "cat /opt/app/seen",
        "--format",
        "{{json .Runs}}",
        "app:1",
        "--",
        "sh",
        "-c",
    ];
    let words: Vec<&str> = words.into_iter().chain(["cat /opt/app/used; sleep 60"]).collect();
    let told = slim(cx, &words)?;
    told.exits(0)?.has_out("\"TracedBy\":\"seccomp\"")?;
    // A probe is another process than the container's: it is listened to as well.
    let look = "cat /opt/app/seen; test -e /opt/app/unused/large || echo gone";
    cx.run(&["app.slim:1", "sh", "-c", look])?
        .prints("only its presence counts\ngone\n")?;
    let again = slim(
        cx,
        &[
            "-t",
            "b:1",
            "--explain",
            "/bin/busybox",
            "--explain",
            "/opt/app/used",
            "app:1",
        ],
    )?;
    again
        .exits(0)?
        .has_out("/bin/busybox stays: traced by PID 1 ")?
        .has_out("/opt/app/used stays: traced by PID ")?;
    // A program in the user's own directory, which containers must not be able to change.
    let own = cx.path("tote")?;
    fs::copy(cx.binary(), &own)?;
    let words = ["slim", "--network", "none", "-t", "c:1", "app:1"];
    cx.other_tote(own.as_ref(), &words).output()?.exits(0)?;
    cx.nothing_left()
}

fn rest(cx: &Context) -> Result<()> {
    image(cx)?;
    slim(cx, &["--format", "{{.BytesWritten}} {{.Fat}}", "app:1"])?
        .exits(0)?
        .prints("0 app.slim-fat:1\n")?;
    let diff = cx.tote(&["slim", "diff", "app:1", "app.slim-fat:1"]).output()?;
    diff.prints("")?;
    let look = "stat -c '%h %a' /opt/app/used /opt/app/again; wc -c < /opt/app/unused/large";
    let whole = cx.run(&["app.slim-fat:1", "sh", "-c", look])?;
    let before = cx.run(&["app:1", "sh", "-c", look])?;
    whole.prints(&before.exits(0)?.out())?;
    // The smaller image's layer is the first one of both.
    let layers = |name: &str| {
        cx.tote(&["inspect", "--format", "{{json .RootFS.Layers}}", name])
            .output()
    };
    let (slim_layers, fat_layers) = (layers("app.slim:1")?, layers("app.slim-fat:1")?);
    let first = slim_layers.exits(0)?.out();
    let first = first.trim().trim_end_matches(']');
    ensure!(
        fat_layers.exits(0)?.out().starts_with(first),
        "{}",
        fat_layers.out()
    );
    cx.tote(&[
        "run",
        "-d",
        "--network",
        "none",
        "--name",
        "c",
        "app.slim:1",
        "sleep",
        "600",
    ])
    .output()?
    .exits(0)?;
    let tools = [
        "debug",
        "--tools",
        "app.slim-fat:1",
        "c",
        "wc",
        "-c",
        "/opt/app/unused/large",
    ];
    cx.tote(&tools).output()?.exits(0)?.has_out("300000")?;
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    slim(cx, &["--no-fat", "-t", "alone:1", "app:1"])?.exits(0)?;
    ensure!(!names(cx)?.contains("alone-fat"), "{}", names(cx)?);
    let refused = cx.run(&["--slim-fallback", "--network", "none", "alone:1"])?;
    refused
        .fails()?
        .has_err("cannot find the whole image of alone:1")?;
    cx.nothing_left()
}

fn misses(cx: &Context) -> Result<()> {
    image(cx)?;
    slim(cx, &["app:1"])?.exits(0)?;
    slim(cx, &["--from-misses", "app.slim:1"])?.refuses(1, &["none is noted", "--slim-fallback"])?;
    let fallback =
        |words: &[&str]| cx.run(&[&["--slim-fallback", "--network", "none", "app.slim:1"], words].concat());
    fallback(&["cat", "/opt/app/seen", "/etc/hostname"])?
        .exits(0)?
        .has_out("only its presence counts\n")?;
    // A container with a monitor notes as well.
    let run = [
        "run",
        "-d",
        "--network",
        "none",
        "--name",
        "c",
        "--slim-fallback",
        "app.slim:1",
    ];
    let words: Vec<&str> = run
        .into_iter()
        .chain(["sh", "-c", "cd /opt/app; wc -c < unused/large"])
        .collect();
    cx.tote(&words).output()?.exits(0)?;
    cx.tote(&["wait", "c"]).output()?.prints("0\n")?;
    cx.tote(&["logs", "c"]).output()?.prints("300000\n")?;
    // The container is one of the whole image, which stays with it.
    cx.tote(&["rmi", "app.slim-fat:1", "app:1"]).output()?.fails()?;
    cx.tote(&["rm", "c"]).output()?.exits(0)?;
    cx.run(&["--network", "none", "app.slim:1", "cat", "/opt/app/seen"])?
        .fails()?;
    slim(cx, &["--from-misses", "--explain", "/opt/app/seen", "app.slim:1"])?
        .exits(0)?
        .has_out("/opt/app/seen stays: included by --from-misses")?;
    let look = "cat /opt/app/seen /opt/app/used; wc -c < /opt/app/unused/large";
    cx.run(&["--network", "none", "app.slim:1", "sh", "-c", look])?
        .prints("only its presence counts\nsaid\n300000\n")?;
    // The smaller image had the link /way, which does not stand for everything behind it.
    cx.run(&[
        "--network",
        "none",
        "app.slim:1",
        "sh",
        "-c",
        "test -L /way && cat /way/never",
    ])?
    .fails()?;
    let listed = cx
        .tote(&["slim", "diff", "app.slim-fat:1", "app.slim:1"])
        .output()?;
    listed.exits(0)?.has_out("D /srv/never\n")?;
    cx.nothing_left()
}

fn rights(cx: &Context) -> Result<()> {
    image(cx)?;
    let profile = cx.path("seccomp.json")?;
    let serve = "trap 'exit 0' TERM; cat /opt/app/used; chown 5 /opt/app/used; busybox httpd -f -p 8080 -h /srv & wait";
    let words = [
        "--seccomp-profile",
        &profile,
        "--http-probe",
        "8080/index.html",
        "app:1",
        "--",
    ];
    let words: Vec<&str> = words.into_iter().chain(["sh", "-c", serve]).collect();
    slim(cx, &words)?
        .exits(0)?
        .has_out("--cap-drop ALL --cap-add CHOWN\n")?
        .has_out("ports: 8080/tcp\n")?;
    let option = format!("seccomp={profile}");
    let limited = [
        "--network",
        "none",
        "--security-opt",
        &option,
        "--cap-drop",
        "ALL",
    ];
    let run = |words: &[&str]| cx.run(&[&limited[..], words].concat());
    run(&["app.slim:1", "cat", "/srv/index.html"])?.prints("hello\n")?;
    // No run made a directory.
    run(&["app.slim:1", "mkdir", "/tmp/x"])?
        .fails()?
        .has_err("not permitted")?;
    cx.run(&["--network", "none", "app.slim:1", "mkdir", "/tmp/x"])?
        .exits(0)?;
    cx.nothing_left()
}
