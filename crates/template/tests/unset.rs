//! Fields that JSON leaves out, as Go's types print them.

use serde_json::json;
use tote_template::{Template, TemplateError, Unset};

const FIELDS: &[(&str, Unset)] = &[
    ("Health", Unset::Pointer),
    ("Labels", Unset::Map),
    ("Networks", Unset::Map),
    ("Binds", Unset::List),
    ("Name", Unset::Text),
    ("Count", Unset::Number),
    ("On", Unset::Flag),
];

fn rendered(template: &str) -> Result<String, TemplateError> {
    let value = json!({
        "Binds": null,
        "Labels": { "a": "b" },
        "Mounts": [{ "Type": "bind" }, { "Type": "volume", "Name": "v" }],
        "Mount": { "Type": "bind", "Source": "/s", "Destination": "/d", "Mode": "", "RW": true, "Propagation": "rprivate" },
        "Other": null,
        "Policy": { "MaximumRetryCount": 3, "Name": "on-failure" },
        "Ports": { "80/tcp": {} },
    });
    Template::parse(template)?.render_typed(&value, FIELDS)
}

#[test]
fn each_prints_as_its_type() {
    for (template, expected) in [
        ("{{.Health}}", "<nil>"),
        ("{{.Networks}}", "map[]"),
        ("{{.Binds}}", "[]"),
        ("{{.Ports}}", "map[80/tcp:{}]"),
        ("{{.Policy}}", "{on-failure 3}"),
        ("{{.Mount}}", "{bind  /s /d   true rprivate}"),
        ("[{{.Name}}]", "[]"),
        ("{{.Count}}", "0"),
        ("{{.On}}", "false"),
        (
            "{{json .Health}}{{json .Networks}}{{json .Binds}}",
            "nullnullnull",
        ),
        ("{{json .Name}}{{json .Count}}{{json .On}}", "\"\"0false"),
        ("{{.Labels.a}}", "b"),
        ("{{.Labels.c}}", "<no value>"),
        ("{{.Networks.bridge.IPAddress}}", "<no value>"),
        ("{{range .Mounts}}{{.Type}}:{{.Name}};{{end}}", "bind:;volume:v;"),
        ("{{range .Binds}}x{{else}}none{{end}}", "none"),
        ("{{range .Health}}x{{else}}none{{end}}", "none"),
        ("{{if .Health}}x{{else}}none{{end}}", "none"),
        ("{{with .Labels.c}}x{{else}}none{{end}}", "none"),
        ("{{len .Binds}}{{len .Networks}}", "00"),
        ("{{join .Binds \",\"}}", ""),
        ("{{upper .Name}}", ""),
        ("{{.Other}}", "<no value>"),
    ] {
        assert_eq!(rendered(template).as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn what_nobody_knows_is_an_error() {
    for template in [
        "{{.Nothing}}",
        "{{.Health.Status}}",
        "{{(index .Mounts 0).Nothing}}",
    ] {
        assert!(rendered(template).is_err(), "{template}");
    }
}
