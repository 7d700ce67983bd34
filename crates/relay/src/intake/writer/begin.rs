//! From one file to the next.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use delphinus_wire::Malformed;
use delphinus_wire::binlog::{FormatDescription, Groups, MAGIC};
use delphinus_wire::gtid::GtidSet;

use super::{Current, Opening, Place, Writer};
use crate::intake::{Disk, IntakeError};
use crate::log::{
    Flavor, Folder, LogFile, Origin, Position, SourceId, is_closed, lacks, lost_path, number_of, read_head,
};

impl<D: Disk> Writer<D> {
    /// What follows is in this file: the one that is open, or the next one.
    pub(super) fn turn_to(&mut self, name: Box<str>) -> Result<(), IntakeError> {
        if let Place::In(current) = &self.place
            && *current.file.name == *name
        {
            return Ok(());
        }
        // Closed files are durable before the next one has a name.
        self.commit()?;
        if let (Some(_), Place::In(current)) = (self.groups.open(), &self.place) {
            let said = format!("{name} follows");
            return Err(IntakeError::Torn { name: current.file.name.clone(), said });
        }
        let folder = match std::mem::replace(&mut self.place, Place::Nowhere) {
            Place::In(current) if current.at < current.file.len() => {
                return Err(IntakeError::OtherHistory(current.file.name.clone()));
            }
            Place::In(current) => Ok(current.file.folder.clone()),
            Place::Opening(opening) => opening.folder,
            Place::Expecting(origin) => Err(origin),
            Place::Nowhere => return Err(Malformed("a file that was not asked for").into()),
        };
        self.buffer.clear();
        self.buffer.extend_from_slice(&MAGIC);
        self.event = MAGIC.len();
        self.groups = Groups::default();
        self.place = Place::Opening(Opening { name, folder, format: None, began: 0 });
        Ok(())
    }

    /// The head is whole: the file is made. Its head is written with the next commit.
    pub(super) fn begin_file(&mut self) -> Result<(), IntakeError> {
        let Place::Opening(opening) = std::mem::replace(&mut self.place, Place::Nowhere) else {
            return Err(Malformed("a head without a file").into());
        };
        let head = read_head(&self.buffer)?;
        let ordinal = self.log.next_ordinal();
        if ordinal > Position::MOST_FILES {
            let error = std::io::Error::other("too many files since the relay was started: restart it");
            return Err(IntakeError::Disk { path: self.log.root().to_owned(), error });
        }
        let folder = match opening.folder {
            Ok(folder) => {
                self.is_next(&folder, &opening.name, &head.format)?;
                folder
            }
            Err(origin) => {
                if self.log.end().is_some() && !self.log.has_all(&head.previous, &head.list) {
                    let previous = head.previous.to_string();
                    return Err(IntakeError::BeginsLate { name: opening.name, previous });
                }
                self.begin_folder(origin, &opening.name, opening.began, &head.previous.to_string())?
            }
        };
        let path = folder.path.join(&*opening.name);
        let previous = folder.before(head.previous);
        let lost = self.note_lost(&path, &previous)?;
        let handle = self.disk.create(&path).map_err(IntakeError::disk(&path))?;
        let file = Arc::new(LogFile {
            ordinal,
            name: opening.name,
            folder,
            format: head.format,
            previous: previous.clone(),
            lost,
            list: head.list.into(),
            head_len: self.buffer.len() as u64,
            began: opening.began,
            len: AtomicU64::new(0),
            readers: AtomicU32::new(0),
            closed: AtomicU64::new(0),
        });
        self.whole = self.buffer.len();
        let at = self.buffer.len() as u64;
        self.place = Place::In(Current { file, handle, path, written: 0, at, previous: Some(previous) });
        Ok(())
    }

    /// What the file at `path` says is before it, and the log does not have: durable before the file is there. Nobody can be sent that, and
    /// replicas that lack it are not to take the log for whole.
    fn note_lost(&mut self, path: &Path, previous: &GtidSet) -> Result<GtidSet, IntakeError> {
        if self.log.files().is_empty() {
            // What is before the first file is known by that.
            return Ok(GtidSet::default());
        }
        let lost = self.log.look(|executed, _| lacks(executed, previous));
        if lost.is_empty() {
            return Ok(lost);
        }
        tracing::warn!(
            file = %path.display(), intervals = lost.parts(),
            "the source has transactions that it has not sent (gtid_purged): replicas that lack them are refused; SHOW RELAY STATUS has \
             them in gtid_purged"
        );
        let beside = lost_path(path);
        let text = format!("{lost}\n");
        let failed = |error| IntakeError::disk(&beside)(error);
        let handle = self.disk.create(&beside).map_err(failed)?;
        self.disk.write(&handle, &beside, 0, text.as_bytes()).map_err(failed)?;
        self.disk.sync(&handle, &beside).map_err(failed)?;
        let folder = path.parent().unwrap_or(path);
        self.disk.sync_folder(folder).map_err(IntakeError::disk(folder))?;
        Ok(lost)
    }

    /// Fails where the folder has a file of this name, or had: a relay that is followed may have come to the files of another source. And
    /// where the file before was never closed, though its server has run on since: its log has begun anew meanwhile, and it goes on with
    /// the second file of that.
    fn is_next(&self, folder: &Folder, name: &str, format: &FormatDescription) -> Result<(), IntakeError> {
        let files = self.log.files();
        let Some(last) = files.last().filter(|last| last.folder.number == folder.number) else {
            return Ok(());
        };
        let path = last.path();
        // `created` is in the first file after a start alone: a server that was killed closes no file.
        let is_closed = || is_closed(&path).map_err(IntakeError::disk(&path));
        if number_of(name) > number_of(&last.name) && (format.created != 0 || is_closed()?) {
            return Ok(());
        }
        Err(IntakeError::NoNextFile { name: name.into(), last: last.name.clone() })
    }

    fn begin_folder(
        &mut self,
        origin: Origin,
        first_file: &str,
        created: u32,
        previous: &str,
    ) -> Result<Arc<Folder>, IntakeError> {
        let number = self.log.files().last().map_or(0, |file| file.folder.number) + 1;
        let (had, had_state) = match origin.flavor {
            Flavor::MariaDb => (self.log.executed().to_string(), self.log.state().to_string()),
            Flavor::MySql => (String::new(), String::new()),
        };
        let source = SourceId {
            flavor: origin.flavor,
            identity: origin.identity,
            first_file: first_file.to_owned(),
            created,
            previous: previous.to_owned(),
            purged: if origin.purged.is_empty() { String::new() } else { origin.purged.to_string() },
            had,
            had_state,
        };
        let root = self.log.root();
        Folder::create(root, number, source).map(Arc::new).map_err(IntakeError::disk(root))
    }
}
