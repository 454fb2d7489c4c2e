//! `tote graph import` of files of packages, and what a closure shows of the machine and the store: nothing.

use super::graph::{graph, root, run, text};
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

pub(super) const TESTS: &[Test] = &[
    test(
        "graph::files_of_packages_are_imported",
        &[Need::Program("tar")],
        packages,
    ),
    test(
        "graph::damaged_files_of_packages_are_refused",
        &[Need::Program("tar")],
        damaged,
    ),
    test(
        "graph::packages_without_a_package_manager_are_nodes",
        &[],
        without_manager,
    ),
    test(
        "graph::no_path_of_machine_or_store_opens_in_a_closure",
        &[],
        walked,
    ),
    test(
        "graph::a_closure_has_what_strace_sees_opened",
        &[
            Need::Program("strace"),
            Need::Program("tar"),
            Need::Program("sort"),
        ],
        traced,
    )
    .slow(2),
];

/// Writes a package with the files of a directory.
fn deb(cx: &Context, name: &str, control: &str, dir: &Path) -> Result<PathBuf> {
    let described = cx.directory(&format!("{name}-control"))?;
    fs::write(Path::new(&described).join("control"), control)?;
    let mut file = b"!<arch>\n".to_vec();
    let mut add = |member: &str, content: &[u8]| {
        let fields = format!(
            "{member:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            0,
            0,
            0,
            100_644,
            content.len()
        );
        file.extend_from_slice(fields.as_bytes());
        file.extend_from_slice(content);
        file.resize(file.len().next_multiple_of(2), b'\n');
    };
    add("debian-binary", b"2.0\n");
    for (member, from) in [("control.tar", described.as_str()), ("data.tar", text(dir)?)] {
        let archive = cx.path(member)?;
        let words = [
            "tar",
            "--owner=0",
            "--group=0",
            "--mtime=@1000000000",
            "-C",
            from,
            "-cf",
            &archive,
            ".",
        ];
        Invocation::new(words).output()?.exits(0)?;
        add(member, &fs::read(&archive)?);
    }
    let dir = cx.scratch().join("debs");
    fs::create_dir_all(&dir)?;
    let path = dir.join(format!("{name}_1.0_all.deb"));
    fs::write(&path, file)?;
    Ok(path)
}

/// Makes three packages: `app` needs `data` by its description and `box` by its script, and the files of `box` are in
/// `/bin`, where they were before distributions moved them below `/usr`.
fn made(cx: &Context) -> Result<PathBuf> {
    let (whole, _) = cx.own_rootfs("whole")?;
    let dir = |name: &str| -> Result<PathBuf> { Ok(cx.directory(name)?.into()) };
    let (app, data, own) = (dir("app")?, dir("data")?, dir("box")?);
    fs::create_dir_all(own.join("bin"))?;
    fs::copy(whole.join("bin/busybox"), own.join("bin/busybox"))?;
    symlink("busybox", own.join("bin/sh"))?;
    symlink("busybox", own.join("bin/cat"))?;
    fs::create_dir_all(own.join("usr/share/base-passwd"))?;
    fs::write(
        own.join("usr/share/base-passwd/passwd.master"),
        "root:*:0:0:root:/root:/bin/sh\n",
    )?;
    fs::create_dir_all(app.join("usr/bin"))?;
    fs::write(
        app.join("usr/bin/app"),
        "#!/bin/sh\nread -r text </usr/share/data/text; echo \"$text\"\n",
    )?;
    fs::set_permissions(app.join("usr/bin/app"), Permissions::from_mode(0o755))?;
    fs::create_dir_all(data.join("usr/share/data"))?;
    fs::write(data.join("usr/share/data/text"), "said\n")?;
    let fields = |name: &str, more: &str| {
        format!("Package: {name}\nVersion: 1.0\nArchitecture: all\n{more}Description: x\n y\n")
    };
    deb(
        cx,
        "app",
        &fields("app", "Depends: data | none, gone (>= 2)\n"),
        &app,
    )?;
    deb(cx, "data", &fields("data", ""), &data)?;
    deb(cx, "box", &fields("box", ""), &own)?;
    Ok(cx.scratch().join("debs"))
}

