//! The whole program with candidates of which everything is known: one that works, one that fails, one that hangs, one
//! that leaves a process behind, and one that lies about exit codes.

#![expect(clippy::disallowed_methods, reason = "what is tested is a program")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit that nothing here reaches.
const LIMIT: Duration = Duration::from_secs(120);

const CANDIDATE: &str = r#"
about = "A candidate of a test"
manager = "test"
runtime = "test"
driver = "none"
isolation = "none"
as = "user"
image = "x"

[words]
none = []

[verbs]
"#;

const EXPERIMENT: &str = r#"
image = "empty"
runs = 3
quick = 3
"#;

/// Directories of a test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir().join(format!("tote-compare-{name}-{}", std::process::id()));
        for folder in ["candidates", "experiments", "images", "tmp"] {
            fs::create_dir_all(place.join("data").join(folder)).unwrap();
        }
        let place = Place(place);
        place.put("images/empty", "");
        place.put(
            "experiments/hello",
            &format!("about = \"Says hello.\"\ncommand = [\"hello\"]\ncontains = \"hello\"\nphases = [\"start\", \"exec\"]{EXPERIMENT}"),
        );
        place.put(
            "experiments/truth",
            &format!("about = \"Ends with 7.\"\ncommand = [\"seven\"]\nexit = 7\nhonesty = true\nphases = [\"run\"]{EXPERIMENT}"),
        );
        place
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.0.join("data").join(name).with_extension("toml"), text).unwrap();
    }

    /// Makes a candidate: the script of its `exec`, and the exit code that its `run` reports.
    fn candidate(&self, name: &str, script: &str, code: u8) {
        let verbs = format!(
            "start = [[\"true\"]]\nexec = [[\"sh\", \"-c\", '''{script}''']]\nrun = [[\"sh\", \"-c\", \"exit {code}\"]]\n"
        );
        self.put(&format!("candidates/{name}"), &format!("{CANDIDATE}{verbs}"));
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tote-bench"));
        command
            .args(words)
            .arg("--data")
            .arg(self.0.join("data"))
            .arg("--out")
            .arg(self.0.join("out"))
            .args([
                "--as-user",
                "nobody",
                "--experiments",
                "hello,truth",
                "--seed",
                "1",
            ])
            .env("TMPDIR", self.0.join("data/tmp"));
        command
    }

    fn report(&self) -> Value {
        let reported = self.command(&["report"]).output().unwrap();
        assert!(
            reported.status.success(),
            "{}",
            String::from_utf8_lossy(&reported.stderr)
        );
        serde_json::from_slice(&fs::read(self.0.join("out/report.json")).unwrap()).unwrap()
    }

    fn results(&self) -> PathBuf {
        let mut found: Vec<PathBuf> = match fs::read_dir(self.0.join("out")) {
            Err(_) => Vec::new(),
            Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        };
        found.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
        found.pop().unwrap_or_default()
    }

    fn left(&self) -> usize {
        fs::read_dir(self.0.join("data/tmp")).unwrap().count()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Says why the tests cannot run here; they need a compiler for the harness's own small program.
fn lacks() -> Option<&'static str> {
    let cc = Command::new("cc").arg("--version").stdout(Stdio::null()).status();
    (!cc.is_ok_and(|status| status.success())).then_some("cc")
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[test]
fn bad_candidates_are_reported_as_what_they_are() {
    if let Some(need) = lacks() {
        println!("skipped: needs {need}");
        return;
    }
    let place = Place::new("bad");
    place.candidate("works", "echo hello", 7);
    place.candidate("fails", "echo hello; echo no >&2; exit 3", 7);
    place.candidate("hangs", "sleep 100", 7);
    place.candidate("leaks", "sleep 100 & echo hello", 7);
    place.candidate("lies", "echo hello", 0);
    place.candidate("mute", "exit 0", 7);
    let names = "works,fails,hangs,leaks,lies,mute";
    let run = place.command(&[
        "run",
        "--runs",
        "2",
        "--warm-up",
        "0",
        "--time-limit",
        "1",
        "--candidates",
        names,
    ]);
    let run = { run }.output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(1), "{said}");
    let report = place.report();
    let found = &report["findings"];
    assert_eq!(found["lies"], serde_json::json!(["lies"]), "{found}");
    assert_eq!(found["hangs"], serde_json::json!({"hangs": ["hello"]}), "{found}");
    assert_eq!(found["leaks"], serde_json::json!({"leaks": ["hello"]}), "{found}");
    let failures: Vec<&String> = found["failures"].as_object().unwrap().keys().collect();
    assert_eq!(failures, ["fails", "hangs", "leaks", "lies", "mute"], "{found}");
    let rows = report["tables"]
        .as_array()
        .unwrap()
        .iter()
        .find(|table| table["series"]["name"] == "hello")
        .unwrap()["blocks"][0]["rows"]
        .as_array()
        .unwrap();
    for row in rows {
        let counted = row["summary"]["n"].as_u64().unwrap_or(0);
        let sound = row["candidate"] == "works" || row["candidate"] == "lies";
        assert_eq!(counted, if sound { 2 } else { 0 }, "{row}");
    }
    let fails = rows.iter().find(|row| row["candidate"] == "fails").unwrap();
    assert_eq!(
        fails["faults"],
        serde_json::json!({"exit code 3 instead of 0: no": 2}),
        "{fails}"
    );
    let page = fs::read_to_string(place.0.join("out/report.html")).unwrap();
    let told = fs::read_to_string(place.0.join("out/report.md")).unwrap();
    for sentence in [
        "lies lies about exit codes.",
        "hangs did not end in time: hello.",
        "leaks left something behind: hello.",
        "fails has no sound run: hello.",
        "mute has no sound run: hello.",
    ] {
        assert!(
            page.contains(sentence) && told.contains(sentence),
            "{sentence}: {told}"
        );
    }
    assert!(page.contains("<svg"));
    assert_eq!(place.left(), 0, "directories of the run");
}

