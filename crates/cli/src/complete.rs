//! `tote completion SHELL`: the completion scripts; `tote __complete KIND`: names of existing objects for them.

use crate::home::home;
use crate::tell::{failure, print};
use std::process::ExitCode;
use tote_options::{Parsed, Shell};

pub(crate) fn script(parsed: &Parsed) -> ExitCode {
    let name = parsed
        .positionals()
        .first()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    match Shell::named(name) {
        Some(shell) => print(&shell.script(parsed.root())),
        None => failure(
            &format!("no completion for {name:?}"),
            Some("bash, zsh and fish are known"),
            1,
        ),
    }
}

pub(crate) fn complete(parsed: &Parsed) -> ExitCode {
    let kind = parsed
        .positionals()
        .first()
        .and_then(|kind| kind.to_str())
        .unwrap_or_default();
    let names: Vec<String> = match kind {
        "capabilities" => tote_engine::ALL_CAPABILITIES
            .iter()
            .map(ToString::to_string)
            .collect(),
        "environment" => std::env::vars_os()
            .filter_map(|(name, _)| name.into_string().ok())
            .collect(),
        "images" => images(parsed),
        "networks" => networks(parsed),
        "signals" => SIGNALS.iter().map(ToString::to_string).collect(),
        "containers" => containers(parsed),
        "places" => containers(parsed).iter().map(|name| format!("{name}:")).collect(),
        "volumes" => volumes(parsed),
        "pools" => pools(parsed),
        "pods" => pods(parsed),
        "objects" => [containers(parsed), stored(parsed), volumes(parsed), pods(parsed)].concat(),
        _ => Vec::new(),
    };
    print(&names.iter().map(|name| format!("{name}\n")).collect::<String>())
}

fn containers(parsed: &Parsed) -> Vec<String> {
    let home = home(parsed);
    home.map(|home| tote_engine::container::names(&home))
        .unwrap_or_default()
}

fn volumes(parsed: &Parsed) -> Vec<String> {
    let home = home(parsed);
    home.map(|home| tote_engine::volume_names(&home))
        .unwrap_or_default()
}

fn networks(parsed: &Parsed) -> Vec<String> {
    let home = home(parsed);
    home.map(|home| tote_engine::network_names(&home))
        .unwrap_or_default()
}

fn pools(parsed: &Parsed) -> Vec<String> {
    let home = home(parsed);
    home.map(|home| tote_engine::pool_names(&home))
        .unwrap_or_default()
}

fn pods(parsed: &Parsed) -> Vec<String> {
    let home = home(parsed);
    home.map(|home| tote_engine::pod::names(&home))
        .unwrap_or_default()
}

/// Lists the names of images in the store.
fn stored(parsed: &Parsed) -> Vec<String> {
    let stored =
        home(parsed).and_then(|home| tote_engine::images(&home, &tote_engine::ImageSelection::default()));
    let names = stored
        .unwrap_or_default()
        .into_iter()
        .filter_map(|row| Some((row.repository?, row.tag?)));
    names
        .map(|(repository, tag)| format!("{repository}:{tag}"))
        .collect()
}

/// Lists the words that `run` takes for an image.
fn images(parsed: &Parsed) -> Vec<String> {
    let special = ["host".to_owned(), "rootfs:".to_owned()];
    special.into_iter().chain(stored(parsed)).collect()
}

const SIGNALS: [&str; 12] = [
    "SIGTERM", "SIGKILL", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT",
    "SIGWINCH", "SIGALRM", "SIGPIPE",
];
