//! The command `spec`: a `config.json` to begin with.

use crate::OciError;
use tote_spec::{IdMapping, Mount, Namespace, NamespaceType, Spec};

const DEFAULT: &str = include_str!("default.json");

/// Returns the text of a new `config.json`, indented as by runc; with `rootless` one that the user with these ids can
/// use.
///
/// # Errors
/// Only a fault of the built-in text.
pub fn specification(rootless: Option<(u32, u32)>) -> Result<String, OciError> {
    const WHAT: &str = "the default config.json";
    let mut spec: Spec = serde_json::from_str(DEFAULT).map_err(OciError::json(WHAT))?;
    tote_spec::VERSION.clone_into(&mut spec.oci_version);
    if let Some(ids) = rootless {
        make_rootless(&mut spec, ids);
    }
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"\t");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    serde::Serialize::serialize(&spec, &mut serializer).map_err(OciError::json(WHAT))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// True for a bundle of a version of the specification before 1.3.
pub(crate) fn is_before_1_3(version: &str) -> bool {
    let mut numbers = version
        .split('.')
        .map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) < (Some(1), Some(3))
}

/// Adds a user namespace with one id, the host's network, and no limits.
fn make_rootless(spec: &mut Spec, (uid, gid): (u32, u32)) {
    let map = |host_id| {
        vec![IdMapping {
            container_id: 0,
            host_id,
            size: 1,
        }]
    };
    if let Some(linux) = &mut spec.linux {
        linux.namespaces.retain(|one| one.kind != NamespaceType::Network);
        linux.namespaces.push(Namespace {
            kind: NamespaceType::User,
            path: None,
        });
        linux.uid_mappings = map(uid);
        linux.gid_mappings = map(gid);
        linux.resources = None;
    }
    for mount in &mut spec.mounts {
        if mount.destination == "/sys" {
            // A sysfs belongs to a network namespace, and this container has the host's.
            let options = ["rbind", "nosuid", "noexec", "nodev", "ro"];
            *mount = Mount {
                destination: "/sys".to_owned(),
                kind: Some("none".to_owned()),
                source: Some("/sys".to_owned()),
                options: options.map(ToOwned::to_owned).to_vec(),
                ..Mount::default()
            };
        }
        // The user namespace does not map other users and groups.
        let of_others = |option: &str| option.starts_with("gid=") || option.starts_with("uid=");
        mount.options.retain(|option| !of_others(option));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_valid() {
        let spec = Spec::parse(&specification(None).unwrap()).unwrap();
        assert!(spec.root.as_ref().unwrap().readonly && spec.process.as_ref().unwrap().terminal);
        assert!(spec.namespace(NamespaceType::Network).is_some());
        let spec = Spec::parse(&specification(Some((5, 6))).unwrap()).unwrap();
        assert!(spec.namespace(NamespaceType::Network).is_none());
        let linux = spec.linux.unwrap();
        assert_eq!(
            (linux.uid_mappings[0].host_id, linux.gid_mappings[0].host_id),
            (5, 6)
        );
        assert!(linux.resources.is_none());
        let mut options = spec.mounts.iter().flat_map(|mount| &mount.options);
        assert!(!options.any(|option| option.starts_with("gid=")));
    }

    #[test]
    fn it_is_indented_as_runcs() {
        let text = specification(None).unwrap();
        assert!(text.starts_with("{\n\t\"ociVersion\": \"1."), "{text}");
    }
}
