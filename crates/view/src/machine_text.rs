//! The machine as `docker info` lays it out, for people, and for scripts that search it for lines.

use crate::stats::binary;
use serde_json::Value;

/// Lines of the engine, from the fields of `docker info`.
#[must_use]
pub fn machine_text(info: &Value) -> String {
    let client = &info["ClientInfo"];
    let mut text = format!(
        "Client:\n Version:    {}\n Context:    {}\n Debug Mode: {}\n\nServer:\n",
        plain(&client["Version"]),
        plain(&client["Context"]),
        plain(&client["Debug"]),
    );
    lines(&mut text, info, &COUNTS);
    text += " Plugins:\n";
    for kind in ["Volume", "Network", "Log"] {
        text += &format!("  {kind}: {}\n", words(&info["Plugins"][kind]));
    }
    text += &format!(" Swarm: {}\n", plain(&info["Swarm"]["LocalNodeState"]));
    let runtimes = info["Runtimes"].as_object();
    let runtimes: Vec<&str> = runtimes.into_iter().flatten().map(|(name, _)| &**name).collect();
    text += &format!(" Runtimes: {}\n", runtimes.join(" "));
    lines(&mut text, info, &ENGINE);
    text += " Security Options:\n";
    for option in info["SecurityOptions"].as_array().into_iter().flatten() {
        let mut parts = option.as_str().unwrap_or_default().split(',');
        let name = parts.next().unwrap_or_default();
        text += &format!("  {}\n", name.strip_prefix("name=").unwrap_or(name));
        for profile in parts.filter_map(|part| part.strip_prefix("profile=")) {
            text += &format!("   Profile: {profile}\n");
        }
    }
    lines(&mut text, info, &MACHINE);
    let memory = info["MemTotal"].as_u64().unwrap_or_default();
    text += &format!(" Total Memory: {}\n", binary(memory));
    lines(&mut text, info, &REST);
    text
}

/// docker's words, and the names of their fields. Every blank before a word is docker's, and one more is before all.
type Names = (&'static str, &'static str);

const COUNTS: [Names; 10] = [
    ("Containers", "Containers"),
    (" Running", "ContainersRunning"),
    (" Paused", "ContainersPaused"),
    (" Stopped", "ContainersStopped"),
    ("Images", "Images"),
    ("Server Version", "ServerVersion"),
    ("Storage Driver", "Driver"),
    ("Logging Driver", "LoggingDriver"),
    ("Cgroup Driver", "CgroupDriver"),
    ("Cgroup Version", "CgroupVersion"),
];

const ENGINE: [Names; 2] = [
    ("Default Runtime", "DefaultRuntime"),
    ("Init Binary", "InitBinary"),
];

const MACHINE: [Names; 5] = [
    ("Kernel Version", "KernelVersion"),
    ("Operating System", "OperatingSystem"),
    ("OSType", "OSType"),
    ("Architecture", "Architecture"),
    ("CPUs", "NCPU"),
];

const REST: [Names; 6] = [
    ("Name", "Name"),
    ("ID", "ID"),
    ("Docker Root Dir", "DockerRootDir"),
    ("Debug Mode", "Debug"),
    ("Experimental", "ExperimentalBuild"),
    ("Live Restore Enabled", "LiveRestoreEnabled"),
];

fn lines(text: &mut String, info: &Value, names: &[Names]) {
    for (word, field) in names {
        *text += &format!(" {word}: {}\n", plain(&info[field]));
    }
}

fn words(list: &Value) -> String {
    let all = list.as_array().into_iter().flatten();
    all.map(plain).collect::<Vec<_>>().join(" ")
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_are_dockers() {
        let text = machine_text(&json!({
            "ClientInfo": { "Version": "1", "Context": "default", "Debug": false },
            "Containers": 3, "ContainersRunning": 1, "Driver": "overlay", "MemTotal": 2_096_103_424_u64,
            "Plugins": { "Network": ["bridge", "host"] },
            "Runtimes": { "tote": {} },
            "SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless"],
        }));
        for lines in [
            "Client:\n Version:    1\n Context:    default\n Debug Mode: false\n\nServer:\n Containers: 3\n  Running: 1\n",
            "\n Storage Driver: overlay\n",
            "\n  Network: bridge host\n",
            "\n Runtimes: tote\n",
            "\n Security Options:\n  seccomp\n   Profile: builtin\n  rootless\n Kernel Version: ",
            "\n Total Memory: 1.952GiB\n Name: ",
        ] {
            assert!(text.contains(lines), "{lines:?} in {text}");
        }
    }
}
