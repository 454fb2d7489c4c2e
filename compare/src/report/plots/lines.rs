//! Plots of lines.

use super::axes::{bounds_of, short, ticks};
use super::{Area, CHART, Chart, Drawn, Line, colour, drawn, grid, high_with_legend, legend};
use crate::analysis::Table;
use anyhow::Result;
use plotters::prelude::*;

/// Draws medians over sizes, both on logarithmic scales; `published` are drawn thin.
pub(crate) fn sizes(table: &Table, published: &[Line]) -> Result<Option<String>> {
    let mut lines: Vec<Line> = Vec::new();
    for block in &table.blocks {
        for row in &block.rows {
            let Some(summary) = row.summary.as_ref().filter(|_| block.place > 0.0) else {
                continue;
            };
            match lines.iter_mut().find(|line| line.0 == row.candidate) {
                Some(line) => line.1.push((block.place, summary.median)),
                None => lines.push((row.candidate.clone(), vec![(block.place, summary.median)])),
            }
        }
    }
    curves(&lines, published, &table.series.axis, &table.series.unit)
}

/// Draws lines on logarithmic scales; `published` are drawn thin. `None` where all points have one place.
fn curves(lines: &[Line], published: &[Line], axis: &str, unit: &str) -> Result<Option<String>> {
    let mut lines = lines.to_vec();
    let measured = lines.len();
    lines.extend(published.iter().cloned());
    let own = bounds_of(&lines[..measured]);
    if own.is_none_or(|([first, last], _)| first >= last) {
        return Ok(None);
    }
    let svg = drawn(high_with_legend(lines.len()), |whole| {
        let (area, side) = whole.split_horizontally(CHART);
        log_log(&area, &lines, measured, [axis, unit])?;
        entries(&side, &lines, measured)
    })?;
    Ok(Some(svg))
}

/// Draws medians over measurements, which are evenly spaced whenever they were made. `None` of a single measurement.
pub(crate) fn trend(lines: &[Line], unit: &str) -> Result<Option<String>> {
    let Some(([first, last], [low, high])) = bounds_of(lines).filter(|([first, last], _)| first < last)
    else {
        return Ok(None);
    };
    let (low, high) = (low * 0.8, high * 1.25);
    let svg = drawn(high_with_legend(lines.len()), |whole| {
        let (area, side) = whole.split_horizontally(CHART);
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(
                first - 0.2..last + 0.2,
                (low..high).log_scale().with_key_points(ticks(low, high)),
            )?;
        grid(&mut chart)
            .disable_x_mesh()
            .x_desc("measurement, 1 is the oldest")
            .y_desc(unit)
            .x_label_formatter(&|value| match value {
                between if (between - between.round()).abs() > 1e-6 => String::new(),
                number => short(*number),
            })
            .y_label_formatter(&|value| short(*value))
            .draw()?;
        draw_lines(&mut chart, lines, lines.len())?;
        entries(&side, lines, lines.len())
    })?;
    Ok(Some(svg))
}

/// Draws the phases and their sum over sizes, each in a panel of its own. `None` where all points have one place, or nothing has
/// several phases.
pub(crate) fn panels(table: &Table) -> Result<Option<String>> {
    let mut names: Vec<&str> = Vec::new();
    let rows = || {
        table
            .blocks
            .iter()
            .filter(|block| block.place > 0.0)
            .flat_map(|block| &block.rows)
    };
    for (name, _) in rows()
        .filter(|row| row.phases.len() > 1)
        .flat_map(|row| &row.phases)
    {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names.truncate(3);
    let mut candidates: Vec<&str> = Vec::new();
    for row in rows() {
        if !candidates.contains(&row.candidate.as_str()) {
            candidates.push(&row.candidate);
        }
    }
    let line = |candidate: &str, phase: Option<&str>| -> Line {
        let points = table.blocks.iter().filter_map(|block| {
            let row = block.rows.iter().find(|row| row.candidate == candidate)?;
            let value = match phase {
                Some(phase) => row.phases.iter().find(|(name, _)| name == phase)?.1,
                None => row.summary.as_ref()?.median,
            };
            Some((block.place, value)).filter(|_| block.place > 0.0)
        });
        (candidate.to_owned(), points.collect())
    };
    let lines = |phase: Option<&str>| {
        candidates
            .iter()
            .map(|name| line(name, phase))
            .collect::<Vec<Line>>()
    };
    let whole = lines(None);
    if names.is_empty() || bounds_of(&whole).is_none_or(|([first, last], _)| first >= last) {
        return Ok(None);
    }
    let svg = drawn(high_with_legend(whole.len()).max(620), |area| {
        let (area, side) = area.split_horizontally(CHART + 20);
        let parts = names
            .iter()
            .map(|name| (*name, lines(Some(name))))
            .chain([("all", whole.clone())]);
        for (panel, (name, lines)) in area.split_evenly((2, 2)).iter().zip(parts) {
            log_log(
                panel,
                &lines,
                lines.len(),
                [&table.series.axis, &format!("{name} ({})", table.series.unit)],
            )?;
        }
        entries(&side, &whole, whole.len())
    })?;
    Ok(Some(svg))
}

/// Draws lines on logarithmic scales; those from `thin` on are thin. Nothing is drawn where there are no points.
fn log_log<'b>(area: &Area<'b>, lines: &[Line], thin: usize, [axis, unit]: [&str; 2]) -> Drawn<'b> {
    let Some(([left, right], [low, high])) = bounds_of(lines) else {
        return Ok(());
    };
    let scale = |low: f64, high: f64| {
        let (low, high) = (low * 0.8, high * 1.25);
        (low..high).log_scale().with_key_points(ticks(low, high))
    };
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(scale(left, right), scale(low, high))?;
    grid(&mut chart)
        .x_desc(axis)
        .y_desc(unit)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .draw()?;
    draw_lines(&mut chart, lines, thin)
}

/// Style of the line of a number; those from `thin` on are thin.
fn style(number: usize, thin: usize) -> (ShapeStyle, RGBColor, bool) {
    let is_thin = number >= thin;
    let colour = colour(if is_thin { number - thin } else { number });
    let mixed = colour.mix(if is_thin { 0.8 } else { 1.0 });
    (mixed.stroke_width(if is_thin { 1 } else { 2 }), colour, is_thin)
}

/// Draws lines; those from `thin` on are thin.
pub(super) fn draw_lines<'b, X, Y>(chart: &mut Chart<'_, 'b, X, Y>, lines: &[Line], thin: usize) -> Drawn<'b>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    for (number, (_, points)) in lines.iter().enumerate() {
        let (style, colour, is_thin) = style(number, thin);
        chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        if !is_thin {
            chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
        }
    }
    Ok(())
}

/// Draws the legend of lines.
pub(super) fn entries<'b>(side: &Area<'b>, lines: &[Line], thin: usize) -> Drawn<'b> {
    let entries: Vec<(&str, ShapeStyle)> = (lines.iter().enumerate())
        .map(|(number, line)| (line.0.as_str(), style(number, thin).0))
        .collect();
    legend(side, &entries)
}
