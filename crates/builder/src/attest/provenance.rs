//! Origin of an image: SLSA's provenance, with the terms that BuildKit defines for builds of Dockerfiles.
//!
//! `buildConfig` lists the instructions, in place of the graph of operations that only BuildKit has.

use super::option::{ProvenanceMode, ProvenanceVersion};
use super::statement::Predicate;
use base64::Engine as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tote_image::Digest;

const V1: &str = "https://slsa.dev/provenance/v1";
const V02: &str = "https://slsa.dev/provenance/v0.2";
/// Addresses of BuildKit's definitions of the parameters, for each version.
const BUILD_TYPE_V1: &str =
    "https://github.com/moby/buildkit/blob/master/docs/attestations/slsa-definitions.md";
const BUILD_TYPE_V02: &str = "https://mobyproject.org/buildkit@v1";
const METADATA_V02: &str = "https://mobyproject.org/buildkit@v1#metadata";
const HERMETIC_V02: &str = "https://mobyproject.org/buildkit@v1#hermetic";

/// Input of a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Material {
    /// Address of the input.
    pub uri: String,
    /// Name of the hash, and the hash in hexadecimal digits.
    pub digest: (String, String),
}

impl Material {
    pub(crate) fn new(uri: String, digest: &Digest) -> Self {
        Self {
            uri,
            digest: (digest.algorithm().to_string(), digest.hex()),
        }
    }

    /// Makes the material of a commit in a repository.
    pub(crate) fn commit(uri: String, commit: &str) -> Self {
        let hash = if commit.len() == 64 { "sha256" } else { "sha1" };
        Self {
            uri,
            digest: (hash.to_owned(), commit.to_owned()),
        }
    }

    fn to_json(&self) -> Value {
        let (hash, value) = &self.digest;
        json!({ "uri": self.uri, "digest": { hash: value } })
    }
}

/// Instruction of the Dockerfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) stage: usize,
    pub line: usize,
    pub text: String,
}

/// Facts for a provenance.
#[derive(Clone, Debug)]
pub(crate) struct Provenance {
    /// Images, repositories and downloads.
    pub(crate) materials: Vec<Material>,
    /// Context, unless it is a directory of the caller.
    pub source: Option<Material>,
    /// Path of the Dockerfile.
    pub path: String,
    /// Arguments, labels and the like under BuildKit's names.
    pub args: BTreeMap<String, String>,
    pub secrets: Vec<String>,
    pub(crate) agents: Vec<String>,
    /// Names of the caller's directories.
    pub(crate) locals: Vec<String>,
    /// Platform of this machine.
    pub platform: String,
    pub(crate) dockerfile: String,
    pub(crate) instructions: Vec<Instruction>,
    /// Name that is unique to this build.
    pub(crate) invocation: String,
    /// Times of the begin and the end, since 1970.
    pub times: (Duration, Duration),
    /// True if a command had a network.
    pub has_network: bool,
}

impl Provenance {
    pub(crate) fn predicate(&self, mode: ProvenanceMode) -> Predicate {
        let (kind, content) = match mode.version {
            ProvenanceVersion::V1 => (V1, self.v1(mode.is_max)),
            ProvenanceVersion::V02 => (V02, self.v02(mode.is_max)),
        };
        Predicate {
            file: "provenance.json",
            kind,
            content,
        }
    }

    /// True if the materials cover the image's content; files of the caller's directories are not among them.
    fn is_complete(&self) -> bool {
        self.locals.is_empty()
    }

    fn materials(&self) -> Vec<Value> {
        self.materials.iter().map(Material::to_json).collect()
    }

    /// Builds the request for the provenance, and a flag that is true if nothing was left out.
    fn request(&self, is_max: bool) -> (Value, bool) {
        let is_private = |key: &str| key.starts_with("build-arg:") || key.starts_with("label:");
        let told = |key: &String| is_max || !is_private(key);
        let args: BTreeMap<_, _> = self.args.iter().filter(|(key, _)| told(key)).collect();
        let is_all = args.len() == self.args.len();
        let names = |names: &[String], key: &str| -> Vec<Value> {
            let mut all = Vec::new();
            all.extend(names.iter().map(|name| json!({ key: name })));
            all
        };
        let mut request = Map::new();
        request.insert("frontend".to_owned(), "dockerfile.v0".into());
        if !args.is_empty() {
            request.insert("args".to_owned(), json!(args));
        }
        for (key, list) in [
            ("locals", names(&self.locals, "name")),
            ("secrets", names(&self.secrets, "id")),
            ("ssh", names(&self.agents, "id")),
        ] {
            if !list.is_empty() && (is_max || key == "locals") {
                request.insert(key.to_owned(), list.into());
            }
        }
        (Value::Object(request), is_all)
    }

    /// Adds BuildKit's terms beside SLSA's own.
    fn metadata(&self, is_max: bool) -> Value {
        if !is_max {
            return json!({});
        }
        let data = base64::engine::general_purpose::STANDARD.encode(&self.dockerfile);
        let file = json!({ "filename": self.path, "language": "Dockerfile", "data": data });
        json!({ "source": { "infos": [file] } })
    }

    fn build_config(&self) -> Value {
        let steps = self
            .instructions
            .iter()
            .map(|step| json!({ "stage": step.stage, "line": step.line, "instruction": step.text }));
        json!({ "instructions": steps.collect::<Vec<_>>() })
    }

