//! The results: a table for people, and whether the runtime can take the reference's place.

use super::engine::Engine;
use std::fmt;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// Failed, for this reason.
    Failed(String),
    /// Skipped, because this is missing.
    Skipped(String),
}

impl Verdict {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Failed(_) => "failed",
            Verdict::Skipped(_) => "skipped",
        }
    }
}

/// A case with one engine.
#[derive(Debug)]
struct Row {
    engine: Engine,
    case: String,
    /// Results of the runtime and of the reference.
    sides: [Option<Verdict>; 2],
}

#[derive(Debug)]
pub(super) struct Table {
    /// Names of the runtime and of the reference.
    names: Vec<String>,
    rows: Vec<Row>,
}

impl Table {
    pub(super) fn new(runtime: &Path, reference: Option<&Path>) -> Self {
        let name = |path: &Path| {
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        Table {
            names: [Some(runtime), reference]
                .into_iter()
                .flatten()
                .map(name)
                .collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn enter(&mut self, engine: Engine, case: &str, side: usize, verdict: Verdict) {
        let known = self
            .rows
            .iter()
            .position(|row| row.engine == engine && row.case == case);
        let at = known.unwrap_or_else(|| {
            self.rows.push(Row {
                engine,
                case: case.to_owned(),
                sides: [None, None],
            });
            self.rows.len() - 1
        });
        self.rows[at].sides[side] = Some(verdict);
    }

    fn lost(&self, row: &Row) -> bool {
        let failed = matches!(row.sides[0], Some(Verdict::Failed(_)));
        failed && (self.names.len() == 1 || row.sides[1] == Some(Verdict::Passed))
    }

    /// True if the runtime passed every case that the reference passed; without a reference, if it passed all. At
    /// least one case must have passed.
    pub(super) fn is_sound(&self) -> bool {
        let passed = |row: &Row| row.sides[0] == Some(Verdict::Passed);
        self.rows.iter().any(passed) && !self.rows.iter().any(|row| self.lost(row))
    }

    fn engines(&self) -> Vec<Engine> {
        let mut engines: Vec<Engine> = self.rows.iter().map(|row| row.engine).collect();
        engines.dedup();
        engines
    }

    fn cell(&self, engine: Engine, case: &str, side: usize) -> &str {
        let row = self
            .rows
            .iter()
            .find(|row| row.engine == engine && row.case == case);
        row.and_then(|row| row.sides[side].as_ref())
            .map_or("", Verdict::word)
    }

    fn write_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engines = self.engines();
        let columns = || {
            let sides = 0..self.names.len();
            engines
                .iter()
                .flat_map(move |&engine| sides.clone().map(move |side| (engine, side)))
        };
        write!(f, "\n| test |")?;
        for (engine, side) in columns() {
            write!(f, " {}: {} |", engine.name(), self.names[side])?;
        }
        writeln!(f, "\n|---|{}", "---|".repeat(columns().count()))?;
        let mut cases: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !cases.contains(&row.case.as_str()) {
                cases.push(&row.case);
            }
        }
        for case in cases {
            write!(f, "| {case} |")?;
            for (engine, side) in columns() {
                write!(f, " {} |", self.cell(engine, case, side))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_table(f)?;
        writeln!(f)?;
        for row in &self.rows {
            for (name, verdict) in self.names.iter().zip(&row.sides) {
                let (word, why) = match verdict {
                    Some(Verdict::Failed(why)) => ("failed", why),
                    Some(Verdict::Skipped(why)) => ("skipped", why),
                    Some(Verdict::Passed) | None => continue,
                };
                writeln!(f, "{word}: {}, {name}: {}: {why}", row.engine.name(), row.case)?;
            }
        }
        for (side, name) in self.names.iter().enumerate() {
            let count = |word: &str| {
                let verdicts = self.rows.iter().filter_map(|row| row.sides[side].as_ref());
                verdicts.filter(|verdict| verdict.word() == word).count()
            };
            let [passed, failed, skipped] = ["passed", "failed", "skipped"].map(count);
            writeln!(f, "{name}: {passed} passed, {failed} failed, {skipped} skipped")?;
        }
        let lost = self.rows.iter().filter(|row| self.lost(row)).count();
        writeln!(f, "lost: {lost}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_reference_can_do_is_lost() {
        let failed = || Verdict::Failed("because".to_owned());
        let skipped = || Verdict::Skipped("needs x".to_owned());
        let cases = [
            (Verdict::Passed, failed(), true),
            (Verdict::Passed, Verdict::Passed, true),
            (failed(), Verdict::Passed, false),
            (failed(), failed(), false),
            (failed(), skipped(), false),
            (skipped(), Verdict::Passed, false),
        ];
        for (ours, theirs, sound) in cases {
            let mut table = Table::new(Path::new("/a/ours"), Some(Path::new("/b/theirs")));
            table.enter(Engine::Docker, "case", 0, ours.clone());
            table.enter(Engine::Docker, "case", 1, theirs.clone());
            assert_eq!(table.is_sound(), sound, "{ours:?} {theirs:?}");
            let shown = table.to_string();
            let row = format!("| case | {} | {} |", ours.word(), theirs.word());
            assert!(shown.contains(&row), "{shown}");
            assert!(
                shown.contains("| test | docker: ours | docker: theirs |"),
                "{shown}"
            );
        }
    }

    #[test]
    fn without_a_reference_every_failure_is_lost() {
        let mut table = Table::new(Path::new("ours"), None);
        assert!(!table.is_sound(), "nothing was tried");
        table.enter(Engine::Podman, "a", 0, Verdict::Passed);
        assert!(table.is_sound());
        table.enter(Engine::Podman, "b", 0, Verdict::Failed("because".to_owned()));
        assert!(!table.is_sound());
        assert!(table.to_string().contains("failed: podman, ours: b: because"));
    }
}
