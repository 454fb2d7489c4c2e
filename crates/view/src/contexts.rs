//! The one context, with docker's fields.

use crate::listing::Listing;
use serde_json::{Value, json};
use std::path::Path;

/// Lists the context of this machine, whose state is in `root`.
#[must_use]
pub fn contexts(name: &str, root: &Path) -> Listing {
    let current = json!({
        "Name": name,
        "Current": true,
        "Description": format!("This machine, without a daemon: {}", root.display()),
        "DockerEndpoint": "",
        "Error": "",
    });
    Listing {
        headings: &[
            ("Name", "NAME"),
            ("Description", "DESCRIPTION"),
            ("DockerEndpoint", "DOCKER ENDPOINT"),
            ("Error", "ERROR"),
        ],
        columns: "{{.Name}}{{if .Current}} *{{end}}\t{{.Description}}\t{{.DockerEndpoint}}\t{{.Error}}"
            .to_owned(),
        rows: vec![current],
        ..Listing::default()
    }
}

/// Describes the context of this machine. The address is empty, because no daemon answers anywhere.
#[must_use]
pub fn context_details(name: &str) -> Value {
    json!({
        "Name": name,
        "Metadata": {},
        "Endpoints": { "docker": { "Host": "", "SkipTLSVerify": false } },
        "TLSMaterial": {},
        "Storage": { "MetadataPath": "", "TLSPath": "" },
    })
}
