//! The configuration file, read again when it has changed, or a file that it names.
//!
//! Once a second the proxy asks what the system knows of these files: no notification reaches it from a file that another machine or a link has
//! replaced. It reads nothing until they have been still for a second, as an editor may be writing.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use delphinus_net::rt;

use crate::reload::{Running, told};

/// Time between two looks, and how long files have to be still.
const INTERVAL: Duration = Duration::from_secs(1);

/// What the system says of each file; `None`: it is not there.
type Stamp = BTreeMap<PathBuf, Option<(u64, u64, u64, i64, i64)>>;

/// Reads the configuration again with each change of its files, as long as `auto_reload` says so.
pub(crate) async fn follow_files(running: Rc<Running>) {
    let mut watch = Watch { seen: stamp(running.files()).await, before: None, held: None };
    loop {
        rt::sleep(INTERVAL).await;
        if !running.reloads_by_itself() {
            // A change of today is not read tomorrow, when the option is set.
            watch.seen = stamp(running.files()).await;
            continue;
        }
        let now = stamp(running.files()).await;
        match watch.look(now, running.is_saved()) {
            Verdict::Rest => {}
            Verdict::Hold => tracing::warn!(
                "the configuration file, or a file that it names, has changed, and is not read by itself: changes by command are not saved. \
                 CONFIG DIFF shows them, CONFIG SAVE keeps them, RELOAD CONFIG takes the file"
            ),
            Verdict::Read => {
                // A mistake is in the log. Without a change somebody else was faster, or CONFIG SAVE has written the file.
                let done = running.reload("auto_reload").await;
                let changes = done.as_ref().map_or(0, Vec::len);
                if done.is_err() || changes > 0 {
                    running.note("file", "auto_reload: RELOAD CONFIG", &told(&done));
                }
                if changes > 0 {
                    tracing::info!(changes, "the configuration file has changed and was read again");
                }
            }
        }
    }
}

/// What was seen of the files.
#[derive(Default)]
struct Watch {
    /// When the configuration was read last.
    seen: Stamp,
    /// A second ago, if that was something else.
    before: Option<Stamp>,
    /// What was told to wait for unsaved changes.
    held: Option<Stamp>,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing has changed, or it goes on changing.
    Rest,
    /// The files have changed; so has what runs.
    Hold,
    /// The files have changed and are still.
    Read,
}

impl Watch {
    fn look(&mut self, now: Stamp, is_saved: bool) -> Verdict {
        // A file that is named since the last look has just been read.
        let seen = |(path, known): (&PathBuf, &_)| (path.clone(), *self.seen.get(path).unwrap_or(known));
        self.seen = now.iter().map(seen).collect();
        if now == self.seen {
            self.before = None;
            return Verdict::Rest;
        }
        if self.before.as_ref() != Some(&now) {
            self.before = Some(now);
            return Verdict::Rest;
        }
        if !is_saved {
            let is_new = self.held.as_ref() != Some(&now);
            self.held = Some(now);
            return if is_new { Verdict::Hold } else { Verdict::Rest };
        }
        self.seen = now;
        self.before = None;
        Verdict::Read
    }
}

/// On a thread of its own: a disk may hang.
async fn stamp(files: Vec<PathBuf>) -> Stamp {
    let of = |path: PathBuf| {
        let known = fs::metadata(&path).ok();
        (path, known.map(|of| (of.dev(), of.ino(), of.size(), of.mtime(), of.mtime_nsec())))
    };
    rt::compute(move || files.into_iter().map(of).collect()).await.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(content: u64) -> Stamp {
        [("a.toml".into(), Some((0, content, 0, 0, 0)))].into()
    }

    #[test]
    fn files_are_read_once_when_they_are_still() {
        let mut watch = Watch { seen: of(1), ..Watch::default() };
        let mut look = |content| watch.look(of(content), true);
        assert_eq!(look(1), Verdict::Rest);
        assert_eq!((look(2), look(3), look(4)), (Verdict::Rest, Verdict::Rest, Verdict::Rest));
        assert_eq!((look(4), look(4), look(4)), (Verdict::Read, Verdict::Rest, Verdict::Rest));
        // Back before it was still.
        assert_eq!(
            (look(5), look(4), look(5), look(5)),
            (Verdict::Rest, Verdict::Rest, Verdict::Rest, Verdict::Read)
        );
        // A file that is gone is a change, too.
        let gone = Stamp::from([("a.toml".into(), None)]);
        assert_eq!((watch.look(gone.clone(), true), watch.look(gone, true)), (Verdict::Rest, Verdict::Read));
    }

    #[test]
    fn unsaved_changes_hold_the_file_back_and_that_is_told_once() {
        let mut watch = Watch { seen: of(1), ..Watch::default() };
        let mut look = |content, is_saved| watch.look(of(content), is_saved);
        assert_eq!(
            (look(2, false), look(2, false), look(2, false)),
            (Verdict::Rest, Verdict::Hold, Verdict::Rest)
        );
        assert_eq!(
            (look(3, false), look(3, false), look(3, false)),
            (Verdict::Rest, Verdict::Hold, Verdict::Rest)
        );
        assert_eq!((look(3, true), look(3, true)), (Verdict::Read, Verdict::Rest));
    }

    #[test]
    fn a_file_that_is_newly_named_is_no_change() {
        let mut watch = Watch { seen: of(1), ..Watch::default() };
        let with = |content, known| {
            let mut both = of(content);
            both.insert("password".into(), known);
            both
        };
        let none = with(1, None);
        assert_eq!((watch.look(none.clone(), true), watch.look(none, true)), (Verdict::Rest, Verdict::Rest));
        // But when it comes, or when another one changes at the same time.
        let there = with(1, Some((0, 7, 0, 0, 0)));
        assert_eq!(
            (watch.look(there.clone(), true), watch.look(there, true)),
            (Verdict::Rest, Verdict::Read)
        );
        let mut watch = Watch { seen: of(1), ..Watch::default() };
        let other = with(2, None);
        assert_eq!(
            (watch.look(other.clone(), true), watch.look(other, true)),
            (Verdict::Rest, Verdict::Read)
        );
    }
}
