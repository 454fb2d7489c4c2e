//! `bench slim`: how much smaller `tote slim` makes images.
//!
//! Each image is built from a Dockerfile of `bench/slim`, whose first lines say what `tote slim` is to ask it: `# slim: OPTION
//! VALUE`. One more line may have what others have published for such an image: `# published: WHAT PERCENT`.

mod table;

use crate::arguments::Options;
use anyhow::{Context, Result, bail, ensure};
use bench::apparatus::succeed;
use bench::clock;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Base of all images.
const BASE: &str = "debian:bookworm";
/// Work that opens files as programs do: it compresses, hashes and starts programs.
const WORK: &str = "i=0; while [ $i -lt 60 ]; do gzip -1 </usr/bin/perl | sha256sum >/dev/null; cat /etc/services /etc/passwd >/dev/null; \
                    i=$((i + 1)); done";
/// Pairs of a traced run and one that is not, whose median counts.
const PAIRS: usize = 7;

/// An image of the set.
#[derive(Clone, Debug, Default, PartialEq)]
struct Recipe {
    name: String,
    /// Options of `tote slim`.
    options: Vec<String>,
    /// Reduction in percent that others have published, and of what.
    published: Option<(String, f64)>,
}

/// The part of the report of `tote slim` that counts here.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all(deserialize = "PascalCase"))]
struct Told {
    size_before: u64,
    size_after: u64,
    reduction: f64,
    files_before: u64,
    files_after: u64,
    bytes_written: u64,
    runs: Vec<Run>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all(deserialize = "PascalCase"))]
struct Run {
    of_slim: bool,
    seconds: f64,
}

/// Result for an image.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: String,
    probes: Vec<String>,
    told: Told,
    /// Seconds of the command.
    seconds: f64,
    published: Option<(String, f64)>,
}

impl Row {
    /// Seconds that the command took beyond the runs of both images.
    fn own_seconds(&self) -> f64 {
        let runs: f64 = self.told.runs.iter().map(|run| run.seconds).sum();
        (self.seconds - runs).max(0.0)
    }
}

#[derive(Debug, Serialize)]
struct Report {
    /// Start in seconds since 1970.
    started: u64,
    rows: Vec<Row>,
    /// Time of the same work traced and not traced, as a ratio.
    traced: Option<f64>,
    /// Images that could not be built, or whose smaller image did not pass, each with the reason.
    failed: Vec<(String, String)>,
}

/// Builds missing images in the state root `--set`, makes each smaller, and writes `slim.md` and `.json`. Returns whether all
/// smaller images passed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let tote = options.tote.as_deref().context("slim needs --tote")?;
    let recipes = recipes(&options.only)?;
    let scratch = std::env::temp_dir().join(format!("tote-bench-slim-{}", std::process::id()));
    let root = options.set.clone().unwrap_or_else(|| scratch.clone());
    fs::create_dir_all(&root).with_context(|| format!("make {}", root.display()))?;
    let mut report = Report {
        started: clock::now_nanos() / 1_000_000_000,
        rows: Vec::new(),
        traced: None,
        failed: Vec::new(),
    };
    let set = Set {
        tote,
        root: &root.join("root"),
    };
    let made = set.base(&root).and_then(|()| {
        report.traced = set.cost().context("measure what tracing costs").map(Some)?;
        for recipe in recipes {
            match set.measure(&recipe, &root) {
                Ok(row) => {
                    eprintln!("{}: {} % less", row.name, row.told.reduction);
                    report.rows.push(row);
                }
                Err(error) => {
                    eprintln!("{}: {error:#}", recipe.name);
                    report.failed.push((recipe.name, format!("{error:#}")));
                }
            }
        }
        Ok(())
    });
    if options.set.is_none() {
        fs::remove_dir_all(&scratch).with_context(|| format!("remove {}", scratch.display()))?;
    }
    made?;
    fs::create_dir_all(&options.out).with_context(|| format!("make {}", options.out.display()))?;
    let text = table::markdown(&report);
    let json = serde_json::to_string_pretty(&report).context("write the report as JSON")? + "\n";
    for (name, text) in [("slim.md", &text), ("slim.json", &json)] {
        let path = options.out.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    print!("{text}");
    Ok(report.failed.is_empty())
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("slim")
}

/// Reads the recipes whose names have one of these words, sorted by name.
fn recipes(only: &[String]) -> Result<Vec<Recipe>> {
    let mut recipes = Vec::new();
    for entry in fs::read_dir(directory()).context("list bench/slim")? {
        let path = entry.context("list bench/slim")?.path();
        let Some(name) = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_suffix(".Dockerfile"))
        else {
            continue;
        };
        if only.is_empty() || only.iter().any(|word| name.contains(word)) {
            let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            recipes.push(recipe(name, &text).with_context(|| format!("understand {}", path.display()))?);
        }
    }
    ensure!(!recipes.is_empty(), "no image is named like {only:?}");
    recipes.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(recipes)
}

