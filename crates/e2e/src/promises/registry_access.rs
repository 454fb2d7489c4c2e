//! Credentials and certificates of the command line take precedence over all files.

use super::registry::{forget, layer, publish};
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tote_testkit::{FakeRegistry, Reply};

pub(super) const TESTS: &[Test] = &[
    test("registry::an_authfile_is_the_only_one", &[], authfile),
    test("registry::creds_are_for_once", &[], creds),
    test("registry::credentials_stay_with_their_registry", &[], redirected),
    test("registry::a_missing_password_is_asked_for", &[], asked),
    test("registry::everything_is_forgotten_at_once", &[], forgotten),
    test("registry::builds_have_an_authfile", &[Need::ManyIds], build),
    test(
        "registry::authorities_of_a_directory",
        &[Need::Program("openssl")],
        authorities,
    ),
];

/// Credentials of Aladdin, from RFC 7617.
const BASIC: &str = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
const CREDS: &str = "Aladdin:open sesame";

/// Makes a registry with one image, which only Aladdin may pull.
fn closed(cx: &Context) -> Result<(FakeRegistry, String)> {
    let registry = FakeRegistry::start();
    publish(&registry, "team/app:1", &layer(cx)?);
    registry.demand_token(BASIC, "a-token", false);
    let image = format!("{}/team/app:1", registry.host());
    Ok((registry, image))
}

fn tote(cx: &Context, words: &[&str]) -> Result<Output> {
    cx.tote(words).output()
}

fn login(cx: &Context, options: &[&str], host: &str) -> Invocation {
    let words = [&["login", "-u", "Aladdin", "--password-stdin"], options, &[host]].concat();
    cx.tote(&words).input(b"open sesame\n")
}

fn authfile(cx: &Context) -> Result<()> {
    let (registry, image) = closed(cx)?;
    let host = registry.host();
    let file = cx.path("auth/mine.json")?;
    let option = ["--authfile", &file];
    tote(cx, &["pull", "--authfile", &file, &image])?
        .refuses(1, &["credential file is not accessible", &file, "No such file"])?;
    tote(cx, &["logout", "--authfile", &file, &host])?.refuses(1, &["not accessible"])?;
    ensure!(registry.log().is_empty(), "the registry was asked");
    login(cx, &option, &host).output()?.prints("Login Succeeded\n")?;
    let mode = fs::metadata(&file)?.permissions().mode() & 0o7777;
    ensure!(mode == 0o600, "the file has mode {mode:o}");
    ensure!(
        !cx.scratch().join(".docker").exists(),
        "docker's file was made as well"
    );
    tote(cx, &["pull", &image])?.exits(1)?.has_err("tote login")?;
    // The environment names another file, which the option overrides.
    let empty = cx.file("empty.json", "{}")?;
    let pull = |words: &[&str]| cx.tote(words).env("REGISTRY_AUTH_FILE", &empty).output();
    pull(&["pull", "-q", &image])?.exits(1)?.has_err("denied")?;
    pull(&["pull", "-q", "--authfile", &file, &image])?.exits(0)?;
    let known = ["login", "--get-login", "--authfile", &file, &host];
    pull(&known)?.quietly()?.prints("Aladdin\n")?;
    pull(&["login", "--get-login", &host])?.refuses(1, &["not logged into", &host])?;
    forget(cx, &[&image])?;
    cx.run(&["-q", "--authfile", &file, &image])?
        .exits(0)?
        .prints("registry\n")?;
    tote(cx, &["push", "-q", "--authfile", &file, &image])?.exits(0)?;
    tote(cx, &["logout", "--authfile", &file, &host])?
        .exits(0)?
        .has_out("Removing login credentials")?;
    tote(cx, &known)?.refuses(1, &["not logged into"])?;
    forget(cx, &[&image])
}

