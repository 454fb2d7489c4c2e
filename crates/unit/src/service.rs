//! Units that run existing containers: `tote generate systemd`.

use crate::syntax::UnitFile;
use crate::words::quote_literal;

/// Values of `Restart=`.
pub const RESTART_POLICIES: &[&str] = &[
    "no",
    "on-success",
    "on-failure",
    "on-abnormal",
    "on-watchdog",
    "on-abort",
    "always",
];

/// Seconds added to the time that a container may take to stop; podman's value.
const BESIDES: u64 = 60;

/// Options of units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Value of `Restart=`; `on-failure` by default.
    pub restart: Option<String>,
    /// Value of `RestartSec=`.
    pub restart_seconds: Option<u32>,
    /// Value of `TimeoutStartSec=`.
    pub start_seconds: Option<u32>,
    /// Values of `Wants=` beside the usual ones.
    pub wants: Vec<String>,
    /// Values of `After=` beside the usual ones.
    pub after: Vec<String>,
    /// Values of `Requires=`.
    pub requires: Vec<String>,
    /// Values of `Environment=`.
    pub environment: Vec<String>,
}

/// Unit of `Type=notify`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Name, without `.service`.
    pub name: String,
    /// Path that must be mounted.
    pub mounts_for: String,
    /// Units that it ends with, and starts after.
    pub bound_to: Vec<String>,
    /// Units that it wants, and starts before.
    pub leads: Vec<String>,
    /// Word of a template that contains the instance, `web-%i`.
    pub instance: Option<String>,
    /// Words of `ExecStartPre=`, `ExecStart=`, `ExecStop=` and `ExecStopPost=`; empty ones are left out.
    pub commands: [Vec<String>; 4],
    /// Time that the container may take to stop, in seconds.
    pub stop_seconds: u64,
}

impl Service {
    /// Formats the unit.
    #[must_use]
    pub fn text(&self, wishes: &Wishes) -> String {
        let mut unit = UnitFile::default();
        unit.add("Unit", "Description", format!("tote {}.service", self.name));
        unit.add("Unit", "Documentation", "man:tote-generate-systemd(1)");
        for unit_name in ["network-online.target"]
            .into_iter()
            .chain(wishes.wants.iter().map(String::as_str))
        {
            unit.add("Unit", "Wants", unit_name);
        }
        for unit_name in ["network-online.target"]
            .into_iter()
            .chain(wishes.after.iter().map(String::as_str))
        {
            unit.add("Unit", "After", unit_name);
        }
        for unit_name in &wishes.requires {
            unit.add("Unit", "Requires", unit_name);
        }
        for unit_name in &self.bound_to {
            unit.add("Unit", "BindsTo", format!("{unit_name}.service"));
            unit.add("Unit", "After", format!("{unit_name}.service"));
        }
        for unit_name in &self.leads {
            unit.add("Unit", "Wants", format!("{unit_name}.service"));
            unit.add("Unit", "Before", format!("{unit_name}.service"));
        }
        unit.add("Unit", "RequiresMountsFor", quote_literal(&self.mounts_for));
        for variable in &wishes.environment {
            unit.add("Service", "Environment", quote_literal(variable));
        }
        unit.add(
            "Service",
            "Restart",
            wishes.restart.as_deref().unwrap_or("on-failure"),
        );
        if let Some(seconds) = wishes.restart_seconds {
            unit.add("Service", "RestartSec", seconds.to_string());
        }
        if let Some(seconds) = wishes.start_seconds {
            unit.add("Service", "TimeoutStartSec", seconds.to_string());
        }
        unit.add(
            "Service",
            "TimeoutStopSec",
            (self.stop_seconds.saturating_add(BESIDES)).to_string(),
        );
        for (key, words) in ["ExecStartPre", "ExecStart", "ExecStop", "ExecStopPost"]
            .iter()
            .zip(&self.commands)
        {
            if !words.is_empty() {
                unit.add("Service", key, line(words, self.instance.as_deref()));
            }
        }
        unit.add("Service", "Type", "notify");
        unit.add("Service", "NotifyAccess", "all");
        unit.add("Service", "Delegate", "yes");
        unit.add("Service", "KillMode", "mixed");
        // A container that ends by SIGTERM was asked to end, so that counts as success.
        unit.add("Service", "SuccessExitStatus", "143");
        unit.add("Install", "WantedBy", "default.target");
        unit.to_string()
    }
}

/// Returns the argument that names a container or pod by its name alone: if the container `db` has gone, `db` may be
/// the beginning of another one's id, but `/db` is not.
#[must_use]
pub fn exact(name: &str) -> String {
    format!("/{name}")
}

fn line(words: &[String], instance: Option<&str>) -> String {
    let one = |word: &String| match instance {
        // `/web-%i` is the container with that name.
        Some(instance) if instance == word.strip_prefix('/').unwrap_or(word) => word.clone(),
        _ => quote_literal(word),
    };
    words.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_unit() {
        let service = Service {
            name: "container-web".to_owned(),
            mounts_for: "/var/lib/tote".to_owned(),
            bound_to: vec!["pod-all".to_owned()],
            commands: [
                Vec::new(),
                words("/bin/tote run --name web i 100% $HOME"),
                words("/bin/tote stop -t 10 web"),
                Vec::new(),
            ],
            stop_seconds: 10,
            ..Service::default()
        };
        let wishes = Wishes {
            restart: Some("always".to_owned()),
            restart_seconds: Some(3),
            environment: vec!["A=b c".to_owned()],
            ..Wishes::default()
        };
        let expected = "\
[Unit]
Description=tote container-web.service
Documentation=man:tote-generate-systemd(1)
Wants=network-online.target
After=network-online.target
BindsTo=pod-all.service
After=pod-all.service
RequiresMountsFor=/var/lib/tote

[Service]
Environment=\"A=b c\"
Restart=always
RestartSec=3
TimeoutStopSec=70
ExecStart=/bin/tote run --name web i 100%% $$HOME
ExecStop=/bin/tote stop -t 10 web
Type=notify
NotifyAccess=all
Delegate=yes
KillMode=mixed
SuccessExitStatus=143

[Install]
WantedBy=default.target
";
        assert_eq!(service.text(&wishes), expected);
        let template = Service {
            instance: Some("web-%i".to_owned()),
            commands: [
                Vec::new(),
                words("tote run --name web-%i i %i"),
                words("tote stop /web-%i"),
                Vec::new(),
            ],
            ..service
        };
        let text = template.text(&Wishes::default());
        assert!(
            text.contains("ExecStart=tote run --name web-%i i %%i\nExecStop=tote stop /web-%i\n"),
            "{text}"
        );
    }
}
