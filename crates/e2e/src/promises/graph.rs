//! `tote graph`: a closure has its files and nothing else, known by hashes that are the same everywhere.

use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub(super) const TESTS: &[Test] = &[
    test("graph::a_closure_has_its_files_and_nothing_else", &[], exactly),
    test("graph::references_say_why", &[], reasons),
    test("graph::the_same_root_gives_the_same_ids", &[], reproducible),
    test("graph::a_totefile_gives_the_same_image", &[], totefile),
    test("graph::what_nothing_keeps_goes", &[], collected),
    test("graph::a_profile_is_switched_and_rolled_back", &[], switched),
    test("graph::sizes_tell_what_is_shared", &[], sizes),
    test(
        "graph::an_image_is_split_as_a_directory_is",
        &[Need::Program("tar")],
        image,
    ),
    test("graph::mistakes_are_told", &[], mistakes),
];

/// Walks every path below /, but for what the kernel shows and what each container gets.
pub(super) const WALK: &str = r#"w() { for f in "$1"/* "$1"/.[!.]*; do
  if [ ! -e "$f" ] && [ ! -L "$f" ]; then continue; fi
  case "$f" in /proc|/sys|/dev|/etc/hosts|/etc/hostname|/etc/resolv.conf|/etc/mtab) continue;; esac
  echo "$f"
  if [ -d "$f" ] && [ ! -L "$f" ]; then w "$f"; fi
