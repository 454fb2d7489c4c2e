//! Containers of Kubernetes, by what their bundles say: containerd's and those of CRI-O.

use super::DebugError;
use super::engines::Engine;
use super::foreign::{PodmanStorage, SPEC, list, read, running};
use super::noted::NotedProcess;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Part of a bundle's `config.json`.
#[derive(Deserialize)]
struct Annotated {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Names of the annotations of containerd and CRI-O: of a pod's namespace, of a pod, and of a container.
const ANNOTATIONS: [[&str; 3]; 2] = [
    [
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.cri.sandbox-name",
        "io.kubernetes.cri.container-name",
    ],
    [
        "io.kubernetes.pod.namespace",
        "io.kubernetes.pod.name",
        "io.kubernetes.container.name",
    ],
];

/// Finds a container of Kubernetes, `[NAMESPACE/]POD/CONTAINER`.
pub(super) fn kubernetes(
    tasks: &Path,
    storages: &[PodmanStorage],
    wanted: &str,
) -> Result<Option<NotedProcess>, DebugError> {
    let words: Vec<&str> = wanted.split('/').collect();
    let (namespace, pod, container) = match words[..] {
        [pod, container] => (None, pod, container),
        [namespace, pod, container] => (Some(namespace), pod, container),
        _ => return Ok(None),
    };
    let is_wanted = |text: &str| {
        let Ok(Annotated { annotations }) = serde_json::from_str(text) else {
            return false;
        };
        ANNOTATIONS.iter().any(|[of_namespace, of_pod, of_container]| {
            let is = |name: &str, value: &str| annotations.get(name).is_some_and(|known| known == value);
            is(of_pod, pod)
                && is(of_container, container)
                && namespace.is_none_or(|value| is(of_namespace, value))
        })
    };
    let of_containerd = (tasks.join("k8s.io"), SPEC, "init.pid");
    let of_crio = storages
        .iter()
        .map(|(_, run)| (run.clone(), "userdata/config.json", "userdata/pidfile"));
    for (dir, config, pid) in std::iter::once(of_containerd).chain(of_crio) {
        for id in list(Engine::Kubernetes, &dir)? {
            let bundle = dir.join(&id);
            let spec = bundle.join(config);
            let text = read(Engine::Kubernetes, &spec)?;
            if text.is_some_and(|text| is_wanted(&text)) {
                let path = bundle.join(pid);
                let pid = read(Engine::Kubernetes, &path)?.and_then(|text| text.trim().parse().ok());
                if let Some(found) = running(pid, &id, path, vec![spec]) {
                    return Ok(Some(found));
                }
            }
        }
    }
    Ok(None)
}
