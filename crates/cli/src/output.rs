//! Archives written to a file or to standard output.

use crate::home::home;
use crate::tell::failure;
use std::io::{BufWriter, ErrorKind, IsTerminal as _, Write};
use std::path::Path;
use std::process::ExitCode;
use tote_engine::{EngineError, Home, WholeFile};
use tote_options::Parsed;

/// Size of the output buffer in bytes.
const BUFFER: usize = 256 << 10;

/// Opens the state root in a process that may read files of every owner in it.
pub(crate) fn reading(parsed: &Parsed) -> Result<Home, EngineError> {
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    Ok(home)
}

/// Writes an archive to the file that `--output` names, which belongs to the caller, or to standard output unless that is
/// a terminal.
pub(crate) fn archive_to(
    parsed: &Parsed,
    write: impl FnOnce(&mut dyn Write) -> Result<(), EngineError>,
) -> Result<ExitCode, EngineError> {
    if let Some(path) = parsed.value("output").map(Path::new) {
        WholeFile::secret_output(path, |file| write(file))?;
        return Ok(ExitCode::SUCCESS);
    }
    let out = std::io::stdout().lock();
    if out.is_terminal() {
        return Ok(failure(
            "an archive is not written to a terminal",
            Some("use -o FILE, or redirect the output"),
            1,
        ));
    }
    let mut out = Noting {
        out,
        reader_is_gone: false,
    };
    let written = write(&mut BufWriter::with_capacity(BUFFER, &mut out));
    match written {
        // If the reader has gone, a message would not reach it either.
        Err(_) if out.reader_is_gone => Ok(ExitCode::FAILURE),
        written => written.map(|()| ExitCode::SUCCESS),
    }
}

/// A writer that records whether its reader has gone.
struct Noting<W> {
    out: W,
    reader_is_gone: bool,
}

impl<W: Write> Write for Noting<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes);
        self.reader_is_gone |= matches!(&written, Err(error) if error.kind() == ErrorKind::BrokenPipe);
        written
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = self.out.flush();
        self.reader_is_gone |= matches!(&flushed, Err(error) if error.kind() == ErrorKind::BrokenPipe);
        flushed
    }
}
