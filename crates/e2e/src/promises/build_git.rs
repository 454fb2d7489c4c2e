//! `tote build`: contexts and files from repositories of git and from URLs.

use super::build::nothing_left;
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tote_testkit::{FakeRegistry, Reply, Request};

const NEEDS: &[Need] = &[Need::ManyIds, Need::Program("git"), Need::Program("tar")];

pub(super) const TESTS: &[Test] = &[
    test("build::a_repository_is_a_context", NEEDS, context),
    test("build::a_repository_is_added", NEEDS, added),
    test("build::a_repository_over_plain_http", NEEDS, plain_http),
    test("build::git_runs_nothing_that_a_repository_brings", NEEDS, hostile),
    test(
        "build::an_address_is_a_context",
        &[Need::ManyIds, Need::Program("tar")],
        address,
    ),
];

/// Process of `git daemon` behind a socket of the test's own, which no other process can take.
pub(super) struct Daemon {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Daemon {
    pub(super) fn of(dir: &Path) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (stopped, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stop, count) = (Arc::clone(&stopped), Arc::clone(&asked));
        let mut base = std::ffi::OsString::from("--base-path=");
        base.push(dir);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                count.fetch_add(1, Ordering::SeqCst);
                let Ok(other) = stream.try_clone() else { continue };
                let served = Command::new("git")
                    .args(["daemon", "--inetd", "--export-all"])
                    .arg(&base)
                    .stdin(Stdio::from(OwnedFd::from(stream)))
                    .stdout(Stdio::from(OwnedFd::from(other)))
                    .stderr(Stdio::null())
                    .status();
                drop(served);
            }
        });
        Ok(Self {
            address,
            stopped,
            asked,
            thread: Some(thread),
        })
    }

    pub(super) fn url(&self, rest: &str) -> String {
        format!("git://{}/{rest}", self.address)
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

pub(super) fn git(dir: &Path, words: &[&str]) -> Result<String> {
    let command = Invocation::new(["git", "-c", "protocol.file.allow=always"].iter().chain(words));
    let output = ["AUTHOR", "COMMITTER"]
        .iter()
        .fold(command, |command, who| {
            command
                .env(format!("GIT_{who}_NAME"), "someone")
                .env(format!("GIT_{who}_EMAIL"), "someone@x.example")
                .env(format!("GIT_{who}_DATE"), "1234567890 +0000")
        })
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("HOME", "/dev/null")
        .within(dir)
        .output()?;
    output.exits(0)?;
    Ok(output.out().trim().to_owned())
}

/// Commits `files` to the repository `name`.
pub(super) fn commit(cx: &Context, name: &str, files: &[(&str, &str)]) -> Result<PathBuf> {
    let dir = cx.scratch().join("served").join(name);
    if !dir.join(".git").exists() {
        fs::create_dir_all(&dir)?;
        git(&dir, &["init", "--quiet", "-b", "main"])?;
    }
    for (path, content) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().context("a file is in a directory")?)?;
        fs::write(path, content)?;
    }
    git(&dir, &["add", "-A"])?;
    git(&dir, &["commit", "--quiet", "--allow-empty", "-m", "one"])?;
    Ok(dir)
}

/// Builds, and lists the result's files.
fn listed(cx: &Context, words: &[&str]) -> Result<Output> {
    let out = cx.path("out.tar")?;
    let to = format!("type=tar,dest={out}");
    cx.tote(&[&["build", "-t", "it", "-o", &to], words].concat())
        .output()?
        .exits(0)?;
    Invocation::new(["tar", "--sort=name", "-tvf", &out]).output()
}

fn content(cx: &Context, path: &str) -> Result<Output> {
    Invocation::new(["tar", "-xOf", &cx.path("out.tar")?, path]).output()
}

const COPIES: &str = "FROM scratch\nCOPY . /\n";

