//! Bundles: `config.json` and the root beside it.

use crate::OciError;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tote_runtime::Listen;
use tote_spec::{Process, Spec};

/// Bound of the documents read, in bytes: far more than the longest that an engine writes.
pub(crate) const LONGEST: u64 = 8 << 20;

/// An opened bundle.
#[derive(Debug)]
pub(crate) struct Bundle {
    /// Absolute path of the bundle.
    pub(crate) dir: PathBuf,
    /// Absolute path of the root.
    pub(crate) rootfs: PathBuf,
    /// Open descriptor of the root.
    pub(crate) root: OwnedFd,
    /// Parsed and checked `config.json`.
    pub(crate) spec: Spec,
}

impl Bundle {
    /// Changes to the bundle's directory, which relative paths in it are relative to, and reads the bundle.
    pub(crate) fn enter(path: &Path) -> Result<Self, OciError> {
        rustix::process::chdir(path)
            .map_err(|errno| OciError::file("change to directory", path)(errno.into()))?;
        let dir = directory()?;
        let mut spec = read_spec(&dir)?;
        let Some(root) = &spec.root else {
            return Err(missing("root"));
        };
        if root.path.is_empty() {
            return Err(missing("root.path"));
        }
        let rootfs = clean(&dir.join(&root.path));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&rootfs, flags, Mode::empty())
            .map_err(|errno| OciError::file("open the rootfs", &rootfs)(errno.into()))?;
        let Some(process) = &spec.process else {
            return Err(missing("process"));
        };
        check_process(process)?;
        if spec.linux.is_none() {
            return Err(missing("linux"));
        }
        own_sources(&mut spec, &dir)?;
        Ok(Self {
            dir,
            rootfs,
            root,
            spec,
        })
    }
}

/// Makes relative sources of binds absolute, from the bundle on: some are opened by a process in another mount
/// namespace, which is not in the bundle's directory.
fn own_sources(spec: &mut Spec, dir: &Path) -> Result<(), OciError> {
    for mount in &mut spec.mounts {
        let is_bind = mount.kind.as_deref() == Some("bind")
            || mount
                .options
                .iter()
                .any(|option| matches!(option.as_str(), "bind" | "rbind"));
        if let (true, Some(source)) = (is_bind, &mut mount.source)
            && !source.is_empty()
            && !source.starts_with('/')
        {
            let path = dir.join(&*source);
            *source = path.into_os_string().into_string().map_err(|path| {
                OciError::Property(format!("mounts.source: {} is not UTF-8", path.display()))
            })?;
        }
    }
    Ok(())
}

/// Reads and parses the `config.json` of a bundle.
pub(crate) fn read_spec(dir: &Path) -> Result<Spec, OciError> {
    let text = match read(&dir.join("config.json")) {
        Err(OciError::File { path, source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Err(OciError::NoConfig(path));
        }
        other => other?,
    };
    let mut spec = Spec::parse(&text).map_err(OciError::Spec)?;
    if let Some(linux) = &mut spec.linux {
        for namespace in &mut linux.namespaces {
            // Go programs write an absent path as an empty one.
            namespace.path = namespace.path.take().filter(|path| !path.is_empty());
        }
    }
    Ok(spec)
}

/// Reads a document of at most [`LONGEST`] bytes.
pub(crate) fn read(path: &Path) -> Result<String, OciError> {
    let file = std::fs::File::open(path).map_err(OciError::file("read", path))?;
    let mut text = String::new();
    file.take(LONGEST + 1)
        .read_to_string(&mut text)
        .map_err(OciError::file("read", path))?;
    if text.len() as u64 > LONGEST {
        return Err(OciError::TooLarge {
            path: path.to_owned(),
            limit: LONGEST,
        });
    }
    Ok(text)
}

/// Makes runc's checks of a process.
pub(crate) fn check_process(process: &Process) -> Result<(), OciError> {
    let refuse = |why: &str| Err(OciError::Property(why.to_owned()));
    if process.cwd.is_empty() {
        return refuse("Cwd property must not be empty");
    }
    if !process.cwd.starts_with('/') {
        return refuse("Cwd must be an absolute path");
    }
    if process.args.is_empty() {
        return refuse("args must not be empty");
    }
    Ok(())
}

fn missing(property: &str) -> OciError {
    OciError::Property(format!("config.json: {property} is missing"))
}

/// Makes a path of the command line absolute, for use after the working directory has changed.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, OciError> {
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    Ok(directory()?.join(path))
}

