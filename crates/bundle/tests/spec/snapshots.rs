use super::Case;
use std::path::Path;
use tote_spec::ConsoleSize;

/// Compares with `tests/NAME.json`; with `UPDATE=1` in the environment, writes it.
fn check(name: &str, spec: &tote_spec::Spec) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{name}.json"));
    let text = serde_json::to_string_pretty(spec).unwrap() + "\n";
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(
        text == expected,
        "{name}.json differs; UPDATE=1 rewrites it, git diff shows how"
    );
}

#[test]
fn root_without_options() {
    check("root", &Case::new(&[]).spec());
}

#[test]
fn rootless_with_a_single_id_and_a_terminal() {
    let case = Case::new(&[
        ("tty", "true"),
        ("interactive", "true"),
        ("volume", "/home/me/src:/src:ro"),
    ])
    .rootless(1);
    let spec = case.try_with(|context| {
        context.terminal_size = Some(ConsoleSize {
            height: 24,
            width: 80,
        });
    });
    check("rootless", &spec.unwrap());
}

#[test]
fn many_options() {
    let mut case = Case::new(&[
        ("read-only", "true"),
        ("tmpfs", "/tmp:size=64m,mode=1777,exec"),
        ("memory", "64m"),
        ("cpus", "1.5"),
        ("pids-limit", "100"),
        ("cap-drop", "ALL"),
        ("cap-add", "NET_BIND_SERVICE"),
        ("security-opt", "no-new-privileges"),
        ("ulimit", "nofile=1024:2048"),
        ("sysctl", "net.core.somaxconn=128"),
        ("device", "/dev/fuse:rw"),
        ("env", "MODE=test"),
        ("annotation", "org.example.note=hello"),
        ("oom-score-adj", "500"),
        ("hostname", "web"),
    ])
    .with_char_device("/dev/fuse", 10, 229);
    case.user.uid = 33;
    case.user.gid = 33;
    case.user.home = "/var/www".to_owned();
    case.options.command = vec!["httpd".to_owned(), "-f".to_owned()];
    check("options", &case.spec());
}
