//! Builds with a worker that does everything in memory.

use crate::key::Key;
use crate::worker::{Outcome, StageLabel, StageWork, Told};
use crate::{BuildError, Built, CopyStep, Event, Named, Options, Origin, RunStep, StepMount, Worker, build};
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::time::Duration;
use tote_dockerfile::Dockerfile;
use tote_image::{Digest, ImageConfig, Platform};

mod epoch;
mod together;
mod variables;

#[derive(Default)]
struct Memory {
    images: HashMap<String, Built>,
    cache: HashMap<Key, Built>,
    /// Content of the context.
    content: String,
    log: Vec<String>,
    /// For each stage, true if the result is based on it.
    stages: Vec<bool>,
    /// Mounts of the last command.
    mounts: Vec<StepMount>,
    made: u8,
    /// Stages that are started, and how they ended.
    ended: Vec<(usize, Result<Told, BuildError<Infallible>>)>,
    /// Largest number of stages that were at work.
    at_once: usize,
    stopped: bool,
}

impl Memory {
    fn digest_of(&mut self) -> Digest {
        self.made += 1;
        Digest::sha256([self.made; 32])
    }
}

impl Worker for Memory {
    type Error = Infallible;

    fn image(&mut self, name: &str, platform: Option<&str>) -> Result<Built, Infallible> {
        self.log
            .extend(platform.map(|platform| format!("{name} for {platform}")));
        Ok(self.images[name].clone())
    }

    fn stage(&mut self, in_result: bool) {
        self.stages.push(in_result);
    }

    fn cached(&mut self, key: &Key, _: &ImageConfig) -> Option<Built> {
        self.cache.get(key).cloned()
    }

    fn remember(&mut self, key: &Key, config: &ImageConfig) -> Result<Digest, Infallible> {
        let id = self.digest_of();
        let config = config.clone();
        self.cache.insert(key.clone(), Built { id, config });
        Ok(id)
    }

    fn keep(&mut self, config: &ImageConfig, _: bool) -> Result<Digest, Infallible> {
        let known = self.cache.values().find(|built| built.config == *config);
        let known = known.map(|built| built.id);
        Ok(known.unwrap_or_else(|| self.digest_of()))
    }

    fn claim(&mut self, _: &Key) -> Result<bool, Infallible> {
        Ok(false)
    }

    fn release(&mut self) {}

    fn start(&mut self, stage: &StageLabel, work: StageWork<'_, Self>) -> Result<(), Infallible> {
        self.log.push(stage.text.clone());
        let outcome = work(self);
        self.ended.push((stage.at, outcome));
        self.at_once = self.at_once.max(self.ended.len());
        Ok(())
    }

    /// The stage that was started last ends first.
    fn ended(&mut self) -> Result<(usize, Outcome<Self>), Infallible> {
        Ok(self.ended.pop().unwrap())
    }

    fn stop(&mut self) {
        self.ended.clear();
        self.stopped = true;
    }

    fn run(&mut self, layers: &[Digest], step: &RunStep) -> Result<Option<Digest>, Infallible> {
        let env = step.env.join(" ");
        self.mounts.clone_from(&step.mounts);
        self.log.push(format!(
            "{} on {} with [{env}]",
            step.argv.join(" "),
            layers.len()
        ));
        Ok(Some(self.digest_of()))
    }

    fn digest(&mut self, _: &CopyStep) -> Result<String, Infallible> {
        Ok(self.content.clone())
    }

    fn copy(&mut self, _: &[Digest], step: &CopyStep) -> Result<Option<Digest>, Infallible> {
        self.log
            .push(format!("copy {:?} to {}", step.sources, step.destination));
        if let Origin::Named(name) = &step.from {
            self.log.push(format!("of {name}"));
        }
        Ok(Some(self.digest_of()))
    }

    fn squash(&mut self, layers: &[Digest], below: usize) -> Result<Option<Digest>, Infallible> {
        self.log.push(format!("squash {} to {below}", layers.len()));
        Ok(Some(self.digest_of()))
    }

    fn directory(&mut self, _: &[Digest], path: &str, user: &str) -> Result<Option<Digest>, Infallible> {
        self.log.push(format!("make {path} {user}").trim_end().to_owned());
        Ok(None)
    }

