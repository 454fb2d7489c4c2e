//! Every storage driver keeps the same promises: file operations of programs work, other containers do not see them,
//! the image stays unchanged, and removed files are gone.

use crate::context::Context;
use crate::need::{self, Need};
use crate::promise::{Test, test};
use crate::tree;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// Makes a row for each promise and driver.
macro_rules! promises {
    ($($driver:literal: $($need:expr),*;)*) => {
        &[$(
            test(concat!("drivers::", $driver, "::files_behave"), &[Need::Program("gcc"), $($need),*], |cx| files(cx, $driver)),
            test(concat!("drivers::", $driver, "::owners_change"), &[Need::ManyIds, $($need),*], |cx| owners(cx, $driver)),
            test(concat!("drivers::", $driver, "::nobody_else_sees_writes"), &[$($need),*], |cx| apart(cx, $driver)),
            test(concat!("drivers::", $driver, "::what_was_kept_is_there_and_goes"), &[$($need),*], |cx| kept(cx, $driver)),
            test(concat!("drivers::", $driver, "::bare_images_and_mounts_work"), &[$($need),*], |cx| bare(cx, $driver)),
            test(concat!("drivers::", $driver, "::the_host_image_works"), &[$($need),*], |cx| host(cx, $driver)),
        )*]
    };
}

pub(super) const TESTS: &[Test] = each_driver!(promises);

pub(super) const REMOUNTED: &[Test] = &[test(
    "drivers::split_is_read_only_for_whoever_may_mount",
    &[],
    split_remounted,
)];

/// Working directory of programs, which is writable under every driver.
pub(super) const WORK: &str = "home/work";

/// Makes the image with entries in the working directory.
pub(super) fn image(cx: &Context) -> Result<(PathBuf, String)> {
    let (dir, image) = cx.own_rootfs("image")?;
    let work = dir.join(WORK);
    for sub in ["dir/sub", "opaque", "renamed"] {
        fs::create_dir_all(work.join(sub))?;
    }
    for (name, text) in [
        ("file", "first\n"),
        ("gone", "gone\n"),
        ("mapped", "....mapped\n"),
        ("dir/sub/below", "below\n"),
        ("opaque/old", "old\n"),
        ("renamed/inside", "inside\n"),
        ("script", "#!/bin/sh\necho original\n"),
    ] {
        fs::write(work.join(name), text)?;
    }
    fs::File::open(work.join("script"))?.set_permissions(fs::Permissions::from_mode(0o755))?;
    fs::write(work.join("large"), "xxxxxxx\n".repeat((6 << 20) / 8))?;
    fs::hard_link(work.join("file"), work.join("file-again"))?;
    symlink("file", work.join("link"))?;
    Ok((dir, image))
}

/// File operations of programs, one line each; a line that fails ends the script with its number.
const STEPS: &str = "\
echo second >> file && test \"$(cat file)\" = \"first
second\"
test \"$(cat link)\" = \"$(cat file)\"
echo new > new && test \"$(cat new)\" = new
rm gone && test ! -e gone
echo again > gone && test \"$(cat gone)\" = again
rm -r opaque && mkdir opaque && test -z \"$(ls -A opaque)\"
mv renamed elsewhere && test ! -e renamed && test \"$(cat elsewhere/inside)\" = inside
mv dir/sub/below dir/moved && test \"$(cat dir/moved)\" = below && test ! -e dir/sub/below
ln new new-again && echo both >> new-again && test \"$(cat new)\" = \"new
both\"
ln -s nowhere dangling && test \"$(readlink dangling)\" = nowhere
chmod 640 file && test \"$(stat -c %a file)\" = 640
chmod 2750 dir && test \"$(stat -c %a dir)\" = 2750
probe file mmap mapped && test \"$(cat mapped)\" = MMAPmapped
probe file tmpfile named && test \"$(cat named)\" = nameless
probe file setxattr file && test \"$(probe file getxattr file)\" = value
probe file setxattr dir && test \"$(probe file getxattr dir)\" = value
test \"$(./script)\" = original
echo '#!/bin/sh' > script && echo 'echo changed' >> script && test \"$(./script)\" = changed
cp /bin/busybox true && ./true && echo x >> true && ./true
dd if=/dev/zero of=large bs=1 seek=5000000 count=3 conv=notrunc 2> /dev/null && test \"$(stat -c %s large)\" = 6291456
test \"$(tail -c 2 large)\" = x && test \"$(head -c 1 large)\" = x
dd if=/dev/zero of=made bs=1M count=8 2> /dev/null && test \"$(stat -c %s made)\" = 8388608
touch -d @1000000 file && test \"$(stat -c %Y file)\" = 1000000
rm -r elsewhere dir && test ! -e dir";

