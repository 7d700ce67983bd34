//! What the experiment has found: a table for the terminal and docs, a plot, JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Asked, CacheReport, CacheRow, Setup};
use crate::machine::Machine;
use crate::stats::float;

/// The marks in the page between which the figures stand.
const BEGIN: &str = "<!-- Written by `cargo xtask bench --only cache`: begin -->";
const END: &str = "<!-- Written by `cargo xtask bench --only cache`: end -->";

/// All in pixels.
const WIDTH: f64 = 760.0;
const NAMES: f64 = 150.0;
const VALUES: f64 = 170.0;
const BAR: f64 = 22.0;
const HEAD: f64 = 34.0;
const MARGIN: f64 = 24.0;
const SOAK_HEIGHT: f64 = 120.0;

impl CacheReport {
    fn row(&self, setup: Setup, asked: Asked) -> Option<&CacheRow> {
        self.rows.iter().find(|row| row.setup == setup && row.asked == asked)
    }

    /// The throughput as a multiple of that of another set-up.
    fn times(&self, row: &CacheRow, setup: Setup) -> Option<f64> {
        Some(row.qps.median / self.row(setup, row.asked)?.qps.median)
    }

    /// The processor time of a hit as a multiple of what the bare runtime takes to give the same bytes.
    fn of_echo(&self, row: &CacheRow) -> Option<f64> {
        let echo = self.row(Setup::Echo, row.asked)?;
        let is_one_proxy =
            matches!(row.setup, Setup::BesideDatabase | Setup::BesideClients | Setup::Proxysql);
        Some(row.proxy_us? / echo.proxy_us?).filter(|_| is_one_proxy)
    }

    /// The last quarter of the long run as a multiple of its first.
    fn stays(&self) -> Option<f64> {
        let quarter = self.soak.len() / 4;
        let mean = |part: &[f64]| part.iter().sum::<f64>() / float(part.len() as u64);
        (quarter > 0).then(|| mean(&self.soak[self.soak.len() - quarter..]) / mean(&self.soak[..quarter]))
    }
}

/// The table, in Markdown.
pub fn cache_table(report: &CacheReport) -> String {
    let mut text = String::from(
        "| where answers are kept | rows asked for | statements/s (least, most) | of direct | of no cache | hits % | p50, p99 (ms) | proxy µs | of echo | server µs | wires µs | clients µs | proxies MiB |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in &report.rows {
        let shown = |number: Option<f64>, places: usize| {
            number.map_or_else(|| "-".to_owned(), |number| format!("{number:.places$}"))
        };
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} ({:.0}, {:.0}) | {} | {} | {} | {}, {} | {} | {} | {:.1} | {:.1} | {:.1} | {:.0} |",
            row.setup.name(),
            row.asked.name(),
            row.qps.median,
            row.qps.min,
            row.qps.max,
            shown(report.times(row, Setup::Direct), 2),
            shown(report.times(row, Setup::NoCache), 2),
            shown(row.hits, 1),
            shown(row.p50_ms, 2),
            shown(row.p99_ms, 2),
            shown(row.proxy_us, 2),
            shown(report.of_echo(row), 2),
            row.server_us,
            row.wire_us,
            row.load_us,
            row.rss_mib,
        );
    }
    for (setup, why) in &report.left_out {
        let why = why.lines().next().unwrap_or_default();
        let _ = writeln!(text, "\n`{}` was left out: {why}", setup.name());
    }
    if let Some(stays) = report.stays() {
        let _ = writeln!(
            text,
            "\nThe long run (`beside-database`, uniform) had {} windows: the last quarter of them made {stays:.3} times the statements \
             of the first.",
            report.soak.len()
        );
    }
    for failure in &report.failures {
        let _ = writeln!(text, "\nFailed: {failure}");
    }
    text
}

/// The page with new figures between its marks; the error says that it has none.
pub fn cache_page(page: &str, report: &CacheReport, machine: &Machine) -> anyhow::Result<String> {
    let missing = || anyhow::anyhow!("docs/cache.md has no marks {BEGIN:?} and {END:?}");
    let (before, rest) = page.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    let Machine { processor, memory_mib, kernel, day, revision, .. } = machine;
    Ok(format!(
        "{before}{BEGIN}\n\n{}.\nMeasured on {day} at {revision}: {processor}, {memory_mib} MiB, Linux {kernel}.\n\n{}\n{END}{after}",
        report.circumstances,
        cache_table(report),
    ))
}

/// The results as a list, for programs.
pub fn cache_json(report: &CacheReport) -> Value {
    let rows = report.rows.iter().map(|row| {
        json!({
            "setup": row.setup.name(),
            "asked": row.asked.name(),
            "qps": row.qps.median,
            "of_direct": report.times(row, Setup::Direct),
            "of_no_cache": report.times(row, Setup::NoCache),
            "of_echo": report.of_echo(row),
            "hits_percent": row.hits,
            "p50_ms": row.p50_ms,
            "p99_ms": row.p99_ms,
            "proxy_us": row.proxy_us,
            "server_us": row.server_us,
            "wire_us": row.wire_us,
            "load_us": row.load_us,
            "rss_mib": row.rss_mib,
        })
    });
    let left_out: Vec<Value> =
        report.left_out.iter().map(|(setup, why)| json!({ "setup": setup.name(), "why": why })).collect();
    json!({
        "rows": rows.collect::<Vec<_>>(),
        "left_out": left_out,
        "failures": report.failures,
        "soak_qps": report.soak,
        "soak_last_of_first": report.stays(),
    })
}

