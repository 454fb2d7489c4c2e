//! Suggestions for names that are misspelled.

/// Finds the known name that differs from `name` in one place: by one letter, or by two letters that are exchanged.
#[must_use]
pub fn similar<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    known.iter().copied().find(|known| {
        let same = known
            .bytes()
            .zip(name.bytes())
            .take_while(|(one, other)| one == other)
            .count();
        let (one, other) = (&known.as_bytes()[same..], &name.as_bytes()[same..]);
        match (one, other) {
            ([_, rest @ ..], other) if rest == other => true,
            (one, [_, rest @ ..]) if one == rest => true,
            ([first, second, rest @ ..], [third, fourth, others @ ..])
                if (first, second) == (fourth, third) && rest == others =>
            {
                true
            }
            ([_, rest @ ..], [_, others @ ..]) => rest == others,
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::similar;

    #[test]
    fn names_that_differ_in_one_place() {
        let known = ["base", "builder"];
        for (name, found) in [
            ("bulider", Some("builder")),
            ("buildr", Some("builder")),
            ("builders", Some("builder")),
            ("case", Some("base")),
            ("bliuder", None),
            ("other", None),
        ] {
            assert_eq!(similar(name, &known), found, "{name}");
        }
    }
}
