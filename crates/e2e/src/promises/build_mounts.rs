//! `tote build`: mounts, limits, host names and an agent for a `RUN`.

use super::build::{build, in_it, nothing_left, write};
use crate::context::Context;
use crate::exchange::patience;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::time::Instant;

pub(super) const TESTS: &[Test] = &[
    test("build::a_cache_outlives_builds", &[Need::ManyIds], caches),
    test("build::a_locked_cache_is_waited_for", &[Need::ManyIds], locked),
    test("build::files_are_bound_for_a_command", &[Need::ManyIds], binds),
    test("build::an_agent_is_forwarded", &[Need::ManyIds], agent),
    test(
        "build::an_agent_answers_a_user_who_is_not_root",
        &[Need::ManyIds, Need::Program("gcc")],
        agent_of_a_user,
    ),
    test("build::what_is_kept_is_pruned", &[Need::ManyIds], pruned),
    test(
        "build::what_is_kept_has_as_much_room_as_said",
        &[Need::ManyIds],
        room,
    ),
    test(
        "build::what_did_not_change_is_not_read",
        &[Need::Root, Need::Program("strace"), Need::Program("tar")],
        not_read,
    ),
    test("build::a_run_has_limits_and_hosts", &[Need::ManyIds], limits),
];

fn caches(cx: &Context) -> Result<()> {
    let count = |name: &str, mount: &str| {
        format!("ARG N\nRUN --mount=type=cache,{mount} echo x >> /c/log; wc -l < /c/log > /{name}\n")
    };
    let one = count("one", "target=/c");
    for (number, expected) in [("1", "1\n"), ("2", "2\n"), ("2", "2\n")] {
        build(cx, &["--build-arg", &format!("N={number}")], &one)?.exits(0)?;
        in_it(cx, "cat /one; ls -A /c 2>/dev/null")?.has_out(expected)?;
    }
    // Another id means another cache, with its own mode and owner.
    let others = "FROM base\nRUN --mount=type=cache,target=/c,id=other,mode=0750,uid=3,gid=4 stat -c '%a %u:%g' /c > /stat; ls -A /c > /ls\n\
        RUN --mount=type=cache,target=/c,ro cat /c/log > /seen; if echo y > /c/y; then exit 9; fi\n\
        RUN --mount=type=cache,id=filled,target=/c,from=base,source=/bin test -x /c/busybox\n";
    build(cx, &[], others)?.exits(0)?;
    in_it(cx, "cat /stat /ls; wc -l < /seen; test ! -e /c/log")?.prints("750 3:4\n2\n")?;
    nothing_left(cx)
}

/// A build holds the cache while its command waits for a file.
fn locked(cx: &Context) -> Result<()> {
    let shared = cx.directory("shared")?;
    let volume = format!("{shared}:/shared");
    let run = |sharing: &str, script: &str| {
        format!("FROM it\nRUN --mount=type=cache,id=l,target=/c,sharing={sharing} {script}\n")
    };
    build(cx, &[], "")?.exits(0)?;
    let first =
        "touch /c/first /shared/begun; while [ ! -e /shared/go ]; do sleep 0.02; done; echo done > /c/first";
    let start = |name: &str, text: String| -> Result<_> {
        write(cx, name, &text)?;
        let (file, context) = (cx.path(&format!("context/{name}"))?, cx.path("context")?);
        cx.tote(&["build", "--no-cache", "-v", &volume, "-f", &file, &context])
            .spawn()
    };
    let holder = start("First", run("locked", first))?;
    let begun = cx.scratch().join("shared/begun");
    let since = Instant::now();
    while !begun.exists() {
        ensure!(since.elapsed() < patience(), "the first build has not begun");
        std::thread::yield_now();
    }
    // A build with a private cache does not wait, and sees an empty one.
    start("Own", run("private", "test ! -e /c/first"))?
        .finish()?
        .exits(0)?;
    let waiter = start("Second", run("locked", "grep done /c/first"))?;
    fs::write(cx.scratch().join("shared/go"), "")?;
    holder.finish()?.exits(0)?;
    waiter.finish()?.exits(0)?.has_out("done")?;
    nothing_left(cx)
}

fn binds(cx: &Context) -> Result<()> {
    for name in ["dir/file", "dir/other.log"] {
        write(cx, name, name)?;
    }
    let rest = "FROM base AS other\nRUN echo other > /made\nFROM base\n\
        RUN --mount=target=/b,source=dir cat /b/file > /one; if echo x > /b/x; then exit 9; fi\n\
        RUN --mount=from=other,source=/made,target=/made cat /made > /two\n\
        RUN --mount=target=/b,rw echo x > /b/dir/file && cat /b/dir/file > /three\n";
    build(cx, &[], rest)?.exits(0)?;
    in_it(cx, "cat /one /two /three; ls -d /b /made")?
        .has_out("dir/fileother\nx\n")?
        .has_err("/b")?
        .has_err("/made")?;
    let kept = fs::read_to_string(cx.scratch().join("context/dir/file"))?;
    ensure!(kept == "dir/file", "the context was written to: {kept}");
    // Ignored files are invisible in a mount of the context.
    write(cx, ".dockerignore", "**/*.log\n")?;
    build(cx, &[], "RUN --mount=target=/b ls /b/dir > /listed\n")?.exits(0)?;
    in_it(cx, "cat /listed")?.prints("file\n")?;
    write(cx, "dir/file", "changed")?;
    let again = build(cx, &[], "RUN --mount=target=/b cat /b/dir/file > /read\n")?;
    again.exits(0)?;
    in_it(cx, "cat /read")?.prints("changed")?;
    nothing_left(cx)
}

