//! The steps that made an image, as docker shows them.

use crate::listing::Listing;
use crate::text::{ago, cut, one_line, size};
use serde_json::json;
use tote_engine::{Digest, HistoryRow};

/// Lists the steps of an image with docker's fields. `human` gives sizes and ages in words.
#[must_use]
pub fn history(ids: &[String], steps: &[HistoryRow], whole: bool, human: bool) -> Listing {
    let lines = ids.iter().zip(steps).map(|(id, step)| {
        let by = cut(&one_line(&step.created_by), if whole { usize::MAX } else { 45 });
        let created = step.created.as_deref().unwrap_or_default();
        let at = in_seconds(created);
        json!({
            "ID": id,
            "CreatedAt": at,
            "CreatedSince": if human { ago(created) } else { at.clone() },
            "CreatedBy": by,
            "Size": if human { size(step.size) } else { step.size.to_string() },
            "Comment": one_line(&step.comment),
        })
    });
    let rows: Vec<_> = lines.collect();
    Listing {
        headings: &[
            ("ID", "IMAGE"),
            ("CreatedAt", "CREATED AT"),
            ("CreatedSince", "CREATED"),
            ("CreatedBy", "CREATED BY"),
            ("Size", "SIZE"),
            ("Comment", "COMMENT"),
        ],
        columns: "{{.ID}}\t{{.CreatedSince}}\t{{.CreatedBy}}\t{{.Size}}\t{{.Comment}}".to_owned(),
        also: rows
            .iter()
            .map(|row| json!({ "Created": row["CreatedSince"] }))
            .collect(),
        rows,
        ..Listing::default()
    }
}

/// The ids of the steps: only the last step is an image.
#[must_use]
pub fn ids_of_steps(image: &Digest, steps: usize, whole: bool) -> Vec<String> {
    let id = if whole { image.to_string() } else { image.short() };
    let ids = std::iter::once(id).chain(std::iter::repeat("<missing>".to_owned()));
    ids.take(steps).collect()
}

/// Formats RFC 3339 without fractions of a second, as docker does.
fn in_seconds(time: &str) -> String {
    let Some((seconds, rest)) = time.split_once('.') else {
        return time.to_owned();
    };
    let zone = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    format!("{seconds}{zone}")
}

#[cfg(test)]
mod tests {
    use super::in_seconds;

    #[test]
    fn parts_of_a_second_go() {
        for (time, expected) in [
            ("2019-08-20T20:19:55.211423266Z", "2019-08-20T20:19:55Z"),
            ("2019-08-20T20:19:55.2+01:00", "2019-08-20T20:19:55+01:00"),
            ("2019-08-20T20:19:55Z", "2019-08-20T20:19:55Z"),
            ("", ""),
        ] {
            assert_eq!(in_seconds(time), expected);
        }
    }
}