fn creds(cx: &Context) -> Result<()> {
    let (registry, image) = closed(cx)?;
    // The stored credentials are wrong, and the option overrides them.
    let auths = serde_json::json!({ "auths": { registry.host(): { "auth": "d3Jvbmc6d3Jvbmc=" } } });
    let auths = auths.to_string();
    fs::create_dir_all(cx.scratch().join(".docker"))?;
    cx.file(".docker/config.json", &auths)?;
    tote(cx, &["pull", &image])?.exits(1)?.has_err("denied")?;
    tote(cx, &["pull", "-q", "--creds", CREDS, &image])?
        .exits(0)?
        .quietly()?;
    let seen = registry.log();
    let shown: Vec<&str> = seen
        .iter()
        .filter(|request| request.header("authorization") == Some(BASIC))
        .map(|request| request.path.as_str())
        .collect();
    ensure!(
        !shown.is_empty() && shown.iter().all(|path| *path == "/token"),
        "the password was shown at {shown:?}"
    );
    let copy = format!("{}/team/copy:1", registry.host());
    tote(cx, &["tag", &image, &copy])?.exits(0)?;
    tote(cx, &["push", "-q", &copy])?.exits(1)?.has_err("denied")?;
    tote(cx, &["push", "-q", "--creds", CREDS, &copy])?.exits(0)?;
    for words in [
        &["run", "--rm"][..],
        &["create", "--name", "made"],
        &["build", "-q", "-"],
    ] {
        forget(cx, &[&image])?;
        let from = format!("FROM {image}\n");
        let with = |creds: &[&str]| {
            let place = if words[0] == "build" { None } else { Some(&*image) };
            let all = [&words[..1], creds, &words[1..], place.as_slice()].concat();
            cx.tote(&all).input(from.as_bytes()).output()
        };
        with(&[])?.fails()?.has_err("denied")?;
        with(&["--creds", CREDS])?.exits(0)?;
        tote(cx, &["rm", "-f", "made"])?.exits(0)?;
    }
    tote(cx, &["pull", "-q", "--creds", CREDS, &image])?.exits(0)?;
    let kept = fs::read_to_string(cx.scratch().join(".docker/config.json"))?;
    ensure!(kept == auths, "the file of credentials is now {kept}");
    forget(cx, &[&image, &copy])?;
    for (given, said) in [
        ("Aladdin:hunter2", "denied"),
        (":hunter2", "the name is empty"),
        ("Aladdin", "a password is needed"),
        ("Aladdin:", "a password is needed"),
    ] {
        let refused = tote(cx, &["pull", "--creds", given, &image])?;
        refused.refuses(1, &[said])?;
        ensure!(!refused.err().contains("hunter2"), "the password is in the error");
    }
    Ok(())
}

