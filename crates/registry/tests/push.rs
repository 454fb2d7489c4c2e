//! The client's writing requests: the content that arrives, and the authorisation that registries accept.

#![expect(clippy::unwrap_used, reason = "the functions that tests share are tests too")]

mod support;

use std::io::{self, Read};
use std::sync::atomic::Ordering;
use support::{LAYER, client, options, reference};
use tote_image::{Descriptor, media_type};
use tote_registry::{Client, ClientOptions, Credential, Credentials, Error, Kind, Pushed};
use tote_testkit::{FakeRegistry, Reply, digest, manifest};

fn descriptor(bytes: &[u8]) -> Descriptor {
    Descriptor::new(LAYER, digest(bytes).parse().unwrap(), bytes.len() as u64)
}

fn push(client: &Client, registry: &FakeRegistry, from: Option<&str>, bytes: &[u8]) -> Result<Pushed, Error> {
    let from = from.map(|from| reference(registry, from));
    let mut source = || -> io::Result<Box<dyn Read>> { Ok(Box::new(io::Cursor::new(bytes.to_vec()))) };
    client.push_blob(
        &reference(registry, "a/b:1"),
        &descriptor(bytes),
        from.as_ref(),
        &mut source,
    )
}

#[test]
fn blobs_are_sent_once() {
    let registry = FakeRegistry::start();
    registry.blob("other/one", b"there");
    let client = client();
    for (from, bytes, pushed) in [
        (None, &b"new"[..], Pushed::Uploaded),
        (None, b"new", Pushed::Existed),
        (Some("other/one:1"), b"there", Pushed::Mounted),
        (Some("other/one:1"), b"not there", Pushed::Uploaded),
        (Some("a/b:2"), b"from itself", Pushed::Uploaded),
        (None, b"", Pushed::Uploaded),
    ] {
        assert_eq!(
            push(&client, &registry, from, bytes).unwrap(),
            pushed,
            "{bytes:?}"
        );
        assert_eq!(registry.stored("a/b", &digest(bytes)).as_deref(), Some(bytes));
    }
    let raw = manifest(b"{}", &[(LAYER, b"new")]);
    let name = reference(&registry, "a/b:1");
    let pushed = client
        .push_manifest(&name, media_type::OCI_MANIFEST, &raw)
        .unwrap();
    assert_eq!(pushed.to_string(), digest(&raw));
    assert_eq!(client.manifest(&name).unwrap().raw, raw);
}

#[test]
fn an_upload_that_breaks_begins_again() {
    let registry = FakeRegistry::start();
    registry.hook(|request| match (request.method.as_str(), request.nth) {
        ("PUT", 0) if request.path.contains("/uploads/u0") => Some(Reply::status(502)),
        ("PUT", 0) if request.path.contains("/uploads/u1") => {
            Some(Reply::status(201).header("content-length", "x").cut(0))
        }
        _ => None,
    });
    let bytes = vec![7; 300_000];
    let pushed = push(&client(), &registry, None, &bytes);
    if let Err(error) = &pushed {
        // The second answer is not HTTP, so the push ends with an error.
        assert!(matches!(error, Error::Http { .. }), "{error}");
    }
    assert!(registry.count("POST", "/uploads/") >= 2);
}

/// A token that ends while a blob's content is sent costs one more session; a registry that refuses for good is asked twice.
#[test]
fn a_token_that_ends_meanwhile_is_renewed() {
    for (refusals, sessions) in [(1, 2), (9, 2)] {
        let registry = FakeRegistry::start();
        let left = std::sync::atomic::AtomicU32::new(refusals);
        registry.hook(move |request| {
            let sends = request.method == "PUT" && request.path.contains("/uploads/");
            let counted = sends && left.load(Ordering::Relaxed) > 0;
            counted.then(|| {
                left.fetch_sub(1, Ordering::Relaxed);
                Reply::status(401).header("www-authenticate", "Basic realm=\"x\"")
            })
        });
        let pushed = push(&client(), &registry, None, b"bytes");
        if refusals == 1 {
            assert_eq!(pushed.unwrap(), Pushed::Uploaded);
            assert_eq!(
                registry.stored("a/b", &digest(b"bytes")).as_deref(),
                Some(&b"bytes"[..])
            );
        } else {
            assert_eq!(pushed.unwrap_err().kind(), Kind::Denied);
        }
        assert_eq!(registry.count("POST", "/uploads/"), sessions);
    }
}

