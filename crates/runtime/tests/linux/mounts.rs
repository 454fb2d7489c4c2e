//! Mounts: options, places, sources, copies, id maps.

use crate::container::{Bundle, in_mount_namespace, mode};
use crate::needs;
use serde_json::json;
use std::os::unix::fs::{lchown, symlink};

const FLAGS: &str = "awk '$5 ~ \"^/mnt\" { print $5, $6 }' /proc/self/mountinfo";

#[test]
fn recursive_attributes_and_plain_ones() {
    needs!();
    let of = |options: serde_json::Value| {
        Bundle::new(FLAGS)
            .mount(json!({"destination": "/tmp/a", "type": "tmpfs", "source": "x", "options": ["nosuid"]}))
            .mount(json!({"destination": "/tmp/a/b", "type": "tmpfs", "source": "x", "options": ["noexec"]}))
            .with_bind("/tmp/a", "/mnt", &options)
            .run()
            .unwrap()
    };
    for (options, seen) in [
        (
            json!(["rbind"]),
            "/mnt rw,nosuid,relatime\n/mnt/b rw,noexec,relatime\n",
        ),
        (
            json!(["rbind", "ro"]),
            "/mnt ro,relatime\n/mnt/b rw,noexec,relatime\n",
        ),
        (
            json!(["rbind", "rro"]),
            "/mnt ro,nosuid,relatime\n/mnt/b ro,noexec,relatime\n",
        ),
        (
            json!(["rbind", "rro", "rw"]),
            "/mnt ro,relatime\n/mnt/b ro,noexec,relatime\n",
        ),
        (
            json!(["rbind", "rnoatime", "rnodiratime"]),
            "/mnt rw,nosuid,noatime,nodiratime\n/mnt/b rw,noexec,noatime,nodiratime\n",
        ),
        (
            json!(["bind", "strictatime", "nosymfollow"]),
            "/mnt rw,nosymfollow\n",
        ),
        (json!(["bind", "dev"]), "/mnt rw,relatime\n"),
    ] {
        assert_eq!(of(options.clone()), seen, "{options}");
    }
}

impl Bundle {
    /// Adds a bind of a path inside, which the host sees below the root.
    fn with_bind(self, source: &str, destination: &str, options: &serde_json::Value) -> Self {
        let source = format!("{}{source}", self.root().display());
        self.mount(json!({"destination": destination, "source": source, "options": options}))
    }
}

#[test]
fn a_user_namespace_keeps_what_is_locked() {
    needs!();
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("m");
    std::fs::create_dir(&source).unwrap();
    let refused = "operation not permitted";
    for (options, expected) in [
        (json!(["bind", "noexec"]), Ok("/mnt ro,nosuid,noexec,relatime\n")),
        (json!(["bind", "rw"]), Err(refused)),
        (json!(["bind", "noatime"]), Err(refused)),
    ] {
        let source = source.clone();
        in_mount_namespace(rustix::mount::MountPropagationFlags::PRIVATE, move || {
            let flags = rustix::mount::MountFlags::RDONLY | rustix::mount::MountFlags::NOSUID;
            rustix::mount::mount("x", &source, "tmpfs", flags, None).unwrap();
            let seen = Bundle::new(FLAGS)
                .in_user_namespace()
                .mount(json!({"destination": "/mnt", "source": source, "options": options}))
                .run();
            match (&seen, expected) {
                (Ok(flags), Ok(expected)) => assert_eq!(flags, expected),
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
                _ => panic!("{seen:?}, not {expected:?}"),
            }
        });
    }
}

#[test]
fn places_are_made_as_the_source_is() {
    needs!();
    let bundle = Bundle::new("cat /etc/hosts; stat -c %F /etc/hosts /new/dir/x; readlink /etc/hosts");
    let file = bundle.dir.path().join("file");
    std::fs::write(&file, "content\n").unwrap();
    symlink("/jump/baz/hosts", bundle.root().join("etc/hosts")).unwrap();
    symlink("../tmp/foo/bar", bundle.root().join("jump")).unwrap();
    let dir = bundle.dir.path().to_owned();
    let bundle = bundle
        .mount(json!({"destination": "/etc/hosts", "source": file, "options": ["bind", "ro"]}))
        .mount(json!({"destination": "new/dir/x", "source": dir, "options": ["bind"]}));
    assert_eq!(
        bundle.run().as_deref(),
        Ok("content\nsymbolic link\ndirectory\n/jump/baz/hosts\n")
    );
    assert!(
        bundle
            .root()
            .join("tmp/foo/bar/baz/hosts")
            .metadata()
            .unwrap()
            .is_file()
    );
}

