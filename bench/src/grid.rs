//! Grids: one paragraph of a scenario stands for a paragraph for each combination of some values.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value};

/// Key of a paragraph with the values: an object of names, each with a list.
const EACH: &str = "each";

/// Replaces the paragraphs with [`EACH`] in a list by one paragraph for each combination. In their texts `{NAME}` is the value.
///
/// # Errors
/// A name has something else than a list of values.
pub(crate) fn expand(paragraphs: &mut Vec<Value>) -> Result<()> {
    let mut expanded = Vec::new();
    for mut paragraph in std::mem::take(paragraphs) {
        let each = match &mut paragraph {
            Value::Object(fields) => fields.remove(EACH),
            _ => None,
        };
        match each {
            None => expanded.push(paragraph),
            Some(Value::Object(each)) => {
                for values in combinations(&each)? {
                    expanded.push(filled(&paragraph, &values));
                }
            }
            Some(_) => bail!("{EACH:?} is no object of names with lists"),
        }
    }
    *paragraphs = expanded;
    Ok(())
}

/// Lists all combinations of values; the last name changes fastest.
fn combinations(each: &Map<String, Value>) -> Result<Vec<Vec<(String, Value)>>> {
    let mut all: Vec<Vec<(String, Value)>> = vec![Vec::new()];
    for (name, values) in each {
        let values = values
            .as_array()
            .with_context(|| format!("{name} has no list of values"))?;
        ensure!(!values.is_empty(), "{name} has no value");
        let longer = all.iter().flat_map(|before| {
            values.iter().map(move |value| {
                let mut longer = before.clone();
                longer.push((name.clone(), value.clone()));
                longer
            })
        });
        all = longer.collect();
    }
    Ok(all)
}

/// Returns a copy with values in the places of their names.
fn filled(value: &Value, values: &[(String, Value)]) -> Value {
    match value {
        Value::String(text) => {
            let mut text = text.clone();
            for (name, value) in values {
                let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                text = text.replace(&format!("{{{name}}}"), &plain);
            }
            Value::String(text)
        }
        Value::Array(items) => items.iter().map(|item| filled(item, values)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            Value::Object(
                fields
                    .map(|(key, value)| (key.clone(), filled(value, values)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_paragraph_is_there_for_each_combination() {
        let mut paragraphs = vec![
            json!({"name": "alone", "argv": ["{tote}"]}),
            json!({"name": "x-{T}-{R}", "argv": ["load", "n={R}", "{tote}", {"run": ["{T}"]}],
                   "each": {"T": [1, 4], "R": ["few", 50]}}),
        ];
        expand(&mut paragraphs).unwrap();
        let names: Vec<_> = paragraphs
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert_eq!(names.len(), 5);
        for name in ["alone", "x-1-few", "x-1-50", "x-4-few", "x-4-50"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        let four = paragraphs.iter().find(|one| one["name"] == "x-4-50").unwrap();
        assert_eq!(
            *four,
            json!({"name": "x-4-50", "argv": ["load", "n=50", "{tote}", {"run": ["4"]}]})
        );
    }

    #[test]
    fn values_that_are_none_are_refused() {
        for each in [json!(1), json!({"T": 1}), json!({"T": []})] {
            let mut paragraphs = vec![json!({"name": "x", "each": each})];
            assert!(expand(&mut paragraphs).is_err(), "{paragraphs:?}");
        }
    }
}