/// Reads the lines for the harness at the beginning of a Dockerfile.
fn recipe(name: &str, text: &str) -> Result<Recipe> {
    let mut recipe = Recipe {
        name: name.to_owned(),
        ..Recipe::default()
    };
    for line in text.lines().take_while(|line| line.starts_with('#')) {
        if let Some(option) = line.strip_prefix("# slim: ") {
            let (option, value) = option.split_once(' ').context("an option needs a value")?;
            recipe.options.extend([option.to_owned(), value.to_owned()]);
        } else if let Some(published) = line.strip_prefix("# published: ") {
            let (what, percent) = published.rsplit_once(' ').context("a percentage is missing")?;
            let percent: f64 = percent.parse().context("read the percentage")?;
            recipe.published = Some((what.to_owned(), percent));
        }
    }
    let asks = |option: &String| ["--http-probe", "--probe", "--exec", "--also"].contains(&option.as_str());
    ensure!(recipe.options.iter().any(asks), "nothing is asked");
    Ok(recipe)
}

/// The images in a state root.
struct Set<'a> {
    tote: &'a Path,
    root: &'a Path,
}

impl Set<'_> {
    fn tote(&self) -> Command {
        let mut command = Command::new(self.tote);
        command.arg("--root").arg(self.root);
        command
    }

    fn has(&self, image: &str) -> Result<bool> {
        let looked = self.tote().args(["image", "inspect", image]).output();
        Ok(looked.context("run tote")?.status.success())
    }

    /// Makes the base, and an empty context of builds.
    fn base(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory.join("context")).context("make an empty context")?;
        if !self.has(BASE)? {
            succeed(self.tote().args(["image", "bootstrap", "--quiet", BASE])).context("make the base")?;
        }
        Ok(())
    }

    /// Measures the work in traced runs of the base beside runs of the smaller image, in pairs.
    fn cost(&self) -> Result<f64> {
        let mut ratios = Vec::new();
        for _ in 0..PAIRS {
            let mut slim = self.tote();
            slim.args([
                "slim",
                "--network",
                "none",
                "--no-fat",
                "--run-for",
                "120s",
                "--format",
                "json",
                "--tag",
                "bench/work:1",
            ])
            .args([BASE, "--", "sh", "-c", WORK]);
            let told = told(&mut slim)?;
            let seconds = |of_slim| {
                let runs = told.runs.iter().filter(move |run: &&Run| run.of_slim == of_slim);
                runs.map(|run| run.seconds).sum::<f64>()
            };
            ratios.push(seconds(false) / seconds(true));
        }
        ratios.sort_by(f64::total_cmp);
        Ok(ratios[PAIRS / 2])
    }

    /// Builds an image where it is missing, and makes it smaller.
    fn measure(&self, recipe: &Recipe, root: &Path) -> Result<Row> {
        let image = format!("bench/{}:1", recipe.name);
        if !self.has(&image)? {
            let file = directory().join(&recipe.name).with_extension("Dockerfile");
            let mut build = self.tote();
            build
                .args(["build", "--quiet", "--network", "host", "--tag", &image, "--file"])
                .arg(&file)
                .arg(root.join("context"));
            succeed(&mut build).context("build")?;
        }
        let begin = Instant::now();
        let mut slim = self.tote();
        slim.args(["slim", "--network", "none", "--format", "json"])
            .args(&recipe.options)
            .arg(&image);
        let told = told(&mut slim)?;
        let seconds = begin.elapsed().as_secs_f64();
        let is_probe = |option: &&[String]| !option[0].ends_with("-timeout");
        let probes = recipe.options.chunks_exact(2).filter(is_probe);
        Ok(Row {
            name: recipe.name.clone(),
            probes: probes.map(|option| option.join(" ")).collect(),
            told,
            seconds,
            published: recipe.published.clone(),
        })
    }
}

/// Runs `tote slim --format json`, which prints a list of one report.
fn told(slim: &mut Command) -> Result<Told> {
    let output = slim.output().context("run tote slim")?;
    if !output.status.success() {
        bail!(
            "{}",
            String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ")
        );
    }
    let reports: Vec<Told> =
        serde_json::from_slice(&output.stdout).context("understand the report of tote slim")?;
    reports
        .into_iter()
        .next()
        .context("the report of tote slim is empty")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_is_understood() {
        let recipes = recipes(&[]).unwrap();
        assert!(recipes.len() >= 20, "{} images", recipes.len());
        let nginx = recipes.iter().find(|recipe| recipe.name == "nginx").unwrap();
        assert_eq!(nginx.options[..2], ["--http-probe", "http://localhost/"]);
    }

    #[test]
    fn mistakes_are_told() {
        for (text, told) in [
            ("FROM x\n# slim: --exec a\n", "nothing is asked"),
            ("# slim: --probe-timeout 5s\nFROM x\n", "nothing is asked"),
            ("# slim: --exec\nFROM x\n", "an option needs a value"),
            ("# published: x\n", "a percentage is missing"),
            ("# published: x y\n", "read the percentage"),
        ] {
            let error = recipe("x", text).unwrap_err().to_string();
            assert_eq!(error, told, "{text}");
        }
    }
}
