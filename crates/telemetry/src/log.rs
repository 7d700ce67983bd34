//! The log: where its lines go, how they look, and which are left out. The level can be changed
//! while the proxy runs.

mod bounded;

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Mutex;

use tracing::level_filters::LevelFilter;
use tracing::{Dispatch, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload;

/// All targets of this product begin with it. A library says at most `warn`, so that `debug` shows
/// what the proxy does and not what TLS does.
const OWN_TARGETS: &str = "delphinus";

/// How a line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people: time, level, target, message, fields.
    Text,
    /// One JSON object for each line.
    Json,
}

/// What the log is like at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// How a line is written.
    pub format: LogFormat,
    /// Least important level that is written.
    pub level: Level,
    /// File that lines are appended to; `None`: standard error.
    pub file: Option<PathBuf>,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened for appending.
    #[error("the log file {path} cannot be opened: {source}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is one already in this process.
    #[error("the log of this process has been started before")]
    Started,
}

/// Changes the log while the proxy runs.
#[derive(Debug, Clone)]
pub struct LogControl {
    filter: reload::Handle<Targets, Registry>,
}

impl LogControl {
    /// Writes this level and more important ones from now on. Does nothing once the log is gone.
    pub fn set_level(&self, level: Level) {
        let changed = self.filter.reload(targets(level));
        if let Err(error) = changed {
            tracing::debug!(%error, "the log level was not changed");
        }
    }
}

/// Starts the log of this process: once, before anything is worth logging.
pub fn start_logging(settings: &LogSettings) -> Result<LogControl, Error> {
    let (dispatch, control) = build(settings)?;
    tracing::dispatcher::set_global_default(dispatch).map_err(|_| Error::Started)?;
    Ok(control)
}

fn build(settings: &LogSettings) -> Result<(Dispatch, LogControl), Error> {
    let (writer, colours) = match &settings.file {
        Some(path) => (BoxMakeWriter::new(Mutex::new(open(path)?)), false),
        None => (BoxMakeWriter::new(io::stderr), io::stderr().is_terminal()),
    };
    let (filter, handle) = reload::Layer::new(targets(settings.level));
    let lines = lines::<Registry>(settings.format, writer, colours);
    let subscriber = Registry::default().with(lines.with_filter(filter));
    Ok((Dispatch::new(subscriber), LogControl { filter: handle }))
}

fn lines<S>(format: LogFormat, writer: BoxMakeWriter, colours: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let lines = tracing_subscriber::fmt::layer().with_ansi(colours);
    match format {
        LogFormat::Text => {
            let fields = debug_fn(bounded::field).delimited(" ");
            Box::new(lines.with_writer(writer).fmt_fields(fields))
        }
        LogFormat::Json => {
            let lines = lines.with_writer(bounded::Bounded(writer));
            Box::new(lines.json().flatten_event(true).with_span_list(false))
        }
    }
}

fn open(path: &PathBuf) -> Result<File, Error> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map_err(|source| Error::Open { path: path.clone(), source })
}

fn targets(level: Level) -> Targets {
    let libraries = level.min(Level::WARN);
    Targets::new().with_default(LevelFilter::from_level(libraries)).with_target(OWN_TARGETS, level)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `events` with a log of its own and gives the lines.
    fn logged(name: &str, format: LogFormat, level: Level, events: impl FnOnce(&LogControl)) -> Vec<String> {
        let path = std::env::temp_dir().join(format!("delphinus-log-{}-{name}", std::process::id()));
        let settings = LogSettings { format, level, file: Some(path.clone()) };
        let (dispatch, control) = build(&settings).unwrap();
        tracing::dispatcher::with_default(&dispatch, || events(&control));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn json_lines_have_fields_and_level() {
        let lines = logged("json", LogFormat::Json, Level::INFO, |_| {
            tracing::info!(backend = "db1", attempts = 3, "down\n\"now\"");
        });
        assert_eq!(lines.len(), 1);
        let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["message"], "down\n\"now\"");
        assert_eq!(line["backend"], "db1");
        assert_eq!(line["attempts"], 3);
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn text_lines_can_be_read_and_have_no_colours_in_a_file() {
        let lines = logged("text", LogFormat::Text, Level::INFO, |_| {
            tracing::warn!(backend = "db1", "lagging");
            tracing::debug!("not written");
        });
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].contains("WARN") && lines[0].contains("lagging") && lines[0].contains("backend=\"db1\"")
        );
        assert!(!lines[0].contains('\u{1b}'), "{:?}", lines[0]);
    }

    /// Names are the clients', and errors those of whoever answers.
    #[test]
    fn nothing_that_is_logged_makes_a_line_or_has_no_end() {
        let bad =
            format!("a\n2026-01-01T00:00:00Z ERROR forged\r\u{1b}[31m\u{9b}\u{202e}{}", "x".repeat(100_000));
        for format in [LogFormat::Text, LogFormat::Json] {
            let name = format!("forged-{format:?}");
            let lines = logged(&name, format, Level::INFO, |_| {
                let bad = bad.as_str();
                tracing::info!(user = bad, client.host = %bad, error = ?bad, "login refused: {bad}");
            });
            assert_eq!(lines.len(), 1, "{format:?}");
            let line = &lines[0];
            assert!(line.len() < 20_000, "{format:?} {}", line.len());
            assert!(!line.chars().any(char::is_control), "{format:?}");
            let is_whole =
                format == LogFormat::Text || serde_json::from_str::<serde_json::Value>(line).is_ok();
            assert!(is_whole && line.contains("login refused: a\\n2026"), "{format:?}");
            assert!(line.contains("client.host"), "{format:?}");
        }
    }

    #[test]
    fn the_level_changes_at_run_time_and_libraries_stay_quiet() {
        let lines = logged("level", LogFormat::Text, Level::ERROR, |control| {
            tracing::info!("before");
            control.set_level(Level::DEBUG);
            tracing::debug!("after");
            tracing::debug!(target: "rustls::conn", "library");
            tracing::warn!(target: "rustls::conn", "library warning");
            control.set_level(Level::ERROR);
            tracing::warn!("back");
            tracing::warn!(target: "rustls::conn", "library back");
        });
        let said: Vec<_> = lines.iter().map(|line| line.rsplit(": ").next().unwrap()).collect();
        assert_eq!(said, ["after", "library warning"]);
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let file = Some(PathBuf::from("/nonexistent/delphinus.log"));
        let settings = LogSettings { format: LogFormat::Text, level: Level::INFO, file };
        let error = build(&settings).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/delphinus.log"), "{error}");
    }
}