fn agent(cx: &Context) -> Result<()> {
    let socket = cx.scratch().join("agent");
    let listener = UnixListener::bind(&socket).context("listen for the agent's clients")?;
    let path = cx.path("agent")?;
    let given = format!("default={path}");
    let rest = "RUN --mount=type=ssh,required test -S \"$SSH_AUTH_SOCK\" && echo $SSH_AUTH_SOCK > /where\n\
        RUN test -z \"$SSH_AUTH_SOCK\"\n";
    build(cx, &["--ssh", &given], rest)?.exits(0)?;
    in_it(cx, "cat /where; ls /run")?.has_out("/run/buildkit/ssh_agent.0\n")?;
    build(cx, &["--no-cache"], rest)?
        .exits(1)?
        .has_err("--ssh default")?;
    let key = cx.file("key", "a key")?;
    build(cx, &["--ssh", &format!("default={key}")], rest)?
        .exits(1)?
        .has_err("not a socket")?
        .has_err("ssh-add")?;
    drop(listener);
    nothing_left(cx)
}

/// Program that asks the agent one question, and prints the answer.
const ASKER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, getenv("SSH_AUTH_SOCK"), sizeof address.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (void *)&address, sizeof address)) { perror("connect"); return 1; }
    if (write(fd, "question", 8) != 8) return 1;
    char answer[64];
    ssize_t length = read(fd, answer, sizeof answer);
    return length > 0 && write(1, answer, length) == length ? 0 : 1;
}
"#;

/// An agent answers only its own user, so tote itself has to connect to it.
fn agent_of_a_user(cx: &Context) -> Result<()> {
    let source = cx.file("asker.c", ASKER)?;
    write(cx, "keep", "")?;
    let asker = cx.path("context/asker")?;
    let compile = Invocation::new(["gcc", "-static", "-O1", "-o", &asker, &source]);
    compile.output()?.exits(0)?;
    let listener =
        UnixListener::bind(cx.scratch().join("agent")).context("listen for the agent's clients")?;
    let own = rustix::process::geteuid().as_raw();
    let answering = std::thread::spawn(move || -> std::io::Result<()> {
        for _ in 0..2 {
            let (mut client, _) = listener.accept()?;
            let mut question = [0; 8];
            client.read_exact(&mut question)?;
            let who = rustix::net::sockopt::socket_peercred(&client)?;
            let is_own = who.uid.as_raw() == own;
            client.write_all(if is_own { b"answer\n" } else { b"stranger\n" })?;
        }
        Ok(())
    });
    let rest = "COPY --chmod=755 asker /\nUSER 1000\n\
        RUN --mount=type=ssh,uid=1000,gid=1001,mode=640,required \
        stat -c '%u:%g %a' \"$SSH_AUTH_SOCK\" | tee /tmp/x; /asker && /asker\n";
    write(cx, "tmp/keep", "")?;
    let built = build(
        cx,
        &["--ssh", &format!("default={}", cx.path("agent")?)],
        &format!("COPY --chmod=777 tmp /tmp\n{rest}"),
    )?;
    built.exits(0)?.has_out("1000:1001 640\n")?;
    let answers = built.out().matches("answer\n").count();
    ensure!(answers == 2, "{answers} answers: {}", built.out());
    answering.join().map_err(|_| anyhow::anyhow!("the agent"))??;
    nothing_left(cx)
}

fn limits(cx: &Context) -> Result<()> {
    let rest =
        "RUN ulimit -n > /files; grep build-host /etc/hosts > /hosts; df -k /dev/shm | tail -1 > /shm\n";
    let options = [
        "--ulimit",
        "nofile=77",
        "--add-host",
        "build-host:192.0.2.7",
        "--shm-size",
        "2m",
    ];
    build(cx, &options, rest)?.exits(0)?;
    in_it(cx, "cat /files /hosts; cut -c1-200 /shm")?
        .has_out("77\n192.0.2.7")?
        .has_out("2048")?;
    in_it(cx, "grep build-host /etc/hosts")?.fails()?;
    build(cx, &["--shm-size", "much"], rest)?
        .exits(1)?
        .has_err("shm-size")?;
    build(cx, &["--squeeze"], rest)?
        .exits(125)?
        .has_err("--squeeze")?;
    nothing_left(cx)
}

