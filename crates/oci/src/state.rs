//! The command `state`.

use crate::record::Record;
use crate::states::Status;
use crate::status::status;
use crate::store::Place;
use crate::{ContainerError, Id, OciError, Store};
use serde::Serialize;
use std::collections::BTreeMap;

/// Output of `state`: the specification's properties, and runc's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct State {
    /// Version of the spec.
    #[serde(rename = "ociVersion")]
    pub oci_version: String,
    /// Id of the container.
    pub id: String,
    /// Pid of its first process; 0 when that has ended.
    pub pid: u32,
    /// State: `creating`, `created`, `running`, `paused` or `stopped`.
    pub status: String,
    /// Directory of the bundle.
    pub bundle: String,
    /// Directory of the root.
    pub rootfs: String,
    /// Time of creation, RFC 3339.
    pub created: String,
    /// Annotations of the spec.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Name of the user that created it.
    pub owner: String,
}

/// State that the specification gives to hooks.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForHooks<'a> {
    oci_version: &'a str,
    id: &'a str,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    bundle: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, String>,
}

/// Returns the state of a container.
///
/// # Errors
/// `ContainerError::NotFound`, and errors of reading its record.
pub fn state(store: &Store, id: &Id) -> Result<State, OciError> {
    of(&store.open(id)?, id)
}

pub(crate) fn of(place: &Place, id: &Id) -> Result<State, OciError> {
    // A container whose creation has only just begun, or was given up, has no record: as with runc it is not there yet, because
    // nothing could be said of it.
    let (record, _) = place
        .read()?
        .ok_or(OciError::Container(ContainerError::NotFound))?;
    let status = status(place, &record);
    Ok(State {
        pid: record.pid.filter(|_| status != Status::Stopped).unwrap_or(0),
        status: status.to_string(),
        owner: user_name(place.owner()),
        oci_version: record.oci_version,
        id: id.to_string(),
        bundle: record.bundle,
        rootfs: record.rootfs,
        created: record.created,
        annotations: record.annotations,
    })
}

impl<'a> ForHooks<'a> {
    pub(crate) fn new(id: &'a Id, record: &'a Record, status: Status) -> Self {
        Self {
            oci_version: &record.oci_version,
            id: id.as_str(),
            status: status.to_string(),
            pid: record.pid.filter(|_| status != Status::Stopped),
            bundle: &record.bundle,
            annotations: &record.annotations,
        }
    }
}

/// Returns the state as hooks read it on their standard input.
pub(crate) fn for_hooks(id: &Id, record: &Record, status: Status) -> Vec<u8> {
    // A struct of texts and numbers always has a JSON form.
    serde_json::to_vec(&ForHooks::new(id, record, status)).unwrap_or_default()
}

fn user_name(uid: u32) -> String {
    if uid == 0 {
        return "root".to_owned();
    }
    // absence: a name for people, which is the number then
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("#{uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kept;

    #[test]
    fn what_is_only_begun_is_not_there_yet() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path().join("oci"));
        let id: Id = "x".parse().unwrap();
        let place = store.make(&id).unwrap();
        let refused = state(&store, &id);
        assert!(
            matches!(refused, Err(OciError::Container(ContainerError::NotFound))),
            "{refused:?}"
        );
        assert!(crate::list(&store).unwrap().is_empty());
        let record = Record {
            oci_version: "1.2.0".to_owned(),
            bundle: "/b".to_owned(),
            ..Record::default()
        };
        place.write(&record, &Kept::default().text().unwrap()).unwrap();
        let found = state(&store, &id).unwrap();
        let seen = (&*found.status, &*found.oci_version, &*found.bundle);
        assert_eq!(seen, ("creating", "1.2.0", "/b"));
    }
}
