//! Reports for people: Markdown, with every number that a reader needs to question it.

use bench::clock;
use bench::report::{Compared, Report, Row, Verdict};
use bench::scenario::{AsUser, Measure};
use bench::steps::TOTAL;
use bench::timings::{Breakdown, StepRow};

/// Formats the whole report of a scenario, preceded by the breakdowns of steps if there are any.
pub(crate) fn report(report: &Report, breakdowns: &[Breakdown], command: &str) -> String {
    let mut out = format!(
        "# Benchmark: {}\n\n{}\n\nMade by `bench {command}` on {}; how it measures: [benchmarks](../benchmarks.md).\n\n",
        report.scenario,
        report.about,
        clock::utc(report.started)
    );
    for breakdown in breakdowns {
        steps(&mut out, breakdown);
    }
    if !report.comparisons.is_empty() {
        comparisons(&mut out, &report.comparisons);
    }
    candidates(&mut out, &report.candidates);
    machine(&mut out, report);
    problems(&mut out, report);
    commands(&mut out, &report.candidates);
    out
}

fn comparisons(out: &mut String, comparisons: &[Compared]) {
    out.push_str("## Targets and comparisons\n\nRatios are ratios of medians.\n\n");
    let published = comparisons.iter().any(|compared| compared.published.is_some());
    let mut titles = vec!["what", "found", "95% interval", "target", "verdict"];
    titles.extend(published.then_some("published by others"));
    table(out, &titles, if published { "lrrrlr" } else { "lrrrl" });
    for compared in comparisons {
        let quantity = match compared.measure {
            Measure::Wall | Measure::Steps => "ms",
            Measure::PeakRss => "peak MiB",
            Measure::IdlePss => "MB (PSS) for each process that rests",
            Measure::Stamps => "ms from before the first exec to the last",
        };
        let what = match &compared.to {
            Some(to) if compared.measure == Measure::PeakRss => {
                format!("{} / {to}, peak memory", compared.of)
            }
            Some(to) if compared.measure != Measure::Wall => format!("{} / {to}, {quantity}", compared.of),
            Some(to) => format!("{} / {to}", compared.of),
            None if compared.measure == Measure::Steps => {
                format!("{}, ms of: {}", compared.of, compared.steps.join(" + "))
            }
            None => format!("{}, {quantity}", compared.of),
        };
        let verdict = match &compared.verdict {
            Verdict::Met => "met".to_owned(),
            Verdict::Missed => "**missed**".to_owned(),
            Verdict::Undecided => "undecided".to_owned(),
            Verdict::NoTarget => String::new(),
            Verdict::NotMeasured(reason) => format!("not measured: {reason}"),
        };
        let interval = compared
            .interval
            .map(|i| format!("{} to {}", figure(i.low), figure(i.high)));
        let mut cells = vec![
            what,
            compared.found.map(figure).unwrap_or_default(),
            interval.unwrap_or_default(),
            compared
                .at_most
                .map(|limit| format!("≤ {limit:?}"))
                .unwrap_or_default(),
            verdict,
        ];
        if published {
            cells.push(
                compared
                    .published
                    .map(|ratio| format!("{ratio:?}"))
                    .unwrap_or_default(),
            );
        }
        row(out, &cells);
    }
    out.push('\n');
}

/// Formats a number with enough digits to tell small ones apart.
fn figure(value: f64) -> String {
    if value < 0.1 {
        format!("{value:.4}")
    } else {
        format!("{value:.2}")
    }
}

