//! Virtual IPs in network namespaces; `cargo xtask e2e vip` builds and starts it. It needs root.
//!
//! Arguments: `[--quick] [--only NAME]...`, or `--peers ROUNDS [--docs FILE]`. The last line is "N passed, M failed", counted in cases.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use delphinus_e2e::{enter_own_network, vip};

fn main() -> ExitCode {
    match work() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn work() -> Result<bool> {
    let (mut is_short, mut only, mut peers, mut docs) = (false, Vec::new(), None, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => is_short = true,
            "--only" => only.push(words.next().context("--only needs a name")?),
            "--peers" => peers = Some(words.next().context("--peers needs a number of rounds")?.parse()?),
            "--docs" => docs = Some(PathBuf::from(words.next().context("--docs needs a file")?)),
            _ => bail!("{word} is not known"),
        }
    }
    enter_own_network()?;
    let (passed, failed) = match peers {
        Some(rounds) => vip::compare((rounds, &only), docs.as_deref(), say)?,
        None => vip::run(is_short, &only, say)?,
    };
    say(&format!("{passed} passed, {failed} failed"));
    Ok(failed == 0 && passed > 0)
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