fn files(cx: &Context, driver: &str) -> Result<()> {
    let (dir, image) = image(cx)?;
    let before = tree::listing(&dir)?;
    let script = script();
    cx.run_command(&["-i", "--driver", driver, &image, "sh"])
        .input(script.as_bytes())
        .output()?
        .prints("all\n")?;
    tree::unchanged(&dir, &before)?;
    if driver == "split" {
        only_the_set_is_writable(cx, &image)?;
    }
    Ok(())
}

/// Joins all steps into one script, which prints `all` at the end.
pub(super) fn script() -> String {
    let script: String = steps(STEPS)
        .map(|step| {
            format!(
                "{{ {step}; }} || {{ echo 'failed: {}'; exit 1; }}\n",
                step.replace('\'', "")
            )
        })
        .collect();
    format!("cd /{WORK}\n{script}echo all\n")
}

/// Splits the text into steps: a line that ends inside quotes continues in the next one.
fn steps(text: &str) -> impl Iterator<Item = String> {
    let mut pending = String::new();
    text.lines().filter_map(move |line| {
        if !pending.is_empty() {
            pending.push('\n');
        }
        pending.push_str(line);
        pending
            .matches('"')
            .count()
            .is_multiple_of(2)
            .then(|| std::mem::take(&mut pending))
    })
}

/// A container that may mount can clear its mount's read-only flag, but the image, which others
/// share, stays unchanged.
fn split_remounted(cx: &Context) -> Result<()> {
    let (dir, image) = image(cx)?;
    for name in ["hosts", "resolv.conf"] {
        fs::write(dir.join("etc").join(name), "")?;
    }
    let before = tree::listing(&dir)?;
    let may_mount = if need::is_root() {
        &["--cap-add", "SYS_ADMIN"][..]
    } else {
        &["--privileged"]
    };
    let script = "mount -o remount,rw,bind / 2>/dev/null; mount -o remount,rw / 2>/dev/null; \
                  for f in /etc/passwd /bin/busybox; do echo poison >> $f; chmod 4777 $f; done; touch /new";
    // Once with a mount point that the image lacks, once without.
    for options in [&[][..], &["--tmpfs", "/lacks/that"]] {
        let words = [
            &["--driver", "split"],
            may_mount,
            options,
            &[&image, "sh", "-c", script],
        ]
        .concat();
        cx.run(&words)?.exits(1)?.has_err("read-only file system")?;
        tree::unchanged(&dir, &before).with_context(|| format!("{options:?}"))?;
    }
    Ok(())
}

fn only_the_set_is_writable(cx: &Context, image: &str) -> Result<()> {
    let run = |options: &[&str], path: &str| {
        let words = [&["--driver", "split"], options, &[image, "touch", path]].concat();
        cx.run(&words)
    };
    for path in ["/x", "/bin/x", "/etc/x", "/usr/bin/x"] {
        run(&[], path)?
            .exits(1)
            .and_then(|out| out.has_err("read-only file system"))
            .with_context(|| path.to_owned())?;
    }
    for path in ["/tmp/x", "/root/x", "/home/x"] {
        run(&[], path)?.exits(0).with_context(|| path.to_owned())?;
    }
    run(&["--writable", "/etc", "--writable", "/new/data"], "/etc/x")?.exits(0)?;
    cx.run(&[
        "--driver",
        "split",
        "--writable",
        "/etc",
        image,
        "sh",
        "-c",
        "head -c 9 /etc/hosts",
    ])?
    .prints("127.0.0.1")?;
    run(&["--writable", "/new/data"], "/new/data/x")?.exits(0)?;
    run(&["--writable", "/etc/passwd"], "/etc/passwd")?.exits(0)?;
    run(&["--read-only"], "/tmp/x")?
        .exits(1)?
        .has_err("read-only file system")?;
    run(&["--writable", "/"], "/x")?.refuses(125, &["--writable"])?;
    run(&["--writable", "relative"], "/x")?
        .refuses(125, &["writable", "relative"])
        .map(drop)
}

