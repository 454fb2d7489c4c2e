//! Plots as SVG. Text and axes have the colour of the text around them, so that they suit light and dark pages.

mod axes;
mod lines;

pub(crate) use self::lines::{panels, sizes, trend};

use self::axes::{bounds, short, ticks};
use self::lines::{draw_lines, entries};
use crate::analysis::{Block, Row};
use anyhow::{Result, anyhow};
use bench::stats::quantile;
use plotters::chart::MeshStyle;
use plotters::coord::ranged1d::{SegmentValue, ValueFormatter};
use plotters::prelude::*;

/// Width of all plots in the units of SVG.
const WIDTH: u32 = 800;

/// Width of the part of a plot that is beside the legend.
const CHART: u32 = 570;

/// Colours of series, told apart on light and dark ground and by most people who see few colours.
const COLOURS: [RGBColor; 14] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(150, 140, 40),
    RGBColor(128, 128, 128),
    RGBColor(120, 80, 200),
    RGBColor(200, 50, 80),
    RGBColor(60, 170, 60),
    RGBColor(160, 110, 70),
    RGBColor(0, 170, 180),
    RGBColor(230, 130, 110),
];

/// A bar of phases: label, and phases with milliseconds.
pub(crate) type Bar = (String, Vec<(String, f64)>);

/// A line: label, and points.
pub(crate) type Line = (String, Vec<(f64, f64)>);

fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

/// Draws stacked bars. `None` where there is nothing to draw.
pub(crate) fn bars(bars: &[Bar], unit: &str) -> Result<Option<String>> {
    let longest = bars
        .iter()
        .map(|(_, phases)| phases.iter().map(|phase| phase.1).sum::<f64>())
        .fold(0.0, f64::max);
    if bars.is_empty() || longest <= 0.0 {
        return Ok(None);
    }
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in bars.iter().flat_map(|(_, phases)| phases) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let labels: Vec<&str> = bars.iter().map(|(label, _)| label.as_str()).collect();
    let svg = drawn(rows_high(bars.len()), |whole| {
        let (area, side) = whole.split_horizontally(CHART);
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .x_label_area_size(36)
            .y_label_area_size(label_width(&labels))
            .build_cartesian_2d(0.0..longest * 1.05, (0..last(bars.len())).into_segmented())?;
        mesh(&mut chart, &labels, unit)?;
        for (number, name) in names.iter().enumerate() {
            let filled = colour(number).filled();
            let pieces = bars.iter().enumerate().filter_map(|(place, (_, phases))| {
                let at = phases.iter().position(|phase| phase.0 == *name)?;
                let begin: f64 = phases[..at].iter().map(|phase| phase.1).sum();
                let mut piece = Rectangle::new(
                    [
                        (begin, SegmentValue::Exact(row(place))),
                        (begin + phases[at].1, SegmentValue::Exact(row(place) + 1)),
                    ],
                    filled,
                );
                piece.set_margin(3, 3, 0, 0);
                Some(piece)
            });
            chart.draw_series(pieces)?;
        }
        let entries: Vec<(&str, ShapeStyle)> = names
            .iter()
            .enumerate()
            .map(|(number, name)| (*name, colour(number).stroke_width(8)))
            .collect();
        legend(&side, &entries)?;
        Ok(())
    })?;
    Ok(Some(svg))
}

/// Draws a box plot of all sound runs on a logarithmic scale: the quartiles, a dot for the median, and lines to both ends.
pub(crate) fn boxes(block: &Block, unit: &str) -> Result<Option<String>> {
    let rows: Vec<&Row> = block.rows.iter().filter(|row| !row.values.is_empty()).collect();
    let all = rows
        .iter()
        .flat_map(|row| &row.values)
        .copied()
        .filter(|value| *value > 0.0);
    let Some((low, high)) = bounds(all) else {
        return Ok(None);
    };
    // The best is at the top, as in bars, and its colour is that of its line.
    let labels: Vec<&str> = rows.iter().rev().map(|row| row.candidate.as_str()).collect();
    let svg = drawn(rows_high(rows.len()), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(36)
            .y_label_area_size(label_width(&labels))
            .build_cartesian_2d(
                (low as f32 * 0.8..high as f32 * 1.25)
                    .log_scale()
                    .with_key_points(
                        ticks(low * 0.8, high * 1.25)
                            .into_iter()
                            .map(|tick| tick as f32)
                            .collect(),
                    ),
                (0..last(rows.len())).into_segmented(),
            )?;
        mesh(&mut chart, &labels, unit)?;
        for (number, one) in rows.iter().enumerate() {
            let place = rows.len() - 1 - number;
            let mut values = one.values.clone();
            values.sort_unstable_by(f64::total_cmp);
            let at = |share: f64| quantile(&values, share) as f32;
            let middle = |value: f32| (value, SegmentValue::CenterOf(row(place)));
            let style = colour(number).stroke_width(2);
            let mut quartiles = Rectangle::new(
                [
                    (at(0.25), SegmentValue::Exact(row(place))),
                    (at(0.75), SegmentValue::Exact(row(place) + 1)),
                ],
                style,
            );
            quartiles.set_margin(6, 6, 0, 0);
            chart.draw_series([quartiles])?;
            let ends = [[at(0.0), at(0.25)], [at(0.75), at(1.0)]];
            chart.draw_series(ends.map(|end| PathElement::new(end.map(middle), style)))?;
            chart.draw_series([Circle::new(middle(at(0.5)), 4, colour(number).filled())])?;
        }
        Ok(())
    })?;
    Ok(Some(svg))
}

