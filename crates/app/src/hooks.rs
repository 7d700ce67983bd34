//! Runs the operators' programs before and after a move of the primary's role: files of fixed names in a folder that only the
//! configuration file can name. They get no secret: their environment holds what the move is about and PATH, and nothing else.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use delphinus_monitor::{Hooks, LeaveTold, Moment};
use delphinus_net::rt;

use crate::programs::Call;

/// A folder of programs; without one there are none.
pub(crate) struct Programs {
    pub folder: Option<PathBuf>,
    pub cluster: String,
}

impl Hooks for Programs {
    fn run(
        &self,
        moment: Moment,
        mut about: Vec<(&'static str, String)>,
        limit: Duration,
    ) -> LeaveTold<'_, Option<String>> {
        about.push(("DELPHINUS_CLUSTER", self.cluster.clone()));
        let program = self.folder.as_ref().map(|folder| folder.join(moment.program()));
        Box::pin(async move {
            let Some(program) = program else { return Ok(None) };
            let done = rt::compute(move || run(&program, &about, limit)).await;
            done.unwrap_or_else(|| Err("the process stops".to_owned()))
        })
    }
}

fn run(program: &Path, about: &[(&'static str, String)], limit: Duration) -> Result<Option<String>, String> {
    if !program.exists() {
        return Ok(None);
    }
    let call = Call { program, arguments: &[], about, limit, is_over: &AtomicBool::new(false) };
    call.run().map(Some)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    use super::*;
    use crate::programs::SAID;

    fn script(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("delphinus-hook-{}-{name}", std::process::id()));
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    fn told(name: &str, text: &str, limit: Duration) -> Result<Option<String>, String> {
        let path = script(name, text);
        let done = run(&path, &[("DELPHINUS_TO", "db2".to_owned())], limit);
        fs::remove_file(path).unwrap();
        done
    }

    #[test]
    fn a_program_hears_what_it_is_about_and_no_secret() {
        let said = told("hears", "echo to $DELPHINUS_TO; env | grep -c CARGO", Duration::from_secs(10));
        assert_eq!(said, Err("exit code 1. It said: to db2 0".to_owned()));
        assert_eq!(told("good", "echo done", Duration::from_secs(10)), Ok(Some("done".to_owned())));
        assert_eq!(run(Path::new("/no/such/program"), &[], Duration::ZERO), Ok(None));
    }

    #[test]
    fn one_that_takes_too_long_is_killed_with_all_that_it_has_started() {
        let begun = Instant::now();
        let said = told("hangs", "echo waits; sleep 600 & sleep 600", Duration::from_millis(200));
        assert_eq!(said, Err("it was killed after 0.2 s. It said: waits".to_owned()));
        assert!(begun.elapsed() < Duration::from_secs(100));
    }

    #[test]
    fn one_that_says_much_is_heard_in_part() {
        let said = told("much", "head -c 1000000 /dev/zero | tr '\\0' x", Duration::from_mins(1));
        assert_eq!(said.unwrap().unwrap().len() as u64, SAID);
    }
}
