//! Repositories of git as directories: the commit of a reference, and its files below the build's own directory.

use super::error::GitFailure;
use super::git::Git;
use super::workspace::{Workspace, make_dir, next_in};
use super::{BuildFault, BuildRequest, RepositoryFault, inside};
use crate::EngineError;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tote_build::{Repository, is_commit};
use tote_state::record::is_there;
use tote_sys::present;

/// Limit of nested directories.
const DEPTH_MAX: usize = 256;

/// Commit to which a repository's reference refers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundCommit {
    /// Full name of the reference; empty if the commit itself was given.
    reference: String,
    /// Name of the commit.
    pub commit: String,
    /// Name of the tag's own object, if it has one.
    tag: Option<String>,
}

/// Files of a repository.
#[derive(Debug)]
pub(crate) struct Checkout {
    /// Requested directory.
    pub root: OwnedFd,
    /// Name of the commit.
    pub commit: String,
}

/// Fetcher of repositories for a build.
#[derive(Debug)]
pub(crate) struct Fetcher<'a> {
    request: &'a BuildRequest,
    /// Directory for this fetcher alone.
    dir: PathBuf,
}

impl<'a> Fetcher<'a> {
    pub(crate) fn new(request: &'a BuildRequest, workspace: &Workspace) -> Result<Self, EngineError> {
        let all = workspace.path().join("repositories");
        make_dir(&all, 0o700)?;
        let dir = next_in(&all)?;
        make_dir(&dir, 0o700)?;
        Ok(Self { request, dir })
    }

    fn git<'b>(&'b self, repository: &'b Repository) -> Result<Git<'b>, EngineError> {
        Git::new(repository, &self.dir, &self.request.secrets, &self.request.agents)
    }

    /// Finds the wanted commit, by asking the remote unless the address names it.
    pub(crate) fn find(&self, repository: &Repository) -> Result<FoundCommit, EngineError> {
        let found = match repository.commit() {
            Some(commit) => FoundCommit {
                reference: String::new(),
                commit: commit.to_owned(),
                tag: None,
            },
            None => self.ask(repository)?,
        };
        let wanted = repository.checksum.as_deref().unwrap_or_default();
        let is_wanted = |name: &String| name.starts_with(wanted);
        if is_wanted(&found.commit) || found.tag.as_ref().is_some_and(is_wanted) {
            return Ok(found);
        }
        Err(BuildFault::Git(RepositoryFault::Commit {
            url: repository.to_string(),
            expected: wanted.to_owned(),
            actual: found.commit,
        })
        .into())
    }

    fn ask(&self, repository: &Repository) -> Result<FoundCommit, EngineError> {
        let git = self.git(repository)?;
        let remote = &*repository.remote;
        let wanted = &*repository.reference;
        let lines = if wanted.is_empty() {
            git.run(&self.dir, &["ls-remote", "--symref", "--", remote, "HEAD"])?
        } else {
            let of_tag = format!("{wanted}^{{}}");
            git.run(&self.dir, &["ls-remote", "--", remote, wanted, &of_tag])?
        };
        let found = if wanted.is_empty() {
            head(&lines)
        } else {
            named(&lines, wanted)
        };
        Ok(found.ok_or_else(|| {
            BuildFault::Git(RepositoryFault::Git {
                url: repository.to_string(),
                why: "the repository does not have that reference, or no commit".to_owned(),
                kind: GitFailure::Other,
            })
        })?)
    }