fn candidates(out: &mut String, rows: &[Row]) {
    out.push_str("## Wall time (ms) and peak memory (MiB)\n\n");
    let titles = [
        "candidate",
        "as",
        "n",
        "median",
        "95% interval",
        "min",
        "p95",
        "IQR",
        "best ¾ mean",
        "peak memory",
    ];
    table(out, &titles, "llrrrrrrrr");
    for candidate in rows {
        let mut cells = vec![candidate.name.clone(), user(candidate.as_user).to_owned()];
        match &candidate.wall_ms {
            Some(wall) => {
                cells.push(wall.n.to_string());
                cells.push(format!("{:.2}", wall.median));
                cells.push(format!(
                    "{:.2} to {:.2}",
                    wall.median_interval.low, wall.median_interval.high
                ));
                for value in [wall.min, wall.p95, wall.iqr, wall.best_three_quarters_mean] {
                    cells.push(format!("{value:.2}"));
                }
            }
            None => cells.resize(9, String::new()),
        }
        cells.push(
            candidate
                .peak_rss_mib
                .as_ref()
                .map(|peak| format!("{:.2}", peak.median))
                .unwrap_or_default(),
        );
        row(out, &cells);
    }
    out.push('\n');
}

fn steps(out: &mut String, breakdown: &Breakdown) {
    line(
        out,
        &format!(
            "## {}: {:.0} µs of {:.0} µs wall time explained ({:.0}%)\n",
            breakdown.candidate,
            breakdown.total_us,
            breakdown.wall_us,
            100.0 * breakdown.total_us / breakdown.wall_us
        ),
    );
    table(
        out,
        &["step", "median µs", "min", "p95", "share of wall", "runs"],
        "lrrrrr",
    );
    let share = |us: f64| format!("{:.1}%", 100.0 * us / breakdown.wall_us);
    for StepRow { label, us } in &breakdown.steps {
        let label = if label == TOTAL {
            "**total**".to_owned()
        } else {
            label.clone()
        };
        let [median, min, p95] = [us.median, us.min, us.p95].map(|value| format!("{value:.0}"));
        row(
            out,
            &[label, median, min, p95, share(us.median), us.n.to_string()],
        );
    }
    let outside = breakdown.wall_us - breakdown.total_us;
    row(
        out,
        &[
            "outside the program's own clock".into(),
            format!("{outside:.0}"),
            String::new(),
            String::new(),
            share(outside),
            String::new(),
        ],
    );
    out.push('\n');
}

fn machine(out: &mut String, report: &Report) {
    let machine = &report.machine;
    let load = |load: [f64; 3]| load.map(|value| format!("{value:.2}")).join(" ");
    out.push_str("## Conditions\n\n");
    table(out, &["", ""], "ll");
    let mut fact = |name: &str, value: String| row(out, &[name.to_owned(), value]);
    fact("kernel", machine.kernel.clone());
    fact("CPU", format!("{}, {} cores", machine.cpu, machine.cores));
    fact("memory", format!("{} MiB", machine.memory_mib));
    fact("cgroups", machine.cgroups.to_owned());
    for path in &machine.hidden_mounts {
        fact("hidden from all candidates", path.display().to_string());
    }
    fact("load average before", load(machine.load_before));
    fact("load average after", load(machine.load_after));
    let conditions = report.conditions;
    fact(
        "rounds",
        format!(
            "{} after {} of warm-up",
            conditions.rounds, conditions.warm_up_rounds
        ),
    );
    fact("rounds for memory", conditions.memory_rounds.to_string());
    fact("pause after each run", format!("{} ms", conditions.settle_ms));
    fact("seed", conditions.seed.to_string());
    if let Some(tote) = &report.tote {
        let told = |text: &Option<String>| text.clone().unwrap_or_else(|| "not told".to_owned());
        fact("tote", told(&tote.version));
        fact("tote's revision", told(&tote.revision));
        fact(
            "tote's size",
            format!("{:.2} MiB", tote.bytes as f64 / (1024.0 * 1024.0)),
        );
    }
    for (peer, version) in &report.versions {
        fact(peer, version.clone());
    }
    out.push('\n');
}

