//! The processor time of each system for one statement, as bars: a panel for each workload with a scale of its own,
//! because a result of 10 MB costs a thousand times as much as a point select.

use std::fmt::Write;

use crate::figures::{Figure, Results, Row};
use crate::stats::{Spread, float};
use crate::system::System;
use crate::workload::Workload;

/// All in pixels.
const PANEL_WIDTH: f64 = 470.0;
const MARGIN: f64 = 24.0;
const TITLE: f64 = 64.0;
const HEAD: f64 = 30.0;
const BAR: f64 = 22.0;
const BELOW: f64 = 22.0;
const NAMES: f64 = 90.0;
const VALUES: f64 = 110.0;
const COLUMNS: usize = 2;

/// One workload with its bars.
struct Panel {
    title: String,
    bars: Vec<Bar>,
}

struct Bar {
    system: System,
    cpu: Spread,
    to_haproxy: Option<f64>,
}

impl Panel {
    fn height(&self) -> f64 {
        HEAD + BAR * float(self.bars.len() as u64) + BELOW
    }

    fn scale(&self) -> f64 {
        self.bars.iter().map(|bar| bar.cpu.max).fold(f64::MIN_POSITIVE, f64::max)
    }
}

/// The whole drawing.
pub fn plot(results: &Results) -> String {
    let panels = panels(results);
    let rows: Vec<&[Panel]> = panels.chunks(COLUMNS).collect();
    let row_height = |row: &[Panel]| row.iter().map(Panel::height).fold(0.0, f64::max);
    let height: f64 = TITLE + rows.iter().map(|row| row_height(row)).sum::<f64>() + MARGIN;
    let width = MARGIN + float(COLUMNS as u64) * (PANEL_WIDTH + MARGIN);
    let mut svg = head(width, height);
    let mut top = TITLE;
    for row in rows {
        for (column, panel) in row.iter().enumerate() {
            draw(&mut svg, panel, (MARGIN + float(column as u64) * (PANEL_WIDTH + MARGIN), top));
        }
        top += row_height(row);
    }
    svg + "</svg>\n"
}

/// The workloads in which at least one proxy was measured.
fn panels(results: &Results) -> Vec<Panel> {
    let mut panels: Vec<((Workload, usize), Panel)> = Vec::new();
    for row in &results.rows {
        let Some(bar) = bar(results, row) else { continue };
        let key = (row.workload, row.threads);
        if panels.last().is_none_or(|(last, _)| *last != key) {
            let title = format!("{}, {} connections", row.workload.name(), row.threads);
            panels.push((key, Panel { title, bars: Vec::new() }));
        }
        if let Some((_, panel)) = panels.last_mut() {
            panel.bars.push(bar);
        }
    }
    panels.into_iter().map(|(_, panel)| panel).collect()
}

fn bar(results: &Results, row: &Row) -> Option<Bar> {
    let cpu = row.spread(Figure::CpuUsPerQuery)?;
    let to_haproxy = results.ratio(row, Figure::CpuUsPerQuery, System::Haproxy);
    Some(Bar { system: row.system, cpu, to_haproxy })
}

fn head(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" \
         fill=\"#1f2328\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{MARGIN}\" y=\"28\" font-size=\"18\" font-weight=\"bold\">Processor time per statement</text>\n\
         <text x=\"{MARGIN}\" y=\"48\" fill=\"#57606a\">microseconds of the proxy, user and system: median, and from \
         the smallest round to the largest; in brackets, as a multiple of haproxy; less is better</text>\n"
    )
}

fn draw(svg: &mut String, panel: &Panel, (left, top): (f64, f64)) {
    let title = escaped(&panel.title);
    let _ = writeln!(svg, "<text x=\"{left}\" y=\"{:.1}\" font-weight=\"bold\">{title}</text>", top + 18.0);
    let (start, room) = (left + NAMES, PANEL_WIDTH - NAMES - VALUES);
    let x = |value: f64| start + value / panel.scale() * room;
    for (index, Bar { system, cpu, to_haproxy }) in panel.bars.iter().enumerate() {
        let y = top + HEAD + float(index as u64) * BAR;
        let (middle, base) = (y + BAR / 2.0 - 2.0, y + BAR / 2.0 + 2.5);
        let color = if *system == System::Delphinus { "#0b6bcb" } else { "#9aa4b0" };
        let width = x(cpu.median) - start;
        let name = escaped(system.name());
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{base:.1}\" text-anchor=\"end\">{name}</text>\n\
             <rect class=\"bar\" x=\"{start:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{color}\"/>\n\
             <path d=\"M{:.1} {middle:.1}H{:.1}\" stroke=\"#1f2328\" stroke-width=\"1.5\"/>\n\
             <text x=\"{:.1}\" y=\"{base:.1}\">{}</text>",
            start - 8.0,
            BAR - 5.0,
            x(cpu.min),
            x(cpu.max),
            x(cpu.max) + 8.0,
            label(*system, cpu.median, *to_haproxy),
        );
    }
}

fn label(system: System, cpu: f64, to_haproxy: Option<f64>) -> String {
    let digits = usize::from(cpu < 1_000.0);
    let ratio = to_haproxy.filter(|_| system != System::Haproxy);
    let ratio = ratio.map(|ratio| format!(" ({ratio:.2}×)")).unwrap_or_default();
    format!("{cpu:.digits$}{ratio}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::testing::results;

    fn widths(svg: &str) -> Vec<f64> {
        let bars = svg.lines().filter(|line| line.contains("class=\"bar\""));
        bars.map(|line| {
            let rest = line.split_once(" width=\"").unwrap().1;
            rest.split_once('"').unwrap().0.parse().unwrap()
        })
        .collect()
    }

    #[test]
    fn bars_are_as_long_as_the_figures_of_their_workload() {
        let svg = plot(&results());
        let found = widths(&svg);
        // Two of point selects (direct has no proxy), two of connects.
        assert_eq!(found.len(), 4);
        assert!((found[1] / found[0] - 24.0 / 30.0).abs() < 0.01, "{found:?}");
        assert!((found[2] / found[3] - 100.0 / 150.0).abs() < 0.01, "{found:?}");
        // The largest round of the largest bar fills the room.
        let room = PANEL_WIDTH - NAMES - VALUES;
        assert!((found[0] - room / 1.2).abs() < 0.2, "{found:?}");
        assert!(svg.contains(">24.0 (0.80×)<") && svg.contains(">30.0<"), "{svg}");
    }

    #[test]
    fn the_drawing_is_whole() {
        for svg in [plot(&results()), plot(&Results::default())] {
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
            assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        assert_eq!(escaped("a<b&\"c\">"), "a&lt;b&amp;&quot;c&quot;&gt;");
    }
}