fn directory() -> Result<PathBuf, OciError> {
    use std::os::unix::ffi::OsStringExt as _;
    let path =
        rustix::process::getcwd(Vec::new()).map_err(OciError::kernel("find out the working directory"))?;
    Ok(PathBuf::from(std::ffi::OsString::from_vec(path.into_bytes())))
}

/// Removes `.` and double slashes; `..` stays, because its meaning depends on links.
fn clean(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Completes the environment for the program: each variable once, with its last value, and a home directory.
pub(crate) fn finish_environment(
    process: &mut Process,
    home: &dyn Fn(u32) -> Option<String>,
    listen: &Listen,
) {
    let mut kept: Vec<String> = Vec::with_capacity(process.env.len() + 3);
    let name = |line: &str| line.split_once('=').map_or(line.len(), |(name, _)| name.len());
    for line in process.env.drain(..).rev() {
        let length = name(&line);
        let known =
            |other: &String| name(other) == length && other.as_bytes()[..length] == line.as_bytes()[..length];
        if !kept.iter().any(known) {
            kept.push(line);
        }
    }
    kept.reverse();
    // An empty `HOME` overrides earlier values, but counts as missing.
    kept.retain(|line| line != "HOME=");
    if !kept.iter().any(|line| line.starts_with("HOME=")) {
        let dir = home(process.user.uid).unwrap_or_else(|| "/".to_owned());
        kept.push(format!("HOME={dir}"));
    }
    // The container's process is PID 1 of its namespace; runc sets the same pid.
    kept.extend(listen.variables(1));
    process.env = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(lines: &[&str]) -> Vec<String> {
        let mut process = Process {
            env: lines.iter().map(ToString::to_string).collect(),
            ..Process::default()
        };
        let home = |uid| (uid == 0).then(|| "/root".to_owned());
        finish_environment(&mut process, &home, &Listen::default());
        process.env
    }

    #[test]
    fn each_variable_is_there_once() {
        assert_eq!(environment(&["A=1", "B=2", "A=3"]), ["B=2", "A=3", "HOME=/root"]);
        assert_eq!(environment(&["HOME=/x", "HOME="]), ["HOME=/root"]);
        assert_eq!(environment(&["HOME=", "HOME=/x"]), ["HOME=/x"]);
        assert_eq!(environment(&["HOME="]), ["HOME=/root"]);
        assert_eq!(
            environment(&["AB=1", "A=2", "C=x\ny"]),
            ["AB=1", "A=2", "C=x\ny", "HOME=/root"]
        );
    }

    #[test]
    fn processes_are_checked() {
        let good = Process {
            cwd: "/".to_owned(),
            args: vec!["x".to_owned()],
            ..Process::default()
        };
        check_process(&good).unwrap();
        for bad in [
            Process {
                cwd: String::new(),
                ..good.clone()
            },
            Process {
                cwd: "x".to_owned(),
                ..good.clone()
            },
            Process {
                args: Vec::new(),
                ..good
            },
        ] {
            assert!(check_process(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sources_of_binds_are_counted_from_the_bundle() {
        let text = r#"{"ociVersion":"1.0.0","mounts":[
            {"destination":"/a","source":"x/","options":["rbind"]},
            {"destination":"/b","source":"./x","type":"bind"},
            {"destination":"/c","source":"/x","type":"bind"},
            {"destination":"/d","source":"tmpfs","type":"tmpfs"},
            {"destination":"/e","source":"","type":"bind"}]}"#;
        let mut spec = Spec::parse(text).unwrap();
        own_sources(&mut spec, Path::new("/bundle")).unwrap();
        let sources: Vec<_> = spec
            .mounts
            .iter()
            .filter_map(|mount| mount.source.as_deref())
            .collect();
        assert_eq!(sources, ["/bundle/x/", "/bundle/./x", "/x", "tmpfs", ""]);
    }

    #[test]
    fn documents_have_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        std::fs::write(&path, vec![b' '; LONGEST as usize + 1]).unwrap();
        assert!(matches!(read_spec(dir.path()), Err(OciError::TooLarge { .. })));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(read_spec(dir.path()), Err(OciError::NoConfig(_))));
    }
}
