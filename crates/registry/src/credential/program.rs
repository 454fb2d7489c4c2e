//! Credential programs: `docker-credential-NAME get|store|erase|list`, which read their input from standard input.
//!
//! <https://github.com/docker/docker-credential-helpers>

use super::file::DOCKER_IO;
use super::{Credential, CredentialError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tote_image::DEFAULT_REGISTRY;

/// A program's answer about a registry that it does not know.
const NOT_FOUND: &str = "credentials not found in native keychain";

/// The name with which an identity token is stored.
pub(super) const TOKEN: &str = "<token>";

pub(super) fn get(
    directories: &[PathBuf],
    name: &str,
    registry: &str,
) -> Result<Option<Credential>, CredentialError> {
    let answer = match ask(directories, name, "get", server(registry))? {
        Answer::Said(text) => text,
        Answer::NotFound => return Ok(None),
    };
    let field = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let credential = serde_json::from_str::<Value>(&answer).ok().and_then(|value| {
        let (username, password) = (field(&value, "Username")?, field(&value, "Secret")?);
        Some(if username == TOKEN {
            Credential::IdentityToken(password)
        } else {
            Credential::Password { username, password }
        })
    });
    // The error leaves out the answer, which may contain a secret.
    credential.map(Some).ok_or_else(|| CredentialError::Program {
        program: program(name),
        action: "get",
        why: "its answer has no Username and Secret".to_owned(),
    })
}

pub(super) fn store(
    directories: &[PathBuf],
    name: &str,
    registry: &str,
    credential: &Credential,
) -> Result<(), CredentialError> {
    let (username, secret) = match credential {
        Credential::Password { username, password } => (username.as_str(), password),
        Credential::IdentityToken(token) | Credential::RegistryToken(token) => (TOKEN, token),
    };
    let entry = json!({ "ServerURL": server(registry), "Username": username, "Secret": secret });
    ask(directories, name, "store", &entry.to_string()).map(|_| ())
}

pub(super) fn erase(directories: &[PathBuf], name: &str, registry: &str) -> Result<bool, CredentialError> {
    // `erase` does not report whether there was an entry, so ask first.
    let known = matches!(ask(directories, name, "get", server(registry))?, Answer::Said(_));
    if known {
        ask(directories, name, "erase", server(registry))?;
    }
    Ok(known)
}

/// Erases all credentials that a program has.
pub(super) fn erase_all(directories: &[PathBuf], name: &str) -> Result<(), CredentialError> {
    let Answer::Said(answer) = ask(directories, name, "list", "")? else {
        return Ok(());
    };
    let known: BTreeMap<String, Value> =
        serde_json::from_str(&answer).map_err(|_| CredentialError::Program {
            program: program(name),
            action: "list",
            why: "its answer is no list".to_owned(),
        })?;
    for server in known.keys() {
        ask(directories, name, "erase", server)?;
    }
    Ok(())
}

enum Answer {
    Said(String),
    NotFound,
}

fn ask(
    directories: &[PathBuf],
    name: &str,
    action: &'static str,
    question: &str,
) -> Result<Answer, CredentialError> {
    let program = program(name);
    let failed = |why: String| CredentialError::Program {
        program: program.clone(),
        action,
        why,
    };
    let is_name = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    // absence: the error says which program was not found
    let path = directories
        .iter()
        .map(|directory| directory.join(&program))
        .find(|path| is_name && std::fs::metadata(path).is_ok_and(|found| found.is_file()))
        .ok_or_else(|| CredentialError::NoProgram {
            program: program.clone(),
        })?;
    let (success, text) = run(&path, action, question).map_err(|error| failed(error.to_string()))?;
    if success {
        Ok(Answer::Said(text))
    } else if text.contains(NOT_FOUND) {
        Ok(Answer::NotFound)
    } else {
        let line = text.lines().next().unwrap_or_default();
        Err(failed(if line.is_empty() {
            "it failed and did not say why".to_owned()
        } else {
            line.to_owned()
        }))
    }
}

fn run(path: &PathBuf, action: &str, question: &str) -> std::io::Result<(bool, String)> {
    // process: programs of the host
    #[expect(
        clippy::disallowed_methods,
        reason = "the protocol of credential programs is a program; it is found by absolute path, and no container is near"
    )]
    let mut child = Command::new(path)
        .arg(action)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // The pipe is closed if a program answers without reading its input.
        match stdin.write_all(question.as_bytes()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
    }
    let mut answer = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(1 << 20).read_to_end(&mut answer)?;
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the program may ask its user for a password"
    )]
    let status = child.wait()?;
    Ok((status.success(), String::from_utf8_lossy(&answer).into_owned()))
}

fn program(name: &str) -> String {
    format!("docker-credential-{name}")
}

fn server(registry: &str) -> &str {
    if registry == DEFAULT_REGISTRY {
        DOCKER_IO
    } else {
        registry
    }
}
