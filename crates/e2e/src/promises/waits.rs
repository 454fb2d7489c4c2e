//! Every wait has an end, and says what it waits for.

use super::life::done;
use crate::cgroup;
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;

pub(super) const TESTS: &[Test] = &[
    test(
        "waits::a_process_that_does_not_end_is_named",
        &[Need::Root, Need::CgroupV1("freezer")],
        undying,
    )
    .slow(4)
    .waits(),
    test(
        "waits::the_lock_of_networks_concerns_networks_alone",
        &[Need::Root],
        without_networks,
    ),
    test(
        "waits::a_lock_is_waited_for_with_a_word_about_its_holder",
        &[Need::Root],
        told,
    ),
];

/// Process that another freezer keeps, so that not even SIGKILL ends it.
struct Frozen(PathBuf);

impl Frozen {
    fn new(pid: i32, name: &str) -> Result<Self> {
        let own = cgroup::directory(pid, "freezer")?;
        let group = own.with_file_name(format!("tote-e2e-{name}-{pid}"));
        fs::create_dir(&group)?;
        fs::write(group.join("cgroup.procs"), pid.to_string())?;
        fs::write(group.join("freezer.state"), "FROZEN")?;
        Ok(Self(group))
    }

    fn thaw(self) -> Result<()> {
        fs::write(self.0.join("freezer.state"), "THAWED")?;
        super::pool::eventually("it has ended", || {
            Ok(fs::read_to_string(self.0.join("cgroup.procs"))?.is_empty())
        })?;
        Ok(fs::remove_dir(&self.0)?)
    }
}

fn undying(cx: &Context) -> Result<()> {
    let image = cx.image();
    for name in ["stuck", "ready"] {
        done(cx, &["run", "-d", "--name", name, &image, "sleep", "1000"])?;
    }
    let pid = done(cx, &["inspect", "-f", "{{.State.Pid}}", "stuck"])?;
    let frozen = Frozen::new(pid.parse()?, "undying")?;
    let process = format!("process {pid}");
    let refused = |words: &[&str]| -> Result<String> {
        let output = cx.tote(words).output()?;
        output.exits(1)?.has_err(&process)?.has_err("SIGKILL")?;
        Ok(output.out())
    };
    let stopped = refused(&["stop", "-t", "0", "stuck", "ready"]).context("stop");
    let killed = refused(&["kill", "stuck"]).context("kill");
    let removed = refused(&["rm", "-f", "stuck"]).context("rm -f");
    frozen.thaw()?;
    ensure!(stopped? == "ready\n", "the other one was not stopped");
    killed?;
    removed?;
    done(cx, &["rm", "-f", "stuck", "ready"])?;
    Ok(())
}

/// Takes the lock of all networks, for this process.
fn lock(cx: &Context) -> Result<File> {
    done(cx, &["network", "ls"])?;
    done(cx, &["network", "create", "lab"])?;
    let path = cx.root().join("networks/.lock");
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn without_networks(cx: &Context) -> Result<()> {
    let image = cx.image();
    done(
        cx,
        &[
            "run",
            "-d",
            "--network",
            "none",
            "--name",
            "before",
            &image,
            "sleep",
            "1000",
        ],
    )?;
    let lock = lock(cx)?;
    for words in [
        &["run", "--rm", "--network", "none", &image, "true"][..],
        &["run", "-d", "--network", "none", "--name", "one", &image, "true"],
        &["wait", "one"],
        &["stop", "-t", "0", "before"],
        &["rm", "-f", "one", "before"],
        &["rm", "-i", "nosuch"],
    ] {
        cx.tote(words).output()?.exits(0)?.quietly()?;
    }
    drop(lock);
    done(cx, &["network", "rm", "lab"])?;
    Ok(())
}

fn told(cx: &Context) -> Result<()> {
    let lock = lock(cx)?;
    let words = ["sh", "-c", "exec \"$@\" 2>&1", "sh"];
    let mut waits = cx.tote(&["network", "rm", "lab"]).under(&words).spawn()?;
    waits.expect(&format!("process {} (", std::process::id()))?;
    drop(lock);
    waits.finish()?.exits(0)?;
    Ok(())
}
