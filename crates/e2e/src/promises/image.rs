//! `rootfs:DIR` with an unusable directory or content: one line that names it.

use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::Result;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

pub(super) const TESTS: &[Test] = &[
    test("image::a_missing_directory", &[], missing),
    test("image::a_file_instead_of_a_directory", &[], file),
    test(
        "image::an_unreadable_directory",
        &[Need::Unprivileged],
        unreadable,
    ),
    test("image::an_empty_directory", &[], empty),
    test("image::a_script_without_its_interpreter", &[], no_interpreter),
    test(
        "image::a_program_without_its_loader",
        &[Need::Program("true")],
        no_loader,
    ),
    test("image::a_file_of_no_known_format", &[], no_format),
];

fn missing(cx: &Context) -> Result<()> {
    let dir = cx.path("missing")?;
    cx.run(&[&format!("rootfs:{dir}"), "true"])?
        .refuses(125, &[&dir, "does not exist"])?;
    cx.run(&["rootfs:", "true"])?.refuses(125, &["rootfs:"])?;
    Ok(())
}

fn file(cx: &Context) -> Result<()> {
    let file = cx.file("file", "not a directory")?;
    cx.run(&[&format!("rootfs:{file}"), "true"])?
        .refuses(125, &[&file, "not a directory"])?;
    Ok(())
}

fn unreadable(cx: &Context) -> Result<()> {
    let (dir, image) = cx.own_rootfs("closed")?;
    let path = cx.path("closed")?;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o000))?;
    let out = cx.run(&[&image, "true"]);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755))?;
    out?.refuses(125, &[&path, "cannot be read"])?;
    // A directory of root's that this user cannot even search.
    cx.run(&["rootfs:/root/no-such", "true"])?
        .refuses(125, &["/root/no-such"])?;
    Ok(())
}

fn empty(cx: &Context) -> Result<()> {
    let dir = cx.directory("empty")?;
    let image = format!("rootfs:{dir}");
    cx.run(&[&image, "sh"])?
        .refuses(127, &["sh", "executable file not found in $PATH"])?;
    cx.run(&[&image, "/bin/sh"])?
        .refuses(127, &["/bin/sh", "no such file or directory"])?;
    // The default command is a shell, from the configuration for a bare directory.
    cx.run(&[&image])?
        .refuses(127, &["/bin/sh", "no such file or directory"])?;
    Ok(())
}

fn no_interpreter(cx: &Context) -> Result<()> {
    let (dir, image) = cx.own_rootfs("rootfs")?;
    install(&dir.join("script"), b"#!/no/such/interpreter\n")?;
    cx.run(&[&image, "/script"])?
        .refuses(127, &["/script", "no such file or directory"])?;
    Ok(())
}

fn no_loader(cx: &Context) -> Result<()> {
    let (dir, image) = cx.own_rootfs("rootfs")?;
    let host = crate::need::program("true").unwrap_or_default();
    install(&dir.join("dynamic"), &fs::read(host)?)?;
    cx.run(&[&image, "/dynamic"])?
        .refuses(127, &["/dynamic", "no such file or directory"])?;
    Ok(())
}

fn no_format(cx: &Context) -> Result<()> {
    let (dir, image) = cx.own_rootfs("rootfs")?;
    install(&dir.join("garbage"), b"\x01\x02\x03garbage")?;
    cx.run(&[&image, "/garbage"])?
        .refuses(126, &["/garbage", "exec format error"])?;
    Ok(())
}

fn install(path: &std::path::Path, content: &[u8]) -> Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
