//! Output of a stage that is built beside others: read from pipes without waiting, and passed on by lines.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// Length in bytes at which a line is passed on although its end is not there yet.
const LINE_MAX: usize = 64 << 10;

/// Number of bytes that one read gets.
const CHUNK: usize = 64 << 10;

/// Stream of a stage: standard output or standard error.
#[derive(Debug)]
pub(crate) struct StageOutput {
    /// `None` after its end.
    pipe: Option<OwnedFd>,
    /// Begin of a line whose end has not come yet.
    begun: Vec<u8>,
    pub is_error: bool,
}

impl StageOutput {
    /// Makes a pipe; returns this end, from which a read does not wait, and the one to write to.
    pub(crate) fn new(is_error: bool) -> Result<(Self, OwnedFd), Errno> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&ours, OFlags::NONBLOCK)?;
        let output = Self {
            pipe: Some(ours),
            begun: Vec::new(),
            is_error,
        };
        Ok((output, theirs))
    }

    /// The pipe, until its end.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is there, at most a pipe full of it, and hands whole lines on without their ends.
    pub(crate) fn read(&mut self, line: &mut dyn FnMut(&[u8])) {
        let Some(pipe) = &self.pipe else { return };
        let mut chunk = vec![0; CHUNK];
        match rustix::io::read(pipe, &mut chunk) {
            Ok(0) => self.pipe = None,
            Ok(length) => self.take(&chunk[..length], line),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Nothing more can come from it.
            Err(_) => self.pipe = None,
        }
    }

    /// Reads to the end of what is there, after the end of the process. Others may have the pipe as well, so its own end is not
    /// waited for.
    pub(crate) fn finish(&mut self, line: &mut dyn FnMut(&[u8])) {
        // A process that has the pipe still and writes on and on is not listened to for ever: a pipe holds 64 KiB.
        for _ in 0..16 {
            let before = self.begun.len();
            let mut lines = 0;
            self.read(&mut |text| {
                lines += 1;
                line(text);
            });
            if self.pipe.is_none() || lines == 0 && self.begun.len() == before {
                break;
            }
        }
        if !self.begun.is_empty() {
            line(&std::mem::take(&mut self.begun));
        }
    }

    fn take(&mut self, bytes: &[u8], line: &mut dyn FnMut(&[u8])) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(part);
            let is_whole = self.begun.ends_with(b"\n");
            if is_whole {
                self.begun.pop();
            }
            if is_whole || self.begun.len() >= LINE_MAX {
                line(&self.begun);
                self.begun.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole() {
        let (mut output, theirs) = StageOutput::new(false).unwrap();
        let mut lines: Vec<Vec<u8>> = Vec::new();
        let write = |bytes: &[u8]| assert_eq!(rustix::io::write(&theirs, bytes), Ok(bytes.len()));
        output.read(&mut |line| lines.push(line.to_vec()));
        assert!(lines.is_empty());
        write(b"one\ntw");
        output.read(&mut |line| lines.push(line.to_vec()));
        assert_eq!(lines, [b"one"]);
        write(b"o\n\n\xffrest");
        // The end that writes stays open.
        output.finish(&mut |line| lines.push(line.to_vec()));
        assert_eq!(lines, [&b"one"[..], b"two", b"", b"\xffrest"]);
    }

    #[test]
    fn a_line_has_a_limit() {
        let (mut output, theirs) = StageOutput::new(true).unwrap();
        let mut sizes = Vec::new();
        for _ in 0..3 {
            assert_eq!(
                rustix::io::write(&theirs, &[b'x'; LINE_MAX / 2]),
                Ok(LINE_MAX / 2)
            );
            output.read(&mut |line| sizes.push(line.len()));
        }
        drop(theirs);
        output.finish(&mut |line| sizes.push(line.len()));
        assert_eq!(sizes, [LINE_MAX, LINE_MAX / 2]);
        assert!(output.pipe().is_none());
    }
}
