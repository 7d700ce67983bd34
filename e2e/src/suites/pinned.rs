//! How long sessions were connected and pinned, as the proxy's log says at the level `debug`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

/// Times of the sessions that have ended, summed up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PinnedTime {
    /// Sessions that have ended.
    pub sessions: u64,
    /// How long they were connected.
    pub connected: Duration,
    /// How long they were pinned, by reason. Transactions are not among them.
    pub by_reason: BTreeMap<String, Duration>,
    /// The statements that pinned, each once, with their reasons.
    pub statements: Vec<(String, String)>,
}

/// So many statements are kept to show.
const STATEMENTS: usize = 200;

impl PinnedTime {
    /// Reads lines of the log, each a JSON object.
    pub(crate) fn read(log: &str) -> Self {
        let mut time = Self::default();
        for line in log.lines().filter(|line| line.contains("ended")) {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let micros = |name: &str| Duration::from_micros(line[name].as_u64().unwrap_or_default());
            match line["message"].as_str() {
                Some("session ended") => {
                    time.sessions += 1;
                    time.connected += micros("connected_us");
                }
                Some("pin ended") => {
                    let word = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
                    *time.by_reason.entry(word("reason")).or_default() += micros("pinned_us");
                    let cause = (word("reason"), word("statement"));
                    if time.statements.len() < STATEMENTS && !time.statements.contains(&cause) {
                        time.statements.push(cause);
                    }
                }
                _ => {}
            }
        }
        time
    }

    /// How long they were pinned in all.
    pub fn pinned(&self) -> Duration {
        self.by_reason.values().sum()
    }

    /// The part of the time that they were pinned, in percent.
    pub fn percent(&self) -> f64 {
        let connected = self.connected.as_secs_f64();
        if connected > 0.0 { 100.0 * self.pinned().as_secs_f64() / connected } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_up_by_reason() {
        let log = r#"
{"level":"DEBUG","message":"pin ended","reason":"get_lock","pinned_us":1500,"statement":"SELECT GET_LOCK('a', 1)"}
{"level":"DEBUG","message":"pin ended","reason":"get_lock","pinned_us":500,"statement":"SELECT GET_LOCK('a', 1)"}
{"level":"INFO","message":"something that ended"}
{"level":"DEBUG","message":"session ended","connected_us":200000}
not JSON that ended"#;
        let time = PinnedTime::read(log);
        assert_eq!((time.sessions, time.pinned()), (1, Duration::from_millis(2)));
        assert_eq!(time.statements.len(), 1);
        assert!((time.percent() - 1.0).abs() < 1e-9, "{}", time.percent());
        assert!(PinnedTime::default().percent().abs() < 1e-9);
    }
}