#[test]
fn a_killed_measurement_goes_on_where_it_was() {
    if let Some(need) = lacks() {
        println!("skipped: needs {need}");
        return;
    }
    let place = Place::new("killed");
    let begun = place.0.join("begun");
    place.candidate(
        "works",
        &format!(
            "echo >> {0}; chmod 666 {0} 2>/dev/null; echo hello",
            begun.display()
        ),
        7,
    );
    fs::write(&begun, "").unwrap();
    let mode = Command::new("chmod").arg("666").arg(&begun).status().unwrap();
    assert!(mode.success());
    let words = ["run", "--runs", "200", "--warm-up", "0", "--candidates", "works"];
    let mut first = place.command(&words).stderr(Stdio::null()).spawn().unwrap();
    wait_until(|| lines(&place.results()) > 5);
    first.kill().unwrap();
    first.wait().unwrap();
    // As root, the program below the killed one is asked for an end, and cleans up.
    wait_until(|| place.left() == 0 || !is_root());
    let before = lines(&place.results());
    assert!(before < 401, "it was complete before it was killed");
    let swept = place.command(&["teardown"]).output().unwrap();
    assert!(
        swept.status.success(),
        "{}",
        String::from_utf8_lossy(&swept.stderr)
    );
    assert_eq!(place.left(), 0, "directories of the killed run");
    let second = place.command(&["run", "--resume"]).output().unwrap();
    assert_eq!(
        second.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&second.stderr)
    );
    // A header, two experiments of 200 rounds, an end.
    assert_eq!(lines(&place.results()), 1 + 400 + 1);
    let rounds: std::collections::BTreeSet<(String, u64)> =
        (fs::read_to_string(place.results()).unwrap().lines())
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter_map(|line| Some((line["candidate"].as_str()?.to_owned(), line["round"].as_u64()?)))
            .collect();
    assert_eq!(rounds.len(), 400, "every round once");
    let again = place.command(&["run", "--resume"]).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "it is complete");
    assert_eq!(place.left(), 0, "directories of the run");
}

