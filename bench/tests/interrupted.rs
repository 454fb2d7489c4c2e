//! A signal ends a run between two steps, and the run is cleaned up.

#![expect(
    clippy::disallowed_methods,
    reason = "the harness is run and waited for, as its users do"
)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TERMINATED: i32 = 143;

/// Time limit that nothing here reaches, the compiler on a busy machine included.
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn what_was_begun_is_cleaned_up_after() {
    if Command::new("cc")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        println!("skipped: needs cc");
        return;
    }
    let dir = std::env::temp_dir().join(format!("interrupted-{}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    let (begun, ended) = (dir.join("begun"), dir.join("ended"));
    let note = |path: &Path| format!(r#"["sh", "-c", "echo >> {}"]"#, path.display());
    let scenario = format!(
        r#"{{"name": "x", "about": "", "candidates": [{{"name": "a", "before": [{}], "argv": ["sleep", "0.1"], "after": [{}]}}]}}"#,
        note(&begun),
        note(&ended)
    );
    fs::write(dir.join("scenario"), scenario).unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["boot", "--runs", "100000", "--as-user", "nobody", "--scenario"])
        .arg(dir.join("scenario"))
        .arg("--out")
        .arg(dir.join("out"))
        .env("TMPDIR", &dir)
        .spawn()
        .unwrap();
    // Two lines show that the bench is in the middle of its rounds.
    let pid = bench.id().to_string();
    wait_until(&mut bench, |_| lines(&begun) > 1);
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    wait_until(&mut bench, |bench| bench.try_wait().unwrap().is_some());
    assert_eq!(bench.wait().unwrap().code(), Some(TERMINATED));
    assert_eq!(lines(&begun), lines(&ended));
    assert!(!dir.join("out/x.md").exists(), "there is a report");
    let left = fs::read_dir(&dir)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name());
    let left: Vec<_> = left
        .filter(|name| name.to_string_lossy().starts_with("tote-bench"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    fs::remove_dir_all(&dir).unwrap();
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

fn wait_until(bench: &mut Child, happened: impl Fn(&mut Child) -> bool) {
    let start = Instant::now();
    while !happened(bench) {
        assert!(start.elapsed() < LIMIT, "it takes too long");
        std::thread::yield_now();
    }
}
