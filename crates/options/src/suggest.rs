//! "Did you mean": the nearest of some names.

/// Longest compared word, in characters: options are shorter, and the comparison is quadratic.
const LONGEST: usize = 32;

/// Returns the candidate that differs from `word` in the fewest typing slips, if they are few enough. Few slips turn
/// any short word into any other, and people rarely mistype the first letter: short words must begin alike.
pub(crate) fn nearest(word: &str, candidates: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let length = word.chars().count();
    let allowed = match length {
        0 | 1 => return None,
        2..=5 => 1,
        6..=LONGEST => 2,
        _ => return None,
    };
    let is_near = |(slips, candidate): &(usize, &str)| {
        let needs_beginning = length <= 3 || *slips > 1;
        *slips <= allowed && (!needs_beginning || begin_alike(word, candidate))
    };
    candidates
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(is_near)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// True if the first letters are the same, or the first two are swapped.
fn begin_alike(a: &str, b: &str) -> bool {
    let (mut a, mut b) = (a.chars(), b.chars());
    let (first, other) = (a.next(), b.next());
    first == other || (first == b.next() && other == a.next())
}

/// Counts the insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string
/// alignment).
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    // The first row and column count insertions and deletions alone; the rest is overwritten.
    let mut rows: Vec<Vec<usize>> = (0..=a.len()).map(|i| (i..=i + b.len()).collect()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let substituted = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substituted.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_count_one_each() {
        for (a, b, expected) in [
            ("rm", "rm", 0),
            ("mr", "rm", 1),
            ("", "rm", 2),
            ("volum", "volume", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn only_near_names_are_suggested() {
        let names = ["rm", "name", "network", "volume"];
        for (word, expected) in [
            ("rmm", Some("rm")),
            ("nmae", Some("name")),
            ("netwrok", Some("network")),
            ("mr", Some("rm")),
            ("etwork", Some("network")),
            ("um", None),
            ("nemo", None),
            ("valun", None),
            ("x", None),
            ("detach", None),
        ] {
            assert_eq!(nearest(word, names.into_iter()), expected, "{word}");
        }
        assert_eq!(nearest(&"n".repeat(1 << 20), names.into_iter()), None);
    }
}
