//! The root: propagation, read-only, without pivot_root(2).

use crate::container::{Bundle, in_mount_namespace};
use crate::needs;
use rustix::mount::MountPropagationFlags;
use serde_json::json;

/// The optional fields of `/` in mountinfo, without numbers.
const PROPAGATION: &str = "awk '$5 == \"/\" { for (i = 7; $i != \"-\"; i++) { split($i, a, \":\"); print a[1] } }' /proc/self/mountinfo";

#[test]
fn propagation_of_the_root() {
    needs!();
    for (asked, seen) in [
        ("shared", "shared\n"),
        ("rshared", "shared\n"),
        ("private", ""),
        ("rprivate", ""),
        ("unbindable", "unbindable\n"),
    ] {
        let bundle = Bundle::new(PROPAGATION).with("/linux/rootfsPropagation", json!(asked));
        assert_eq!(bundle.run().as_deref(), Ok(seen), "{asked}");
    }
    let wrong = Bundle::new("true").with("/linux/rootfsPropagation", json!("public"));
    assert_eq!(
        wrong.run().unwrap_err(),
        "rootfsPropagation=public is not supported"
    );
}

#[test]
fn a_host_that_shares_its_mounts() {
    needs!();
    in_mount_namespace(MountPropagationFlags::SHARED, || {
        for (asked, seen) in [
            (json!(null), ""),
            (json!("shared"), "shared\n"),
            (json!("slave"), "master\n"),
            (json!("private"), ""),
        ] {
            let bundle = Bundle::new(PROPAGATION)
                .with("/linux/rootfsPropagation", asked.clone())
                .mount(json!({"destination": "/mnt", "type": "tmpfs", "source": "tmpfs"}));
            let before = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
            assert_eq!(bundle.run().as_deref(), Ok(seen), "{asked}");
            let after = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
            assert_eq!(before, after, "{asked}: something is left, or gone");
        }
    });
}

#[test]
fn a_host_that_shares_its_mounts_and_no_pivot_root() {
    needs!();
    in_mount_namespace(MountPropagationFlags::SHARED, || {
        for (asked, seen) in [
            (json!(null), "master\n"),
            (json!("shared"), "shared\n"),
            (json!("slave"), "master\n"),
        ] {
            let mut bundle = Bundle::new(PROPAGATION).with("/linux/rootfsPropagation", asked.clone());
            bundle.no_pivot = true;
            // On a mount of its own, the bundle does not get its propagation from the mount that it is going to
            // cover.
            rustix::mount::mount_bind(bundle.root(), bundle.root()).unwrap();
            let before = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
            let said = bundle.run();
            let after = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
            rustix::mount::unmount(bundle.root(), rustix::mount::UnmountFlags::DETACH).unwrap();
            assert_eq!(said.as_deref(), Ok(seen), "{asked}");
            assert_eq!(before, after, "{asked}: something is left, or gone");
        }
    });
}

#[test]
fn propagation_of_a_mount() {
    needs!();
    in_mount_namespace(MountPropagationFlags::SHARED, || {
        // The root is a mount of its own, as an engine's is, and shared with the host.
        for (asked, seen) in [
            ("rprivate", ""),
            ("shared", "shared"),
            ("rshared", "shared"),
            ("slave", "master"),
            ("rslave", "master"),
            ("unbindable", "unbindable"),
            ("runbindable", "unbindable"),
        ] {
            let script = PROPAGATION.replace("\"/\"", "\"/mnt\"");
            let bundle = Bundle::new(&script);
            let source = bundle.dir.path().join("source");
            std::fs::create_dir(&source).unwrap();
            let bundle =
                bundle.mount(json!({"destination": "/mnt", "source": source, "options": ["bind", asked]}));
            rustix::mount::mount_bind(bundle.root(), bundle.root()).unwrap();
            let before = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
            let said = bundle.run();
            let after = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
            rustix::mount::unmount(bundle.root(), rustix::mount::UnmountFlags::DETACH).unwrap();
            assert_eq!(said.as_deref().map(str::trim), Ok(seen), "{asked}");
            assert_eq!(before, after, "{asked}: something is left, or gone");
        }
    });
}

#[test]
fn an_unbindable_mount_in_a_shared_root() {
    needs!();
    let script = PROPAGATION.replace("\"/\"", "\"/mnt\"");
    let bundle = Bundle::new(&script)
        .with("/linux/rootfsPropagation", json!("shared"))
        .mount(json!({"destination": "/mnt", "source": "/etc", "options": ["bind", "unbindable"]}));
    assert_eq!(bundle.run().as_deref(), Ok("unbindable\n"));
}

#[test]
fn a_read_only_root_and_writable_mounts() {
    needs!();
    let script = "touch /x 2>&1; touch /mnt/x && echo fine; touch /ro/x 2>&1; touch /ro/sub/x && echo too";
    let bundle = Bundle::new(script)
        .with("/root/readonly", json!(true))
        .mount(json!({"destination": "/mnt", "type": "tmpfs", "source": "tmpfs"}))
        .mount(json!({"destination": "/ro", "type": "tmpfs", "source": "tmpfs", "options": ["ro"]}))
        .mount(json!({"destination": "/ro/sub", "type": "tmpfs", "source": "tmpfs"}));
    assert_eq!(
        bundle.run().as_deref(),
        Ok("touch: /x: Read-only file system\nfine\ntouch: /ro/x: Read-only file system\ntoo\n")
    );
}

#[test]
fn without_pivot_root() {
    needs!();
    let mut bundle =
        Bundle::new("ls /; unshare -mrpf sh -c 'mount -t proc none /proc && echo all' 2>&1; true");
    bundle.no_pivot = true;
    let said = bundle
        .with("/linux/maskedPaths", json!(["/proc/meminfo"]))
        .run()
        .unwrap();
    assert!(said.starts_with("bin\ndev\netc\nmnt\nproc\nsys\ntmp\n"), "{said}");
    assert!(
        said.contains("mount: permission denied"),
        "a new procfs was to be had: {said}"
    );
}

#[test]
fn without_a_mount_namespace() {
    needs!();
    // The test has a mount namespace of its own, because the mounts stay behind.
    in_mount_namespace(MountPropagationFlags::PRIVATE, || {
        let mut bundle = Bundle::new("ls /; readlink /proc/self/ns/mnt");
        let list = bundle.spec["linux"]["namespaces"].as_array_mut().unwrap();
        list.retain(|namespace| namespace["type"] != "mount");
        let said = bundle.run().unwrap();
        let own = std::fs::read_link("/proc/thread-self/ns/mnt").unwrap();
        rustix::mount::unmount(bundle.root(), rustix::mount::UnmountFlags::DETACH).unwrap();
        assert_eq!(
            said,
            format!("bin\ndev\netc\nmnt\nproc\nsys\ntmp\n{}\n", own.display())
        );
    });
}
