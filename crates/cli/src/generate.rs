//! `tote __man DIR`: writes every man page, from the same tables as the help.

use crate::about::VERSION;
use crate::tell::failure;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tote_options::{Command, Parsed};

pub(crate) fn man_pages(parsed: &Parsed) -> ExitCode {
    let dir = parsed
        .positionals()
        .first()
        .map(PathBuf::from)
        .unwrap_or_default();
    match write(&dir, &mut vec![parsed.root()]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure(&format!("write man pages to {}: {error}", dir.display()), None, 1),
    }
}

fn write(dir: &Path, path: &mut Vec<&'static Command>) -> std::io::Result<()> {
    let page = tote_options::man(path, VERSION);
    std::fs::write(dir.join(format!("{}.1", tote_options::man_name(path))), page)?;
    let Some(command) = path.last() else { return Ok(()) };
    for child in command.children().filter(|child| !child.hidden) {
        path.push(child);
        write(dir, path)?;
        path.pop();
    }
    Ok(())
}
