/// Why a text is not a `NAME=VALUE` of the kind asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// No name before the `=`.
    #[error("invalid label '{0}': empty name: give NAME=VALUE")]
    EmptyName(String),
    /// White space in the name.
    #[error("label '{0}' contains whitespaces: give NAME=VALUE")]
    Whitespace(String),
    /// No `=`.
    #[error("invalid annotation {0:?}: give NAME=VALUE")]
    NoValue(String),
    /// A kernel parameter that is not per namespace, or a text without `=`.
    #[error(
        "sysctl '{0}' is not allowed: give NAME=VALUE with net.*, fs.mqueue.* or one of kernel.msgmax, \
         kernel.msgmnb, kernel.msgmni, kernel.sem, kernel.shmall, kernel.shmmax, kernel.shmmni, kernel.shm_rmid_forced"
    )]
    Sysctl(String),
}

/// Parses `--label`: a name without white space, `=`, any text. Without `=` the value is empty.
///
/// # Errors
/// [`PairError`], worded as docker does.
pub fn parse_label(text: &str) -> Result<(String, String), PairError> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let name = name.trim_start_matches([' ', '\t']);
    if name.is_empty() {
        return Err(PairError::EmptyName(text.to_owned()));
    }
    if name.contains([' ', '\t']) {
        return Err(PairError::Whitespace(name.to_owned()));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses `--annotation`: a name, `=`, any text.
///
/// # Errors
/// [`PairError::NoValue`] without a name or without `=`.
pub fn parse_key_value(text: &str) -> Result<(String, String), PairError> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(PairError::NoValue(text.to_owned())),
    }
}

const NAMESPACED: [&str; 8] = [
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
];

/// Parses `--sysctl`: `NAME=VALUE`, where the kernel keeps the parameter per namespace. `/` may stand for `.`, as
/// in sysctl(8), unless that would leave the tree of parameters.
///
/// # Errors
/// [`PairError::Sysctl`] for a parameter that would change the host.
pub fn parse_sysctl(text: &str) -> Result<(String, String), PairError> {
    let error = || PairError::Sysctl(text.to_owned());
    let (name, value) = text.split_once('=').ok_or_else(error)?;
    // `net.../../kernel/x` would pass the check of the prefix and then name another file.
    if name.split(['.', '/']).any(str::is_empty) {
        return Err(error());
    }
    let dotted = name.replace('/', ".");
    if NAMESPACED.contains(&dotted.as_str()) || dotted.starts_with("net.") || dotted.starts_with("fs.mqueue.")
    {
        Ok((name.to_owned(), value.to_owned()))
    } else {
        Err(error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn labels() {
        assert_eq!(parse_label("a=b=c"), Ok(pair("a", "b=c")));
        assert_eq!(parse_label(" a"), Ok(pair("a", "")));
        assert_eq!(parse_label("=b"), Err(PairError::EmptyName("=b".to_owned())));
        assert_eq!(parse_label("a b=c"), Err(PairError::Whitespace("a b".to_owned())));
    }

    #[test]
    fn annotations() {
        assert_eq!(parse_key_value("a.b="), Ok(pair("a.b", "")));
        for text in ["a", "=a", ""] {
            assert!(parse_key_value(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_namespaced_sysctls() {
        assert_eq!(
            parse_sysctl("net.ipv4.ip_forward=1"),
            Ok(pair("net.ipv4.ip_forward", "1"))
        );
        assert_eq!(
            parse_sysctl("net/ipv4/conf/eth0.1/x=1"),
            Ok(pair("net/ipv4/conf/eth0.1/x", "1"))
        );
        assert_eq!(parse_sysctl("kernel.shmmax=1"), Ok(pair("kernel.shmmax", "1")));
        for text in [
            "kernel.hostname=x",
            "vm.swappiness=1",
            "net.ipv4.ip_forward",
            "net.../../kernel/core_pattern=x",
            "net=1",
            "net.=1",
            "fs.mqueue=1",
            "=1",
            "",
        ] {
            assert_eq!(parse_sysctl(text), Err(PairError::Sysctl(text.to_owned())));
        }
    }
}
