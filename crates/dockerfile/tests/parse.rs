//! Whole files, valid and invalid.
#![allow(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use proptest::prelude::*;
use std::time::Duration;
use tote_dockerfile::{
    Command, CommandLine, Dockerfile, Healthcheck, Lines, MountKind, Network, Reason, expand, expand_words,
};

const FULL: &str = r#"# syntax=docker/dockerfile:1
ARG VERSION=3.20
ARG A B="x y"

FROM --platform=$BUILDPLATFORM alpine:${VERSION} AS Build
ENV A=1 B="two words" \
    C=three
ENV OLD form  of it
LABEL org.example="x" y=z
RUN --mount=type=cache,target=/c --mount=type=secret,id=s --network=none --security=insecure make \
    # comment
    all
RUN ["make", "install"]
RUN <<EOF
set -e
	make
EOF
RUN cat <<-"A" <<B > /x
	one $A
	A
two
B
COPY --from=0 --chown=1:2 --chmod=755 --link --exclude=*.md --exclude=x a "b" /dest/
COPY <<config.txt /etc/
value
config.txt
ADD --checksum=sha256:00 --keep-git-dir=true https://example.org/a.git /src
COPY ["a b", "c"]

from scratch
CMD echo hello
ENTRYPOINT ["/init", "-x"]
EXPOSE 80 443/udp
USER 1000:1000
WORKDIR /a b
VOLUME /data /log
VOLUME ["/json"]
STOPSIGNAL SIGTERM
SHELL ["/bin/bash", "-c"]
HEALTHCHECK --interval=5s --timeout=1m30s --start-period=0s --retries=3 CMD ["check"]
HEALTHCHECK NONE
ONBUILD COPY --from=x . /
MAINTAINER somebody
"#;

fn commands(file: &Dockerfile, stage: usize) -> Vec<&Command> {
    file.stages[stage]
        .instructions
        .iter()
        .map(|instruction| &instruction.command)
        .collect()
}

#[test]
fn the_first_stage() {
    let file = Dockerfile::parse(FULL).unwrap();
    assert_eq!(file.directives.syntax.as_deref(), Some("docker/dockerfile:1"));
    let args: Vec<_> = file
        .args
        .iter()
        .map(|arg| (&*arg.name, arg.default.as_deref()))
        .collect();
    assert_eq!(
        args,
        [("VERSION", Some("3.20")), ("A", None), ("B", Some("\"x y\""))]
    );
    let stage = &file.stages[0];
    assert_eq!(
        (stage.name.as_deref(), &*stage.base),
        (Some("build"), "alpine:${VERSION}")
    );
    assert_eq!(
        (stage.platform.as_deref(), stage.lines),
        (Some("$BUILDPLATFORM"), Lines { first: 5, last: 5 })
    );
    let all = commands(&file, 0);
    let pairs = |list: &[(&str, &str)]| {
        list.iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        *all[0],
        Command::Env(pairs(&[("A", "1"), ("B", "\"two words\""), ("C", "three")]))
    );
    assert_eq!(*all[1], Command::Env(pairs(&[("OLD", "form  of it")])));
    assert_eq!(
        *all[2],
        Command::Label(pairs(&[("org.example", "\"x\""), ("y", "z")]))
    );
    let Command::Run(run) = all[3] else {
        panic!("{:?}", all[3])
    };
    assert_eq!(run.command, CommandLine::Shell("make     all".into()));
    let secret = run.mounts[1]
        .resolve::<Reason>(&|text| Ok(text.to_owned()))
        .unwrap();
    assert_eq!((run.mounts.len(), secret.kind), (2, MountKind::Secret));
    assert_eq!((run.network, run.insecure), (Network::None, true));
    assert_eq!(stage.instructions[3].lines, Lines { first: 10, last: 12 });
}

