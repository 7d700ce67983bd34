//! Replicas that write what they get to a file and do nothing else: `mysqlbinlog`, as it keeps a copy of a server's log.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::running::{Running, spawn};

use super::ground::{Ground, RelayHere};

/// How long they may take to have everything.
const LIMIT: Duration = Duration::from_secs(20);

/// All of them. Dropping it ends them.
pub(super) struct Copies {
    /// What each writes.
    running: Vec<(PathBuf, Running)>,
}

impl Copies {
    /// Starts so many, of the primary or behind a relay, and waits until each receives.
    pub(super) fn start(ground: &Ground, count: usize, relay: Option<&RelayHere>) -> Result<Self> {
        let (place, (user, password)) = if relay.is_some() { ground.relayed() } else { ground.direct() };
        let folder = ground.folder().join("copies");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        let mut copies = Self { running: Vec::new() };
        for number in 0..count {
            let prefix = folder.join(format!("{number}-"));
            let arguments = [
                "--no-defaults".to_owned(),
                "--read-from-remote-server".to_owned(),
                "--raw".to_owned(),
                "--stop-never".to_owned(),
                format!("--connection-server-id={}", 500 + number),
                format!("--result-file={}", prefix.display()),
                format!("--host={}", place.host),
                format!("--port={}", place.port),
                format!("--user={user}"),
                format!("--password={password}"),
                "--ssl-mode=DISABLED".to_owned(),
                "--get-server-public-key".to_owned(),
                "binlog.000001".to_owned(),
            ];
            let log = folder.join(format!("{number}.log"));
            let running = spawn(&ground.site(), &ground.log_reader(), &arguments, log)?;
            copies.running.push((folder.join(format!("{number}-binlog.000001")), running));
        }
        copies.have_all(1)?;
        Ok(copies)
    }

    /// Waits until each has so many bytes.
    pub(super) fn have_all(&self, bytes: u64) -> Result<()> {
        let began = Instant::now();
        for (file, _) in &self.running {
            while fs::metadata(file).map_or(0, |found| found.len()) < bytes {
                let told = || fs::read_to_string(file.with_file_name("0.log")).unwrap_or_default();
                ensure!(began.elapsed() < LIMIT, "{} has not got {bytes} bytes: {}", file.display(), told());
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }
}
