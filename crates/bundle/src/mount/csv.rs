/// Why a text is not one line of comma-separated values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CsvError {
    /// A quote in the middle of a field.
    #[error("bare \" in field {0:?}: quote the whole field, as in \"src=/a,b\"")]
    BareQuote(String),
    /// A quoted field that does not end.
    #[error("unterminated \" in {0:?}")]
    Unterminated(String),
}

/// Splits a line at its commas. A field in double quotes may hold commas, and `""` stands for a quote in it.
pub(crate) fn split(line: &str) -> Result<Vec<String>, CsvError> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (field, after) = rest.split_at(end);
                if field.contains('"') {
                    return Err(CsvError::BareQuote(field.to_owned()));
                }
                (field.to_owned(), after)
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(fields),
            None => return Err(CsvError::BareQuote(after.to_owned())),
        }
    }
}

/// Reads a quoted field whose opening quote is consumed already; returns its value and the text after the closing
/// quote.
fn quoted_field(text: &str) -> Result<(String, &str), CsvError> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest
            .split_once('"')
            .ok_or_else(|| CsvError::Unterminated(text.to_owned()))?;
        field.push_str(part);
        match after.strip_prefix('"') {
            Some(next) => {
                field.push('"');
                rest = next;
            }
            None => return Ok((field, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    #[test]
    fn fields() {
        assert_eq!(split("a=1,b").unwrap(), ["a=1", "b"]);
        assert_eq!(split("\"a=1,2\",b").unwrap(), ["a=1,2", "b"]);
        assert_eq!(split("\"a\"\"b\"").unwrap(), ["a\"b"]);
        assert_eq!(split("").unwrap(), [""]);
        assert_eq!(split("a,").unwrap(), ["a", ""]);
        for line in ["a\"b", "\"a\"b", "\"a", "\""] {
            assert!(split(line).is_err(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_is_quoted_reads_back(fields in proptest::collection::vec(any::<String>(), 1..5)) {
            let line = fields.iter().map(|field| format!("\"{}\"", field.replace('"', "\"\""))).collect::<Vec<_>>().join(",");
            prop_assert_eq!(split(&line), Ok(fields));
        }

        #[test]
        fn never_panics(line in any::<String>()) {
            let _parsed = split(&line);
        }
    }
}