#[test]
fn what_is_too_big_for_one_request_is_sent_in_pieces() {
    let registry = FakeRegistry::start();
    registry.hook(|request| {
        let too_big = request.method == "PUT" && request.body.len() > 100;
        too_big.then(|| Reply::status(413))
    });
    let bytes: Vec<u8> = (0..(17 << 20)).map(|number: u32| (number % 253) as u8).collect();
    assert_eq!(
        push(&client(), &registry, None, &bytes).unwrap(),
        Pushed::Uploaded
    );
    assert_eq!(registry.stored("a/b", &digest(&bytes)), Some(bytes));
    assert_eq!(registry.count("PATCH", "/uploads/"), 2);
}

#[test]
fn what_cannot_be_read_is_not_the_registrys_fault() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }
    let registry = FakeRegistry::start();
    let name = reference(&registry, "a/b:1");
    let client = client();
    let mut source = || -> io::Result<Box<dyn Read>> { Ok(Box::new(Broken)) };
    let error = client
        .push_blob(&name, &descriptor(b"bytes"), None, &mut source)
        .unwrap_err();
    assert!(matches!(error, Error::Source { .. }), "{error}");
    let mut source = || -> io::Result<Box<dyn Read>> { Err(io::ErrorKind::NotFound.into()) };
    let error = client
        .push_blob(&name, &descriptor(b"bytes"), None, &mut source)
        .unwrap_err();
    assert!(matches!(error, Error::Source { .. }), "{error}");
    let mut wrong = || -> io::Result<Box<dyn Read>> { Ok(Box::new(&b"other"[..])) };
    let error = client
        .push_blob(&name, &descriptor(b"bytes"), None, &mut wrong)
        .unwrap_err();
    assert!(error.to_string().ends_with("answers 400: bad digest"), "{error}");
}

/// The header of user Aladdin, from RFC 7617.
const BASIC: &str = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";

fn aladdin(password: &str) -> Credential {
    Credential::Password {
        username: "Aladdin".to_owned(),
        password: password.to_owned(),
    }
}

#[test]
fn login_push_and_logout() {
    let registry = FakeRegistry::start();
    registry.demand_token(BASIC, "secret-token", true);
    registry.manifest("a/b", "1", &manifest(b"{}", &[]));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.json");
    let credentials = Credentials {
        read: vec![file.clone()],
        write: Some(file),
        ..Credentials::default()
    };
    let fresh = || {
        Client::new(ClientOptions {
            credentials: credentials.clone(),
            ..options()
        })
    };
    // This registry allows reading without credentials, but no writing.
    fresh().manifest(&reference(&registry, "a/b:1")).unwrap();
    let error = push(&fresh(), &registry, None, b"x").unwrap_err();
    assert!(matches!(error, Error::Denied { logged_in: false, .. }), "{error}");
    let error = fresh().login(&registry.host(), &aladdin("wrong")).unwrap_err();
    assert!(matches!(error, Error::Login { .. }), "{error}");
    fresh().login(&registry.host(), &aladdin("open sesame")).unwrap();
    let client = fresh();
    assert_eq!(push(&client, &registry, None, b"x").unwrap(), Pushed::Uploaded);
    assert_eq!(push(&client, &registry, None, b"y").unwrap(), Pushed::Uploaded);
    let tokens = registry
        .log()
        .iter()
        .filter(|request| request.header("authorization") == Some(BASIC))
        .count();
    assert_eq!(tokens, 2, "one for the login, one for all of a client's uploads");
    assert!(fresh().logout(&registry.host()).unwrap());
    assert!(!fresh().logout(&registry.host()).unwrap());
    assert_eq!(
        push(&fresh(), &registry, None, b"z").unwrap_err().kind(),
        Kind::Denied
    );
}

