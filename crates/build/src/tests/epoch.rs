//! `SOURCE_DATE_EPOCH`.

use super::*;

const TEXT: &str = "FROM base\nRUN a\nENV b=1\nRUN c";

fn memory() -> Memory {
    let mut config = ImageConfig {
        created: Some("2020-01-01T00:00:00Z".to_owned()),
        ..ImageConfig::default()
    };
    config.rootfs.diff_ids.push(Digest::sha256([200; 32]));
    config.history.push(tote_image::History {
        created: config.created.clone(),
        ..tote_image::History::default()
    });
    let id = Digest::sha256([201; 32]);
    Memory {
        images: HashMap::from([("base".to_owned(), Built { id, config })]),
        ..Memory::default()
    }
}

fn times(built: &Built) -> Vec<&str> {
    let history = &built.config.history;
    history
        .iter()
        .filter_map(|step| step.created.as_deref())
        .collect()
}

/// Steps of the base keep their time, and an epoch does not make the cache useless.
#[test]
fn the_result_is_of_the_epoch() {
    let mut memory = memory();
    let plain = run(&mut memory, TEXT, &Options::default()).unwrap();
    assert_eq!(
        plain.config.created.as_deref(),
        Some("1970-01-01T00:00:00.000000000Z")
    );
    let mut options = with_args(&[("SOURCE_DATE_EPOCH", "1000")]);
    let dated = run(&mut memory, TEXT, &options).unwrap();
    let (base, epoch) = ("2020-01-01T00:00:00Z", "1970-01-01T00:16:40Z");
    assert_eq!(dated.config.created.as_deref(), Some(epoch));
    assert_eq!(times(&dated), [base, epoch, epoch, epoch]);
    assert_eq!(memory.log, Vec::<String>::new());
    assert_eq!(dated.config.rootfs, plain.config.rootfs);
    options.rewrite_timestamp = true;
    let rewritten = run(&mut memory, TEXT, &options).unwrap();
    assert_eq!(memory.log, ["2 layers at 1000"]);
    let (before, after) = (&plain.config.rootfs.diff_ids, &rewritten.config.rootfs.diff_ids);
    assert_eq!(after.len(), before.len());
    assert_eq!(after[0], before[0]);
    assert_ne!(after[1..], before[1..]);
}

/// Steps of the stages below are of this build, too.
#[test]
fn stages_below_are_of_the_epoch() {
    let options = with_args(&[("SOURCE_DATE_EPOCH", "1000")]);
    let text = "FROM base AS a\nRUN a\nFROM a\nRUN c";
    let built = run(&mut memory(), text, &options).unwrap();
    let (base, epoch) = ("2020-01-01T00:00:00Z", "1970-01-01T00:16:40Z");
    assert_eq!(times(&built), [base, epoch, epoch]);
}

/// A file that adds nothing has the base's document, whatever the epoch is.
#[test]
fn what_is_not_made_has_its_own_time() {
    let mut memory = memory();
    let built = run(
        &mut memory,
        "FROM base",
        &with_args(&[("SOURCE_DATE_EPOCH", "1000")]),
    )
    .unwrap();
    assert_eq!(built, memory.images["base"]);
}

#[test]
fn what_is_no_time_is_refused() {
    for (text, works) in [
        ("", true),
        ("0", true),
        ("-1", false),
        ("x", false),
        ("9999999999999999999", false),
    ] {
        let found = run(&mut memory(), TEXT, &with_args(&[("SOURCE_DATE_EPOCH", text)]));
        assert_eq!(found.is_ok(), works, "{text}: {found:?}");
    }
}
