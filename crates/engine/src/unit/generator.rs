//! Generator of systemd.generator(7): makes units of files that describe containers and volumes.

use super::{UnitError, program};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use tote_unit::{Kind, Made, Quadlet, Surroundings, UnitFile};

/// Options of the generator.
#[derive(Clone, Debug, Default)]
pub struct QuadletOptions {
    /// True for a user's units, false for the machine's.
    pub user: bool,
    /// Directories of the files; the usual places if empty.
    pub dirs: Vec<PathBuf>,
    /// Directory for the units; without one they are only checked.
    pub output: Option<PathBuf>,
}

/// Result of the generator. A failure concerns a single file.
#[derive(Debug, Default)]
pub struct QuadletOutcome {
    /// Units, by name.
    pub units: Vec<Made>,
    /// Errors of files.
    pub errors: Vec<UnitError>,
    /// Keys that have no effect, each with its file and line.
    pub warnings: Vec<String>,
}

/// Limit of nested directories.
const DEEPEST: usize = 8;

/// Limit of files.
const MOST: usize = 4096;

/// Makes units of all files, and writes them.
#[must_use]
pub fn generate_quadlets(options: &QuadletOptions) -> QuadletOutcome {
    let mut outcome = QuadletOutcome::default();
    let dirs = if options.dirs.is_empty() {
        usual(options.user)
    } else {
        options.dirs.clone()
    };
    let mut files = BTreeMap::new();
    for dir in &dirs {
        find(dir, DEEPEST, &mut files);
    }
    let mut quadlets = Vec::new();
    for (name, path) in files {
        if Kind::is_unknown(&name) {
            outcome.errors.push(UnitError::Kind(path));
            continue;
        }
        match read(&name, &path, &dirs) {
            Ok(found) => quadlets.extend(found),
            Err(error) => outcome.errors.push(error),
        }
    }
    let names = |kind: Kind| {
        let quadlets = quadlets.iter().filter(|(quadlet, _)| quadlet.kind == kind);
        quadlets
            .map(|(quadlet, _)| (quadlet.name.clone(), quadlet.object_name()))
            .collect()
    };
    let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (quadlet, _) in &quadlets {
        if let Some(pod) = quadlet.pod().filter(|_| quadlet.starts_with_pod()) {
            members
                .entry(pod.to_owned())
                .or_default()
                .push(quadlet.service_name());
        }
    }
    let program = program();
    let around = Surroundings {
        program: &program,
        mounts_for: (!options.user).then_some("/var/lib/tote"),
        user: options.user,
        volumes: names(Kind::Volume),
        networks: names(Kind::Network),
        pods: names(Kind::Pod),
        members,
    };
    for (quadlet, paths) in &quadlets {
        match quadlet.service(&around) {
            Ok(made) => {
                let told = made.unused.iter().map(|unused| {
                    let path = paths.get(unused.line.file).cloned().unwrap_or_default();
                    format!("{}: {unused}", path.display())
                });
                outcome.warnings.extend(told);
                outcome.units.push(made);
            }
            Err(source) => outcome.errors.push(UnitError::Quadlet {
                path: paths.get(source.file()).cloned().unwrap_or_default(),
                source,
            }),
        }
    }
    if let Some(dir) = &options.output {
        for made in &outcome.units {
            if let Err(error) = write(dir, made) {
                outcome.errors.push(error);
            }
        }
    }
    outcome
}

/// Lists the usual directories; the first file of a name counts.
fn usual(user: bool) -> Vec<PathBuf> {
    if let Some(dirs) = std::env::var_os("QUADLET_UNIT_DIRS").filter(|dirs| !dirs.is_empty()) {
        return std::env::split_paths(&dirs).collect();
    }
    const BELOW: &str = "tote/systemd";
    if !user {
        return ["/run", "/etc", "/usr/share"]
            .map(|dir| Path::new(dir).join(BELOW))
            .to_vec();
    }
    let variable = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let mut dirs = Vec::new();
    dirs.extend(variable("XDG_RUNTIME_DIR").map(|dir| dir.join(BELOW)));
    let config = variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")));
    dirs.extend(config.map(|dir| dir.join(BELOW)));
    let users = Path::new("/etc").join(BELOW).join("users");
    dirs.push(users.join(rustix::process::getuid().as_raw().to_string()));
    dirs.push(users);
    dirs
}

/// Collects the files of a directory and its subdirectories, by name. Unreadable directories are skipped.
fn find(dir: &Path, depth: usize, files: &mut BTreeMap<String, PathBuf>) {
    // absence: systemd passes over what it cannot read as well, and has no other way to be told
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    for path in entries {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        // absence: systemd passes over what it cannot read as well, and has no other way to be told
        if std::fs::metadata(&path).is_ok_and(|found| found.is_dir()) {
            // Skipped directories: those for other users, and drop-ins, which are looked up by name.
            let passed_over = name == "users" || name.ends_with(".d");
            if depth > 0 && !passed_over {
                find(&path, depth - 1, files);
            }
        } else if (Kind::of(name).is_some() || Kind::is_unknown(name))
            && files.len() < MOST
            && let Entry::Vacant(free) = files.entry(name.to_owned())
        {
            free.insert(std::path::absolute(&path).unwrap_or(path));
        }
    }
}

