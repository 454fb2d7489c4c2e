//! What images are called: tags, digests, and what becomes of these when a tag moves or goes.

use super::registry::{forget, layer, publish};
use super::test;
use crate::context::Context;
use crate::output::Output;
use crate::suite::Test;
use anyhow::{Result, ensure};
use tote_testkit::FakeRegistry;

pub(super) const TESTS: &[Test] = &[
    test("names::what_was_pushed_has_a_digest", &[], pushed),
    test("names::every_tag_is_pushed", &[], all_tags),
    test("names::a_digest_needs_no_tag_beside_it", &[], digest),
    test("names::what_a_tag_has_left_is_dangling", &[], moved),
    test("names::lists_show_the_names_that_fit", &[], lists),
    test("names::what_nothing_uses_can_be_had_back", &[], reclaimable),
];

fn tote(cx: &Context, words: &[&str]) -> Result<Output> {
    cx.tote(words).output()
}

fn says(cx: &Context, words: &[&str]) -> Result<String> {
    let output = tote(cx, words)?;
    output.exits(0)?;
    Ok(output.out())
}

/// An image of the tests' root file system, under a name at a registry.
fn import(cx: &Context, name: &str) -> Result<()> {
    let file = cx.path("rootfs.tar")?;
    std::fs::write(&file, layer(cx)?)?;
    tote(cx, &["import", &file, name])?.exits(0)?;
    Ok(())
}

fn pushed(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    let name = format!("{}/team/app:1", registry.host());
    import(cx, &name)?;
    let template = ["image", "inspect", "-f", "{{join .RepoDigests \" \"}}", &name];
    tote(cx, &template)?.prints("\n")?;
    let pushed = says(cx, &["push", &name])?;
    let digest = pushed
        .split_whitespace()
        .find(|word| word.starts_with("sha256:"))
        .unwrap_or_default();
    let expected = format!("{}/team/app@{digest}", registry.host());
    tote(cx, &template)?.prints(&format!("{expected}\n"))?;
    let listed = ["images", "--digests", "--format", "{{.Digest}}"];
    tote(cx, &listed)?.prints(&format!("{digest}\n"))?;
    cx.run(&[&expected, "true"])?.exits(0)?;
    // With the last tag of the repository its digests go.
    tote(cx, &["tag", &name, "other:1"])?.exits(0)?;
    tote(cx, &["rmi", &name])?.prints(&format!("Untagged: {name}\nUntagged: {expected}\n"))?;
    tote(cx, &["images", "--format", "{{.Repository}}:{{.Tag}}"])?.prints("other:1\n")?;
    forget(cx, &["other:1"])
}

fn all_tags(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    let repository = format!("{}/team/app", registry.host());
    let (one, two) = (format!("{repository}:1"), format!("{repository}:2"));
    import(cx, &one)?;
    tote(cx, &["tag", &one, &two])?.exits(0)?;
    tote(cx, &["push", "-a", &one])?.refuses(1, &["--all-tags/-a"])?;
    let other = format!("{repository}x");
    tote(cx, &["push", "-a", &other])?
        .exits(1)?
        .has_err("does not exist locally")?;
    tote(cx, &["push", "-q", "--all-tags", &repository])?.prints(&format!("{one}\n{two}\n"))?;
    forget(cx, &[&one, &two])?;
    for name in [&one, &two] {
        tote(cx, &["pull", "-q", name])?.prints(&format!("{name}\n"))?;
    }
    forget(cx, &[&one, &two])
}

