//! The needed part of RFC 3986: resolving a `Location`, and encoding a query.

use ureq::http::Uri;

/// Resolves a `Location` against the address that sent it; `None` if the result is not an HTTP address.
pub(crate) fn join(base: &Uri, location: &str) -> Option<Uri> {
    let location = location.split('#').next().unwrap_or_default();
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    let absolute = if location.starts_with("http://") || location.starts_with("https://") {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else if location.starts_with('?') {
        format!("{scheme}://{authority}{}{location}", base.path())
    } else {
        let directory = base
            .path()
            .rsplit_once('/')
            .map_or("", |(directory, _)| directory);
        format!("{scheme}://{authority}{directory}/{location}")
    };
    let uri: Uri = absolute.parse().ok()?;
    // A user name in an address would be sent as credentials, or mislead the reader of an error.
    let host_alone = uri
        .authority()
        .is_some_and(|authority| !authority.as_str().contains('@'));
    host_alone.then_some(uri)
}

/// True if two addresses have the same scheme, host and port.
pub(crate) fn same_origin(a: &Uri, b: &Uri) -> bool {
    a.scheme() == b.scheme()
        && a.host().map(str::to_ascii_lowercase) == b.host().map(str::to_ascii_lowercase)
        && port(a) == port(b)
}

fn port(uri: &Uri) -> u16 {
    let default = if uri.scheme_str() == Some("http") { 80 } else { 443 };
    uri.port_u16().unwrap_or(default)
}

/// Adds parameters to an address, which may already have some.
pub(crate) fn with_query(address: &str, parameters: &[(&str, &str)]) -> String {
    let mut text = address.to_owned();
    for (name, value) in parameters {
        text.push(if text.contains('?') { '&' } else { '?' });
        text.push_str(name);
        text.push('=');
        encode(value, &mut text);
    }
    text
}

/// Encodes the body of a form.
pub(crate) fn form(parameters: &[(&str, &str)]) -> String {
    with_query("", parameters).trim_start_matches('?').to_owned()
}

fn encode(value: &str, text: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations() {
        let base: Uri = "https://r.example:5000/v2/a/blobs/uploads/?x=1".parse().unwrap();
        for (location, joined) in [
            ("https://cdn.example/b?s=1#f", Some("https://cdn.example/b?s=1")),
            ("//cdn.example/b", Some("https://cdn.example/b")),
            ("/v2/b", Some("https://r.example:5000/v2/b")),
            ("?y=2", Some("https://r.example:5000/v2/a/blobs/uploads/?y=2")),
            ("id", Some("https://r.example:5000/v2/a/blobs/uploads/id")),
            ("https://user:word@cdn.example/b", None),
            ("http://", None),
            (
                "ftp://x/y",
                Some("https://r.example:5000/v2/a/blobs/uploads/ftp://x/y"),
            ),
            ("http://a b/", None),
        ] {
            assert_eq!(
                join(&base, location).map(|uri| uri.to_string()).as_deref(),
                joined,
                "{location}"
            );
        }
    }

    #[test]
    fn origins() {
        let same = |a: &str, b: &str| same_origin(&a.parse().unwrap(), &b.parse().unwrap());
        assert!(same("https://a/x", "https://A:443/y"));
        assert!(!same("https://a/x", "http://a/x"));
        assert!(!same("https://a/x", "https://a:444/x"));
        assert!(!same("https://a/x", "https://a.b/x"));
    }

    #[test]
    fn queries() {
        assert_eq!(
            with_query(
                "https://a/t?x=1",
                &[("scope", "repository:a/b:pull,push"), ("s", "é&")]
            ),
            "https://a/t?x=1&scope=repository%3Aa%2Fb%3Apull%2Cpush&s=%C3%A9%26"
        );
        assert_eq!(form(&[("a", "b"), ("c", "d e")]), "a=b&c=d%20e");
    }
}
