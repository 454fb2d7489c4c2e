//! Stages that are built at once.

use super::*;

const DIAMOND: &str = "\
FROM scratch AS base
RUN base
FROM base AS left
ARG SIDE=l
RUN left
FROM base AS right
RUN right
FROM left
COPY --from=right /x /
RUN last $SIDE";

fn at_once(number: usize) -> Options {
    Options {
        at_once: number,
        ..Options::default()
    }
}

/// A stage begins when those are built that it names, and the number of stages at work has a limit.
#[test]
fn a_diamond() {
    let labels = ["stage 1/4 base", "stage 2/4 left", "stage 3/4 right", "stage 4/4"];
    for (number, most) in [(2, 2), (9, 2)] {
        let mut memory = Memory::default();
        let built = run(&mut memory, DIAMOND, &at_once(number)).unwrap();
        let started: Vec<_> = memory
            .log
            .iter()
            .filter(|line| line.starts_with("stage"))
            .collect();
        assert_eq!(started, labels);
        assert_eq!(memory.at_once, most);
        // Everything below the last command is there, and its argument is the one of the stage below.
        assert_eq!(built.config.rootfs.diff_ids.len(), 4);
        assert!(
            memory.log.last().unwrap().contains("with [SIDE=l]"),
            "{:?}",
            memory.log
        );
        assert_eq!(memory.stages, [true, true, false, true]);
    }
}

/// Results are found in the cache whatever the number of stages that were built at once.
#[test]
fn one_cache() {
    for (first, second) in [(1, 4), (4, 1)] {
        let mut memory = Memory::default();
        let one = run(&mut memory, DIAMOND, &at_once(first)).unwrap();
        let other = run(&mut memory, DIAMOND, &at_once(second)).unwrap();
        assert_eq!(one.config, other.config);
        assert!(
            !memory.log.iter().any(|line| line.contains(" on ")),
            "{:?}",
            memory.log
        );
    }
}

/// Stages of which each needs the one before are built in this process, without labels.
#[test]
fn a_chain_is_as_before() {
    for text in [
        "FROM scratch\nRUN a",
        "FROM scratch AS a\nRUN a\nFROM scratch AS b\nCOPY --from=a /x /\nFROM scratch AS c\nCOPY --from=b /x /",
        "FROM scratch AS unused\nRUN a\nFROM scratch\nRUN b",
    ] {
        let mut memory = Memory::default();
        run(&mut memory, text, &at_once(4)).unwrap();
        assert_eq!(memory.at_once, 0, "{text}");
    }
}

/// The error of a stage names it, and the others are stopped.
#[test]
fn a_failure_stops_the_others() {
    let text =
        "FROM scratch AS a\nRUN a\nFROM scratch AS b\nSTOPSIGNAL \"not one\"\nFROM a\nCOPY --from=b /x /";
    let mut memory = Memory::default();
    let error = run(&mut memory, text, &at_once(4)).unwrap_err();
    assert_eq!(error.to_string(), "stage 2/3 b");
    assert!(
        matches!(error.of_stage(), BuildError::Instruction { line: 4, .. }),
        "{error:?}"
    );
    assert!(memory.stopped);
}

/// Arguments that only another process has seen declared are known to be used; images are found before stages begin.
#[test]
fn what_stages_tell() {
    let text = "FROM base AS a\nARG X\nRUN a\nFROM scratch\nARG Y\nCOPY --from=a /x /\nCOPY --from=base /y /";
    let mut memory = Memory::default();
    let id = memory.digest_of();
    let config = ImageConfig::default();
    memory.images.insert("base".to_owned(), Built { id, config });
    let two = text.replace("FROM scratch", "FROM scratch AS b\nRUN b\nFROM scratch") + "\nCOPY --from=b /z /";
    let args = with_args(&[("X", "1"), ("Y", "2"), ("Z", "3")]);
    let options = Options { at_once: 2, ..args };
    run(&mut memory, &two, &options).unwrap();
    assert!(memory.log.contains(&"unused Z".to_owned()), "{:?}", memory.log);
}
