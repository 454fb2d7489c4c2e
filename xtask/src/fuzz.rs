//! `cargo xtask fuzz TARGET [SECONDS]`: a fuzz target of `fuzz/`, built by the compiler that builds everything else.
//!
//! libFuzzer needs counters in the code, which rustc's stable flags put there; only sanitizers need a nightly compiler, and
//! the targets have no `unsafe` of their own. The inputs begin with files of this machine where the target reads such files,
//! and what was found to be interesting stays in `target/fuzz/corpus/TARGET` for the next time.

use crate::program::{cargo, program, read, succeed};
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// Seconds of a run without a given time.
const SECONDS: &str = "600";
/// Flags that give code the counters of libFuzzer, as cargo-fuzz has them, and checks that a release leaves out.
const FLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Clink-dead-code",
    "-Cdebug-assertions=yes",
    "-Coverflow-checks=yes",
    "-Ccodegen-units=1",
];
/// Longest file in bytes that is taken for an input.
const LONGEST: u64 = 64 << 10;
/// Most files that are taken of a directory.
const MOST: usize = 300;

/// Where inputs of a target are found: files and directories, on this machine or below the workspace.
fn sources(target: &str) -> &'static [&'static str] {
    match target {
        "needs" => &[
            "/usr/bin",
            "/usr/sbin",
            "/usr/lib/x86_64-linux-gnu",
            "/etc/ld.so.cache",
        ],
        "graph" => &[
            "/var/lib/dpkg/info",
            "docs/graph.md",
            "crates/graph/src/totefile.rs",
        ],
        "spec" | "plan" => &["crates/spec/tests/whole.json"],
        "dockerfile" => &["bench/slim"],
        "unit" => &["/usr/lib/systemd/system"],
        _ => &[],
    }
}

/// # Errors
/// The target does not build, or an input was found that it cannot take: libFuzzer has told which.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result<()> {
    let (target, seconds) = match words {
        [target] => (*target, SECONDS),
        [target, seconds] => (*target, *seconds),
        _ => anyhow::bail!(
            "fuzz: which target? Those of fuzz/fuzz_targets, and at most a number of seconds after it"
        ),
    };
    let manifest = workspace.root.join("fuzz/Cargo.toml");
    let source = workspace
        .root
        .join("fuzz/fuzz_targets")
        .join(target)
        .with_extension("rs");
    ensure!(fs::metadata(&source).is_ok(), "fuzz: there is no target {target}");
    let seconds: u32 = seconds
        .parse()
        .with_context(|| format!("fuzz: {seconds} is no number of seconds"))?;
    let place = workspace.target.join("fuzz");
    let host = read(program("rustc").arg("-vV"))?;
    let host = host
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("rustc -vV tells no host")?;
    let mut build = cargo();
    build
        .args([
            "build",
            "--release",
            "--bin",
            target,
            "--target",
            host,
            "--manifest-path",
        ])
        .arg(manifest);
    // The flags of the workspace make static programs, whose coverage libFuzzer does not find.
    build
        .env("RUSTFLAGS", FLAGS.join(" "))
        .env("CARGO_TARGET_DIR", &place);
    succeed(&mut build)?;
    let corpus = place.join("corpus").join(target);
    let found = place.join("found").join(target);
    for dir in [&corpus, &found] {
        fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    }
    let taken = take(workspace, target, &corpus)?;
    println!("fuzz: {taken} files of this machine are inputs of {target}");
    let mut fuzzer = program(place.join(host).join("release").join(target));
    fuzzer.arg(&corpus).arg(format!("-max_total_time={seconds}"));
    fuzzer.arg(format!("-artifact_prefix={}/", found.display()));
    fuzzer.args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"]);
    fuzzer.arg(format!("-max_len={LONGEST}"));
    succeed(&mut fuzzer)
}

/// Copies files that are short enough into the directory of inputs; returns their number.
fn take(workspace: &Workspace, target: &str, corpus: &Path) -> Result<usize> {
    let mut taken = 0;
    for source in sources(target) {
        let source = workspace.root.join(source);
        let mut files: Vec<PathBuf> = match fs::read_dir(&source) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
            Err(_) => vec![source],
        };
        files.sort();
        let is_short = |path: &PathBuf| {
            path.symlink_metadata()
                .is_ok_and(|meta| meta.is_file() && (1..=LONGEST).contains(&meta.len()))
        };
        for path in files.into_iter().filter(is_short).take(MOST) {
            let name = path.to_string_lossy().replace('/', "-");
            fs::copy(&path, corpus.join(name)).with_context(|| format!("copy {}", path.display()))?;
            taken += 1;
        }
    }
    Ok(taken)
}
