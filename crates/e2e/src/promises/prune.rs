//! Unused objects are removed on request, and nothing else is.

use super::stored::image;
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test("prune::everything_that_is_not_used", &[], everything),
    test("prune::what_happens_to_images_is_told", &[], told),
    test("prune::only_what_fits_the_filters", &[], filtered),
    test(
        "prune::what_is_not_totes_stays",
        &[Need::Root, Need::Program("nft"), Need::Program("iptables")],
        foreign,
    ),
];

fn done(cx: &Context, words: &[&str]) -> Result<String> {
    let output = cx.tote(words).output()?;
    output.exits(0)?;
    Ok(output.out())
}

fn everything(cx: &Context) -> Result<()> {
    let rootfs = cx.image();
    image(cx, "named", &[])?;
    let nameless = image(cx, "lost", &["LABEL x=y"])?;
    done(cx, &["tag", "named", "lost"])?;
    let ended = done(cx, &["create", "--name", "ended", "-v", "/data", &rootfs, "true"])?;
    let ended = ended.trim_end();
    done(
        cx,
        &[
            "run", "-d", "--name", "runs", "-v", "/data", &rootfs, "sleep", "1000",
        ],
    )?;
    done(cx, &["volume", "create", "kept"])?;
    let asked = cx
        .tote(&["system", "prune", "--volumes"])
        .input(b"n\n")
        .output()?;
    asked.exits(0)?.prints(
        "WARNING! This will remove:\n  - all stopped containers\n  - all networks not used by at least one container\n  - all anonymous volumes not used by at least one \
         container\n  - all dangling images\n  - unused build cache\n\nAre you sure you want to continue? [y/N] ",
    )?;
    ensure!(done(cx, &["ps", "-aq"])?.lines().count() == 2, "nobody said yes");
    cx.tote(&["system", "prune", "--volumes", "--filter", "until=24h"])
        .output()?
        .refuses(1, &["until", "--volumes"])?;
    let pruned = done(cx, &["system", "prune", "-f", "--volumes"])?;
    ensure!(
        pruned.starts_with(&format!("Deleted Containers:\n{ended}\n\nDeleted Volumes:\n")),
        "{pruned}"
    );
    ensure!(
        pruned.contains(&format!("\n\nDeleted Images:\ndeleted: {nameless}\n")),
        "{pruned}"
    );
    ensure!(pruned.contains("Total reclaimed space: "), "{pruned}");
    ensure!(
        done(cx, &["ps", "-a", "--format", "{{.Names}}"])? == "runs\n",
        "it runs"
    );
    let volumes = done(cx, &["volume", "ls", "-q"])?;
    ensure!(
        volumes.lines().count() == 2 && volumes.contains("kept"),
        "of the running one, and the one with a name: {volumes}"
    );
    let names = done(cx, &["images", "--format", "{{.Repository}}"])?;
    ensure!(names.lines().count() == 2, "{names}");
    done(cx, &["prune", "-af"])?;
    ensure!(done(cx, &["images", "-aq"])?.is_empty(), "no container has them");
    done(cx, &["rm", "-fv", "runs"])?;
    done(cx, &["volume", "rm", "kept"])?;
    cx.nothing_left()
}

/// Rules and a loop device of other programs, and the policy of a chain, in a network namespace of the test's own.
const FOREIGN: &str = r#"set -eu
nft add table ip other
nft add chain ip other c '{ type filter hook forward priority 0; policy accept; }'
nft add rule ip other c ip saddr 10.9.8.7 drop
iptables -P FORWARD DROP
iptables -t nat -A POSTROUTING -s 10.9.8.0/24 -j MASQUERADE
truncate -s 1M "$FILE"
loop=$(losetup --find --show "$FILE")
trap 'losetup -d "$loop"' EXIT
look() { nft list ruleset; iptables-save | grep -v '^#'; losetup -n -O BACK-FILE "$loop"; }
look > "$FILE.before"
"$TOTE" --root "$STATE" run --rm --driver loop --disk-size 20m "$IMAGE" true
"$TOTE" --root "$STATE" prune --all --force --volumes
look > "$FILE.after"
cmp "$FILE.before" "$FILE.after"
grep -c 10.9.8 "$FILE.after"
"#;

fn foreign(cx: &Context) -> Result<()> {
    Invocation::new(["unshare", "--net", "sh", "-c", FOREIGN])
        .env("TOTE", cx.binary())
        .env("STATE", cx.root())
        .env("IMAGE", cx.image())
        .env("FILE", cx.path("disk")?)
        .output()?
        .exits(0)?;
    cx.nothing_left()
}

/// Checks the event of `image prune`: the image has busybox at least.
fn has_reclaimed_the_image(cx: &Context, line: &str) -> Result<()> {
    let reclaimed = line.strip_prefix("image prune ");
    let reclaimed = reclaimed.and_then(|rest| rest.trim().parse::<u64>().ok());
    let least = fs::metadata(cx.shared_rootfs().join("bin/busybox"))?.len();
    ensure!(reclaimed.is_some_and(|bytes| bytes >= least), "{least}: {line}");
    Ok(())
}

