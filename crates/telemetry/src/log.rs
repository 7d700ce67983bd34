//! The log: where its lines go, how they look, and which are left out. All of that can be changed while the proxy runs.
//!
//! There is a layer for each look, of which one at a time lets lines through; all of them write to the same place.

mod bounded;

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

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

/// Target of the audit's lines. They are warnings, and written at every level: who has changed something is asked after the harm.
pub const AUDIT_TARGET: &str = "delphinus::audit";

/// How a line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people: time, level, target, message, fields.
    Text,
    /// One JSON object for each line.
    Json,
}

/// What the log is like.
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
    /// For each look, which lines are let through.
    filters: Vec<(Look, reload::Handle<Targets, Registry>)>,
    sink: Arc<Mutex<Sink>>,
}

/// A place for the log that is open, and which look it asks for.
#[derive(Debug)]
pub struct NextLog {
    sink: Sink,
    look: Look,
    level: Level,
}

impl LogControl {
    /// Opens what other settings need. Nothing has changed then.
    pub fn prepare(&self, settings: &LogSettings) -> Result<NextLog, Error> {
        let sink = Sink::open(settings)?;
        let look = sink.look(settings.format);
        Ok(NextLog { sink, look, level: settings.level })
    }

    /// Follows other settings from now on. A file is opened anew also under its old name: it may have been moved away meanwhile.
    pub fn follow(&self, NextLog { sink, look, level }: NextLog) {
        *self.sink.lock().unwrap_or_else(PoisonError::into_inner) = sink;
        for (of, filter) in &self.filters {
            // Does nothing once the log is gone.
            if let Err(error) = filter.reload(targets_of(*of == look, level)) {
                tracing::debug!(%error, "the log was not changed");
            }
        }
    }
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Plain,
    /// For terminals.
    Coloured,
    Json,
}

/// Where lines go.
#[derive(Debug)]
enum Sink {
    StandardError,
    File(File),
}

impl Sink {
    fn open(settings: &LogSettings) -> Result<Self, Error> {
        let Some(path) = &settings.file else { return Ok(Self::StandardError) };
        let opened = OpenOptions::new().create(true).append(true).open(path);
        opened.map(Self::File).map_err(|source| Error::Open { path: path.clone(), source })
    }

    fn look(&self, format: LogFormat) -> Look {
        match (format, self) {
            (LogFormat::Json, _) => Look::Json,
            (LogFormat::Text, Self::StandardError) if io::stderr().is_terminal() => Look::Coloured,
            (LogFormat::Text, _) => Look::Plain,
        }
    }
}