fn packages(cx: &Context) -> Result<()> {
    let debs = made(cx)?;
    let source = format!("deb:{}/", text(&debs)?);
    graph(cx, &["import", &source])?
        .exits(0)?
        .has_err("package app depends on gone, which is not there")?
        .has_out("4 nodes, 4 of them new")?;
    run(cx, &["app"])?.prints("said\n")?;
    graph(cx, &["why", "app", "box"])?
        .exits(0)?
        .has_out("/usr/bin/app names /bin/sh")?;
    graph(cx, &["why", "app", "data"])?
        .exits(0)?
        .has_out("depends on data")?;
    run(cx, &["box", "/bin/cat", "/etc/passwd"])?.prints("root:*:0:0:root:/root:/bin/sh\n")?;
    run(cx, &["box", "/bin/cat", "/usr/bin/app"])?.fails()?;
    // Elsewhere and later they are the same nodes, in whatever order they are given.
    let second = cx.directory("second")?;
    let files: Vec<String> = ["data", "box", "app"]
        .iter()
        .map(|name| Ok(format!("deb:{}/{name}_1.0_all.deb", text(&debs)?)))
        .collect::<Result<_>>()?;
    let elsewhere = |words: &[&str]| {
        let words: Vec<&str> = ["--root", &second, "graph"]
            .iter()
            .chain(words)
            .copied()
            .collect();
        cx.tote(&words).output()
    };
    let words: Vec<&str> = ["import", "-q"]
        .into_iter()
        .chain(files.iter().map(String::as_str))
        .collect();
    elsewhere(&words)?.exits(0)?;
    let ids = ["ls", "--format", "{{.Name}} {{.Digest}}"];
    let (one, other) = (graph(cx, &ids)?.exits(0)?.out(), elsewhere(&ids)?.exits(0)?.out());
    ensure!(one == other, "{one}\n{other}");
    // What was unpacked is gone.
    let work = cx.root().join("build/work");
    ensure!(fs::read_dir(&work)?.count() == 0, "{} has files", work.display());
    Ok(())
}

fn damaged(cx: &Context) -> Result<()> {
    let debs = made(cx)?;
    let app = debs.join("app_1.0_all.deb");
    let whole = fs::read(&app)?;
    let import = |path: &Path| graph(cx, &["import", &format!("deb:{}", text(path)?)]);
    let wrong = debs.join("wrong.deb");
    for (bytes, told) in [
        (&b"PK\x03\x04"[..], "not a package of Debian"),
        (&whole[..200], "no member data.tar"),
        (&whole[..whole.len() - 9000], "cannot unpack"),
    ] {
        fs::write(&wrong, bytes)?;
        import(&wrong)?.refuses(1, &["wrong.deb", told])?;
    }
    fs::write(&wrong, &whole)?;
    import(&debs)?.refuses(1, &["package app twice", "wrong.deb"])?;
    import(Path::new(&cx.directory("empty")?))?.refuses(1, &["no file *.deb"])?;
    import(Path::new("/nowhere/x.deb"))?.refuses(1, &["/nowhere/x.deb"])?;
    graph(cx, &["import", "deb:app", &format!("deb:{}", text(&app)?)])?.refuses(1, &["only deb:PATH"])?;
    let nodes = graph(cx, &["ls", "-q"])?.exits(0)?.out();
    ensure!(nodes.is_empty(), "a refused import left nodes: {nodes}");
    Ok(())
}

fn without_manager(cx: &Context) -> Result<()> {
    let dir = root(cx, "root")?;
    fs::remove_dir_all(dir.join("var/lib/dpkg"))?;
    let apart = dir.join("var/lib/dpkg/status.d");
    fs::create_dir_all(&apart)?;
    for (name, fields, sums) in [
        ("app", "Depends: data\n", "0  opt/app/start\n"),
        ("data", "", "0  usr/share/data/text\n0  usr/share/data/gone\n"),
    ] {
        fs::write(
            apart.join(name),
            format!("Package: {name}\nVersion: 1.0\n{fields}\n"),
        )?;
        fs::write(apart.join(format!("{name}.md5sums")), sums)?;
    }
    graph(cx, &["import", text(&dir)?])?.exits(0)?;
    graph(cx, &["why", "app", "data"])?
        .exits(0)?
        .has_out("depends on data")?;
    run(cx, &["data", "--entrypoint", "x"])?.fails()?;
    run(cx, &["app", "/opt/app/start"])?.prints("said\n")?;
    run(cx, &["app", "/bin/sh", "-c", "cat /opt/other/secret"])?.fails()?;
    Ok(())
}

/// Notes the paths below a directory of this machine, as far as this user may look.
fn paths(dir: &Path, depth: usize, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if depth > 0 && is_directory && !["/proc", "/sys", "/dev"].iter().any(|top| path == Path::new(top)) {
            paths(&path, depth - 1, found);
        }
        found.insert(path);
    }
}

