//! `tote graph …`, but for `run`, which is in `run.rs`.

use crate::home::home;
use crate::listing::{describe, each_named, only_ids, show};
use crate::tell::{print, print_made, tell_left, warning};
use crate::words::words;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tote_engine::{Damaged, EngineError, Graph, GraphSource, Home};
use tote_options::Parsed;
use tote_view::size;

/// Opens the state root, with the ids of images' owners.
fn with_ids(parsed: &Parsed) -> Result<Home, EngineError> {
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    Ok(home)
}

pub(crate) fn import(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let source = GraphSource::parse(&words(parsed))?;
    let made = tote_engine::graph_import(&with_ids(parsed)?, &source)?;
    for (package, other) in &made.unmet {
        warning(&format!(
            "package {package} depends on {other}, which is not there"
        ));
    }
    if parsed.flag("quiet") {
        return Ok(ExitCode::SUCCESS);
    }
    let (name, nodes) = (&made.root.name, made.root.nodes.len());
    Ok(print(&format!(
        "{name}: {nodes} nodes, {} of them new, {} written\n",
        made.new,
        size(made.written)
    )))
}

pub(crate) fn build(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let dir = words(parsed).pop().unwrap_or_else(|| ".".to_owned());
    let dir = Path::new(&dir);
    let file = parsed.value("file").map(PathBuf::from);
    let file = file.unwrap_or_else(|| dir.join("Totefile"));
    let name = parsed.value("tag").map(|name| name.to_string_lossy());
    let built = tote_engine::build_totefile(&with_ids(parsed)?, &file, dir, name.as_deref())?;
    if parsed.flag("quiet") {
        return Ok(print_made(&built.image.to_string(), "the image is"));
    }
    let tagged = built.name.map(|name| format!("name:  {name}\n"));
    Ok(print(&format!(
        "node:  {}\nimage: {}\n{}",
        built.node,
        built.image,
        tagged.unwrap_or_default()
    )))
}

pub(crate) fn list(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    if parsed.flag("roots") {
        let roots = tote_engine::graph_roots(&home)?;
        warn_of(&roots.damaged);
        if only_ids(parsed) {
            let whole = roots.whole.iter().map(|(_, root)| &root.name);
            let damaged = roots.damaged.iter().map(|damaged| &damaged.name);
            let names = whole.chain(damaged).map(|name| format!("{name}\n"));
            return Ok(print(&names.collect::<String>()));
        }
        return Ok(show(&tote_view::graph_roots(&roots), parsed));
    }
    let nodes = tote_engine::graph_nodes(&home)?;
    if only_ids(parsed) {
        let ids = nodes.iter().filter_map(|row| row.id);
        return Ok(print(&ids.map(|id| format!("{id}\n")).collect::<String>()));
    }
    Ok(show(&tote_view::nodes(&nodes), parsed))
}

fn warn_of(damaged: &[Damaged]) {
    for damaged in damaged {
        warning(&damaged.told());
    }
}

fn two(parsed: &Parsed) -> (String, String) {
    let mut words = words(parsed).into_iter();
    (words.next().unwrap_or_default(), words.next().unwrap_or_default())
}

pub(crate) fn tree(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let (graph, lines) = tote_engine::graph_tree(&home(parsed)?, &two(parsed).0)?;
    let mut text = String::new();
    for line in lines {
        let why = match &*line.why {
            "" => String::new(),
            why => format!(": {why}"),
        };
        let repeated = if line.is_repeated { " (*)" } else { "" };
        let indent = "  ".repeat(line.depth);
        text += &format!("{indent}{}{why}{repeated}\n", graph.title(&line.id));
    }
    Ok(print(&text))
}

pub(crate) fn why(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let (from, to) = two(parsed);
    let (graph, way) = tote_engine::graph_why(&home(parsed)?, &from, &to)?;
    let Some(way) = way else {
        print(&format!("{from} does not need {to}\n"));
        return Ok(ExitCode::FAILURE);
    };
    let line = |step: &tote_engine::GraphStep| {
        format!(
            "{} -> {}: {}\n",
            graph.title(&step.from),
            graph.title(&step.to),
            step.why
        )
    };
    Ok(print(&way.iter().map(line).collect::<String>()))
}

