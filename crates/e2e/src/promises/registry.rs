//! Images come from registries and go there: present layers are not fetched, forged ones do not arrive, and only the
//! registry gets a password.

use crate::context::Context;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use tote_testkit::{FakeRegistry, Reply, digest, manifest};

pub(super) const TESTS: &[Test] = &[
    test("registry::run_pulls_what_is_missing", &[], run_pulls),
    test("registry::what_is_here_is_not_fetched", &[], not_fetched),
    test("registry::two_pulls_share_the_work", &[], shared_work),
    test("registry::a_forged_layer_does_not_arrive", &[], forged),
    test("registry::what_was_pushed_is_what_is_pulled", &[], pushed),
    test("registry::a_password_is_its_owners", &[], password),
];

const TAR: &str = "application/vnd.oci.image.layer.v1.tar";

/// Packs the tests' root file system as a layer.
pub(super) fn layer(cx: &Context) -> Result<Vec<u8>> {
    let tar = Command::new("tar")
        .args(["--format=pax", "--owner=0", "--group=0", "--numeric-owner", "-cC"])
        .arg(cx.shared_rootfs())
        .arg(".")
        .output()
        .context("run tar")?;
    ensure!(
        tar.status.success(),
        "tar: {}",
        String::from_utf8_lossy(&tar.stderr)
    );
    Ok(tar.stdout)
}

/// Publishes an image of that layer at a registry. Returns the layer's digest.
pub(super) fn publish(registry: &FakeRegistry, name: &str, layer: &[u8]) -> String {
    let (repository, tag) = name.split_once(':').unwrap_or((name, "latest"));
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let config = serde_json::json!({
        "os": "linux",
        "architecture": architecture,
        "config": { "Env": ["PATH=/bin", "FROM=registry"], "Cmd": ["sh", "-c", "echo $FROM"] },
        "rootfs": { "type": "layers", "diff_ids": [digest(layer)] },
    })
    .to_string();
    registry.blob(repository, config.as_bytes());
    registry.manifest(repository, tag, &manifest(config.as_bytes(), &[(TAR, layer)]));
    registry.blob(repository, layer)
}

fn tote(cx: &Context, words: &[&str]) -> Result<Output> {
    cx.tote(words).output()
}

/// Removes images with tote, because the user cannot remove files of other ids.
pub(super) fn forget(cx: &Context, images: &[&str]) -> Result<()> {
    for image in images {
        tote(cx, &["rmi", "-f", image])?.exits(0)?;
    }
    Ok(())
}

fn run_pulls(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    publish(&registry, "team/app:1", &layer(cx)?);
    let image = format!("{}/team/app:1", registry.host());
    let refused = cx.run(&["--pull", "never", &image])?;
    refused.refuses(125, &["no such image"])?;
    cx.run(&["-it", &image])?
        .refuses(1, &["the input device is not a TTY"])?;
    ensure!(
        registry.log().is_empty(),
        "--pull never, or -it without a terminal, asked the registry"
    );
    let pulled = cx.run(&[&image])?;
    pulled.exits(0)?.prints("registry\n")?;
    pulled
        .has_err("Unable to find image")?
        .has_err("Status: Downloaded newer image")?;
    let asked = registry.log().len();
    cx.run(&[&image, "echo", "again"])?.quietly()?.prints("again\n")?;
    ensure!(registry.log().len() == asked, "what is here was asked for");
    cx.run(&["--pull", "always", "-q", &image])?
        .exits(0)?
        .prints("registry\n")?;
    ensure!(registry.log().len() > asked, "--pull always did not ask");
    let absent = format!("{}/team/absent:1", registry.host());
    let failed = cx.run(&[&absent, "true"])?;
    failed.exits(125)?.has_err("not found, or no access to it")?;
    forget(cx, &[&image])
}

fn not_fetched(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    let layer = layer(cx)?;
    let blob = publish(&registry, "team/one:1", &layer);
    publish(&registry, "team/two:1", &layer);
    let (one, two) = (
        format!("{}/team/one:1", registry.host()),
        format!("{}/team/two:1", registry.host()),
    );
    let first = tote(cx, &["pull", &one])?;
    first
        .exits(0)?
        .has_out("Pulling from team/one")?
        .has_out("Pull complete")?;
    first.has_out("Status: Downloaded newer image")?;
    tote(cx, &["pull", &two])?.exits(0)?.has_out("Already exists")?;
    ensure!(registry.count("GET", &blob) == 1, "the layer was fetched again");
    let manifests = registry.count("GET", "/manifests/");
    tote(cx, &["pull", &one])?
        .exits(0)?
        .has_out("Image is up to date")?;
    ensure!(
        registry.count("GET", "/manifests/") == manifests,
        "a manifest was fetched again"
    );
    tote(cx, &["pull", "-q", &one])?
        .exits(0)?
        .prints(&format!("{one}\n"))?;
    forget(cx, &[&one, &two])
}

