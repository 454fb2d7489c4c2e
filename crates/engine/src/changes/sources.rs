//! apt's lists of mirrors, sources.list(5): one line for each, or paragraphs.

/// The first mirror that has a suite.
pub(super) fn mirror(text: &str, suite: &str) -> Option<String> {
    of_lines(text, suite).or_else(|| {
        text.split("\n\n")
            .find_map(|paragraph| of_paragraph(paragraph, suite))
    })
}

/// `deb [OPTIONS] URI SUITE COMPONENTS`
fn of_lines(text: &str, suite: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let rest = line.trim().strip_prefix("deb ")?.trim_start();
        let rest = match rest.strip_prefix('[') {
            Some(options) => options.split_once(']')?.1,
            None => rest,
        };
        let mut words = rest.split_whitespace();
        let uri = words.next()?;
        (words.next()? == suite).then(|| uri.to_owned())
    })
}

/// `Types: deb`, `URIs: …`, `Suites: …`
fn of_paragraph(paragraph: &str, suite: &str) -> Option<String> {
    let field = |name: &str| {
        let mut lines = paragraph.lines().filter_map(|line| line.split_once(':'));
        lines.find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value))
    };
    let has =
        |name, wanted| field(name).is_some_and(|value| value.split_whitespace().any(|word| word == wanted));
    let is_off = has("Enabled", "no");
    let uri = field("URIs")?.split_whitespace().next()?;
    (has("Types", "deb") && has("Suites", suite) && !is_off).then(|| uri.to_owned())
}

#[cfg(test)]
mod tests {
    use super::mirror;

    const TEXT: &str = "\
# a comment
deb-src http://one.example/debian trixie main
deb [arch=amd64 signed-by=/k] http://two.example/debian trixie main
deb http://three.example/debian
Types: deb
URIs: http://four.example/debian http://five.example/debian
Suites: bookworm bookworm-updates

Types: deb
Enabled: no
URIs: http://six.example/debian
Suites: sid
";

    #[test]
    fn mirrors() {
        for (suite, uri) in [
            ("trixie", Some("http://two.example/debian")),
            ("bookworm", Some("http://four.example/debian")),
            ("bookworm-updates", Some("http://four.example/debian")),
            ("sid", None),
            ("book", None),
            ("", None),
        ] {
            assert_eq!(mirror(TEXT, suite).as_deref(), uri, "{suite}");
        }
    }
}