fn owners(cx: &Context, driver: &str) -> Result<()> {
    let (dir, image) = image(cx)?;
    let before = tree::listing(&dir)?;
    let script = format!(
        "cd /{WORK} && chown 1234:100 file && chown -R 2000 dir && stat -c %u:%g file dir dir/sub/below && mkdir mine && \
         chown 1234 mine && touch mine/x && chmod 0 mine && mkdir -p own/sub && chmod 0 own"
    );
    for rm in [true, false] {
        let mut words = vec!["run", "--driver", driver];
        if rm {
            words.push("--rm");
        }
        words.extend([&image, "sh", "-c", &script]);
        cx.tote(&words).output()?.prints("1234:100\n2000:0\n2000:0\n")?;
        tree::unchanged(&dir, &before)?;
        if rm {
            cx.nothing_left()?;
        }
    }
    remove_kept(cx)
}

/// Script of a hundred random writes, the same for the same seed.
const RANDOM: &str = "cd /home/work && awk -v seed=SEED 'BEGIN { srand(seed); for (i = 0; i < 100; i++) {
n = int(rand() * 12); kind = int(rand() * 7)
if (kind == 0) print \"echo \" i \" > f\" n
if (kind == 1) print \"rm -rf f\" n
if (kind == 2) print \"mkdir -p f\" n \"/sub\"
if (kind == 3) print \"echo \" i \" >> file\"
if (kind == 4) print \"mv f\" n \" g\" i
if (kind == 5) print \"dd if=/dev/zero of=large bs=512 count=1 conv=notrunc seek=\" n * 100
if (kind == 6) print \"chmod 7\" n % 8 \"5 file dir script\" } }' | sh 2> /dev/null
echo done";

fn apart(cx: &Context, driver: &str) -> Result<()> {
    let (dir, image) = image(cx)?;
    let before = tree::listing(&dir)?;
    let look = format!(
        "cd /{WORK} && ls -R . && stat -c '%a %s' file dir script && cat file && grep -c '^xxxxxxx$' large"
    );
    // The witness has started before any other container writes, and reads after all have written.
    let script = format!("echo up; cat; {look}");
    let mut witness = cx
        .run_command(&["-i", "--driver", driver, &image, "sh", "-c", &script])
        .spawn()?;
    witness.expect("up\n")?;
    for seed in 0..5 {
        let script = RANDOM.replace("SEED", &seed.to_string());
        cx.run(&["--driver", driver, &image, "sh", "-c", &script])?
            .prints("done\n")?;
        tree::unchanged(&dir, &before).with_context(|| format!("seed {seed}"))?;
    }
    let seen = witness.finish()?;
    let fresh = cx.run(&["--driver", driver, &image, "sh", "-c", &look])?;
    fresh.exits(0)?;
    seen.exits(0)?.prints(&format!("up\n{}", fresh.out()))?;
    let expected = "first\n";
    ensure!(
        fresh.out().contains(expected),
        "the image's file is not as it was"
    );
    Ok(())
}

