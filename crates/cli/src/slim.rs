//! `tote slim`.

use crate::commands::SLIM_OWN;
use crate::home::home;
use crate::listing::describe;
use crate::run::given;
use crate::tell::{failure, print, print_made, say, visible, warning};
use crate::words::{values, words};
use std::io::IsTerminal as _;
use std::process::ExitCode;
use tote_engine::{
    EngineError, Image, RequestError, RunOptions, SlimError, SlimProbe, SlimReport, SlimRequest, SlimStep,
    Slimmed, WholeFile, parse_http_probe, parse_pattern, parse_time,
};
use tote_options::Parsed;
use tote_view::size;

/// Number of removed things that are printed.
const LARGEST: usize = 10;

/// Runs `tote slim`.
pub(crate) fn slim(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let mut request = request(parsed)?;
    let home = home(parsed)?;
    request.name_of_image = crate::remote::present::present(parsed, &home, &request.name_of_image)?;
    let shows = std::io::stderr().is_terminal() && !parsed.flag("quiet");
    let mut tell = |step: SlimStep<'_>| {
        if shows {
            say(&progress(step));
        }
    };
    let made = tote_engine::slim(&home, request, &mut tell, &mut |text| warning(&text))?;
    if let Some(file) = parsed.value("html") {
        WholeFile::put("html", file.as_ref(), &made.report.page())?;
    }
    if let (Some(file), Some(profile)) = (parsed.value("seccomp-profile"), &made.profile) {
        WholeFile::put("seccomp-profile", file.as_ref(), profile)?;
    }
    Ok(tell_of(parsed, &made))
}

/// Runs `tote slim diff`.
pub(crate) fn diff(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let names = words(parsed);
    let (mut text, name) = (String::new(), |at: usize| {
        names.get(at).map_or("", String::as_str)
    });
    tote_engine::slim_diff(&home, name(0), name(1), &mut |changed| {
        text += &crate::change::line(&changed);
    })?;
    Ok(print(&text))
}

fn tell_of(parsed: &Parsed, made: &Slimmed) -> ExitCode {
    if parsed.value("format").is_some() {
        return match serde_json::to_value(&made.report) {
            Ok(report) => describe(parsed, &[report]),
            Err(error) => failure(&format!("cannot print the report: {error}"), None, 1),
        };
    }
    if parsed.flag("quiet") {
        return print_made(&made.id.to_string(), "the smaller image is");
    }
    let mut text = summary(&made.report);
    if let Some(file) = parsed.value("seccomp-profile") {
        text += &rights(&made.report, &file.to_string_lossy());
    }
    let code = print(&text);
    let mut lines = String::new();
    for path in values(parsed, "explain") {
        let answer = made.report.explain(&path);
        lines += &answer.unwrap_or_else(|| format!("{path} is not in the image"));
        lines.push('\n');
    }
    match &*lines {
        "" => code,
        lines => print(lines),
    }
}

fn request(parsed: &Parsed) -> Result<SlimRequest, EngineError> {
    let own: Vec<&str> = SLIM_OWN
        .iter()
        .flat_map(|group| group.options)
        .map(|option| option.long)
        .collect();
    let mut given = given(parsed)?;
    given.retain(|(option, _)| !own.contains(&option.as_str()));
    let mut options = RunOptions::default();
    for (option, value) in &given {
        options.set(option, value)?;
    }
    let mut words = words(parsed).into_iter();
    let name_of_image = words.next().unwrap_or_default();
    if !matches!(Image::parse(&name_of_image)?, Image::Stored(_)) {
        return Err(SlimError::NotStored(name_of_image).into());
    }
    options.command = words.collect();
    let text = |option: &str| {
        parsed
            .value(option)
            .map(|value| value.to_string_lossy().into_owned())
    };
    let excludes = values(parsed, "exclude-pattern");
    let excludes: Result<Vec<_>, _> = excludes.iter().map(|text| parse_pattern(text)).collect();
    let mut include_from = Vec::new();
    for file in values(parsed, "include-from") {
        include_from.extend(listed(&file)?);
    }
    let probe_timeout = parsed
        .setting("probe-timeout")
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    Ok(SlimRequest {
        name_of_image,
        name: text("tag"),
        given,
        options,
        also: values(parsed, "also").iter().map(|line| command(line)).collect(),
        probes: probes(parsed)?,
        run_for: text("run-for")
            .map(|time| parse_time("run-for", &time))
            .transpose()?,
        probe_timeout: parse_time("probe-timeout", &probe_timeout)?,
        include_paths: values(parsed, "include-path"),
        include_bins: values(parsed, "include-bin"),
        include_from,
        include_shell: parsed.flag("include-shell"),
        excludes: excludes?,
        keep_metadata: parsed.flag("keep-metadata"),
        show_output: parsed.flag("show-clogs"),
        keeps_rest: !parsed.flag("no-fat"),
        from_misses: parsed.flag("from-misses"),
        rights: parsed.value("seccomp-profile").is_some(),
        learned: tote_engine::Learned::default(),
    })
}

