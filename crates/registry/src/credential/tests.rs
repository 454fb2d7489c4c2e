use super::*;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

fn password(username: &str, password: &str) -> Credential {
    Credential::Password {
        username: username.to_owned(),
        password: password.to_owned(),
    }
}

fn one(text: &str, registry: &str, repository: &str) -> Result<Option<Credential>, CredentialError> {
    AuthFile::parse(Path::new("config.json"), text)?.credential(registry, repository)
}

#[test]
fn entries_of_files() {
    // The base64 texts are: dTpw = u:p, bjpx = n:q.
    let file = r#"{"auths":{
        "https://index.docker.io/v1/":{"auth":"dTpw"}, "ghcr.io":{"auth":"dTpw"}, "ghcr.io/org":{"auth":"bjpx"},
        "https://old.example/v1/":{"auth":"bjpx"}, "id.example":{"auth":"bjpx","identitytoken":"T"},
        "plain.example:5000":{"username":"a","password":"b:c"}, "none.example":{}, "nul.example":{"auth":"dTpwAAA="},
        "broken.example":{"auth":"!"}, "nocolon.example":{"auth":"dQ=="}
    }}"#;
    for (registry, repository, credential) in [
        ("docker.io", "library/alpine", Some(password("u", "p"))),
        ("ghcr.io", "other/app", Some(password("u", "p"))),
        ("ghcr.io", "org/app", Some(password("n", "q"))),
        ("ghcr.io", "organisation/app", Some(password("u", "p"))),
        ("old.example", "a", Some(password("n", "q"))),
        ("id.example", "a", Some(Credential::IdentityToken("T".to_owned()))),
        ("plain.example:5000", "a", Some(password("a", "b:c"))),
        ("plain.example", "a", None),
        ("none.example", "a", None),
        ("nul.example", "a", Some(password("u", "p"))),
        ("stranger.example", "a", None),
    ] {
        assert_eq!(
            one(file, registry, repository).unwrap(),
            credential,
            "{registry}/{repository}"
        );
    }
    for registry in ["broken.example", "nocolon.example"] {
        assert!(
            matches!(one(file, registry, "a"), Err(CredentialError::Entry { .. })),
            "{registry}"
        );
    }
    assert!(one("[]", "a", "b").is_err());
    assert_eq!(one("", "a", "b").unwrap(), None);
    assert_eq!(one(r#"{"auths":[]}"#, "a", "b").unwrap(), None);
}

#[test]
fn secrets_are_not_shown() {
    assert!(!format!("{:?}", password("u", "secret")).contains("secret"));
    assert!(!format!("{:?}", Credential::IdentityToken("secret".to_owned())).contains("secret"));
}

#[test]
fn places_of_an_environment() {
    let places = |environment: &[(&str, &str)]| {
        Credentials::from_environment(&|name| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        })
    };
    let all = places(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", "/r"), ("PATH", "/a:/b")]);
    assert_eq!(
        all.read,
        [
            "/r/containers/auth.json",
            "/h/.config/containers/auth.json",
            "/h/.docker/config.json"
        ]
        .map(PathBuf::from)
    );
    assert_eq!(all.write, Some(PathBuf::from("/h/.docker/config.json")));
    assert_eq!(all.programs, ["/a", "/b"].map(PathBuf::from));
    let one = places(&[("HOME", "/h"), ("REGISTRY_AUTH_FILE", "/f")]);
    assert_eq!(
        (one.read, one.write),
        (vec![PathBuf::from("/f")], Some(PathBuf::from("/f")))
    );
    assert_eq!(places(&[]).write, None);
}

#[test]
fn kept_and_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/config.json");
    let credentials = Credentials {
        read: vec![path.clone()],
        write: Some(path.clone()),
        ..Credentials::default()
    };
    assert!(!credentials.erase("docker.io").unwrap());
    credentials.store("docker.io", &password("u", "p")).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(r#""https://index.docker.io/v1/""#), "{text}");
    std::fs::write(&path, text.replacen('{', r#"{"detachKeys":"ctrl-e","#, 1)).unwrap();
    credentials.store("ghcr.io", &password("n", "q")).unwrap();
    assert_eq!(
        credentials.get("docker.io", "a").unwrap(),
        Some(password("u", "p"))
    );
    assert_eq!(credentials.get("ghcr.io", "a").unwrap(), Some(password("n", "q")));
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o600
    );
    assert!(credentials.erase("docker.io").unwrap());
    assert_eq!(credentials.get("docker.io", "a").unwrap(), None);
    assert_eq!(credentials.get("ghcr.io", "a").unwrap(), Some(password("n", "q")));
    assert!(std::fs::read_to_string(&path).unwrap().contains("detachKeys"));
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn one_file_for_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("auth.json");
    let everywhere = Credentials::from_environment(&|name| (name == "HOME").then(|| "/nowhere".into()));
    let mut credentials = everywhere.in_file(path.clone());
    assert_eq!(credentials.get("ghcr.io", "a").unwrap(), None);
    for registry in ["ghcr.io", "ghcr.io/org", "docker.io"] {
        credentials.store(registry, &password("u", "p")).unwrap();
    }
    credentials.given = Some(("ghcr.io".to_owned(), password("given", "x")));
    let who = |credentials: &Credentials, registry| {
        let found = credentials.get(registry, "org/app").unwrap();
        found.map(|found| found.username().to_owned())
    };
    assert_eq!(who(&credentials, "ghcr.io").as_deref(), Some("given"));
    assert_eq!(who(&credentials, "docker.io").as_deref(), Some("u"));
    credentials.given = None;
    credentials.erase_all().unwrap();
    assert_eq!(who(&credentials, "ghcr.io"), None);
    assert_eq!(who(&credentials, "docker.io"), None);
    let token = Credential::IdentityToken("secret".to_owned());
    assert_eq!(token.username(), "<token>");
}

#[test]
fn a_link_stays_one() {
    let directory = tempfile::tempdir().unwrap();
    let (link, target) = (
        directory.path().join("config.json"),
        directory.path().join("real.json"),
    );
    std::fs::write(&target, "{}").unwrap();
    std::os::unix::fs::symlink("real.json", &link).unwrap();
    let credentials = Credentials {
        write: Some(link.clone()),
        ..Credentials::default()
    };
    credentials.store("ghcr.io", &password("n", "q")).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read_to_string(&target).unwrap().contains("ghcr.io"));
}

/// A credential program that keeps one credential in a file beside it.
const PROGRAM: &str = r#"#!/bin/sh
read -r question
echo "$1 $question" >>"$0.log"
case $1 in
get) if [ -e "$0.kept" ]; then echo '{"ServerURL":"x","Username":"<token>","Secret":"T"}'
     else echo 'credentials not found in native keychain'; exit 1; fi ;;
