//! The report and the questions that it answers.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Most links that are followed on the way to a path, as in path_resolution(7).
const LINKS: usize = 40;

/// Report of an image that was made smaller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Report {
    /// Image as it was named.
    pub image: String,
    /// Its id.
    pub image_id: String,
    /// Name of the smaller image.
    pub slim: String,
    /// Id of the smaller image; that of the image if nothing was left out.
    pub slim_id: String,
    /// Name of the image with the rest as well; empty where that is not kept.
    pub fat: String,
    /// Its id.
    pub fat_id: String,
    /// Sizes of both in bytes, as lists of images show them.
    pub size_before: u64,
    /// The smaller image's.
    pub size_after: u64,
    /// Percentage of the size that is gone, rounded to a tenth.
    pub reduction: f64,
    /// Number of regular files in the image.
    pub files_before: u64,
    /// Number of regular files in the smaller image.
    pub files_after: u64,
    /// Bytes that the smaller image added to the store's files; all of its files are there already.
    pub bytes_written: u64,
    /// System calls that were made beside those of each program, if rights were asked for.
    pub system_calls: BTreeSet<String>,
    /// Short names of the capabilities that the smaller image did with.
    pub capabilities: BTreeSet<String>,
    /// Ports that programs listened at or sent from, as `80/tcp`.
    pub ports: BTreeSet<String>,
    /// Runs of the image, and then those of the smaller one.
    pub runs: Vec<RunReport>,
    /// Libraries and interpreters that files name and the image lacks: the name, and the file that names it.
    pub missing: Vec<(String, String)>,
    /// Files that stay, sorted by path.
    pub kept: Vec<FileFate>,
    /// Files that do not, sorted by path.
    pub removed: Vec<FileFate>,
}

/// A file of the image, and why it stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct FileFate {
    /// Absolute path.
    pub path: String,
    /// Size in bytes; 0 for further names of a file.
    pub size: u64,
    /// Text of a symbolic link; empty for all else.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub link: String,
    /// Kind of the reason in a word; empty for one that does not stay.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Reason in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A run of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RunReport {
    /// True for a run of the smaller image.
    pub of_slim: bool,
    /// Command; empty for the image's own.
    pub command: String,
    /// How it was observed: `fanotify`, `seccomp`, or nothing.
    pub traced_by: String,
    /// Exit code, if it ended by itself.
    pub exit_code: Option<u8>,
    /// Number of different files that were used.
    pub files: u64,
    /// Probes in their order.
    pub probes: Vec<ProbeReport>,
    /// Duration in seconds.
    pub seconds: f64,
}

/// A probe of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ProbeReport {
    /// Probe, as an option says it.
    pub probe: String,
    /// True if it passed.
    pub passed: bool,
    /// Number of attempts.
    pub attempts: u32,
    /// Beginning of its output, or why it failed.
    pub output: String,
}

/// A part of an image: a file, or a directory of which no file stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Absolute path.
    pub path: String,
    /// Bytes of all its files.
    pub size: u64,
    /// Number of files.
    pub files: u64,
}

impl Report {
    /// Fills in the numbers that follow from the others.
    pub fn reckon(&mut self) {
        self.reduction = match self.size_before {
            0 => 0.0,
            before => {
                let gone = before.saturating_sub(self.size_after);
                #[expect(clippy::cast_precision_loss, reason = "a percentage with one decimal")]
                let percent = gone as f64 * 100.0 / before as f64;
                (percent * 10.0).round() / 10.0
            }
        };
    }

    /// Says why a path stays or does not; `None` if the image has no such file or link. A directory is answered for by the
    /// files below it.
    #[must_use]
    pub fn explain(&self, path: &str) -> Option<String> {
        let path = self.beyond_links(path);
        if let Some(file) = find(&self.kept, &path) {
            return Some(format!("{path} stays: {}", file.reason));
        }
        if find(&self.removed, &path).is_some() {
            return Some(format!(
                "{path} is removed: no run used it, and no file that stays needs it"
            ));
        }
        let below = format!("{}/", path.trim_end_matches('/'));
        let count = |list: &[FileFate]| list.iter().filter(|file| file.path.starts_with(&below)).count();
        match (count(&self.kept), count(&self.removed)) {
            (0, 0) => None,
            (kept, removed) => Some(format!(
                "{path} is a directory: {kept} of its files and links stay, {removed} are removed"
            )),
        }
    }

    /// Follows the links of directories on the way to a path; the path itself may be a link.
    fn beyond_links(&self, path: &str) -> String {
        let mut rest: Vec<String> = names(path).rev().collect();
        let (mut here, mut links) = (String::new(), 0);
        while let Some(name) = rest.pop() {
            if name == ".." {
                here.truncate(here.rfind('/').unwrap_or(0));
                continue;
            }
            let next = format!("{here}/{name}");
            let found = find(&self.kept, &next).or_else(|| find(&self.removed, &next));
            match found.filter(|found| !found.link.is_empty() && !rest.is_empty() && links < LINKS) {
                Some(found) => {
                    links += 1;
                    if found.link.starts_with('/') {
                        here.clear();
                    }
                    rest.extend(names(&found.link).rev());
                }
                None => here = next,
            }
        }
        if here.is_empty() { "/".to_owned() } else { here }
    }

