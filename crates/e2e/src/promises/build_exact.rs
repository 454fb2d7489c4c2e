//! `tote build`: what files have besides their content, and images that are equal to the byte.

use super::build::{build, in_it, nothing_left, write};
use super::life::done;
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test("build::hard_links_stay_in_one_copy", &[Need::ManyIds], links),
    test(
        "build::an_epoch_makes_the_same_image_anywhere",
        &[Need::ManyIds],
        epoch,
    ),
    test("build::words_lead_on", &[], words),
];

/// Names of one file are names of one file in the image, from the context and from a stage; equal files are not, although the store
/// has their content once.
fn links(cx: &Context) -> Result<()> {
    write(cx, "in/a", "same")?;
    write(cx, "in/equal", "same")?;
    let context = cx.scratch().join("context");
    fs::create_dir(context.join("in/d"))?;
    for name in ["in/d/b", "out"] {
        fs::hard_link(context.join("in/a"), context.join(name))?;
    }
    let rest = "COPY in /t\nFROM base AS again\nCOPY --from=base /t /u\nCOPY --from=base --chown=1:2 /t /v/\n\
                FROM again\nRUN ln -s u/d /to\nCOPY --from=again /u/d /u/a /alone/\n";
    build(cx, &[], rest)?.exits(0)?;
    let script = "stat -c '%h %u:%g' /u/a /u/d/b /u/equal /v/a /v/d/b /alone/a; \
                  for dir in u v; do [ $dir/a -ef $dir/d/b ] && ! [ $dir/a -ef $dir/equal ] && echo $dir; done";
    in_it(cx, script)?.prints("2 0:0\n2 0:0\n1 0:0\n2 1:2\n2 1:2\n1 0:0\nu\nv\n")?;
    // What is saved has the bytes once.
    let archive = cx.path("saved.tar")?;
    done(cx, &["save", "-o", &archive, "it"])?;
    let other = cx.at(cx.scratch().join("other"));
    done(&other, &["load", "-q", "-i", &archive])?;
    other.run(&["it", "stat", "-c", "%h", "/v/a"])?.prints("2\n")?;
    // A link that becomes a file of its own is a change.
    fs::remove_file(context.join("in/d/b"))?;
    write(cx, "in/d/b", "same")?;
    build(cx, &[], rest)?.exits(0)?;
    in_it(cx, "stat -c %h /u/a /v/d/b")?.prints("1\n1\n")?;
    nothing_left(cx)
}

/// Two state roots make one image, whose files and history are no younger than the epoch; the cache is as good as without it.
fn epoch(cx: &Context) -> Result<()> {
    let rest = "RUN echo made > /made; mkdir /dir; ln -s x /dir/link\nCOPY given /given\nFROM base AS end\n\
                ARG SOURCE_DATE_EPOCH\nRUN echo $SOURCE_DATE_EPOCH > /epoch\nENV a=b\n";
    write(cx, "given", "x")?;
    let other = cx.at(cx.scratch().join("other"));
    let output = "--output=type=image,rewrite-timestamp=true";
    let mut ids = Vec::new();
    for (cx, words) in [
        (cx, &["--build-arg", "SOURCE_DATE_EPOCH=1000", output][..]),
        (&other, &["--build-arg=SOURCE_DATE_EPOCH=1000", output]),
        // The cache of another time.
        (cx, &["--build-arg=SOURCE_DATE_EPOCH=1000", output]),
    ] {
        write(cx, "busybox.old", "")?;
        build(cx, words, rest)?.exits(0)?;
        ids.push(done(cx, &["images", "-q", "--no-trunc", "it"])?);
    }
    ensure!(ids[0] == ids[1] && ids[0] == ids[2], "saw {ids:?}");
    let times = in_it(
        cx,
        "cat /epoch; stat -c '%n %Y' /made /dir /dir/link /given /epoch /bin/busybox",
    )?;
    times.prints(
        "1000\n/made 1000\n/dir 1000\n/dir/link 1000\n/given 1000\n/epoch 1000\n/bin/busybox 1000\n",
    )?;
    let created = done(cx, &["inspect", "-f", "{{.Created}}", "it"])?;
    ensure!(created == "1970-01-01T00:16:40Z", "saw {created}");
    // The variable of the caller does as well; without `rewrite-timestamp` the files keep their times.
    let context = cx.path("context")?;
    let built = cx
        .tote(&["build", "-t", "it", &context])
        .env("SOURCE_DATE_EPOCH", "2000")
        .output()?;
    built.exits(0)?;
    let created = done(cx, &["inspect", "-f", "{{.Created}}", "it"])?;
    ensure!(created == "1970-01-01T00:33:20Z", "saw {created}");
    in_it(cx, "cat /epoch; [ $(stat -c %Y /made) -gt 2000 ]")?.prints("2000\n")?;
    // A base keeps its own times.
    let rest = "FROM it\nRUN true\n";
    build(cx, &["--build-arg=SOURCE_DATE_EPOCH=3000"], rest)?.exits(0)?;
    let history = done(cx, &["history", "--no-trunc", "--format", "{{.CreatedAt}}", "it"])?;
    let years: Vec<_> = history.lines().map(|line| &line[..19]).collect();
    ensure!(
        years.first() == Some(&"1970-01-01T00:50:00") && years.last() == Some(&"1970-01-01T00:33:20"),
        "saw {history}"
    );
    build(cx, &[output], "")?
        .exits(0)?
        .has_err("SOURCE_DATE_EPOCH is not set")?;
    nothing_left(cx)
}

/// Where docker's builder says what to do, so does this one.
fn words(cx: &Context) -> Result<()> {
    build(cx, &[], "ARG S=base\nCOPY --from=$S /x /x\n")?
        .fails()?
        .has_err("variable expansion is not supported for --from")?;
    build(cx, &["--authfile=/nowhere"], "")?
        .fails()?
        .has_err("credential file is not accessible: /nowhere")?;
    build(cx, &["--build-arg=SOURCE_DATE_EPOCH=soon"], "")?
        .fails()?
        .has_err("SOURCE_DATE_EPOCH")?;
    write(cx, "real/f", "x")?;
    std::os::unix::fs::symlink("real", cx.scratch().join("context/link"))?;
    build(cx, &[], "COPY --parents link/f /d/\n")?
        .fails()?
        .has_err("\"link\" is a symbolic link, and --parents")?;
    nothing_left(cx)
}
