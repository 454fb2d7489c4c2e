//! `tote build`: the rules that Dockerfiles of docker's builder rely on.

use super::build::{build, in_it, nothing_left, write};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;
use std::os::unix::net::UnixListener;
use tote_testkit::{FakeRegistry, Reply};

pub(super) const TESTS: &[Test] = &[
    test("build::a_pattern_may_match_nothing", &[Need::ManyIds], patterns),
    test(
        "build::a_build_for_another_machine_runs_on_this_one",
        &[],
        machines,
    ),
    test(
        "build::a_working_directory_is_the_users",
        &[Need::ManyIds],
        workdir,
    ),
    test("build::mounts_are_found_by_their_rules", &[Need::ManyIds], mounts),
    test("build::a_cache_begins_as_its_users", &[Need::ManyIds], owners),
    test(
        "build::triggers_bring_documents_and_stages",
        &[Need::ManyIds],
        triggers,
    ),
    test("build::files_come_from_earlier_stages", &[], later),
    test(
        "build::a_step_replaces_directories_of_its_image",
        &[Need::ManyIds],
        replaced,
    ),
    test(
        "build::what_is_extracted_is_not_what_is_downloaded",
        &[Need::ManyIds, Need::Program("tar")],
        downloaded,
    ),
    test(
        "build::a_dangling_link_leads_to_a_new_directory",
        &[Need::ManyIds],
        dangling,
    ),
    test("build::modes_may_be_symbols", &[Need::ManyIds], modes),
    test(
        "build::sockets_and_proxies_are_as_with_docker",
        &[Need::ManyIds],
        small,
    ),
    test(
        "build::arguments_reach_the_stages_above",
        &[Need::ManyIds],
        inherited,
    ),
    test("build::a_containerfile_will_do", &[], containerfile),
    test(
        "build::a_command_without_network_is_told_so",
        &[Need::ManyIds],
        offline,
    ),
];

/// A stage sees the arguments of the stage that it is based on; a here-document may have a blank before its name, as in a shell.
fn inherited(cx: &Context) -> Result<()> {
    let rest = "ARG VERSION=1.2\nFROM base AS release\nARG EPOCH\nRUN << EOF\necho $VERSION $(( 1 << 2 )) > /version\nEOF\n\
                COPY <<- 'RAW' /raw\n\t$VERSION\n\tRAW\nLABEL version=$VERSION\nFROM release\n\
                RUN echo $VERSION $EPOCH >> /version\n";
    build(cx, &["--build-arg=EPOCH=7"], rest)?.exits(0)?;
    in_it(cx, "cat /version /raw")?.prints("1.2 4\n1.2 7\n$VERSION\n")?;
    cx.tote(&["inspect", "-f", "{{.Config.Labels.version}}", "it"])
        .output()?
        .prints("1.2\n")?;
    nothing_left(cx)
}

fn patterns(cx: &Context) -> Result<()> {
    for name in ["package.json", "pnpm/lock", "ignored.lock"] {
        write(cx, name, name)?;
    }
    write(cx, ".dockerignore", "*.lock\n")?;
    build(
        cx,
        &[],
        "COPY package.json yarn.lock* *.lock /app/\nCOPY nothere* /not/\n",
    )?
    .exits(0)?;
    in_it(cx, "ls -d /app/* /not")?
        .has_out("/app/package.json\n")?
        .has_err("/not")?;
    // A source that is not a pattern must exist.
    build(cx, &[], "COPY package.json yarn.lock /app/\n")?
        .exits(1)?
        .has_err("stat yarn.lock: file does not exist")?;
    nothing_left(cx)
}