#[test]
fn here_documents_and_copies() {
    let file = Dockerfile::parse(FULL).unwrap();
    let all = commands(&file, 0);
    let Command::Run(run) = all[4] else {
        panic!("{:?}", all[4])
    };
    assert_eq!(
        run.command,
        CommandLine::Exec(vec!["make".into(), "install".into()])
    );
    let Command::Run(run) = all[5] else {
        panic!("{:?}", all[5])
    };
    assert_eq!(
        (&run.command, &*run.heredocs[0].content),
        (&CommandLine::Shell("<<EOF".into()), "set -e\n\tmake\n")
    );
    let Command::Run(run) = all[6] else {
        panic!("{:?}", all[6])
    };
    let documents: Vec<_> = run
        .heredocs
        .iter()
        .map(|doc| (&*doc.name, &*doc.content, doc.expand))
        .collect();
    assert_eq!(documents, [("A", "one $A\n", false), ("B", "two\n", true)]);
    let Command::Copy(copy) = all[7] else {
        panic!("{:?}", all[7])
    };
    assert_eq!((copy.from.as_deref(), copy.transfer.link), (Some("0"), true));
    assert_eq!(
        (copy.transfer.chown.as_deref(), copy.transfer.chmod.as_deref()),
        (Some("1:2"), Some("755"))
    );
    assert_eq!(
        (&copy.transfer.sources[..], &*copy.transfer.destination),
        (&["a".into(), "\"b\"".into()][..], "/dest/")
    );
    assert_eq!(copy.transfer.exclude, ["*.md", "x"]);
    let Command::Copy(copy) = all[8] else {
        panic!("{:?}", all[8])
    };
    assert_eq!(
        (copy.transfer.sources.len(), &*copy.transfer.heredocs[0].name),
        (0, "config.txt")
    );
    let Command::Add(add) = all[9] else {
        panic!("{:?}", all[9])
    };
    assert_eq!(
        (add.checksum.as_deref(), add.keep_git_dir, add.unpack),
        (Some("sha256:00"), true, None)
    );
    let Command::Copy(copy) = all[10] else {
        panic!("{:?}", all[10])
    };
    assert_eq!(
        (&copy.transfer.sources[..], &*copy.transfer.destination),
        (&["a b".to_owned()][..], "c")
    );
}

#[test]
fn the_second_stage() {
    let file = Dockerfile::parse(FULL).unwrap();
    assert_eq!(
        (file.stages.len(), &*file.stages[1].base, &file.stages[1].name),
        (2, "scratch", &None)
    );
    let all = commands(&file, 1);
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    assert_eq!(*all[0], Command::Cmd(CommandLine::Shell("echo hello".into())));
    assert_eq!(
        *all[1],
        Command::Entrypoint(CommandLine::Exec(texts(&["/init", "-x"])))
    );
    assert_eq!(*all[2], Command::Expose(texts(&["80", "443/udp"])));
    assert_eq!(*all[3], Command::User("1000:1000".into()));
    assert_eq!(*all[4], Command::Workdir("/a b".into()));
    assert_eq!(*all[5], Command::Volume(texts(&["/data", "/log"])));
    assert_eq!(*all[6], Command::Volume(texts(&["/json"])));
    assert_eq!(*all[7], Command::StopSignal("SIGTERM".into()));
    assert_eq!(*all[8], Command::Shell(texts(&["/bin/bash", "-c"])));
    let Command::Healthcheck(Healthcheck::Command {
        interval,
        timeout,
        start_period,
        retries,
        ..
    }) = all[9]
    else {
        panic!("{:?}", all[9])
    };
    assert_eq!(
        (*interval, *timeout),
        (Some(Duration::from_secs(5)), Some(Duration::from_secs(90)))
    );
    assert_eq!((*start_period, *retries), (None, Some(3)));
    assert_eq!(*all[10], Command::Healthcheck(Healthcheck::None));
    let Command::Onbuild(text, command) = all[11] else {
        panic!("{:?}", all[11])
    };
    assert_eq!(text, "COPY --from=x . /");
    assert!(matches!(&**command, Command::Copy(copy) if copy.from.as_deref() == Some("x")));
    assert_eq!(*all[12], Command::Maintainer("somebody".into()));
}

