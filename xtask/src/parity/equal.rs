//! Whether two answers are the same, but for what differs from run to run.

use super::side::Answer;
use serde_json::Value;
use std::collections::BTreeSet;

/// First port that engines choose by themselves.
const FIRST_FREE_PORT: u32 = 32768;

/// How an answer differs from docker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    None,
    /// Only in what is on standard error.
    Words,
    Output,
    Code,
}

pub(super) fn difference(ours: &Answer, theirs: &Answer) -> Difference {
    if ours.code != theirs.code {
        Difference::Code
    } else if !is_output_alike(&ours.out, &theirs.out) {
        Difference::Output
    } else if normal(&ours.errors) != normal(&theirs.errors) {
        Difference::Words
    } else {
        Difference::None
    }
}

fn is_output_alike(ours: &str, theirs: &str) -> bool {
    if normal(ours) == normal(theirs) {
        return true;
    }
    match (documents(ours), documents(theirs)) {
        (Some(ours), Some(theirs)) => missing(&ours, &theirs).is_empty(),
        _ => false,
    }
}

/// Names the fields of docker's objects that ours lack, if both outputs are such objects.
pub(super) fn missing_fields(ours: &str, theirs: &str) -> Vec<String> {
    match (documents(ours), documents(theirs)) {
        (Some(ours), Some(theirs)) => missing(&ours, &theirs),
        _ => Vec::new(),
    }
}

/// Parses an output that consists of objects, or arrays of them. Only such an output is judged by names of fields.
fn documents(text: &str) -> Option<Vec<Value>> {
    let mut found = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let value = value.ok()?;
        let is_of_objects = match &value {
            Value::Object(_) => true,
            Value::Array(items) => !items.is_empty() && items.iter().all(Value::is_object),
            _ => false,
        };
        if !is_of_objects {
            return None;
        }
        found.push(value);
    }
    (!found.is_empty()).then_some(found)
}

fn missing(ours: &[Value], theirs: &[Value]) -> Vec<String> {
    let fields = |values: &[Value]| {
        let mut fields = BTreeSet::new();
        for value in values {
            note_fields("", value, &mut fields);
        }
        fields
    };
    fields(theirs).difference(&fields(ours)).cloned().collect()
}

/// Notes the path of each field of an object, with ids and the like made equal; items of arrays share one path.
fn note_fields(above: &str, value: &Value, fields: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let path = format!("{above}.{}", normal_run(name));
                note_fields(&path, value, fields);
                fields.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| note_fields(above, item, fields)),
        _ => {}
    }
}

/// Makes equal what differs from run to run: ids, points in time, ages, addresses, chosen ports and columns.
pub(super) fn normal(text: &str) -> String {
    let mut lines = String::new();
    for line in text.replace('\r', "").lines() {
        lines.push_str(&normal_line(line));
        lines.push('\n');
    }
    // docker's client ends the line of a template also where there is nothing to print.
    while lines == "\n" || lines.ends_with("\n\n") {
        lines.pop();
    }
    lines
}

fn normal_line(line: &str) -> String {
    let mut out = String::new();
    let mut run = String::new();
    for letter in line.chars() {
        if letter.is_ascii_alphanumeric() || ".:+-".contains(letter) {
            run.push(letter);
            continue;
        }
        out.push_str(&normal_run(&run));
        run.clear();
        out.push(letter);
    }
    out.push_str(&normal_run(&run));
    let mut out = out.trim_end().to_owned();
    while out.contains("   ") {
        out = out.replace("   ", "  ");
    }
    for (from, to) in [
        ("Less than a second", "AGE"),
        ("About a minute", "AGE"),
        ("About an hour", "AGE"),
        ("TIME TIME TIME", "TIME"),
        ("TIME TIME", "TIME"),
    ] {
        out = out.replace(from, to);
    }
    ages(&out)
}

/// Replaces `3 seconds` and the like.
fn ages(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let mut out: Vec<&str> = Vec::new();
    for word in words {
        let unit = word.trim_end_matches([')', ',', '"']).trim_end_matches('s');
        let is_age = ["second", "minute", "hour"].contains(&unit)
            && out.last().is_some_and(|last| {
                let digits = last.trim_start_matches(['(', '"']);
                !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
            });
        if is_age {
            out.pop();
            out.push("AGE");
        } else {
            out.push(word);
        }
    }
    out.join(" ")
}

