//! Archives that go to a file or to standard output.

use crate::{failure, home};
use std::io::{BufWriter, IsTerminal as _, Write};
use std::path::Path;
use std::process::ExitCode;
use tote_engine::{EngineError, Home, WholeFile};
use tote_options::Parsed;

/// As much as is written at once.
const BUFFER: usize = 256 << 10;

/// The home, as somebody who may read files of every owner of it.
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
    write(&mut BufWriter::with_capacity(BUFFER, out))?;
    Ok(ExitCode::SUCCESS)
}