    fn v1(&self, is_max: bool) -> Value {
        let (request, is_all) = self.request(is_max);
        let mut source = self.source.as_ref().map_or_else(|| json!({}), Material::to_json);
        source["path"] = self.path.clone().into();
        let mut internal = json!({ "builderPlatform": self.platform });
        if is_max {
            internal["buildConfig"] = self.build_config();
        }
        json!({
            "buildDefinition": {
                "buildType": BUILD_TYPE_V1,
                "externalParameters": { "configSource": source, "request": request },
                "internalParameters": internal,
                "resolvedDependencies": self.materials(),
            },
            "runDetails": {
                "builder": { "id": "", "version": { "tote": env!("CARGO_PKG_VERSION") } },
                "metadata": {
                    "invocationId": self.invocation,
                    "startedOn": tote_calendar::in_nanoseconds(self.times.0),
                    "finishedOn": tote_calendar::in_nanoseconds(self.times.1),
                    "buildkit_metadata": self.metadata(is_max),
                    "buildkit_hermetic": self.is_complete() && !self.has_network,
                    "buildkit_completeness": {
                        "request": is_all,
                        "resolvedDependencies": self.is_complete(),
                    },
                    "buildkit_reproducible": false,
                },
            },
        })
    }

    fn v02(&self, is_max: bool) -> Value {
        let (request, is_all) = self.request(is_max);
        let mut source = self.source.as_ref().map_or_else(|| json!({}), Material::to_json);
        source["entryPoint"] = self.path.clone().into();
        let mut content = json!({
            "builder": { "id": "" },
            "buildType": BUILD_TYPE_V02,
            "materials": self.materials(),
            "invocation": {
                "configSource": source,
                "parameters": request,
                "environment": { "platform": self.platform },
            },
            "metadata": {
                "buildInvocationID": self.invocation,
                "buildStartedOn": tote_calendar::in_nanoseconds(self.times.0),
                "buildFinishedOn": tote_calendar::in_nanoseconds(self.times.1),
                "completeness": {
                    "parameters": is_all,
                    "environment": true,
                    "materials": self.is_complete(),
                },
                "reproducible": false,
                METADATA_V02: self.metadata(is_max),
                HERMETIC_V02: self.is_complete() && !self.has_network,
            },
        });
        if is_max {
            content["buildConfig"] = self.build_config();
        }
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provenance() -> Provenance {
        let base = Material::new("pkg:docker/alpine@3".to_owned(), &Digest::sha256([1; 32]));
        let commit = "0123456789abcdef0123456789abcdef01234567";
        Provenance {
            materials: vec![base, Material::commit("https://x/y.git".to_owned(), commit)],
            source: Some(Material::commit("https://x/y.git#main".to_owned(), commit)),
            path: "Dockerfile".to_owned(),
            args: [("build-arg:A", "hush"), ("target", "t")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            secrets: vec!["npm".to_owned()],
            agents: vec!["default".to_owned()],
            locals: Vec::new(),
            platform: "linux/amd64".to_owned(),
            dockerfile: "FROM alpine".to_owned(),
            instructions: vec![Instruction {
                stage: 0,
                line: 1,
                text: "FROM alpine".to_owned(),
            }],
            invocation: "id".to_owned(),
            times: (Duration::from_secs(1), Duration::from_secs(2)),
            has_network: false,
        }
    }

    fn of(mode: (bool, ProvenanceVersion)) -> (String, Value) {
        let (is_max, version) = mode;
        let Predicate { kind, content, .. } = provenance().predicate(ProvenanceMode { is_max, version });
        (kind.to_owned(), content)
    }

    #[test]
    fn the_minimum_keeps_arguments_and_secrets_to_itself() {
        for version in [ProvenanceVersion::V1, ProvenanceVersion::V02] {
            let (_, content) = of((false, version));
            let text = content.to_string();
            for private in ["hush", "npm", "buildConfig", "RlJPTSBhbHBpbmU="] {
                assert!(!text.contains(private), "{private}: {text}");
            }
            let (_, content) = of((true, version));
            let text = content.to_string();
            for told in ["hush", "npm", "buildConfig", "RlJPTSBhbHBpbmU="] {
                assert!(text.contains(told), "{told}: {text}");
            }
        }
    }

    #[test]
    fn the_terms_are_slsas_and_buildkits() {
        let (kind, v1) = of((false, ProvenanceVersion::V1));
        assert_eq!(kind, "https://slsa.dev/provenance/v1");
        let definition = &v1["buildDefinition"];
        let dependencies = &definition["resolvedDependencies"];
        assert_eq!(dependencies[0]["digest"]["sha256"], "01".repeat(32));
        assert_eq!(
            dependencies[1]["digest"]["sha1"],
            "0123456789abcdef0123456789abcdef01234567"
        );
        let external = &definition["externalParameters"];
        assert_eq!(external["configSource"]["uri"], "https://x/y.git#main");
        assert_eq!(external["configSource"]["path"], "Dockerfile");
        assert_eq!(external["request"]["args"], json!({ "target": "t" }));
        let metadata = &v1["runDetails"]["metadata"];
        assert_eq!(
            metadata["buildkit_completeness"],
            json!({ "request": false, "resolvedDependencies": true })
        );
        assert_eq!(metadata["buildkit_hermetic"], true);
        let (kind, v02) = of((true, ProvenanceVersion::V02));
        assert_eq!(kind, "https://slsa.dev/provenance/v0.2");
        assert_eq!(v02["materials"], *dependencies);
        assert_eq!(v02["invocation"]["configSource"]["entryPoint"], "Dockerfile");
        assert_eq!(v02["metadata"]["completeness"]["parameters"], true);
        assert_eq!(
            v02["metadata"]["buildStartedOn"],
            "1970-01-01T00:00:01.000000000Z"
        );
        assert_eq!(v02["buildConfig"]["instructions"][0]["line"], 1);
    }
}