    /// Returns the largest things that are gone: whole directories where nothing of them stays, else files.
    #[must_use]
    pub fn largest_removed(&self, most: usize) -> Vec<Part> {
        let mut held: BTreeMap<&str, ()> = BTreeMap::new();
        for file in &self.kept {
            for dir in above(&file.path) {
                held.insert(dir, ());
            }
        }
        let mut parts: BTreeMap<&str, Part> = BTreeMap::new();
        for file in &self.removed {
            // The highest directory of which nothing stays, but none right below the root.
            let whole = above(&file.path).find(|dir| dir.matches('/').count() > 1 && !held.contains_key(dir));
            let path = whole.unwrap_or(&file.path);
            let part = parts.entry(path).or_insert_with(|| Part {
                path: path.to_owned(),
                size: 0,
                files: 0,
            });
            part.size += file.size;
            part.files += 1;
        }
        let mut parts: Vec<Part> = parts.into_values().collect();
        parts.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.path.cmp(&b.path)));
        parts.truncate(most);
        parts
    }

    /// Returns how many files stay for each kind of reason, with their bytes.
    #[must_use]
    pub fn reasons(&self) -> BTreeMap<&str, (u64, u64)> {
        let mut reasons: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for file in &self.kept {
            let count = reasons.entry(&file.kind).or_default();
            count.0 += 1;
            count.1 += file.size;
        }
        reasons
    }
}

/// Finds the file of a path in a list.
fn find<'a>(list: &'a [FileFate], path: &str) -> Option<&'a FileFate> {
    list.iter().find(|file| file.path == path)
}

fn names(path: &str) -> impl DoubleEndedIterator<Item = String> {
    let names = path.split('/').filter(|name| !matches!(*name, "" | "."));
    names.map(ToOwned::to_owned)
}

/// The directories above a path, the outermost first, without the root.
fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').skip(1).map(|(slash, _)| &path[..slash])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, size: u64, reason: &str) -> FileFate {
        FileFate {
            path: path.to_owned(),
            size,
            kind: reason.to_owned(),
            reason: reason.to_owned(),
            ..FileFate::default()
        }
    }

    fn report() -> Report {
        let mut report = Report {
            size_before: 1000,
            size_after: 125,
            kept: vec![
                file("/usr/bin/sh", 100, "traced"),
                file("/usr/lib/libc.so", 25, "needed"),
            ],
            removed: vec![
                file("/usr/bin/vim", 300, ""),
                file("/usr/share/doc/a/x", 200, ""),
                file("/usr/share/doc/b", 250, ""),
                file("/usr/lib/libx.so", 125, ""),
            ],
            ..Report::default()
        };
        report.reckon();
        report
    }

    #[test]
    fn questions() {
        let report = report();
        assert!((report.reduction - 87.5).abs() < 0.01);
        for (path, answer) in [
            ("/usr/bin/sh", Some("/usr/bin/sh stays: traced")),
            (
                "usr/bin/vim/",
                Some("/usr/bin/vim is removed: no run used it, and no file that stays needs it"),
            ),
            (
                "/usr/bin",
                Some("/usr/bin is a directory: 1 of its files and links stay, 1 are removed"),
            ),
            ("/opt", None),
        ] {
            assert_eq!(report.explain(path).as_deref(), answer, "{path}");
        }
        let largest = report.largest_removed(2);
        let largest: Vec<_> = largest
            .iter()
            .map(|part| (&*part.path, part.size, part.files))
            .collect();
        assert_eq!(largest, [("/usr/share", 450, 2), ("/usr/bin/vim", 300, 1)]);
        assert_eq!(report.reasons()["traced"], (1, 100));
    }

    #[test]
    fn links_on_the_way_are_followed() {
        let mut report = report();
        for (path, target) in [("/bin", "usr/bin"), ("/usr/bin/dash", "sh"), ("/loop", "/loop/x")] {
            report.kept.push(FileFate {
                link: target.to_owned(),
                ..file(path, 0, "link")
            });
        }
        for (path, answer) in [
            ("/bin/sh", Some("/usr/bin/sh stays: traced")),
            ("/bin/../lib/../bin/./sh", None),
            ("/usr/lib/../bin/sh", Some("/usr/bin/sh stays: traced")),
            ("/bin/dash", Some("/usr/bin/dash stays: link")),
            ("/bin", Some("/bin stays: link")),
            ("/loop/y", None),
        ] {
            let found = report.explain(path);
            assert_eq!(found.as_deref().filter(|_| answer.is_some()), answer, "{path}");
        }
    }

    #[test]
    fn reports_are_read_again() {
        let report = report();
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
