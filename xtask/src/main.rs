//! `cargo xtask …`: the chores of this workspace as a program.
//!
//! Each subcommand is a file. A check prints a line per finding (`path:line: what, why`) and fails if there is one.
//! Continuous integration runs `cargo xtask ci` and nothing else. This crate is not part of the engine: no crate in
//! `crates/` depends on it, and it uses only the names of packages and hidden commands.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "xtask talks to people")]

mod architecture;
mod bench;
mod build;
mod ci;
mod completions;
mod conformance;
mod deps;
mod dist;
mod dropin;
mod elf;
mod enclosure;
mod faults;
mod finding;
mod fuzz;
mod guest;
mod hot;
mod man;
mod musl;
mod parity;
mod posix;
mod program;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci                              everything below that can fail, as continuous integration runs it
  deps                            the crate graph is the one drawn in ARCHITECTURE.md
  tidy                            sizes, names, comments and links keep the house rules
  test [--unit] [--e2e] [FILTER]  unit tests, then end-to-end tests as root and as a user
  machines [--sample] [--seed N] [CELL]
                                  the same on many machines: firewalls, name servers, uplinks, devices, ranges of ids; minutes
  guest [--tote PATH] [--accel NAME] [--slow N] [FILTER]
                                  the end-to-end tests under systemd and cgroup v2, in an emulated machine; slow
  dist                            the static release binary, in target/dist/tote, and some of the tests with it
  man                             the manual pages, in target/dist/man
  completions                     bash, zsh and fish completions, in target/dist/completions
  hot                             what lies beside what in the release binary, in crates/cli/hot.ld
  bench [NAME] [ARGUMENT…]        build the engine and run a benchmark of it
  faults [--debug] [SCENARIO…] [OPTION…]
                                  kill commands, and fail their system calls: is anything lost or left?
  fuzz TARGET [SECONDS]           mutate inputs of a target of fuzz/, by what they reach in its code
  conformance SUITE --checkout DIR [--runtime PATH] [--passable FILE] [--limit SECONDS]
              [--no-unified|--only-unified] [FILTER]
                                  what runtime-tools or runc-bats, from a checkout, says of a runtime
  posix --suite PATH [FILTER]     does pjdfstest find the same files in a session of debug as below it
  dropin [--runtime PATH] [--engine podman|podman-user|docker|containerd] [--against PATH]
         [--no-unified|--only-unified] [FILTER]
                                  does a runtime serve installed engines as runc does
  parity [--tote PATH] [--docker PATH] [--no-unified|--only-unified] [FILTER]
                                  do lines of docker's reference end with tote as with docker
";

#[expect(
    clippy::disallowed_methods,
    reason = "the entry point is the standard library's"
)]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match dispatch(&words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(words: &[&str]) -> anyhow::Result<ExitCode> {
    let Some((&command, rest)) = words.split_first() else {
        return Ok(usage());
    };
    let stage = match command {
        "conformance" => conformance::stage(rest),
        "dropin" => dropin::stage(rest),
        "parity" => parity::stage(rest),
        _ => None,
    };
    if let Some(result) = stage {
        return result;
    }
    let workspace = Workspace::load()?;
    match (command, rest) {
        ("ci", []) => return ci::run(&workspace),
        ("deps", []) => deps::run(&workspace)?,
        ("tidy", []) => tidy::run(&workspace)?,
        ("test", _) => return test::run(&workspace, rest),
        ("machines", _) => return test::machines(&workspace, rest),
        ("guest", _) => return guest::run(&workspace, rest),
        ("dist", []) => dist::run(&workspace)?,
        ("man", []) => man::run(&workspace)?,
        ("completions", []) => completions::run(&workspace)?,
        ("hot", []) => hot::run(&workspace)?,
        ("conformance", _) => return conformance::run(&workspace, rest),
        ("posix", _) => return posix::run(&workspace, rest),
        ("dropin", _) => return dropin::run(&workspace, rest),
        ("parity", _) => return parity::run(&workspace, rest),
        ("bench", _) => bench::run(&workspace, rest)?,
        ("faults", _) => faults::run(&workspace, rest)?,
        ("fuzz", _) => fuzz::run(&workspace, rest)?,
        _ => return Ok(usage()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the usage; returns exit code 2, which shells use for a wrong command line.
fn usage() -> ExitCode {
    eprint!("{USAGE}");
    ExitCode::from(2)
}
