//! The image `host` has the host's programs, and none of the host's private files.

use crate::context::{Context, SECRET};
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

pub(super) const TESTS: &[Test] = &[
    test("host_image::python_works", &[Need::Program("python3")], python),
    test("host_image::perl_works", &[Need::Program("perl")], perl),
    test("host_image::node_works", &[Need::Program("node")], node),
    test("host_image::git_works", &[Need::Program("git")], git),
    test(
        "host_image::gcc_compiles_and_its_program_runs",
        &[Need::Program("gcc")],
        gcc,
    ),
    test("host_image::nothing_private_is_there", &[], nothing_private),
    test("host_image::the_environment_is_not_the_hosts", &[], environment),
    test(
        "host_image::etc_holds_what_everybody_may_read",
        &[Need::Program("find")],
        etc,
    ),
    test(
        "host_image::a_private_file_below_usr_is_unreadable_even_for_root",
        &[Need::Root],
        private_in_usr,
    ),
    test("host_image::usr_is_read_only_and_nosuid", &[], usr),
    test("host_image::tmp_is_private_and_gone_afterwards", &[], private_tmp),
];

/// Runs a shell script in the image `host`.
fn on_host(cx: &Context, script: &str) -> Result<crate::output::Output> {
    cx.run(&["host", "sh", "-c", script])
}

fn python(cx: &Context) -> Result<()> {
    let program = "import json, ssl, sqlite3, tempfile; tempfile.TemporaryFile(); print(json.dumps(6 * 7))";
    cx.run(&["host", "python3", "-c", program])?.prints("42\n")?;
    Ok(())
}

fn perl(cx: &Context) -> Result<()> {
    cx.run(&["host", "perl", "-MPOSIX", "-e", "print floor(42.5), \"\\n\""])?
        .prints("42\n")?;
    Ok(())
}

fn node(cx: &Context) -> Result<()> {
    cx.run(&[
        "host",
        "node",
        "-e",
        "console.log(require('os').hostname().length > 0, 6 * 7)",
    ])?
    .prints("true 42\n")?;
    Ok(())
}

fn git(cx: &Context) -> Result<()> {
    let script = "cd /tmp && git init -q r && cd r && echo x > f && git add f && \
        git -c user.name=t -c user.email=t@t commit -qm m && git log --format=%s";
    on_host(cx, script)?.prints("m\n")?;
    Ok(())
}

fn gcc(cx: &Context) -> Result<()> {
    let script = "cd /tmp && echo 'int main(void) { return 7; }' > a.c && gcc a.c -o a && ./a";
    on_host(cx, script)?.exits(7)?;
    Ok(())
}