/// Lines of the Dockerfiles of moby, BuildKit, buildx, docker's command line and compose.
#[test]
fn what_dockers_own_projects_are_built_with() {
    let text = r#"# syntax=docker/dockerfile:1
# check=skip=FromPlatformFlagConstDisallowed
ARG GO_VERSION=1.24
ARG BASE_IMAGE="golang:${GO_VERSION}-bookworm"
FROM --platform=$BUILDPLATFORM tonistiigi/xx:1.6 AS xx
FROM --platform=$BUILDPLATFORM ${BASE_IMAGE} AS base
COPY --from=xx / /
RUN rm -f /etc/apt/apt.conf.d/docker-clean
RUN --mount=type=bind,target=.,rw \
    --mount=type=tmpfs,target=cli/winresources \
    --mount=type=cache,sharing=locked,id=moby-${TARGETPLATFORM}-aptlib,target=/var/lib/apt <<EOT
  set -e
  xx-go --wrap
EOT
RUN --mount=from=binaries \
    --mount=type=cache,target=/root/.cache,id=lint-$TARGETPLATFORM \
    --mount=source=/tmp/.ldflags,target=/tmp/.ldflags,from=version ls
RUN --mount=type=secret,id=GITHUB_TOKEN,env=GITHUB_TOKEN,required=$REQUIRED --security=insecure make
ADD --keep-git-dir https://github.com/moby/buildkit.git#v0.2 /src
ADD --link --checksum=sha256:00 --unpack=true https://x.example/a.tgz /y/
ONBUILD RUN --mount=from=binaries ls
RUN
FROM scratch AS binaries-linux
COPY --link --parents --exclude=*.md --chmod=u=rwX,go=rX --from=base /build/./ /
FROM binaries-$TARGETOS AS binaries
"#;
    let file = Dockerfile::parse(text).unwrap();
    assert_eq!(file.stages.len(), 4);
    let Command::Run(run) = commands(&file, 1).last().copied().unwrap() else {
        panic!("the last instruction runs something")
    };
    assert_eq!(run.command, CommandLine::Shell(String::new()));
}

#[test]
fn a_trigger_keeps_its_documents() {
    let text = "FROM scratch\nONBUILD RUN <<A cat - 3<<-B\n\tone\nA\n\t\ttwo\n\tB\n";
    let file = Dockerfile::parse(text).unwrap();
    let Command::Onbuild(trigger, command) = commands(&file, 0)[0] else {
        panic!("it is a trigger")
    };
    let again = Dockerfile::parse(&format!("FROM scratch\n{trigger}\n")).unwrap();
    assert_eq!(*commands(&again, 0)[0], **command, "{trigger:?}");
}