fn replaced(cx: &Context) -> Result<()> {
    let first = "RUN mkdir -p /data/below/further /moved/below && touch /data/below/old /moved/below/file\n";
    build(cx, &[], first)?.exits(0)?;
    cx.tote(&["tag", "it", "base"]).output()?.exits(0)?;
    let second = "FROM base\nRUN rm -r /data && mkdir /data && touch /data/new && rm -r /moved\n\
        RUN test \"$(ls /data)\" = new\n";
    write(cx, "Dockerfile", second)?;
    let context = cx.path("context")?;
    let built = cx.tote(&["build", "-t", "it", &context]).output()?;
    built.exits(0)?;
    in_it(cx, "ls /data; ls -d /moved")?
        .has_out("new\n")?
        .has_err("/moved")?;
    cx.tote(&["rmi", "base"]).output()?;
    nothing_left(cx)
}

fn context(cx: &Context, options: &[&str], file: &str) -> Result<crate::output::Output> {
    write(cx, "Dockerfile", file)?;
    let context = cx.path("context")?;
    cx.tote(&[&["build", "-t", "it"], options, &[&context]].concat())
        .output()
}

fn machines(cx: &Context) -> Result<()> {
    let file = "FROM scratch\nARG BUILDARCH\nARG BUILDOS\nARG TARGETARCH\nARG TARGETSTAGE\n\
        LABEL on=$BUILDOS/$BUILDARCH for=$TARGETARCH stage=$TARGETSTAGE\n";
    context(cx, &["--platform", "linux/s390x"], file)?.exits(0)?;
    let format = "{{.Architecture}} {{.Config.Labels.on}} {{.Config.Labels.for}} {{.Config.Labels.stage}}";
    let shown = cx.tote(&["image", "inspect", "-f", format, "it"]).output()?;
    let own = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    shown.prints(&format!("s390x linux/{own} s390x default\n"))?;
    nothing_left(cx)
}

fn workdir(cx: &Context) -> Result<()> {
    write(cx, "passwd", "me:x:7:8::/:/bin/sh\n")?;
    let rest = "COPY passwd /etc/\nRUN mkdir /there\nUSER me\nWORKDIR /there\nWORKDIR /a/b\nRUN touch ok\nUSER 9\nWORKDIR c\n";
    build(cx, &[], rest)?.exits(0)?;
    in_it(cx, "stat -c '%u:%g %a' /there /a /a/b /a/b/c")?.prints("0:0 755\n7:8 755\n7:8 755\n9:9 755\n")?;
    nothing_left(cx)
}

fn mounts(cx: &Context) -> Result<()> {
    write(cx, "file", "x")?;
    let rest = "FROM scratch AS files\nCOPY file /inner\nFROM base\nARG T=cache\nARG U=7\nWORKDIR /w\n\
        RUN --mount=from=files cat inner > /one\n\
        RUN --mount=type=$T,target=/c,uid=$U,gid=8,mode=07$U,sharing=${S:-locked} stat -c '%u:%g %a' /c > /two\n\
        RUN --mount=type=tmpfs,target=t touch t/x; ls /w > /three\n";
    build(cx, &["--build-arg", "U=50"], rest)?.exits(0)?;
    in_it(cx, "cat /one /two /three")?.prints("x50:8 750\nt\n")?;
    for (line, says) in [
        (
            "RUN --mount=from=$T,target=/x ls\n",
            "doesn't support variable expansion",
        ),
        (
            "ARG U=me\nRUN --mount=type=cache,target=/c,uid=$U ls\n",
            "invalid value \"me\" for uid",
        ),
        ("RUN --mount=type=cache ls\n", "invalid mount target"),
    ] {
        build(cx, &[], line)?.exits(1)?.has_err(says)?;
    }
    nothing_left(cx)
}

fn owners(cx: &Context) -> Result<()> {
    let rest = "RUN --mount=type=cache,target=/c touch /c/roots\nUSER 7:8\n\
        RUN --mount=type=cache,target=/c,uid=7,gid=8,mode=0700 touch /c/own && ls /c > /tmp/ls && stat -c '%u:%g %a' /c >> /tmp/ls\n\
        USER 0\nRUN --mount=type=cache,target=/c ls /c >> /tmp/ls\n";
    build(cx, &[], &format!("RUN mkdir -m 1777 /tmp\n{rest}"))?.exits(0)?;
    in_it(cx, "cat /tmp/ls")?.prints("own\n7:8 700\nroots\n")?;
    nothing_left(cx)
}

