use crate::digest::Digest;
use crate::document::{DocumentError, MAX_CONFIG_BYTES, Read, json, to_json};
use crate::platform::Platform;
use crate::text::{null_default, set, words};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// An image's configuration: how its containers run, and how the image was built.
///
/// The format is that of <https://github.com/opencontainers/image-spec/blob/main/config.md>, with the properties
/// that docker adds. Unknown properties are kept in [`Self::other`] and written again. The digest of an unchanged
/// image is computed from its original bytes ([`crate::Raw`]).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageConfig {
    /// Time when the image was made, as RFC 3339; not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Author of the image.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub author: String,
    /// Architecture, in the words of [`Platform`].
    #[serde(deserialize_with = "null_default")]
    pub architecture: String,
    /// Operating system, in the words of [`Platform`].
    #[serde(deserialize_with = "null_default")]
    pub os: String,
    /// Variant of the architecture, in the words of [`Platform`].
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub variant: String,
    /// Defaults for containers of the image.
    #[serde(deserialize_with = "null_default")]
    pub config: ContainerConfig,
    /// The layers.
    pub rootfs: RootFs,
    /// Origin of the layers, lowest first.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub history: Vec<History>,
    /// All other properties.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Defaults for containers of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ContainerConfig {
    /// `NAME|UID[:GROUP|GID]`; empty is root.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub user: String,
    /// `80/tcp` and its like; for people and for `-P`.
    #[serde(with = "set", skip_serializing_if = "BTreeSet::is_empty")]
    pub exposed_ports: BTreeSet<String>,
    /// `NAME=value`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub env: Vec<String>,
    /// First words of argv; the command follows them.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "words")]
    pub entrypoint: Vec<String>,
    /// The default command.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "words")]
    pub cmd: Vec<String>,
    /// Paths that get a volume of their own unless the user mounts something there.
    #[serde(with = "set", skip_serializing_if = "BTreeSet::is_empty")]
    pub volumes: BTreeSet<String>,
    /// Working directory of the command; empty is `/`.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub working_dir: String,
    /// Free text.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_default")]
    pub labels: BTreeMap<String, String>,
    /// A signal's name or number; empty is SIGTERM.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub stop_signal: String,
    /// Seconds between the stop signal and SIGKILL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_timeout: Option<i64>,
    /// Docker's property: the health check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthcheck: Option<Healthcheck>,
    /// Docker's property: shell that runs `RUN` and commands in shell form.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "words")]
    pub shell: Vec<String>,
    /// Docker's property: instructions of a Dockerfile that run in builds on top of this image.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub on_build: Vec<String>,
    /// All other properties.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A container's health check. Times are in nanoseconds; zero is the engine's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Healthcheck {
    /// `NONE`; or `CMD` and argv; or `CMD-SHELL` and a line. Empty inherits the check of the image below.
    #[serde(deserialize_with = "words")]
    pub test: Vec<String>,
    /// Time from the end of one check to the start of the next.
    #[serde(skip_serializing_if = "is_zero")]
    pub interval: i64,
    /// Time after which a check that has not ended counts as failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub timeout: i64,
    /// Time after the start during which failures do not count.
    #[serde(skip_serializing_if = "is_zero")]
    pub start_period: i64,
    /// The interval during the start period.
    #[serde(skip_serializing_if = "is_zero")]
    pub start_interval: i64,
    /// Number of failures in a row that make a container unhealthy.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: i64,
}

/// The layers of an image, as digests of their uncompressed archives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RootFs {
    /// The type, always `layers`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Digests of the layers, lowest first.
    #[serde(deserialize_with = "null_default")]
    pub diff_ids: Vec<Digest>,
}

impl Default for RootFs {
    fn default() -> Self {
        Self {
            kind: "layers".to_owned(),
            diff_ids: Vec::new(),
        }
    }
}

/// Origin of a layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct History {
    /// Time, as RFC 3339; not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Command that made the layer.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub created_by: String,
    /// Author of the layer.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub author: String,
    /// Free text.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub comment: String,
    /// True if this step made no layer.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_default")]
    pub empty_layer: bool,
}

impl ImageConfig {
    /// Returns the platform of the image, normalised.
    #[must_use]
    pub fn platform(&self) -> Platform {
        Platform::of(&self.os, &self.architecture, &self.variant)
    }

