//! podman's `U` and `O` of `--volume`.

use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

pub(super) const TESTS: &[Test] = &[
    test(
        "volumes::u_gives_the_files_to_the_containers_user",
        &[Need::ManyIds],
        chowned,
    ),
    test(
        "volumes::u_gives_the_images_files_to_the_containers_user",
        &[Need::ManyIds],
        filled,
    ),
    test("volumes::u_leaves_the_machines_directories_alone", &[], machines),
    test("volumes::o_keeps_writes_apart_from_the_files", &[], overlaid),
    test(
        "volumes::o_shows_the_owner_of_the_files",
        &[Need::ManyIds],
        owners,
    ),
];

/// A directory with a file, a directory that only its owner may list, and a link out of it.
fn tree(cx: &Context) -> Result<(PathBuf, String)> {
    let dir = cx.directory("tree")?;
    let path = PathBuf::from(&dir);
    fs::write(path.join("file"), "the host's\n")?;
    fs::create_dir(path.join("sub"))?;
    fs::write(path.join("sub/below"), "")?;
    fs::set_permissions(path.join("sub"), fs::Permissions::from_mode(0o700))?;
    symlink(cx.file("outside", "")?, path.join("link"))?;
    Ok((path, dir))
}

fn owner(path: &Path) -> Result<(u32, u32)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.uid(), found.gid()))
}

fn chowned(cx: &Context) -> Result<()> {
    let (path, dir) = tree(cx)?;
    let before = owner(&cx.scratch().join("outside"))?;
    let look = "cd /w && stat -c '%u %g' . file sub sub/below link && touch sub/mine";
    let options = ["-u", "33:44", "-v"];
    let mounted = format!("{dir}:/w:U");
    cx.shell(&[&options[..], &[&mounted]].concat(), look)?
        .prints(&"33 44\n".repeat(5))?;
    ensure!(
        owner(&cx.scratch().join("outside"))? == before,
        "the link was followed"
    );
    let given = owner(&path.join("file"))?;
    ensure!(given != before, "{given:?}");
    // Another user of the machine's ids, and then root of the container.
    cx.shell(
        &[
            "-u",
            "7",
            "--mount",
            &format!("type=bind,source={dir},target=/w,U=true"),
        ],
        "stat -c '%u %g' /w/sub/mine",
    )?
    .prints("7 0\n")?;
    cx.shell(&["-v", &mounted], "stat -c '%u %g' /w/sub/mine")?
        .prints("0 0\n")?;
    ensure!(
        owner(&path.join("sub/mine"))? == before,
        "root of the container is the caller"
    );
    // A volume as well, at each start.
    let made = cx.tote(&[
        "create",
        "--name",
        "c",
        "-u",
        "5",
        "-v",
        "named:/w:U",
        &cx.image(),
        "sh",
        "-c",
        "touch /w/a; stat -c %u /w/*",
    ]);
    made.output()?.exits(0)?;
    cx.tote(&["start", "-a", "c"]).output()?.prints("5\n")?;
    cx.shell(&["-v", "named:/w"], "touch /w/b")?.exits(0)?;
    cx.tote(&["start", "-a", "c"]).output()?.prints("5\n5\n")?;
    cx.tote(&["rm", "-v", "c"]).output()?.exits(0).map(drop)
}

/// A new volume gets the files of the image, and these are the user's at the first start.
fn filled(cx: &Context) -> Result<()> {
    let (dir, name) = cx.own_rootfs("filled")?;
    fs::create_dir_all(dir.join("full/sub"))?;
    fs::write(dir.join("full/sub/file"), "the image's\n")?;
    fs::create_dir(dir.join("empty"))?;
    let look = "cd /full && stat -c '%u %g' . sub sub/file && stat -c '%u %g' /empty && echo >sub/file && touch /empty/x";
    let run = |more: &[&str]| {
        let volumes = ["-u", "33:44", "-v", "full:/full:U", "-v", "empty:/empty:U"];
        cx.run(&[&volumes[..], more, &[&name, "sh", "-c", look]].concat())
    };
    for _ in 0..2 {
        run(&[])?.prints(&"33 44\n".repeat(4))?;
    }
    Ok(())
}

fn machines(cx: &Context) -> Result<()> {
    let link = cx.path("link")?;
    symlink("/usr/../etc", &link)?;
    for source in ["/etc", &link] {
        cx.shell(&["-v", &format!("{source}:/w:U")], "true")?
            .exits(125)?
            .has_err("cannot change the owner of /etc, as U asks")?;
    }
    cx.nothing_left()
}

fn overlaid(cx: &Context) -> Result<()> {
    let (path, dir) = tree(cx)?;
    let mounted = format!("{dir}:/w:O");
    let script = "cat /w/file; rm -r /w/file /w/sub; mkdir /w/sub; echo mine >/w/new; ls /w /w/sub";
    let expected = "the host's\n/w:\nlink\nnew\nsub\n\n/w/sub:\n";
    cx.shell(&["-v", &mounted], script)?.prints(expected)?;
    ensure!(fs::read_to_string(path.join("file"))? == "the host's\n");
    ensure!(path.join("sub/below").exists() && !path.join("new").exists());
    cx.nothing_left()?;
    // A container that is kept begins anew as well.
    let kept = [
        "run",
        "--name",
        "c",
        "-v",
        &mounted,
        &cx.image(),
        "sh",
        "-c",
        script,
    ]
    .map(str::to_owned);
    let kept: Vec<&str> = kept.iter().map(String::as_str).collect();
    cx.tote(&kept).output()?.prints(expected)?;
    cx.tote(&["start", "-a", "c"]).output()?.prints(expected)?;
    // The container that takes the mount over writes to the host no more than the first one.
    cx.shell(&["--volumes-from", "c"], "echo more >/w/file; cat /w/file")?
        .prints("more\n")?;
    ensure!(fs::read_to_string(path.join("file"))? == "the host's\n");
    cx.tote(&["rm", "c"]).output()?.exits(0)?;
    cx.shell(&["-v", "named:/w:O"], "touch /w/x; ls /w")?
        .prints("x\n")?;
    cx.shell(&["-v", "named:/w"], "ls /w")?.prints("")?;
    cx.shell(
        &["-v", &format!("{dir}:/w:ro,O")],
        "echo a >/w/file || echo refused",
    )?
    .has_out("refused\n")?;
    cx.shell(&["-v", &format!("{dir}/file:/w:O")], "true")?
        .exits(125)?
        .has_err("an overlay needs a directory")?;
    cx.nothing_left()
}

fn owners(cx: &Context) -> Result<()> {
    let (_, dir) = tree(cx)?;
    let options = ["-u", "33:44", "-v"];
    cx.shell(
        &[&options[..], &[&format!("{dir}:/w:U")]].concat(),
        "chmod 750 /w",
    )?
    .exits(0)?;
    cx.shell(
        &["-u", "33:44", "-v", &format!("{dir}:/w:O")],
        "stat -c '%u %g %a' /w; touch /w/x",
    )?
    .prints("33 44 750\n")?;
    // The runner removes what it may remove.
    cx.shell(&["-v", &format!("{dir}:/w:U")], "true")?
        .exits(0)
        .map(drop)
}