#[test]
fn links_lead_nowhere_else() {
    needs!();
    let bundle = Bundle::new("true");
    std::fs::create_dir(bundle.root().join("bad")).unwrap();
    symlink("/bad", bundle.root().join("proc")).unwrap();
    let error = bundle.run().unwrap_err();
    assert!(error.contains("must be mounted on ordinary directory"), "{error}");

    let looped =
        Bundle::new("true").mount(json!({"destination": "/x/y", "type": "tmpfs", "source": "tmpfs"}));
    symlink("/y", looped.root().join("x")).unwrap();
    symlink("/x", looped.root().join("y")).unwrap();
    let error = looped.run().unwrap_err();
    assert!(error.contains("symbolic links"), "{error}");
}

/// Files in a new tmpfs are created in it directly, but not once another mount covers it.
#[test]
fn a_new_tmpfs_that_is_covered_gets_nothing_more() {
    needs!();
    let tmpfs = |at: &str| json!({"destination": at, "type": "tmpfs", "source": "x"});
    // Every bundle has a tmpfs at /dev before these.
    let seen = Bundle::new("ls -d /dev/[bc] /mnt/*; mount | awk '$3 ~ \"^/mnt\" { print $3 }'")
        .mount(tmpfs("/dev/b"))
        .mount(tmpfs("/dev"))
        .mount(tmpfs("/dev/c"))
        .mount(json!({"destination": "/dev/null", "source": "/dev/null", "options": ["bind"]}))
        .mount(tmpfs("/mnt"))
        .mount(tmpfs("/mnt/d"))
        .mount(tmpfs("/mnt/d/e"))
        .with_bind("/mnt/d", "/mnt/f", &json!(["rbind"]))
        .run()
        .unwrap();
    assert_eq!(
        seen,
        "/dev/c\n/mnt/d\n/mnt/f\n/mnt\n/mnt/d\n/mnt/d/e\n/mnt/f\n/mnt/f/e\n"
    );
}

#[test]
fn nothing_is_mounted_over_proc() {
    needs!();
    let of = |mount| Bundle::new("true").mount(mount).run().unwrap_err();
    let error = of(json!({"destination": "/proc/self/attr", "type": "tmpfs", "source": "tmpfs"}));
    assert!(error.contains("because it is inside /proc"), "{error}");
    let error = of(json!({"destination": "/proc/../proc/", "type": "tmpfs", "source": "tmpfs"}));
    assert!(error.contains("is not of type proc"), "{error}");
    let error = of(json!({"destination": "/proc", "source": "/tmp", "options": ["bind"]}));
    assert!(error.contains("only a procfs"), "{error}");
    let fine = Bundle::new("cat /proc/uptime")
        .mount(json!({"destination": "/proc/uptime", "source": "/dev/null", "options": ["bind"]}));
    assert_eq!(fine.run().as_deref(), Ok(""));
}

#[test]
fn tmpfs_takes_after_its_place() {
    needs!();
    let bundle =
        Bundle::new("stat -c %a /t /new /explicit /up; stat -c '%a %u %F' /up/d /up/d/f /up/l; cat /up/d/f");
    for name in ["t", "explicit", "up", "up/d"] {
        std::fs::create_dir(bundle.root().join(name)).unwrap();
    }
    std::fs::write(bundle.root().join("up/d/f"), "copied\n").unwrap();
    symlink("d/f", bundle.root().join("up/l")).unwrap();
    lchown(bundle.root().join("up/d/f"), Some(7), Some(8)).unwrap();
    mode(&bundle.root().join("t"), 0o1710);
    mode(&bundle.root().join("explicit"), 0o710);
    mode(&bundle.root().join("up"), 0o755);
    mode(&bundle.root().join("up/d"), 0o777);
    mode(&bundle.root().join("up/d/f"), 0o4755);
    let tmpfs = |path: &str, options| json!({"destination": path, "type": "tmpfs", "source": "tmpfs", "options": options});
    let bundle = bundle
        .mount(tmpfs("/t", json!([])))
        .mount(tmpfs("/new", json!(["rw"])))
        .mount(tmpfs("/explicit", json!(["mode=1500"])))
        .mount(tmpfs("/up", json!(["tmpcopyup"])));
    assert_eq!(
        bundle.run().as_deref(),
        Ok("1710\n1777\n1500\n755\n777 0 directory\n4755 7 regular file\n777 0 symbolic link\ncopied\n")
    );
}

