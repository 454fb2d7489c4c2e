//! The client's reading requests, at good registries and at misbehaving ones.

#![expect(clippy::unwrap_used, reason = "the functions that tests share are tests too")]

mod support;

use std::io::Read;
use support::{LAYER, client, options, reference};
use tote_image::{Descriptor, Platform};
use tote_registry::{Client, ClientOptions, Credential, Credentials, Error, Kind, Registries};
use tote_testkit::{FakeRegistry, Reply, digest, index, manifest};

/// Returns a layer that takes several reads.
fn bytes() -> Vec<u8> {
    (0..300_000u32).map(|number| (number % 251) as u8).collect()
}

fn descriptor(bytes: &[u8]) -> Descriptor {
    Descriptor::new(LAYER, digest(bytes).parse().unwrap(), bytes.len() as u64)
}

fn read(
    client: &Client,
    registry: &FakeRegistry,
    descriptor: &Descriptor,
) -> Result<Vec<u8>, (Vec<u8>, Error)> {
    let mut blob = client
        .blob(&reference(registry, "a/b:1"), descriptor)
        .map_err(|error| (Vec::new(), error))?;
    let mut got = Vec::new();
    let mut chunk = [0; 10_000];
    loop {
        match blob.next(&mut chunk) {
            Ok(0) => return Ok(got),
            Ok(length) => got.extend_from_slice(&chunk[..length]),
            Err(error) => return Err((got, error)),
        }
    }
}

#[test]
fn an_image_by_platform() {
    let registry = FakeRegistry::start();
    let amd64 = manifest(b"{}", &[(LAYER, b"layer")]);
    let arm64 = manifest(b"{ }", &[(LAYER, b"other")]);
    let (amd64_digest, arm64_digest) = (
        registry.manifest("a/b", "amd", &amd64),
        registry.manifest("a/b", "arm", &arm64),
    );
    let index = index(&[("amd64", &amd64), ("arm64", &arm64)]);
    let index_digest = registry.manifest("a/b", "1", &index);
    let client = client();
    let name = reference(&registry, "a/b:1");
    let resolve = |platform: &str| client.resolve(&name, &platform.parse::<Platform>().unwrap());
    let image = resolve("linux/arm64").unwrap();
    assert_eq!(image.digest.to_string(), arm64_digest);
    assert_eq!(image.name_digest.to_string(), index_digest);
    assert_eq!(image.raw, arm64);
    assert_eq!(image.indexes[0].raw, index);
    assert_eq!(resolve("linux/amd64").unwrap().digest.to_string(), amd64_digest);
    assert_eq!(client.digest(&name).unwrap().unwrap().to_string(), index_digest);
    let error = resolve("linux/s390x").unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    let single = client
        .resolve(&reference(&registry, "a/b:amd"), &"linux/s390x".parse().unwrap())
        .unwrap();
    assert_eq!((single.name_digest, single.indexes.len()), (single.digest, 0));
    let error = client.manifest(&reference(&registry, "a/b:gone")).unwrap_err();
    assert!(
        matches!(&error, Error::NotFound { detail, .. } if detail == ": it is unknown here"),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("tote login"));
}

