//! Values of `ARG` and `ENV` in the instructions of a stage, and of the stages above it.

use super::{Memory, run, with_args};
use crate::Options;

#[test]
fn variables_have_dockers_scopes() {
    let text = "ARG V=global\nARG BASE=scratch\nFROM $BASE\nRUN a\nARG V\nRUN b\nENV V=env W=$V\nRUN c $V\nARG X=$W\nRUN d";
    let mut memory = Memory::default();
    run(&mut memory, text, &Options::default()).unwrap();
    assert_eq!(
        memory.log,
        [
            "/bin/sh -c a on 0 with []",
            "/bin/sh -c b on 1 with [V=global]",
            "/bin/sh -c c $V on 2 with [V=env W=global]",
            "/bin/sh -c d on 3 with [V=env W=global X=global]",
        ]
    );
    run(
        &mut memory,
        "FROM scratch\nARG A=1\nRUN a",
        &with_args(&[("A", "2"), ("B", "3"), ("http_proxy", "p")]),
    )
    .unwrap();
    assert_eq!(
        memory.log,
        [
            "/bin/sh -c a on 0 with [A=2 HTTP_PROXY=p http_proxy=p]",
            "unused B"
        ]
    );
}

/// Declares and reads arguments in every relation that two stages can have.
#[test]
fn arguments_reach_the_stages_above() {
    let mut memory = Memory::default();
    let ran = |memory: &mut Memory, text: &str, args: &[(&str, &str)]| {
        run(memory, text, &with_args(args)).unwrap();
        memory.log.last().cloned().unwrap_or_default()
    };
    for (text, args, expected) in [
        ("FROM scratch AS a\nARG N=joe\nFROM a\nRUN r", &[][..], "[N=joe]"),
        (
            "FROM scratch AS a\nARG N\nFROM a\nRUN r",
            &[("N", "given")],
            "[N=given]",
        ),
        (
            "FROM scratch AS a\nARG N=joe\nFROM a AS b\nFROM b\nRUN r",
            &[],
            "[N=joe]",
        ),
        (
            "ARG N=top\nFROM scratch AS a\nARG N\nFROM a\nRUN r",
            &[],
            "[N=top]",
        ),
        (
            "FROM scratch AS a\nARG N=joe\nFROM a\nARG N\nRUN r",
            &[],
            "[N=joe]",
        ),
        (
            "FROM scratch AS a\nARG N=joe\nFROM a\nARG N=ann\nRUN r",
            &[],
            "[N=ann]",
        ),
        (
            "FROM scratch AS a\nARG N=joe\nFROM a\nENV N=env\nRUN r",
            &[],
            "[N=env]",
        ),
        (
            "FROM scratch AS a\nARG N=joe\nFROM scratch\nCOPY --from=a /x /y\nRUN r",
            &[],
            "[]",
        ),
        (
            "FROM scratch AS a\nARG TARGETSTAGE\nFROM a AS end\nRUN r",
            &[],
            "[TARGETSTAGE=end]",
        ),
        (
            "FROM scratch AS a\nARG TARGETSTAGE\nFROM a\nRUN r",
            &[],
            "[TARGETSTAGE=default]",
        ),
    ] {
        memory.cache.clear();
        let last = ran(&mut memory, text, args);
        assert!(last.ends_with(&format!("with {expected}")), "{text}: {last}");
    }
    let labelled = run(
        &mut memory,
        "FROM scratch AS a\nARG N=joe\nFROM a\nLABEL n=$N",
        &Options::default(),
    );
    assert_eq!(labelled.unwrap().config.config.labels["n"], "joe");
}