#[test]
fn an_overlay_with_more_than_fits_into_an_option() {
    needs!();
    let bundle = Bundle::new("cat /mnt/a /mnt/b; echo new > /mnt/c");
    let dir = |name: &str| {
        let dir = bundle.dir.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        dir
    };
    let long = "x".repeat(150);
    let (a, b) = (dir(&format!("a:{long}")), dir(&format!("b\\{long}")));
    std::fs::write(a.join("a"), "of a\n").unwrap();
    std::fs::write(b.join("b"), "of b\n").unwrap();
    let (upper, work) = (dir("upper"), dir("work"));
    let escaped = |path: &std::path::Path| {
        path.display()
            .to_string()
            .replace('\\', "\\\\")
            .replace(':', "\\:")
    };
    let lower = format!("lowerdir={}:{}", escaped(&a), escaped(&b));
    let rest = format!("upperdir={},workdir={}", upper.display(), work.display());
    let mount = json!({"destination": "/mnt", "type": "overlay", "source": "overlay", "options": [lower, rest, "nodev"]});
    assert_eq!(bundle.mount(mount).run().as_deref(), Ok("of a\nof b\n"));
}

#[test]
fn id_mapped_mounts() {
    needs!();
    let of = |bundle: Bundle, extra: serde_json::Value, options: serde_json::Value| {
        let source = bundle.dir.path().join("source");
        std::fs::create_dir(&source).unwrap();
        std::fs::write(source.join("f"), "").unwrap();
        lchown(source.join("f"), Some(1), Some(2)).unwrap();
        let mut mount = json!({"destination": "/mnt", "source": source, "options": options});
        for (key, value) in extra.as_object().unwrap() {
            mount[key] = value.clone();
        }
        bundle.mount(mount).run()
    };
    let map = json!([{"containerID": 0, "hostID": 100_000, "size": 65536}]);
    let maps = json!({"uidMappings": map, "gidMappings": map});
    let script = "stat -c %u:%g /mnt/f";
    let (plain, none) = (json!(["bind"]), json!({}));
    assert_eq!(
        of(Bundle::new(script), maps.clone(), plain.clone()).unwrap(),
        "100001:100002\n"
    );
    let user = || Bundle::new(script).in_user_namespace();
    assert_eq!(of(user(), maps, plain.clone()).unwrap(), "1:2\n");
    assert_eq!(of(user(), none.clone(), plain).unwrap(), "65534:65534\n");
    assert_eq!(
        of(user(), none.clone(), json!(["bind", "idmap"])).unwrap(),
        "1:2\n"
    );
    let error = of(Bundle::new(script), none, json!(["bind", "idmap"])).unwrap_err();
    assert!(error.contains("must have both uid and gid mappings"), "{error}");
}

#[test]
fn a_user_namespace_gets_what_only_root_may_open() {
    needs!();
    let bundle = Bundle::new("cat /mnt/f; cat /tmp/again/f").in_user_namespace();
    let hidden = bundle.dir.path().join("hidden");
    std::fs::create_dir_all(hidden.join("dir")).unwrap();
    std::fs::write(hidden.join("dir/f"), "seen\n").unwrap();
    mode(&hidden, 0o700);
    let bundle = bundle
        .mount(json!({"destination": "/mnt", "source": hidden.join("dir"), "options": ["bind"]}))
        .with_bind("/mnt", "/tmp/again", &json!(["rbind"]));
    assert_eq!(bundle.run().as_deref(), Ok("seen\nseen\n"));
}

#[test]
fn masks_and_read_only_paths() {
    needs!();
    let script = "ls /secret; cat /file; grep -c secret /proc/self/mounts; touch /keep/x 2>&1; \
        stat -c %d /secret /other | awk '{ if (NR > 1 && $1 != last) print \"differ\"; last = $1 }'";
    let bundle = Bundle::new(script)
        .with(
            "/linux/maskedPaths",
            json!(["/secret", "/secret/", "/file", "/other", "/missing"]),
        )
        .with("/linux/readonlyPaths", json!(["/keep", "/missing"]));
    for name in ["secret", "other", "keep"] {
        std::fs::create_dir(bundle.root().join(name)).unwrap();
        std::fs::write(bundle.root().join(name).join("f"), "x").unwrap();
    }
    std::fs::write(bundle.root().join("file"), "x").unwrap();
    assert_eq!(
        bundle.run().as_deref(),
        Ok("1\ntouch: /keep/x: Read-only file system\n")
    );
}
