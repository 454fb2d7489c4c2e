//! Sources of mounts, which docker's command line makes absolute.

use std::ffi::OsStr;
use std::path::Path;
use tote_engine::EngineError;

/// Makes the source of a `--volume` such as `./data:/x` absolute, as docker's command line does.
///
/// # Errors
/// A path that is not UTF-8: another one in its place would be made, and mounted without a word.
pub(crate) fn of_volume(value: &OsStr) -> Result<String, EngineError> {
    let value = text(value)?;
    let (source, rest) = value.split_once(':').unwrap_or((value, ""));
    match absolute(source)? {
        Some(path) => Ok(format!("{path}:{rest}")),
        None => Ok(value.to_owned()),
    }
}

/// Makes the source of a `--mount type=bind` absolute if it begins with a dot, as docker's command line does.
///
/// # Errors
/// A path that is not UTF-8.
pub(crate) fn of_mount(value: &OsStr) -> Result<String, EngineError> {
    let value = text(value)?;
    let mut fields: Vec<&str> = value.split(',').collect();
    let is_bind = fields.iter().any(|field| field.trim_matches('"') == "type=bind");
    if !is_bind {
        return Ok(value.to_owned());
    }
    let mut places = fields.iter().enumerate();
    let Some((at, (quote, key, path))) = places.find_map(|(at, field)| Some((at, source(field)?))) else {
        return Ok(value.to_owned());
    };
    let (path, end) = path.strip_suffix('"').map_or((path, ""), |path| (path, "\""));
    let Some(path) = absolute(path)? else {
        return Ok(value.to_owned());
    };
    let field = match quote {
        // The directory may need the quotes that its name alone did not.
        "" if path.contains([',', '"']) => format!("\"{key}={}\"", path.replace('"', "\"\"")),
        "" => format!("{key}={path}"),
        quote => {
            let (directory, name) = path.rsplit_once('/').unwrap_or(("", &path));
            format!("{quote}{key}={}/{name}{end}", directory.replace('"', "\"\""))
        }
    };
    fields[at] = &field;
    Ok(fields.join(","))
}

/// Splits a field that names a source: a quote before it, the key, and the path. A comma in a quoted source ends what is a field here;
/// what follows it stays as it is.
fn source(field: &str) -> Option<(&str, &str, &str)> {
    let (quote, field) = match field.strip_prefix('"') {
        Some(quoted) => ("\"", quoted),
        None => ("", field),
    };
    let (key, path) = field.split_once('=')?;
    matches!(key, "source" | "src").then_some((quote, key, path))
}

/// Returns the whole path of a source that docker's command line takes for one below the working directory.
fn absolute(source: &str) -> Result<Option<String>, EngineError> {
    if !matches!(source, "." | "..") && !source.starts_with("./") && !source.starts_with("../") {
        return Ok(None);
    }
    // The caller finds the reason when it looks for the source.
    let Ok(path) = std::path::absolute(source) else {
        return Ok(None);
    };
    text(path.as_os_str()).map(|path| Some(path.to_owned()))
}

fn text(value: &OsStr) -> Result<&str, EngineError> {
    value.to_str().ok_or_else(|| {
        EngineError::Usage(format!(
            "cannot mount {:?}: its name is not UTF-8, and a directory of another name would be mounted in its place; rename it, or \
             mount a directory above it",
            Path::new(value)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;

    fn here() -> String {
        let below = std::path::absolute("x").unwrap();
        below.parent().unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn sources() {
        let here = here();
        for (given, expected) in [
            (".:/m", format!("{here}/.:/m")),
            ("..:/m:ro", format!("{here}/..:/m:ro")),
            ("../x:/m", format!("{here}/../x:/m")),
            ("./x:/m", format!("{here}/x:/m")),
            ("...:/m", "...:/m".to_owned()),
            (".x:/m", ".x:/m".to_owned()),
            ("data:/m", "data:/m".to_owned()),
            ("/a:/m", "/a:/m".to_owned()),
        ] {
            let expected = expected.replace("/.:", ":");
            assert_eq!(of_volume(OsStr::new(given)).unwrap(), expected, "{given}");
        }
    }

    #[test]
    fn sources_in_fields() {
        let here = here();
        for (given, expected) in [
            (
                "type=bind,src=../a,dst=/m",
                format!("type=bind,src={here}/../a,dst=/m"),
            ),
            (
                "type=bind,source=..,dst=/m",
                format!("type=bind,source={here}/..,dst=/m"),
            ),
            (
                "type=bind,\"src=../c,d\",dst=/m",
                format!("type=bind,\"src={here}/../c,d\",dst=/m"),
            ),
            (
                "\"type=bind\",\"src=./c\",dst=/m",
                format!("\"type=bind\",\"src={here}/c\",dst=/m"),
            ),
            (
                "type=bind,\"src=./a\"\"b\",dst=/m",
                format!("type=bind,\"src={here}/a\"\"b\",dst=/m"),
            ),
            ("type=bind,src=/a,dst=./m", "type=bind,src=/a,dst=./m".to_owned()),
            (
                "type=volume,src=./a,dst=/m",
                "type=volume,src=./a,dst=/m".to_owned(),
            ),
        ] {
            assert_eq!(of_mount(OsStr::new(given)).unwrap(), expected, "{given}");
        }
    }

    /// No other directory is made in the place of one whose name is not UTF-8.
    #[test]
    fn what_is_not_utf_8_is_refused() {
        assert!(of_volume(OsStr::from_bytes(b"/n\xe9:/m")).is_err());
        assert!(of_mount(OsStr::from_bytes(b"type=bind,src=/n\xe9,dst=/m")).is_err());
        assert!(text(OsStr::from_bytes(b"/n\xe9")).is_err());
    }
}