fn nothing_private(cx: &Context) -> Result<()> {
    let script = r#"
for dir in /root /home; do
    if [ -n "$(ls -A $dir 2>/dev/null)" ]; then echo "$dir is not empty"; fi
done
for file in /etc/shadow /etc/shadow- /etc/gshadow /etc/machine-id /var/lib/dbus/machine-id /etc/ssh/ssh_host_*_key \
    /etc/sudoers /etc/krb5.keytab /etc/ssl/private/* /var/run/docker.sock /run/docker.sock /run/dbus /run/user; do
    if [ -e "$file" ]; then echo "$file is there"; fi
done"#;
    on_host(cx, script)?.prints("")?;
    // The directory of the test is outside the system directories.
    let canary = cx.file("canary", "private")?;
    on_host(cx, &format!("test ! -e {canary} && echo hidden"))?.prints("hidden\n")?;
    Ok(())
}

fn environment(cx: &Context) -> Result<()> {
    let out = cx.run(&["host", "env"])?;
    out.exits(0)?;
    let text = out.out();
    ensure!(
        !text.contains(SECRET.0) && !text.contains(SECRET.1),
        "the host's environment leaked:\n{text}"
    );
    ensure!(
        text.lines().any(|line| line == "HOME=/root"),
        "expected HOME=/root, saw:\n{text}"
    );
    Ok(())
}

/// Every file below `/etc` that is readable inside is world-readable outside; generated files have no private
/// counterpart.
fn etc(cx: &Context) -> Result<()> {
    let out = cx.run(&["host", "find", "/etc", "-type", "f", "-readable"])?;
    let listed = out.out();
    ensure!(
        listed.lines().count() > 10,
        "expected files below /etc, saw:\n{}",
        out.transcript()
    );
    let private: Vec<_> = listed
        .lines()
        .filter(|file| !world_readable(Path::new(file)))
        .collect();
    ensure!(
        private.is_empty(),
        "readable inside, private outside: {private:?}"
    );
    Ok(())
}

/// True if every user may read a file of the host, and pass the directories on the way to it; a
/// missing one counts as readable.
fn world_readable(file: &Path) -> bool {
    let open =
        |path: &Path, bits| fs::metadata(path).is_ok_and(|found| found.permissions().mode() & bits == bits);
    fs::symlink_metadata(file).is_err()
        || open(file, 0o004) && file.ancestors().skip(1).all(|directory| open(directory, 0o001))
}

/// File that the test puts on the host; drop removes it.
#[derive(Debug)]
struct HostFile(PathBuf);

impl HostFile {
    fn create(directory: &Path, mode: u32) -> Result<Self> {
        let path = directory.join(format!("tote-e2e-{}-{mode:o}", std::process::id()));
        let file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path);
        let mut file = file.with_context(|| format!("create {}", path.display()))?;
        let made = Self(path);
        std::io::Write::write_all(&mut file, b"content\n")?;
        Ok(made)
    }
}

impl Drop for HostFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            crate::context::note(&format!("cannot remove {}: {error}", self.0.display()));
        }
    }
}

fn private_in_usr(cx: &Context) -> Result<()> {
    let share = Path::new("/usr/local/share");
    let open = HostFile::create(share, 0o644)?;
    let private = HostFile::create(share, 0o600)?;
    let read = |file: &HostFile| cx.run(&["host", "cat", &file.0.to_string_lossy()]);
    read(&open)?
        .prints("content\n")
        .context("a file that everybody may read")?;
    let out = read(&private)?;
    out.fails()?;
    ensure!(
        out.stdout.is_empty(),
        "a private file was read:\n{}",
        out.transcript()
    );
    let changes = format!(
        "chmod 644 {0}; chown 1:1 {0}; rm -f {0}; cat {0}",
        private.0.display()
    );
    let out = on_host(cx, &changes)?;
    ensure!(
        !out.out().contains("content"),
        "a private file was read after a change:\n{}",
        out.transcript()
    );
    ensure!(private.0.exists(), "a container removed {}", private.0.display());
    Ok(())
}

fn usr(cx: &Context) -> Result<()> {
    on_host(cx, "touch /usr/x")?
        .fails()?
        .has_err("read-only file system")?;
    let out = on_host(cx, "cat /proc/self/mountinfo")?;
    let text = out.out();
    let line = text.lines().find(|line| line.split(' ').nth(4) == Some("/usr"));
    let line = line.with_context(|| format!("no mount on /usr:\n{text}"))?;
    let options: Vec<_> = line.split(' ').nth(5).unwrap_or_default().split(',').collect();
    for wanted in ["ro", "nosuid"] {
        ensure!(options.contains(&wanted), "expected {wanted} on /usr, saw {line}");
    }
    Ok(())
}

fn private_tmp(cx: &Context) -> Result<()> {
    let name = format!("/tmp/tote-e2e-{}", std::process::id());
    on_host(cx, &format!("echo x > {name} && cat {name}"))?.prints("x\n")?;
    ensure!(!Path::new(&name).exists(), "{name} reached the host");
    on_host(cx, &format!("test ! -e {name} && echo gone"))?.prints("gone\n")?;
    Ok(())
}
