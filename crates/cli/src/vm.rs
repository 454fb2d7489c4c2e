//! `tote vm`, and this program as a part of virtual machines.

use crate::home::home;
use crate::tell::{failure, print, warning};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;
use tote_engine::{EngineError, VmSource};
use tote_options::Parsed;
use tote_view::size;

/// Path by which the kernel of a guest starts its first process.
const INIT: &str = "/init";

/// Path of the program that attends a machine, in its sandbox. By the last part of it an OCI runtime is known elsewhere.
const ATTENDANT: &str = "/vm/tote-vm";

/// Does what this program is for in a virtual machine, or beside one, if it is called so.
pub(crate) fn called_as(program: &OsStr) -> Option<ExitCode> {
    if program == INIT && std::process::id() == 1 {
        return Some(tote_engine::guest_init());
    }
    (program == ATTENDANT).then(attend)
}

fn attend() -> ExitCode {
    let warn = &mut |text: String| warning(&text);
    let verdict = match tote_engine::arguments().get(1) {
        None => tote_engine::attend_vm(warn),
        Some(_) => tote_engine::visit_vm(warn),
    };
    match verdict {
        Ok(verdict) => match verdict.message {
            Some(message) => failure(&message, None, verdict.code),
            None => ExitCode::from(verdict.code),
        },
        Err(error) => failure(&tote_engine::chain(&error), None, 125),
    }
}

/// Runs `tote vm setup`.
pub(crate) fn setup(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let path = parsed.positionals().first().map(PathBuf::from);
    let source = match (path, parsed.value("modules")) {
        (Some(image), Some(modules)) => VmSource::Image {
            image,
            modules: modules.into(),
        },
        (Some(path), None) => VmSource::Path(path),
        (None, None) => VmSource::Machine,
        (None, Some(_)) => {
            return Err(EngineError::Usage(
                "--modules needs the image of a kernel as SOURCE".to_owned(),
            ));
        }
    };
    let home = home(parsed)?;
    let kernel = tote_engine::setup_vm(&home, &source)?;
    if parsed.flag("quiet") {
        return Ok(print(&format!("{}\n", kernel.hash)));
    }
    let mut text = format!(
        "kernel:  {}, {} (from {})\n",
        kernel.release,
        size(kernel.size),
        kernel.from
    );
    for (at, (name, bytes)) in kernel.modules.iter().enumerate() {
        let title = if at == 0 { "modules:" } else { "" };
        text += &format!("{title:<8} {name}, {}\n", size(*bytes));
    }
    text += &format!("kept as: {}\n", kernel.hash);
    Ok(print(&text))
}
