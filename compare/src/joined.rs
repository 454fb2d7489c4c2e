//! Results of several measurements of one machine as one: an experiment of one size is that of the last file that has it, with all of
//! its candidates, since only runs of one measurement were interleaved.

use crate::record::{Cell, Header, Later, Results, Series};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Reads files, or the newest of directories, the oldest first.
pub(crate) fn read(places: &[PathBuf]) -> Result<Results> {
    let (first, further) = places.split_first().context("no results are named")?;
    let mut all = Results::newest(first)?;
    for place in further {
        add(&mut all, Results::newest(place)?)?;
    }
    Ok(all)
}

/// Lays a measurement over others.
fn add(all: &mut Results, later: Results) -> Result<()> {
    for key in ["cpu", "cores", "kernel"] {
        ensure!(
            all.header.machine[key] == later.header.machine[key],
            "{} and {} are of different machines, so they make no report together: {key}",
            all.path.display(),
            later.path.display()
        );
    }
    let measured: BTreeSet<&str> = (later.samples.iter())
        .map(|sample| sample.candidate.as_str())
        .collect();
    let blocks: BTreeSet<(String, String)> = (later.header.cells.iter())
        .filter(|cell| measured.contains(&*cell.name))
        .map(owned)
        .collect();
    let is_new = |cell: &Cell| blocks.contains(&owned(cell));
    let old: BTreeSet<String> = (all.header.cells.iter())
        .filter(|cell| is_new(cell))
        .map(|cell| cell.name.clone())
        .collect();
    all.samples.retain(|sample| !old.contains(&sample.candidate));
    all.header.cells.retain(|cell| !is_new(cell));
    all.header.skipped.retain(|name, _| !old.contains(name));
    all.header.later.push(Later {
        started: later.header.started,
        revision: later.header.tote["revision"]
            .as_str()
            .unwrap_or("unknown")
            .to_owned(),
        experiments: blocks.iter().map(|(experiment, _)| experiment.clone()).collect(),
    });
    describe(&mut all.header, &later.header);
    let cells = later.header.cells.into_iter().filter(is_new);
    all.header.cells.extend(cells);
    let names: BTreeSet<&str> = (all.header.cells.iter())
        .filter(|cell| is_new(cell))
        .map(|cell| cell.name.as_str())
        .collect();
    let samples = later.samples.into_iter();
    all.samples
        .extend(samples.filter(|sample| names.contains(&*sample.candidate)));
    all.end = all.end.take().zip(later.end).map(|(mut end, other)| {
        end.leaks.certain.extend(other.leaks.certain);
        end.leaks.suspected.extend(other.leaks.suspected);
        end.leaks.removed.extend(other.leaks.removed);
        end
    });
    Ok(())
}

fn owned(cell: &Cell) -> (String, String) {
    (cell.experiment.clone(), cell.size.clone())
}

/// Adds the candidates, experiments, versions and reasons of a later measurement.
fn describe(header: &mut Header, later: &Header) {
    for subject in &later.subjects {
        match header
            .subjects
            .iter_mut()
            .find(|known| known.name == subject.name)
        {
            None => header.subjects.push(subject.clone()),
            Some(known) if subject.skipped.is_none() => *known = subject.clone(),
            Some(_) => {}
        }
    }
    let mut after: Option<usize> = None;
    for (number, series) in later.series.iter().enumerate() {
        let place_of = |wanted: &Series| header.series.iter().position(|known| known.name == wanted.name);
        let place = match place_of(series) {
            Some(place) => {
                header.series[place] = series.clone();
                place
            }
            // A new one comes after the one before it, the first ones before the first that is known.
            None => {
                let next = later.series.iter().skip(number).find_map(place_of);
                let place = after.map(|after| after + 1).or(next);
                let place = place.unwrap_or(header.series.len());
                header.series.insert(place, series.clone());
                place
            }
        };
        after = Some(place);
    }
    header.versions.extend(later.versions.clone());
    header.skipped.extend(later.skipped.clone());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{tables, tests::results};
    use crate::record::tests::sample;

    #[test]
    fn the_last_measurement_of_an_experiment_counts() {
        let mut all = results();
        all.header.series.push(Series {
            name: "last".to_owned(),
            ..all.header.series[0].clone()
        });
        let mut later = results();
        later.header.started += 60;
        later.header.tote = serde_json::json!({"revision": "abc"});
        later.samples = vec![sample("slow", 0, &[1, 1], None)];
        let other = Cell {
            name: "other/fast".to_owned(),
            experiment: "other".to_owned(),
            ..later.header.cells[1].clone()
        };
        later.samples.push(bench::sample::Sample {
            candidate: "other/fast".to_owned(),
            ..sample("fast", 0, &[5, 2], None)
        });
        later.header.cells.push(other);
        later.header.series.push(Series {
            name: "other".to_owned(),
            ..later.header.series[0].clone()
        });
        let first = Series {
            name: "first".to_owned(),
            ..later.header.series[0].clone()
        };
        later.header.series.insert(0, first);
        add(&mut all, later).unwrap();
        let names: Vec<&str> = all
            .header
            .series
            .iter()
            .map(|series| series.name.as_str())
            .collect();
        assert_eq!(names, ["first", "hello", "other", "last"]);
        let tables = tables(&all, "slow");
        let rows = &tables[0].blocks[0].rows;
        assert_eq!(
            rows.len(),
            1,
            "one that the later measurement did not have is gone"
        );
        assert_eq!(rows[0].summary.as_ref().unwrap().median, 2.0);
        assert_eq!(tables[1].blocks[0].rows[0].summary.as_ref().unwrap().median, 7.0);
        let told = &all.header.later[0];
        assert_eq!((told.revision.as_str(), told.experiments.len()), ("abc", 2));
        let mut foreign = results();
        foreign.header.machine = serde_json::json!({"cpu": "other"});
        assert!(add(&mut all, foreign).is_err());
    }
}
