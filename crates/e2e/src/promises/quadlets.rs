//! Files that describe containers become services.

use super::units::{ANALYZE, SCRIPT, Service, done, verify};
use crate::context::Context;
use crate::invocation::Invocation;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

pub(super) const TESTS: &[Test] = &[
    test("quadlets::become_services", &[], quadlets),
    test("quadlets::a_generator_by_its_name", &[ANALYZE], generator),
    test("quadlets::mistakes_are_named", &[], mistakes),
    test("quadlets::others_are_left_alone", &[], others),
];

fn quadlets(cx: &Context) -> Result<()> {
    let dir = cx.directory("quadlets")?;
    let root = cx.root().display().to_string();
    let global = format!("GlobalArgs=--root {root}\n");
    let image = cx.shared_rootfs().display().to_string();
    cx.file(
        "quadlets/data.volume",
        &format!("[Volume]\nVolumeName=data\n{global}"),
    )?;
    cx.file("quadlets/vars", "A=a $b\n")?;
    cx.file(
        "quadlets/web.container",
        &format!(
            "[Container]\nContainerName=web\nRootfs={image}\n{global}EnvironmentFile=./vars\nVolume=data.volume:/data\n\
             Exec=sh -c '{SCRIPT}' sh \"two words\" x\n[Service]\nRestart=always\n[Install]\nWantedBy=default.target\n"
        ).replace("$A|$1|$2", "$$A|$$1|$$2"),
    )?;
    let units = cx.directory("units")?;
    done(cx, &["generate", "quadlet", "--unit-dir", &dir, &units])?.quietly()?;
    let link = fs::read_link(Path::new(&units).join("default.target.wants/web.service"))?;
    ensure!(
        link == Path::new("../web.service"),
        "the link says {}",
        link.display()
    );
    let text = |name: &str| fs::read_to_string(Path::new(&units).join(name));
    let volume = Service::new(cx, text("data-volume.service")?, "")?;
    volume.command("ExecStart")?.output()?.prints("data\n")?;
    let service = Service::new(cx, text("web.service")?, "")?;
    let mut running = service.command("ExecStart")?.spawn()?;
    service.becomes_ready()?;
    let said = running.expect("\n")?;
    ensure!(said == "a $b|two words|x\n", "it was given {said:?}");
    done(cx, &["exec", "web", "touch", "/data/file"])?;
    ensure!(
        cx.root().join("volumes/data/_data/file").exists(),
        "the volume is another"
    );
    service.command("ExecStop")?.output()?.exits(0)?;
    running.finish()?.exits(3)?;
    service.command("ExecStopPost")?.output()?.exits(0)?;
    let dry = done(cx, &["generate", "quadlet", "--dryrun", "--unit-dir", &dir])?;
    dry.has_out("---web.service---\n")?.has_out("[X-Container]\n")?;
    done(cx, &["volume", "rm", "data"])?;
    Ok(())
}

fn generator(cx: &Context) -> Result<()> {
    let (dir, units, late) = (
        cx.directory("quadlets")?,
        cx.directory("units")?,
        cx.directory("late")?,
    );
    cx.file(
        "quadlets/a.container",
        "[Container]\nImage=host\nExec=true\n[Install]\nWantedBy=default.target\n",
    )?;
    cx.file(
        "quadlets/b@.container",
        "[Unit]\nAfter=a.container\n[Container]\nImage=host\nExec=echo %i\n",
    )?;
    cx.file("quadlets/c.volume", "[Volume]\n")?;
    cx.file("quadlets/d.pod", "[Pod]\nHostName=h\n")?;
    cx.file("quadlets/e.container", "[Container]\nImage=host\nPod=d.pod\n")?;
    for name in ["tote-system-generator", "tote-user-generator"] {
        let program = cx.path(name)?;
        symlink(cx.binary(), &program)?;
        let run = Invocation::new([&*program, &*units, &*late, &*late]).env("QUADLET_UNIT_DIRS", &dir);
        run.output()?.prints("")?.quietly()?;
    }
    let made: Vec<_> = [
        "a.service",
        "b@.service",
        "c-volume.service",
        "d-pod.service",
        "e.service",
    ]
    .iter()
    .map(|name| format!("{units}/{name}"))
    .collect();
    let made: Vec<_> = made.iter().map(String::as_str).collect();
    verify(cx, &made)?;
    let text = fs::read_to_string(made[1])?;
    ensure!(text.contains("\nAfter=a.service\n"), "{text}");
    ensure!(
        !text.contains("network-online"),
        "a user's units cannot wait for it: {text}"
    );
    Ok(())
}

fn mistakes(cx: &Context) -> Result<()> {
    let (dir, units) = (cx.directory("quadlets")?, cx.directory("units")?);
    cx.file("quadlets/good.container", "[Container]\nImage=host\n")?;
    cx.file(
        "quadlets/bad.container",
        "[Container]\nImage=host\n\nColour=red\n",
    )?;
    cx.file("quadlets/worse.container", "Image=host\n")?;
    cx.file("quadlets/net.kube", "[Kube]\n")?;
    let out = cx
        .tote(&["generate", "quadlet", "--unit-dir", &dir, &units])
        .output()?;
    out.exits(1)?;
    for words in [
        "bad.container: line 4: unsupported key \"Colour\" in [Container] has no effect",
        "worse.container: line 1: outside of every section",
        "net.kube: ",
    ] {
        out.has_err(words)?;
    }
    let mut names: Vec<_> = fs::read_dir(&units)?
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    names.sort();
    ensure!(names == ["bad.service", "good.service"], "{names:?}");
    cx.tote(&["generate", "quadlet"])
        .output()?
        .refuses(125, &["directory"])?;
    Ok(())
}

/// The name of a removed container may be the beginning of another one's id, which must not be affected.
fn others(cx: &Context) -> Result<()> {
    let image = cx.image();
    let other = done(cx, &["create", "--name", "other", &image, "true"])?.out();
    let pod = done(cx, &["pod", "create", "other-pod"])?.out();
    let (other, pod) = (&other.trim()[..8], &pod.trim()[..8]);
    done(cx, &["create", "--name", other, &image, "true"])?;
    done(cx, &["pod", "create", pod])?;
    let dir = cx.directory("quadlets")?;
    let (root, rootfs) = (
        cx.root().display().to_string(),
        cx.shared_rootfs().display().to_string(),
    );
    let global = format!("GlobalArgs=--root {root}\n");
    cx.file(
        "quadlets/one.container",
        &format!("[Container]\nContainerName={other}\nRootfs={rootfs}\n{global}"),
    )?;
    cx.file("quadlets/two.pod", &format!("[Pod]\nPodName={pod}\n{global}"))?;
    let made = cx.directory("units")?;
    done(cx, &["generate", "quadlet", "--unit-dir", &dir, &made])?;
    let mut units = Vec::new();
    for name in [other, pod] {
        units.push(done(cx, &["generate", "systemd", "--name", "--new", name])?.out());
    }
    for name in ["one.service", "two-pod.service"] {
        units.push(fs::read_to_string(Path::new(&made).join(name))?);
    }
    done(cx, &["rm", other])?;
    done(cx, &["pod", "rm", pod])?;
    for unit in units {
        let service = Service::new(cx, unit, "")?;
        for key in ["ExecStop", "ExecStopPost"] {
            service.command(key)?.output()?.exits(0)?;
        }
    }
    done(cx, &["rm", "other"])?;
    done(cx, &["pod", "rm", "other-pod"])?;
    done(cx, &["ps", "-aq"])?.prints("")?;
    Ok(())
}
