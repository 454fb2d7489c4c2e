//! Searches work at registries with any of the protocols, and results cannot control a terminal.

use crate::context::Context;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tote_testkit::{FakeRegistry, Reply, manifest};

pub(super) const TESTS: &[Test] = &[
    test("search::a_registry_with_a_search_is_asked", &[], index),
    test("search::another_one_shows_its_catalog", &[], catalog),
    test("search::every_registry_lists_tags", &[], tags),
    test("search::what_strangers_say_is_bounded", &[], strangers),
];

fn tote(cx: &Context, words: &[&str]) -> Result<Output> {
    cx.tote(words).output()
}

/// Makes a registry that gives this answer to searches.
fn searchable(answer: &Value) -> FakeRegistry {
    let registry = FakeRegistry::start();
    let answer = answer.to_string();
    registry
        .hook(move |request| (request.path == "/v1/search").then(|| Reply::status(200).body(answer.clone())));
    registry
}

fn index(cx: &Context) -> Result<()> {
    let long = "A very long description, of which the table has place for a part only";
    let registry = searchable(&json!({ "num_results": 3, "query": "app", "results": [
        { "name": "app", "description": long, "star_count": 1234, "is_official": true, "is_automated": false },
        { "name": "team/app", "description": "Short", "star_count": 7, "is_official": false },
        { "name": "me/app", "description": null, "star_count": 0 },
    ] }));
    let host = registry.host();
    let term = format!("{host}/app");
    let found = tote(cx, &["search", &term])?;
    let width = host.len() + "/team/app".len();
    let row = |name: &str, rest: &str| format!("{:width$}   {rest}\n", format!("{host}/{name}"));
    let table = format!(
        "{:width$}   DESCRIPTION                                     STARS     OFFICIAL\n{}{}{}",
        "NAME",
        row(
            "app",
            "A very long description, of which the table …   1234      [OK]"
        ),
        row("team/app", "Short                                           7"),
        row("me/app", "                                                0"),
    );
    found.quietly()?.prints(&table)?;
    let asked = registry.log();
    let asked = asked.iter().find(|request| request.path == "/v1/search");
    ensure!(
        asked.is_some_and(|request| request.query == "q=app&n=25"),
        "asked: {asked:?}"
    );
    let whole = [
        "search",
        "--no-trunc",
        "--format",
        "{{.Name}} {{.Description}}",
        "--limit",
        "1",
        &term,
    ];
    tote(cx, &whole)?.prints(&format!("{host}/app {long}\n"))?;
    let names = |filters: &[&str]| {
        tote(
            cx,
            &[&["search", "--format", "{{.Name}}", &term], filters].concat(),
        )
    };
    names(&["--filter", "stars=7"])?.prints(&format!("{host}/app\n{host}/team/app\n"))?;
    names(&["-f", "stars=1", "-f", "is-official=false"])?.prints(&format!("{host}/team/app\n"))?;
    names(&["--filter", "is-official=true"])?.prints(&format!("{host}/app\n"))?;
    names(&["--filter", "stars=9999"])?.prints("")?;
    let before = registry.log().len();
    for (option, value) in [
        ("--filter", "stars=many"),
        ("--filter", "name=app"),
        ("--limit", "101"),
        ("--limit", "0"),
    ] {
        names(&[option, value])?.refuses(1, &[value])?;
    }
    names(&["--limit", "some"])?.refuses(125, &["some"])?;
    ensure!(registry.log().len() == before, "it was asked all the same");
    Ok(())
}

