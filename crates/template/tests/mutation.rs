//! Random templates: each ends, with a text or a short error.
#![allow(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use proptest::prelude::*;
use serde_json::json;
use tote_template::Template;

/// Bound of an error's length, in bytes; longer ones are useless.
const LONGEST_ERROR: usize = 20_000;

fn fragment() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec![
            "{{", "}}", "{{-", " -}}", ".", ".A", ".A.B", "$", "$x", " := ", " = ", "|", "(", ")", " ", ",", "if ",
            "else ", "end", "range ", "with ", "break", "continue", "json ", "index ", "printf ", "\"%9d%s\"", "`", "\"",
            "'", "\\", "0", "-1", "18446744073709551616", "1e999", "0x", "/*", "*/", "nil", "true", "eq ", "split ",
            "slice ", "pad ", "len ", "é", "{{range 9}}", "{{end}}", "{{if .A}}", "{{else}}", "{{$x := 1}}",
        ]).prop_map(ToOwned::to_owned),
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn any_template_ends(parts in prop::collection::vec(fragment(), 0..40)) {
        let template = parts.concat();
        let value = json!({ "A": { "B": ["x", 1, null, { "é": "\u{0}" }] }, "N": 1.5 });
        let result = Template::parse(&template).and_then(|template| template.render(&value));
        if let Err(error) = result {
            prop_assert!(error.to_string().len() < LONGEST_ERROR);
        }
    }
}
