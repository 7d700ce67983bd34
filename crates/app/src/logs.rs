//! The logs of statements, as the configuration has them.

use std::time::Duration;

use delphinus_config::{Config, LogFlush, SlowLogFormat, SqlLogFormat, SqlLogMode};
use delphinus_journal::{Flush, Format, Rotation, Settings, Sides};

/// Statements that take long.
pub(crate) fn slow_log(config: &Config) -> Settings {
    let log = &config.slow_log;
    Settings {
        path: log.file.clone(),
        format: match log.format {
            SlowLogFormat::Mysql => Format::MySql,
            SlowLogFormat::Json => Format::Json,
        },
        sides: Sides::Client,
        least_us: log.long_query_time_ms * 1000,
        one_of: log.rate_limit,
        users: log.user.clone(),
        digests: digests(&log.digest),
        shows_literals: log.literals,
        flush: flush(log.flush),
        rotation: rotation((log.max_file_bytes, log.max_file_age_s), log.keep_files),
    }
}

/// All statements.
pub(crate) fn sql_log(config: &Config) -> Settings {
    let log = &config.sql_log;
    Settings {
        path: log.file.clone(),
        format: match log.format {
            SqlLogFormat::Text => Format::Text,
            SqlLogFormat::Json => Format::Json,
        },
        sides: match log.mode {
            SqlLogMode::Client => Sides::Client,
            SqlLogMode::Backend => Sides::Backend,
            SqlLogMode::All => Sides::All,
        },
        least_us: log.min_duration_ms * 1000,
        one_of: log.rate_limit,
        users: log.user.clone(),
        digests: digests(&log.digest),
        shows_literals: log.literals,
        flush: flush(log.flush),
        rotation: rotation((log.max_file_bytes, log.max_file_age_s), log.keep_files),
    }
}

/// They were checked when the file was read.
fn digests(list: &[String]) -> Vec<u64> {
    list.iter().filter_map(|digest| u64::from_str_radix(digest, 16).ok()).collect()
}

fn flush(flush: LogFlush) -> Flush {
    Flush { each_line: flush != LogFlush::Batch, syncs: flush == LogFlush::Fsync }
}

fn rotation((max_bytes, after_s): (u64, u64), keep: u32) -> Rotation {
    Rotation { max_bytes, after: Duration::from_secs(after_s), keep }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_both_logs_come_into_their_files_alike() {
        let seen = [LogFlush::Batch, LogFlush::Line, LogFlush::Fsync].map(flush);
        let wanted = [(false, false), (true, false), (true, true)];
        assert_eq!(seen, wanted.map(|(each_line, syncs)| Flush { each_line, syncs }));
        for log in ["slow_log", "sql_log"] {
            let options = delphinus_config::reference();
            assert!(options.contains(&format!("### `{log}.flush`")), "{log}");
        }
    }
}