fn told(cx: &Context) -> Result<()> {
    let id = image(cx, "first", &["LABEL tier=front"])?;
    let archive = cx.path("saved.tar")?;
    done(cx, &["tag", "first", "second:2"])?;
    done(cx, &["save", "-o", &archive, "second:2"])?;
    done(cx, &["rmi", "first"])?;
    done(cx, &["rmi", "second:2"])?;
    done(cx, &["load", "-q", "-i", &archive])?;
    done(cx, &["image", "prune", "-af"])?;
    let form = "{{.Action}} {{.ID}} {{.Actor.Attributes.name}}";
    let since = ["events", "--since", "1", "--until", "0s"];
    let actions =
        ["import", "tag", "save", "untag", "delete", "load"].map(|action| format!("event={action}"));
    let mut words = [&since[..], &["-f", "type=image", "--format", form]].concat();
    words.extend(actions.iter().flat_map(|action| ["-f", action]));
    let lines = done(cx, &words)?;
    let expected = [
        format!("import {id} {id}"),
        format!("tag {id} second:2"),
        format!("save {id} {id}"),
        format!("untag {id} first:latest"),
        format!("untag {id} second:2"),
        format!("delete {id} {id}"),
        format!("load {id} {id}"),
        format!("untag {id} second:2"),
        format!("delete {id} {id}"),
    ];
    ensure!(lines.lines().eq(expected.iter()), "{lines}");
    let form = "{{.Type}} {{.Action}} {{.Actor.Attributes.reclaimed}}";
    let lines = done(
        cx,
        &[&since[..], &["-f", "event=prune", "--format", form]].concat(),
    )?;
    has_reclaimed_the_image(cx, &lines)?;
    let rootfs = cx.image();
    done(
        cx,
        &[
            "run",
            "--name",
            "wrote",
            &rootfs,
            "sh",
            "-c",
            "head -c 5000 /dev/zero > /file",
        ],
    )?;
    done(cx, &["volume", "create", "unused"])?;
    done(cx, &["container", "prune", "-f"])?;
    done(cx, &["volume", "prune", "-af"])?;
    done(cx, &["builder", "prune", "-af"])?;
    for (kind, least) in [("container", 5000), ("volume", 0), ("builder", 0)] {
        let filters = [
            "-f",
            "event=prune",
            "-f",
            &format!("type={kind}"),
            "--format",
            "{{json .}}",
        ];
        let line = done(cx, &[&since[..], &filters].concat())?;
        let event: serde_json::Value = serde_json::from_str(&line)?;
        let reclaimed = event["Actor"]["Attributes"]["reclaimed"]
            .as_str()
            .and_then(|bytes| bytes.parse::<u64>().ok());
        ensure!(
            event["Type"] == kind
                && event["Action"] == "prune"
                && reclaimed.is_some_and(|bytes| bytes >= least),
            "{line}"
        );
    }
    let labelled = ["-f", "label=tier=front", "-f", "event=load"];
    let lines = done(cx, &[&since[..], &labelled].concat())?;
    ensure!(lines.lines().count() == 1, "by their labels: {lines}");
    cx.nothing_left()
}

fn filtered(cx: &Context) -> Result<()> {
    let rootfs = cx.image();
    image(cx, "labelled", &["LABEL keep=yes"])?;
    image(cx, "other", &[])?;
    done(
        cx,
        &["create", "--name", "labelled", "-l", "keep=yes", &rootfs, "true"],
    )?;
    done(cx, &["create", "--name", "other", &rootfs, "true"])?;
    done(cx, &["container", "prune", "-f", "--filter", "until=1h"])?;
    done(cx, &["image", "prune", "-af", "--filter", "until=1h"])?;
    done(cx, &["system", "prune", "-af", "--filter", "until=1h"])?;
    ensure!(done(cx, &["ps", "-aq"])?.lines().count() == 2, "they are younger");
    ensure!(
        done(cx, &["images", "-q"])?.lines().count() == 2,
        "they are younger"
    );
    let pruned = done(cx, &["image", "prune", "-af", "--filter", "label!=keep"])?;
    ensure!(pruned.contains("untagged: other:latest\n"), "{pruned}");
    let asked = cx.tote(&["system", "prune", "-a", "--filter", "label=keep=yes"]);
    asked
        .input(b"y\n")
        .output()?
        .exits(0)?
        .has_out("\n\n  Items to be pruned will be filtered with:\n  - label=keep=yes\n\nAre you sure")?
        .has_out("untagged: labelled:latest\n")?
        .has_out("Total reclaimed space: ")?;
    ensure!(
        done(cx, &["ps", "-a", "--format", "{{.Names}}"])? == "other\n",
        "it has no label"
    );
    for command in ["container", "image", "system"] {
        cx.tote(&[command, "prune", "-f", "--filter", "colour=red"])
            .output()?
            .refuses(1, &["colour=red", "until="])?;
    }
    let pruned = done(cx, &["container", "prune", "-f", "--filter", "until=0s"])?;
    ensure!(pruned.ends_with("\n\nTotal reclaimed space: 0B\n"), "{pruned}");
    cx.nothing_left()
}
