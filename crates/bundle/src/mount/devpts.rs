//! `--mount type=devpts`: what every container has.

use super::csv;

/// True if a `--mount` asks for the devpts that every container has: `type=devpts,destination=/dev/pts`, as distrobox gives it to podman.
pub(crate) fn is_usual_devpts(text: &str) -> bool {
    let fields = csv::split(text.trim()).unwrap_or_default();
    let is_place = |field: &String| {
        ["target", "dst", "destination"]
            .iter()
            .any(|key| field.strip_prefix(key) == Some("=/dev/pts"))
    };
    fields.len() == 2 && fields.iter().any(|field| field == "type=devpts") && fields.iter().any(is_place)
}

#[cfg(test)]
mod tests {
    use super::super::parse_mount;
    use super::*;

    /// Only the devpts that is there anyway can be asked for.
    #[test]
    fn the_usual_devpts() {
        for (text, expected) in [
            ("type=devpts,destination=/dev/pts", true),
            ("dst=/dev/pts,type=devpts", true),
            ("type=devpts,destination=/x", false),
            ("type=devpts", false),
            ("type=tmpfs,destination=/dev/pts", false),
            ("type=devpts,destination=/dev/pts,uid=5", false),
        ] {
            assert_eq!(is_usual_devpts(text), expected, "{text}");
        }
        let error = parse_mount("type=devpts,destination=/x").unwrap_err().to_string();
        assert!(error.contains("at /dev/pts"), "{error}");
    }
}
