/// Authorisation that a registry demands in a `WWW-Authenticate` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A token of a service that the registry trusts.
    Bearer {
        /// The service's address.
        realm: String,
        /// The service's name for the registry.
        service: Option<String>,
        /// Access that the token must allow.
        scope: Option<String>,
    },
    /// Name and password with each request.
    Basic,
}

/// Parses the challenges of a header; those of unknown schemes are left out.
///
/// The grammar (RFC 9110, 11.6.1) separates challenges and their parameters by the same commas. A word is a
/// parameter's name if an equals sign follows it, and a new scheme otherwise.
pub(crate) fn parse(header: &str) -> Vec<Challenge> {
    let mut found: Vec<(String, Vec<(String, String)>)> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            break;
        }
        match (after.trim_start().strip_prefix('='), found.last_mut()) {
            (Some(value), Some((_, parameters))) => {
                let (value, after) = value_of(value.trim_start());
                parameters.push((word.to_ascii_lowercase(), value));
                rest = after;
            }
            (Some(_), None) => break,
            (None, _) => {
                found.push((word.to_ascii_lowercase(), Vec::new()));
                rest = after;
            }
        }
    }
    found.into_iter().filter_map(challenge).collect()
}

fn challenge((scheme, parameters): (String, Vec<(String, String)>)) -> Option<Challenge> {
    let get = |name: &str| {
        parameters
            .iter()
            .find(|(key, value)| key == name && !value.is_empty())
            .map(|(_, value)| value.clone())
    };
    match scheme.as_str() {
        "basic" => Some(Challenge::Basic),
        "bearer" => Some(Challenge::Bearer {
            realm: get("realm")?,
            service: get("service"),
            scope: get("scope"),
        }),
        _ => None,
    }
}

/// Splits off a token or a quoted string; returns its value and the rest of the text.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        }
    }

    #[test]
    fn headers() {
        for (header, challenges) in [
            (
                r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#,
                vec![bearer(
                    "https://auth.docker.io/token",
                    Some("registry.docker.io"),
                    Some("repository:a/b:pull,push"),
                )],
            ),
            (
                r#"bearer REALM = "x" , service=y"#,
                vec![bearer("x", Some("y"), None)],
            ),
            (
                r#"Basic realm="a, b", Bearer realm="x",scope="""#,
                vec![Challenge::Basic, bearer("x", None, None)],
            ),
            ("Basic", vec![Challenge::Basic]),
            (r#"Negotiate, Basic realm="q\"q""#, vec![Challenge::Basic]),
            ("Bearer service=x", vec![]),
            (
                r#"Bearer realm="unfinished"#,
                vec![bearer("unfinished", None, None)],
            ),
            (r#"Bearer realm="x\"#, vec![bearer("x", None, None)]),
            ("=", vec![]),
            ("realm=x", vec![]),
            (",,, ,", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(parse(header), challenges, "{header}");
        }
    }
}