done; }; w """#;

/// Makes a root with three packages in a directory: `app`, which needs `data` by its list and `box` by its script, and
/// `other`, which nothing needs.
pub(super) fn root(cx: &Context, name: &str) -> Result<PathBuf> {
    let (dir, _) = cx.own_rootfs(name)?;
    let packages = [
        ("box", "", "/bin\n/bin/busybox\n"),
        (
            "app",
            "Depends: data (>= 1) | none\n",
            "/opt\n/opt/app\n/opt/app/start\n",
        ),
        (
            "data",
            "Provides: more\n",
            "/usr\n/usr/share/data\n/usr/share/data/text\n/usr/share/data/link\n",
        ),
        ("other", "", "/opt/other/secret\n"),
    ];
    let lists = dir.join("var/lib/dpkg/info");
    fs::create_dir_all(&lists)?;
    let mut status = String::new();
    for (package, fields, list) in packages {
        status += &format!(
            "Package: {package}\nStatus: install ok installed\nArchitecture: all\nVersion: 1.0\n{fields}\n"
        );
        fs::write(lists.join(format!("{package}.list")), list)?;
    }
    fs::write(dir.join("var/lib/dpkg/status"), status)?;
    for sub in ["opt/app", "opt/other", "usr/share/data", "opt/none"] {
        fs::create_dir_all(dir.join(sub))?;
    }
    fs::write(
        dir.join("opt/app/start"),
        "#!/bin/sh\nread -r text </usr/share/data/link; echo \"$text\"\n",
    )?;
    fs::set_permissions(dir.join("opt/app/start"), Permissions::from_mode(0o755))?;
    fs::write(dir.join("usr/share/data/text"), "said\n")?;
    symlink("text", dir.join("usr/share/data/link"))?;
    fs::write(dir.join("opt/other/secret"), "nothing needs this\n")?;
    // Files of packages have the times that the packages gave them.
    for file in [
        "bin/busybox",
        "opt/app/start",
        "usr/share/data/text",
        "opt/other/secret",
    ] {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        File::options()
            .append(true)
            .open(dir.join(file))?
            .set_modified(time)?;
    }
    Ok(dir)
}

pub(super) fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}

pub(super) fn graph(cx: &Context, words: &[&str]) -> Result<Output> {
    let words: Vec<&str> = ["graph"].iter().chain(words).copied().collect();
    cx.tote(&words).output()
}

pub(super) fn run(cx: &Context, words: &[&str]) -> Result<Output> {
    let words: Vec<&str> = ["run", "--rm", "--network", "none"]
        .iter()
        .chain(words)
        .copied()
        .collect();
    graph(cx, &words)
}

fn imported(cx: &Context) -> Result<()> {
    let dir = root(cx, "root")?;
    graph(cx, &["import", text(&dir)?])?.exits(0)?;
    Ok(())
}

fn exactly(cx: &Context) -> Result<()> {
    imported(cx)?;
    run(cx, &["app", "/opt/app/start"])?.prints("said\n")?;
    let walked = run(cx, &["app", "/bin/sh", "-c", WALK])?.exits(0)?.out();
    let seen: BTreeSet<&str> = walked.lines().collect();
    for path in [
        "/bin/busybox",
        "/opt/app/start",
        "/usr/share/data/text",
        "/etc/passwd",
        "/etc/group",
        "/tmp",
    ] {
        ensure!(seen.contains(path), "{path} is not in the closure: {walked}");
    }
    // Everything that is there belongs to one of these; links of busybox are its own.
    let is_known = |path: &&str| {
        let path = *path;
        path.starts_with("/bin")
            || path.starts_with("/opt/app")
            || path.starts_with("/usr/share/data")
            || [
                "/opt",
                "/usr",
                "/usr/share",
                "/usr/bin",
                "/etc",
                "/etc/passwd",
                "/etc/group",
                "/root",
                "/tmp",
                "/home",
                "/home/alice",
                "/mnt",
                "/var",
                "/opt/none",
                "/run",
            ]
            .contains(&path)
    };
    if let Some(other) = seen.iter().find(|path| !is_known(path)) {
        anyhow::bail!("{other} is in the closure, although nothing needs it: {walked}");
    }
    // What is not there cannot be opened by any name, and nothing can be written.
    run(
        cx,
        &[
            "app",
            "/bin/sh",
            "-c",
            "cat /opt/other/secret /proc/1/root/opt/other/secret",
        ],
    )?
    .fails()?;
    run(cx, &["app", "/bin/sh", "-c", "echo x >/opt/app/start"])?.fails()?;
    run(
        cx,
        &[
            "--read-only=false",
            "app",
            "/bin/sh",
            "-c",
            "echo x >/opt/new && cat /opt/new",
        ],
    )?
    .prints("x\n")?;
    // Without data the app has nothing to say.
    run(cx, &["box", "/bin/sh", "-c", "cat /usr/share/data/text"])?.fails()?;
    Ok(())
}

fn reasons(cx: &Context) -> Result<()> {
    imported(cx)?;
    graph(cx, &["why", "app", "box"])?
        .exits(0)?
        .has_out("app=1.0 (")?
        .has_out("/opt/app/start names /bin/sh")?;
    graph(cx, &["why", "app", "data"])?
        .exits(0)?
        .has_out("depends on data")?;
    graph(cx, &["why", "data", "app"])?
        .exits(1)?
        .has_out("data does not need app")?;
    graph(cx, &["tree", "app"])?
        .exits(0)?
        .has_out("  data=1.0 (")?
        .has_out("  box=1.0 (")?;
    graph(cx, &["diff", "data", "app"])?
        .exits(0)?
        .has_out("+ app=1.0 (")?;
    let listed = graph(cx, &["ls", "--format", "{{.Name}} {{.Version}} {{.Kind}}"])?
        .exits(0)?
        .out();
    for line in [
        "app 1.0 package",
        "data 1.0 package",
        "other 1.0 package",
        "base  directory",
    ] {
        ensure!(
            listed.lines().any(|own| own == line),
            "{line} is not listed: {listed}"
        );
    }
    Ok(())
}

/// Ids of all nodes with their names.
fn ids(cx: &Context) -> Result<String> {
    let listed = graph(cx, &["ls", "--format", "{{.Name}} {{.Digest}}"])?;
    Ok(listed.exits(0)?.out())
}

fn reproducible(cx: &Context) -> Result<()> {
    let (one, other) = (root(cx, "one")?, root(cx, "other")?);
    graph(cx, &["import", text(&one)?])?.exits(0)?;
    let before = ids(cx)?;
    // A second copy, made at another time, adds no node.
    graph(cx, &["import", text(&other)?])?
        .exits(0)?
        .has_out("0 of them new")?;
    ensure!(ids(cx)? == before, "a copy has other ids");
    fs::write(other.join("usr/share/data/text"), "else\n")?;
    graph(cx, &["import", text(&other)?])?.exits(0)?;
    let after = ids(cx)?;
    let changed = |name: &str| {
        let of = |list: &str| list.lines().filter(|line| line.starts_with(name)).count();
        of(&after) > of(&before)
    };
    ensure!(
        changed("data ") && changed("app "),
        "what needs a changed file has its old id: {after}"
    );
    ensure!(
        !changed("box ") && !changed("other "),
        "what does not need it has a new id: {after}"
    );
    // The name stands for what was imported last.
    run(cx, &["app", "/opt/app/start"])?.prints("else\n")?;
    Ok(())
}

fn totefile(cx: &Context) -> Result<()> {
    imported(cx)?;
    let env = cx.directory("env")?;
    cx.file(
        "env/start",
        "#!/bin/sh\necho \"$A $(cat /etc/x)\" >/data/y; cat /data/y\n",
    )?;
    cx.file("env/x", "file\n")?;
    fs::set_permissions(Path::new(&env).join("start"), Permissions::from_mode(0o700))?;
    cx.file(
        "env/Totefile",
        "packages = [\"box\"]\ncommand = [\"/start\"]\nwritable = [\"/data\"]\nenv = { A = \"b\" }\n\n[files]\n\"/etc/x\" = \"./x\"\n\"/start\" = \"start\"\n",
    )?;
    let build =
        |name: &str| -> Result<String> { Ok(graph(cx, &["build", "-q", "-t", name, &env])?.exits(0)?.out()) };
    let first = build("env:1")?;
    // The same from files that were made anew, in a state root that has never seen them.
    cx.file("env/x", "file\n")?;
    let second = cx.directory("second")?;
    let elsewhere = |words: &[&str]| -> Result<Output> {
        let words: Vec<&str> = ["--root", &second, "graph"]
            .iter()
            .chain(words)
            .copied()
            .collect();
        cx.tote(&words).output()
    };
    let again = root(cx, "again")?;
    elsewhere(&["import", text(&again)?])?.exits(0)?;
    let other = elsewhere(&["build", "-q", "-t", "env:2", &env])?.exits(0)?.out();
    ensure!(first == other, "one state root has {first}, another one {other}");
    cx.tote(&["run", "--rm", "--network", "none", "env:1"])
        .output()?
        .prints("b file\n")?;
    cx.file("env/x", "else\n")?;
    ensure!(build("env:1")? != first, "another file gives the same image");
    Ok(())
}

fn nodes(cx: &Context) -> Result<usize> {
    Ok(graph(cx, &["ls", "-q"])?.exits(0)?.out().lines().count())
}

fn collected(cx: &Context) -> Result<()> {
    let dir = root(cx, "root")?;
    let name = text(&dir)?;
    graph(cx, &["import", name])?.exits(0)?;
    run(cx, &["app", "/opt/app/start"])?.prints("said\n")?;
    let all = nodes(cx)?;
    graph(cx, &["gc"])?
        .exits(0)?
        .has_out("removed 0 nodes and 0 images")?;
    // What is swept for other reasons takes no layer of a node.
    cx.tote(&["image", "prune", "-af"]).output()?.exits(0)?;
    ensure!(nodes(cx)? == all, "nodes that an import keeps are gone");
    run(cx, &["app", "/opt/app/start"])?.prints("said\n")?;
    graph(cx, &["rm", name])?.exits(0)?;
    graph(cx, &["rm", name])?
        .exits(1)?
        .has_err("nothing imported is named")?;
    graph(cx, &["rm", "-f", name])?.exits(0)?;
    graph(cx, &["profile", "set", "p", "data"])?.exits(0)?;
    graph(cx, &["gc"])?.exits(0)?;
    let kept = nodes(cx)?;
    ensure!(kept == 2, "a profile of data and base keeps {kept} nodes");
    graph(cx, &["profile", "rm", "p"])?.exits(0)?;
    graph(cx, &["gc"])?.exits(0)?;
    ensure!(nodes(cx)? == 0, "nodes without a root stay");
    let images = cx.tote(&["images", "-aq"]).output()?.exits(0)?.out();
    ensure!(images.is_empty(), "images of closures stay: {images}");
    let objects = fs::read_dir(cx.root().join("store/layers"))?.count();
    ensure!(objects == 0, "{objects} layers stay");
    Ok(())
}

fn switched(cx: &Context) -> Result<()> {
    let dir = root(cx, "root")?;
    graph(cx, &["import", text(&dir)?])?.exits(0)?;
    let says = |what: &str| -> Result<()> {
        run(cx, &["profile:web", "/opt/app/start"])?.prints(what)?;
        Ok(())
    };
    graph(cx, &["profile", "set", "web", "app"])?.prints("1\n")?;
    says("said\n")?;
    fs::write(dir.join("usr/share/data/text"), "new\n")?;
    graph(cx, &["import", text(&dir)?])?.exits(0)?;
    // A profile is what it was set to, whatever was imported since.
    says("said\n")?;
    graph(cx, &["profile", "set", "web", "app"])?.prints("2\n")?;
    says("new\n")?;
    graph(cx, &["gc"])?.exits(0)?;
    graph(cx, &["profile", "rollback", "web"])?.prints("1\n")?;
    says("said\n")?;
    graph(cx, &["profile", "rollback", "web"])?
        .exits(1)?
        .has_err("no earlier generation")?;
    graph(cx, &["profile", "switch", "web", "2"])?.prints("2\n")?;
    says("new\n")?;
    // Its image may be removed: it is made again.
    cx.tote(&["image", "prune", "-af"]).output()?.exits(0)?;
    says("new\n")?;
    Ok(())
}

fn sizes(cx: &Context) -> Result<()> {
    imported(cx)?;
    let told = graph(
        cx,
        &[
            "du",
            "--format",
            "{{.Name}} {{.Kind}} {{.TotalBytes}} {{.UniqueBytes}}",
            "app",
            "data",
        ],
    )?;
    let told = told.exits(0)?.out();
    let start = fs::metadata(cx.scratch().join("root/opt/app/start"))?.len();
    let busybox = fs::metadata(cx.scratch().join("root/bin/busybox"))?.len();
    let row = |name: &str| -> Result<Vec<u64>> {
        let line = told
            .lines()
            .find(|line| line.starts_with(&format!("{name} closure ")));
        let line = line.with_context(|| format!("no row of {name}: {told}"))?;
        Ok(line
            .split(' ')
            .skip(2)
            .filter_map(|word| word.parse().ok())
            .collect())
    };
    ensure!(
        row("app")?[1] == start + busybox,
        "only app has its script and busybox: {told}"
    );
    ensure!(row("data")?[1] == 0, "data has nothing that app lacks: {told}");
    ensure!(
        row("app")?[0] > row("app")?[1],
        "the total lacks what is shared: {told}"
    );
    graph(cx, &["du", "app"])?.exits(0)?.has_out("NOT ON HOST")?;
    Ok(())
}

fn image(cx: &Context) -> Result<()> {
    let dir = root(cx, "root")?;
    let archive = cx.path("image.tar")?;
    Invocation::new(["tar", "--numeric-owner", "-C", text(&dir)?, "-cf", &archive, "."])
        .output()?
        .exits(0)?;
    cx.tote(&["import", "--change=CMD [\"/opt/app/start\"]", &archive, "app:1"])
        .output()?
        .exits(0)?;
    // Its files are in the store already.
    graph(cx, &["import", "app:1"])?
        .exits(0)?
        .has_out(", 0B written")?;
    run(cx, &["app", "/opt/app/start"])?.prints("said\n")?;
    // The nodes keep them when the image goes.
    cx.tote(&["rmi", "app:1"]).output()?.exits(0)?;
    run(cx, &["app", "/opt/app/start"])?.prints("said\n")?;
    cx.tote(&["import", &archive, "app:2"]).output()?.exits(0)?;
    cx.tote(&["store", "report"])
        .output()?
        .exits(0)?
        .has_out("app:2")?
        .has_out("each file once")?;
    let json = cx
        .tote(&["store", "report", "--format", "json"])
        .output()?
        .exits(0)?
        .out();
    let report: serde_json::Value = serde_json::from_str(&json)?;
    ensure!(
        report[0]["Images"][0]["Name"] == "app:2",
        "no row of the image: {json}"
    );
    Ok(())
}

fn mistakes(cx: &Context) -> Result<()> {
    graph(cx, &["import", "/nowhere"])?.refuses(1, &["/nowhere"])?;
    graph(cx, &["import", "deb:no-such-package"])?.refuses(1, &["no-such-package"])?;
    graph(cx, &["import", "deb:a", "b"])?.refuses(1, &["\"b\""])?;
    graph(cx, &["tree", "nothing"])?.refuses(1, &["nothing"])?;
    graph(cx, &["profile", "rollback", "p"])?.refuses(1, &["profile p"])?;
    graph(cx, &["profile", "set", "../p", "x"])?.refuses(1, &["../p"])?;
    let env = cx.directory("env")?;
    for (file, told) in [
        ("packages = [\"gone\"]\n", "gone"),
        ("package = []\n", "unknown field"),
        ("[files]\n\"/x\" = \"../x\"\n", "../x"),
        ("[files]\n\"/x\" = \"x\"\n", "x"),
    ] {
        cx.file("env/Totefile", file)?;
        graph(cx, &["build", &env])?.refuses(1, &[told])?;
    }
    // A link out of the directory of a Totefile leads nowhere.
    symlink("/etc/passwd", Path::new(&env).join("link"))?;
    cx.file("env/Totefile", "[files]\n\"/x\" = \"link\"\n")?;
    graph(cx, &["build", &env])?.refuses(1, &["link"])?;
    Ok(())
}