fn context(cx: &Context) -> Result<()> {
    commit(cx, "lib", &[("inner", "of the submodule")])?;
    let dir = commit(
        cx,
        "app",
        &[
            ("Dockerfile", COPIES),
            ("file", "one"),
            ("sub/Dockerfile", COPIES),
        ],
    )?;
    git(&dir, &["submodule", "--quiet", "add", "../lib", "lib"])?;
    std::os::unix::fs::symlink("sub", dir.join("link"))?;
    std::os::unix::fs::symlink("/", dir.join("out"))?;
    commit(cx, "app", &[])?;
    git(&dir, &["tag", "-a", "v1", "-m", "one"])?;
    commit(cx, "app", &[("file", "two")])?;
    let first = git(&dir, &["rev-parse", "v1^{}"])?;
    let server = Daemon::of(&cx.scratch().join("served"))?;
    // Modes are as in a context of the caller's files, whatever the umask is.
    let files = cx.tote(&["build", "-q", "-o", "-", &server.url("app")]);
    files
        .under(&["sh", "-c", "umask 077; exec \"$@\"", "sh"])
        .output()?
        .exits(0)?;
    let files = listed(cx, &[&server.url("app")])?;
    files.has_out("lib/inner")?.has_out("-rw-r--r--")?;
    ensure!(
        !files.out().contains(".git/") && !files.out().contains("lib/.git"),
        "{}",
        files.out()
    );
    content(cx, "file")?.prints("two")?;
    for reference in ["v1", "refs/tags/v1", &first] {
        listed(cx, &[&server.url(&format!("app#{reference}"))])?;
        content(cx, "file")?.prints("one")?;
    }
    let files = listed(cx, &[&server.url("app?submodules=false&mtime=commit#main:sub")])?;
    files.has_out("2009-02-13")?;
    ensure!(files.out().lines().count() == 1, "{}", files.out());
    listed(
        cx,
        &[
            "--build-arg",
            "BUILDKIT_CONTEXT_KEEP_GIT_DIR=1",
            &server.url("app"),
        ],
    )?
    .has_out(".git/HEAD")?;
    listed(cx, &["-f", "sub/Dockerfile", &server.url("app")])?.has_out("lib/inner")?;
    let named = format!("other={}", server.url("app#v1"));
    let on_stdin = cx.tote(&["build", "--build-context", &named, "-"]);
    on_stdin
        .input(b"FROM scratch\nCOPY --from=other file /x\n")
        .output()?
        .exits(0)?;
    refused(cx, &server)?;
    nothing_left(cx)
}

/// Contexts in the repository that [`context`] makes, and the reasons for their refusals.
fn refused(cx: &Context, server: &Daemon) -> Result<()> {
    for (rest, says) in [
        ("app#main:link", "the path has a symbolic link"),
        ("app#main:out/etc", "the path has a symbolic link"),
        ("app#main:none", "no such directory"),
        ("app#none", "does not have that reference"),
        ("none", "not exported"),
        ("app#-x", "invalid"),
        ("app?checksum=0123#v1", "was expected"),
        ("app?nonsense=1", "nonsense"),
    ] {
        cx.tote(&["build", &server.url(rest)])
            .output()?
            .exits(1)?
            .has_err(says)?;
    }
    let lacking = cx
        .tote(&["build", &server.url("app")])
        .env("PATH", "/nowhere")
        .output()?;
    lacking
        .exits(1)?
        .has_err("there is no program git")?
        .has_err("install git")?;
    Ok(())
}