fn triggers(cx: &Context) -> Result<()> {
    let rest = "ONBUILD RUN <<EOF\necho one > /documents\necho two >> /documents\nEOF\n\
        ONBUILD RUN --mount=from=tools,target=/t cat /t/made > /from\n\
        ONBUILD COPY --from=tools /made /copied\n";
    build(cx, &["-t", "parent"], rest)?.exits(0)?;
    let child = "FROM base AS tools\nRUN echo made > /made\nFROM base AS other\nRUN exit 9\nFROM parent\n";
    build(cx, &[], child)?
        .exits(0)?
        .has_out("Executing 3 build triggers")?;
    in_it(cx, "cat /documents /from /copied")?.prints("one\ntwo\nmade\nmade\n")?;
    cx.tote(&["rmi", "-f", "parent"]).output()?.exits(0)?;
    nothing_left(cx)
}

fn later(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    let name = format!("{}/team/app:1", registry.host());
    for (from, line) in [("build", 3), ("t", 1), ("1", 3)] {
        let file = format!("FROM scratch AS t\nCOPY --from={from} /a /b\nFROM {name} AS build\n");
        context(cx, &["--target", "t"], &file)?
            .exits(1)?
            .has_err("line 2")?
            .has_err(&format!("begins on line {line}"))?;
    }
    ensure!(registry.log().is_empty(), "a registry was asked for a stage");
    let file = "FROM scratch AS builder\nFROM scratch AS last\nCOPY --from=bulider /a /b\n";
    context(cx, &["--pull=never"], file)?
        .exits(1)?
        .has_err("line 3")?
        .has_err("did you mean builder?")?;
    context(cx, &["--target", "lats"], file)?
        .exits(1)?
        .has_err("did you mean last?")?;
    nothing_left(cx)
}

fn downloaded(cx: &Context) -> Result<()> {
    write(cx, "packed/inner", "content")?;
    let dir = cx.scratch().join("context");
    let packed = crate::invocation::Invocation::new(["tar", "-czf", "a.tar.gz", "packed"]);
    packed.within(&dir).output()?.exits(0)?;
    let path = dir.join("a.tar.gz");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let (server, archive) = (FakeRegistry::start(), fs::read(&path)?);
    server.hook(move |_| Some(Reply::status(200).body(archive.clone())));
    let url = format!("http://{}/a.tar.gz", server.host());
    let look = "ls -d /a.tar.gz /packed/inner 2>/dev/null; true";
    build(cx, &[], "ADD a.tar.gz /\n")?.exits(0)?;
    in_it(cx, look)?.prints("/packed/inner\n")?;
    build(cx, &[], &format!("ADD {url} /\n"))?.exits(0)?;
    in_it(cx, look)?.prints("/a.tar.gz\n")?;
    // A URL without a file name gets docker's name.
    build(cx, &[], &format!("ADD http://{}/ /x/\n", server.host()))?.exits(0)?;
    in_it(cx, "ls /x")?.prints("__unnamed__\n")?;
    nothing_left(cx)
}

fn dangling(cx: &Context) -> Result<()> {
    write(cx, "file", "x")?;
    let rest = "RUN ln -s ../../../tmp/x /bin/up; ln -s /other /absolute; ln -s loop /loop\n\
        COPY file /bin/up/\nCOPY file /absolute/deep/\n";
    build(cx, &[], rest)?.exits(0)?;
    in_it(cx, "cat /tmp/x/file /other/deep/file; readlink /bin/up")?.prints("xx../../../tmp/x\n")?;
    build(cx, &[], &format!("{rest}COPY file /loop/\n"))?
        .exits(1)?
        .has_err("symbolic links")?;
    ensure!(
        !std::path::Path::new("/tmp/x/file").exists(),
        "it was written outside"
    );
    nothing_left(cx)
}

