//! Options of file systems, as mount(2) takes them in one text and fsconfig(2) one by one.

use crate::error::PlanError;
use crate::plan::cstring;
use crate::root::parameter;
use tote_rootfs::OverlayOptions;
use tote_sys::{Parameter, Value};

/// Splits an option at its commas, as the kernel does with the data of mount(2): not after a backslash, which a file
/// system may want for itself, and not between quotes, which security labels contain.
pub(crate) fn split(option: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (place, byte) in option.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                parts.push(&option[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&option[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Removes the quotes that keep the commas of a security label together.
pub(crate) fn unquoted<'v>(key: &str, value: &'v str) -> &'v str {
    let inside = || value.strip_prefix('"')?.strip_suffix('"');
    match key {
        "context" | "fscontext" | "defcontext" | "rootcontext" => inside().unwrap_or(value),
        _ => value,
    }
}

/// Converts an option of overlayfs. Values that are too long for fsconfig(2) are passed layer by layer, or by
/// descriptor.
pub(crate) fn overlay(key: &str, value: &str) -> Result<Vec<Parameter>, PlanError> {
    let path = |key: &str, value: &str| {
        Ok(Parameter {
            key: cstring("parameter", key)?,
            value: Value::Path(cstring("parameter", value)?),
        })
    };
    match key {
        "upperdir" | "workdir" => Ok(vec![path(key, value)?]),
        "lowerdir" if value.len() > OverlayOptions::MAX_VALUE => {
            let layers = layers(value);
            match &layers[..] {
                [_] => Ok(vec![path("lowerdir", value)?]),
                several => several.iter().map(|(key, layer)| path(key, layer)).collect(),
            }
        }
        _ => Ok(vec![parameter(key, value)?]),
    }
}

/// Returns the layers of `lowerdir`: layers after a doubled colon have data only. Backslashes are removed.
fn layers(value: &str) -> Vec<(&'static str, String)> {
    let mut layers = vec![("lowerdir+", String::new())];
    let mut letters = value.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            ':' => {
                let is_data = letters.next_if_eq(&':').is_some();
                let key = if is_data { "datadir+" } else { "lowerdir+" };
                layers.push((key, String::new()));
            }
            letter => {
                let letter = if letter == '\\' {
                    letters.next().unwrap_or(letter)
                } else {
                    letter
                };
                if let Some((_, layer)) = layers.last_mut() {
                    layer.push(letter);
                }
            }
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas() {
        for (option, parts) in [
            ("size=64k", &["size=64k"][..]),
            ("size=64k,mode=755", &["size=64k", "mode=755"]),
            (
                "context=\"u:r:t:s0:c1,c2\",size=1",
                &["context=\"u:r:t:s0:c1,c2\"", "size=1"],
            ),
            ("lowerdir=/a\\,b", &["lowerdir=/a\\,b"]),
            (",,", &[]),
            ("", &[]),
        ] {
            assert_eq!(split(option), parts, "{option}");
        }
    }

    #[test]
    fn labels() {
        assert_eq!(unquoted("context", "\"a,b\""), "a,b");
        assert_eq!(unquoted("context", "a"), "a");
        assert_eq!(unquoted("name", "\"a\""), "\"a\"");
    }

    fn words(key: &str, value: &str) -> Vec<(String, String)> {
        let parameters = overlay(key, value).unwrap();
        let word = |parameter: Parameter| match parameter.value {
            Value::Text(value) | Value::Path(value) => {
                (parameter.key.into_string().unwrap(), value.into_string().unwrap())
            }
            other => panic!("{other:?}"),
        };
        parameters.into_iter().map(word).collect()
    }

    #[test]
    fn long_lists_of_layers() {
        let short = "/a:/b";
        assert_eq!(words("lowerdir", short), [("lowerdir".into(), short.into())]);
        let long = "x".repeat(250);
        let several = format!("/1{long}:/2\\:{long}::/3");
        assert_eq!(
            words("lowerdir", &several),
            [
                ("lowerdir+".into(), format!("/1{long}")),
                ("lowerdir+".into(), format!("/2:{long}")),
                ("datadir+".into(), "/3".into()),
            ]
        );
        let one = format!("/12345{long}");
        assert_eq!(words("lowerdir", &one), [("lowerdir".into(), one.clone())]);
        assert_eq!(words("xino", "off"), [("xino".into(), "off".into())]);
    }
}