/// Draws the share of runs that were done by a time.
pub(crate) fn distribution(block: &Block, unit: &str) -> Result<Option<String>> {
    let lines: Vec<Line> = (block.rows.iter())
        .filter(|row| row.values.len() > 1)
        .map(|row| {
            let mut values = row.values.clone();
            values.sort_unstable_by(f64::total_cmp);
            let share = |place: usize| (place + 1) as f64 / values.len() as f64;
            (
                row.candidate.clone(),
                values
                    .iter()
                    .enumerate()
                    .map(|(place, value)| (*value, share(place)))
                    .collect(),
            )
        })
        .take(COLOURS.len())
        .collect();
    let Some((low, high)) = bounds(lines.iter().flat_map(|line| &line.1).map(|point| point.0)) else {
        return Ok(None);
    };
    let svg = drawn(high_with_legend(lines.len()), |whole| {
        let (area, side) = whole.split_horizontally(CHART);
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .x_label_area_size(36)
            .y_label_area_size(48)
            .build_cartesian_2d(
                (low * 0.9..high * 1.1)
                    .log_scale()
                    .with_key_points(ticks(low * 0.9, high * 1.1)),
                0.0..1.02,
            )?;
        grid(&mut chart)
            .x_desc(unit)
            .x_label_formatter(&|value| short(*value))
            .y_desc("share of runs")
            .draw()?;
        draw_lines(&mut chart, &lines, lines.len())?;
        entries(&side, &lines, lines.len())
    })?;
    Ok(Some(svg))
}

type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

/// Begins the axes and the grid of a plot, which look the same everywhere.
fn grid<'a, 'c, 'b, X, Y>(chart: &'c mut Chart<'a, 'b, X, Y>) -> MeshStyle<'a, 'c, X, Y, SVGBackend<'b>>
where
    X: Ranged + ValueFormatter<X::ValueType>,
    Y: Ranged + ValueFormatter<Y::ValueType>,
{
    let mut grid = chart.configure_mesh();
    grid.max_light_lines(1)
        .bold_line_style(BLACK.mix(0.15))
        .axis_style(BLACK)
        .label_style(font());
    grid
}

/// Draws a legend from the top of an area.
fn legend<'b>(area: &Area<'b>, entries: &[(&str, ShapeStyle)]) -> Drawn<'b> {
    for (number, (label, style)) in entries.iter().enumerate() {
        let y = row(number) * 17 + 18;
        area.draw(&PathElement::new([(4, y), (20, y)], *style))?;
        area.draw(&Text::new(
            (*label).to_owned(),
            (26, y - 6),
            TextStyle::from(("sans-serif", 11)).color(&BLACK),
        ))?;
    }
    Ok(())
}

fn mesh<'b, X>(
    chart: &mut Chart<
        '_,
        'b,
        X,
        plotters::coord::ranged1d::SegmentedCoord<plotters::coord::types::RangedCoordi32>,
    >,
    labels: &[&str],
    unit: &str,
) -> Drawn<'b>
where
    X: Ranged + ValueFormatter<X::ValueType>,
    X::ValueType: Copy + Into<f64>,
{
    grid(chart)
        .disable_y_mesh()
        .x_desc(unit)
        .x_label_formatter(&|value| short((*value).into()))
        .y_labels(labels.len())
        .y_label_formatter(&|place| match place {
            SegmentValue::CenterOf(at) => name(labels, *at),
            _ => String::new(),
        })
        .draw()
}

fn name(labels: &[&str], at: i32) -> String {
    usize::try_from(at)
        .ok()
        .and_then(|at| labels.get(at))
        .map_or_else(String::new, |label| (*label).to_owned())
}

type Drawn<'b> = std::result::Result<(), DrawingAreaErrorKind<<SVGBackend<'b> as DrawingBackend>::ErrorType>>;