fn walked(cx: &Context) -> Result<()> {
    let dir = root(cx, "root")?;
    graph(cx, &["import", text(&dir)?])?.exits(0)?;
    let mut all = BTreeSet::new();
    // The machine as far as it is near the top, the state root and everything that this test has made to the bottom.
    paths(Path::new("/"), 3, &mut all);
    paths(cx.scratch(), 64, &mut all);
    paths(&cx.root(), 64, &mut all);
    let of_store = all.iter().filter(|path| path.starts_with(cx.root())).count();
    ensure!(
        of_store > 20 && all.len() > 1000,
        "{of_store} of {} paths are the store's",
        all.len()
    );
    // By the container's own first process as well, whose root is that of the closure.
    let mut list = Vec::new();
    for path in &all {
        for prefix in [&b""[..], b"/proc/1/root", b"/proc/self/cwd/../../../.."] {
            list.extend_from_slice(&[prefix, path.as_os_str().as_bytes(), b"\0"].concat());
        }
    }
    let script = "/bin/busybox xargs -0 -n 400 /bin/busybox ls -d 2>/dev/null; exit 0";
    let words = [
        "graph",
        "run",
        "--rm",
        "-i",
        "--network",
        "none",
        "app",
        "/bin/sh",
        "-c",
        script,
    ];
    let seen = cx.tote(&words).input(&list).output()?.exits(0)?.out();
    let own = run(cx, &["app", "/bin/sh", "-c", super::graph::WALK])?
        .exits(0)?
        .out();
    let own: BTreeSet<&str> = own.lines().collect();
    ensure!(
        seen.lines().any(|path| path == "/etc/passwd"),
        "nothing was looked at: {seen}"
    );
    for path in seen.lines() {
        let path = path
            .trim_start_matches("/proc/1/root")
            .trim_start_matches("/proc/self/cwd/../../../..");
        let of_kernel = ["/proc", "/sys", "/dev"].iter().any(|top| path.starts_with(top));
        let of_container =
            ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab", ""].contains(&path);
        ensure!(
            of_kernel || of_container || own.contains(path),
            "{path} is there, and not in the closure"
        );
    }
    Ok(())
}

/// Returns the regular files below `/usr` that a traced program opened.
fn opened(cx: &Context, words: &[&str]) -> Result<BTreeSet<PathBuf>> {
    let trace = cx.path("trace")?;
    let strace = [
        "strace",
        "-f",
        "-o",
        &trace,
        "-e",
        "trace=open,openat,execve",
        "-e",
        "status=successful",
    ];
    let words: Vec<&str> = strace.iter().chain(words).copied().collect();
    Invocation::new(words).env("LC_ALL", "C").output()?.exits(0)?;
    let mut found = BTreeSet::new();
    for line in fs::read_to_string(&trace)?.lines() {
        let path = line.split('"').nth(1).unwrap_or_default();
        if path.starts_with('/')
            && let Ok(real) = fs::canonicalize(path)
            && real.starts_with("/usr")
            && real.is_file()
        {
            found.insert(real);
        }
    }
    Ok(found)
}

fn traced(cx: &Context) -> Result<()> {
    let input = cx.file("input", "b\na\n")?;
    for words in [
        &["sort", &input][..],
        &["bash", "-c", "echo $((1 + 2)) | cat"],
        &["grep", "a", &input],
        &["tar", "--version"],
        // The closure of an interpreter lacks the modules that a script names.
        &["perl", "-e", "print 6 * 7"],
    ] {
        let used = opened(cx, words)?;
        ensure!(used.len() > 1, "strace saw nothing of {words:?}");
        let program = format!("host:{}", words[0]);
        cx.tote(&[
            "graph",
            "run",
            "--network",
            "none",
            "--name",
            "c",
            &program,
            "--version",
        ])
        .output()?
        .exits(0)?;
        let archive = cx.path("closure.tar")?;
        cx.tote(&["export", "-o", &archive, "c"]).output()?.exits(0)?;
        cx.tote(&["rm", "c"]).output()?.exits(0)?;
        let list = Invocation::new(["tar", "-tf", &archive])
            .output()?
            .exits(0)?
            .out();
        let has: BTreeSet<&str> = list.lines().map(|line| line.trim_start_matches("./")).collect();
        for path in used {
            let name = text(&path)?.trim_start_matches('/').to_owned();
            // A shell that starts another program says so in no file: that program is asked for by name.
            let is_other = words[0] == "bash" && name == "usr/bin/cat";
            ensure!(
                is_other || has.contains(&*name),
                "{words:?} opened /{name}, which its closure lacks"
            );
        }
    }
    cx.nothing_left().context("containers are left")
}