/// Makes equal a run of letters, digits and `.:+-`.
fn normal_run(run: &str) -> String {
    let end = run.trim_end_matches([':', '.']).len();
    let (word, tail) = run.split_at(end);
    let kind = if is_id(word) {
        "ID"
    } else if word.strip_prefix("sha256:").is_some_and(is_id) {
        "sha256:ID"
    } else if is_time(word) {
        "TIME"
    } else if is_own_address(word) {
        "IP"
    } else if is_link_address(word) {
        "MAC"
    } else {
        return ports(run);
    };
    format!("{kind}{tail}")
}

fn is_id(word: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    [12, 64].contains(&word.len()) && word.bytes().all(is_hex)
}

/// True for `2026-01-02…`, `10:20:30.4` and `+0000`.
fn is_time(word: &str) -> bool {
    let shape: String = word
        .chars()
        .map(|letter| if letter.is_ascii_digit() { '0' } else { letter })
        .collect();
    shape.starts_with("0000-00-00") || shape.starts_with("00:00:00") || shape == "+0000"
}

/// True for addresses that engines choose; tests choose none of these.
fn is_own_address(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    let is_number = |part: &&str| part.parse::<u8>().is_ok();
    parts.len() == 4
        && parts.iter().all(is_number)
        && (word.starts_with("172.") || word.starts_with("192.168."))
}

fn is_link_address(word: &str) -> bool {
    let parts: Vec<&str> = word.split(':').collect();
    let is_byte = |part: &&str| part.len() == 2 && u8::from_str_radix(part, 16).is_ok();
    // The one that a test chooses stays as it is.
    parts.len() == 6 && parts.iter().all(is_byte) && word != "02:42:0a:00:00:07"
}

fn ports(run: &str) -> String {
    let parts = run.split(':').map(|part| {
        let number = part.trim_end_matches('-');
        match number.parse::<u32>() {
            Ok(port) if (FIRST_FREE_PORT..65536).contains(&port) => part.replace(number, "PORT"),
            _ => part.to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_from_run_to_run() {
        let id = "0123456789ab".repeat(6)[..64].to_owned();
        for (text, expected) in [
            (id.as_str(), "ID"),
            (&format!("Deleted: sha256:{id}"), "Deleted: sha256:ID"),
            ("0123456789ab   busybox     Up 3 seconds  ", "ID  busybox  Up AGE"),
            ("Exited (0) Less than a second ago", "Exited (0) AGE ago"),
            ("Exited (137) 12 seconds ago", "Exited (137) AGE ago"),
            ("2026-11-26 04:10:11 +0000 UTC", "TIME UTC"),
            ("\"2026-11-26T04:10:11.123456Z\"", "\"TIME\""),
            ("172.17.0.2\tbox", "IP\tbox"),
            ("10.77.0.7/24", "10.77.0.7/24"),
            ("02:42:ac:11:00:02", "MAC"),
            ("0.0.0.0:32768->80/tcp", "0.0.0.0:PORT->80/tcp"),
            ("127.0.0.1:18080->80/tcp", "127.0.0.1:18080->80/tcp"),
            ("busybox one two", "busybox one two"),
        ] {
            assert_eq!(normal(text), format!("{expected}\n"), "{text}");
        }
    }

    #[test]
    fn kinds_of_differences() {
        let answer = |code, out: &str, errors: &str| Answer {
            code,
            out: out.to_owned(),
            errors: errors.to_owned(),
        };
        let theirs = answer(0, "a\n", "");
        for (ours, expected) in [
            (answer(0, "a\n", ""), Difference::None),
            (answer(0, "a\n", "warning"), Difference::Words),
            (answer(0, "b\n", ""), Difference::Output),
            (answer(1, "a\n", ""), Difference::Code),
        ] {
            assert_eq!(difference(&ours, &theirs), expected);
        }
    }

    #[test]
    fn fields_of_objects() {
        let theirs = "[{\"Id\": \"x\", \"List\": [{\"A\": 1}]}]";
        for (ours, alike) in [
            (
                "[{\"Id\": \"y\", \"List\": [{\"A\": 2, \"B\": 3}], \"Own\": 1}]",
                true,
            ),
            ("[{\"Id\": \"y\", \"List\": []}]", false),
            ("[\"Id\"]", false),
            ("[]", false),
        ] {
            assert_eq!(is_output_alike(ours, theirs), alike, "{ours}");
        }
        assert!(!is_output_alike("[\"b\"]", "[\"a\"]"));
        assert_eq!(missing_fields("[{}]", theirs), [".Id", ".List", ".List.A"]);
    }
}