/// Two measurements of a place have a history and a report together, and `ablate` measures tote beside what was named.
#[test]
fn measurements_are_compared_and_joined() {
    if let Some(need) = lacks() {
        println!("skipped: needs {need}");
        return;
    }
    let place = Place::new("history");
    place.candidate("works", "echo hello", 7);
    place.candidate("tote", "echo hello", 7);
    let done = |command: &mut Command| {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (action, out) in [("run", "out/1"), ("ablate", "out/2")] {
        let words = [action, "--runs", "3", "--warm-up", "0", "--candidates", "works"];
        done(place.command(&words).arg("--out").arg(place.0.join(out)));
    }
    let files: Vec<PathBuf> = (["out/1", "out/2"].into_iter())
        .map(|out| {
            fs::read_dir(place.0.join(out))
                .unwrap()
                .next()
                .unwrap()
                .unwrap()
                .path()
        })
        .collect();
    let rows = |place: &Place, name: &str| -> Vec<String> {
        let report: Value =
            serde_json::from_slice(&fs::read(place.0.join(name).join("report.json")).unwrap()).unwrap();
        let hello = report["tables"][0]["blocks"][0]["rows"]
            .as_array()
            .unwrap()
            .clone();
        hello
            .iter()
            .map(|row| row["candidate"].as_str().unwrap().to_owned())
            .collect()
    };
    done(place.command(&["report"]).arg(&files[0]).arg(&files[1]));
    let mut together = rows(&place, "out/1");
    together.sort();
    assert_eq!(together, ["tote", "works"], "the later one counts");
    let page = fs::read_to_string(place.0.join("out/1/report.html")).unwrap();
    assert!(page.contains("measured later, "), "{page}");
    done(place.command(&["report"]).arg(&files[0]));
    assert_eq!(rows(&place, "out/1"), ["works"]);
    let all = place.0.join("all");
    fs::create_dir(&all).unwrap();
    for (number, file) in files.iter().enumerate() {
        fs::copy(file, all.join(format!("{number}.jsonl"))).unwrap();
    }
    let told = done(place.command(&["history"]).arg(&all));
    assert!(
        told.contains("| hello (ms) | works |") && !told.contains("| tote |"),
        "{told}"
    );
    let written = fs::read_to_string(all.join("history.md")).unwrap();
    assert!(written.contains("(history-hello.svg)"), "{written}");
    let plot = fs::read_to_string(all.join("history-hello.svg")).unwrap();
    assert!(plot.contains(">2<") || plot.contains("\n2\n"), "{plot}");
}

/// A part of the environment that cannot be made takes out the candidates that need it, and no others; the reason is the first failure.
#[test]
fn candidates_without_their_needs_are_skipped() {
    if let Some(need) = lacks() {
        println!("skipped: needs {need}");
        return;
    }
    let place = Place::new("needy");
    place.candidate("works", "echo hello", 7);
    let needy = "extends = \"works\"\nimage = \"{have:service}\"\n[verbs]\nrun = [[\"echo\", \"{image}\"]]\n[apparatus]\n\
                 disks = { bad = { mkfs = [\"no-such-mkfs\"], size = 1 } }\nfiles = { f = \"{disk:bad}/x\" }\n\
                 services = [{ name = \"service\", value = \"{file:f}\" }]\n";
    place.put("candidates/needy", needy);
    place.put(
        "candidates/absent",
        "extends = \"works\"\nneeds = [\"no-such-program\"]\n",
    );
    let run = place
        .command(&[
            "run",
            "--runs",
            "1",
            "--warm-up",
            "0",
            "--candidates",
            "works,needy,absent",
        ])
        .output()
        .unwrap();
    assert_eq!(
        run.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let report = place.report();
    let reason = report["header"]["skipped"]["truth/needy"]
        .as_str()
        .unwrap_or_default();
    assert!(
        ["needs root", "needs no-such-mkfs"].contains(&reason),
        "{}",
        report["header"]["skipped"]
    );
    let absent = report["header"]["subjects"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "absent")
        .unwrap();
    assert_eq!(absent["skipped"], "needs no-such-program");
}

/// A control group that stays is named with the candidate after whose run it was there, whether or not the end removes it.
#[test]
fn control_groups_that_stay_are_reported() {
    if let Some(need) = lacks().or((!is_root()).then_some("root")) {
        println!("skipped: needs {need}");
        return;
    }
    let place = Place::new("groups");
    let all = Path::new("/sys/fs/cgroup");
    let parent = if all.join("cgroup.controllers").exists() {
        all.to_owned()
    } else {
        all.join("pids")
    };
    let group = |name: &str| parent.join(format!("tote-compare-{name}-{}", std::process::id()));
    for name in ["stays", "goes"] {
        let script = format!("mkdir -p {}; echo hello", group(name).display());
        place.candidate(name, &script, 7);
        let path = place.0.join(format!("data/candidates/{name}.toml"));
        let text = fs::read_to_string(&path)
            .unwrap()
            .replace("as = \"user\"", "as = \"root\"");
        fs::write(&path, text).unwrap();
    }
    let end = format!(
        "\n[apparatus]\nservices = [{{ name = \"x\", value = \"x\", end = [[\"rmdir\", \"{}\"]] }}]\n",
        group("goes").display()
    );
    let path = place.0.join("data/candidates/goes.toml");
    fs::write(&path, fs::read_to_string(&path).unwrap() + &end).unwrap();
    let run = place
        .command(&[
            "run",
            "--runs",
            "1",
            "--warm-up",
            "0",
            "--candidates",
            "stays,goes",
        ])
        .output()
        .unwrap();
    let gone = !group("goes").exists();
    fs::remove_dir(group("stays")).unwrap();
    assert!(
        gone && run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let found = &place.report()["findings"]["perhaps"];
    for name in ["stays", "goes"] {
        let group = group(name);
        let group = group.file_name().unwrap().to_str().unwrap();
        assert_eq!(found[name][group], 1, "{found}");
    }
    let last = fs::read_to_string(place.results()).unwrap();
    let end: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    let removed = end["end"]["leaks"]["removed"].to_string();
    assert!(removed.contains("goes") && !removed.contains("stays"), "{end}");
}

/// An image that cannot be made takes out the experiments that need it, and no others.
#[test]
fn images_that_cannot_be_made_take_out_their_experiments() {
    if let Some(need) = lacks() {
        println!("skipped: needs {need}");
        return;
    }
    let place = Place::new("images");
    place.candidate("works", "echo hello", 7);
    let path = place.0.join("data/candidates/works.toml");
    let text = fs::read_to_string(&path)
        .unwrap()
        .replace("image = \"x\"", "image = \"{tree:{image}}\"");
    fs::write(
        &path,
        text.replace(
            "[\"sh\", \"-c\", ",
            "[\"env\", \"IMAGE={image}\", \"sh\", \"-c\", ",
        ),
    )
    .unwrap();
    place.put("images/lacking", "programs = { \"x\" = \"no-such-program\" }\n");
    let hello = fs::read_to_string(place.0.join("data/experiments/hello.toml")).unwrap();
    place.put(
        "experiments/hello",
        &hello.replace("image = \"empty\"", "image = \"lacking\""),
    );
    let run = place
        .command(&["run", "--runs", "1", "--warm-up", "0", "--candidates", "works"])
        .output()
        .unwrap();
    assert_eq!(
        run.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let report = place.report();
    assert_eq!(
        report["header"]["skipped"],
        serde_json::json!({"hello/works": "needs no-such-program"})
    );
    assert_eq!(
        report["tables"].as_array().unwrap().len(),
        1,
        "the other experiment was measured"
    );
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn wait_until(mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < LIMIT, "it takes too long");
        std::thread::yield_now();
    }
}