fn digest(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    publish(&registry, "team/app:1", &layer(cx)?);
    let repository = format!("{}/team/app", registry.host());
    let tagged = format!("{repository}:1");
    tote(cx, &["pull", "-q", &tagged])?.exits(0)?;
    let digest = says(cx, &["images", "--digests", "--format", "{{.Digest}}"])?;
    let (by_digest, with_tag) = (
        format!("{repository}@{}", digest.trim()),
        format!("{repository}:other@{}", digest.trim()),
    );
    tote(cx, &["pull", &with_tag])?
        .exits(0)?
        .has_out("Image is up to date")?;
    cx.run(&["--pull", "never", &with_tag])?.prints("registry\n")?;
    let template = ["image", "inspect", "-f", "{{join .RepoDigests \" \"}}", &tagged];
    tote(cx, &template)?.prints(&format!("{by_digest}\n"))?;
    // A tag of one's own does not keep what was pulled by its digest alone, and does not take it away.
    tote(cx, &["rmi", &tagged])?.exits(0)?;
    tote(cx, &["pull", "-q", &by_digest])?.exits(0)?;
    tote(cx, &["tag", &by_digest, "mine:1"])?.exits(0)?;
    tote(cx, &["rmi", "mine:1"])?.prints("Untagged: mine:1\n")?;
    tote(cx, &["images", "--format", "{{.Repository}}:{{.Tag}}"])?
        .prints(&format!("{repository}:<none>\n"))?;
    forget(cx, &[&with_tag])?;
    ensure!(says(cx, &["images", "-aq"])?.is_empty(), "it is gone");
    Ok(())
}

fn moved(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    let name = format!("{}/team/app:1", registry.host());
    publish(&registry, "team/app:1", &layer(cx)?);
    tote(cx, &["pull", "-q", &name])?.exits(0)?;
    let old = says(cx, &["images", "-q", "--no-trunc"])?;
    publish(&registry, "team/app:1", &[0; 1024]);
    tote(cx, &["pull", "-q", &name])?.exits(0)?;
    let dangling = ["images", "-q", "--no-trunc", "-f", "dangling=true"];
    tote(cx, &dangling)?.prints(&old)?;
    let pruned = tote(cx, &["image", "prune", "-f"])?;
    pruned.exits(0)?.has_out(&format!("deleted: {}", old.trim()))?;
    ensure!(
        says(cx, &["images", "-q"])?.lines().count() == 1,
        "the tag's image stays"
    );
    forget(cx, &[&name])
}

fn lists(cx: &Context) -> Result<()> {
    import(cx, "one:1")?;
    tote(cx, &["tag", "one:1", "example.org/team/one:2"])?.exits(0)?;
    let names = |words: &[&str], expected: &str| -> Result<()> {
        let words = [&["images", "--format", "{{.Repository}}:{{.Tag}}"], words].concat();
        tote(cx, &words)?.prints(expected)?;
        Ok(())
    };
    names(&["one"], "one:1\n")?;
    names(&["-f", "reference=*/*/one"], "example.org/team/one:2\n")?;
    names(&["-f", "until=1h"], "")?;
    names(&["-f", "until=2999-01-01", "one"], "one:1\n")?;
    tote(cx, &["images", "-f", "until=never"])?.refuses(125, &["until=never"])?;
    let archive = cx.path("one.tar")?;
    tote(cx, &["save", "-o", &archive, "one:1"])?.exits(0)?;
    tote(cx, &["load", "-q", "-i", &archive])?.prints("Loaded image: one:1\n")?;
    let sizes = ["history", "--human=false", "--format", "{{.Size}}", "one:1"];
    ensure!(says(cx, &sizes)?.trim().parse::<u64>()? > 0, "a number of bytes");
    forget(cx, &["one:1", "example.org/team/one:2"])
}

fn reclaimable(cx: &Context) -> Result<()> {
    import(cx, "one:1")?;
    // Another image of the same files.
    let file = cx.path("rootfs.tar")?;
    tote(cx, &["import", "-c", "LABEL a=b", &file, "two:1"])?.exits(0)?;
    let shown = || says(cx, &["system", "df", "--format", "{{.Type}} {{.Reclaimable}}"]);
    let images = shown()?;
    ensure!(
        images.lines().next().is_some_and(|line| line.ends_with("(100%)")),
        "no container has any of them: {images}"
    );
    tote(cx, &["create", "--name", "c", "one:1", "true"])?.exits(0)?;
    let images = shown()?;
    ensure!(
        images.lines().next() == Some("Images 0B (0%)"),
        "what one uses both have: {images}"
    );
    tote(cx, &["rm", "c"])?.exits(0)?;
    forget(cx, &["one:1", "two:1"])
}