    /// Fetches and checks out a commit. git executes nothing from the repository.
    pub(crate) fn fetch(
        &self,
        repository: &Repository,
        found: &FoundCommit,
    ) -> Result<Checkout, EngineError> {
        let git = self.git(repository)?;
        let tree = self.dir.join("tree");
        make_dir(&tree, 0o755)?;
        let format = match found.commit.len() {
            64 => "--object-format=sha256",
            _ => "--object-format=sha1",
        };
        git.run(&tree, &["init", "--quiet", format])?;
        // Addresses of submodules may be relative to this one.
        git.run(&tree, &["config", "remote.origin.url", &repository.remote])?;
        bring(&git, repository, found, &tree)?;
        git.run(
            &tree,
            &["checkout", "--quiet", "--force", "--detach", &found.commit],
        )?;
        let has_submodules = repository.submodules && is_there(&tree.join(".gitmodules"))?;
        if has_submodules {
            let words = [
                "submodule",
                "--quiet",
                "update",
                "--init",
                "--recursive",
                "--depth=1",
            ];
            git.run_shallow(&tree, &words)?;
        }
        let time = match repository.commit_times {
            true => Some(time_of(&git, &tree, &found.commit)?),
            false => None,
        };
        let own = tree.join(".git");
        if repository.keeps_git_dir() {
            conceal(&own, &repository.remote, 0).map_err(EngineError::file("rewrite", &own))?;
        } else {
            tote_sys::remove_tree(&own).map_err(EngineError::file("remove", &own))?;
        }
        let root = super::view::open(&tree, OFlags::RDONLY);
        let root = root.map_err(EngineError::file("open", &tree))?;
        let settling = Settling {
            forgets_git: has_submodules && !repository.keeps_git_dir(),
            time,
        };
        settling
            .below(&root, 0)
            .map_err(EngineError::file("settle", &tree))?;
        Ok(Checkout {
            root: directory_of(repository, root)?,
            commit: found.commit.clone(),
        })
    }
}

/// Removes the password of an address from git's files in this directory, and in those of its submodules, whose addresses may be
/// relative to it. Also removes the records of fetches.
///
/// # Errors
/// Those of the file system: a password that could not be removed must not come into an image.
fn conceal(git_dir: &Path, remote: &str, depth: usize) -> std::io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(rustix::io::Errno::NAMETOOLONG.into());
    }
    let config = git_dir.join("config");
    if let Some(text) = present(std::fs::read(&config))?
        && let (Some(secret), Some(shown)) = (user(remote), user(&tote_build::redacted(remote)))
    {
        // Values of the file may have backslashes before these.
        let escaped = secret.replace('\\', "\\\\").replace('"', "\\\"");
        let text = replaced(&text, escaped.as_bytes(), shown.as_bytes());
        std::fs::write(&config, replaced(&text, secret.as_bytes(), shown.as_bytes()))?;
    }
    tote_sys::remove_tree(&git_dir.join("logs"))?;
    present(std::fs::remove_file(git_dir.join("FETCH_HEAD")))?;
    submodules(&git_dir.join("modules"), remote, depth + 1)
}

/// Does [`conceal`] in each of git's directories below `modules`. A submodule has a directory by its name, in which there may be slashes, and
/// which may be that of a directory of git's own, such as `hooks`: `HEAD` tells what is a repository.
fn submodules(dir: &Path, remote: &str, depth: usize) -> std::io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(rustix::io::Errno::NAMETOOLONG.into());
    }
    let Some(entries) = present(std::fs::read_dir(dir))? else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        let path = entry.path();
        if present(std::fs::symlink_metadata(path.join("HEAD")))?.is_some() {
            conceal(&path, remote, depth + 1)?;
        } else {
            submodules(&path, remote, depth + 1)?;
        }
    }
    Ok(())
}

/// Returns the user and the password of an address, with what stands around them.
fn user(address: &str) -> Option<String> {
    let authority = address.split_once("://")?.1.split('/').next()?;
    Some(format!("//{}@", authority.rsplit_once('@')?.0))
}

/// Replaces a text in bytes, which need not be text: names of submodules are whatever the repository says.
fn replaced(bytes: &[u8], wanted: &[u8], other: &[u8]) -> Vec<u8> {
    let mut written = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(wanted.len()).position(|window| window == wanted) {
        written.extend_from_slice(&rest[..at]);
        written.extend_from_slice(other);
        rest = &rest[at + wanted.len()..];
    }
    written.extend_from_slice(rest);
    written
}