type Area<'b> = DrawingArea<SVGBackend<'b>, plotters::coord::Shift>;

fn drawn(height: u32, draw: impl for<'b> FnOnce(&Area<'b>) -> Drawn<'b>) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        draw(&area).map_err(|error| anyhow!("draw a plot: {error}"))?;
        area.present().map_err(|error| anyhow!("draw a plot: {error}"))?;
    }
    Ok(fitting(&text))
}

/// Lets a plot have the width and the text colour of its surroundings.
fn fitting(svg: &str) -> String {
    let mut svg = svg.replace("#000000", "currentColor");
    // A page has hundreds of plots, and these are said at each of their elements.
    for usual in [
        " opacity=\"1\"",
        " font-family=\"sans-serif\"",
        " stroke-width=\"1\"",
    ] {
        svg = svg.replace(usual, "");
    }
    match svg.split_once('>') {
        Some((_, rest)) => {
            let height = height_of(&svg);
            format!(
                "<svg viewBox=\"0 0 {WIDTH} {height}\" xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" role=\"img\">{rest}"
            )
        }
        None => svg,
    }
}

/// Makes a plot a picture of its own, which has no text around it whose colour it could have: dark on white.
pub(crate) fn alone(svg: &str) -> String {
    let svg = svg.replace("currentColor", "#1b1f24");
    match svg.split_once('>') {
        Some((head, rest)) => format!("{head}><rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>{rest}"),
        None => svg,
    }
}

fn height_of(svg: &str) -> u32 {
    let number = svg
        .split_once("height=\"")
        .and_then(|(_, rest)| rest.split_once('"'));
    number
        .and_then(|(number, _)| number.parse().ok())
        .unwrap_or(WIDTH)
}

fn font() -> TextStyle<'static> {
    TextStyle::from(("sans-serif", 13)).color(&BLACK)
}

fn rows_high(rows: usize) -> u32 {
    u32::try_from(rows * 24 + 90).unwrap_or(WIDTH)
}

fn high_with_legend(lines: usize) -> u32 {
    u32::try_from(lines * 17 + 60).unwrap_or(WIDTH).max(380)
}

/// Room for labels of that many characters.
fn label_width(labels: &[&str]) -> u32 {
    let longest = labels.iter().map(|label| label.len()).max().unwrap_or(0);
    u32::try_from(longest * 7 + 16).unwrap_or(200).min(240)
}

fn row(place: usize) -> i32 {
    i32::try_from(place).unwrap_or(i32::MAX)
}

/// The last place of a segmented axis of `rows` rows, which includes it.
fn last(rows: usize) -> i32 {
    row(rows.saturating_sub(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{tables, tests::results};

    #[test]
    fn plots_are_drawn_with_all_labels() {
        let tables = tables(&results(), "slow");
        let block = &tables[0].blocks[0];
        let bar = |row: &Row| (row.candidate.clone(), row.phases.clone());
        let phases = bars(&block.rows.iter().map(bar).collect::<Vec<_>>(), "ms")
            .unwrap()
            .unwrap();
        for word in ["slow", "fast", "start", "exec", "currentColor"] {
            assert!(phases.contains(word), "{word}: {phases}");
        }
        assert!(!phases.contains("#000000"));
        assert!(boxes(block, "ms").unwrap().unwrap().contains("slow"));
        assert!(
            distribution(block, "ms")
                .unwrap()
                .unwrap()
                .contains("share of runs")
        );
        assert!(bars(&[], "ms").unwrap().is_none());
    }

    #[test]
    fn sizes_need_two_places() {
        let mut table = tables(&results(), "slow").remove(0);
        assert!(sizes(&table, &[]).unwrap().is_none());
        table.blocks[0].place = 10.0;
        let mut larger = table.blocks[0].clone();
        larger.place = 1000.0;
        table.blocks.push(larger);
        let paper = ("paper".to_owned(), vec![(10.0, 300.0), (1000.0, 900.0)]);
        assert!(sizes(&table, &[paper]).unwrap().unwrap().contains("paper"));
    }

    #[test]
    fn phases_over_sizes_have_panels() {
        let mut table = tables(&results(), "slow").remove(0);
        assert!(panels(&table).unwrap().is_none(), "one place");
        table.blocks[0].place = 10.0;
        let mut larger = table.blocks[0].clone();
        larger.place = 1000.0;
        table.blocks.push(larger);
        let drawn = panels(&table).unwrap().unwrap();
        for word in ["start (ms)", "exec (ms)", "all (ms)", "slow", "fast"] {
            assert!(drawn.contains(word), "{word}: {drawn}");
        }
    }
}
