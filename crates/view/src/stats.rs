//! Usage of containers and pods, as docker's and podman's `stats` show it.

use crate::listing::Listing;
use crate::text;
use serde_json::{Map, Value};
use tote_engine::Usage;

const HEADINGS: &[(&str, &str)] = &[
    ("Container", "CONTAINER"),
    ("ID", "CONTAINER ID"),
    ("Name", "NAME"),
    ("CPUPerc", "CPU %"),
    ("MemUsage", "MEM USAGE / LIMIT"),
    ("MemPerc", "MEM %"),
    ("NetIO", "NET I/O"),
    ("BlockIO", "BLOCK I/O"),
    ("PIDs", "PIDS"),
    ("Sums", "SUMS"),
];

const OF_PODS: &[(&str, &str)] = &[
    ("Pod", "POD"),
    ("CID", "CID"),
    ("Name", "NAME"),
    ("CPU", "CPU %"),
    ("MemUsage", "MEM USAGE / LIMIT"),
    ("Mem", "MEM %"),
    ("NetIO", "NET IO"),
    ("BlockIO", "BLOCK IO"),
    ("PIDS", "PIDS"),
    ("Sums", "SUMS"),
];

/// Lists the usage of containers with docker's fields, since the measurement `before`. `names` are those that the user gave;
/// `marks` sets a mark at values that were added up from processes.
#[must_use]
pub fn usage(names: &[String], before: &[Usage], now: &[Usage], (whole, marks): (bool, bool)) -> Listing {
    let rows = now.iter().map(|usage| {
        let earlier = before.iter().find(|earlier| earlier.id == usage.id);
        let mut row = row(usage, earlier.unwrap_or(usage), (whole, marks));
        // docker shows the container's name as the user gave it.
        let means = |word: &&String| {
            word.trim_start_matches('/') == usage.name || usage.id.starts_with(word.as_str())
        };
        if let Some(word) = names.iter().find(means) {
            row["Container"] = Value::from(word.as_str());
        }
        row
    });
    Listing {
        headings: HEADINGS,
        columns: "{{.ID}}\t{{.Name}}\t{{.CPUPerc}}\t{{.MemUsage}}\t{{.MemPerc}}\t{{.NetIO}}\t{{.BlockIO}}\t{{.PIDs}}"
            .to_owned(),
        rows: rows.collect(),
        ..Listing::default()
    }
}

/// Lists the usage of the members of pods, by the pod's id, with podman's fields.
#[must_use]
pub fn usage_of_pods(before: &[(String, Usage)], now: &[(String, Usage)], marks: bool) -> Listing {
    let rows = now.iter().map(|(pod, usage)| {
        let mut earlier = before.iter().map(|(_, earlier)| earlier);
        let earlier = earlier.find(|earlier| earlier.id == usage.id);
        row_of_pod(pod, row(usage, earlier.unwrap_or(usage), (false, marks)))
    });
    Listing {
        headings: OF_PODS,
        columns: "{{.Pod}}\t{{.CID}}\t{{.Name}}\t{{.CPU}}\t{{.MemUsage}}\t{{.Mem}}\t{{.NetIO}}\t{{.BlockIO}}\t{{.PIDS}}"
            .to_owned(),
        rows: rows.collect(),
        ..Listing::default()
    }
}

/// Renames docker's fields to podman's.
fn row_of_pod(pod: &str, mut of: Value) -> Value {
    let mut named = Map::new();
    named.insert("Pod".to_owned(), Value::from(pod.get(..12).unwrap_or(pod)));
    for (name, docker) in [
        ("CID", "ID"),
        ("Name", "Name"),
        ("CPU", "CPUPerc"),
        ("MemUsage", "MemUsage"),
        ("Mem", "MemPerc"),
        ("NetIO", "NetIO"),
        ("BlockIO", "BlockIO"),
        ("PIDS", "PIDs"),
        ("Sums", "Sums"),
    ] {
        named.insert(name.to_owned(), of[docker].take());
    }
    Value::Object(named)
}

/// Builds a row with docker's fields. In a table, a value that was added up from processes has a mark.
fn row(usage: &Usage, before: &Usage, (whole, marks): (bool, bool)) -> Value {
    let mark = |sum: bool, text: String| if sum && marks { format!("~{text}") } else { text };
    let pair = |(one, other): (u64, u64)| format!("{} / {}", text::size(one), text::size(other));
    let id = if whole {
        &usage.id[..]
    } else {
        usage.id.get(..12).unwrap_or(&usage.id)
    };
    let memory = format!("{} / {}", binary(usage.memory), binary(usage.memory_limit));
    let sums = [
        ("CPUPerc", usage.cpu_is_sum),
        ("MemUsage", usage.memory_is_sum),
        ("BlockIO", usage.blocks_are_sum),
    ];
    let sums = sums.iter().filter(|(_, sum)| *sum).map(|(name, _)| *name);
    let fields = [
        ("BlockIO", mark(usage.blocks_are_sum, pair(usage.blocks))),
        (
            "CPUPerc",
            mark(usage.cpu_is_sum, format!("{:.2}%", usage.cpu_percent(before))),
        ),
        ("Container", id.to_owned()),
        ("ID", id.to_owned()),
        (
            "MemPerc",
            mark(usage.memory_is_sum, format!("{:.2}%", usage.memory_percent())),
        ),
        ("MemUsage", mark(usage.memory_is_sum, memory)),
        ("Name", usage.name.clone()),
        ("NetIO", pair(usage.network)),
        ("PIDs", usage.pids.to_string()),
        ("Sums", sums.collect::<Vec<_>>().join(",")),
    ];
    let fields = fields
        .into_iter()
        .map(|(name, text)| (name.to_owned(), Value::from(text)));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// Formats a number of bytes with four digits and powers of 1024, as docker shows memory: `5.629MiB`.
pub(crate) fn binary(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    #[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = match value {
        value if unit == 0 || value >= 999.95 => 0,
        value if value >= 99.995 => 1,
        value if value >= 9.9995 => 2,
        _ => 3,
    };
    let mut number = format!("{value:.digits$}");
    if number.contains('.') {
        let kept = number.trim_end_matches('0').trim_end_matches('.').len();
        number.truncate(kept);
    }
    format!("{number}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1KiB"),
            (5_902_434, "5.629MiB"),
            (2_096_103_424, "1.952GiB"),
            (1_048_051_712, "999.5MiB"),
            (1_073_000_000, "1023MiB"),
        ] {
            assert_eq!(binary(bytes), text, "{bytes}");
        }
    }
}
