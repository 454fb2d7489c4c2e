use std::collections::BTreeSet;

/// Cleans an absolute path lexically, as Go's `path.Clean`: removes `.`, `..`, and doubled and trailing slashes.
/// `None` if the path is relative.
pub(crate) fn clean_absolute(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.strip_prefix('/')?.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

/// True if `path` is `directory` or lies below it; both must be cleaned.
pub(crate) fn is_within(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || directory == "/")
}

/// Matches a path as a shell does within one directory: `*` stands for anything but `/`.
pub(crate) fn glob(pattern: &str, path: &str) -> bool {
    pattern.split('/').count() == path.split('/').count()
        && pattern
            .split('/')
            .zip(path.split('/'))
            .all(|(pattern, part)| glob_part(pattern, part))
}

fn glob_part(pattern: &str, part: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == part;
    };
    let Some(mut left) = part.strip_prefix(first) else {
        return false;
    };
    // The first place where a piece fits is right: it leaves the most room for the pieces after it.
    let mut pieces = rest.split('*').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return left.ends_with(piece);
        }
        match left.find(piece) {
            Some(at) => left = &left[at + piece.len()..],
            None => return false,
        }
    }
    true
}

/// Returns the first path that occurs twice.
pub(crate) fn first_duplicate<'a>(paths: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    paths.into_iter().find(|path| !seen.insert(*path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    #[test]
    fn cleaning() {
        for (path, clean) in [
            ("/", "/"),
            ("//a//b/", "/a/b"),
            ("/a/./b/../c", "/a/c"),
            ("/../..", "/"),
            ("/...", "/..."),
        ] {
            assert_eq!(clean_absolute(path).as_deref(), Some(clean), "{path}");
        }
        assert_eq!(clean_absolute("a"), None);
        assert_eq!(clean_absolute(""), None);
    }

    #[test]
    fn within() {
        assert!(is_within("/a/b", "/a") && is_within("/a", "/a") && is_within("/a", "/"));
        assert!(!is_within("/ab", "/a") && !is_within("/", "/a"));
    }

    #[test]
    fn globs() {
        for (pattern, path, matches) in [
            ("/proc/*", "/proc/kcore", true),
            ("/proc/*", "/proc/a/b", false),
            ("/proc/k*e", "/proc/kcore", true),
            ("/proc/k*r*e", "/proc/kcore", true),
            ("/proc/*x*", "/proc/kcore", false),
            ("/proc/kcore", "/proc/kcore", true),
            ("*", "/proc", false),
        ] {
            assert_eq!(glob(pattern, path), matches, "{pattern} {path}");
        }
    }

    proptest! {
        #[test]
        fn clean_is_clean(path in any::<String>()) {
            if let Some(clean) = clean_absolute(&path) {
                prop_assert!(clean.starts_with('/'));
                prop_assert_eq!(clean_absolute(&clean), Some(clean));
            }
        }

        #[test]
        fn globs_never_panic(pattern in any::<String>(), path in any::<String>()) {
            let _matches = glob(&pattern, &path);
        }
    }
}
