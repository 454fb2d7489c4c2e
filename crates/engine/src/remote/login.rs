use super::settings::Settings;
use crate::EngineError;
use std::path::PathBuf;
use tote_registry::Credential;
use tote_sys::best_effort;

/// Tries a name and a password at a registry, and keeps them; the file that says where they are.
///
/// # Errors
/// [`EngineError::Registry`].
pub fn login(
    registry: &str,
    username: &str,
    password: &str,
    tls_verify: Option<bool>,
) -> Result<PathBuf, EngineError> {
    let credential = Credential::Password {
        username: username.to_owned(),
        password: password.to_owned(),
    };
    let client = Settings::read()?.client(tls_verify, None);
    Ok(client.login(&host(registry), &credential)?)
}

/// Forgets what is known of a registry; whether there was anything.
///
/// # Errors
/// [`EngineError::Registry`].
pub fn logout(registry: &str) -> Result<bool, EngineError> {
    Ok(Settings::read()?.client(None, None).logout(&host(registry))?)
}

/// Asks for a secret at the terminal that is standard input, without showing it. `None` where it is no terminal, or the
/// user gave up.
///
/// Characters come one by one and signals are off, so that no interrupt leaves the terminal without an echo.
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

/// People give addresses as well, and docker.io has several names.
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
