//! Names of images: tags, digests, and the fate of digests when a tag moves or goes.

use super::registry::{forget, layer, publish};
use crate::context::Context;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use tote_testkit::FakeRegistry;

pub(super) const TESTS: &[Test] = &[
    test("names::what_was_pushed_has_a_digest", &[], pushed),
    test("names::every_tag_is_pushed", &[], all_tags),
    test("names::a_digest_needs_no_tag_beside_it", &[], digest),
    test("names::what_a_tag_has_left_is_dangling", &[], moved),
    test("names::lists_show_the_names_that_fit", &[], lists),
    test("names::what_nothing_uses_can_be_had_back", &[], reclaimable),
    test("names::untag_takes_names_and_no_image", &[], untag),
    test("names::a_tree_shows_whose_layers_are", &[Need::ManyIds], tree),
];

fn tote(cx: &Context, words: &[&str]) -> Result<Output> {
    cx.tote(words).output()
}

fn says(cx: &Context, words: &[&str]) -> Result<String> {
    let output = tote(cx, words)?;
    output.exits(0)?;
    Ok(output.out())
}

/// Imports an image of the tests' root file system, under a name at a registry.
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
    // The digests of a repository go with its last tag.
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
    // A user's own tag neither keeps nor removes an image that was pulled by its digest alone.
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
    let either = ["-f", "reference=nosuch", "-f", "reference=one"];
    names(&either, "one:1\n")?;
    names(&["-f", "until=1h"], "")?;
    names(&["-f", "until=2999-01-01", "one"], "one:1\n")?;
    tote(cx, &["images", "-f", "until=never"])?.refuses(1, &["until=never"])?;
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

fn untag(cx: &Context) -> Result<()> {
    import(cx, "app:1")?;
    for name in ["app:2", "other:1", "other:latest"] {
        tote(cx, &["tag", "app:1", name])?.exits(0)?;
    }
    let file = cx.path("rootfs.tar")?;
    tote(cx, &["import", "-m", "another one", &file, "stranger:1"])?.exits(0)?;
    tote(cx, &["untag", "stranger:1"])?.quietly()?.prints("")?;
    tote(cx, &["tag", "app:1", "stranger:2"])?.exits(0)?;
    let id = says(cx, &["images", "-q", "--no-trunc", "app:1"])?;
    let id = id.trim();
    let names = || says(cx, &["image", "inspect", "-f", "{{join .RepoTags \" \"}}", id]);
    // A foreign name, a digest, an invalid name and a missing image change nothing.
    let digest = format!("app@sha256:{}", "0".repeat(64));
    for (words, said) in [
        (["app:1", "app:2", "app:3"], "app:3: tag not known"),
        (["app:1", "app:2", &digest], "untag by digest not supported"),
        (["app:1", "app:2", "A"], "A"),
        (["app:7", "app:2", "app:1"], "app:7"),
    ] {
        tote(cx, &[&["untag"], &words[..]].concat())?.refuses(125, &[said])?;
    }
    ensure!(names()?.split_whitespace().count() == 5, "names are gone");
    // The default tag is the latest, and a name may be given twice.
    tote(cx, &["untag", "app:1", "other", "app:2", "app:2"])?
        .quietly()?
        .prints("")?;
    ensure!(names()? == "app:1 other:1 stranger:2\n", "names: {}", names()?);
    let container = says(cx, &["create", "app:1", "true"])?;
    tote(cx, &["image", "untag", "app:1"])?.exits(0)?;
    ensure!(names()? == "\n", "names: {}", names()?);
    let dangling = ["images", "-q", "--no-trunc", "-f", "dangling=true"];
    ensure!(says(cx, &dangling)?.contains(id), "the image is not dangling");
    tote(cx, &["start", "-a", container.trim()])?.exits(0)?;
    tote(cx, &["rm", container.trim()])?.exits(0)?;
    let events = says(
        cx,
        &["events", "--since", "1h", "--until", "0s", "-f", "event=untag"],
    )?;
    ensure!(events.lines().count() == 6, "events: {events}");
    // No container and no name uses the image any more.
    tote(cx, &["image", "prune", "-f"])?.exits(0)?.has_out(id)?;
    tote(cx, &["image", "exists", id])?.exits(1)?;
    Ok(())
}

fn tree(cx: &Context) -> Result<()> {
    import(cx, "base:1")?;
    let context = cx.directory("context")?;
    cx.file("context/file", &"x".repeat(4321))?;
    for (name, argument) in [("one", "1"), ("two", "2")] {
        cx.file(
            "context/Dockerfile",
            &format!("FROM base:1\nCOPY file /{name}\nENV A={argument}\n"),
        )?;
        tote(cx, &["build", "-q", "-t", name, &context])?.exits(0)?;
    }
    let lines = |words: &[&str]| -> Result<Vec<String>> {
        Ok(says(cx, words)?.lines().map(ToOwned::to_owned).collect())
    };
    let id = says(cx, &["images", "-q", "one"])?;
    let shown = lines(&["image", "tree", "one"])?;
    ensure!(shown.len() == 6, "{shown:?}");
    ensure!(shown[0] == format!("Image ID: {}", id.trim()), "{shown:?}");
    ensure!(
        shown[1] == "Tags:     [docker.io/library/one:latest]",
        "{shown:?}"
    );
    ensure!(
        shown[2].starts_with("Size:     ") && shown[2].ends_with("MB"),
        "{shown:?}"
    );
    ensure!(shown[3] == "Image Layers", "{shown:?}");
    let base = " Top Layer of: [docker.io/library/base:1]";
    ensure!(
        shown[4].starts_with("├── ID: ") && shown[4].ends_with(base),
        "{shown:?}"
    );
    let own = " Size: 4.321kB Top Layer of: [docker.io/library/one:latest]";
    ensure!(
        shown[5].starts_with("└── ID: ") && shown[5].ends_with(own),
        "{shown:?}"
    );
    let above = lines(&["image", "tree", "--whatrequires", "base:1"])?;
    ensure!(above.len() == 7 && above[4].starts_with("└── ID: "), "{above:?}");
    ensure!(
        above[5].starts_with("    ├── ID: ") && above[6].starts_with("    └── ID: "),
        "{above:?}"
    );
    ensure!(above[5..].iter().any(|line| line.ends_with(own)), "{above:?}");
    tote(cx, &["image", "tree", "nothing"])?.refuses(125, &["nothing"])?;
    forget(cx, &["one", "two", "base:1"])
}