/// Reads a file with its drop-ins. Also returns all paths; `None` for an empty file, which masks
/// those of its name elsewhere.
fn read(name: &str, path: &Path, dirs: &[PathBuf]) -> Result<Option<(Quadlet, Vec<PathBuf>)>, UnitError> {
    let Some((kind, stem)) = Kind::of(name) else {
        return Ok(None);
    };
    let mut file = parse(path)?;
    let mut paths = vec![path.to_owned()];
    for drop_in in drop_ins(name, stem, dirs) {
        file.merge(parse(&drop_in)?, paths.len());
        paths.push(drop_in);
    }
    let quadlet = Quadlet {
        kind,
        name: stem.to_owned(),
        path: path.display().to_string(),
        file,
    };
    Ok((!quadlet.file.sections.is_empty()).then_some((quadlet, paths)))
}

fn parse(path: &Path) -> Result<UnitFile, UnitError> {
    let text = std::fs::read_to_string(path).map_err(|source| UnitError::File {
        attempt: "read",
        path: path.to_owned(),
        source,
    })?;
    UnitFile::parse(&text).map_err(|source| UnitError::Syntax {
        path: path.to_owned(),
        source,
    })
}

/// Lists the drop-ins of a file, ordered by name; of equal names the most specific directory's counts.
fn drop_ins(name: &str, stem: &str, dirs: &[PathBuf]) -> Vec<PathBuf> {
    let ending = &name[stem.len()..];
    let mut places = vec![format!("{}.d", &ending[1..])];
    let dashes = stem.char_indices().filter(|(_, letter)| *letter == '-');
    places.extend(dashes.map(|(at, _)| format!("{}{ending}.d", &stem[..=at])));
    if let Some((template, instance)) = stem.split_once('@')
        && !instance.is_empty()
    {
        places.push(format!("{template}@{ending}.d"));
    }
    places.push(format!("{name}.d"));
    let mut found = BTreeMap::new();
    for place in places {
        for dir in dirs.iter().rev() {
            // absence: systemd passes over what it cannot read as well, and has no other way to be told
            for entry in std::fs::read_dir(dir.join(&place))
                .into_iter()
                .flatten()
                .flatten()
            {
                let name = entry.file_name();
                if name.as_encoded_bytes().ends_with(b".conf") {
                    found.insert(name, entry.path());
                }
            }
        }
    }
    found.into_values().collect()
}

/// Writes the unit, and the links to it.
fn write(dir: &Path, made: &Made) -> Result<(), UnitError> {
    let path = dir.join(&made.name);
    let failed = |attempt, path: &Path| {
        let path = path.to_owned();
        move |source| UnitError::File {
            attempt,
            path,
            source,
        }
    };
    let text = format!("# Generated by tote\n\n{}", made.text);
    std::fs::write(&path, text).map_err(failed("write", &path))?;
    for link in &made.links {
        let path = dir.join(&link.path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed("make", parent))?;
        }
        match std::os::unix::fs::symlink(&link.target, &path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(failed("make", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: PathBuf, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn files_drop_ins_and_what_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        put(first.join("web-a.container"), "[Container]\nImage=one\n");
        put(second.join("web-a.container"), "[Container]\nImage=two\n");
        put(second.join("deep/data.volume"), "[Volume]\nVolumeName=d\n");
        put(second.join("bad.container"), "[Container]\nImage=i\n");
        put(second.join("bad.container.d/no.conf"), "[Container]\nNo=1\n");
        put(second.join("net.network"), "[Network]\n");
        put(second.join("no.kube"), "[Kube]\n");
        put(
            second.join("container.d/10.conf"),
            "[Container]\nExec=general\nHostName=h\n",
        );
        put(
            first.join("web-.container.d/10.conf"),
            "[Container]\nExec=special\n",
        );
        put(
            first.join("web-a.container.d/20.conf"),
            "[Container]\nVolume=data.volume:/d\n[Install]\nWantedBy=a.target\n",
        );
        let output = dir.path().join("out");
        std::fs::create_dir(&output).unwrap();
        let outcome = generate_quadlets(&QuadletOptions {
            user: false,
            dirs: vec![first, second.clone()],
            output: Some(output.clone()),
        });
        let text = std::fs::read_to_string(output.join("web-a.service")).unwrap();
        for words in [
            " --volume d:/d one special\n",
            "Requires=data-volume.service\n",
            "[X-Container]\n",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("--hostname"), "one drop-in of a name: {text}");
        let link = std::fs::read_link(output.join("a.target.wants/web-a.service")).unwrap();
        assert_eq!(link, Path::new("../web-a.service"));
        assert!(output.join("data-volume.service").metadata().unwrap().is_file());
        let mut errors: Vec<_> = outcome.errors.iter().map(ToString::to_string).collect();
        errors.sort();
        let bad = second.join("bad.container.d/no.conf").display().to_string();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("no.kube"), "{errors:?}");
        assert_eq!(outcome.warnings.len(), 1, "{:?}", outcome.warnings);
        assert!(outcome.warnings[0].starts_with(&bad), "{:?}", outcome.warnings);
        assert!(output.join("net-network.service").metadata().unwrap().is_file());
    }
}