/// Writes to the place that the log has by now; a line goes to one place.
struct Lines(Arc<Mutex<Sink>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Sink::StandardError => io::stderr().write_all(bytes),
            Sink::File(file) => file.write_all(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts the log of this process: once, before anything is worth logging.
pub fn start_logging(settings: &LogSettings) -> Result<LogControl, Error> {
    let (dispatch, control) = build(settings)?;
    tracing::dispatcher::set_global_default(dispatch).map_err(|_| Error::Started)?;
    Ok(control)
}

fn build(settings: &LogSettings) -> Result<(Dispatch, LogControl), Error> {
    let sink = Sink::open(settings)?;
    let wanted = sink.look(settings.format);
    let sink = Arc::new(Mutex::new(sink));
    let (mut layers, mut filters) = (Vec::new(), Vec::new());
    for look in [Look::Plain, Look::Coloured, Look::Json] {
        let (filter, handle) = reload::Layer::new(targets_of(look == wanted, settings.level));
        let lines_go_to = sink.clone();
        let writer = BoxMakeWriter::new(move || Lines(lines_go_to.clone()));
        layers.push(lines::<Registry>(look, writer).with_filter(filter));
        filters.push((look, handle));
    }
    let subscriber = Registry::default().with(layers);
    Ok((Dispatch::new(subscriber), LogControl { filters, sink }))
}

fn lines<S>(look: Look, writer: BoxMakeWriter) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let lines = tracing_subscriber::fmt::layer().with_ansi(look == Look::Coloured);
    match look {
        Look::Plain | Look::Coloured => {
            let fields = debug_fn(bounded::field).delimited(" ");
            Box::new(lines.with_writer(writer).fmt_fields(fields))
        }
        Look::Json => {
            let lines = lines.with_writer(bounded::Bounded(writer));
            Box::new(lines.json().flatten_event(true).with_span_list(false))
        }
    }
}

/// What one look lets through; nothing, if it is not the one that is wanted.
fn targets_of(is_wanted: bool, level: Level) -> Targets {
    if is_wanted { targets(level) } else { Targets::new() }
}

fn targets(level: Level) -> Targets {
    let libraries = level.min(Level::WARN);
    Targets::new()
        .with_default(LevelFilter::from_level(libraries))
        .with_target(OWN_TARGETS, level)
        .with_target(AUDIT_TARGET, level.max(Level::WARN))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `events` with a log of its own and gives the lines.
    fn logged(
        name: &str,
        format: LogFormat,
        level: Level,
        events: impl FnOnce(&LogControl, &LogSettings),
    ) -> Vec<String> {
        let path = std::env::temp_dir().join(format!("delphinus-log-{}-{name}", std::process::id()));
        let settings = LogSettings { format, level, file: Some(path.clone()) };
        let (dispatch, control) = build(&settings).unwrap();
        tracing::dispatcher::with_default(&dispatch, || events(&control, &settings));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn json_lines_have_fields_and_level() {
        let lines = logged("json", LogFormat::Json, Level::INFO, |_, _| {
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
        let lines = logged("text", LogFormat::Text, Level::INFO, |_, _| {
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
            let lines = logged(&name, format, Level::INFO, |_, _| {
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
        let lines = logged("level", LogFormat::Text, Level::ERROR, |control, settings| {
            let set_level = |level| {
                let settings = LogSettings { level, ..settings.clone() };
                control.follow(control.prepare(&settings).unwrap());
            };
            tracing::info!("before");
            set_level(Level::DEBUG);
            tracing::debug!("after");
            tracing::debug!(target: "rustls::conn", "library");
            tracing::warn!(target: "rustls::conn", "library warning");
            set_level(Level::ERROR);
            tracing::warn!("back");
            tracing::warn!(target: "rustls::conn", "library back");
        });
        let said: Vec<_> = lines.iter().map(|line| line.rsplit(": ").next().unwrap()).collect();
        assert_eq!(said, ["after", "library warning"]);
    }

    #[test]
    fn no_level_leaves_the_audit_out() {
        let lines = logged("audit", LogFormat::Text, Level::ERROR, |control, settings| {
            tracing::warn!("left out");
            tracing::warn!(target: AUDIT_TARGET, "an operator's command");
            tracing::info!(target: AUDIT_TARGET, "left out");
            control.follow(control.prepare(&LogSettings { level: Level::INFO, ..settings.clone() }).unwrap());
            control.follow(control.prepare(settings).unwrap());
            tracing::warn!(target: AUDIT_TARGET, "another one");
        });
        let said: Vec<_> = lines.iter().map(|line| line.rsplit(": ").next().unwrap()).collect();
        assert_eq!(said, ["an operator's command", "another one"]);
    }

    #[test]
    fn file_and_format_change_at_run_time() {
        let moved = std::env::temp_dir().join(format!("delphinus-log-{}-moved", std::process::id()));
        let lines = logged("rotated", LogFormat::Text, Level::INFO, |control, settings| {
            let follow = |settings: &LogSettings| control.follow(control.prepare(settings).unwrap());
            tracing::info!("to the first");
            // As logrotate does it: the file has another name, and the log goes on under the old one.
            std::fs::rename(settings.file.as_ref().unwrap(), &moved).unwrap();
            follow(settings);
            tracing::info!("to the second");
            let nowhere = LogSettings { file: Some("/nonexistent/log".into()), ..settings.clone() };
            assert!(control.prepare(&nowhere).is_err());
            tracing::info!("still there");
            follow(&LogSettings { format: LogFormat::Json, ..settings.clone() });
            tracing::info!("as an object");
        });
        let first = std::fs::read_to_string(&moved).unwrap();
        std::fs::remove_file(&moved).unwrap();
        assert!(first.lines().count() == 1 && first.contains("to the first"), "{first}");
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains("to the second") && lines[1].contains("still there"), "{lines:?}");
        let line: serde_json::Value = serde_json::from_str(&lines[2]).unwrap();
        assert_eq!(line["message"], "as an object");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let file = Some(PathBuf::from("/nonexistent/delphinus.log"));
        let settings = LogSettings { format: LogFormat::Text, level: Level::INFO, file };
        let error = build(&settings).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/delphinus.log"), "{error}");
    }
}
