//! Indexes that are put together by hand, here and at registries; the single builder; and programs
//! for other machines.

use super::build::write;
use super::indexes::{FILE, OTHER, at_registry, both, build, forget, label, own, publish, says};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::fs;
use tote_testkit::FakeRegistry;

pub(super) const TESTS: &[Test] = &[
    test("manifests::lists_are_made_by_hand", &[], lists),
    test(
        "manifests::a_list_without_a_name_goes_with_a_pruning",
        &[],
        nameless,
    ),
    test("manifests::there_is_one_builder", &[], builder),
    test("manifests::indexes_are_made_at_registries", &[], tools),
    test("manifests::a_foreign_command_needs_an_interpreter", &[], foreign),
    test(
        "manifests::a_foreign_command_runs_with_an_interpreter",
        &[Need::Userns, Need::Program("unshare"), Need::OwnInterpreters],
        emulated,
    ),
];

/// An index without a name, as a killed `manifest create` leaves it. Another user of its image keeps that image.
fn nameless(cx: &Context) -> Result<()> {
    build(cx, FILE, &["-t", "it:1"])?.exits(0)?;
    let one = format!("linux/{}", own());
    let image = says(
        cx,
        &["image", "inspect", "--platform", &one, "-f", "{{.Id}}", "it:1"],
    )?;
    says(cx, &["tag", image.trim_end(), "part:own"])?;
    says(cx, &["create", "--name", "c", "part:own"])?;
    says(cx, &["rmi", "it:1"])?;
    says(cx, &["manifest", "create", "list:1", "part:own"])?;
    says(cx, &["untag", "list:1"])?;
    says(cx, &["image", "prune", "-f"])?;
    let left = says(cx, &["images", "-aq", "--no-trunc"])?;
    ensure!(left == image, "left: {left}");
    says(cx, &["rm", "c"])?;
    Ok(())
}

fn lists(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    publish(&registry, "team/part", OTHER);
    let part = format!("docker://{}/team/part:{OTHER}", registry.host());
    build(cx, FILE, &["-t", "it:1"])?.exits(0)?;
    let one = format!("linux/{}", own());
    let own_image = says(
        cx,
        &["image", "inspect", "--platform", &one, "-f", "{{.Id}}", "it:1"],
    )?;
    says(cx, &["tag", own_image.trim_end(), "part:own"])?;
    says(cx, &["rmi", "it:1"])?;
    let made = says(cx, &["manifest", "create", "list:1", "part:own"])?;
    ensure!(
        made == "Created manifest list docker.io/library/list:1\n",
        "{made}"
    );
    cx.tote(&["manifest", "create", "list:1", "part:own"])
        .output()?
        .refuses(1, &["cannot make list list:1", "--amend"])?;
    says(cx, &["manifest", "add", "--annotation", "a=b", "list:1", &part])?;
    cx.run(&["list:1"])?.prints(&format!("linux/{}\n", own()))?;
    ensure!(
        label(cx, "list:1", "linux/riscv64")? == "riscv64 linux/riscv64\n",
        "the other"
    );
    says(
        cx,
        &[
            "manifest",
            "annotate",
            "--arch",
            "arm",
            "--variant",
            "v6",
            "list:1",
            &part,
        ],
    )?;
    let inspected: Value = serde_json::from_str(&says(cx, &["manifest", "inspect", "list:1"])?)?;
    let entry = &inspected["manifests"][1];
    ensure!(
        entry["platform"] == json!({"architecture": "arm", "os": "linux", "variant": "v6"})
            && entry["annotations"] == json!({"a": "b"}),
        "{inspected}"
    );
    added_again(cx, &part)?;
    let target = format!("{}/team/list:1", registry.host());
    says(cx, &["manifest", "push", "list:1", &target])?;
    let (_, platforms) = at_registry(&registry, "team/list", "1")?;
    ensure!(platforms == [one.as_str(), "linux/arm"], "{platforms:?}");
    let remote: Value = serde_json::from_str(&says(
        cx,
        &["manifest", "inspect", &format!("docker://{target}")],
    )?)?;
    ensure!(remote["manifests"][1]["platform"]["variant"] == "v6", "{remote}");
    cx.tote(&["manifest", "exists", "list:1"]).output()?.exits(0)?;
    cx.tote(&["manifest", "exists", "part:own"]).output()?.exits(1)?;
    cx.tote(&["manifest", "add", "part:own", "list:1"])
        .output()?
        .refuses(1, &["cannot use part:own as a list"])?;
    cx.tote(&["manifest", "remove", "list:1", "nothing"])
        .output()?
        .refuses(1, &["cannot find nothing in list list:1"])?;
    says(cx, &["manifest", "remove", "list:1", &part])?;
    says(cx, &["manifest", "rm", "list:1"])?;
    cx.tote(&["manifest", "exists", "list:1"]).output()?.exits(1)?;
    cx.run(&["part:own"])?.prints(&format!("linux/{}\n", own()))?;
    forget(cx)
}