/// Returns the probes in the order in which they were given.
fn probes(parsed: &Parsed) -> Result<Vec<SlimProbe>, EngineError> {
    let mut probes = Vec::new();
    for (option, value) in parsed.values() {
        let value = value.to_string_lossy().into_owned();
        match option.long {
            "http-probe" => probes.push(SlimProbe::Http(parse_http_probe(&value)?)),
            "exec" => probes.push(SlimProbe::Exec(value)),
            "probe" => probes.push(SlimProbe::Command(value)),
            _ => {}
        }
    }
    Ok(probes)
}

/// Splits a command at its spaces, or reads it as a list in JSON.
fn command(line: &str) -> Vec<String> {
    let list = serde_json::from_str::<Vec<String>>(line);
    list.unwrap_or_else(|_| line.split_whitespace().map(ToOwned::to_owned).collect())
}

/// Reads a list of paths; empty lines and lines that begin with # are skipped.
fn listed(file: &str) -> Result<Vec<String>, EngineError> {
    let text = std::fs::read_to_string(file).map_err(|source| {
        EngineError::Request(RequestError::File {
            option: "include-from",
            attempt: "read",
            path: file.into(),
            source,
        })
    })?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(ToOwned::to_owned).collect())
}

fn progress(step: SlimStep<'_>) -> String {
    let of = |number: usize, count: usize| match count {
        1 => String::new(),
        _ => format!(" ({number} of {count})"),
    };
    match step {
        SlimStep::Runs(number, count) => format!("Running the image{}\n", of(number, count)),
        SlimStep::Analyses => "Looking for what its programs need\n".to_owned(),
        SlimStep::Verifies(number, count) => format!("Running the smaller image{}\n", of(number, count)),
        SlimStep::Named(name) => format!("Tagged {}\n", visible(name)),
    }
}

/// Formats the rights with which the smaller image did what the image does.
fn rights(report: &SlimReport, file: &str) -> String {
    let capabilities: String = report
        .capabilities
        .iter()
        .map(|name| format!(" --cap-add {name}"))
        .collect();
    let ports: Vec<&str> = report.ports.iter().map(String::as_str).collect();
    let mut text = format!(
        "enough rights:\n    --security-opt seccomp={} --cap-drop ALL{capabilities}\n",
        visible(file)
    );
    if !ports.is_empty() {
        text += &format!("ports: {}\n", ports.join(" "));
    }
    text
}

/// Formats the report for people.
fn summary(report: &SlimReport) -> String {
    let mut text = format!(
        "{} is {:.1} % smaller than {}\n",
        report.slim, report.reduction, report.image
    );
    if report.slim_id == report.image_id {
        text = format!(
            "{} has nothing to remove; {} is the same image\n",
            report.image, report.slim
        );
    }
    text += &format!(
        "before: {} in {} files\n",
        size(report.size_before),
        report.files_before
    );
    text += &format!(
        "after:  {} in {} files\n",
        size(report.size_after),
        report.files_after
    );
    if !report.fat.is_empty() {
        text += &format!("whole:  {}, for --slim-fallback and debug --tools\n", report.fat);
    }
    text += "kept:\n";
    for (kind, (files, bytes)) in report.reasons() {
        text += &format!("    {:>9}  {files} {kind}\n", size(bytes));
    }
    let largest = report.largest_removed(LARGEST);
    if !largest.is_empty() {
        text += "largest things removed:\n";
    }
    for part in largest {
        let files = match part.files {
            1 => String::new(),
            files => format!(" ({files} files)"),
        };
        text += &format!("    {:>9}  {}{files}\n", size(part.size), part.path);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_further_runs() {
        for (line, words) in [
            ("app --version", &["app", "--version"][..]),
            ("[\"sh\", \"-c\", \"a b\"]", &["sh", "-c", "a b"]),
            ("  ", &[]),
        ] {
            assert_eq!(command(line), words, "{line}");
        }
    }
}
