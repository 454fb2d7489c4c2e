//! The whole program on candidates with known results.

#![expect(clippy::disallowed_methods, reason = "what is tested is a program")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCENARIO: &str = r#"{
  "name": "known",
  "about": "Candidates of which everything is known beforehand.",
  "time_limit_ms": 400,
  "trees": {"small": {"directories": ["etc"], "links": {"link": "etc"}}},
  "states": ["kept", "empty"],
  "candidates": [
    {"name": "quick", "as": "user", "argv": ["true"]},
    {"name": "sleeper", "as": "user", "argv": ["sleep", "0.05"]},
    {"name": "speaker", "as": "user", "argv": ["sh", "-c", "cat; echo $WORD; echo no >&2; exit 3"],
     "env": {"WORD": "hello"}, "expect": {"exit": 3, "stdout": {"is": "hello\n"}}},
    {"name": "stepper", "as": "user", "argv": ["sh", "-c", "echo timings: 7 step >&2; echo timings: 9 total >&2"]},
    {"name": "in-a-tree", "as": "user", "argv": ["test", "-d", "{tree:small}/link"]},
    {"name": "wrong-exit", "as": "user", "argv": ["sh", "-c", "echo because >&2; exit 4"]},
    {"name": "wrong-text", "as": "user", "argv": ["echo", "text"]},
    {"name": "killed", "as": "user", "argv": ["sh", "-c", "kill -9 $$"]},
    {"name": "endless", "as": "user", "argv": ["sleep", "60"]},
    {"name": "absent", "as": "user", "argv": ["no-such-program-here"]},
    {"name": "needy", "as": "user", "argv": ["true"], "needs": ["no-such-program-here"]},
    {"name": "subject", "as": "user", "argv": ["{tote}"]}
  ],
  "comparisons": [
    {"of": "quick", "to": "sleeper", "at_most": 0.9},
    {"of": "sleeper", "to": "quick", "at_most": 1.0},
    {"of": "quick", "measure": "peak-rss-mib", "at_most": 100},
    {"of": "wrong-exit", "to": "quick", "at_most": 100}
  ]
}"#;

struct Measured {
    code: Option<i32>,
    report: Value,
    samples: Vec<Value>,
    markdown: String,
}

impl Measured {
    fn candidate(&self, name: &str) -> &Value {
        let all = self.report["candidates"].as_array().unwrap();
        all.iter().find(|candidate| candidate["name"] == name).unwrap()
    }

    fn order(&self, round: usize) -> Vec<&str> {
        let wall = self
            .samples
            .iter()
            .filter(|s| s["pass"] == "wall" && s["round"] == round);
        wall.map(|sample| sample["candidate"].as_str().unwrap()).collect()
    }
}

fn measure(name: &str, scenario: &str, seed: &str) -> Measured {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&directory).unwrap();
    let file: PathBuf = directory.join("scenario.json");
    fs::write(&file, scenario).unwrap();
    let ended = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args([
            "boot",
            "--runs",
            "5",
            "--warm-up",
            "1",
            "--memory-runs",
            "3",
            "--as-user",
            "nobody",
            "--seed",
            seed,
        ])
        .arg("--scenario")
        .arg(&file)
        .arg("--out")
        .arg(&directory)
        .output()
        .unwrap();
    let read = |extension: &str| {
        let path = directory.join("known").with_extension(extension);
        fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!(
                "{}: {error}: {}",
                path.display(),
                String::from_utf8_lossy(&ended.stderr)
            )
        })
    };
    Measured {
        code: ended.status.code(),
        report: serde_json::from_str(&read("json")).unwrap(),
        samples: read("jsonl")
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
        markdown: read("md"),
    }
}

