//! Files in the state root: each of them is on the map in `docs/state.md`.

use super::pool::done;
use crate::context::Context;
use crate::layout::unexplained;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;

pub(super) const TESTS: &[Test] = &[test("state_files::the_map_explains_what_lives", &[], explained)];

/// Checks that the map explains every file.
fn all_explained(cx: &Context) -> Result<()> {
    let found = unexplained(&cx.root())?;
    ensure!(found.is_empty(), "docs/state.md does not explain {found:?}");
    Ok(())
}

fn explained(cx: &Context) -> Result<()> {
    let image = cx.image();
    let sleeps = [&*image, "sleep", "1000"];
    let start = |options: &[&str]| done(cx, &[&["run", "-d"], options, &sleeps[..]].concat());
    start(&["--name", "kept", "-v", "named:/named", "-v", "/nameless"])?;
    start(&["--rm", "--log-driver", "k8s-file", "-v", "/nameless"])?;
    start(&["--driver", "copy", "--health-cmd", "true"])?;
    start(&["--driver", "split", "--tmpfs", "/etc"])?;
    done(cx, &["pod", "create", "--label", "a=b", "group"])?;
    start(&["--pod", "group"])?;
    done(cx, &["volume", "create", "made"])?;
    done(cx, &["pool", "fill", "p", "-n", "2", &image])?;
    done(cx, &["commit", "kept", "image"])?;
    done(cx, &["stop", "-t", "0", "kept"])?;
    all_explained(cx)?;

    let foreign = cx.root().join("volumes/made/nonsense");
    fs::write(&foreign, "")?;
    let found = unexplained(&cx.root())?;
    ensure!(found == [foreign.clone()], "found {found:?}");
    fs::remove_file(foreign)?;

    done(cx, &["pool", "rm", "p"])?;
    done(cx, &["pod", "rm", "-f", "group"])?;
    done(cx, &["rm", "-fav"])?;
    done(cx, &["volume", "rm", "named", "made"])?;
    done(cx, &["rmi", "image"])?;
    all_explained(cx)
}