fn added(cx: &Context) -> Result<()> {
    let dir = commit(cx, "app", &[("file", "one"), ("sub/deep", "two")])?;
    let at = git(&dir, &["rev-parse", "HEAD"])?;
    let server = Daemon::of(&cx.scratch().join("served"))?;
    let build = |cx: &Context, lines: &str| {
        let out = cx.path("out.tar")?;
        let build = cx.tote(&["build", "-o", &format!("type=tar,dest={out}"), "-"]);
        build.input(format!("FROM scratch\n{lines}").as_bytes()).output()
    };
    let (all, fixed) = (server.url("app"), server.url(&format!("app#{at}:sub")));
    let lines = format!(
        "ADD {all} /all\nADD --chown=3:4 {fixed} /sub/\nADD --keep-git-dir --checksum={} {all} /kept\n",
        &at[..12]
    );
    build(cx, &lines)?.exits(0)?;
    let listed = Invocation::new(["tar", "--numeric-owner", "-tvf", &cx.path("out.tar")?]).output()?;
    listed
        .has_out("0/0")?
        .has_out(" all/file\n")?
        .has_out(" all/sub/deep\n")?;
    listed.has_out(" kept/.git/HEAD\n")?;
    for trace in ["kept/.git/FETCH_HEAD", "kept/.git/logs/"] {
        ensure!(!listed.out().contains(trace), "{trace}: {}", listed.out());
    }
    ensure!(!listed.out().contains("all/.git"), "{}", listed.out());
    let text = listed.out();
    let mut own = text.lines().filter(|line| line.ends_with("sub/deep"));
    ensure!(own.any(|line| line.contains(" 3/4 ")), "--chown: {text}");
    // The build asks for the commit, once for each reference; the commit's files are known.
    let before = server.asked();
    build(cx, &lines)?.exits(0)?.has_out("Using cache")?;
    let asked = server.asked() - before;
    ensure!(asked <= 2, "a build from its cache asked {asked} times");
    let before = server.asked();
    build(
        cx,
        &format!("ADD --chown=3:4 {fixed} /sub/\nADD --chown=3:4 {fixed} /again/\n"),
    )?
    .exits(0)?;
    ensure!(server.asked() > before, "another build has another result");
    commit(cx, "app", &[("file", "changed")])?;
    build(cx, &format!("ADD {all} /all\n"))?.exits(0)?;
    content(cx, "all/file")?.prints("changed")?;
    for (line, says) in [
        (format!("ADD --checksum=0123 {all} /x\n"), "0123 was expected"),
        (format!("ADD --checksum=sha256:00 {all} /x\n"), "invalid checksum"),
        (format!("ADD --checksum={at} {all} {all} /x/\n"), "multiple"),
        (format!("ADD {all}#main:none /x\n"), "no such directory"),
        ("ADD file:///app /x\n".to_owned(), "not found in build context"),
    ] {
        build(cx, &line)?.exits(1)?.has_err("line 2")?.has_err(says)?;
    }
    nothing_left(cx)
}