#[test]
fn errors_are_dockers() {
    for (line, error) in [
        ("FOO bar", "unknown instruction: FOO"),
        ("CPOY a b", "unknown instruction: CPOY (did you mean COPY?)"),
        ("RUNN x", "unknown instruction: RUNN (did you mean RUN?)"),
        ("COYP a b", "unknown instruction: COYP (did you mean COPY?)"),
        (
            "RUN --mount=from=$X,target=/x y",
            "'from' doesn't support variable expansion, define alias stage instead",
        ),
        (
            "COPY \"a b\" /x",
            "a quoted name of COPY ends at a blank: write its arguments as a JSON array, COPY [\"a b\", \"/c\"]",
        ),
        (
            "RUN --network=x y",
            "x is not a network mode: give default, none or host",
        ),
        (
            "COPY a",
            "COPY requires at least two arguments, but only one was provided. Destination could not be determined",
        ),
        ("ADD", "ADD requires at least one argument"),
        ("COPY --foo a b", "unknown flag: --foo"),
        ("COPY --form=x a b", "unknown flag: --form (did you mean --from?)"),
        ("COPY --from a b", "missing a value on flag: from"),
        ("COPY --from=a --from=b a b", "duplicate flag specified: from"),
        (
            "COPY --link=x a b",
            "expecting boolean value for flag link, not: x",
        ),
        (
            "COPY [1, 2]",
            "when using JSON array syntax, arrays must be comprised of strings only",
        ),
        ("ENV a", "ENV must have two arguments"),
        ("ENV", "ENV requires at least one argument"),
        ("ENV =x", "ENV names can not be blank"),
        (
            "ENV a=b c",
            "Syntax error - can't find = in \"c\". Must be of the form: name=value",
        ),
        ("ARG =x", "ARG names can not be blank"),
        ("WORKDIR", "WORKDIR requires exactly one argument"),
        ("VOLUME [\"\"]", "VOLUME specified can not be an empty string"),
        ("SHELL bash", "SHELL requires the arguments to be in JSON form"),
        ("HEALTHCHECK NONE x", "HEALTHCHECK NONE takes no arguments"),
        ("HEALTHCHECK CMD", "Missing command after HEALTHCHECK CMD"),
        (
            "HEALTHCHECK FOO x",
            "Unknown type \"FOO\" in HEALTHCHECK (try CMD)",
        ),
        (
            "HEALTHCHECK --interval=1us CMD x",
            "Interval \"interval\" cannot be less than 1ms",
        ),
        ("HEALTHCHECK --interval=x CMD x", "time: invalid duration \"x\""),
        (
            "ONBUILD ONBUILD RUN x",
            "Chaining ONBUILD via `ONBUILD ONBUILD` isn't allowed",
        ),
        ("ONBUILD FROM x", "FROM isn't allowed as an ONBUILD trigger"),
        ("ONBUILD", "ONBUILD requires at least one argument"),
        ("FROM a b", "FROM requires either one or three arguments"),
        (
            "FROM a AS 1x",
            "invalid name for build stage: \"1x\", name can't start with a number or contain symbols",
        ),
        ("FROM --x=y a", "unknown flag: --x"),
    ] {
        let text = format!("FROM scratch\n\n{line}\n");
        let found = Dockerfile::parse(&text).unwrap_err().to_string();
        assert_eq!(
            found,
            format!("dockerfile parse error on line 3: {error}"),
            "{line}"
        );
    }
}

#[test]
fn copies_from_a_variable_are_refused() {
    let found = Dockerfile::parse("FROM scratch\nCOPY --from=$X a /x")
        .unwrap_err()
        .to_string();
    assert_eq!(
        found,
        "dockerfile parse error on line 2: variable expansion is not supported for --from, define a new stage with FROM using ARG from \
         global scope as a workaround"
    );
}

#[test]
fn there_must_be_a_stage() {
    let found = Dockerfile::parse("ARG a\nRUN x\nFROM y").unwrap_err().to_string();
    assert_eq!(
        found,
        "dockerfile parse error on line 2: no build stage in current context"
    );
    let found = Dockerfile::parse("ARG a").unwrap_err().to_string();
    assert_eq!(
        found,
        "dockerfile parse error on line 1: no build stage in current context"
    );
}

#[test]
fn what_looks_like_json_and_is_not_is_for_the_shell() {
    for line in ["['a']", "[ -f x ] && y", "[\"a\""] {
        let file = Dockerfile::parse(&format!("FROM x\nCMD {line}")).unwrap();
        assert_eq!(
            file.stages[0].instructions[0].command,
            Command::Cmd(CommandLine::Shell(line.to_owned()))
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("FROM a\n".to_owned()), Just("RUN <<A\n".to_owned()), Just("A\n".to_owned()), Just("\\\n".to_owned()),
                Just("COPY ".to_owned()), Just("--from=".to_owned()), Just("[\"".to_owned()), Just("HEALTHCHECK ".to_owned()),
                Just("${a:-".to_owned()), Just("ONBUILD ".to_owned()), Just("--mount=".to_owned()), ".{0,12}",
            ],
            0..12,
        )
    ) {
        let text = parts.concat();
        drop(Dockerfile::parse(&text));
        let lookup = |name: &str| (name.len() < 3).then(|| "v w".to_owned());
        drop(expand(&text, '\\', &lookup));
        drop(expand_words(&text, '`', &lookup));
        if let Ok(ignore) = tote_dockerfile::Ignore::parse(&text) {
            let below = ignore.excludes(&format!("{text}/below"));
            prop_assert!(below || !ignore.excludes(&text) || ignore.has_exceptions() || text.contains(".."));
        }
    }
}
