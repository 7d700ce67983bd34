//! How long files of relays stay, from the configuration; the program that archives them.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use delphinus_config::{self as config, RelayArchive};
use delphinus_relay::Relay;
use delphinus_relay::keep::{Archive, Keeper, Rules, ToArchive};
use delphinus_relay::replica::Registry;

use crate::error::Error;
use crate::programs::Call;

/// The program of a relay.
#[derive(Debug)]
struct Program {
    relay: String,
    settings: RelayArchive,
}

impl Archive for Program {
    fn take(&self, file: &ToArchive, is_over: &AtomicBool) -> Result<(), String> {
        let path = file.path.clone().into_os_string();
        let arguments = self.settings.arguments.iter().map(OsString::from).chain([path]).collect::<Vec<_>>();
        let about = [
            ("DELPHINUS_RELAY", self.relay.clone()),
            ("DELPHINUS_FOLDER", file.folder.clone()),
            ("DELPHINUS_FILE", file.name.clone()),
            ("DELPHINUS_SOURCE", file.source.clone()),
        ];
        let call = Call {
            program: &self.settings.program,
            arguments: &arguments,
            about: &about,
            limit: self.settings.timeout,
            is_over,
        };
        call.run().map(drop)
    }
}

/// Begins to keep a relay's files.
pub(crate) fn start(
    relay: &Relay,
    settings: &config::Relay,
    replicas: &Arc<Registry>,
) -> Result<Keeper, Error> {
    let keep = &settings.keep;
    let rules = Rules {
        max_age: keep.max_age,
        max_bytes: keep.max_bytes,
        after_replicas: keep.after_replicas,
        remember: keep.remember,
        margin: keep.margin,
    };
    let program = |settings: RelayArchive| {
        Arc::new(Program { relay: relay.settings().name.clone(), settings }) as Arc<dyn Archive>
    };
    Keeper::start(relay, replicas, rules, keep.archive.clone().map(program)).map_err(|error| {
        Error::Relay(format!("relay '{}': {}: {error}", settings.name, settings.folder.display()))
    })
}