fn modes(cx: &Context) -> Result<()> {
    for name in ["dir/file", "dir/tool"] {
        write(cx, name, "x")?;
        let mode = if name.ends_with("tool") { 0o755 } else { 0o644 };
        let path = cx.scratch().join("context").join(name);
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    }
    let rest = "COPY --chmod=u=rwX,go= dir /one\nCOPY --chmod=0711 dir/file /new/file\nCOPY --chmod=+x dir/file /sym/file\n";
    build(cx, &[], rest)?.exits(0)?;
    in_it(
        cx,
        "stat -c %a /one /one/file /one/tool /new /new/file /sym /sym/file | tr '\\n' ' '",
    )?
    .prints("755 600 700 711 711 755 755 ")?;
    build(cx, &[], "COPY --chmod=u+q dir /x\n")?
        .exits(1)?
        .has_err("u=rwX")?;
    nothing_left(cx)
}

fn small(cx: &Context) -> Result<()> {
    write(cx, "dir/file", "x")?;
    let listener = UnixListener::bind(cx.scratch().join("context/dir/socket"))?;
    let rest = "COPY dir /dir\nCOPY dir/socket /alone\nRUN echo $http_proxy $HTTP_PROXY > /proxies\nRUN\n";
    build(cx, &["--build-arg", "http_proxy=http://p"], rest)?.exits(0)?;
    in_it(cx, "stat -c '%F %s' /dir/socket /alone; cat /proxies")?
        .prints("regular empty file 0\nregular empty file 0\nhttp://p http://p\n")?;
    drop(listener);
    build(
        cx,
        &["--build-context", "nothing=docker-image://scratch"],
        "FROM nothing\nCOPY dir/file /f\n",
    )?
    .exits(0)?;
    build(cx, &[], "COPY \"dir /x\" /y\n")?
        .exits(1)?
        .has_err("JSON array")?;
    nothing_left(cx)
}

fn containerfile(cx: &Context) -> Result<()> {
    let file = |what: &str| format!("FROM scratch\nCOPY . /\nLABEL of={what}\n");
    let (dir, format) = (cx.scratch().join("context"), "{{.Config.Labels.of}}");
    let context = cx.path("context")?;
    let built = || -> Result<String> {
        cx.tote(&["build", "-q", "-t", "it", &context])
            .output()?
            .exits(0)?;
        Ok(cx.tote(&["image", "inspect", "-f", format, "it"]).output()?.out())
    };
    write(cx, "Containerfile", &file("container"))?;
    write(cx, ".containerignore", "hid*\n")?;
    write(cx, "hidden", "x")?;
    ensure!(built()? == "container\n", "{}", built()?);
    let saved = cx.tote(&["build", "-q", "-o", "-", &context]).output()?;
    ensure!(
        !saved.exits(0)?.out().contains("hidden"),
        "what is ignored is there"
    );
    for (name, of) in [("dockerfile", "lower"), ("Dockerfile", "docker")] {
        write(cx, name, &file(of))?;
        ensure!(built()? == format!("{of}\n"), "{}", built()?);
    }
    for name in ["Containerfile", "dockerfile", "Dockerfile"] {
        fs::remove_file(dir.join(name))?;
    }
    cx.tote(&["build", &context])
        .output()?
        .exits(1)?
        .has_err(&context)?
        .has_err("neither Dockerfile nor Containerfile")?;
    nothing_left(cx)
}

fn offline(cx: &Context) -> Result<()> {
    let says = "--network host";
    let failed = build(cx, &[], "RUN true\nRUN exit 3\n")?;
    failed.exits(1)?.has_err(says)?;
    ensure!(failed.err().matches(says).count() == 1, "it is said twice");
    for (options, rest, code) in [
        (&[][..], "RUN true\n", 0),
        (&[], "RUN --network=none exit 3\n", 1),
        (&["--network", "host"], "RUN exit 3\n", 1),
    ] {
        let output = build(cx, options, rest)?;
        output.exits(code)?;
        ensure!(!output.err().contains(says), "{}", output.err());
    }
    nothing_left(cx)
}
