use super::{TIME, Tar, add_image, options, store};
use crate::share::HostFiles;
use crate::{Depth, ShareHost, Store};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// Makes a directory that stands for the host's root, with files of that mode, and a store beside it that links
/// them.
fn with_host(files: &[(&str, u32, &[u8])]) -> Option<(tempfile::TempDir, Store)> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root, for only root may link files of others");
        return None;
    }
    let (dir, mut store) = store();
    let host = dir.path().join("host");
    for (name, mode, content) in files {
        let path = host.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(*mode))
            .unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(TIME))
            .unwrap();
    }
    let device = dir.path().metadata().unwrap().dev();
    store.objects.host = HostFiles::below(&host, ShareHost::HardLink, device);
    Some((dir, store))
}

fn inode(path: &Path) -> u64 {
    path.metadata().unwrap().ino()
}

#[test]
fn a_file_of_the_host_is_the_object() {
    let (small, large) = (vec![1; 10_000], vec![2; 3 << 20]);
    let Some((dir, store)) = with_host(&[
        ("usr/lib/small", 0o644, &small),
        ("usr/lib/large", 0o644, &large),
        ("usr/lib/other", 0o644, &small),
        ("usr/bin/writable", 0o664, &small),
        ("usr/bin/set-id", 0o4755, &small),
        ("etc/small", 0o644, &small),
    ]) else {
        return;
    };
    let layer = Tar::default()
        .file("usr/lib/small", &small)
        .file("usr/lib/large", &large)
        .file("usr/lib/other", &[3; 10_000])
        .entry(b'0', "usr/bin/writable", 0o664, "", &small)
        .entry(b'0', "usr/bin/set-id", 0o4755, "", &small)
        .entry(b'0', "etc/small", 0o640, "", &small)
        .end();
    let image = add_image(&store, &[&layer]).unwrap();
    let sizes = store.layer(&image.layers()[0]).unwrap().unwrap().sizes;
    assert_eq!(sizes.host, (small.len() + large.len()) as u64);
    let tree = store.tree(&image).unwrap();
    for (name, shared) in [
        ("usr/lib/small", true),
        ("usr/lib/large", true),
        ("usr/lib/other", false),
        ("usr/bin/writable", false),
        ("usr/bin/set-id", false),
        ("etc/small", false),
    ] {
        let host = dir.path().join("host").join(name);
        assert_eq!(inode(&tree.path().join(name)) == inode(&host), shared, "{name}");
    }
    assert!(store.verify(Depth::Contents).unwrap().is_whole());
    // A change to the host's file cannot be prevented, but it is found.
    std::fs::write(dir.path().join("host/usr/lib/small"), vec![9; 10_000]).unwrap();
    assert_eq!(store.verify(Depth::Contents).unwrap().damaged.len(), 1);
}

#[test]
fn a_link_out_of_the_host_is_not_followed() {
    let content = vec![1; 10_000];
    let Some((dir, store)) = with_host(&[("etc/private", 0o644, &content), ("usr/lib/x", 0o644, b"")]) else {
        return;
    };
    std::os::unix::fs::symlink("../../etc/private", dir.path().join("host/usr/lib/link")).unwrap();
    let image = add_image(&store, &[&Tar::default().file("usr/lib/link", &content).end()]).unwrap();
    assert_eq!(store.layer(&image.layers()[0]).unwrap().unwrap().sizes.host, 0);
}

#[test]
fn reflinks_are_tried_and_given_up() {
    let (dir, _) = store();
    let mut store = Store::open(&dir.path().join("store"), options()).unwrap();
    let host = dir.path().join("host");
    std::fs::create_dir_all(host.join("usr")).unwrap();
    std::fs::write(host.join("usr/a"), vec![1; 10_000]).unwrap();
    let device = dir.path().metadata().unwrap().dev();
    store.objects.host = HostFiles::below(&host, ShareHost::Reflink, device);
    let image = add_image(&store, &[&Tar::default().file("usr/a", &[1; 10_000]).end()]).unwrap();
    let tree = store.tree(&image).unwrap();
    // With or without shared blocks, the file is another inode with the right content.
    assert_eq!(std::fs::read(tree.path().join("usr/a")).unwrap(), vec![1; 10_000]);
    assert_ne!(inode(&tree.path().join("usr/a")), inode(&host.join("usr/a")));
    assert!(store.verify(Depth::Contents).unwrap().is_whole());
}