/// An image that is added again gets the new description, in its old place.
fn added_again(cx: &Context, part: &str) -> Result<()> {
    let described = [
        "manifest",
        "add",
        "--annotation",
        "c=d",
        "--arch",
        "arm",
        "--variant",
        "v6",
    ];
    says(cx, &[&described[..], &["list:1", part]].concat())?;
    let inspected: Value = serde_json::from_str(&says(cx, &["manifest", "inspect", "list:1"])?)?;
    let entries = inspected["manifests"].as_array().map_or(0, Vec::len);
    ensure!(
        entries == 2 && inspected["manifests"][1]["annotations"] == json!({"c": "d"}),
        "{inspected}"
    );
    Ok(())
}

fn builder(cx: &Context) -> Result<()> {
    let platform = format!("linux/{}", own());
    for words in [&["ls"][..], &["inspect"], &["inspect", "--bootstrap", "default"]] {
        let said = says(cx, &[&["buildx"], words].concat())?;
        ensure!(said.contains("default") && said.contains(&platform), "{said}");
    }
    let made = cx
        .tote(&["buildx", "create", "--name", "mine", "--use"])
        .output()?;
    made.exits(0)?
        .prints("default\n")?
        .has_err("there is one builder")?;
    for words in [&["use", "mine"], &["rm", "mine"]] {
        let said = cx.tote(&[&["buildx"], &words[..]].concat()).output()?;
        said.exits(0)?.has_err("there is one builder")?;
    }
    cx.tote(&["buildx", "inspect", "mine"])
        .output()?
        .refuses(1, &["no builder", "mine"])?;
    ensure!(says(cx, &["buildx", "version"])?.starts_with("tote "), "version");
    ensure!(says(cx, &["buildx", "du"])?.contains("Total:"), "du");
    says(cx, &["buildx", "prune", "--force"]).map(drop)
}

fn tools(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    let host = registry.host();
    for architecture in [own(), OTHER] {
        publish(&registry, "team/part", architecture);
    }
    let parts = [own(), OTHER].map(|architecture| format!("{host}/team/part:{architecture}"));
    let name = format!("{host}/team/whole:1");
    let create = ["buildx", "imagetools", "create"];
    let shown = says(cx, &[&create[..], &["--dry-run", &parts[0], &parts[1]]].concat())?;
    ensure!(
        shown.contains("riscv64") && registry.stored("team/whole", "1").is_none(),
        "{shown}"
    );
    says(cx, &[&create[..], &["-t", &name, &parts[0]]].concat())?;
    says(cx, &[&create[..], &["--append", "-t", &name, &parts[1]]].concat())?;
    let (digest, platforms) = at_registry(&registry, "team/whole", "1")?;
    ensure!(
        platforms == both().split(',').collect::<Vec<_>>(),
        "{platforms:?}"
    );
    let inspected = says(cx, &["buildx", "imagetools", "inspect", &name])?;
    ensure!(
        inspected.contains(&digest) && inspected.contains("linux/riscv64"),
        "{inspected}"
    );
    let template = "{{.Name}} {{.Manifest.digest}}";
    let said = says(
        cx,
        &["buildx", "imagetools", "inspect", "--format", template, &name],
    )?;
    ensure!(said == format!("{name} {digest}\n"), "{said}");
    ensure!(
        says(cx, &["images", "-aq"])?.is_empty(),
        "what was fetched on the way has gone"
    );
    Ok(())
}

