//! `NODE/PROGRAM`: some programs of a package, without the others and without what only the others need.

use super::graph::{WALK, graph, root, run, text};
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub(super) const TESTS: &[Test] = &[
    test(
        "graph::programs_of_a_package_come_without_the_others",
        &[],
        chosen,
    ),
    test("graph::programs_of_a_package_are_nodes", &[], nodes),
    test(
        "graph::what_scripts_begin_of_essential_packages_is_there",
        &[],
        essential,
    ),
];

/// Makes the root of other tests with two packages more: `tools` with three scripts, and `aid`, which every system has and
/// `tools` therefore does not depend on.
fn tools(cx: &Context, name: &str) -> Result<PathBuf> {
    let dir = root(cx, name)?;
    let scripts = [
        (
            "usr/bin/one",
            "#!/bin/sh\n# three is no program of this script\ntwo; read -r text </usr/share/tools/text; echo \"$text\"\n",
        ),
        ("usr/bin/two", "#!/bin/sh\naid=1; aid two\n"),
        ("usr/bin/three", "#!/bin/sh\necho three\n"),
        ("usr/bin/aid", "#!/bin/sh\necho \"aid $1\"\n"),
        ("usr/share/tools/text", "data\n"),
        ("usr/share/doc/tools/readme", "for people\n"),
    ];
    let lists = dir.join("var/lib/dpkg/info");
    let mut list = String::new();
    for (path, content) in scripts {
        let file = dir.join(path);
        fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
        fs::write(&file, content)?;
        // Files of packages have the times that the packages gave them.
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        File::options().append(true).open(&file)?.set_modified(time)?;
        if path.starts_with("usr/bin") {
            fs::set_permissions(&file, Permissions::from_mode(0o755))?;
        }
        if path != "usr/bin/aid" {
            list += &format!("/{path}\n");
        }
    }
    fs::write(lists.join("tools.list"), list)?;
    fs::write(lists.join("aid.list"), "/usr/bin/aid\n")?;
    let status = dir.join("var/lib/dpkg/status");
    let more = "Package: tools\nStatus: install ok installed\nVersion: 1.0\nArchitecture: all\n\n\
                Package: aid\nEssential: yes\nStatus: install ok installed\nVersion: 1.0\nArchitecture: all\n\n";
    fs::write(&status, fs::read_to_string(&status)? + more)?;
    Ok(dir)
}

fn chosen(cx: &Context) -> Result<()> {
    graph(cx, &["import", text(&tools(cx, "root")?)?])?.exits(0)?;
    run(cx, &["tools", "three"])?.prints("three\n")?;
    run(cx, &["tools/one"])?.prints("aid two\ndata\n")?;
    // The second one begins only what it names, and the container has no name of the others.
    run(cx, &["tools/two,three"])?.prints("aid two\n")?;
    run(cx, &["tools/one", "three"])?.prints("aid two\ndata\n")?;
    let shell = ["--entrypoint", "/bin/sh", "tools/one", "-c"];
    let walked = run(cx, &[&shell[..], &[WALK]].concat())?.exits(0)?.out();
    for path in [
        "/usr/bin/one",
        "/usr/bin/two",
        "/usr/bin/aid",
        "/usr/share/tools/text",
        "/etc/passwd",
    ] {
        ensure!(
            walked.lines().any(|seen| seen == path),
            "{path} is not there: {walked}"
        );
    }
    for path in [
        "/usr/bin/three",
        "/usr/share/doc/tools/readme",
        "/usr/share/data/text",
        "/opt/app/start",
    ] {
        ensure!(
            !walked.lines().any(|seen| seen == path),
            "{path} is there: {walked}"
        );
    }
    run(cx, &["tools/four"])?.refuses(125, &["the closure of tools=1.0", "has no program four"])?;
    run(cx, &["nothing/four"])?.refuses(125, &["nothing/four"])?;
    Ok(())
}

fn nodes(cx: &Context) -> Result<()> {
    let dir = tools(cx, "root")?;
    graph(cx, &["import", text(&dir)?])?.exits(0)?;
    graph(cx, &["profile", "set", "p", "tools/one"])?.prints("1\n")?;
    run(cx, &["profile:p"])?.prints("aid two\ndata\n")?;
    let env = cx.directory("env")?;
    cx.file(
        "env/Totefile",
        "packages = [\"tools/one\"]\ncommand = [\"one\"]\n",
    )?;
    let image = graph(cx, &["build", "-q", "-t", "env:1", &env])?.exits(0)?.out();
    cx.tote(&["run", "--rm", "--network", "none", "env:1"])
        .output()?
        .prints("aid two\ndata\n")?;
    // Elsewhere it is the same node, so the image is the same one.
    let second = cx.directory("second")?;
    let again = tools(cx, "again")?;
    for words in [
        &["import", text(&again)?][..],
        &["build", "-q", "-t", "env:2", &env],
    ] {
        let words: Vec<&str> = ["--root", &second, "graph"]
            .iter()
            .chain(words)
            .copied()
            .collect();
        let said = cx.tote(&words).output()?.exits(0)?.out();
        ensure!(
            words[3] == "import" || said == image,
            "one state root has {image}, another one {said}"
        );
    }
    // What was imported since counts, and what only a profile keeps stays.
    fs::write(dir.join("usr/share/tools/text"), "newer\n")?;
    graph(cx, &["import", text(&dir)?])?.exits(0)?;
    run(cx, &["tools/one"])?.prints("aid two\nnewer\n")?;
    graph(cx, &["rm", text(&dir)?])?.exits(0)?;
    graph(cx, &["rm", "totefile:env:1"])?.exits(0)?;
    graph(cx, &["gc"])?.exits(0)?;
    let listed = graph(cx, &["ls", "--format", "{{.Name}} {{.Kind}}"])?
        .exits(0)?
        .out();
    ensure!(
        listed == "tools/one program\n",
        "a profile of one node keeps {listed}"
    );
    run(cx, &["profile:p"])?.prints("aid two\ndata\n")?;
    Ok(())
}

fn essential(cx: &Context) -> Result<()> {
    graph(cx, &["import", text(&tools(cx, "root")?)?])?.exits(0)?;
    graph(cx, &["why", "tools", "aid"])?
        .exits(0)?
        .has_out("/usr/bin/two names /usr/bin/aid")?;
    run(cx, &["tools", "two"])?.prints("aid two\n")?;
    // No package says that it needs `three`, which is not of a package that every system has.
    graph(cx, &["why", "tools", "other"])?.exits(1)?;
    Ok(())
}
