//! Documents that are nearly right: an error in one short line is fine, a panic or a different document is not.
#![allow(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use tote_spec::Spec;

/// Document with every property.
const WHOLE: &str = include_str!("whole.json");

/// Bound of an error in bytes; longer texts would let a hostile document flood a log.
const LONGEST_ERROR: usize = 1024;

fn whole() -> Value {
    serde_json::from_str(WHOLE).unwrap()
}

/// Collects pointers to every value, the document itself first.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(members) => members
            .iter()
            .for_each(|(name, value)| pointers(value, &format!("{at}/{name}"), all)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(index, value)| pointers(value, &format!("{at}/{index}"), all)),
        _ => {}
    }
}

fn all_pointers() -> Vec<String> {
    let mut all = Vec::new();
    pointers(&whole(), "", &mut all);
    all
}

/// Checks that the result is an error of one short line, or a document that reads back as it was written.
fn check(text: &str) -> Result<(), String> {
    match Spec::parse(text) {
        Ok(spec) => {
            let again = serde_json::to_string(&spec).unwrap();
            (Spec::parse(&again).unwrap() == spec)
                .then_some(())
                .ok_or_else(|| format!("read back as another: {again}"))
        }
        Err(error) => {
            let error = error.to_string();
            let good = error.starts_with("config.json: ")
                && error.len() <= LONGEST_ERROR
                && !error.contains(char::is_control);
            good.then_some(()).ok_or(error)
        }
    }
}

fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![
            Just(-1i64),
            Just(0),
            Just(i64::MIN),
            Just(1 << 32),
            Just(i64::MAX)
        ]
        .prop_map(Value::from),
        "\\PC{0,40}|[\\n\\r\\t\\x00-\\x1f]{1,5}".prop_map(Value::from),
        (1usize..100_000).prop_map(|length| Value::from("\n".repeat(length))),
        Just(json!([])),
        Just(json!({})),
        Just(json!([[]])),
        Just(json!({ "type": {}, "path": [] })),
    ]
}

#[derive(Clone, Debug)]
enum Mutation {
    /// Replaces the value by this one.
    Replace(Value),
    /// Removes the property.
    Remove,
    /// Repeats the value a few thousand times.
    Repeat(u16),
    /// Puts the value inside that many lists.
    Nest(u16),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        6 => odd().prop_map(Mutation::Replace),
        3 => Just(Mutation::Remove),
        1 => (0u16..3000).prop_map(Mutation::Repeat),
        1 => (0u16..3000).prop_map(Mutation::Nest),
    ]
}

/// Returns text: a value nested deeper than the parser goes cannot be a [`Value`] that is dropped safely.
fn mutate(spec: &mut Value, pointer: &str, mutation: Mutation) -> String {
    const HERE: &str = "\u{1}here\u{1}";
    let marked = |spec: &mut Value, inside: String| {
        *spec.pointer_mut(pointer).unwrap() = Value::from(HERE);
        spec.to_string()
            .replacen(&Value::from(HERE).to_string(), &inside, 1)
    };
    match mutation {
        Mutation::Replace(value) => *spec.pointer_mut(pointer).unwrap() = value,
        Mutation::Remove => {
            let (parent, name) = match pointer.rsplit_once('/') {
                Some((parent, name)) => (spec.pointer_mut(parent), name),
                // The pointer is to the whole document.
                None => (None, ""),
            };
            match parent {
                Some(Value::Object(members)) => drop(members.remove(name)),
                Some(Value::Array(items)) => drop(items.remove(name.parse().unwrap())),
                _ => *spec = Value::Null,
            }
        }
        Mutation::Repeat(times) => {
            let value = spec.pointer(pointer).unwrap().to_string();
            return marked(spec, format!("[{}]", vec![value; times.into()].join(",")));
        }
        Mutation::Nest(depth) => {
            let value = spec.pointer(pointer).unwrap().to_string();
            let (open, close) = ("[".repeat(depth.into()), "]".repeat(depth.into()));
            return marked(spec, format!("{open}{value}{close}"));
        }
    }
    spec.to_string()
}