/// A program in a format that no kernel executes.
fn foreign(cx: &Context) -> Result<()> {
    write(cx, "program", "neither a program nor a script")?;
    let file = "FROM scratch\nCOPY --chmod=755 program /program\nRUN [\"/program\", \"x\"]\n";
    build(cx, file, &["-t", "it"])?
        .exits(1)?
        .has_err("exec format error")?;
    let context = cx.path("context")?;
    cx.tote(&["build", "--platform", "linux/mips64", &context])
        .output()?
        .exits(1)?
        .has_err("line 3: RUN")?
        .has_err("cannot execute '/program x' for linux/mips64 on this machine")?
        .has_err("hint: install qemu-user-static")?;
    build(
        cx,
        "FROM scratch\nCOPY --chmod=755 program /program\n",
        &["-t", "it"],
    )?
    .exits(0)?;
    for words in [&["run", "--rm"][..], &["run", "-d", "--name", "it"]] {
        cx.tote(&[words, &["it", "/program"]].concat())
            .output()?
            .exits(126)?
            .has_err("exec: \"/program\": exec format error")?
            .has_err("another machine: packages qemu-user-static and binfmt-support")?;
    }
    cx.tote(&["rm", "it"]).output()?.exits(0)?;
    forget(cx)
}

/// Makes a program for 64-bit ARM that exits with 0: `mov x8, #93; mov x0, #0; svc #0` behind its headers.
fn arm_program() -> Vec<u8> {
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    elf.extend([2u16, 183].iter().flat_map(|field| field.to_le_bytes()));
    elf.extend(1u32.to_le_bytes());
    elf.extend([0x40_0078u64, 64, 0].iter().flat_map(|field| field.to_le_bytes()));
    elf.extend(0u32.to_le_bytes());
    elf.extend(
        [64u16, 56, 1, 64, 0, 0]
            .iter()
            .flat_map(|field| field.to_le_bytes()),
    );
    elf.extend([1u32, 5].iter().flat_map(|field| field.to_le_bytes()));
    let fields = [0u64, 0x40_0000, 0x40_0000, 0x84, 0x84, 0x1000];
    elf.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
    let code = [0xd280_0ba8u32, 0xd280_0000, 0xd400_0001];
    elf.extend(code.iter().flat_map(|word| word.to_le_bytes()));
    elf
}

/// Script that mounts the binfmt_misc of its user namespace, and registers the program `$1` as the interpreter for
/// 64-bit ARM, with effect in nested containers, too (`F`).
const REGISTERED: &str = r#"misc=/proc/sys/fs/binfmt_misc; interpreter=$1; shift
mount -t binfmt_misc none $misc || exit 91
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf %s ":qemu-aarch64:M::$magic:$mask:$interpreter:F" >$misc/register || exit 92
exec "$@""#;

/// The interpreter is busybox by the name of `true` instead of qemu.
fn emulated(cx: &Context) -> Result<()> {
    write(
        cx,
        "Dockerfile",
        "FROM scratch\nCOPY --chmod=755 program /program\nRUN [\"/program\"]\n",
    )?;
    fs::write(cx.scratch().join("context/program"), arm_program())?;
    let interpreter = cx.path("true")?;
    fs::copy(cx.shared_rootfs().join("bin/busybox"), &interpreter)?;
    let context = cx.path("context")?;
    let within = |words: &[&str]| {
        let unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"];
        let shell = [REGISTERED, "sh", &interpreter];
        cx.tote(words).under(&[&unshare[..], &shell].concat()).output()
    };
    within(&["buildx", "inspect"])?.exits(0)?.has_out("linux/arm64")?;
    within(&["build", "--platform", "linux/arm64", "-t", "it", &context])?.exits(0)?;
    within(&["run", "--rm", "it", "/program"])?.exits(0)?;
    within(&["rmi", "--all", "--force"])?.exits(0)?;
    Ok(())
}