#[test]
fn credentials_stay_with_their_registry() {
    let (registry, elsewhere) = (FakeRegistry::start(), FakeRegistry::start());
    registry.demand_token("none", "secret-token", true);
    let target = format!("http://{}/cdn", elsewhere.host());
    registry.hook(move |request| {
        let moved = request.header("authorization").is_some() && request.path.contains("/blobs/");
        moved.then(|| Reply::status(307).header("location", &target))
    });
    elsewhere.hook(|request| (request.path == "/cdn").then(|| Reply::status(200).body("bytes")));
    let bytes = client()
        .blob_bytes(&reference(&registry, "a/b:1"), &descriptor(b"bytes"), 100)
        .unwrap();
    assert_eq!(bytes, b"bytes");
    let log = elsewhere.log();
    assert_eq!(log.len(), 1);
    assert_eq!(log[0].header("authorization"), None);
}

#[test]
fn redirects_that_lead_nowhere() {
    for location in [
        "/v2/a/b/blobs/again",
        "http://user:word@127.0.0.1/",
        "gopher://x/",
        "http://",
        "\u{fc}",
    ] {
        let registry = FakeRegistry::start();
        registry.hook(move |request| {
            request
                .path
                .contains("/blobs/")
                .then(|| Reply::status(302).header("location", location))
        });
        let error = client()
            .blob(&reference(&registry, "a/b:1"), &descriptor(b"x"))
            .unwrap_err();
        assert!(!matches!(error, Error::Connection { .. }), "{location}: {error}");
        assert!(registry.log().len() < 12, "{location}");
    }
}

#[test]
fn token_services_that_misbehave() {
    for (realm, reply) in [
        ("http://192.0.2.1/token", None),
        ("ftp://127.0.0.1/token", None),
        ("", None),
        ("SELF", Some(Reply::status(200).body("{}"))),
        ("SELF", Some(Reply::status(200).body(vec![b'x'; 2 << 20]))),
        ("SELF", Some(Reply::status(403).body(r#"{"details":"no"}"#))),
        ("SELF", Some(Reply::status(200).body(r#"{"token":"never good"}"#))),
        ("SELF", Some(Reply::status(200).body(r#"{"token":"never-good"}"#))),
    ] {
        let registry = FakeRegistry::start();
        let own = format!("http://{}/token", registry.host());
        let realm = realm.replace("SELF", &own);
        registry.hook(move |request| {
            let challenge = format!(r#"Bearer realm="{realm}""#);
            match request.path.as_str() {
                "/token" => reply.clone(),
                _ => Some(Reply::status(401).header("www-authenticate", &challenge)),
            }
        });
        let error = client().manifest(&reference(&registry, "a/b:1")).unwrap_err();
        assert!(
            matches!(error.kind(), Kind::Denied | Kind::Other | Kind::Corrupt),
            "{error}"
        );
        assert!(registry.log().len() < 5);
    }
}

#[test]
fn plain_http_is_for_this_machine_only() {
    let registry = FakeRegistry::start();
    registry.manifest("a/b", "1", &manifest(b"{}", &[]));
    let name = reference(&registry, "a/b:1");
    let with = |tls_verify| {
        Client::new(ClientOptions {
            tls_verify,
            ..options()
        })
        .manifest(&name)
    };
    with(None).unwrap();
    with(Some(false)).unwrap();
    let error = with(Some(true)).unwrap_err();
    assert_eq!(error.kind(), Kind::Insecure, "{error}");
}