fn redirected(cx: &Context) -> Result<()> {
    let ((registry, image), greedy) = (closed(cx)?, FakeRegistry::start());
    let target = format!("http://{}/blob", greedy.host());
    registry.hook(move |request| {
        let authorised = request.header("authorization") == Some("Bearer a-token");
        let leads = authorised && request.path.contains("/blobs/");
        leads.then(|| Reply::status(307).header("location", &target))
    });
    let challenge = format!(r#"Bearer realm="http://{}/token",service="x""#, greedy.host());
    greedy.hook(move |request| {
        Some(match request.path.as_str() {
            "/token" => Reply::status(200).body(r#"{"token":"theirs"}"#),
            _ => Reply::status(401).header("www-authenticate", &challenge),
        })
    });
    tote(cx, &["pull", "-q", "--creds", CREDS, &image])?
        .exits(1)?
        .has_err("denied")?;
    let log = greedy.log();
    ensure!(!log.is_empty(), "nobody was led anywhere");
    for request in log {
        let shown = request.header("authorization");
        ensure!(
            request.path == "/blob" && shown.is_none(),
            "the other host was asked for {} with {shown:?}",
            request.path
        );
    }
    Ok(())
}

fn asked(cx: &Context) -> Result<()> {
    let (_registry, image) = closed(cx)?;
    for (typed, code) in [(&b"open sesame\r"[..], 0), (b"hunter2\r", 1), (b"\x03", 1)] {
        let words = ["pull", "-q", "--creds", "Aladdin", &image];
        let (mut running, terminal) = cx.tote(&words).spawn_in_terminal(24, 80)?;
        running.expect("Password: ")?;
        running.send(typed);
        let ended = running.wait()?;
        drop(terminal);
        let seen = running.finish()?.out();
        ensure!(ended == code, "it ended with {ended}: {seen}");
        ensure!(
            !seen.contains("sesame") && !seen.contains("hunter2"),
            "the password was shown: {seen}"
        );
        if code == 0 {
            forget(cx, &[&image])?;
        }
    }
    Ok(())
}

fn forgotten(cx: &Context) -> Result<()> {
    let registries = [FakeRegistry::start(), FakeRegistry::start()];
    let file = cx.path("auth.json")?;
    let hosts = registries.each_ref().map(FakeRegistry::host);
    for host in &hosts {
        login(cx, &[], host).output()?.exits(0)?;
        login(cx, &["--authfile", &file], host).output()?.exits(0)?;
    }
    tote(cx, &["logout", "--all", &hosts[0]])?.refuses(1, &["--all takes no arguments"])?;
    tote(cx, &["logout", "--all"])?.prints("Removed login credentials for all registries\n")?;
    for host in &hosts {
        tote(cx, &["login", "--get-login", host])?.refuses(1, &["not logged into"])?;
        let elsewhere = ["login", "--get-login", "--authfile", &file, host];
        tote(cx, &elsewhere)?.prints("Aladdin\n")?;
    }
    tote(cx, &["logout", "-a", "--authfile", &file])?.exits(0)?;
    let left = fs::read_to_string(&file)?;
    ensure!(!left.contains("127.0.0.1"), "left: {left}");
    Ok(())
}

fn build(cx: &Context) -> Result<()> {
    let (registry, image) = closed(cx)?;
    let file = cx.path("auth.json")?;
    login(cx, &["--authfile", &file], &registry.host())
        .output()?
        .exits(0)?;
    let context = cx.directory("context")?;
    cx.file("context/Dockerfile", &format!("FROM {image}\nENV FROM=build\n"))?;
    tote(cx, &["build", "-q", "-t", "it", &context])?
        .exits(1)?
        .has_err("denied")?;
    tote(cx, &["build", "-q", "-t", "it", "--authfile", &file, &context])?.exits(0)?;
    cx.run(&["it"])?.prints("build\n")?;
    forget(cx, &["it", &image])
}

/// Process of a server that speaks TLS and answers 200 to everything, which is enough for a login.
struct Server {
    child: Child,
    host: String,
}

impl Server {
    fn start(directory: &Path, options: &[&str]) -> Result<Self> {
        let words = [
            "s_server",
            "-www",
            "-accept",
            "127.0.0.1:0",
            "-cert",
            "cert.pem",
            "-key",
        ];
        let mut child = Command::new("openssl")
            .args(words)
            .arg("key.pem")
            .args(options)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("run openssl s_server")?;
        let stdout = child.stdout.take().context("it has an output")?;
        let mut server = Self {
            child,
            host: String::new(),
        };
        for line in BufReader::new(stdout).lines() {
            if let Some(host) = line?.strip_prefix("ACCEPT ") {
                host.clone_into(&mut server.host);
                return Ok(server);
            }
        }
        anyhow::bail!("openssl s_server ended")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Request for a self-signed certificate for 127.0.0.1.
const REQUEST: &str = "[req]\ndistinguished_name=name\nx509_extensions=own\nprompt=no\n[name]\nCN=test\n\
                       [own]\nsubjectAltName=IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n";

fn certificate(directory: &Path, name: &str, key: &str) -> Result<()> {
    fs::create_dir_all(directory)?;
    fs::write(directory.join("request"), REQUEST)?;
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ])
        .args(["-days", "2", "-config", "request", "-keyout", key, "-out", name])
        .current_dir(directory)
        .output()
        .context("run openssl req")?;
    let said = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "openssl req: {said}");
    Ok(fs::remove_file(directory.join("request"))?)
}

fn authorities(cx: &Context) -> Result<()> {
    let (server, trusted) = (cx.scratch().join("server"), cx.scratch().join("trusted"));
    certificate(&server, "cert.pem", "key.pem")?;
    // The client's certificate, which the server requests.
    certificate(&trusted, "client.cert", "client.key")?;
    fs::copy(server.join("cert.pem"), trusted.join("server.crt"))?;
    let (trusted, empty) = (cx.path("trusted")?, cx.directory("empty")?);
    let option = ["--cert-dir", trusted.as_str()];
    for options in [&[][..], &["-Verify", "1", "-verify_quiet"]] {
        let server = Server::start(&server, options)?;
        login(cx, &[], &server.host)
            .output()?
            .refuses(1, &["trust", &server.host])?;
        login(cx, &["--cert-dir", &empty], &server.host)
            .output()?
            .refuses(1, &["trust", &server.host])?;
        login(cx, &option, &server.host)
            .output()?
            .prints("Login Succeeded\n")?;
    }
    // docker refuses this as well: the key is of no use.
    let lone = cx.directory("lone")?;
    fs::copy(format!("{trusted}/client.key"), format!("{lone}/client.key"))?;
    login(cx, &["--cert-dir", &lone], "127.0.0.1:1")
        .output()?
        .refuses(1, &["client.key", "missing client certificate client.cert"])?;
    let missing = cx.path("missing")?;
    login(cx, &["--cert-dir", &missing], "127.0.0.1:1")
        .output()?
        .refuses(1, &[&missing, "No such file"])?;
    Ok(())
}