#[test]
fn manifests_that_are_not_what_was_asked_for() {
    let registry = FakeRegistry::start();
    let good = manifest(b"{}", &[]);
    let good_digest = registry.manifest("a/b", "1", &good);
    let evil = manifest(b"[]", &[]);
    let reply = evil.clone();
    registry.hook(move |request| {
        let reply = Reply::status(200).body(reply.clone());
        match request.path.rsplit('/').next()? {
            "lie" => Some(reply.header("docker-content-digest", &format!("sha256:{}", "0".repeat(64)))),
            "huge" => Some(Reply::status(200).body(vec![b' '; (4 << 20) + 1]).chunked()),
            "html" => Some(
                Reply::status(200)
                    .header("content-type", "text/html")
                    .body("<html>"),
            ),
            // The digest of a schema 1 manifest leaves out the signatures.
            "v1" => Some(
                Reply::status(200)
                    .header("docker-content-digest", &digest(b"without signatures"))
                    .body(r#"{"schemaVersion":1,"fsLayers":[],"signatures":[]}"#),
            ),
            "garbage" => Some(
                Reply::status(200)
                    .header("docker-content-digest", "x\u{7f}")
                    .body("\u{0}"),
            ),
            name if name.starts_with("sha256:") => Some(reply),
            _ => None,
        }
    });
    let client = client();
    let ask = |name: &str| client.manifest(&reference(&registry, &format!("a/b{name}")));
    assert_eq!(ask(":1").unwrap().digest.to_string(), good_digest);
    assert!(matches!(
        ask(&format!("@{good_digest}")),
        Err(Error::Digest { .. })
    ));
    assert!(matches!(ask(":lie"), Err(Error::Digest { .. })));
    assert!(matches!(ask(":huge"), Err(Error::TooLong { .. })));
    for name in [":html", ":v1"] {
        let error = ask(name).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    }
    let refused = ask(":v1").unwrap_err();
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert!(why.contains("schema 1"), "{why}");
    assert!(ask(":garbage").is_err());
    assert_eq!(ask(&format!(":1@{}", digest(&evil))).unwrap().raw, evil);
}

#[test]
fn indexes_in_each_other_end() {
    let registry = FakeRegistry::start();
    let mut inner = manifest(b"{}", &[]);
    let digests: Vec<String> = (0..6)
        .map(|depth| {
            let digest = registry.manifest("a/b", &format!("d{depth}"), &inner);
            inner = index(&[("amd64", &inner)]);
            digest
        })
        .collect();
    let client = client();
    let platform = "linux/amd64".parse().unwrap();
    let resolve = |name: &str| client.resolve(&reference(&registry, name), &platform);
    assert_eq!(resolve("a/b:d2").unwrap().digest.to_string(), digests[0]);
    assert!(matches!(resolve("a/b:d5"), Err(Error::Protocol { .. })));
}

#[test]
fn a_blob_is_verified() {
    let registry = FakeRegistry::start();
    let bytes = bytes();
    registry.blob("a/b", &bytes);
    registry.blob("a/b", b"");
    let seen = std::sync::Arc::new(std::sync::Mutex::new(0));
    let counted = std::sync::Arc::clone(&seen);
    let client = Client::new(ClientOptions {
        progress: Some(std::sync::Arc::new(move |_, passed| {
            *counted.lock().unwrap() = passed
        })),
        ..options()
    });
    assert_eq!(read(&client, &registry, &descriptor(&bytes)).unwrap(), bytes);
    assert_eq!(*seen.lock().unwrap(), bytes.len() as u64);
    assert_eq!(read(&client, &registry, &descriptor(b"")).unwrap(), b"");
    let name = reference(&registry, "a/b:1");
    assert_eq!(
        client.blob_bytes(&name, &descriptor(&bytes), 300_000).unwrap(),
        bytes
    );
    assert!(matches!(
        client.blob_bytes(&name, &descriptor(&bytes), 299_999),
        Err(Error::TooLong { .. })
    ));
    assert!(matches!(
        client.blob(&name, &descriptor(b"gone")),
        Err(Error::NotFound { .. })
    ));
    assert!(client.has_blob(&name, &descriptor(&bytes)).unwrap());
    assert!(!client.has_blob(&name, &descriptor(b"gone")).unwrap());
    let mut text = String::new();
    let mut blob = client.blob(&name, &descriptor(&bytes)).unwrap();
    let error = blob.read_to_string(&mut text).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
}

#[test]
fn a_wrong_blob_is_never_whole() {
    let registry = FakeRegistry::start();
    let bytes = bytes();
    let mut wrong = bytes.clone();
    wrong[0] ^= 1;
    let replies = [
        Reply::status(200).body(wrong.clone()),
        Reply::status(200).body(wrong).chunked(),
        Reply::status(200).body([&bytes[..], b"more"].concat()),
        Reply::status(200).body([&bytes[..], b"more"].concat()).chunked(),
        Reply::status(200).body(&bytes[..7]),
        Reply::status(200).body(&bytes[..7]).chunked(),
    ];
    let expected = descriptor(&bytes);
    for (number, reply) in replies.into_iter().enumerate() {
        let hooked = FakeRegistry::start();
        hooked.hook(move |request| request.path.contains("/blobs/").then(|| reply.clone()));
        let (got, error) = read(&client(), &hooked, &expected).unwrap_err();
        assert!(got.len() < bytes.len(), "{number}");
        assert_eq!(error.kind(), Kind::Corrupt, "{number}: {error}");
    }
    // Sizes that are too small or too large are equally wrong.
    registry.blob("a/b", &bytes);
    for size in [0, 1, 299_999, 300_001, u64::MAX] {
        let descriptor = Descriptor {
            size,
            ..expected.clone()
        };
        let (got, error) = read(&client(), &registry, &descriptor).unwrap_err();
        assert!(got.len() < bytes.len(), "{size}");
        assert_eq!(error.kind(), Kind::Corrupt, "{size}: {error}");
    }
}

#[test]
fn an_error_is_not_an_end() {
    let registry = FakeRegistry::start();
    registry.hook(|request| {
        request
            .path
            .contains("/blobs/")
            .then(|| Reply::status(200).body("wrong!"))
    });
    let client = client();
    let mut blob = client
        .blob(&reference(&registry, "a/b:1"), &descriptor(b"right!"))
        .unwrap();
    let mut chunk = [0; 10];
    for _ in 0..3 {
        assert!(matches!(blob.next(&mut chunk), Err(Error::Digest { .. })));
    }
}

#[test]
fn a_broken_transfer_goes_on_where_it_broke() {
    let bytes = bytes();
    for knows_ranges in [true, false] {
        let registry = FakeRegistry::start();
        registry.blob("a/b", &bytes);
        let body = bytes.clone();
        registry.hook(move |request| {
            let whole = Reply::status(200).body(body.clone());
            match (request.path.contains("/blobs/"), request.nth) {
                (true, 0) => Some(whole.cut(100_000)),
                (true, 1) => Some(Reply::status(503)),
                (true, 2) if !knows_ranges => Some(whole),
                _ => None,
            }
        });
        assert_eq!(read(&client(), &registry, &descriptor(&bytes)).unwrap(), bytes);
        let log = registry.log();
        let ranges: Vec<_> = log.iter().filter_map(|request| request.header("range")).collect();
        assert_eq!(ranges, ["bytes=100000-"; 2], "{knows_ranges}");
    }
}

#[test]
fn another_range_than_the_one_asked_for() {
    let bytes = bytes();
    let registry = FakeRegistry::start();
    let body = bytes.clone();
    registry.hook(move |request| {
        let blob = request.path.contains("/blobs/");
        match request.header("range") {
            None => blob.then(|| Reply::status(200).body(body.clone()).cut(1000)),
            Some(_) => Some(
                Reply::status(206)
                    .header("content-range", "bytes 0-9/10")
                    .body("0123456789"),
            ),
        }
    });
    let (_, error) = read(&client(), &registry, &descriptor(&bytes)).unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
}

#[test]
fn a_transfer_that_always_breaks_ends() {
    let bytes = bytes();
    let registry = FakeRegistry::start();
    registry.hook(|request| {
        let start: usize = request.header("range").map_or(0, |range| {
            range
                .trim_start_matches("bytes=")
                .trim_end_matches('-')
                .parse()
                .unwrap()
        });
        let range = format!("bytes {start}-299999/300000");
        let status = if start == 0 { 200 } else { 206 };
        let reply = Reply::status(status)
            .header("content-range", &range)
            .body(vec![0; 300_000 - start]);
        request.path.contains("/blobs/").then(|| reply.cut(10))
    });
    let (got, error) = read(&client(), &registry, &descriptor(&bytes)).unwrap_err();
    assert!(got.len() <= 50, "{}", got.len());
    assert_eq!(registry.count("GET", "/blobs/"), 5);
    assert!(
        matches!(error, Error::Connection { .. } | Error::Size { .. }),
        "{error}"
    );
}

#[test]
fn busy_and_silent_registries() {
    let registry = FakeRegistry::start();
    registry.manifest("a/b", "1", &manifest(b"{}", &[]));
    registry.hook(|request| match (request.path.rsplit('/').next()?, request.nth) {
        ("1", 0) => Some(Reply::status(429).header("retry-after", "0")),
        ("1", 1) => Some(Reply::status(502)),
        ("1", 2) => Some(Reply::status(200).header("content-length", "10").cut(0)),
        ("busy", _) => Some(Reply::status(429).header("retry-after", "99999999999999999999")),
        ("teapot", _) => Some(Reply::status(418).body("\u{1b}[2J not json")),
        _ => None,
    });
    let client = client();
    let ask = |name: &str| client.manifest(&reference(&registry, name)).map(|_| ());
    assert!(matches!(ask("a/b:1"), Err(Error::Connection { .. })));
    ask("a/b:1").unwrap();
    assert!(matches!(ask("a/b:busy"), Err(Error::TooMany { .. })));
    assert_eq!(registry.count("GET", "busy"), 5);
    assert!(matches!(
        ask("a/b:teapot"),
        Err(Error::Status { status: 418, .. })
    ));
    // A host that accepts connections and never sends anything.
    let client = Client::new(ClientOptions {
        silence_timeout: std::time::Duration::from_millis(50),
        ..options()
    });
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let host = silent.local_addr().unwrap();
    let error = client
        .manifest(&format!("{host}/a/b:1").parse().unwrap())
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    drop(silent);
    let error = client
        .manifest(&format!("{host}/a/b:1").parse().unwrap())
        .unwrap_err();
    assert!(matches!(error, Error::Connection { .. }), "{error}");
}

#[test]
fn mirrors_are_asked_first() {
    let (origin, mirror) = (FakeRegistry::start(), FakeRegistry::start());
    let bytes = manifest(b"{}", &[]);
    mirror.manifest("a/b", "both", &bytes);
    origin.manifest("a/b", "both", &bytes);
    origin.manifest("a/b", "one", &bytes);
    let config = format!(
        r#"{{"registries":{{"{}":{{"mirrors":["http://127.0.0.1:1","http://{}"]}}}}}}"#,
        origin.host(),
        mirror.host()
    );
    let client = Client::new(ClientOptions {
        registries: Registries::parse(&config).unwrap(),
        ..options()
    });
    client.manifest(&reference(&origin, "a/b:both")).unwrap();
    assert_eq!(origin.log().len(), 0);
    client.manifest(&reference(&origin, "a/b:one")).unwrap();
    assert_eq!(mirror.log().len(), 2);
    let error = client.manifest(&reference(&origin, "a/b:none")).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[test]
fn what_is_given_for_once_is_not_a_mirrors() {
    // The header of user Aladdin, from RFC 7617.
    const BASIC: &str = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
    let (origin, mirror) = (FakeRegistry::start(), FakeRegistry::start());
    for registry in [&origin, &mirror] {
        registry.demand_token(BASIC, "a-token", false);
        registry.manifest("a/b", "1", &manifest(b"{}", &[]));
    }
    let config = format!(
        r#"{{"registries":{{"{}":{{"mirrors":["http://{}"]}}}}}}"#,
        origin.host(),
        mirror.host()
    );
    let aladdin = Credential::Password {
        username: "Aladdin".to_owned(),
        password: "open sesame".to_owned(),
    };
    let client = Client::new(ClientOptions {
        registries: Registries::parse(&config).unwrap(),
        credentials: Credentials {
            given: Some((origin.host(), aladdin)),
            ..Credentials::default()
        },
        ..options()
    });
    client.manifest(&reference(&origin, "a/b:1")).unwrap();
    let shown = |registry: &FakeRegistry| {
        let log = registry.log();
        let with = log
            .iter()
            .filter(|request| request.header("authorization") == Some(BASIC));
        (log.len(), with.count())
    };
    let (asked, seen) = shown(&mirror);
    assert!(
        asked > 0 && seen == 0,
        "the mirror was asked {asked} times and saw {seen} passwords"
    );
    assert_eq!(shown(&origin).1, 1);
}

#[test]
fn tags_of_many_pages() {
    let registry = FakeRegistry::start();
    let bytes = manifest(b"{}", &[]);
    for tag in ["a", "b", "c", "d", "e"] {
        registry.manifest("a/b", tag, &bytes);
    }
    let client = client();
    let tags = client.tags(&reference(&registry, "a/b")).unwrap();
    assert_eq!(tags, ["a", "b", "c", "d", "e"]);
    registry.hook(|request| {
        let next = format!(r#"</v2/a/b/tags/list?x={}>; rel="next""#, request.nth);
        let page = Reply::status(200)
            .header("link", &next)
            .body(r#"{"tags":["../x","ok"]}"#);
        request.path.contains("/tags/").then_some(page)
    });
    assert!(matches!(
        client.tags(&reference(&registry, "a/b")),
        Err(Error::Protocol { .. })
    ));
}

#[test]
fn four_threads_share_a_client() {
    let registry = FakeRegistry::start();
    let blobs: Vec<Vec<u8>> = (0..8u8).map(|number| vec![number; 200_000]).collect();
    for blob in &blobs {
        registry.blob("a/b", blob);
    }
    let client = client();
    std::thread::scope(|scope| {
        let (client, registry) = (&client, &registry);
        for chunk in blobs.chunks(2) {
            scope.spawn(move || {
                for blob in chunk {
                    assert_eq!(read(client, registry, &descriptor(blob)).unwrap(), *blob);
                }
            });
        }
    });
}
