//! Namespaces: made, joined, and their order.

use crate::container::Bundle;
use crate::needs;
use rustix::fd::{AsFd as _, AsRawFd as _};
use serde_json::json;

#[test]
fn clocks_of_a_time_namespace() {
    needs!();
    let offsets = json!({"monotonic": {"secs": 7881, "nanosecs": 2_718_281}, "boottime": {"secs": 1337, "nanosecs": 0}});
    let expected = "monotonic 7881 2718281\nboottime 1337 0\n";
    let script = "awk '{ print $1, $2, $3 }' /proc/self/timens_offsets";
    let with = |mut bundle: Bundle| {
        bundle.namespace(json!({"type": "time"}));
        bundle.with("/linux/timeOffsets", offsets.clone())
    };
    assert_eq!(with(Bundle::new(script)).run().as_deref(), Ok(expected));
    assert_eq!(
        with(Bundle::new(script).in_user_namespace()).run().as_deref(),
        Ok(expected)
    );
    let error = Bundle::new(script)
        .with("/linux/timeOffsets", offsets.clone())
        .run()
        .unwrap_err();
    assert!(error.contains("time namespace isn't enabled"), "{error}");
}

#[test]
fn a_user_namespace_of_its_own() {
    needs!();
    let script = "id -u; awk '{ print $1, $2, $3 }' /proc/self/uid_map; touch /tmp/x && stat -c %u /tmp/x; \
        cat /proc/self/oom_score_adj; stat -c %t:%T /dev/null";
    let bundle = Bundle::new(script)
        .in_user_namespace()
        .with("/process/oomScoreAdj", json!(500));
    assert_eq!(bundle.run().as_deref(), Ok("0\n0 100000 65536\n0\n500\n1:3\n"));
}

#[test]
fn a_user_namespace_of_somebody_elses_with_a_network_that_is_not() {
    needs!();
    let map = "0 100000 65536";
    let user = tote_sys::user_namespace_of(map, map).unwrap();
    let network = tote_sys::network_namespace(None).unwrap();
    let own = |fd: &rustix::fd::OwnedFd| {
        let path = format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
        (
            path.clone(),
            std::fs::read_link(path).unwrap().display().to_string(),
        )
    };
    let ((user_path, user_name), (network_path, network_name)) = (own(&user), own(&network));
    let script =
        "readlink /proc/self/ns/user; readlink /proc/self/ns/net; id -u; touch /tmp/x && stat -c %u /tmp/x";
    let mut bundle = Bundle::new(script);
    bundle.give_away();
    bundle.namespace(json!({"type": "user", "path": user_path}));
    bundle.namespace(json!({"type": "network", "path": network_path}));
    assert_eq!(bundle.run(), Ok(format!("{user_name}\n{network_name}\n0\n0\n")));
}

#[test]
fn namespaces_of_the_host_in_a_user_namespace() {
    needs!();
    let script = "readlink /proc/self/ns/net; ls /sys/class >/dev/null && echo sys";
    let mut bundle = Bundle::new(script).in_user_namespace();
    let list = bundle.spec["linux"]["namespaces"].as_array_mut().unwrap();
    list.retain(|namespace| !matches!(namespace["type"].as_str(), Some("network" | "pid")));
    let own = std::fs::read_link("/proc/self/ns/net")
        .unwrap()
        .display()
        .to_string();
    assert_eq!(bundle.run(), Ok(format!("{own}\nsys\n")));
}

#[test]
fn joined_without_a_user_namespace() {
    needs!();
    let network = tote_sys::network_namespace(None).unwrap();
    let path = format!("/proc/{}/fd/{}", std::process::id(), network.as_raw_fd());
    let name = std::fs::read_link(&path).unwrap().display().to_string();
    let mut bundle = Bundle::new("readlink /proc/self/ns/net");
    bundle.namespace(json!({"type": "network", "path": path}));
    assert_eq!(bundle.run(), Ok(format!("{name}\n")));
}

#[test]
fn of_another_kind_than_meant() {
    needs!();
    // If the second were accepted as a mount namespace, the host's mounts would be changed.
    let network = tote_sys::network_namespace(None).unwrap();
    let user = tote_sys::user_namespace_of("0 100000 65536", "0 100000 65536").unwrap();
    for fd in [&network, &user] {
        let path = format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
        for kind in ["ipc", "pid", "mount", "uts", "cgroup", "time"] {
            for mut bundle in [Bundle::new("true"), Bundle::new("true").in_user_namespace()] {
                bundle.namespace(json!({"type": kind, "path": path}));
                let error = bundle.run().unwrap_err();
                assert!(
                    error.to_lowercase().contains("invalid argument"),
                    "{kind}: {error}"
                );
            }
        }
    }
    let kind = tote_sys::namespace_kind(network.as_fd());
    assert_eq!(
        kind,
        Ok(tote_sandbox::clone_flag(tote_spec::NamespaceType::Network))
    );
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(tote_sys::namespace_kind(file.as_fd()).is_err());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "ip(8) makes what is moved")]
fn network_devices() {
    needs!();
    let ip = |args: &str| {
        std::process::Command::new("ip")
            .args(args.split(' '))
            .output()
            .is_ok_and(|output| output.status.success())
    };
    if !ip("link add totetest0 type veth peer name totetest1") {
        println!("skipped: needs ip(8) and veth");
        return;
    }
    assert!(ip("addr add 10.99.7.1/24 dev totetest0"));
    let script = "ip addr show dev inside0 | grep -o -e 'inet [^ ]*' -e '[<,]UP[,>]'";
    let bundle = Bundle::new(script)
        .in_user_namespace()
        .with("/linux/netDevices", json!({"totetest0": {"name": "inside0"}}));
    let said = bundle.run();
    // The peer goes with it, unless it has gone with the namespace.
    ip("link del totetest1");
    assert_eq!(said.as_deref(), Ok(",UP,\ninet 10.99.7.1/24\n"));
}
