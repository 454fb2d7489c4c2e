//! How far a pull is: bars that move on a terminal, a line for each event elsewhere.

use crate::text::size;
use crate::{print, warning};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tote_engine::{Digest, LayerStep, PullEvent};

/// Bars are not drawn more often than that.
const REDRAW: Duration = Duration::from_millis(100);

/// Cells of a bar.
const BAR: u64 = 40;

/// What was reported, and what of it is on the screen.
pub(crate) struct Progress {
    quiet: bool,
    terminal: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rows: Vec<Row>,
    /// Rows on the screen, which the next drawing goes over.
    drawn: usize,
    last: Option<Instant>,
}

struct Row {
    digest: Digest,
    size: u64,
    step: LayerStep,
}

impl Progress {
    pub(crate) fn new(quiet: bool, terminal: bool) -> Self {
        Self {
            quiet,
            terminal,
            state: Mutex::default(),
        }
    }

    /// Takes note of what happens; called from any thread.
    pub(crate) fn event(&self, event: PullEvent<'_>) {
        match event {
            PullEvent::Warning(text) => warning(text),
            _ if self.quiet => {}
            PullEvent::From(name) => {
                let version = name.version();
                print(&format!("{version}: Pulling from {}\n", name.repository()));
            }
            PullEvent::Layer { blob, step } if self.terminal => {
                let mut state = self.state();
                state.note(blob.digest, blob.size, step);
                let is_due = state.last.is_none_or(|last| last.elapsed() >= REDRAW);
                if is_due || !matches!(step, LayerStep::Fetching(_)) {
                    state.draw();
                }
            }
            PullEvent::Layer { blob, step } => {
                if !matches!(step, LayerStep::Fetching(_)) {
                    print(&format!("{}: {}\n", blob.digest.short(), words(step)));
                }
            }
        }
    }

    /// Leaves the bars as they are; what is printed next comes below them.
    pub(crate) fn end(&self) {
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, digest: Digest, size: u64, step: LayerStep) {
        match self.rows.iter_mut().find(|row| row.digest == digest) {
            Some(row) => row.step = step,
            None => self.rows.push(Row { digest, size, step }),
        }
    }

    fn draw(&mut self) {
        let mut text = if self.drawn > 0 {
            format!("\x1b[{}A", self.drawn)
        } else {
            String::new()
        };
        for row in &self.rows {
            text += &format!("\r\x1b[K{}\n", line(row));
        }
        print(&text);
        self.drawn = self.rows.len();
        self.last = Some(Instant::now());
    }
}

fn words(step: LayerStep) -> &'static str {
    match step {
        LayerStep::Waiting => "Pulling fs layer",
        LayerStep::Exists => "Already exists",
        LayerStep::Fetching(_) => "Downloading",
        LayerStep::Done => "Pull complete",
    }
}

fn line(row: &Row) -> String {
    let name = row.digest.short();
    match row.step {
        LayerStep::Fetching(received) => {
            let full = received
                .saturating_mul(BAR)
                .checked_div(row.size)
                .unwrap_or(BAR)
                .min(BAR);
            let bar: String = (0..BAR)
                .map(|cell| match cell.cmp(&full) {
                    std::cmp::Ordering::Less => '=',
                    std::cmp::Ordering::Equal => '>',
                    std::cmp::Ordering::Greater => ' ',
                })
                .collect();
            format!(
                "{name}: Downloading [{bar}] {}/{}",
                size(received),
                size(row.size)
            )
        }
        step => format!("{name}: {}", words(step)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars() {
        let row = |step| Row {
            digest: format!("sha256:{}", "ab".repeat(32)).parse().unwrap(),
            size: 1000,
            step,
        };
        assert_eq!(line(&row(LayerStep::Exists)), "abababababab: Already exists");
        let half = line(&row(LayerStep::Fetching(500)));
        assert_eq!(
            half,
            format!(
                "abababababab: Downloading [{}>{}] 500B/1kB",
                "=".repeat(20),
                " ".repeat(19)
            )
        );
        assert!(line(&row(LayerStep::Fetching(u64::MAX))).contains(&"=".repeat(40)));
    }
}
