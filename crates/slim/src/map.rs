//! Map of an image: a rectangle for each file, whose area is its size, within the rectangle of its directory.

use crate::Report;
use std::collections::BTreeMap;

/// Smallest side of a rectangle that is drawn, in pixels.
const LEAST: f64 = 2.0;
/// Maximum depth of directories that are drawn.
const DEPTH: usize = 64;

/// A directory or file with the bytes that stay and that do not.
#[derive(Debug, Default)]
pub(crate) struct Item<'a> {
    kept: u64,
    removed: u64,
    reason: &'a str,
    children: BTreeMap<&'a str, Item<'a>>,
}

/// Rectangle in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// A rectangle to draw.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tile {
    pub(crate) area: Area,
    pub(crate) path: String,
    pub(crate) size: u64,
    /// Reason for which the file stays; `None` for one that does not, and for directories that are too small to be drawn.
    pub(crate) reason: Option<String>,
    /// Part of the bytes that stays, from 0 to 1.
    pub(crate) kept: f64,
}

impl<'a> Item<'a> {
    /// Sorts the files of a report into directories.
    pub(crate) fn of(report: &'a Report) -> Self {
        let mut root = Self::default();
        for (files, stays) in [(&report.kept, true), (&report.removed, false)] {
            for file in files.iter().filter(|file| file.size > 0) {
                let mut item = &mut root;
                item.add(file.size, stays);
                for name in file.path.split('/').filter(|name| !name.is_empty()) {
                    item = item.children.entry(name).or_default();
                    item.add(file.size, stays);
                }
                item.reason = &file.reason;
            }
        }
        root
    }

    fn add(&mut self, size: u64, stays: bool) {
        if stays {
            self.kept += size;
        } else {
            self.removed += size;
        }
    }

    fn size(&self) -> u64 {
        self.kept + self.removed
    }

    /// Lays the item out in an area: squarified treemaps (Bruls, Huizing, van Wijk).
    pub(crate) fn lay_out(&self, path: &str, area: Area, depth: usize, tiles: &mut Vec<Tile>) {
        let is_tiny = area.width < LEAST || area.height < LEAST;
        if self.children.is_empty() || is_tiny || depth > DEPTH {
            let is_file = self.children.is_empty();
            tiles.push(Tile {
                area,
                path: path.to_owned(),
                size: self.size(),
                reason: (is_file && self.kept > 0).then(|| self.reason.to_owned()),
                kept: share(self.kept, self.size()),
            });
            return;
        }
        let mut children: Vec<(&str, &Self)> =
            self.children.iter().map(|(name, item)| (*name, item)).collect();
        children.sort_by_key(|(_, item)| std::cmp::Reverse(item.size()));
        let scale = area.width * area.height / float(self.size());
        let mut rest = area;
        let mut children = &children[..];
        while !children.is_empty() {
            let count = row(children, rest, scale);
            let (now, later) = children.split_at(count);
            for ((name, item), area) in now.iter().zip(place(now, &mut rest, scale)) {
                item.lay_out(&format!("{path}/{name}"), area, depth + 1, tiles);
            }
            children = later;
        }
    }
}

/// Returns how many items the next row gets, so that their rectangles are as square as can be.
fn row(items: &[(&str, &Item<'_>)], area: Area, scale: f64) -> usize {
    let side = area.width.min(area.height).max(f64::MIN_POSITIVE);
    let (mut sum, mut best) = (0.0, f64::INFINITY);
    for (index, (_, item)) in items.iter().enumerate() {
        let size = float(item.size()) * scale;
        sum += size;
        let largest = float(items[0].1.size()) * scale;
        let worst = (side * side * largest / (sum * sum)).max(sum * sum / (side * side * size));
        if worst > best {
            return index.max(1);
        }
        best = worst;
    }
    items.len()
}

/// Places a row at the shorter side of what is left of an area.
fn place(items: &[(&str, &Item<'_>)], rest: &mut Area, scale: f64) -> Vec<Area> {
    let sum: f64 = items.iter().map(|(_, item)| float(item.size()) * scale).sum();
    let upright = rest.width >= rest.height;
    let (long, depth) = if upright {
        (rest.height, sum / rest.height.max(f64::MIN_POSITIVE))
    } else {
        (rest.width, sum / rest.width.max(f64::MIN_POSITIVE))
    };
    let mut at = 0.0;
    let areas = items.iter().map(|(_, item)| {
        let length = long * float(item.size()) * scale / sum;
        let area = match upright {
            true => Area {
                x: rest.x,
                y: rest.y + at,
                width: depth,
                height: length,
            },
            false => Area {
                x: rest.x + at,
                y: rest.y,
                width: length,
                height: depth,
            },
        };
        at += length;
        area
    });
    let areas = areas.collect();
    if upright {
        (rest.x, rest.width) = (rest.x + depth, (rest.width - depth).max(0.0));
    } else {
        (rest.y, rest.height) = (rest.y + depth, (rest.height - depth).max(0.0));
    }
    areas
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        float(part) / float(whole)
    }
}

#[expect(clippy::cast_precision_loss, reason = "areas on a screen")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileFate;

    #[test]
    fn areas_are_those_of_sizes_and_do_not_overlap() {
        let sizes = [700, 200, 50, 30, 15, 5];
        let files = sizes.iter().enumerate().map(|(index, size)| FileFate {
            path: format!("/d{}/f{index}", index % 2),
            size: *size,
            ..FileFate::default()
        });
        let report = Report {
            removed: files.collect(),
            ..Report::default()
        };
        let whole = Area {
            x: 0.0,
            y: 0.0,
            width: 100.0,
            height: 100.0,
        };
        let mut tiles = Vec::new();
        Item::of(&report).lay_out("", whole, 0, &mut tiles);
        assert_eq!(tiles.len(), sizes.len());
        for tile in &tiles {
            let area = tile.area.width * tile.area.height;
            assert!((area - float(tile.size) * 10.0).abs() < 0.01, "{tile:?}");
            assert!(
                tile.area.x >= -0.01 && tile.area.x + tile.area.width <= 100.01,
                "{tile:?}"
            );
            assert!(
                tile.area.y >= -0.01 && tile.area.y + tile.area.height <= 100.01,
                "{tile:?}"
            );
        }
        for (index, a) in tiles.iter().enumerate() {
            for b in &tiles[index + 1..] {
                let apart = |from: f64, length: f64, other: f64, other_length: f64| {
                    from + length <= other + 0.01 || other + other_length <= from + 0.01
                };
                let beside = apart(a.area.x, a.area.width, b.area.x, b.area.width);
                let above = apart(a.area.y, a.area.height, b.area.y, b.area.height);
                assert!(beside || above, "{a:?} {b:?}");
            }
        }
    }
}
