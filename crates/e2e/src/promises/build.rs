//! `tote build`: Dockerfiles as docker carries them out.

use crate::context::Context;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test("build::stages_and_variables", &[Need::ManyIds], stages),
    test("build::only_what_changed_is_done_again", &[Need::ManyIds], cache),
    test("build::dockerignore_and_heredocs", &[Need::ManyIds], files),
    test(
        "build::archives_are_extracted",
        &[Need::ManyIds, Need::Program("tar")],
        archives,
    ),
    test(
        "build::triggers_shells_and_health",
        &[Need::ManyIds],
        configuration,
    ),
    test("build::secrets_stay_out_of_layers", &[Need::ManyIds], secrets),
    test("build::a_failing_command", &[Need::ManyIds], failure),
    test("build::links_do_not_lead_out", &[Need::ManyIds], links),
];

pub(super) const BASE: &str =
    "FROM scratch AS base\nCOPY busybox /bin/\nRUN [\"/bin/busybox\", \"--install\", \"-s\", \"/bin\"]\n";

pub(super) fn write(cx: &Context, name: &str, content: &str) -> Result<()> {
    let path = cx.scratch().join("context").join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(fs::write(path, content)?)
}

/// Builds `rest` on an image with a shell, the stage `base`.
pub(super) fn build(cx: &Context, options: &[&str], rest: &str) -> Result<Output> {
    write(cx, "Dockerfile", &format!("{BASE}{rest}"))?;
    let program = cx.shared_rootfs().join("bin/busybox");
    fs::copy(program, cx.scratch().join("context/busybox"))?;
    let context = cx.path("context")?;
    cx.tote(&[&["build", "-t", "it"], options, &[&context]].concat())
        .output()
}

pub(super) fn in_it(cx: &Context, script: &str) -> Result<Output> {
    cx.run(&["it", "sh", "-c", script])
}

pub(super) fn nothing_left(cx: &Context) -> Result<()> {
    let work = cx.root().join("build/work");
    let left = fs::read_dir(&work)?.count();
    ensure!(left == 0, "{left} builds are left in {}", work.display());
    cx.nothing_left()
}

fn stages(cx: &Context) -> Result<()> {
    write(cx, "data/a b", "x")?;
    build(
        cx,
        &["--build-arg", "WHO=you"],
        "FROM base AS builder\nARG WHO=me\nENV GREETING=\"hello $WHO\"\nWORKDIR /src\n\
         COPY [\"data/a b\", \"./\"]\nRUN echo \"$GREETING ${NONE:-none}\" > out; cp 'a b' two\n\
         FROM base\nCOPY --from=builder --chown=12:34 --chmod=640 /src/out /src/t* /out/\n\
         COPY --from=0 /bin/busybox /third\nCMD [\"cat\", \"/out/out\"]\n",
    )?
    .exits(0)?
    .has_out("Successfully tagged it:latest")?;
    cx.run(&["it"])?.exits(0)?.has_out("hello you none")?;
    in_it(cx, "stat -c '%u:%g %a' /out/out /out/two; ls /; ls -d /src")?
        .has_out("12:34 640\n12:34 640\nbin\n")?
        .has_err("/src")?;
    build(cx, &["--target", "base"], "FROM nowhere\n")?.exits(0)?;
    nothing_left(cx)
}

fn cache(cx: &Context) -> Result<()> {
    write(cx, "one", "1")?;
    write(cx, "two", "2")?;
    let rest = "COPY one /\nRUN cat /one > /copy\nCOPY two /\nRUN echo ran >> /copy\n";
    let first = build(cx, &[], rest)?;
    first.exits(0)?;
    ensure!(!first.out().contains("Using cache"), "{}", first.out());
    // A changed time alone is not a changed content.
    write(cx, "one", "1")?;
    let again = build(cx, &[], rest)?;
    ensure!(again.out().matches("Using cache").count() == 6, "{}", again.out());
    write(cx, "two", "changed")?;
    let partly = build(cx, &[], rest)?;
    ensure!(
        partly.out().matches("Using cache").count() == 4,
        "{}",
        partly.out()
    );
    in_it(cx, "cat /copy /two")?.has_out("1ran\nchanged")?;
    let fresh = build(cx, &["--no-cache"], rest)?;
    ensure!(!fresh.out().contains("Using cache"), "{}", fresh.out());
    nothing_left(cx)
}

