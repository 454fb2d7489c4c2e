//! The page of a report in a browser without a window: no script fails, every plot is drawn, nothing is wider than a phone, and both
//! colour schemes can be read.

#![expect(clippy::disallowed_methods, reason = "what is tested is a program")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Width of a phone in the pixels of style sheets.
const PHONE: u32 = 390;

/// Runs before everything else of the page.
const LISTEN: &str = "<script>window.failures = []; addEventListener('error', event => failures.push(String(event.message)));</script>";

/// Runs when the page is there: looks at it, sorts a table, and tells the page around it.
const LOOK: &str = r#"<script>
addEventListener("load", () => {
  const colour = element => getComputedStyle(element);
  const empty = [...document.querySelectorAll("figure")].filter(figure => {
    const svg = figure.querySelector("svg");
    if (!svg) return true;
    const { width, height } = svg.getBoundingClientRect();
    const drawn = svg.getBBox();
    const marks = svg.querySelectorAll("rect, circle, polyline, path, polygon, line").length;
    return !(width > 200 && height > 60 && drawn.width > 200 && drawn.height > 60 && marks > 4 && svg.querySelector("text"));
  }).map(figure => figure.id);
  const table = document.querySelector("table.sortable");
  const medians = () => [...table.tBodies[0].rows].map(row => parseFloat(row.cells[2].textContent)).filter(number => !Number.isNaN(number));
  const head = [...table.querySelectorAll("thead button")].find(button => button.textContent.startsWith("median"));
  head.click();
  const up = medians();
  head.click();
  const down = medians();
  const text = document.querySelector("svg text");
  parent.postMessage(JSON.stringify({
    failures,
    figures: document.querySelectorAll("figure").length,
    empty,
    up,
    down,
    wide: document.documentElement.scrollWidth - innerWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    ground: colour(document.body).backgroundColor,
    ink: colour(document.body).color,
    label: text && colour(text).fill,
  }), "*");
});
</script></body>"#;

/// A directory that goes with the test.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn browser() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| {
            let version = Command::new(name)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            version.is_ok_and(|status| status.success())
        })
}

/// Makes a report of results of five sizes with several candidates; returns its page.
fn page(place: &Path) -> String {
    let mut files = Vec::new();
    for (number, name) in [
        "docker-alpine-runc-overlay",
        "podman-alpine-crun-overlay",
        "lxd-alpine-lxc-btrfs",
    ]
    .into_iter()
    .enumerate()
    {
        let times = |scale: f64| -> Vec<f64> {
            (0..20)
                .map(|run| scale * (1.0 + number as f64) * (1.0 + f64::from(run % 7) / 50.0))
                .collect()
        };
        let mut measurements = serde_json::Map::new();
        for (size, scale) in [("xs", 0.1), ("sm", 0.2), ("md", 0.4), ("lg", 2.0), ("xl", 9.0)] {
            for kind in ["IO read", "Database write"] {
                let data = [times(0.01), times(0.05), times(0.05 + scale)];
                let measured = json!({"legend": ["Create", "Start", "Exec"], "data": data});
                measurements.insert(format!("{kind} {size}"), measured);
            }
        }
        let data = [times(0.01), times(0.05), times(0.07)];
        measurements.insert(
            "Hello World".to_owned(),
            json!({"legend": ["Create", "Start", "Exec"], "data": data}),
        );
        let path = place.join(format!("{name}.json"));
        let text = json!({"name": name, "measurements": measurements}).to_string();
        fs::write(&path, text).unwrap();
        files.push(path);
    }
    for action in ["import", "report"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tote-bench"));
        command.arg(action).arg("--out").arg(place.join("out"));
        if action == "import" {
            command.args(&files);
        }
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    fs::read_to_string(place.join("out/report.html")).unwrap()
}

/// Opens the page in a frame of that width, and returns what it told.
fn opened(browser: &str, place: &Path, width: u32, dark: bool) -> Value {
    let frame = format!(
        "<!doctype html><html><body><iframe src=\"looked.html\" width=\"{width}\" height=\"844\" style=\"border: 0\"></iframe>\
         <script>addEventListener('message', event => document.documentElement.setAttribute('data-told', event.data));</script>\
         </body></html>"
    );
    let path = place.join("frame.html");
    fs::write(&path, frame).unwrap();
    let mut command = Command::new(browser);
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1400,1000",
        ])
        .arg("--virtual-time-budget=20000")
        .arg(format!("--user-data-dir={}", place.join("browser").display()));
    if dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    }
    let output = command
        .arg("--dump-dom")
        .arg(format!("file://{}", path.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let told = dom
        .split_once("data-told=\"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .map(|(told, _)| told.replace("&quot;", "\"").replace("&amp;", "&"));
    let told = told.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(&told).unwrap()
}

/// Returns the brightness of a colour as the browser writes it, from 0 to 255.
fn brightness(colour: &Value) -> f64 {
    let numbers: Vec<f64> = (colour.as_str().unwrap())
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .take(3)
        .collect();
    numbers.iter().sum::<f64>() / 3.0
}

#[test]
fn a_browser_shows_the_page_on_every_width_and_ground() {
    let Some(browser) = browser() else {
        println!("skipped: needs chromium");
        return;
    };
    let place = Place(std::env::temp_dir().join(format!("tote-page-{}", std::process::id())));
    fs::create_dir(&place.0).unwrap();
    let page = page(&place.0);
    let figures = page.matches("<figure").count();
    assert!(figures > 10, "{figures} plots");
    let looked = page
        .replacen("<head>", &format!("<head>{LISTEN}"), 1)
        .replacen("</body>", LOOK, 1);
    fs::write(place.0.join("looked.html"), looked).unwrap();
    for (width, dark) in [(1280, false), (PHONE, false), (PHONE, true)] {
        let told = opened(browser, &place.0, width, dark);
        assert_eq!(told["failures"], json!([]), "{told}");
        assert_eq!(told["figures"], json!(figures), "{told}");
        assert_eq!(told["empty"], json!([]), "plots without anything in them");
        assert!(told["wide"].as_i64().unwrap() <= 0, "wider than {width}: {told}");
        let order = |key: &str| -> Vec<f64> {
            let all = told[key].as_array().unwrap();
            all.iter().map(|number| number.as_f64().unwrap()).collect()
        };
        let (up, mut down) = (order("up"), order("down"));
        down.reverse();
        assert!(up.len() > 2 && up.is_sorted() && down.is_sorted(), "{told}");
        assert_eq!(told["dark"], json!(dark), "{told}");
        let (ground, ink) = (brightness(&told["ground"]), brightness(&told["ink"]));
        assert_eq!(ground < 128.0, dark, "{told}");
        assert!((ground - ink).abs() > 150.0, "text that cannot be read: {told}");
        assert_eq!(
            told["label"], told["ink"],
            "the plots' text has the page's colour"
        );
    }
}
