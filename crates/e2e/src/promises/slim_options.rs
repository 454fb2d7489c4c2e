//! Options of `tote slim` by which a user keeps more and says how long a run lasts, and the report of `tote store report`.

use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

pub(super) const TESTS: &[Test] = &[
    test("slim::shells_programs_and_databases_stay_on_demand", TAR, kept),
    test(
        "slim::a_run_without_probes_lasts_as_long_as_it_is_told",
        TAR,
        lasts,
    ),
    test(
        "slim::a_store_report_tells_what_images_waste",
        &[Need::Program("tar"), Need::Program("sort")],
        report,
    ),
];

const TAR: &[Need] = &[Need::Program("tar")];

/// Imports an image of the fixture's root with these files more, which everyone may execute.
fn image(cx: &Context, name: &str, files: &[(&str, &[u8])]) -> Result<()> {
    let (dir, _) = cx.own_rootfs(name)?;
    for (path, content) in files {
        let file = dir.join(path);
        fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
        fs::write(&file, content)?;
        fs::set_permissions(&file, Permissions::from_mode(0o755))?;
    }
    let (archive, from) = (cx.path(&format!("{name}.tar"))?, cx.path(name)?);
    Invocation::new(["tar", "--numeric-owner", "-C", &from, "-cf", &archive, "."])
        .output()?
        .exits(0)?;
    let change = "--change=CMD [\"/bin/cat\", \"/etc/used\"]";
    cx.tote(&["import", change, &archive, &format!("{name}:1")])
        .output()?
        .exits(0)?;
    Ok(())
}

fn slim(cx: &Context, words: &[&str]) -> Result<Output> {
    let words: Vec<&str> = ["slim", "--network", "none"]
        .iter()
        .chain(words)
        .copied()
        .collect();
    cx.tote(&words).output()
}

fn kept(cx: &Context) -> Result<()> {
    let files: &[(&str, &[u8])] = &[
        ("etc/used", b"used\n"),
        ("bin/bash", b"#!/bin/sh\n"),
        ("opt/tool", b"#!/opt/interpreter\n"),
        ("opt/interpreter", b"text\n"),
        ("var/lib/dpkg/status", b"Package: x\n"),
    ];
    image(cx, "app", files)?;
    let look = "for file in /bin/bash /opt/tool /opt/interpreter /var/lib/dpkg/status; do test -e $file && echo $file; done; true";
    for (options, stays) in [
        (&[][..], ""),
        (&["--include-shell"], "/bin/bash\n"),
        (&["--include-bin", "/opt/tool"], "/opt/tool\n/opt/interpreter\n"),
        (&["--keep-metadata"], "/var/lib/dpkg/status\n"),
    ] {
        slim(cx, &[options, &["app:1"]].concat())?.exits(0)?;
        cx.run(&["app.slim:1"])?.prints("used\n")?;
        let seen = cx.run(&["app.slim:1", "sh", "-c", look])?.exits(0)?.out();
        ensure!(seen == stays, "{options:?} keeps {seen}, not {stays}");
    }
    Ok(())
}

fn lasts(cx: &Context) -> Result<()> {
    let files: &[(&str, &[u8])] = &[("etc/used", b"used\n"), ("etc/never", b"never\n")];
    image(cx, "app", files)?;
    let line = "cat /etc/used; sleep 1000; cat /etc/never";
    let told = slim(
        cx,
        &[
            "--run-for",
            "1s",
            "--format",
            "json",
            "app:1",
            "--",
            "sh",
            "-c",
            line,
        ],
    )?;
    let told: serde_json::Value = serde_json::from_str(&told.exits(0)?.out())?;
    let runs = told[0]["Runs"].as_array().context("the report has no runs")?;
    ensure!(runs.len() == 2, "{runs:?}");
    for run in runs {
        let seconds = run["Seconds"].as_f64().context("a run has no time")?;
        // Without the option it is ten seconds.
        ensure!(
            (1.0..9.0).contains(&seconds),
            "a run of one second takes {seconds}"
        );
    }
    let look = "cat /etc/used; test -e /etc/never || echo gone";
    cx.run(&["app.slim:1", "sh", "-c", look])?
        .prints("used\ngone\n")?;
    Ok(())
}

fn report(cx: &Context) -> Result<()> {
    let of_host = fs::read("/usr/bin/sort").context("read /usr/bin/sort")?;
    let unused = vec![b'x'; 50_000];
    let files: &[(&str, &[u8])] = &[
        ("etc/used", b"used\n"),
        ("usr/lib/libunused.so.1", &unused),
        ("usr/bin/sort", &of_host),
    ];
    image(cx, "one", files)?;
    image(cx, "other", &[("etc/used", b"else\n")])?;
    let json = cx
        .tote(&["store", "report", "--format", "json"])
        .output()?
        .exits(0)?
        .out();
    let report: serde_json::Value = serde_json::from_str(&json)?;
    let row = |name: &str| -> Result<serde_json::Value> {
        let rows = report[0]["Images"].as_array().context("no images")?;
        let row = rows.iter().find(|row| row["Name"] == name);
        row.cloned().with_context(|| format!("no row of {name}: {json}"))
    };
    let number = |value: &serde_json::Value| value.as_u64().context("no number");
    let (one, other) = (row("one:1")?, row("other:1")?);
    let libraries: Vec<&str> = one["UnusedLibraries"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str())
        .collect();
    ensure!(libraries == ["/usr/lib/libunused.so.1"], "{libraries:?}");
    ensure!(number(&one["UnusedBytes"])? == 50_000, "{one}");
    ensure!(number(&one["Host"])? >= of_host.len() as u64, "{one}");
    ensure!(number(&other["Host"])? < of_host.len() as u64, "{other}");
    // Each image has one layer with the same busybox, which is there once.
    let busybox = fs::metadata(cx.scratch().join("one/bin/busybox"))?.len();
    for row in [&one, &other] {
        ensure!(number(&row["Duplicate"])? >= busybox, "{row}");
    }
    let report = &report[0];
    ensure!(
        number(&report["Files"])? + busybox <= number(&report["Layered"])?,
        "{json}"
    );
    // The command of `one` needs neither the library nor sort.
    let saved = number(&one["Slim"])?;
    ensure!(
        saved >= 50_000 + of_host.len() as u64 && saved < number(&one["Size"])?,
        "{one}"
    );
    Ok(())
}
