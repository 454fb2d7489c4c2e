use super::*;
use serde_json::json;
use tote_bundle::ContainerId;
use tote_engine::container::{Container, State, Status};

fn described(options: &str, state: State) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(Some(dir.path())).unwrap();
    let id = ContainerId::from_bytes([5; 32]);
    let text = format!(
        r#"{{"id":"{id}","name":"web","image":"host","created":1000000001,"options":{options},
            "command":["ls","-l"],"path_and_args":["ls","-l"],"stop_signal":"SIGTERM"}}"#
    );
    let container: Container = serde_json::from_str(&text).unwrap();
    std::fs::create_dir_all(home.container(&id)).unwrap();
    container.write(&home).unwrap();
    state.write(&home, &id).unwrap();
    let found = tote_engine::inspect_object(
        &home,
        &id.as_str()[..7],
        Some(tote_engine::ObjectKind::Container),
        false,
    )
    .unwrap();
    object_details(&home, &found)
}

#[test]
fn dockers_fields() {
    let state = State {
        status: Status::Exited,
        exit_code: 3,
        started_at: 2_000_000_000,
        finished_at: 3_500_000_000,
        ..State::default()
    };
    let options = r#"[["volumes-from","db:ro"],["inherit","volume ro - - 3 vol/inherited"],["expose","80-81"],["domainname","d.e"],
        ["dns-search","."],["dns-option","ndots:2"],["attach","stdin"],["interactive","true"],["storage-opt","size=1g"],
        ["env","A=1"],["env","A=2"],["env","PATH"],["memory","64m"],["restart","on-failure:4"],
        ["volume","/srv:/srv:ro"],["volume","data:/data"],["cap-add","SYS_TIME"],["tmpfs","/run:size=1m"],["mount","type=tmpfs,dst=/t"],
        ["health-cmd","true"],["stop-timeout","7"],["hostname","h"]]"#;
    let value = described(options, state);
    for (pointer, expected) in [
        ("/Name", json!("/web")),
        ("/Created", json!("1970-01-01T00:00:01.000000001Z")),
        ("/Path", json!("ls")),
        ("/Args", json!(["-l"])),
        ("/State/Status", json!("exited")),
        ("/State/Running", json!(false)),
        ("/State/ExitCode", json!(3)),
        ("/State/FinishedAt", json!("1970-01-01T00:00:03.5Z")),
        ("/Config/Env", json!(["A=2"])),
        ("/Config/Cmd", json!(["ls", "-l"])),
        ("/Config/Entrypoint", json!(null)),
        ("/Config/Hostname", json!("h")),
        ("/Config/StopTimeout", json!(7)),
        ("/Config/Healthcheck/Test", json!(["CMD-SHELL", "true"])),
        ("/HostConfig/Memory", json!(64 << 20)),
        (
            "/HostConfig/RestartPolicy",
            json!({ "Name": "on-failure", "MaximumRetryCount": 4 }),
        ),
        ("/HostConfig/Binds", json!(["/srv:/srv:ro", "data:/data"])),
        ("/HostConfig/CpuPercent", json!(0)),
        ("/HostConfig/IOMaximumIOps", json!(0)),
        ("/NetworkSettings/LinkLocalIPv6PrefixLen", json!(0)),
        ("/Config/Domainname", json!("d.e")),
        ("/Config/ExposedPorts", json!({ "80/tcp": {}, "81/tcp": {} })),
        ("/Config/AttachStdin", json!(true)),
        ("/Config/AttachStdout", json!(false)),
        ("/Config/StdinOnce", json!(true)),
        ("/HostConfig/VolumesFrom", json!(["db:ro"])),
        ("/HostConfig/DnsSearch", json!(["."])),
        ("/HostConfig/DnsOptions", json!(["ndots:2"])),
        ("/HostConfig/StorageOpt", json!({ "size": "1g" })),
        ("/Mounts/0/Name", json!("vol")),
        ("/Mounts/0/RW", json!(false)),
        ("/HostConfig/CapAdd", json!(["SYS_TIME"])),
        ("/HostConfig/CapDrop", json!(null)),
        ("/HostConfig/NetworkMode", json!("none")),
        ("/HostConfig/Tmpfs", json!({ "/run": "size=1m" })),
        ("/HostConfig/Mounts", json!([{ "Type": "tmpfs", "Target": "/t" }])),
        ("/Config/CreateCommand/2", json!("--name=web")),
        ("/Mounts/1/Type", json!("bind")),
        ("/Mounts/1/RW", json!(false)),
        ("/Mounts/2/Name", json!("data")),
        ("/Mounts/3/Type", json!("tmpfs")),
        ("/Mounts/3/Destination", json!("/t")),
    ] {
        assert_eq!(value.pointer(pointer), Some(&expected), "{pointer}");
    }
    // docker has these elsewhere, and not at all.
    assert_eq!(value.pointer("/Mounts/4"), None);
    assert_eq!(value.pointer("/HostConfig/Init"), None);
}

#[test]
fn never_is_the_year_one() {
    let value = described("[]", State::default());
    assert_eq!(
        value.pointer("/State/StartedAt"),
        Some(&json!("0001-01-01T00:00:00Z"))
    );
    assert_eq!(value.pointer("/State/Health"), None);
    assert_eq!(
        value.pointer("/HostConfig/RestartPolicy/Name"),
        Some(&json!("no"))
    );
}
