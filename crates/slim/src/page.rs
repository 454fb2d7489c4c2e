//! The page: one file that needs nothing else.

use crate::Report;
use crate::map::{Area, Item, Tile};

/// Size of the map in pixels.
const WIDTH: f64 = 1280.0;
const HEIGHT: f64 = 720.0;

const STYLE: &str = "body{font:14px sans-serif;margin:2em auto;max-width:1280px;color:#222}\
table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #ddd}\
td.n{text-align:right;font-variant-numeric:tabular-nums}svg{width:100%;height:auto}\
rect{stroke:#fff;stroke-width:.5}rect:hover{stroke:#000;stroke-width:2}";

impl Report {
    /// Returns the report as a page of HTML with a map of the image.
    #[must_use]
    pub fn page(&self) -> String {
        let title = escape(&format!("{} and {}", self.image, self.slim));
        let mut page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<style>{STYLE}</style>\n"
        );
        page += &format!(
            "<h1>{title}</h1>\n<p>{} before, {} after: {:.1} % less. {} of {} files stay.</p>\n",
            bytes(self.size_before),
            bytes(self.size_after),
            self.reduction,
            self.files_after,
            self.files_before,
        );
        self.map(&mut page);
        self.tables(&mut page);
        page += "</html>\n";
        page
    }

    fn map(&self, page: &mut String) {
        let area = Area {
            x: 0.0,
            y: 0.0,
            width: WIDTH,
            height: HEIGHT,
        };
        let mut tiles = Vec::new();
        Item::of(self).lay_out("", area, 0, &mut tiles);
        *page += "<p>Each file has the area of its size: blue stays, grey is removed. Point at one for its name.</p>\n";
        *page += &format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n");
        for tile in &tiles {
            let fate = match &tile.reason {
                Some(reason) => reason.as_str(),
                None if tile.kept > 0.0 => "stays in part",
                None => "removed",
            };
            let Area { x, y, width, height } = tile.area;
            let (fill, path, fate) = (colour(tile), escape(&tile.path), escape(fate));
            let size = bytes(tile.size);
            *page += &format!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\">"
            );
            *page += &format!("<title>{path} ({size}): {fate}</title></rect>\n");
        }
        *page += "</svg>\n";
    }

    fn tables(&self, page: &mut String) {
        *page += "<h2>Largest things removed</h2>\n<table>\n<tr><th>Size<th>Files<th>Path\n";
        for part in self.largest_removed(50) {
            let (size, path) = (bytes(part.size), escape(&part.path));
            *page += &format!(
                "<tr><td class=\"n\">{size}<td class=\"n\">{}<td>{path}\n",
                part.files
            );
        }
        *page += "</table>\n<h2>Files that stay</h2>\n<table>\n<tr><th>Size<th>Path<th>Reason\n";
        for file in &self.kept {
            let (size, path, reason) = (bytes(file.size), escape(&file.path), escape(&file.reason));
            *page += &format!("<tr><td class=\"n\">{size}<td>{path}<td>{reason}\n");
        }
        *page += "</table>\n";
    }
}

fn colour(tile: &Tile) -> String {
    let mix = |removed: f64, kept: f64| (removed + (kept - removed) * tile.kept).round();
    format!(
        "rgb({},{},{})",
        mix(190.0, 60.0),
        mix(190.0, 120.0),
        mix(190.0, 200.0)
    )
}

/// Shows a size in decimal units.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn bytes(size: u64) -> String {
    match size {
        0..1000 => format!("{size} B"),
        1000..1_000_000 => format!("{:.1} kB", size as f64 / 1e3),
        _ => format!("{:.1} MB", size as f64 / 1e6),
    }
}

/// Escapes a text for HTML; other control characters than those of HTML are shown by their number.
fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            '\'' => shown.push_str("&#39;"),
            letter if letter.is_control() => shown.extend(letter.escape_default()),
            letter => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileFate;

    #[test]
    fn names_are_text() {
        let report = Report {
            image: "<b>".to_owned(),
            removed: vec![FileFate {
                path: "/<script>alert(1)</script>\"'&\u{1}".to_owned(),
                size: 10,
                ..FileFate::default()
            }],
            ..Report::default()
        };
        let page = report.page();
        assert!(!page.contains("<script"), "{page}");
        assert!(!page.contains("<b>"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
        assert!(page.contains("<rect"), "{page}");
        for outside in ["http", "src=", "href="] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
