//! Fields that podman's descriptions have and docker's lack. Templates may name them; JSON is docker's.

use serde_json::{Value, json};

/// Field of the action when a container becomes unhealthy.
const ACTION: &str = "HealthcheckOnFailureAction";

/// Returns a description with podman's fields as well. Within an object of docker's there are those that the template names: it may
/// show the whole object, too.
#[must_use]
pub fn with_podmans_fields(of: &Value, template: &str) -> Value {
    let mut of = of.clone();
    let Some(fields) = of.as_object_mut() else {
        return of;
    };
    if fields.contains_key("HostConfig") {
        let image = fields.get("Config").map(|config| config["Image"].clone());
        let log = fields.get("LogPath").cloned().unwrap_or_default();
        let digest = fields.get("Image").cloned().unwrap_or_default();
        fields.insert("ImageName".to_owned(), image.unwrap_or_default());
        fields.insert("ImageDigest".to_owned(), digest);
        if let Some(of_log) = fields
            .get_mut("HostConfig")
            .and_then(|host| host.get_mut("LogConfig"))
        {
            let limit = of_log["Config"].get("max-size").cloned();
            if template.contains(".LogConfig.Path") {
                of_log["Path"] = log;
            }
            if template.contains(".LogConfig.Size") {
                of_log["Size"] = limit.unwrap_or_else(|| json!("0B"));
            }
        }
        if template.contains(ACTION)
            && let Some(Value::Object(config)) = fields.get_mut("Config")
        {
            let action = config.entry(ACTION);
            action.or_insert_with(|| json!("none"));
        }
    } else if let Some(Value::Array(digests)) = fields.get("RepoDigests") {
        let pulled = digests.first().and_then(Value::as_str);
        let digest = pulled.and_then(|name| Some(json!(name.split_once('@')?.1)));
        let digest = digest.unwrap_or_else(|| fields.get("Id").cloned().unwrap_or_default());
        fields.insert("Digest".to_owned(), digest);
        let names = fields.get("RepoTags").cloned().unwrap_or_default();
        fields.insert("NamesHistory".to_owned(), names);
        let labels = fields.get("Config").map(|config| config["Labels"].clone());
        fields.insert("Labels".to_owned(), labels.unwrap_or_default());
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_podmans() {
        let container = json!({
            "Image": "sha256:1", "LogPath": "/log", "Config": { "Image": "alpine" },
            "HostConfig": { "LogConfig": { "Type": "json-file", "Config": { "max-size": "1m" } } },
        });
        assert_eq!(
            with_podmans_fields(&container, "{{.Config}}")["Config"],
            container["Config"]
        );
        let named = "{{.HostConfig.LogConfig.Path}}{{.HostConfig.LogConfig.Size}}{{.Config.HealthcheckOnFailureAction}}";
        let shown = with_podmans_fields(&container, named);
        assert_eq!(shown["ImageName"], "alpine");
        assert_eq!(shown["HostConfig"]["LogConfig"]["Path"], "/log");
        assert_eq!(shown["HostConfig"]["LogConfig"]["Size"], "1m");
        assert_eq!(shown["Config"]["HealthcheckOnFailureAction"], "none");
        let image = json!({ "Id": "sha256:2", "RepoTags": [], "RepoDigests": ["a@sha256:3"] });
        assert_eq!(with_podmans_fields(&image, "")["Digest"], "sha256:3");
        let image = json!({ "Id": "sha256:2", "RepoTags": [], "RepoDigests": [] });
        assert_eq!(with_podmans_fields(&image, "")["Digest"], "sha256:2");
        assert_eq!(
            with_podmans_fields(&json!({ "Name": "x" }), ""),
            json!({ "Name": "x" })
        );
    }
}
