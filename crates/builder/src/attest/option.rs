//! `--provenance`, `--sbom` and `--attest`: requested attestations.

use crate::EngineError;
use crate::{BuildFault, BuildOptionError};

/// Version of SLSA's provenance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProvenanceVersion {
    /// Version v0.2.
    V02,
    /// Version v1, BuildKit's default.
    #[default]
    V1,
}

/// Extent and form of a provenance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProvenanceMode {
    /// True if the provenance includes arguments, names of secrets and the Dockerfile.
    pub is_max: bool,
    /// Form of the provenance.
    pub version: ProvenanceVersion,
}

/// Attestations that a build is to make; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attestations {
    /// Provenance to make, if any.
    pub provenance: Option<ProvenanceMode>,
    /// True for a list of the image's packages.
    pub sbom: bool,
}

impl Attestations {
    /// True if no attestation is requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Applies `--attest type=provenance|sbom[,KEY=VALUE…]`, with docker's keys.
    ///
    /// # Errors
    /// `BuildOptionError::Attestation`
    pub fn attest(&mut self, text: &str) -> Result<(), EngineError> {
        let wrong = || refused("attest", text);
        let (mut kind, mut others) = (None, Vec::new());
        for field in text.split(',') {
            match field.split_once('=') {
                Some(("type", value)) if kind.is_none() => kind = Some(value),
                _ => others.push(field),
            }
        }
        match kind.ok_or_else(wrong)? {
            "provenance" => self.set_provenance(&others, &wrong),
            "sbom" => self.set_sbom(&others, &wrong),
            _ => Err(wrong()),
        }
    }

    /// Applies `--provenance true|false|mode=min|mode=max[,version=v0.2|v1]`.
    ///
    /// # Errors
    /// `BuildOptionError::Attestation`
    pub fn provenance(&mut self, text: &str) -> Result<(), EngineError> {
        let fields: Vec<&str> = text.split(',').collect();
        self.set_provenance(&fields, &|| refused("provenance", text))
    }

    /// Applies `--sbom true|false`.
    ///
    /// # Errors
    /// `BuildOptionError::Attestation`
    pub fn sbom(&mut self, text: &str) -> Result<(), EngineError> {
        let fields: Vec<&str> = text.split(',').collect();
        self.set_sbom(&fields, &|| refused("sbom", text))
    }

    fn set_provenance(
        &mut self,
        fields: &[&str],
        wrong: &dyn Fn() -> EngineError,
    ) -> Result<(), EngineError> {
        let (mut mode, mut wanted) = (ProvenanceMode::default(), true);
        for field in fields {
            match field.split_once('=').unwrap_or((field, "")) {
                ("mode", "min") => mode.is_max = false,
                ("mode", "max") => mode.is_max = true,
                ("version", "v0.2") => mode.version = ProvenanceVersion::V02,
                ("version", "v1") => mode.version = ProvenanceVersion::V1,
                _ => wanted = switch(field).ok_or_else(wrong)?,
            }
        }
        self.provenance = wanted.then_some(mode);
        Ok(())
    }

    fn set_sbom(&mut self, fields: &[&str], wrong: &dyn Fn() -> EngineError) -> Result<(), EngineError> {
        let mut wanted = true;
        for field in fields {
            wanted = switch(field).ok_or_else(wrong)?;
        }
        self.sbom = wanted;
        Ok(())
    }
}

/// Parses a field that only turns an attestation on or off.
fn switch(field: &str) -> Option<bool> {
    let (is_on, value) = match field.split_once('=') {
        None => (true, field),
        Some(("disabled", value)) => (false, value),
        Some(_) => return None,
    };
    match value {
        "" | "true" | "1" => Some(is_on),
        "false" | "0" => Some(!is_on),
        _ => None,
    }
}

fn refused(option: &'static str, value: &str) -> EngineError {
    let value = value.to_owned();
    BuildFault::Option(BuildOptionError::Attestation { option, value }).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted() {
        let provenance = |is_max, version| Attestations {
            provenance: Some(ProvenanceMode { is_max, version }),
            sbom: false,
        };
        let sbom = Attestations {
            sbom: true,
            ..Attestations::default()
        };
        let none = Attestations::default();
        for (text, expected) in [
            ("type=provenance", provenance(false, ProvenanceVersion::V1)),
            (
                "type=provenance,mode=max",
                provenance(true, ProvenanceVersion::V1),
            ),
            (
                "mode=min,version=v0.2,type=provenance",
                provenance(false, ProvenanceVersion::V02),
            ),
            ("type=provenance,disabled=true", none),
            ("type=sbom", sbom),
            ("type=sbom,disabled=false", sbom),
            ("type=sbom,disabled=1", none),
        ] {
            let mut found = none;
            found.attest(text).unwrap();
            assert_eq!(found, expected, "{text}");
        }
        for text in [
            "",
            "provenance",
            "type=x",
            "type=sbom,generator=x",
            "type=provenance,mode=all",
        ] {
            assert!(Attestations::default().attest(text).is_err(), "{text}");
        }
    }

    #[test]
    fn short_forms() {
        let mut found = Attestations::default();
        found.provenance("mode=max").unwrap();
        found.sbom("true").unwrap();
        assert!(found.sbom && found.provenance.is_some_and(|mode| mode.is_max));
        found.provenance("false").unwrap();
        found.sbom("0").unwrap();
        assert!(found.is_empty());
        for text in ["maybe", "mode=", "x=y"] {
            assert!(
                found.provenance(text).is_err() && found.sbom(text).is_err(),
                "{text}"
            );
        }
    }
}
