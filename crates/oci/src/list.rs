//! The command `list`.

use crate::{Id, OciError, State, Store, state};
use std::fmt::Write as _;
use tote_sys::best_effort;

/// Container of the list.
pub type Listed = State;

/// Returns every container, in the order of the ids.
///
/// # Errors
/// The store cannot be read. A container that is removed meanwhile is left out, and so is one with an unreadable
/// record.
pub fn list(store: &Store) -> Result<Vec<Listed>, OciError> {
    let one = |id: Id| store.open(&id).and_then(|place| state::of(&place, &id)).ok();
    Ok(store.ids()?.into_iter().filter_map(one).collect())
}

/// Formats the list for people, in runc's columns.
#[must_use]
pub fn table(containers: &[Listed]) -> String {
    let mut rows = vec![["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"].map(ToOwned::to_owned)];
    rows.extend(containers.iter().map(|one| {
        [
            one.id.clone(),
            one.pid.to_string(),
            one.status.clone(),
            one.bundle.clone(),
            one.created.clone(),
            one.owner.clone(),
        ]
    }));
    let mut widths = [9usize; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &rows {
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            // Writing to a String cannot fail.
            best_effort(if at + 1 == row.len() {
                writeln!(text, "{cell}")
            } else {
                write!(text, "{cell:width$}   ")
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        let one = State {
            oci_version: String::new(),
            id: "a-longer-name".to_owned(),
            pid: 7,
            status: "running".to_owned(),
            bundle: "/b".to_owned(),
            rootfs: String::new(),
            created: "T".to_owned(),
            annotations: std::collections::BTreeMap::new(),
            owner: "root".to_owned(),
        };
        let text = table(&[one]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "ID              PID         STATUS      BUNDLE      CREATED     OWNER"
        );
        assert_eq!(
            lines[1],
            "a-longer-name   7           running     /b          T           root"
        );
    }
}