    fn no_younger(&mut self, layers: &[Digest], time: Duration) -> Result<Vec<Digest>, Infallible> {
        self.log
            .push(format!("{} layers at {}", layers.len(), time.as_secs()));
        Ok(layers.iter().map(|_| self.digest_of()).collect())
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn say(&mut self, event: Event<'_>) {
        match event {
            Event::Unused(names) => self.log.push(format!("unused {}", names.join(" "))),
            Event::Misspelled { name, stage } => self.log.push(format!("{name} is not {stage}")),
            _ => {}
        }
    }
}

fn run(memory: &mut Memory, text: &str, options: &Options) -> Result<Built, BuildError<Infallible>> {
    memory.log.clear();
    build(&Dockerfile::parse(text).unwrap(), options, memory)
}

fn with_args(args: &[(&str, &str)]) -> Options {
    let args = args
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Options {
        args: args.collect(),
        ..Options::default()
    }
}

#[test]
fn what_the_result_is_made_of() {
    let text = "FROM scratch AS a\nRUN a\nFROM scratch AS unused\nFROM scratch AS b\nRUN b\nFROM a AS c\nCOPY --from=b /x /\nFROM c\nRUN d";
    let mut memory = Memory::default();
    run(&mut memory, text, &Options::default()).unwrap();
    assert_eq!(memory.stages, [true, false, true, true]);
}

#[test]
fn what_is_new_is_done_and_what_follows_it() {
    let text = "FROM scratch\nWORKDIR /w\nCOPY a b\nRUN c\nARG A\nRUN d";
    let mut memory = Memory::default();
    run(&mut memory, text, &Options::default()).unwrap();
    assert_eq!(memory.log.len(), 4);
    let first = run(&mut memory, text, &Options::default()).unwrap();
    assert!(memory.log.is_empty(), "{:?}", memory.log);
    run(&mut memory, text, &with_args(&[("A", "1")])).unwrap();
    assert_eq!(memory.log, ["/bin/sh -c d on 2 with [A=1]"]);
    // A proxy does not affect a key.
    run(&mut memory, text, &with_args(&[("HTTP_PROXY", "p")])).unwrap();
    assert!(memory.log.is_empty(), "{:?}", memory.log);
    memory.content = "other".to_owned();
    run(&mut memory, text, &Options::default()).unwrap();
    assert_eq!(memory.log.len(), 3);
    let options = Options {
        no_cache: true,
        ..Options::default()
    };
    run(&mut memory, text, &options).unwrap();
    assert_eq!(memory.log.len(), 4);
    assert_eq!(first.config.history.len(), 5);
    assert_eq!(first.config.rootfs.diff_ids.len(), 3);
}

#[test]
fn only_needed_stages_are_built() {
    let text = "FROM scratch AS a\nRUN a\nFROM scratch AS b\nRUN b\nFROM a AS c\nRUN c\nFROM scratch\nCOPY --from=b x y";
    let mut memory = Memory::default();
    run(&mut memory, text, &Options::default()).unwrap();
    assert_eq!(memory.log, ["/bin/sh -c b on 0 with []", "copy [\"x\"] to /y"]);
    let target = |target: &str| Options {
        target: Some(target.to_owned()),
        ..Options::default()
    };
    run(&mut memory, text, &target("C")).unwrap();
    assert_eq!(
        memory.log,
        ["/bin/sh -c a on 0 with []", "/bin/sh -c c on 1 with []"]
    );
    let error = run(&mut memory, text, &target("d")).unwrap_err();
    assert_eq!(error.to_string(), "target stage \"d\" could not be found");
    let error = run(&mut memory, "FROM scratch AS builder", &target("bulider")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "target stage \"bulider\" could not be found (did you mean builder?)"
    );
    memory.images.insert(
        "bulider".to_owned(),
        Built {
            id: Digest::sha256([0; 32]),
            config: ImageConfig::default(),
        },
    );
    let text = "FROM scratch AS builder\nRUN a\nFROM scratch AS last\nCOPY --from=bulider /a /a";
    run(&mut memory, text, &target("last")).unwrap();
    assert_eq!(memory.log[0], "bulider is not builder");
}

#[test]
fn configurations_and_triggers() {
    let mut memory = Memory::default();
    let mut base = ImageConfig::default();
    base.config.cmd = vec!["old".to_owned()];
    base.config.on_build = vec!["RUN trigger".to_owned()];
    let id = Digest::sha256([255; 32]);
    memory
        .images
        .insert("base".to_owned(), Built { id, config: base });
    let text =
        "FROM base\nENTRYPOINT [\"e\"]\nSHELL [\"s\"]\nCMD x\nUSER u\nLABEL a=1\nEXPOSE 1\nONBUILD RUN y";
    let options = Options {
        labels: BTreeMap::from([("b".to_owned(), "2".to_owned())]),
        ..Options::default()
    };
    let config = run(&mut memory, text, &options).unwrap().config.config;
    assert_eq!(memory.log, ["/bin/sh -c trigger on 0 with []"]);
    assert_eq!(config.entrypoint, ["e"]);
    assert_eq!(config.cmd, ["s", "x"]);
    assert_eq!(config.on_build, ["RUN y"]);
    assert_eq!((config.user.as_str(), config.labels.len()), ("u", 2));
    // A file that adds nothing to an image results in that image.
    let mut plain = Memory::default();
    plain.images.insert(
        "p".to_owned(),
        Built {
            id,
            config: ImageConfig::default(),
        },
    );
    assert_eq!(run(&mut plain, "FROM p", &Options::default()).unwrap().id, id);
}

#[test]
fn refused_with_the_line() {
    for (text, said) in [
        ("FROM scratch\n\nCOPY a b c", "line 3: COPY a b c"),
        (
            "FROM scratch\nADD https://x/y.git#-z /",
            "line 2: ADD https://x/y.git#-z /",
        ),
        (
            "FROM scratch\nCOPY --chmod=u+q a b",
            "line 2: COPY --chmod=u+q a b",
        ),
        // The worker is not asked for an image of that name.
        (
            "FROM scratch\nCOPY --from=later a b\nFROM scratch AS later",
            "line 2: COPY --from=later a b",
        ),
        (
            "FROM scratch AS own\nRUN --mount=from=own,target=/x y",
            "line 2: RUN --mount=from=own,target=/x y",
        ),
        (
            "FROM scratch\nARG U=me\nRUN --mount=type=cache,target=/c,uid=$U y",
            "line 3: RUN --mount=type=cache,target=/c,uid=$U y",
        ),
        (
            "FROM scratch\nRUN --mount=type=cache y",
            "line 2: RUN --mount=type=cache y",
        ),
        ("FROM scratch\nCOPY --from=7 a b", "line 2: COPY --from=7 a b"),
        ("FROM $NOTHING", "line 1: FROM $NOTHING"),
        ("FROM scratch\nEXPOSE x", "line 2: EXPOSE x"),
    ] {
        let file = Dockerfile::parse(text).unwrap();
        let (target, mut memory) = (Some("0".to_owned()), Memory::default());
        let options = Options {
            target,
            ..Options::default()
        };
        let error = build(&file, &options, &mut memory).unwrap_err();
        assert_eq!(error.to_string(), said);
    }
}

#[test]
fn what_is_given_comes_before_stages_and_images() {
    let mut memory = Memory::default();
    let mut config = ImageConfig::default();
    config.rootfs.diff_ids = vec![Digest::sha256([200; 32])];
    let id = Digest::sha256([255; 32]);
    memory.images.insert("other".to_owned(), Built { id, config });
    let text = "FROM alpine AS tools\nRUN lost\nFROM docker.io/library/alpine:latest\nCOPY --from=tools x y\n\
        FROM files\nCOPY --from=alpine x y\nCOPY --from=1 x y";
    let contexts = [
        ("alpine", Named::Image("other".to_owned())),
        ("tools", Named::Directory),
        ("Files", Named::Directory),
    ];
    let options = Options {
        contexts: contexts.map(|(name, what)| (name.to_owned(), what)).into(),
        ..Options::default()
    };
    run(&mut memory, text, &options).unwrap();
    let copy = "copy [\"x\"] to /y";
    assert_eq!(
        memory.log,
        [copy, "of tools", "copy [\"/\"] to /", "of Files", copy, copy]
    );
}

#[test]
fn what_a_base_gets_is_one_layer() {
    let mut memory = Memory::default();
    let options = Options {
        squash: true,
        ..Options::default()
    };
    let mut config = ImageConfig::default();
    config.rootfs.diff_ids = vec![Digest::sha256([200; 32])];
    let id = Digest::sha256([255; 32]);
    memory.images.insert("base".to_owned(), Built { id, config });
    let text = "FROM base\nRUN b\nRUN c\nCMD d";
    let built = run(&mut memory, text, &options).unwrap();
    assert_eq!(memory.log.last().unwrap(), "squash 3 to 1");
    let config = built.config;
    assert_eq!(config.rootfs.diff_ids.len(), 2);
    let made: Vec<_> = config.history.iter().map(|step| !step.empty_layer).collect();
    assert_eq!(made, [false, false, false, true]);
    // The second build uses the cache; a stage without new layers needs no squashing.
    let again = run(&mut memory, text, &options).unwrap().config;
    assert_eq!(
        (again.rootfs, memory.log.len()),
        (config.rootfs, 0),
        "{:?}",
        memory.log
    );
    run(
        &mut memory,
        "FROM base AS x\nCMD y",
        &Options {
            contexts: [("base".to_owned(), Named::Directory)].into(),
            ..options
        },
    )
    .unwrap();
    assert_eq!(memory.log, ["copy [\"/\"] to /", "of base"]);
}

#[test]
fn a_build_for_another_machine_takes_place_on_this_one() {
    let here = Platform::host().to_string();
    let other = match &*here {
        "linux/s390x" => "linux/amd64",
        _ => "linux/s390x",
    };
    let mut memory = Memory::default();
    let (id, config) = (Digest::sha256([255; 32]), ImageConfig::default());
    memory.images.insert("base".to_owned(), Built { id, config });
    let text = "FROM --platform=$BUILDPLATFORM base\nARG BUILDPLATFORM\nARG TARGETARCH\nARG TARGETSTAGE\nRUN a\n\
        FROM base AS last\nCOPY --from=0 x y\nARG TARGETSTAGE\nRUN b";
    let options = Options {
        platform: Some(other.parse().unwrap()),
        target: Some("last".to_owned()),
        args: BTreeMap::from([("TARGETARCH".to_owned(), "given".to_owned())]),
        ..Options::default()
    };
    run(&mut memory, text, &options).unwrap();
    let arguments = format!("[BUILDPLATFORM={here} TARGETARCH=given TARGETSTAGE=last]");
    assert_eq!(
        memory.log,
        [
            format!("base for {here}"),
            format!("/bin/sh -c a on 0 with {arguments}"),
            format!("base for {other}"),
            "copy [\"x\"] to /y".to_owned(),
            "/bin/sh -c b on 1 with [TARGETSTAGE=last]".to_owned(),
        ]
    );
    run(
        &mut memory,
        "FROM scratch\nARG TARGETSTAGE\nRUN c",
        &Options::default(),
    )
    .unwrap();
    assert_eq!(memory.log, ["/bin/sh -c c on 0 with [TARGETSTAGE=default]"]);
}

#[test]
fn triggers_take_files_from_stages_that_nothing_else_needs() {
    let mut memory = Memory::default();
    let mut config = ImageConfig::default();
    config.config.on_build = vec![
        "RUN --mount=from=tools,target=/t trigger".to_owned(),
        "COPY --from=files x y".to_owned(),
    ];
    let id = Digest::sha256([255; 32]);
    memory.images.insert("base".to_owned(), Built { id, config });
    let text = "FROM scratch AS below\nRUN below\nFROM below AS tools\nRUN tool\nFROM scratch AS files\nRUN file\n\
        FROM scratch AS unused\nRUN unused\nFROM base";
    run(&mut memory, text, &Options::default()).unwrap();
    assert_eq!(
        memory.log,
        [
            "/bin/sh -c below on 0 with []",
            "/bin/sh -c tool on 1 with []",
            "/bin/sh -c trigger on 0 with []",
            "/bin/sh -c file on 0 with []",
            "copy [\"x\"] to /y",
        ]
    );
    // After each stage that a trigger needs, the stage with the trigger continues.
    assert_eq!(memory.stages, [true, false, true, false, true, false, true]);
}

/// The key of an archive that is extracted differs from that of the archive itself.
#[test]
fn a_key_knows_what_was_downloaded() {
    let mut memory = Memory::default();
    run(&mut memory, "FROM scratch\nADD a.tar.gz /", &Options::default()).unwrap();
    run(
        &mut memory,
        "FROM scratch\nADD http://x/a.tar.gz /",
        &Options::default(),
    )
    .unwrap();
    assert_eq!(memory.log, ["copy [] to /"]);
}

#[test]
fn a_working_directory_is_the_users() {
    let mut memory = Memory::default();
    let text = "FROM scratch\nWORKDIR /a\nUSER me\nWORKDIR b";
    run(&mut memory, text, &Options::default()).unwrap();
    assert_eq!(memory.log, ["make /a", "make /a/b me"]);
}

#[test]
fn scratch_is_no_image_wherever_it_is_named() {
    let mut memory = Memory::default();
    let options = Options {
        contexts: [("base".to_owned(), Named::Image("scratch".to_owned()))].into(),
        ..Options::default()
    };
    let text = "FROM base\nCOPY --from=base a b\nCOPY --from=scratch c d";
    run(&mut memory, text, &options).unwrap();
    assert_eq!(memory.log, ["copy [\"a\"] to /b", "copy [\"c\"] to /d"]);
}

#[test]
fn mounts_without_a_target_are_at_the_working_directory() {
    let mut memory = Memory::default();
    let text = "FROM scratch AS tools\nFROM scratch\nARG U=7\nWORKDIR /w\nRUN --mount=from=tools \
        --mount=type=cache,target=c,uid=$U,mode=0${U}00 a";
    run(&mut memory, text, &Options::default()).unwrap();
    let [
        StepMount::Bind { target, .. },
        StepMount::Cache { id, uid, mode, .. },
    ] = &memory.mounts[..]
    else {
        panic!("{:?}", memory.mounts)
    };
    assert_eq!(
        (&**target, &**id, *uid, *mode),
        ("/w", "/w/c", Some(7), Some(0o700))
    );
}