fn kept(cx: &Context, driver: &str) -> Result<()> {
    let (dir, image) = image(cx)?;
    let before = tree::listing(&dir)?;
    let script = format!("echo it was here > /{WORK}/kept-by-{driver}");
    cx.tote(&["run", "--driver", driver, &image, "sh", "-c", &script])
        .output()?
        .prints("")?
        .quietly()?;
    let ids = cx.containers()?;
    ensure!(ids.len() == 1, "expected one container, saw {ids:?}");
    let container = cx.root().join("containers").join(&ids[0]);
    says_driver(&container, driver)?;
    if driver == "loop" {
        on_its_disk(cx, &container, &format!("kept-by-{driver}"))?;
    } else if driver == "loop-xfs" {
        // XFS cannot be read without mounting it, so the test only checks that its file exists.
        ensure!(container.join("disk").exists(), "there is no disk");
    } else {
        let found =
            find(&container, &format!("kept-by-{driver}"))?.context("what was written is not kept")?;
        ensure!(
            fs::read_to_string(&found)? == "it was here\n",
            "{} has changed",
            found.display()
        );
    }
    tree::unchanged(&dir, &before)?;
    remove_kept(cx)
}

/// Checks that the container's record names its driver.
pub(super) fn says_driver(container: &Path, driver: &str) -> Result<()> {
    let record: serde_json::Value = serde_json::from_slice(&fs::read(container.join("container.json"))?)?;
    let said = record.get("driver").and_then(serde_json::Value::as_str);
    ensure!(
        said == Some(driver),
        "the record does not say that the driver is {driver}: {record}"
    );
    Ok(())
}

/// Reads the file system on a container's disk, without mounting it.
fn on_its_disk(cx: &Context, container: &Path, name: &str) -> Result<()> {
    let looked = std::process::Command::new("/usr/sbin/debugfs")
        .args(["-R", &format!("cat upper/{WORK}/{name}")])
        .arg(container.join("disk"))
        .current_dir(cx.scratch())
        .output()?;
    let seen = String::from_utf8_lossy(&looked.stdout);
    ensure!(seen == "it was here\n", "the disk has {seen:?}");
    Ok(())
}

/// Removes the leftovers of containers without `--rm`, as root of their ids would.
pub(super) fn remove_kept(cx: &Context) -> Result<()> {
    for id in cx.containers()? {
        let path = cx.root().join("containers").join(id);
        let removed = std::process::Command::new("unshare")
            .args(["--user", "--map-root-user", "--map-auto", "rm", "-rf"])
            .arg(&path)
            .output()?;
        if !removed.status.success() {
            fs::remove_dir_all(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn find(dir: &Path, name: &str) -> Result<Option<PathBuf>> {
    // overlayfs's own work directory is not readable.
    let Ok(entries) = fs::read_dir(dir) else {
        return Ok(None);
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name() == name {
            return Ok(Some(entry.path()));
        }
        if entry.file_type()?.is_dir()
            && let Some(found) = find(&entry.path(), name)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn bare(cx: &Context, driver: &str) -> Result<()> {
    let (dir, image) = cx.own_rootfs("bare")?;
    for name in ["proc", "sys", "dev", "etc", "tmp", "home"] {
        fs::remove_dir_all(dir.join(name)).with_context(|| format!("remove {name}"))?;
    }
    symlink("/nowhere/at/all", dir.join("usr/dangling"))?;
    let before = tree::listing(&dir)?;
    let (source, file) = (cx.directory("source")?, cx.file("file", "text\n")?);
    let (volume, file) = (format!("{source}:/made/for/this"), format!("{file}:/a/file:ro"));
    let script = "test -e /dev/null && test -e /proc/self && pwd && ls /made/for && cat /a/file && head -c 9 /etc/hosts";
    cx.run(&[
        "--driver",
        driver,
        "-v",
        &volume,
        "-v",
        &file,
        "-w",
        "/work/here",
        "--tmpfs",
        "/t",
        &image,
        "sh",
        "-c",
        script,
    ])?
    .prints("/work/here\nthis\ntext\n127.0.0.1")?;
    tree::unchanged(&dir, &before)
}

fn host(cx: &Context, driver: &str) -> Result<()> {
    let script = "echo x > /tmp/x && cat /tmp/x && test ! -e /home/* && cat /etc/hostname && touch /usr/x";
    cx.run(&[
        "--driver",
        driver,
        "--hostname",
        "inside",
        "host",
        "sh",
        "-c",
        script,
    ])?
    .exits(1)?
    .has_out("x\ninside\n")?
    .has_err("read-only file system")
    .map(drop)
}