fn catalog(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    registry.hook(|request| {
        let page = |names: Value| Reply::status(200).body(json!({ "repositories": names }).to_string());
        match (request.path.as_str(), request.parameter("last")) {
            ("/v2/_catalog", None) => {
                let next = r#"</v2/_catalog?last=b&n=2>; rel="next""#;
                Some(page(json!(["team/application", "other", "my-app"])).header("link", next))
            }
            ("/v2/_catalog", Some("b")) => Some(page(json!(["app", "zz"]))),
            _ => None,
        }
    });
    let host = registry.host();
    let search = |term: &str, options: &[&str]| {
        let term = format!("{host}/{term}");
        tote(
            cx,
            &[
                &["search", "--format", "{{.Name}}{{.Description}}", &term],
                options,
            ]
            .concat(),
        )
    };
    // An exact match comes first.
    search("app", &[])?
        .quietly()?
        .prints(&format!("{host}/app\n{host}/team/application\n{host}/my-app\n"))?;
    search("app", &["--limit", "1"])?.prints(&format!("{host}/team/application\n"))?;
    search("nothing", &[])?.prints("")?;
    let all = search("", &[])?;
    all.exits(0)?;
    ensure!(all.out().lines().count() == 5, "all: {}", all.transcript());
    // A registry without either protocol gives an error.
    let mute = FakeRegistry::start();
    tote(cx, &["search", &format!("{}/app", mute.host())])?
        .refuses(1, &["search", &mute.host(), "not found"])?;
    // An option gives the credentials for a registry that demands them.
    let closed = FakeRegistry::start();
    closed.hook(|request| {
        let known = request.header("authorization") == Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        let challenge = || Reply::status(401).header("www-authenticate", "Basic realm=\"x\"");
        match request.path.as_str() {
            "/v1/search" => Some(Reply::status(404)),
            "/v2/_catalog" if known => Some(Reply::status(200).body(r#"{"repositories":["a/app"]}"#)),
            _ => Some(challenge()),
        }
    });
    let term = format!("{}/app", closed.host());
    tote(cx, &["search", &term])?.refuses(1, &["denied"])?;
    let creds = [
        "search",
        "--creds",
        "Aladdin:open sesame",
        "--format",
        "{{.Name}}",
        &term,
    ];
    tote(cx, &creds)?.prints(&format!("{}/a/app\n", closed.host()))?;
    Ok(())
}

fn tags(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    for tag in ["1", "2", "latest"] {
        registry.manifest("team/app", tag, &manifest(b"{}", &[]));
    }
    let name = format!("{}/team/app", registry.host());
    let width = name.len();
    let table = format!(
        "{:width$}   TAG\n{name}   1\n{name}   2\n{name}   latest\n",
        "NAME"
    );
    tote(cx, &["search", "--list-tags", &name])?
        .quietly()?
        .prints(&table)?;
    tote(
        cx,
        &[
            "search",
            "--list-tags",
            "--limit",
            "2",
            "--format",
            "{{.Tag}}",
            &name,
        ],
    )?
    .prints("1\n2\n")?;
    let json = tote(
        cx,
        &[
            "search",
            "--list-tags",
            "--limit",
            "200",
            "--format",
            "json",
            &name,
        ],
    )?;
    json.exits(0)?
        .has_out(&format!("{{\"Name\":\"{name}\",\"Tag\":\"latest\"}}"))?;
    let tagged = format!("{name}:1");
    tote(cx, &["search", "--list-tags", &tagged])?.refuses(1, &[&tagged, "without a tag"])?;
    tote(cx, &["search", "--list-tags", "--filter", "stars=1", &name])?
        .refuses(1, &["filters are not applicable to list tags result"])?;
    let absent = format!("{}/team/absent", registry.host());
    registry.hook(|request| request.path.contains("absent").then(|| Reply::status(404)));
    tote(cx, &["search", "--list-tags", &absent])?.refuses(1, &[&absent, "not found"])?;
    Ok(())
}

fn strangers(cx: &Context) -> Result<()> {
    let many: Vec<Value> = (0..200)
        .map(|index| json!({ "name": format!("n{index}\u{1b}[2J"), "description": "a\u{1b}]0;x\u{7}\r\nb\u{9b}c", "star_count": -index }))
        .collect();
    let registry = searchable(&json!({ "results": many }));
    let term = format!("{}/x", registry.host());
    for format in ["table", "json", "{{.Name}} {{.Description}}"] {
        let found = tote(cx, &["search", "--format", format, "--limit", "100", &term])?;
        found.exits(0)?;
        let text = found.out();
        ensure!(
            text.chars().all(|letter| !letter.is_control() || letter == '\n'),
            "control characters: {text:?}"
        );
        let rows = text.lines().filter(|line| line.contains("[2J")).count();
        ensure!(rows == 100, "{rows} rows");
    }
    // A page without an end.
    let endless = FakeRegistry::start();
    endless.hook(|request| {
        let page = vec![b' '; 5 << 20];
        request
            .path
            .starts_with("/v")
            .then(|| Reply::status(200).body(page).chunked())
    });
    tote(cx, &["search", &format!("{}/x", endless.host())])?.refuses(1, &["longer than 4194304 bytes"])?;
    // A catalog that leads to another host, or in a circle.
    let circle = FakeRegistry::start();
    circle.hook(|request| {
        let next = if request.query.contains("again") {
            "<http://127.0.0.1:1/v2/_catalog>; rel=next"
        } else {
            "</v2/_catalog?again>; rel=next"
        };
        let page = || {
            Reply::status(200)
                .body(r#"{"repositories":["x"]}"#)
                .header("link", next)
        };
        (request.path == "/v2/_catalog").then(page)
    });
    let term = format!("{}/x", circle.host());
    tote(cx, &["search", "--format", "{{.Name}}", &term])?.prints(&format!("{term}\n{term}\n"))?;
    ensure!(circle.count("GET", "/v2/_catalog") == 2, "it was followed");
    Ok(())
}
