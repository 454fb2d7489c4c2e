//! Progress of a load on a terminal: a bar with the bytes of the archive.

use crate::remote::{REDRAW, bar};
use crate::tell::print_as_is;
use std::fs::File;
use std::io::{IsTerminal as _, Read};
use std::time::Instant;
use tote_view::size;

/// An archive that shows how much of it was read.
pub(super) struct Shown<R> {
    archive: R,
    /// Length of the archive in bytes, if that is known.
    length: Option<u64>,
    done: u64,
    shows: bool,
    last: Option<Instant>,
}

impl Shown<File> {
    /// Shows a file, whose length is known.
    pub(super) fn file(file: File, quiet: bool) -> Self {
        // absence: the progress is shown without the length
        let length = file.metadata().ok().filter(std::fs::Metadata::is_file);
        let mut shown = Self::new(file, quiet);
        shown.length = length.map(|file| file.len());
        shown
    }
}

impl<R> Shown<R> {
    pub(super) fn new(archive: R, quiet: bool) -> Self {
        Self {
            archive,
            length: None,
            done: 0,
            shows: !quiet && std::io::stdout().is_terminal(),
            last: None,
        }
    }

    fn draw(&mut self) {
        if self.shows && self.last.is_none_or(|last| last.elapsed() >= REDRAW) {
            let progress = match self.length {
                Some(length) => bar(self.done, length),
                None => size(self.done),
            };
            print_as_is(&format!("\r\x1b[KLoading {progress}"));
            self.last = Some(Instant::now());
        }
    }
}

impl<R: Read> Read for Shown<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.archive.read(buffer)?;
        self.done += read as u64;
        self.draw();
        Ok(read)
    }
}

impl<R> Drop for Shown<R> {
    /// Clears the line for what comes next.
    fn drop(&mut self) {
        if self.last.is_some() {
            print_as_is("\r\x1b[K");
        }
    }
}
