//! Progress of a pull or a push: moving bars on a terminal, a line for each event elsewhere.

use crate::tell::{print, print_as_is, warning};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tote_engine::{Digest, LayerStep, PullEvent, PushEvent, PushStep};
use tote_view::size;

/// Minimum time between two drawings of the bars.
pub(crate) const REDRAW: Duration = Duration::from_millis(100);

/// Number of cells of a bar.
const BAR: u64 = 40;

/// The reported progress, and the part of it that is on the screen.
pub(crate) struct Progress {
    quiet: bool,
    terminal: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rows: Vec<Row>,
    /// Number of rows on the screen, which the next drawing overwrites.
    drawn: usize,
    last: Option<Instant>,
}

struct Row {
    digest: Digest,
    cell: Cell,
}

/// Progress of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Words(&'static str),
    /// A word with the bytes done and the bytes in total.
    Moving(&'static str, u64, u64),
}

impl Progress {
    pub(crate) fn new(quiet: bool, terminal: bool) -> Self {
        Self {
            quiet,
            terminal,
            state: Mutex::default(),
        }
    }

    /// Records an event of a pull; may be called from any thread.
    pub(crate) fn event(&self, event: PullEvent<'_>) {
        match event {
            PullEvent::Warning(text) => warning(text),
            _ if self.quiet => {}
            PullEvent::From(name) => {
                let version = name.version();
                print(&format!("{version}: Pulling from {}\n", name.repository()));
            }
            PullEvent::Layer { blob, step } => self.layer(
                &blob.digest,
                match step {
                    LayerStep::Waiting => Cell::Words("Pulling fs layer"),
                    LayerStep::Exists => Cell::Words("Already exists"),
                    LayerStep::Fetching(received) => Cell::Moving("Downloading", received, blob.size),
                    LayerStep::Done => Cell::Words("Pull complete"),
                },
            ),
        }
    }

    /// Records an event of a push; may be called from any thread.
    pub(crate) fn push_event(&self, event: PushEvent<'_>) {
        match event {
            _ if self.quiet => {}
            PushEvent::To(name) => {
                print(&format!("The push refers to repository [{}]\n", name.name()));
            }
            PushEvent::Layer { diff_id, step } => self.layer(
                diff_id,
                match step {
                    PushStep::Compressing => Cell::Words("Preparing"),
                    PushStep::Compressed { done, size } => Cell::Moving("Preparing", done, size),
                    PushStep::Sending { sent, size } => Cell::Moving("Pushing", sent, size),
                    PushStep::Exists => Cell::Words("Layer already exists"),
                    PushStep::Mounted => Cell::Words("Mounted from another repository"),
                    PushStep::Done => Cell::Words("Pushed"),
                },
            ),
        }
    }

    fn layer(&self, digest: &Digest, cell: Cell) {
        match cell {
            Cell::Words(words) if !self.terminal => print_line(digest, words),
            Cell::Moving(..) if !self.terminal => {}
            cell => {
                let mut state = self.state();
                state.note(*digest, cell);
                let is_due = state.last.is_none_or(|last| last.elapsed() >= REDRAW);
                if is_due || matches!(cell, Cell::Words(_)) {
                    state.draw();
                }
            }
        }
    }

    /// Leaves the bars as they are; the next output comes below them.
    pub(crate) fn end(&self) {
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, digest: Digest, cell: Cell) {
        match self.rows.iter_mut().find(|row| row.digest == digest) {
            Some(row) => row.cell = cell,
            None => self.rows.push(Row { digest, cell }),
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
        print_as_is(&text);
        self.drawn = self.rows.len();
        self.last = Some(Instant::now());
    }
}

fn print_line(digest: &Digest, words: &str) {
    print(&format!("{}: {words}\n", digest.short()));
}

fn line(row: &Row) -> String {
    let name = row.digest.short();
    match row.cell {
        Cell::Words(words) => format!("{name}: {words}"),
        Cell::Moving(words, done, all) => {
            format!("{name}: {words} {}", bar(done, all))
        }
    }
}

/// Draws a bar with the bytes done and the bytes in total.
pub(crate) fn bar(done: u64, all: u64) -> String {
    let full = done.saturating_mul(BAR).checked_div(all).unwrap_or(BAR).min(BAR);
    let cells: String = (0..BAR)
        .map(|cell| match cell.cmp(&full) {
            std::cmp::Ordering::Less => '=',
            std::cmp::Ordering::Equal => '>',
            std::cmp::Ordering::Greater => ' ',
        })
        .collect();
    format!("[{cells}] {}/{}", size(done), size(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_shows_how_much_is_compressed() {
        let progress = Progress::new(false, true);
        // The last drawing was a moment ago, so nothing is drawn here.
        progress.state().last = Some(Instant::now());
        let diff_id = format!("sha256:{}", "ab".repeat(32)).parse().unwrap();
        let step = PushStep::Compressed { done: 5, size: 10 };
        progress.push_event(PushEvent::Layer {
            diff_id: &diff_id,
            step,
        });
        assert_eq!(progress.state().rows[0].cell, Cell::Moving("Preparing", 5, 10));
    }

    #[test]
    fn bars() {
        let row = |cell| Row {
            digest: format!("sha256:{}", "ab".repeat(32)).parse().unwrap(),
            cell,
        };
        assert_eq!(
            line(&row(Cell::Words("Already exists"))),
            "abababababab: Already exists"
        );
        let half = line(&row(Cell::Moving("Downloading", 500, 1000)));
        assert_eq!(
            half,
            format!(
                "abababababab: Downloading [{}>{}] 500B/1kB",
                "=".repeat(20),
                " ".repeat(19)
            )
        );
        assert!(line(&row(Cell::Moving("Pushing", u64::MAX, 1000))).contains(&"=".repeat(40)));
    }
}
