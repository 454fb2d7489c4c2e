//! `tote ls` and `tote init`: places of containers on disk.

use crate::about::VERSION;
use crate::home::home;
use crate::tell::print;
use std::process::ExitCode;
use tote_engine::EngineError;
use tote_engine::container;
use tote_options::Parsed;
use tote_view::table;

pub(crate) fn ls(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let entries = container::list(&home)?;
    Ok(print(&table(&tote_view::places(&home, &entries))))
}

pub(crate) fn init(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let machine = tote_engine::look_at_machine(&home);
    let usable = machine
        .drivers
        .iter()
        .filter(|(_, usable)| usable.starts_with("yes"));
    let drivers: Vec<&str> = usable.map(|(name, _)| *name).collect();
    Ok(print(&format!(
        "tote {VERSION} is ready at {}\ncontainers: {}, of which {} run\nimages: {}\nvolumes: {}\ndrivers: {}\ncgroups: {}\n",
        home.root().display(),
        machine.containers,
        machine.running + machine.paused,
        machine.images,
        tote_engine::volume_names(&home).len(),
        drivers.join(", "),
        machine.cgroups,
    )))
}