/// Bars of the throughput with a uniform load, and the long run as a line.
pub fn cache_plot(report: &CacheReport) -> String {
    let rows: Vec<&CacheRow> = report.rows.iter().filter(|row| row.asked == Asked::Uniform).collect();
    let bars = HEAD + BAR * float(rows.len() as u64);
    let soak = if report.soak.len() > 1 { SOAK_HEIGHT + HEAD } else { 0.0 };
    let height = MARGIN + bars + soak + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {WIDTH:.0} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" \
         fill=\"#1f2328\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{MARGIN}\" y=\"{:.0}\" font-weight=\"bold\">Statements a second, rows asked for alike</text>\n",
        MARGIN + 8.0
    );
    let most = rows.iter().map(|row| row.qps.median).fold(f64::MIN_POSITIVE, f64::max);
    for (at, row) in rows.iter().enumerate() {
        let y = MARGIN + HEAD + BAR * float(at as u64);
        let long = row.qps.median / most * (WIDTH - NAMES - VALUES - MARGIN);
        let color = match row.setup {
            Setup::BesideDatabase | Setup::BesideClients | Setup::TwoLayers | Setup::TwoShards => "#0b6bcb",
            _ => "#9aa4b0",
        };
        let times =
            report.times(row, Setup::NoCache).map_or_else(String::new, |times| format!(" ({times:.1})"));
        let _ = writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{:.1}\">{}</text>\n\
             <rect x=\"{NAMES}\" y=\"{:.1}\" width=\"{long:.1}\" height=\"{:.1}\" fill=\"{color}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\">{:.0}{times}</text>",
            y + 12.0,
            row.setup.name(),
            y,
            BAR - 6.0,
            NAMES + long + 6.0,
            y + 12.0,
            row.qps.median,
        );
    }
    if soak > 0.0 {
        draw_soak(&mut svg, &report.soak, MARGIN + bars + HEAD);
    }
    svg + "</svg>\n"
}

fn draw_soak(svg: &mut String, windows: &[f64], top: f64) {
    let most = windows.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let step = (WIDTH - 2.0 * MARGIN) / float((windows.len() - 1) as u64);
    let point = |(at, qps): (usize, &f64)| {
        format!("{:.1},{:.1}", MARGIN + step * float(at as u64), top + (1.0 - qps / most) * SOAK_HEIGHT)
    };
    let points: Vec<String> = windows.iter().enumerate().map(point).collect();
    let _ = writeln!(
        svg,
        "<text x=\"{MARGIN}\" y=\"{:.1}\" font-weight=\"bold\">beside-database, window by window (most: {most:.0}/s)</text>\n\
         <polyline points=\"{}\" fill=\"none\" stroke=\"#0b6bcb\" stroke-width=\"2\"/>",
        top - 10.0,
        points.join(" "),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Spread;

    fn row(setup: Setup, qps: f64, proxy_us: f64) -> CacheRow {
        CacheRow {
            setup,
            asked: Asked::Uniform,
            qps: Spread { median: qps, min: qps, max: qps },
            p50_ms: None,
            p99_ms: None,
            hits: None,
            proxy_us: Some(proxy_us),
            server_us: 0.0,
            wire_us: 0.0,
            load_us: 0.0,
            rss_mib: 0.0,
        }
    }

    #[test]
    fn figures_take_the_place_of_those_between_the_marks() {
        let rows = vec![
            row(Setup::NoCache, 100.0, 9.0),
            row(Setup::BesideDatabase, 330.0, 5.0),
            row(Setup::Echo, 400.0, 4.0),
        ];
        let left_out = vec![(Setup::TwoShards, "not there\nmore".to_owned())];
        let soak = vec![100.0, 100.0, 100.0, 90.0];
        let report = CacheReport { rows, left_out, soak, ..CacheReport::default() };
        let machine = Machine::look(std::path::Path::new("."));
        let page = cache_page(&format!("a\n{BEGIN}\nold\n{END}\nb\n"), &report, &machine).unwrap();
        assert!(page.starts_with("a\n") && page.ends_with("\nb\n") && !page.contains("old"), "{page}");
        assert!(page.contains("| 3.30 |") && page.contains("| 1.25 |"), "{page}");
        assert!(page.contains("`two-shards` was left out: not there\n"), "{page}");
        assert!(page.contains("made 0.900 times"), "{page}");
        assert!(cache_page("nothing", &report, &machine).is_err());
        let plot = cache_plot(&report);
        assert!(
            plot.contains("330 (3.3)") && plot.contains("polyline") && plot.ends_with("</svg>\n"),
            "{plot}"
        );
    }
}