fn problems(out: &mut String, report: &Report) {
    let mut lines = Vec::new();
    for candidate in &report.candidates {
        lines.extend(
            candidate
                .skipped
                .iter()
                .map(|reason| format!("{} was not run: {reason}", candidate.name)),
        );
        for (fault, times) in &candidate.faults {
            lines.push(format!("{}, {times} runs: {fault}", candidate.name));
        }
    }
    lines.extend(
        report
            .leaks
            .certain
            .iter()
            .map(|what| format!("left behind: {what}")),
    );
    lines.extend(
        report
            .leaks
            .suspected
            .iter()
            .map(|what| format!("new, perhaps somebody else's: {what}")),
    );
    out.push_str("## Skipped, faulty, left behind\n\n");
    if lines.is_empty() {
        out.push_str("Nothing.\n");
    }
    for problem in lines {
        line(out, &format!("* {}", escape(&problem)));
    }
    out.push('\n');
}

fn commands(out: &mut String, rows: &[Row]) {
    out.push_str("## Commands\n\nWhat stands in brackets is not on the clock.\n\n```text\n");
    for candidate in rows {
        line(
            out,
            &format!(
                "{} ({}): {}",
                candidate.name,
                user(candidate.as_user),
                candidate.command
            ),
        );
    }
    out.push_str("```\n");
}

fn user(as_user: AsUser) -> &'static str {
    match as_user {
        AsUser::Root => "root",
        AsUser::User => "user",
    }
}

fn table(out: &mut String, titles: &[&str], alignment: &str) {
    row(
        out,
        &titles.iter().map(|title| (*title).to_owned()).collect::<Vec<_>>(),
    );
    for side in alignment.chars() {
        out.push_str(if side == 'r' { "|--:" } else { "|---" });
    }
    out.push_str("|\n");
}

fn row(out: &mut String, cells: &[String]) {
    for cell in cells {
        out.push_str("| ");
        out.push_str(&escape(cell));
        out.push(' ');
    }
    out.push_str("|\n");
}

/// Escapes a text of others, such as an error message, so that it ends neither a cell nor a line.
fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::stats::Interval;

    #[test]
    fn cells_cannot_be_broken_out_of() {
        let mut out = String::new();
        row(&mut out, &["a|b".into(), "c\nd".into()]);
        assert_eq!(out, "| a\\|b | c d |\n");
    }

    #[test]
    fn comparisons_say_what_was_found_and_what_was_not() {
        let mut compared = Compared {
            of: "a".into(),
            to: Some("b".into()),
            measure: Measure::Wall,
            steps: Vec::new(),
            at_most: Some(1.0),
            published: None,
            found: Some(0.756),
            interval: Some(Interval { low: 0.7, high: 0.8 }),
            verdict: Verdict::Met,
        };
        let mut out = String::new();
        comparisons(&mut out, std::slice::from_ref(&compared));
        assert!(
            out.contains("| a / b | 0.76 | 0.70 to 0.80 | ≤ 1.0 | met |"),
            "{out}"
        );

        compared.published = Some(13.4);
        out.clear();
        comparisons(&mut out, std::slice::from_ref(&compared));
        assert!(out.contains("| verdict | published by others |"), "{out}");
        assert!(out.contains("| ≤ 1.0 | met | 13.4 |"), "{out}");
        compared.published = None;

        compared.at_most = Some(0.025);
        (compared.found, compared.interval) = (Some(0.0123), Some(Interval { low: 0.01, high: 0.3 }));
        out.clear();
        comparisons(&mut out, std::slice::from_ref(&compared));
        assert!(
            out.contains("| 0.0123 | 0.0100 to 0.30 | ≤ 0.025 | met |"),
            "{out}"
        );

        compared.at_most = Some(1.0);
        compared.to = None;
        compared.measure = Measure::PeakRss;
        compared.found = None;
        compared.interval = None;
        compared.verdict = Verdict::NotMeasured("a needs x".into());
        out.clear();
        comparisons(&mut out, &[compared]);
        assert!(
            out.contains("| a, peak MiB |  |  | ≤ 1.0 | not measured: a needs x |"),
            "{out}"
        );
    }
}
