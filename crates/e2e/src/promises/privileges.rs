//! Capabilities, seccomp and no_new_privs, as `/proc/self/status` and the calls themselves show them.

use crate::context::Context;
use crate::need::{self, Need};
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

pub(super) const TESTS: &[Test] = &[
    test("privileges::default_capabilities", &[], default_capabilities),
    test("privileges::cap_add_and_cap_drop", &[], add_and_drop),
    test("privileges::privileged_has_all", &[], privileged),
    test(
        "privileges::an_ordinary_user_has_none_in_effect",
        &[Need::ManyIds],
        ordinary_user,
    ),
    test("privileges::no_new_privs", &[], no_new_privs),
    test(
        "privileges::setuid_works_unless_no_new_privs",
        &[Need::ManyIds, Need::Program("gcc")],
        setuid,
    ),
    test("privileges::seccomp_is_on_unless_unconfined", &[], seccomp_status),
    test(
        "privileges::calls_denied_by_default",
        &[Need::Program("gcc")],
        denied_calls,
    ),
    test("privileges::a_profile_of_ones_own", &[], own_profile),
];

/// Default set of capabilities: docker's fourteen.
const DEFAULT: u64 = 0xa804_25fb;
const CHOWN: u64 = 1;
const NET_BIND_SERVICE: u64 = 1 << 10;
const NET_ADMIN: u64 = 1 << 12;
const SYS_ADMIN: u64 = 1 << 21;

/// Reads a field of `/proc/self/status` inside.
fn status(cx: &Context, options: &[&str], field: &str) -> Result<String> {
    let out = cx.run(&[options, &[&cx.image(), "cat", "/proc/self/status"]].concat())?;
    out.exits(0).with_context(|| format!("{options:?}"))?;
    let text = out.out();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    Ok(line
        .with_context(|| format!("no {field} in:\n{text}"))?
        .trim()
        .to_owned())
}

/// Checks sets of capabilities inside.
fn expect_sets(cx: &Context, options: &[&str], expected: &[(&str, u64)]) -> Result<()> {
    for (set, bits) in expected {
        let seen = status(cx, options, set)?;
        ensure!(
            seen == format!("{bits:016x}"),
            "{options:?}: expected {set} {bits:016x}, saw {seen}"
        );
    }
    Ok(())
}

fn default_capabilities(cx: &Context) -> Result<()> {
    expect_sets(
        cx,
        &[],
        &[
            ("CapEff", DEFAULT),
            ("CapPrm", DEFAULT),
            ("CapBnd", DEFAULT),
            ("CapInh", 0),
            ("CapAmb", 0),
        ],
    )
}

fn add_and_drop(cx: &Context) -> Result<()> {
    let table: [(&[&str], u64); 6] = [
        (&["--cap-add", "SYS_ADMIN"], DEFAULT | SYS_ADMIN),
        (
            &["--cap-add", "cap_net_admin,SYS_ADMIN"],
            DEFAULT | NET_ADMIN | SYS_ADMIN,
        ),
        (&["--cap-drop", "CHOWN"], DEFAULT & !CHOWN),
        (&["--cap-drop", "ALL"], 0),
        (
            &["--cap-drop", "all", "--cap-add", "NET_BIND_SERVICE"],
            NET_BIND_SERVICE,
        ),
        (
            &["--cap-drop=CAP_CHOWN", "--cap-add=CAP_NET_ADMIN"],
            DEFAULT & !CHOWN | NET_ADMIN,
        ),
    ];
    for (options, bits) in table {
        expect_sets(cx, options, &[("CapEff", bits), ("CapBnd", bits)])?;
    }
    expect_sets(
        cx,
        &["--cap-add", "ALL", "--cap-drop", "SYS_ADMIN"],
        &[("CapEff", all()? & !SYS_ADMIN)],
    )
}

/// Returns all capabilities that tote can give here: root's own, or those of a user namespace.
fn all() -> Result<u64> {
    if need::is_root() {
        let own = fs::read_to_string("/proc/self/status")?;
        let bounding = own
            .lines()
            .find_map(|line| line.strip_prefix("CapBnd:"))
            .context("no CapBnd")?;
        return Ok(u64::from_str_radix(bounding.trim(), 16)?);
    }
    let last: u32 = fs::read_to_string("/proc/sys/kernel/cap_last_cap")?
        .trim()
        .parse()?;
    Ok((1 << (last + 1)) - 1)
}