fn files(cx: &Context) -> Result<()> {
    write(cx, ".dockerignore", "*.log\n!keep.log\nout/\n")?;
    for name in ["a.log", "keep.log", "out/x", "in/deep/y"] {
        write(cx, name, name)?;
    }
    build(
        cx,
        &[],
        "ENV WHO=you\nCOPY . /all\nCOPY <<EOF <<'RAW' /docs/\nhello \"$WHO\"\nEOF\n$WHO\nRAW\n\
         RUN <<EOF\necho one > /script\necho $WHO >> /script\nEOF\n",
    )?
    .exits(0)?;
    in_it(
        cx,
        "cd /all; find . -type f | sort; cat /docs/EOF /docs/RAW /script",
    )?
    .exits(0)?
    .has_out("./in/deep/y\n./keep.log\nhello \"you\"\n$WHO\none\nyou\n")?;
    build(cx, &[], "COPY a.log /\n")?
        .exits(1)?
        .has_err("line 4")?
        .has_err("COPY a.log /")?
        .has_err("a.log")?;
    nothing_left(cx)
}

fn archives(cx: &Context) -> Result<()> {
    write(cx, "packed/inner/file", "content")?;
    let dir = cx.scratch().join("context");
    let packed = crate::invocation::Invocation::new(["tar", "-czf", "packed.tar.gz", "packed"]);
    packed.within(&dir).output()?.exits(0)?;
    build(
        cx,
        &[],
        "ADD packed.tar.gz /to\nCOPY packed.tar.gz /kept/\nADD packed/inner/file /plain\n",
    )?
    .exits(0)?;
    in_it(cx, "cat /to/packed/inner/file /plain; ls /kept")?.has_out("contentcontentpacked.tar.gz")?;
    nothing_left(cx)
}

fn configuration(cx: &Context) -> Result<()> {
    build(
        cx,
        &["--label", "by=us"],
        "ONBUILD RUN echo trigger > /trigger\nSHELL [\"/bin/sh\", \"-ec\"]\nHEALTHCHECK --interval=3s CMD true\n\
         EXPOSE 80-81/udp\nUSER 7:8\nSTOPSIGNAL SIGINT\nENTRYPOINT echo \"by $0\"\nVOLUME /data\n",
    )?
    .exits(0)?;
    let inspected = cx.tote(&["image", "inspect", "it"]).output()?;
    inspected.exits(0)?;
    for text in ["81/udp", "7:8", "SIGINT", "by $0", "/data", "\"us\"", "-ec"] {
        ensure!(
            inspected.out().contains(text),
            "{text} is not in {}",
            inspected.out()
        );
    }
    fs::write(cx.scratch().join("context/Child"), "FROM it\nUSER 0\n")?;
    let (file, context) = (cx.path("context/Child")?, cx.path("context")?);
    // The trigger runs as the image's user, who lacks permission to write there.
    cx.tote(&["build", "-f", &file, &context])
        .output()?
        .exits(1)?
        .has_out("# Executing 1 build trigger")?;
    nothing_left(cx)
}

fn secrets(cx: &Context) -> Result<()> {
    let file = cx.file("password", "hunter2-in-a-file")?;
    let option = format!("id=pw,src={file}");
    build(
        cx,
        &["--secret", &option],
        "RUN --mount=type=secret,id=pw --mount=type=tmpfs,target=/tmp/t test $(wc -c < /run/secrets/pw) = 17\n\
         RUN --mount=type=secret,id=pw,env=PW test ${#PW} = 17\n",
    )?
    .exits(0)?;
    in_it(cx, "ls /run /tmp; env | grep PW; grep -r hunter2 /bin/sh /etc")?.fails()?;
    let saved = cx.path("saved.tar")?;
    cx.tote(&["save", "-o", &saved, "it"]).output()?.exits(0)?;
    let bytes = fs::read(&saved)?;
    let found = bytes.windows(7).any(|window| window == b"hunter2");
    ensure!(!found, "the secret is in the image");
    build(cx, &[], "RUN --mount=type=secret,id=pw,required true\n")?
        .exits(1)?
        .has_err("secret pw")?;
    nothing_left(cx)
}

fn failure(cx: &Context) -> Result<()> {
    build(cx, &[], "RUN echo seen; exit 3\n")?
        .exits(1)?
        .has_err("line 4")?
        .has_err("returned a non-zero code: 3")?
        .has_out("seen")?;
    build(cx, &[], "NONSENSE\n")?
        .exits(1)?
        .has_err("line 4")?
        .has_err("NONSENSE")?;
    build(cx, &["--target", "none"], "")?.exits(1)?.has_err("none")?;
    nothing_left(cx)
}

fn links(cx: &Context) -> Result<()> {
    write(cx, "dir/file", "x")?;
    let dir = cx.scratch().join("context");
    std::os::unix::fs::symlink("/etc/passwd", dir.join("dir/link"))?;
    std::os::unix::fs::symlink("/etc/passwd", dir.join("out"))?;
    build(cx, &[], "COPY dir /dir\n")?.exits(0)?;
    in_it(cx, "readlink /dir/link")?.has_out("/etc/passwd")?;
    build(cx, &[], "COPY out /x\n")?
        .exits(1)?
        .has_err("COPY out /x")?;
    build(cx, &[], "COPY ../../../etc/passwd /x\n")?
        .exits(1)?
        .has_err("etc/passwd")?;
    nothing_left(cx)
}