    /// Writes the document as compact JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        to_json(self)
    }
}

impl Read for ImageConfig {
    fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        let config: Self = json(bytes, "image's configuration", MAX_CONFIG_BYTES)?;
        if config.rootfs.diff_ids.len() > crate::MAX_LAYERS {
            return Err(DocumentError::Layers(config.rootfs.diff_ids.len()));
        }
        Ok(config)
    }
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCKERS: &str = r#"{
        "architecture": "arm64", "variant": "v8", "os": "linux", "created": "2024-01-27T00:30:48.743965523Z",
        "config": {
            "Hostname": "", "Tty": false, "Image": "sha256:d4ff818577bc193b309b355b02ebc9220427090057b54a59e73b79bdfe139b83",
            "ExposedPorts": {"80/tcp": {}, "53/udp": {}}, "Env": ["PATH=/bin"], "Cmd": ["nginx", "-g", "daemon off;"],
            "Entrypoint": null, "Volumes": {"/srv": {}}, "WorkingDir": "/work", "User": "www:www",
            "OnBuild": null, "Labels": null, "StopSignal": "SIGQUIT", "StopTimeout": 3, "Shell": ["/bin/bash", "-c"],
            "Healthcheck": {"Test": ["CMD-SHELL", "curl -f http://localhost/"], "Interval": 30000000000, "Retries": 3}
        },
        "container": "4f9c", "docker_version": "20.10.23",
        "history": [{"created_by": "/bin/sh -c #(nop) ADD file in / "}, {"created_by": "CMD", "empty_layer": true}],
        "rootfs": {"type": "layers", "diff_ids": ["sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"]}
    }"#;

    #[test]
    fn dockers_properties_are_read_and_strangers_are_kept() {
        let image = ImageConfig::read(DOCKERS.as_bytes()).unwrap();
        let config = &image.config;
        assert_eq!(image.platform().to_string(), "linux/arm64");
        assert_eq!(
            config.exposed_ports.iter().collect::<Vec<_>>(),
            ["53/udp", "80/tcp"]
        );
        assert_eq!(config.cmd, ["nginx", "-g", "daemon off;"]);
        assert!(config.entrypoint.is_empty() && config.labels.is_empty());
        assert_eq!(config.healthcheck.as_ref().unwrap().interval, 30_000_000_000);
        assert_eq!(config.stop_timeout, Some(3));
        assert_eq!(image.history.iter().filter(|step| !step.empty_layer).count(), 1);
        assert_eq!(image.other["docker_version"], "20.10.23");
        let written = image.to_json();
        let again = ImageConfig::read(&written).unwrap();
        assert_eq!(again, image);
        let value: Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(value["config"]["Volumes"], serde_json::json!({"/srv": {}}));
        assert_eq!(value["config"]["Tty"], false);
    }

    #[test]
    fn numbers_of_strangers_stay_what_they_are() {
        let text =
            br#"{"x":0.0444424444444444444444444444444444444,"y":-0.0,"z":1e-7,"n":18446744073709551615}"#;
        let image = ImageConfig::read(text).unwrap();
        let again = ImageConfig::read(&image.to_json()).unwrap();
        assert_eq!(again, image);
        assert!(again.to_json() == image.to_json());
    }

    #[test]
    fn what_may_be_left_out_is() {
        let image =
            ImageConfig::read(br#"{"rootfs":{"type":"layers","diff_ids":null},"config":null}"#).unwrap();
        assert_eq!(image, ImageConfig::default());
        let words = ImageConfig::read(br#"{"config":{"Entrypoint":"sh","Cmd":[]}}"#).unwrap();
        assert_eq!(words.config.entrypoint, ["sh"]);
    }

    #[test]
    fn refused() {
        let many = format!(
            r#"{{"rootfs":{{"diff_ids":[{}]}}}}"#,
            vec![format!("\"{}\"", Digest::sha256([0; 32])); 1001].join(",")
        );
        for text in [
            "",
            "[]",
            r#"{"config":{"Env":"PATH=/bin"}}"#,
            r#"{"config":{"Cmd":[1]}}"#,
            r#"{"rootfs":{"diff_ids":["sha256:1"]}}"#,
            &many,
        ] {
            assert!(ImageConfig::read(text.as_bytes()).is_err(), "{text:.40}");
        }
    }
}