fn shared_work(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    let blob = publish(&registry, "team/app:1", &layer(cx)?);
    let image = format!("{}/team/app:1", registry.host());
    let pulls = [(); 3].map(|()| cx.tote(&["pull", "-q", &image]).spawn());
    for pull in pulls {
        pull?.finish()?.exits(0)?.prints(&format!("{image}\n"))?;
    }
    ensure!(
        registry.count("GET", &blob) == 1,
        "the layer was fetched more than once"
    );
    forget(cx, &[&image])
}

fn forged(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    let layer = layer(cx)?;
    let blob = publish(&registry, "team/app:1", &layer);
    let image = format!("{}/team/app:1", registry.host());
    // Damage is told as what it is, wherever it is, and whatever the reader of the archive makes of it.
    let places = [0, 12, layer.len() / 2, layer.len() - 1];
    registry.hook(move |request| {
        let place = *places.get(request.nth)?;
        let mut other = layer.clone();
        *other.get_mut(place)? ^= 1;
        let forged = request.path.ends_with(&blob);
        forged.then(|| Reply::status(200).body(other))
    });
    for place in places {
        let failed = tote(cx, &["pull", &image])?;
        failed
            .exits(1)?
            .has_err("hashes to")?
            .has_err("on the way")
            .with_context(|| format!("byte {place}"))?;
    }
    cx.run(&["--pull", "never", &image])?.fails()?;
    cx.run(&[&image])?.exits(0)?.prints("registry\n")?;
    forget(cx, &[&image])
}

fn pushed(cx: &Context) -> Result<()> {
    let (from, to) = (FakeRegistry::start(), FakeRegistry::start());
    publish(&from, "team/app:1", &layer(cx)?);
    let image = format!("{}/team/app:1", from.host());
    let copy = format!("{}/mirror/copy:2", to.host());
    tote(cx, &["pull", "-q", &image])?.exits(0)?;
    tote(cx, &["push", &copy])?
        .exits(1)?
        .has_err("does not exist locally")?;
    tote(cx, &["tag", &image, &copy])?.exits(0)?;
    let pushed = tote(cx, &["push", &copy])?;
    pushed
        .exits(0)?
        .has_out("The push refers to repository")?
        .has_out(": Pushed")?;
    pushed.has_out("2: digest: sha256:")?;
    tote(cx, &["push", &copy])?
        .exits(0)?
        .has_out("Layer already exists")?;
    forget(cx, &[&image, &copy])?;
    cx.run(&["-q", &copy])?.exits(0)?.prints("registry\n")?;
    forget(cx, &[&copy])
}

/// Credentials of Aladdin, from RFC 7617.
const BASIC: &str = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";

fn password(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    publish(&registry, "team/app:1", &layer(cx)?);
    registry.demand_token(BASIC, "a-token", false);
    let host = registry.host();
    let image = format!("{host}/team/app:1");
    tote(cx, &["pull", &image])?.exits(1)?.has_err("tote login")?;
    let login = |password: &str| {
        let words = ["login", "-u", "Aladdin", "--password-stdin", &host];
        cx.tote(&words).input(password.as_bytes()).output()
    };
    login("wrong\n")?
        .exits(1)?
        .has_err("access denied")?
        .has_err("check the name and the password")?;
    let file = cx.scratch().join(".docker/config.json");
    ensure!(!file.exists(), "a wrong password was kept");
    login("open sesame\n")?.exits(0)?.has_out("Login Succeeded")?;
    let mode = fs::metadata(&file)?.permissions().mode() & 0o7777;
    ensure!(mode == 0o600, "config.json has mode {mode:o}");
    tote(cx, &["pull", "-q", &image])?.exits(0)?;
    tote(cx, &["logout", &host])?
        .exits(0)?
        .has_out("Removing login credentials")?;
    ensure!(
        !fs::read_to_string(&file)?.contains(&host),
        "the entry is still there"
    );
    tote(cx, &["logout", &host])?
        .exits(0)?
        .has_out("Removing login credentials for")?;
    forget(cx, &[&image])
}
