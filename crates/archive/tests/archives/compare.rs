//! Differences between a tree and its copy.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use tote_archive::{Change, Difference, Kind, Status, compare, diff};

/// Formats a difference as `A path`, `C path` or `D path`; in parentheses for a passage, with the first name for a
/// hard link.
fn shown(difference: &Difference) -> String {
    let letter = match difference.status {
        Status::Added => 'A',
        Status::Changed => 'C',
        Status::Deleted => 'D',
    };
    let text = match &difference.change {
        Change::Add(entry) => match &entry.kind {
            Kind::Hardlink { target } => format!("{letter} {} = {target}", entry.path),
            _ => format!("{letter} {}", entry.path),
        },
        change => format!("{letter} {}", change.path()),
    };
    if difference.passage {
        format!("({text})")
    } else {
        text
    }
}

fn compared(lower: &Path, upper: &Path) -> Vec<String> {
    let (lower, upper) = (File::open(lower).unwrap(), File::open(upper).unwrap());
    compare(lower.as_fd(), upper.as_fd())
        .map(|found| shown(&found.unwrap()))
        .collect()
}

fn tree(path: &Path) {
    fs::create_dir_all(path.join("dir/sub")).unwrap();
    fs::create_dir_all(path.join("gone/below")).unwrap();
    fs::write(path.join("gone/below/file"), "x").unwrap();
    for name in ["same", "content", "mode", "dir/file", "dir-", "becomes-dir"] {
        fs::write(path.join(name), "12345").unwrap();
    }
    fs::create_dir(path.join("becomes-file")).unwrap();
    fs::write(path.join("becomes-file/below"), "").unwrap();
    symlink("same", path.join("link")).unwrap();
}

#[test]
fn only_what_changed() {
    let temp = tempfile::tempdir().unwrap();
    let (lower, upper) = (temp.path().join("lower"), temp.path().join("upper"));
    tree(&lower);
    let copied = Command::new("cp")
        .arg("-a")
        .arg(&lower)
        .arg(&upper)
        .status()
        .unwrap();
    assert!(copied.success());
    assert_eq!(
        compared(&lower, &upper),
        [
            "(C /becomes-file)",
            "(C /dir)",
            "(C /dir/sub)",
            "(C /gone)",
            "(C /gone/below)"
        ]
    );

    // Change the content but neither size nor time.
    let before = fs::metadata(upper.join("content")).unwrap();
    fs::write(upper.join("content"), "54321").unwrap();
    let file = File::options().write(true).open(upper.join("content")).unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
    fs::set_permissions(upper.join("mode"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(upper.join("dir/sub"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::remove_dir_all(upper.join("gone")).unwrap();
    fs::remove_file(upper.join("becomes-dir")).unwrap();
    fs::create_dir(upper.join("becomes-dir")).unwrap();
    fs::write(upper.join("becomes-dir/new"), "").unwrap();
    fs::remove_dir_all(upper.join("becomes-file")).unwrap();
    fs::write(upper.join("becomes-file"), "").unwrap();
    fs::remove_file(upper.join("link")).unwrap();
    symlink("else", upper.join("link")).unwrap();
    fs::write(upper.join("new"), "").unwrap();
    fs::hard_link(upper.join("new"), upper.join("new-again")).unwrap();
    assert_eq!(
        compared(&lower, &upper),
        [
            "C /becomes-dir",
            "A /becomes-dir/new",
            "C /becomes-file",
            "C /content",
            "(C /dir)",
            "C /dir/sub",
            "D /gone",
            "C /link",
            "C /mode",
            "A /new",
            "A /new-again = /new",
        ]
    );
}

/// `diff` of an overlay also marks directories that only lead to a change.
#[test]
fn passages_of_an_overlay() {
    let temp = tempfile::tempdir().unwrap();
    let (lower, upper) = (temp.path().join("lower"), temp.path().join("upper"));
    fs::create_dir_all(lower.join("same/changed")).unwrap();
    fs::create_dir_all(upper.join("same/changed/new")).unwrap();
    fs::set_permissions(upper.join("same/changed"), fs::Permissions::from_mode(0o700)).unwrap();
    let (lower, upper) = (File::open(lower).unwrap(), File::open(upper).unwrap());
    let found = diff(Some(lower.as_fd()), upper.as_fd());
    let found: Vec<_> = found.map(|found| shown(&found.unwrap())).collect();
    assert_eq!(found, ["(C /same)", "C /same/changed", "A /same/changed/new"]);
}
