use super::*;
use proptest::prelude::*;

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[test]
fn normalised_and_familiar() {
    for (text, whole, familiar) in [
        ("alpine", "docker.io/library/alpine:latest", "alpine:latest"),
        ("alpine:3.20", "docker.io/library/alpine:3.20", "alpine:3.20"),
        (
            "library/alpine",
            "docker.io/library/alpine:latest",
            "alpine:latest",
        ),
        ("user/app", "docker.io/user/app:latest", "user/app:latest"),
        (
            "docker.io/alpine",
            "docker.io/library/alpine:latest",
            "alpine:latest",
        ),
        ("index.docker.io/user/app:1", "docker.io/user/app:1", "user/app:1"),
        (
            "index.docker.io/alpine",
            "docker.io/library/alpine:latest",
            "alpine:latest",
        ),
        ("ghcr.io/x/y:z", "ghcr.io/x/y:z", "ghcr.io/x/y:z"),
        ("ghcr.io/x", "ghcr.io/x:latest", "ghcr.io/x:latest"),
        ("localhost/x", "localhost/x:latest", "localhost/x:latest"),
        ("localhost:5000/x:1", "localhost:5000/x:1", "localhost:5000/x:1"),
        ("[::1]:5000/x:1", "[::1]:5000/x:1", "[::1]:5000/x:1"),
        (
            "[2001:db8::1]/x/y",
            "[2001:db8::1]/x/y:latest",
            "[2001:db8::1]/x/y:latest",
        ),
        (
            "127.0.0.1:80/a/b/c",
            "127.0.0.1:80/a/b/c:latest",
            "127.0.0.1:80/a/b/c:latest",
        ),
        ("Host/x", "Host/x:latest", "Host/x:latest"),
        ("a/b/c/d", "docker.io/a/b/c/d:latest", "a/b/c/d:latest"),
        (
            "a__b.c-d---e_f",
            "docker.io/library/a__b.c-d---e_f:latest",
            "a__b.c-d---e_f:latest",
        ),
        (
            "docker.io/library/a.b/c",
            "docker.io/library/a.b/c:latest",
            "library/a.b/c:latest",
        ),
        (
            "docker.io/localhost/c",
            "docker.io/localhost/c:latest",
            "docker.io/localhost/c:latest",
        ),
        (
            "alpine:_A.b-9",
            "docker.io/library/alpine:_A.b-9",
            "alpine:_A.b-9",
        ),
    ] {
        let reference = Reference::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(reference.to_string(), whole, "{text}");
        assert_eq!(reference.familiar(), familiar, "{text}");
        assert_eq!(
            Reference::parse(&reference.familiar()),
            Ok(reference.clone()),
            "{text}"
        );
        assert_eq!(Reference::parse(whole), Ok(reference), "{text}");
    }
}

#[test]
fn digests_decide() {
    let both = Reference::parse(&format!("ghcr.io/x/y:z@{DIGEST}")).unwrap();
    assert_eq!(both.tag(), Some("z"));
    assert_eq!(both.version(), DIGEST);
    assert_eq!(both.to_string(), format!("ghcr.io/x/y:z@{DIGEST}"));
    let one = Reference::parse(&format!("alpine@{DIGEST}")).unwrap();
    assert_eq!(one.tag(), None);
    assert_eq!(one.to_string(), format!("docker.io/library/alpine@{DIGEST}"));
    assert_eq!(one.with_tag("3").unwrap().version(), "3");
    assert_eq!(
        both.with_digest(*one.digest().unwrap()).familiar(),
        format!("ghcr.io/x/y@{DIGEST}")
    );
}

#[test]
fn refused() {
    for (text, why) in [
        ("", "empty"),
        (&DIGEST[7..], "image's id"),
        ("Alpine", "lower case"),
        ("user/App", "lower case"),
        ("ghcr.io/x/Y:z", "lower case"),
        (":tag", "each part"),
        ("a//b", "each part"),
        ("a/", "each part"),
        ("/a", "each part"),
        ("ghcr.io/", "each part"),
        ("-a", "each part"),
        ("a-", "each part"),
        ("a..b", "each part"),
        ("a___b", "each part"),
        ("a._b", "each part"),
        ("é", "each part"),
        ("a b", "each part"),
        ("../../etc/passwd", "HOST"),
        ("a/../b", "each part"),
        ("a\nb", "each part"),
        ("-x.y/a", "HOST"),
        ("x..y/a", "HOST"),
        ("x:/a", "HOST"),
        ("x:99999/a", "HOST"),
        ("x:8o/a", "HOST"),
        ("[::1/a", "HOST"),
        ("[x]/a", "each part"),
        ("[::1]x/a", "HOST"),
        ("user:password@host/a", "invalid reference"),
        ("a:", "a tag is"),
        ("a:-x", "a tag is"),
        ("a:b:c", "a tag is"),
        ("a:b/c", "HOST"),
        ("a@sha256:12", "invalid reference"),
        ("a@", "invalid reference"),
        (&format!("a:{}", "t".repeat(129)), "a tag is"),
        (&"a/".repeat(130), "each part"),
        (&format!("{}a", "a/".repeat(130)), "longer"),
        (&format!("a@{DIGEST}@{DIGEST}"), "invalid reference"),
    ] {
        let error = Reference::parse(text).expect_err(text).to_string();
        assert!(error.contains(why), "{text:?}: {error}");
        assert!(!error.contains('\n'), "{error:?}");
    }
}

#[test]
fn short_names_may_mean_another_registry() {
    let alias = |name: &str| (name == "fedora").then(|| "registry.example.org/fedora/fedora".to_owned());
    let parse = |text: &str| Reference::parse_with_aliases(text, &alias).unwrap().to_string();
    assert_eq!(parse("fedora"), "registry.example.org/fedora/fedora:latest");
    assert_eq!(parse("fedora:40"), "registry.example.org/fedora/fedora:40");
    let pinned = format!("fedora@{DIGEST}");
    assert_eq!(parse(&pinned), format!("registry.example.org/fedora/{pinned}"));
    assert_eq!(parse("alpine"), "docker.io/library/alpine:latest");
    assert_eq!(parse("docker.io/fedora"), "docker.io/library/fedora:latest");
    assert_eq!(parse("localhost/fedora"), "localhost/fedora:latest");
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(text in "\\PC*") {
        let _unused = Reference::parse(&text);
    }

    #[test]
    fn what_is_printed_is_what_was_parsed(text in "([a-zA-Z0-9._:\\[\\]-]{1,9}/)?[a-z0-9._/-]{1,20}(:[a-zA-Z0-9._-]{1,9})?") {
        if let Ok(reference) = Reference::parse(&text) {
            prop_assert_eq!(Reference::parse(&reference.to_string()), Ok(reference.clone()));
            prop_assert_eq!(Reference::parse(&reference.familiar()), Ok(reference));
        }
    }
}
