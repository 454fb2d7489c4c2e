//! Hosts that ask for credentials of others, or answer without end.

#![expect(clippy::unwrap_used, reason = "the functions that tests share are tests too")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use support::{client, options, reference};
use tote_image::Descriptor;
use tote_registry::{Client, ClientOptions, Credential, Credentials, Error};
use tote_testkit::{FakeRegistry, Reply};

/// The header of user Aladdin, from RFC 7617.
const BASIC: &str = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";

fn aladdin(registry: &FakeRegistry) -> Client {
    let aladdin = Credential::Password {
        username: "Aladdin".to_owned(),
        password: "open sesame".to_owned(),
    };
    Client::new(ClientOptions {
        credentials: Credentials {
            given: Some((registry.host(), aladdin)),
            ..Credentials::default()
        },
        ..options()
    })
}

fn descriptor(digest: &str, size: u64) -> Descriptor {
    let text = format!(r#"{{"mediaType":"application/octet-stream","digest":"{digest}","size":{size}}}"#);
    serde_json::from_str(&text).unwrap()
}

/// Starts a host that answers everything with a 401, in which `challenge` names a token service of the host's own.
fn greedy(challenge: fn(&str) -> String) -> FakeRegistry {
    let greedy = FakeRegistry::start();
    let challenge = challenge(&greedy.host());
    greedy.hook(move |request| {
        Some(match request.path.as_str() {
            "/token" => Reply::status(200).body(r#"{"token":"theirs"}"#),
            _ => Reply::status(401).header("www-authenticate", &challenge),
        })
    });
    greedy
}

#[test]
fn a_host_that_a_registry_leads_to_gets_no_credentials() {
    for challenge in [
        (|host| format!(r#"Bearer realm="http://{host}/token",service="x""#)) as fn(&str) -> String,
        |_| "Basic".to_owned(),
    ] {
        let (registry, greedy) = (FakeRegistry::start(), greedy(challenge));
        registry.demand_token(BASIC, "a-token", false);
        let digest = registry.blob("a/b", b"content");
        let target = format!("http://{}/blob", greedy.host());
        registry.hook(move |request| {
            let authorised = request.header("authorization") == Some("Bearer a-token");
            (authorised && request.path.contains("/blobs/"))
                .then(|| Reply::status(307).header("location", &target))
        });
        let client = aladdin(&registry);
        let error = client
            .blob(&reference(&registry, "a/b:1"), &descriptor(&digest, 7))
            .unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error}");
        let log = greedy.log();
        assert_eq!(log.len(), 1, "{log:?}");
        assert_eq!(log[0].header("authorization"), None);
        // The cached grant is still the registry's own token.
        client.tags(&reference(&registry, "a/b:1")).unwrap();
        let last = registry.log().pop().unwrap();
        assert_eq!(last.header("authorization"), Some("Bearer a-token"));
    }
}

#[test]
fn an_upload_that_leads_elsewhere_takes_no_credentials_along() {
    let greedy = greedy(|host| format!(r#"Bearer realm="http://{host}/token""#));
    let registry = FakeRegistry::start();
    registry.demand_token(BASIC, "a-token", false);
    let target = format!("http://{}/upload", greedy.host());
    registry.hook(move |request| {
        let authorised = request.header("authorization") == Some("Bearer a-token");
        (authorised && request.method == "POST").then(|| Reply::status(202).header("location", &target))
    });
    let digest = registry.blob("elsewhere", b"content");
    let error = aladdin(&registry)
        .push_blob(
            &reference(&registry, "a/b:1"),
            &descriptor(&digest, 7),
            None,
            &mut || Ok(Box::new(&b"content"[..])),
        )
        .unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    let log = greedy.log();
    assert!(!log.is_empty());
    for request in log {
        assert_eq!(
            (request.path.as_str(), request.header("authorization")),
            ("/upload", None)
        );
    }
}

/// Starts a host that answers each connection with these bytes, one per millisecond. Returns `HOST:PORT`.
fn drips(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let drip = move |mut stream: TcpStream| {
        stream.set_nodelay(true)?;
        // A client that tries TLS first is rejected at once.
        let mut first = [0; 4096];
        let length = stream.read(&mut first)?;
        if !first[..length].starts_with(b"GET") {
            return Ok(());
        }
        // The probe for plain HTTP is answered at once.
        if first.starts_with(b"GET /v2/ ") {
            return stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
        for byte in answer {
            stream.write_all(&[*byte])?;
            std::thread::park_timeout(Duration::from_millis(1));
        }
        std::io::Result::Ok(())
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The client closes the connection in this test, so errors here are expected.
            std::thread::spawn(move || drip(stream).ok());
        }
    });
    host
}

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\ncontent-type: application/json\r\nx: ";

#[test]
fn a_host_that_hardly_sends_is_given_up() {
    let head: &'static [u8] = [HEAD, &[b'x'; 2000], b"\r\n\r\n", &[b' '; 500]].concat().leak();
    let body: &'static [u8] = [HEAD, b"\r\n\r\n", &[b' '; 500]].concat().leak();
    for answer in [head, body] {
        let host = drips(answer);
        let ask = |least_pace, milliseconds| {
            let options = ClientOptions {
                least_pace,
                pace_window: Duration::from_millis(milliseconds),
                tls_verify: Some(false),
                attempts: 2,
                ..options()
            };
            let reference = format!("{host}/a/b:1").parse().unwrap();
            Client::new(options).manifest(&reference).unwrap_err()
        };
        let error = ask(1 << 20, 50);
        assert!(matches!(error, Error::Slow { .. }), "{error}");
        assert!(error.hint().is_some());
        // A window may end in the middle of an answer if enough bytes came in it.
        let error = ask(0, 3);
        assert!(matches!(error, Error::Document { .. }), "{error}");
    }
}

#[test]
fn a_whole_answer_needs_no_pace() {
    let registry = FakeRegistry::start();
    let digest = registry.blob("a/b", b"content");
    let blob = client()
        .blob_bytes(&reference(&registry, "a/b:1"), &descriptor(&digest, 7), 100)
        .unwrap();
    assert_eq!(blob, b"content");
}
