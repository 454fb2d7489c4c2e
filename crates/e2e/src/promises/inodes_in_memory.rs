//! Images on a tmpfs, which keeps long attributes in its inodes: the empty files of an image lead to the store's objects
//! themselves, without a link for each.

use super::inodes::{ONE_FILE, damage, links, numbers, steps, tree, with_links, without_image};
use crate::context::Context;
use crate::invocation::Invocation;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("inodes_in_memory::links_are_the_images", ONE_FILE, |cx| {
        in_memory(cx, links)
    }),
    test("inodes_in_memory::numbers_stay", ONE_FILE, |cx| {
        in_memory(cx, numbers)
    }),
    test("inodes_in_memory::steps_of_builds_have_them", ONE_FILE, |cx| {
        in_memory(cx, steps)
    }),
    test("inodes_in_memory::damage_is_noticed", ONE_FILE, |cx| {
        in_memory(cx, damage)
    }),
    test("inodes_in_memory::drivers_copy_an_image", ONE_FILE, |cx| {
        in_memory(cx, with_links)
    }),
    test(
        "inodes_in_memory::the_contents_of_a_lost_image_stay",
        ONE_FILE,
        |cx| in_memory(cx, without_image),
    ),
];

/// Runs a test whose state root is on a tmpfs of its own.
fn in_memory(cx: &Context, test: fn(&Context) -> Result<()>) -> Result<()> {
    let at = cx.directory("memory")?;
    let mount = "mount -t tmpfs tmpfs \"$0\" && mkdir \"$0/state\" && echo ready && cat";
    let mut mounted = Invocation::new(["unshare", "--mount", "sh", "-c", mount, &at]).spawn()?;
    mounted.expect("ready")?;
    let inside = cx.in_mounts_of(mounted.pid(), &format!("{at}/state"));
    super::stored::image(&inside, "first", &[])?;
    let first = tree(&inside)?;
    ensure!(
        first.join("inodes").exists() && !first.join("contents").exists(),
        "files lead to objects"
    );
    inside.tote(&["rmi", "first"]).output()?.exits(0)?;
    inside.tote(&["image", "prune", "-af"]).output()?.exits(0)?;
    test(&inside)?;
    mounted.close_input();
    mounted.finish()?.exits(0).map(drop)
}