/// Fetches the commit: by its reference if it has one, by its name if the server supports that, otherwise with the
/// whole history.
fn bring(
    git: &Git<'_>,
    repository: &Repository,
    found: &FoundCommit,
    tree: &Path,
) -> Result<(), EngineError> {
    let remote = &*repository.remote;
    let fetch = [
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-recurse-submodules",
        "--update-head-ok",
    ];
    if !found.reference.is_empty() {
        let refspec = format!("+{0}:{0}", found.reference);
        git.run_shallow(
            tree,
            &[&fetch[..], &["--depth=1", "--", remote, &refspec]].concat(),
        )?;
        if git.has(tree, &found.commit)? {
            return Ok(());
        }
    }
    let by_name = git.run_shallow(
        tree,
        &[&fetch[..], &["--depth=1", "--", remote, &found.commit]].concat(),
    );
    if by_name.is_ok() && git.has(tree, &found.commit)? {
        return Ok(());
    }
    let mut all = fetch.to_vec();
    if is_there(&tree.join(".git/shallow"))? {
        all.push("--unshallow");
    }
    all.extend([
        "--",
        remote,
        "+refs/heads/*:refs/remotes/origin/*",
        "+refs/tags/*:refs/tags/*",
    ]);
    git.run(tree, &all)?;
    match git.has(tree, &found.commit)? {
        true => Ok(()),
        false => Err(BuildFault::Git(RepositoryFault::Git {
            url: repository.to_string(),
            why: format!("no branch and no tag has the commit {}", found.commit),
            kind: GitFailure::Other,
        })
        .into()),
    }
}

/// Finds the default branch in the output of `ls-remote --symref`.
fn head(lines: &str) -> Option<FoundCommit> {
    let mut reference = String::new();
    let mut commit = None;
    for (what, name) in lines.lines().filter_map(|line| line.split_once('\t')) {
        match what.strip_prefix("ref: ") {
            Some(branch) if name == "HEAD" && branch.starts_with("refs/") => {
                branch.clone_into(&mut reference)
            }
            None if name == "HEAD" && is_commit(what) => commit = Some(what.to_owned()),
            _ => {}
        }
    }
    Some(FoundCommit {
        reference,
        commit: commit?,
        tag: None,
    })
}

/// Finds the commit of a name in the output of `ls-remote`: a full reference takes precedence over a branch, and a
/// branch over a tag.
fn named(lines: &str, wanted: &str) -> Option<FoundCommit> {
    let known: Vec<(&str, &str)> = lines.lines().filter_map(|line| line.split_once('\t')).collect();
    let of = |name: &str| {
        let found = known.iter().find(|(_, known)| *known == name);
        found
            .map(|(commit, _)| (*commit).to_owned())
            .filter(|commit| is_commit(commit))
    };
    for start in ["refs/", "refs/heads/", "refs/tags/"] {
        let reference = format!("{start}{}", wanted.strip_prefix(start).unwrap_or(wanted));
        let Some(object) = of(&reference) else { continue };
        let (commit, tag) = match of(&format!("{reference}^{{}}")) {
            Some(commit) => (commit, Some(object)),
            None => (object, None),
        };
        return Some(FoundCommit {
            reference,
            commit,
            tag,
        });
    }
    None
}

fn time_of(git: &Git<'_>, tree: &Path, commit: &str) -> Result<i64, EngineError> {
    let text = git.run(tree, &["show", "--no-patch", "--format=%ct", commit])?;
    Ok(text.trim().parse().unwrap_or(0))
}