/// A server without support for git: no shallow histories, and no commits by their names.
fn plain_http(cx: &Context) -> Result<()> {
    let dir = commit(cx, "app", &[("Dockerfile", COPIES), ("file", "one")])?;
    let first = git(&dir, &["rev-parse", "HEAD"])?;
    commit(cx, "app", &[("file", "two")])?;
    git(&dir, &["clone", "--quiet", "--bare", ".", "../app.git"])?;
    let served = cx.scratch().join("served");
    git(&served.join("app.git"), &["update-server-info"])?;
    let server = FakeRegistry::start();
    let files = served.clone();
    server.hook(move |request| match request.header("authorization") {
        Some("basic eC1hY2Nlc3MtdG9rZW46aHVzaA==" | "Basic c29tZW9uZTpodXNo") => serve(&files, request),
        _ => Some(Reply::status(401).header("www-authenticate", "Basic realm=\"x\"")),
    });
    let url = format!("http://{}/app.git", server.host());
    let refused = cx.tote(&["build", &url]).output()?;
    refused
        .exits(1)?
        .has_err("could not read Username")?
        .has_err("GIT_AUTH_TOKEN")?;
    let token = format!("id=GIT_AUTH_TOKEN,src={}", cx.file("token", "hush\n")?);
    listed(cx, &["--secret", &token, &url])?;
    content(cx, "file")?.prints("two")?;
    listed(cx, &["--secret", &token, &format!("{url}#{first}")])?;
    content(cx, "file")?.prints("one")?;
    elsewhere(cx, &dir, &served, &["--secret", &token, &url])?;
    // A password in the URL is in no file of the image.
    git(&served, &["clone", "--quiet", "--bare", "lib", "near.git"])?;
    git(&served.join("near.git"), &["update-server-info"])?;
    git(&dir, &["rm", "--quiet", "lib"])?;
    git(
        &dir,
        &[
            "submodule",
            "--quiet",
            "add",
            "--name",
            "hooks",
            "../near.git",
            "near",
        ],
    )?;
    git(&dir, &["commit", "--quiet", "-m", "near"])?;
    git(&dir, &["push", "--quiet", "../app.git", "main"])?;
    git(&served.join("app.git"), &["update-server-info"])?;
    let keep = ["--build-arg", "BUILDKIT_CONTEXT_KEEP_GIT_DIR=1"];
    let with_password = url.replace("http://", "http://someone:hush@");
    let kept = listed(cx, &[&keep[..], &[&with_password]].concat())?;
    kept.has_out(" near/inner\n")?
        .has_out(" .git/modules/hooks/config\n")?;
    let shown = format!("http://xxxxx:xxxxx@{}/", server.host());
    for config in [".git/config", ".git/modules/hooks/config"] {
        content(cx, config)?.has_out(&shown)?;
    }
    let secret = fs::read(cx.path("out.tar")?)?;
    ensure!(
        !secret.windows(4).any(|window| window == b"hush"),
        "the password is in the image"
    );
    nothing_left(cx)
}

/// A submodule on another server must not get the credentials for the first one.
fn elsewhere(cx: &Context, dir: &Path, served: &Path, words: &[&str]) -> Result<()> {
    let lib = commit(cx, "lib", &[("inner", "of the submodule")])?;
    git(&lib, &["clone", "--quiet", "--bare", ".", "../lib.git"])?;
    git(&served.join("lib.git"), &["update-server-info"])?;
    let other = FakeRegistry::start();
    let (files, told) = (served.to_owned(), Arc::new(AtomicBool::new(false)));
    let hears = Arc::clone(&told);
    other.hook(move |request| {
        if request.header("authorization").is_some() {
            hears.store(true, Ordering::SeqCst);
        }
        serve(&files, request)
    });
    let url = format!("http://{}/lib.git", other.host());
    git(
        dir,
        &["submodule", "--quiet", "add", "--name", "lib", &url, "lib"],
    )?;
    git(dir, &["commit", "--quiet", "-m", "lib"])?;
    git(dir, &["push", "--quiet", "../app.git", "main"])?;
    git(&served.join("app.git"), &["update-server-info"])?;
    told.store(false, Ordering::SeqCst);
    listed(cx, words)?;
    content(cx, "lib/inner")?.prints("of the submodule")?;
    ensure!(
        !told.load(Ordering::SeqCst),
        "another server was told the credentials"
    );
    Ok(())
}

/// Returns the file that a request names.
fn serve(dir: &Path, request: &Request) -> Option<Reply> {
    let path = request.path.split('?').next()?.trim_start_matches('/');
    Some(match fs::read(dir.join(path)) {
        Ok(bytes) => Reply::status(200).body(bytes),
        Err(_) => Reply::status(404),
    })
}

