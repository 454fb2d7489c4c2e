//! Results of templates, and refused ones.
#![allow(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use serde_json::{Value, json};
use std::time::Duration;
use tote_template::{Format, Template, TemplateError};

fn container() -> Value {
    json!({
        "Id": "0123456789ab",
        "Name": "web",
        "Args": ["nginx", "-g", "daemon off;"],
        "State": { "Running": true, "ExitCode": 0, "Pid": 42, "Error": "" },
        "Config": {
            "Labels": { "b": "2", "a": "1" },
            "Env": ["PATH=/bin", "X=1"],
            "Healthcheck": null
        },
        "NetworkSettings": { "Ports": { "80/tcp": [{ "HostIp": "0.0.0.0", "HostPort": "8080" }], "81/tcp": null } },
        "Ratio": 0.5
    })
}

fn render(template: &str) -> Result<String, TemplateError> {
    Template::parse(template)?.render(&container())
}

#[test]
fn fields_and_text() {
    for (template, expected) in [
        ("", ""),
        ("plain } text {", "plain } text {"),
        ("{{.Name}}", "web"),
        ("{{ .State.Pid }}/{{.State.Running}}", "42/true"),
        ("{{.ID}} {{.Id}}", "0123456789ab 0123456789ab"),
        ("{{.Args}}", "[nginx -g daemon off;]"),
        ("{{.Config.Labels}}", "map[a:1 b:2]"),
        ("{{.Config.Healthcheck}}", "<no value>"),
        ("{{$.Name}}{{with .State}}{{.Pid}}{{$.Name}}{{end}}", "web42web"),
        ("a {{- .Name -}} b", "awebb"),
        ("a {{/* no */}} b {{- /* no */ -}} c", "a  bc"),
        ("{{\"a\\tb\\u00e9\"}}{{`\\n`}}{{'a'}}", "a\tbé\\n97"),
        (
            "{{0x10}} {{-3}} {{1_000}} {{2.5}} {{true}}",
            "16 -3 1000 2.5 true",
        ),
        ("{{(index .NetworkSettings.Ports \"80/tcp\" 0).HostPort}}", "8080"),
    ] {
        assert_eq!(render(template).as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn functions() {
    for (template, expected) in [
        ("{{json .Config.Labels}}", r#"{"a":"1","b":"2"}"#),
        (
            "{{json .Nothing}}{{json .Name}}{{.State.Pid | json}}",
            r#"null"web"42"#,
        ),
        ("{{join .Args \" \"}}", "nginx -g daemon off;"),
        (
            "{{index .Args 0}}{{index .Config.Labels \"b\"}}{{index .Config.Labels \"c\"}}",
            "nginx2",
        ),
        ("{{index .Nothing \"x\"}}", ""),
        (
            "{{upper .Name}}{{lower \"ABC\"}}{{title \"one two\"}}",
            "WEBabcOne Two",
        ),
        ("{{range split \"a,b\" \",\"}}<{{.}}>{{end}}", "<a><b>"),
        ("{{len .Args}} {{len .Name}} {{len .Config.Labels}}", "3 3 2"),
        ("{{println .Name 1}}{{print 1 2 \"a\" \"b\"}}", "web 1\n1 2ab"),
        (
            "{{eq .Name \"x\" \"web\"}} {{ne 1 2}} {{lt 1 2}} {{ge 2 2}} {{eq .Nothing nil}}",
            "true true true true true",
        ),
        (
            "{{and .Name .State.Error}}|{{or .State.Error .Name}}|{{not .Nothing}}",
            "|web|true",
        ),
        ("{{or .Name (index .Args 99)}}", "web"),
        (
            "{{printf \"%-5s|%05d|%q|%.1f|%v|%x|%%|%t|%3d\" .Name 42 \"a\\\"\" 2.25 .Args 255 true 7}}",
            "web  |00042|\"a\\\"\"|2.2|[nginx -g daemon off;]|ff|%|true|  7",
        ),
        ("{{printf \"%d %s\" \"x\"}}", "%!d(x) %!s(MISSING)"),
        (
            "{{pad .Name 1 2}}|{{truncate .Name 2}}|{{slice .Name 1}}|{{slice .Args 0 1}}",
            " web  |we|eb|[nginx]",
        ),
        ("{{.Name | printf \"%s-%s\" \"a\" | upper}}", "A-WEB"),
        (
            "{{.Label \"key\"}}{{.Label \"no\"}}{{\"key\" | .Label}}",
            "valuevalue",
        ),
    ] {
        let methods = json!({ "Label": { "key": "value" } });
        let text =
            Template::parse(template).and_then(|template| template.render_with(&container(), &methods));
        assert_eq!(text.as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn blocks() {
    for (template, expected) in [
        ("{{if .Nothing}}a{{else}}b{{end}}", "b"),
        (
            "{{if .State.Error}}a{{else if .State.Running}}b{{else}}c{{end}}",
            "b",
        ),
        ("{{with .Nothing}}a{{else with .Name}}{{.}}{{end}}", "web"),
        (
            "{{range $i, $x := .Args}}{{if $i}},{{end}}{{$x}}{{end}}",
            "nginx,-g,daemon off;",
        ),
        (
            "{{range $k, $v := .Config.Labels}}{{$k}}={{$v}};{{end}}",
            "a=1;b=2;",
        ),
        ("{{range .Nothing}}a{{else}}none{{end}}", "none"),
        ("{{range 3}}{{.}}{{end}}", "012"),
        (
            "{{range .Args}}{{if eq . \"-g\"}}{{break}}{{end}}{{.}}{{end}}",
            "nginx",
        ),
        (
            "{{range .Args}}{{if eq . \"-g\"}}{{continue}}{{end}}{{.}} {{end}}",
            "nginx daemon off; ",
        ),
        ("{{$x := 1}}{{if true}}{{$x = 2}}{{$x := 3}}{{end}}{{$x}}", "2"),
        (
            "{{range $p, $b := .NetworkSettings.Ports}}{{$p}} -> {{(index $b 0).HostPort}}{{break}}{{end}}",
            "80/tcp -> 8080",
        ),
        ("{{if and .State.Running (eq .State.ExitCode 0)}}up{{end}}", "up"),
    ] {
        assert_eq!(render(template).as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn what_is_refused() {
    for (template, expected) in [
        ("{{.Name", "character 1 of the template: {{ without }}"),
        ("a{{\"b}}", "character 4 of the template: string without end"),
        ("{{/* a", "character 1 of the template: comment without end"),
        (
            "{{}}",
            "character 1 of the template: a missing value is not expected here",
        ),
        (
            "{{.Name | }}",
            "character 9 of the template: a missing value is not expected here",
        ),
        (
            "{{foo .Name}}",
            "character 3 of the template: function \"foo\" is not defined",
        ),
        ("{{$x}}", "character 3 of the template: undefined variable \"$x\""),
        ("{{if .Name}}a", "character 1 of the template: if without end"),
        (
            "{{end}}",
            "character 1 of the template: {{end}} is not expected here",
        ),
        (
            "{{break}}",
            "character 1 of the template: {{break}} is not expected here",
        ),
        (
            "{{.Name)}}",
            "character 8 of the template: \")\" is not expected here",
        ),
        ("{{(.Name}}", "character 3 of the template: bracket without end"),
        (
            "{{define \"a\"}}{{end}}",
            "character 3 of the template: function \"define\" is not defined",
        ),
        ("{{.Nothing}}", "there is no field \"Nothing\""),
        ("{{.Nothing.More}}", "there is no field \"Nothing\""),
        ("{{upper .Nothing}}", "there is no field \"Nothing\""),
        ("{{.Name.More}}", "a string has no field \"More\""),
        ("{{.Name \"x\"}}", "there is no field \"Name\""),
        ("{{index .Args 5}}", "index: index out of range: 5"),
        ("{{eq 1 \"1\"}}", "eq: a number cannot be compared with a string"),
        ("{{len}}", "len: it needs 1 argument, not 0"),
        ("{{range .Name}}{{end}}", "range: can't iterate over a string"),
        ("{{pad \"a\" -1 0}}", "pad: a number is not a count"),
        ("{{printf \"%9999s\" 1}}", "printf: a width of more than 1000"),
    ] {
        let error = render(template).unwrap_err();
        assert_eq!(error.to_string(), expected, "{template}");
    }
}

/// Returns the time that this thread has had a processor: what runs beside the tests does not count.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanos = text.split(' ').next().unwrap();
    Duration::from_nanos(nanos.parse().unwrap())
}

#[test]
fn enemies_are_stopped() {
    let nested = |open: &str, close: &str| format!("{}1{}", open.repeat(3000), close.repeat(3000));
    for template in [
        nested("{{if 1}}", ""),
        format!("{{{{{}}}}}", nested("(", ")")),
        "x".repeat(100_000),
        "{{range 1000000000}}{{range 1000000000}}{{end}}{{end}}".to_owned(),
        "{{$x := \"xxxxxxxxxxxxxxxx\"}}{{range 1000}}{{$x = print $x $x}}{{end}}".to_owned(),
        "{{pad \"x\" 18446744073709551615 18446744073709551615}}".to_owned(),
        "{{range 100000000}}{{split \"aaaaaaaaaaaaaaaaaaaaa\" \"\"}}{{end}}".to_owned(),
    ] {
        let start = processor_time();
        assert!(render(&template).is_err(), "{:.60}", template);
        let taken = processor_time() - start;
        assert!(taken.as_secs() < 10, "{:.60} took {taken:?}", template);
    }
}

#[test]
fn formats() {
    assert!(matches!(Format::parse("json"), Ok(Format::Json)));
    assert!(matches!(Format::parse(" table "), Ok(Format::Table(None))));
    assert!(matches!(Format::parse("tables"), Ok(Format::Lines(_))));
    assert!(Format::parse("table {{.X").is_err());
    let Ok(Format::Table(Some(template))) = Format::parse("table {{.Name}}\\t{{.State.Pid}}") else {
        panic!("no table");
    };
    assert_eq!(template.cells(&container(), &Value::Null).unwrap(), ["web", "42"]);
}