#[test]
fn sound_runs_count_and_faulty_ones_are_told() {
    let measured = measure("faults", SCENARIO, "5");
    assert_eq!(measured.code, Some(1), "faulty runs make the result unsound");

    for name in ["quick", "sleeper", "speaker", "stepper", "in-a-tree"] {
        let candidate = measured.candidate(name);
        assert_eq!(candidate["wall_ms"]["n"], 5, "{candidate}");
        assert_eq!(candidate["peak_rss_mib"]["n"], 3, "{candidate}");
        assert_eq!(candidate["faults"], serde_json::json!({}));
    }
    let slept = measured.candidate("sleeper")["wall_ms"]["min"].as_f64().unwrap();
    assert!((50.0..400.0).contains(&slept), "{slept}");

    let faults = [
        ("wrong-exit", "exit code 4 instead of 0: because"),
        ("wrong-text", "stdout \"text\\n\" is not what was expected"),
        ("killed", "killed by signal 9"),
        ("endless", "did not end in time"),
    ];
    for (name, fault) in faults {
        let candidate = measured.candidate(name);
        assert_eq!(candidate["faults"][fault], 3, "given up after three: {candidate}");
        assert_eq!(candidate["wall_ms"], Value::Null);
        assert!(
            measured.markdown.contains(&format!("* {name}, 3 runs: ")),
            "{}",
            measured.markdown
        );
    }
    let skipped = [
        ("absent", "needs no-such-program-here"),
        ("needy", "needs no-such-program-here"),
        ("subject", "needs --tote"),
    ];
    for (name, reason) in skipped {
        assert_eq!(measured.candidate(name)["skipped"], reason);
    }
    assert_eq!(measured.report["breakdowns"][0]["candidate"], "stepper");
    assert_eq!(measured.report["breakdowns"][0]["total_us"], 9.0);

    let verdicts: Vec<&Value> = measured.report["comparisons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|compared| &compared["verdict"])
        .collect();
    let not_measured = serde_json::json!({"not-measured": "wrong-exit had faulty runs"});
    assert_eq!(
        verdicts,
        [&"met".into(), &"missed".into(), &"met".into(), &not_measured]
    );
}

#[test]
fn order_is_random_and_follows_the_seed() {
    let sound = r#"{"name": "known", "about": "", "candidates": [
        {"name": "a", "as": "user", "argv": ["true"]}, {"name": "b", "as": "user", "argv": ["true"]},
        {"name": "c", "as": "user", "argv": ["true"]}, {"name": "d", "as": "user", "argv": ["true"]}]}"#;
    let (first, again) = (measure("order-1", sound, "5"), measure("order-2", sound, "5"));
    let orders = |measured: &Measured| -> Vec<Vec<String>> {
        (0..5)
            .map(|round| measured.order(round).into_iter().map(str::to_owned).collect())
            .collect()
    };
    assert_eq!((first.code, again.code), (Some(0), Some(0)));
    assert_eq!(orders(&first), orders(&again));
    let mut different = orders(&first);
    different.sort_unstable();
    different.dedup();
    assert!(different.len() > 1, "every round in the same order");
    for mut round in orders(&first) {
        round.sort_unstable();
        assert_eq!(round, ["a", "b", "c", "d"]);
    }
}

#[test]
fn steps_are_run_in_order_and_only_some_are_on_the_clock() {
    let steps = r#"{"name": "known", "about": "", "states": ["s"], "candidates": [
        {"name": "thrice", "as": "user", "times": 3, "every": 2, "argv": ["sleep", "0.02"], "then": [["true"]],
         "before": [["sleep", "0.1"]], "after": [["sleep", "0.05"]]},
        {"name": "left", "as": "user", "leaves": 2, "times": 2, "argv": ["sh", "-c", "sleep 0.3 & exit 0"],
         "after": ["reap"]},
        {"name": "waits", "as": "user", "argv": ["sh", "-c", "sleep 0.1 & exit 0"], "then": ["reap"]},
        {"name": "too-many", "as": "user", "leaves": 1, "times": 2, "argv": ["sh", "-c", "sleep 2.3 & exit 0"],
         "after": ["reap"]},
        {"name": "unprepared", "as": "user", "argv": ["true"], "before": [["sh", "-c", "echo no >&2; exit 5"]]},
        {"name": "untidy", "as": "user", "argv": ["true"], "after": [["false"]]}]}"#;
    let measured = measure("steps", steps, "5");
    let wall = |name: &str| measured.candidate(name)["wall_ms"].clone();
    assert_eq!(wall("thrice")["n"], 3, "rounds 0, 2 and 4");
    let thrice = wall("thrice")["min"].as_f64().unwrap();
    assert!(thrice >= 60.0, "{thrice}");
    assert!(wall("waits")["min"].as_f64().unwrap() >= 100.0);
    assert_eq!(measured.candidate("left")["faults"], serde_json::json!({}));
    let faults = |name: &str| measured.candidate(name)["faults"].to_string();
    assert!(faults("too-many").contains("left 2 processes instead of 1"));
    assert!(faults("unprepared").contains("before the clock"));
    assert!(faults("unprepared").contains("Exited(5): no"));
    assert!(faults("untidy").contains("after the clock"));
    assert!(
        measured
            .markdown
            .contains("[sleep 0.1] 3 times: sleep 0.02; true [sleep 0.05]")
    );
}

#[test]
fn what_is_left_behind_is_found_and_removed() {
    let leaky = r#"{"name": "known", "about": "", "states": ["kept", "clean"], "candidates": [
        {"name": "orphan", "as": "user", "argv": ["sh", "-c", "sleep 60 & exit 0"]},
        {"name": "state", "argv": ["touch", "{state:kept}/{id}"]}]}"#;
    let measured = measure("leaks", leaky, "5");
    assert_eq!(measured.code, Some(1));
    assert_eq!(
        measured.candidate("orphan")["faults"]["left 1 processes behind"],
        3
    );

    let certain = measured.report["leaks"]["certain"].as_array().unwrap();
    if measured.candidate("state")["skipped"].is_null() {
        assert_eq!(certain.len(), 9, "one for each run: {certain:?}");
        let left = certain[0].as_str().unwrap().strip_prefix("state ").unwrap();
        assert!(left.contains("/state/kept/bench-"), "{left}");
        let scratch = Path::new(left).ancestors().nth(3).unwrap();
        assert!(!scratch.exists(), "{}", scratch.display());
    } else {
        assert_eq!(measured.candidate("state")["skipped"], "needs root");
        assert!(certain.is_empty(), "{certain:?}");
    }
}
