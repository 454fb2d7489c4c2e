//! podman's secrets.

use crate::context::Context;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

pub(super) const TESTS: &[Test] = &[
    test("secrets::a_container_has_a_copy", &[], copies),
    test("secrets::owners_and_modes_are_as_asked", &[Need::ManyIds], owners),
    test("secrets::a_variable_is_shown_nowhere", &[], variables),
    test("secrets::commands", &[], commands),
    test("secrets::only_the_owner_reads_the_files", &[], closed),
];

fn secret(cx: &Context, words: &[&str]) -> Result<Output> {
    cx.tote(&[&["secret"], words].concat()).output()
}

fn create(cx: &Context, name: &str, text: &str) -> Result<()> {
    let words = ["secret", "create", "--replace", name, "-"];
    let made = cx.tote(&words).input(text.as_bytes()).output()?;
    let id = made.exits(0)?.out();
    ensure!(id.trim().len() == 25, "{id}");
    Ok(())
}

fn copies(cx: &Context) -> Result<()> {
    create(cx, "key", "first")?;
    let look = "cat /run/secrets/key; stat -c ' %a %u %g' /run/secrets/key; echo x >/run/secrets/key || echo refused";
    cx.shell(&["--secret", "key"], look)?
        .has_out("first 444 0 0\nrefused\n")?;
    cx.shell(
        &[
            "--read-only",
            "--tmpfs",
            "/run",
            "--secret",
            "source=key,target=a/b",
            "--secret",
            "key,target=/etc/x",
        ],
        "cat /run/secrets/a/b /etc/x",
    )?
    .prints("firstfirst")?;
    cx.nothing_left()?;
    // A container that is there keeps what it was made with.
    let script = "cat /run/secrets/key";
    cx.tote(&[
        "create",
        "--name",
        "c",
        "--secret",
        "key",
        &cx.image(),
        "sh",
        "-c",
        script,
    ])
    .output()?
    .exits(0)?;
    create(cx, "key", "second")?;
    cx.tote(&["start", "-a", "c"]).output()?.prints("first")?;
    secret(cx, &["rm", "key"])?.exits(0)?;
    cx.tote(&["start", "-a", "c"]).output()?.prints("first")?;
    cx.tote(&["rm", "c"]).output()?.exits(0)?;
    cx.shell(&["--secret", "key"], "true")?
        .exits(125)?
        .has_err("no secret with name or id \"key\"")?;
    cx.nothing_left()
}

fn owners(cx: &Context) -> Result<()> {
    create(cx, "key", "text")?;
    let look = "stat -c '%a %u %g' /run/secrets/key; cat /run/secrets/key";
    let options = ["-u", "33:44", "--secret", "key,uid=33,gid=44,mode=0400"];
    cx.shell(&options, look)?.prints("400 33 44\ntext")?;
    cx.shell(&["-u", "33", "--secret", "key,mode=0400"], look)?
        .has_err("Permission denied")?;
    cx.nothing_left()
}

fn variables(cx: &Context) -> Result<()> {
    create(cx, "key", "hunter2")?;
    cx.shell(&["-e", "key=other", "--secret", "key,type=env"], "echo $key")?
        .prints("hunter2\n")?;
    let options = ["run", "-d", "--name", "c", "--secret", "key,type=env,target=PASS"];
    cx.tote(&[&options[..], &[&cx.image(), "sleep", "1000"]].concat())
        .output()?
        .exits(0)?;
    cx.tote(&["exec", "c", "sh", "-c", "echo $PASS"])
        .output()?
        .prints("hunter2\n")?;
    let shown = cx.tote(&["inspect", "c"]).output()?.exits(0)?.out();
    ensure!(!shown.contains("hunter2"), "{shown}");
    cx.tote(&["commit", "c", "image"]).output()?.exits(0)?;
    let shown = cx.tote(&["image", "inspect", "image"]).output()?.exits(0)?.out();
    ensure!(!shown.contains("hunter2") && !shown.contains("PASS"), "{shown}");
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    create(cx, "key", "a\0b")?;
    cx.shell(&["--secret", "key,type=env"], "true")?
        .exits(125)?
        .has_err("contain a NUL")?;
    cx.nothing_left()
}

fn commands(cx: &Context) -> Result<()> {
    let heading = secret(cx, &["ls"])?.exits(0)?.out();
    let words = ["ID", "NAME", "DRIVER", "CREATED", "UPDATED"];
    ensure!(heading.split_whitespace().eq(words), "{heading}");
    let file = cx.file("text", "from a file")?;
    let id = secret(cx, &["create", "-l", "a=b", "key", &file])?
        .exits(0)?
        .out();
    let id = id.trim();
    secret(cx, &["create", "key", &file])?
        .exits(1)?
        .has_err("secret name in use")?;
    secret(cx, &["create", "--ignore", "key", &file])?.prints(&format!("{id}\n"))?;
    secret(cx, &["ls", "--format", "{{.ID}} {{.Name}} {{.Driver}}"])?.prints(&format!("{id} key file\n"))?;
    secret(cx, &["ls", "-q", "--filter", "name=nosuch"])?.prints("")?;
    let shown = secret(cx, &["inspect", &id[..8]])?.exits(0)?.out();
    ensure!(!shown.contains("from a file"), "{shown}");
    secret(cx, &["inspect", "-f", "{{.Spec.Name}} {{.Spec.Labels.a}}", "key"])?.prints("key b\n")?;
    secret(cx, &["inspect", "--showsecret", "-f", "{{.SecretData}}", "key"])?.prints("from a file\n")?;
    secret(cx, &["inspect", "--pretty", "key"])?.has_out("Name:            key\nLabels:          a=b\n")?;
    secret(cx, &["exists", "key"])?.exits(0)?;
    secret(cx, &["exists", "nosuch"])?.exits(1)?;
    secret(cx, &["rm", "nosuch"])?
        .exits(1)?
        .has_err("no such secret")?;
    secret(cx, &["rm", "-i", "nosuch"])?.exits(0)?;
    secret(cx, &["rm", "key"])?.prints(&format!("{id}\n"))?;
    cx.tote(&["secret", "create", "--env", "key", "TOTE_TEST_SECRET"])
        .env("TOTE_TEST_SECRET", "from a variable")
        .output()?
        .exits(0)?;
    secret(cx, &["inspect", "--showsecret", "-f", "{{.SecretData}}", "key"])?.prints("from a variable\n")?;
    secret(cx, &["rm", "-a"])?.exits(0)?;
    secret(cx, &["ls", "-q"])?.prints("")?;
    Ok(())
}

fn closed(cx: &Context) -> Result<()> {
    create(cx, "key", "text")?;
    let dir = cx.root().join("secrets");
    for (path, mode) in [(dir.clone(), 0o700), (dir.join("key.json"), 0o600)] {
        let found = fs::metadata(&path)?.permissions().mode() & 0o777;
        ensure!(found == mode, "{}: {found:o}", path.display());
    }
    Ok(())
}
