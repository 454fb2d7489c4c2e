use super::settings::{Access, Settings};
use crate::ImagesError;
use crate::RemoteError;
use std::path::PathBuf;
use tote_registry::Credential;
use tote_sys::best_effort;

/// Checks a name and a password with a registry, and stores them. Returns the path of the credentials file.
///
/// # Errors
/// [`ImagesError::Registry`].
pub fn login(
    registry: &str,
    username: &str,
    password: &str,
    access: &Access,
) -> Result<PathBuf, ImagesError> {
    let credential = Credential::Password {
        username: username.to_owned(),
        password: password.to_owned(),
    };
    let client = Settings::read()?.unchecked(access, None);
    Ok(client.login(&host(registry), &credential)?)
}

/// Returns the stored user name for a registry, without a request to the registry.
///
/// # Errors
/// [`RemoteError::NotLoggedIn`], and [`ImagesError::Registry`] if the stored credentials cannot be read.
pub fn login_name(registry: &str, access: &Access) -> Result<String, ImagesError> {
    let registry = host(registry);
    let known = Settings::read()?.unchecked(access, None).username(&registry)?;
    known.ok_or(RemoteError::NotLoggedIn(registry).into())
}

/// Removes the credentials for a registry. Returns true if there were any.
///
/// # Errors
/// [`RemoteError::AuthFile`] and [`ImagesError::Registry`].
pub fn logout(registry: &str, access: &Access) -> Result<bool, ImagesError> {
    Ok(Settings::read()?.client(access)?.logout(&host(registry))?)
}

/// Removes all credentials.
///
/// # Errors
/// As [`logout`].
pub fn logout_everywhere(access: &Access) -> Result<(), ImagesError> {
    Ok(Settings::read()?.client(access)?.logout_everywhere()?)
}

/// Parses `NAME[:PASSWORD]`; `ask` supplies a missing or empty password, or `None` if the user gives none.
///
/// # Errors
/// [`RemoteError::Creds`], which never repeats the given text.
pub fn parse_creds(text: &str, ask: impl FnOnce() -> Option<String>) -> Result<Credential, ImagesError> {
    let (username, password) = text.split_once(':').unwrap_or((text, ""));
    if username.is_empty() {
        return Err(RemoteError::Creds("it is NAME or NAME:PASSWORD, and the name is empty").into());
    }
    let password = match password {
        "" => ask().filter(|password| !password.is_empty()),
        password => Some(password.to_owned()),
    };
    Ok(Credential::Password {
        username: username.to_owned(),
        password: password.ok_or(RemoteError::Creds(
            "a password is needed: give NAME:PASSWORD, or run it at a terminal",
        ))?,
    })
}

/// Asks for a secret at the terminal that is standard input, without echo. `None` if standard input is not a
/// terminal, or the user gave up.
///
/// The terminal delivers single characters and no signals, so that no interrupt leaves it without an echo.
#[must_use]
pub fn ask_secret(question: &str) -> Option<String> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let terminal = rustix::stdio::stdin();
    let before = tcgetattr(terminal).ok()?;
    let mut silent = before.clone();
    silent
        .local_modes
        .remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
    tcsetattr(terminal, OptionalActions::Now, &silent).ok()?;
    best_effort(rustix::io::write(rustix::stdio::stderr(), question.as_bytes()));
    let secret = read_secret();
    best_effort(tcsetattr(terminal, OptionalActions::Now, &before));
    best_effort(rustix::io::write(rustix::stdio::stderr(), b"\n"));
    secret
}

fn read_secret() -> Option<String> {
    const MOST: usize = 64 << 10;
    const INTERRUPT: u8 = 3;
    const END: u8 = 4;
    let mut secret = Vec::new();
    while secret.len() < MOST {
        let mut byte = [0];
        match rustix::io::retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut byte)) {
            Ok(1) => {}
            _ => return None,
        }
        match byte[0] {
            b'\r' | b'\n' => return String::from_utf8(secret).ok(),
            INTERRUPT | END => return None,
            0x7f | 0x08 => drop(secret.pop()),
            byte => secret.push(byte),
        }
    }
    None
}

/// Normalises a registry's name: users also give URLs, and docker.io has several names.
fn host(registry: &str) -> String {
    let rest = registry
        .strip_prefix("https://")
        .or_else(|| registry.strip_prefix("http://"));
    let host = rest.unwrap_or(registry).split('/').next().unwrap_or_default();
    match host {
        "" | "index.docker.io" | "registry-1.docker.io" => tote_image::DEFAULT_REGISTRY.to_owned(),
        host => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creds() {
        let secret = || Some("asked".to_owned());
        for (given, expected) in [
            ("me:pass", Some(("me", "pass"))),
            ("me:a:b", Some(("me", "a:b"))),
            ("me", Some(("me", "asked"))),
            ("me:", Some(("me", "asked"))),
            (":pass", None),
            ("", None),
        ] {
            let expected = expected.map(|(username, password)| Credential::Password {
                username: username.to_owned(),
                password: password.to_owned(),
            });
            assert_eq!(parse_creds(given, secret).ok(), expected, "{given}");
        }
        assert!(parse_creds("me", || None).is_err());
        let error = parse_creds(":secret", || None).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"));
    }

    #[test]
    fn names_of_registries() {
        for (given, registry) in [
            ("", "docker.io"),
            ("https://index.docker.io/v1/", "docker.io"),
            ("docker.io", "docker.io"),
            ("http://localhost:5000/", "localhost:5000"),
            ("ghcr.io", "ghcr.io"),
        ] {
            assert_eq!(host(given), registry, "{given}");
        }
    }
}