fn privileged(cx: &Context) -> Result<()> {
    expect_sets(cx, &["--privileged"], &[("CapEff", all()?), ("CapBnd", all()?)])?;
    let seccomp = status(cx, &["--privileged"], "Seccomp")?;
    ensure!(
        seccomp == "0",
        "expected no seccomp filter with --privileged, saw {seccomp}"
    );
    cx.shell(
        &["--privileged"],
        "mount -t tmpfs none /mnt && touch /mnt/x && ls /mnt",
    )?
    .prints("x\n")?;
    Ok(())
}

fn ordinary_user(cx: &Context) -> Result<()> {
    let sets = [
        ("CapEff", 0),
        ("CapPrm", 0),
        ("CapInh", 0),
        ("CapAmb", 0),
        ("CapBnd", DEFAULT),
    ];
    expect_sets(cx, &["-u", "1000"], &sets)?;
    cx.run(&["-u", "1000", &cx.image(), "chown", "0", "/etc/passwd"])?
        .fails()?;
    Ok(())
}

fn no_new_privs(cx: &Context) -> Result<()> {
    for (options, expected) in [
        (&[][..], "0"),
        (&["--security-opt", "no-new-privileges"], "1"),
        (&["--security-opt=no-new-privileges:true"], "1"),
        (&["--security-opt=no-new-privileges=false"], "0"),
    ] {
        let seen = status(cx, options, "NoNewPrivs")?;
        ensure!(
            seen == expected,
            "{options:?}: expected NoNewPrivs {expected}, saw {seen}"
        );
    }
    Ok(())
}

fn setuid(cx: &Context) -> Result<()> {
    let (dir, image) = cx.own_rootfs("rootfs")?;
    fs::set_permissions(dir.join("bin/probe"), fs::Permissions::from_mode(0o4755))?;
    cx.run(&["-u", "1000", &image, "probe", "ids"])?
        .prints("1000 0\n")?;
    cx.run(&[
        "-u",
        "1000",
        "--security-opt",
        "no-new-privileges",
        &image,
        "probe",
        "ids",
    ])?
    .prints("1000 1000\n")?;
    Ok(())
}

fn seccomp_status(cx: &Context) -> Result<()> {
    for (options, expected) in [(&[][..], "2"), (&["--security-opt", "seccomp=unconfined"], "0")] {
        let seen = status(cx, options, "Seccomp")?;
        ensure!(
            seen == expected,
            "{options:?}: expected Seccomp {expected}, saw {seen}"
        );
    }
    Ok(())
}

fn denied_calls(cx: &Context) -> Result<()> {
    for call in ["keyctl", "mount", "unshare", "reboot", "bpf"] {
        let out = cx.run(&[&cx.image(), "probe", "call", call])?;
        out.prints("EPERM\n").with_context(|| call.to_owned())?;
    }
    // Only the filter denies this call.
    let out = cx.run(&[
        "--security-opt",
        "seccomp=unconfined",
        &cx.image(),
        "probe",
        "call",
        "keyctl",
    ])?;
    ensure!(
        out.code == 0 && out.out() != "EPERM\n",
        "keyctl is denied without a filter:\n{}",
        out.transcript()
    );
    Ok(())
}

fn own_profile(cx: &Context) -> Result<()> {
    let profile = serde_json::json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1 }],
    });
    let file = cx.file("profile.json", &profile.to_string())?;
    let option = format!("seccomp={file}");
    let out = cx.shell(
        &["--security-opt", &option],
        "touch /tmp/x && echo touched; mkdir /tmp/d",
    )?;
    out.fails()?
        .has_out("touched\n")?
        .has_err("operation not permitted")?;
    let missing = cx.path("missing.json")?;
    cx.run(&[
        "--security-opt",
        &format!("seccomp={missing}"),
        &cx.image(),
        "true",
    ])?
    .refuses(125, &[&missing])?;
    let broken = cx.file("broken.json", "{ \"defaultAction\": ")?;
    cx.run(&[
        "--security-opt",
        &format!("seccomp={broken}"),
        &cx.image(),
        "true",
    ])?
    .refuses(125, &[&broken])?;
    Ok(())
}