/// Opens the requested directory. A link in the path is an error, because it could lead out of the repository, or to
/// another of its directories.
fn directory_of(repository: &Repository, root: OwnedFd) -> Result<OwnedFd, EngineError> {
    if repository.subdir.is_empty() {
        return Ok(root);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let found = inside::open_straight(&root, repository.subdir.as_bytes(), flags);
    Ok(found.map_err(|errno| {
        BuildFault::Git(RepositoryFault::Subdirectory {
            url: repository.to_string(),
            source: errno.into(),
        })
    })?)
}

/// Changes to files that git has made.
struct Settling {
    /// True if `.git` files, which submodules have, are removed; git never checks out files of that name.
    forgets_git: bool,
    /// Time for each file, in seconds since 1970.
    time: Option<i64>,
}

impl Settling {
    fn below(&self, dir: &OwnedFd, depth: usize) -> Result<(), rustix::io::Errno> {
        if !self.forgets_git && self.time.is_none() {
            return Ok(());
        }
        if depth > DEPTH_MAX {
            return Err(rustix::io::Errno::NAMETOOLONG);
        }
        for entry in rustix::fs::Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let kind = FileType::from_raw_mode(stat.st_mode);
            if self.forgets_git && name.to_bytes() == b".git" && kind == FileType::RegularFile {
                rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
                continue;
            }
            if kind == FileType::Directory {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let child = rustix::fs::openat(dir, name, flags, Mode::empty())?;
                self.below(&child, depth + 1)?;
            }
            if let Some(time) = self.time {
                let time = Timespec {
                    tv_sec: time,
                    tv_nsec: 0,
                };
                let times = Timestamps {
                    last_access: time,
                    last_modification: time,
                };
                rustix::fs::utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    #[test]
    fn a_password_is_in_no_file_of_gits() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let remote = "https://me:hu\"sh@git.example/app.git";
        let plain = "url = https://me:hu\"sh@git.example/lib.git\n";
        let escaped = "url = \"https://me:hu\\\"sh@git.example/lib.git\"\n";
        for repository in [
            "",
            "modules/hooks",
            "modules/info/refs",
            "modules/one/modules/objects",
        ] {
            std::fs::create_dir_all(at(repository).join("logs")).unwrap();
            for name in ["HEAD", "FETCH_HEAD", "logs/HEAD"] {
                std::fs::write(at(repository).join(name), plain).unwrap();
            }
            // The name of a submodule may be any bytes.
            let config = [
                b"[submodule \"\xff\xfe\"]\n",
                plain.as_bytes(),
                escaped.as_bytes(),
            ]
            .concat();
            std::fs::write(at(repository).join("config"), config).unwrap();
        }
        std::fs::write(at("modules/one/HEAD"), "").unwrap();
        conceal(dir.path(), remote, 0).unwrap();
        for repository in [
            "",
            "modules/hooks",
            "modules/info/refs",
            "modules/one/modules/objects",
        ] {
            let text = std::fs::read(at(repository).join("config")).unwrap();
            let shown = String::from_utf8_lossy(&text);
            assert!(
                !shown.contains("sh@") && shown.contains("@git.example"),
                "{repository}: {shown}"
            );
            assert!(text.windows(2).any(|bytes| bytes == b"\xff\xfe"), "{repository}");
            for name in ["FETCH_HEAD", "logs"] {
                assert!(
                    !at(repository).join(name).try_exists().unwrap(),
                    "{repository}/{name}"
                );
            }
        }
        // A file that cannot be read is an error: it may have the password.
        std::fs::remove_file(at("config")).unwrap();
        std::fs::create_dir(at("config")).unwrap();
        conceal(dir.path(), remote, 0).unwrap_err();
    }

    #[test]
    fn the_default_branch() {
        let lines = format!("ref: refs/heads/main\tHEAD\n{ONE}\tHEAD\n");
        let found = head(&lines).unwrap();
        assert_eq!((&*found.reference, &*found.commit), ("refs/heads/main", ONE));
        // A detached HEAD has no branch.
        assert_eq!(head(&format!("{ONE}\tHEAD\n")).unwrap().reference, "");
        for lines in ["", "x\tHEAD\n", "ref: refs/heads/main\tHEAD\n"] {
            assert_eq!(head(lines), None);
        }
    }

    #[test]
    fn names_of_references() {
        let lines = format!("{ONE}\trefs/heads/v1\n{TWO}\trefs/tags/v1\n{ONE}\trefs/tags/v1^{{}}\n");
        let found = named(&lines, "v1").unwrap();
        assert_eq!(
            (&*found.reference, &*found.commit, found.tag),
            ("refs/heads/v1", ONE, None)
        );
        for wanted in ["tags/v1", "refs/tags/v1"] {
            let found = named(&lines, wanted).unwrap();
            let tag = found.tag.as_deref();
            assert_eq!(
                (&*found.reference, &*found.commit, tag),
                ("refs/tags/v1", ONE, Some(TWO))
            );
        }
        // The server's answers match patterns: a longer name with the same end is another reference.
        assert_eq!(named(&format!("{ONE}\trefs/heads/a/v1\n"), "v1"), None);
        assert_eq!(named("x\trefs/heads/v1\n", "v1"), None);
    }
}