fn pruned(cx: &Context) -> Result<()> {
    let rest = "FROM base AS other\nRUN echo a stage of its own > /other\nFROM base\n\
        RUN --mount=type=cache,target=/c head -c 3000000 /dev/zero > /c/zeros\nCOPY --from=other /other /other\n";
    build(cx, &[], rest)?.exits(0)?;
    let space = || -> Result<String> {
        let told = cx.tote(&["system", "df"]).output()?;
        told.exits(0)?;
        let out = told.out();
        let line = out.lines().find(|line| line.starts_with("Build Cache"));
        Ok(line.context("no line about the build cache")?.to_owned())
    };
    ensure!(space()?.contains("MB"), "{}", space()?);
    let kept = || -> Result<usize> { Ok(fs::read_dir(cx.root().join("build/kept"))?.count()) };
    ensure!(kept()? == 2, "two stages are kept");
    let prune = |options: &[&str]| cx.tote(&[&["builder", "prune"], options].concat()).output();
    prune(&["-f", "--filter", "until=24h"])?
        .exits(0)?
        .prints("Total reclaimed space: 0B\n")?;
    prune(&["-f", "--filter", "label=x"])?
        .fails()?
        .has_err("until=")?;
    // Without an answer nothing is removed.
    prune(&[])?.exits(0)?.has_out("[y/N]")?;
    ensure!(kept()? == 2, "it was not asked");
    prune(&["-f"])?.exits(0)?.has_out("Total reclaimed space: 3")?;
    ensure!(kept()? == 0, "a stage is still kept");
    in_it(cx, "cat /other")?.prints("a stage of its own\n")?;
    let again = build(cx, &[], "CMD [\"x\"]\n")?;
    again.exits(0)?.has_out("Using cache")?;
    cx.tote(&["system", "prune", "-a", "-f"]).output()?.exits(0)?;
    ensure!(
        fs::read_dir(cx.root().join("build/cache"))?.count() == 0,
        "results are still known"
    );
    ensure!(space()?.contains("0B"), "{}", space()?);
    let fresh = build(cx, &[], "")?;
    ensure!(!fresh.exits(0)?.out().contains("Using cache"), "{}", fresh.out());
    nothing_left(cx)
}

fn room(cx: &Context) -> Result<()> {
    let filled = |id: &str| {
        let rest = format!(
            "FROM base\nRUN --mount=type=cache,id={id},target=/c head -c 3000000 /dev/urandom > /c/{id}\n"
        );
        build(cx, &["--no-cache"], &rest)?.exits(0).map(drop)
    };
    filled("older")?;
    filled("newer")?;
    let prune = |options: &[&str]| cx.tote(&[&["builder", "prune", "-f"], options].concat()).output();
    let mounts = || -> Result<usize> { Ok(fs::read_dir(cx.root().join("build/mounts"))?.count()) };
    for enough in [
        &["--max-used-space", "100m"][..],
        &["--reserved-space", "100MB"],
        &["--keep-storage", "100m", "--all"],
        &["--min-free-space", "1"],
        &["--max-used-space", "1", "--reserved-space", "1g"],
    ] {
        prune(enough)?.exits(0)?;
        ensure!(mounts()? == 2, "{enough:?}: there is room enough");
    }
    let again = build(cx, &[], "FROM base\n")?;
    again.exits(0)?.has_out("Using cache")?;
    prune(&["--max-used-space", "4m", "--filter", "until=24h"])?.exits(0)?;
    ensure!(mounts()? == 2, "they are younger");
    prune(&["--max-used-space", "4m"])?
        .exits(0)?
        .has_out("Total reclaimed space: 3")?;
    ensure!(mounts()? == 1, "only one has room");
    let rest = "FROM base\nRUN --mount=type=cache,id=newer,target=/c test -e /c/newer\n";
    build(cx, &["--no-cache"], rest)?.exits(0)?;
    prune(&["--max-used-space", "much"])?
        .fails()?
        .has_err("--max-used-space")?;
    prune(&["--min-free-space", "8000000t"])?
        .exits(0)?
        .has_out("Total reclaimed space: 3")?;
    ensure!(mounts()? == 0, "so much is never free");
    nothing_left(cx)
}

fn not_read(cx: &Context) -> Result<()> {
    // The test uses a file of the host, because a file that was written just now may change without a new time.
    let program = crate::need::program("tar").context("no tar")?;
    let dir = program
        .parent()
        .context("no directory")?
        .to_string_lossy()
        .into_owned();
    let (file, trace) = (
        cx.file("Dockerfile", "FROM scratch\nCOPY tar /\n")?,
        cx.path("trace")?,
    );
    let reads = || -> Result<usize> {
        let built = cx.tote(&["build", "-f", &file, &dir]);
        let words = ["strace", "-f", "-y", "-e", "trace=read", "-o", &trace];
        built.under(&words).output()?.exits(0)?;
        let text = fs::read_to_string(&trace)?;
        let name = format!("{dir}/tar>");
        Ok(text.lines().filter(|line| line.contains(&name)).count())
    };
    ensure!(reads()? > 0, "the file was not read at all");
    ensure!(reads()? == 0, "what is known was read again");
    nothing_left(cx)
}
