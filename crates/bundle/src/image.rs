//! The parts of an image's configuration that decide how its containers run.

use std::collections::BTreeMap;
use std::str::FromStr;

/// The `PATH` of a container whose image has none.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The part of an OCI image configuration's `config` that decides how a container runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// First words of argv; the command follows them.
    pub entrypoint: Vec<String>,
    /// The command where the user gives none.
    pub cmd: Vec<String>,
    /// `NAME=value`.
    pub env: Vec<String>,
    /// `name|uid[:group|gid]`; empty is root.
    pub user: String,
    /// Absolute; empty is `/`.
    pub working_dir: String,
    /// Paths that get a volume of their own unless the user mounts something there.
    pub volumes: Vec<String>,
    /// Free text.
    pub labels: BTreeMap<String, String>,
    /// A signal as people write it; empty is SIGTERM.
    pub stop_signal: String,
    /// `80/tcp` and its like; documentation only.
    pub exposed_ports: Vec<String>,
    /// The image's health check.
    pub healthcheck: Option<crate::Healthcheck>,
}

impl ImageConfig {
    /// Returns the configuration of a root file system that is not an image (`host`, `rootfs:DIR`): a usual `PATH`,
    /// and `/bin/sh` as the command.
    #[must_use]
    pub fn bare() -> Self {
        Self {
            cmd: vec!["/bin/sh".to_owned()],
            env: vec![format!("PATH={DEFAULT_PATH}")],
            ..Self::default()
        }
    }
}

/// The source of a container's root file system, as `run` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// The machine's own file system.
    Host,
    /// A directory, as written: possibly relative to the caller's working directory.
    Rootfs(String),
    /// An image of the store, by its name or id, as written.
    Stored(String),
}

/// Why a text names no image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The text is empty.
    #[error(
        "an image is needed: its name or id, host (this machine's file system), or rootfs:DIR (an unpacked one)"
    )]
    Empty,
    /// `rootfs:` without a directory.
    #[error("image not found: {0}: rootfs: needs a directory, as in rootfs:/srv/alpine")]
    NoDirectory(String),
}

impl FromStr for Image {
    type Err = ImageError;

    fn from_str(text: &str) -> Result<Self, ImageError> {
        match text.strip_prefix("rootfs:") {
            Some("") => Err(ImageError::NoDirectory(text.to_owned())),
            Some(directory) => Ok(Self::Rootfs(directory.to_owned())),
            None if text == "host" => Ok(Self::Host),
            None if text.is_empty() => Err(ImageError::Empty),
            None => Ok(Self::Stored(text.to_owned())),
        }
    }
}

impl Image {
    /// Parses `host`, `rootfs:DIR`, or the name or id of an image in the store.
    ///
    /// # Errors
    /// [`ImageError`], which names the three forms.
    pub fn parse(text: &str) -> Result<Self, ImageError> {
        text.parse()
    }
}

/// Builds the container's argv by docker's rules: `--entrypoint` replaces the image's entrypoint *and* drops its
/// command; an empty `--entrypoint` only drops both; a command replaces the image's command and follows the
/// entrypoint.
///
/// The result is empty if neither the user nor the image names a program.
#[must_use]
pub fn command_line(entrypoint: Option<&str>, command: &[String], image: &ImageConfig) -> Vec<String> {
    match entrypoint {
        Some("") => command.to_vec(),
        Some(entrypoint) => std::iter::once(entrypoint)
            .map(str::to_owned)
            .chain(command.iter().cloned())
            .collect(),
        None => {
            let command = if command.is_empty() { &image.cmd } else { command };
            image.entrypoint.iter().chain(command).cloned().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        assert_eq!(Image::parse("host"), Ok(Image::Host));
        assert_eq!(Image::parse("rootfs:/x"), Ok(Image::Rootfs("/x".to_owned())));
        assert_eq!(
            Image::parse("rootfs:./x:y"),
            Ok(Image::Rootfs("./x:y".to_owned()))
        );
        assert_eq!(
            Image::parse("rootfs:"),
            Err(ImageError::NoDirectory("rootfs:".to_owned()))
        );
        for text in ["alpine", "Host", "host:latest", "rootfs", "sha256:12"] {
            assert_eq!(Image::parse(text), Ok(Image::Stored(text.to_owned())));
        }
        assert_eq!(Image::parse(""), Err(ImageError::Empty));
    }

    #[test]
    fn entrypoint_and_command() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (image_entrypoint, image_cmd, entrypoint, command, argv) in [
            ("", "sh", None, "", "sh"),
            ("", "sh", None, "ls -l", "ls -l"),
            ("nginx", "-g off", None, "", "nginx -g off"),
            ("nginx", "-g off", None, "-v", "nginx -v"),
            ("nginx", "-g off", Some("bash"), "", "bash"),
            ("nginx", "-g off", Some("bash"), "-c id", "bash -c id"),
            ("nginx", "-g off", Some(""), "id -u", "id -u"),
            ("nginx", "-g off", Some(""), "", ""),
            ("", "", None, "", ""),
        ] {
            let image = ImageConfig {
                entrypoint: words(image_entrypoint),
                cmd: words(image_cmd),
                ..ImageConfig::default()
            };
            let got = command_line(entrypoint, &words(command), &image);
            assert_eq!(
                got,
                words(argv),
                "{image_entrypoint:?} {image_cmd:?} {entrypoint:?} {command:?}"
            );
        }
    }
}