/// Filters, hooks and remote helpers are programs: settings that name them, in the repository or in the caller's
/// configuration, are ignored.
fn hostile(cx: &Context) -> Result<()> {
    let ran = cx.path("ran")?;
    let config = format!(
        "[filter \"evil\"]\nsmudge = touch {ran}\nclean = touch {ran}\nrequired = true\n\
         [core]\nfsmonitor = touch {ran}\nhooksPath = {}\n",
        cx.path("hooks")?
    );
    let home = cx.directory("home")?;
    fs::write(Path::new(&home).join(".gitconfig"), &config)?;
    let hooks = cx.directory("hooks")?;
    cx.file("hooks/post-checkout", &format!("#!/bin/sh\ntouch {ran}\n"))?;
    Invocation::new(["chmod", "755", &format!("{hooks}/post-checkout")])
        .output()?
        .exits(0)?;
    let modules = format!(
        "[submodule \"a\"]\npath = a\nurl = ext::touch% {ran}\n[submodule \"b\"]\npath = b\nurl = file://{}\n",
        cx.path("served/lib")?
    );
    let files = [
        ("Dockerfile", COPIES),
        (".gitattributes", "* filter=evil\n"),
        ("file", "one"),
    ];
    let dir = commit(cx, "app", &files)?;
    commit(cx, "lib", &[("inner", "x")])?;
    let server = Daemon::of(&cx.scratch().join("served"))?;
    let build = |rest: &str| {
        let build = cx.tote(&[
            "build",
            "-o",
            &format!("type=tar,dest={}", cx.path("out.tar")?),
            &server.url(rest),
        ]);
        build.env("HOME", &home).env("XDG_CONFIG_HOME", &home).output()
    };
    build("app")?.exits(0)?;
    content(cx, "file")?.prints("one")?;
    fs::write(dir.join(".gitmodules"), modules)?;
    for name in ["a", "b"] {
        let entry = format!("160000,{},{name}", git(&dir, &["rev-parse", "HEAD"])?);
        git(&dir, &["update-index", "--add", "--cacheinfo", &entry])?;
    }
    git(&dir, &["add", ".gitmodules"])?;
    git(&dir, &["commit", "--quiet", "-m", "modules"])?;
    build("app")?.exits(1)?.has_err("not allowed")?;
    build("app?submodules=false")?.exits(0)?;
    ensure!(!Path::new(&ran).exists(), "a program of the repository's ran");
    nothing_left(cx)
}

fn address(cx: &Context) -> Result<()> {
    let files = cx.directory("files")?;
    for (name, text) in [
        ("Dockerfile", COPIES),
        ("file", "content"),
        ("other", "FROM scratch\nCOPY file /x\n"),
    ] {
        cx.file(&format!("files/{name}"), text)?;
    }
    let archive = cx.path("files.tgz")?;
    Invocation::new(["tar", "-czf", &archive, "-C", &files, "."])
        .output()?
        .exits(0)?;
    let packed = fs::read(&archive)?;
    let server = FakeRegistry::start();
    server.hook(move |request| {
        Some(match &*request.path {
            "/files.tgz" => Reply::status(200).body(packed.clone()),
            "/Dockerfile" => Reply::status(200).body("FROM scratch\nLABEL a=b\n"),
            _ => Reply::status(404),
        })
    });
    let url = |name: &str| format!("http://{}/{name}", server.host());
    listed(cx, &[&url("files.tgz")])?.has_out("file\n")?;
    content(cx, "file")?.prints("content")?;
    listed(cx, &["-f", "other", &url("files.tgz")])?;
    content(cx, "x")?.prints("content")?;
    cx.tote(&["build", "-t", "two", &url("Dockerfile")])
        .output()?
        .exits(0)?;
    let label = cx
        .tote(&["image", "inspect", "-f", "{{.Config.Labels.a}}", "two"])
        .output()?;
    label.prints("b\n")?;
    let named = format!("other={}", url("files.tgz"));
    let build = cx.tote(&["build", "--build-context", &named, "-"]);
    build
        .input(b"FROM scratch\nCOPY --from=other file /x\n")
        .output()?
        .exits(0)?;
    cx.tote(&["build", &url("none.tgz")])
        .output()?
        .exits(1)?
        .has_err("none.tgz")?;
    let named = format!("other={}", url("Dockerfile"));
    let build = cx.tote(&["build", "--build-context", &named, "-"]);
    build
        .input(b"FROM scratch\n")
        .output()?
        .exits(1)?
        .has_err("it is not an archive")?;
    nothing_left(cx)
}