#[test]
fn the_whole_is_known() {
    let spec = Spec::parse(WHOLE).unwrap();
    // The types lack a property that is missing after reading and writing.
    let mut written = serde_json::to_value(&spec).unwrap();
    let mut kept = Vec::new();
    pointers(&written, "", &mut kept);
    let lost: Vec<_> = all_pointers()
        .into_iter()
        .filter(|pointer| {
            let value = written.pointer_mut(pointer);
            // Empty lists and defaults need not be written.
            value.is_none()
                && !matches!(whole().pointer(pointer), Some(Value::Array(items)) if items.is_empty())
        })
        .filter(|pointer| {
            !matches!(
                whole().pointer(pointer),
                Some(Value::Bool(false) | Value::Number(_))
            )
        })
        .collect();
    assert_eq!(lost, Vec::<String>::new(), "of {}", kept.len());
}

/// Every value is put in the place of every other one, once.
#[test]
fn every_place_refuses_or_takes_every_kind_of_value() {
    let pointers = all_pointers();
    for pointer in &pointers {
        for value in [
            json!(null),
            json!(-1),
            json!(1e300),
            json!("\n"),
            json!([{}]),
            json!({"x": []}),
        ] {
            let text = mutate(&mut whole(), pointer, Mutation::Replace(value.clone()));
            if let Err(why) = check(&text) {
                panic!("{value} at {pointer}: {why}");
            }
        }
        let text = mutate(&mut whole(), pointer, Mutation::Remove);
        assert_eq!(check(&text), Ok(()), "without {pointer}");
    }
}

/// The test uses ten megabytes of repeated text.
#[test]
fn too_much_of_everything() {
    const MUCH: usize = 10 << 20;
    let fill = |one: &str| one.repeat(MUCH / one.len());
    for text in [
        fill("["),
        fill("{\"a\":"),
        fill("\""),
        fill(" "),
        fill("\n"),
        format!(r#"{{"ociVersion":"{}"}}"#, fill("1")),
        format!(r#"{{"ociVersion":"{}"}}"#, fill("\\n")),
        format!(r#"{{"ociVersion":"1.2.0","x":[{}0]}}"#, fill("0,")),
        format!(r#"{{"ociVersion":"1.2.0","root":{{"path":"{}"}}}}"#, fill("x")),
        format!(
            r#"{{"ociVersion":"1.2.0","linux":{{"namespaces":[{{"type":"{}"}}]}}}}"#,
            fill("\\n")
        ),
        format!(r#"{{"ociVersion":"1.2.0","process":"{}"}}"#, fill("é")),
        format!(
            r#"{{"ociVersion":"1.2.0","process":{{"user":{{"uid":{}}}}}}}"#,
            fill("9")
        ),
        format!(r#"{{"ociVersion":"1.2.0","mounts":[{}{{}}]}}"#, fill("{},")),
        format!(
            r#"{{"ociVersion":"1.2.0",{}"hostname":"h"}}"#,
            fill(r#""hostname":"h","#)
        ),
    ] {
        assert_eq!(
            check(&text),
            Ok(()),
            "{}",
            text.chars().take(60).collect::<String>()
        );
    }
}

proptest! {
    #[test]
    fn mutations_of_the_whole(changes in proptest::collection::vec((any::<Index>(), mutation()), 1..4)) {
        let mut spec = whole();
        let mut text = WHOLE.to_owned();
        for (place, mutation) in changes {
            let mut pointers_now = Vec::new();
            pointers(&spec, "", &mut pointers_now);
            text = mutate(&mut spec, place.get::<String>(&pointers_now), mutation);
            // A text that cannot be read as a value cannot be changed further.
            match serde_json::from_str(&text) {
                Ok(value) => spec = value,
                Err(_) => break,
            }
        }
        prop_assert_eq!(check(&text), Ok(()));
    }

    #[test]
    fn broken_texts(cut in any::<Index>(), byte: u8, garbage in "\\PC{0,20}") {
        let mut bytes = WHOLE.as_bytes().to_vec();
        let at = cut.index(bytes.len());
        prop_assert_eq!(check(&WHOLE[..at]), Ok(()));
        bytes[at] = byte;
        prop_assert_eq!(check(&String::from_utf8_lossy(&bytes)), Ok(()));
        prop_assert_eq!(check(&format!("{WHOLE}{garbage}")), Ok(()));
    }
}