store) : >"$0.kept" ;;
erase) rm "$0.kept" ;;
list) echo '{"https://index.docker.io/v1/":"<token>"}' ;;
esac
"#;

#[test]
fn programs_are_asked() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("docker-credential-fake");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(&program)
        .unwrap();
    std::io::Write::write_all(&mut file, PROGRAM.as_bytes()).unwrap();
    drop(file);
    let path = directory.path().join("config.json");
    std::fs::write(
        &path,
        r#"{"credsStore":"fake","credHelpers":{"gone.example":"gone","bad.example":"../x"}}"#,
    )
    .unwrap();
    let credentials = Credentials {
        read: vec![path.clone()],
        write: Some(path.clone()),
        programs: vec![directory.path().to_owned()],
        ..Credentials::default()
    };
    assert_eq!(credentials.get("docker.io", "a").unwrap(), None);
    assert!(!credentials.erase("docker.io").unwrap());
    let token = Credential::IdentityToken("T".to_owned());
    credentials.store("docker.io", &token).unwrap();
    assert_eq!(credentials.get("docker.io", "a").unwrap(), Some(token.clone()));
    assert!(credentials.erase("docker.io").unwrap());
    credentials.store("docker.io", &token).unwrap();
    // One of the programs is missing; the other is still asked to erase.
    assert!(matches!(
        credentials.erase_all(),
        Err(CredentialError::NoProgram { .. })
    ));
    assert_eq!(credentials.get("docker.io", "a").unwrap(), None);
    let log = std::fs::read_to_string(directory.path().join("docker-credential-fake.log")).unwrap();
    assert!(log.contains("get https://index.docker.io/v1/\n"), "{log}");
    assert!(log.contains(r#""Secret":"T""#), "{log}");
    assert!(!std::fs::read_to_string(&path).unwrap().contains("auths"));
    for registry in ["gone.example", "bad.example"] {
        let error = credentials.get(registry, "a").unwrap_err();
        assert!(matches!(error, CredentialError::NoProgram { .. }), "{error}");
    }
}