pub(crate) fn diff(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let (before, after) = two(parsed);
    let (graph, changed) = tote_engine::graph_diff(&home(parsed)?, &before, &after)?;
    let title = |graph: &Graph, id| match id {
        Some(id) => graph.title(&id),
        None => String::new(),
    };
    let line = |change: &tote_engine::GraphChange| {
        let (before, after) = (title(&graph, change.before), title(&graph, change.after));
        match (change.before, change.after) {
            (Some(_), Some(_)) => format!("~ {before} -> {after}\n"),
            (Some(_), None) => format!("- {before}\n"),
            _ => format!("+ {after}\n"),
        }
    };
    Ok(print(&changed.iter().map(line).collect::<String>()))
}

pub(crate) fn usage(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let rows = tote_engine::closure_usage(&home(parsed)?, &words(parsed))?;
    Ok(show(&tote_view::closure_usage(&rows), parsed))
}

/// Text of a removal. With `--force`, something that is not there counts as removed, without a line.
fn removed(parsed: &Parsed, name: &str, done: Result<(), EngineError>) -> Result<String, EngineError> {
    match done {
        Ok(()) => Ok(format!("{name}\n")),
        Err(error) if parsed.flag("force") && tote_engine::is_missing_closure(&error) => Ok(String::new()),
        Err(error) => Err(error),
    }
}

pub(crate) fn remove(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    Ok(each_named(parsed, |name| {
        removed(
            parsed,
            name,
            tote_engine::graph_forget(&home, name, parsed.flag("force")),
        )
    }))
}

pub(crate) fn collect(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let collected = tote_engine::graph_collect(&with_ids(parsed)?)?;
    let printed = print(&format!(
        "removed {} nodes and {} images of closures, {}\n",
        collected.nodes,
        collected.images,
        size(collected.bytes)
    ));
    Ok(tell_left(&collected.errors).unwrap_or(printed))
}

pub(crate) fn profile_set(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let mut nodes = words(parsed);
    let name = nodes.remove(0);
    let number = tote_engine::profile_set(&with_ids(parsed)?, &name, &nodes)?;
    Ok(print(&format!("{number}\n")))
}

pub(crate) fn profile_switch(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let (name, number) = two(parsed);
    let number = match &*number {
        "" => None,
        text => Some(
            text.parse()
                .map_err(|_| EngineError::Usage(format!("{text:?} is not the number of a generation")))?,
        ),
    };
    let number = tote_engine::profile_switch(&home(parsed)?, &name, number)?;
    Ok(print(&format!("{number}\n")))
}

pub(crate) fn profile_list(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let profiles = tote_engine::graph_profiles(&home(parsed)?)?;
    warn_of(&profiles.damaged);
    Ok(show(&tote_view::graph_profiles(&profiles), parsed))
}

pub(crate) fn profile_remove(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    Ok(each_named(parsed, |name| {
        removed(
            parsed,
            name,
            tote_engine::profile_remove(&home, name, parsed.flag("force")),
        )
    }))
}

/// Runs `tote store report`.
pub(crate) fn store_report(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let report = tote_engine::store_report(&with_ids(parsed)?)?;
    if parsed.value("format").is_some_and(|format| format == "json") {
        let value = serde_json::to_value(&report).unwrap_or_default();
        return Ok(describe(parsed, &[value]));
    }
    let code = show(&tote_view::store_report(&report), parsed);
    if parsed.value("format").is_some() {
        return Ok(code);
    }
    let mut text = format!(
        "\nall images: {} as copies, {} as layers, {} with each file once, {} of these also on this machine\n",
        size(report.copied),
        size(report.layered),
        size(report.files),
        size(report.host)
    );
    if parsed.flag("libraries") {
        for row in &report.images {
            for path in &row.unused_libraries {
                text += &format!("{}: {path}\n", row.name);
            }
        }
    }
    Ok(print(&text))
}
