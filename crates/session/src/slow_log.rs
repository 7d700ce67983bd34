//! The text of a statement that goes into the slow log.

use delphinus_sql::{LexOptions, digest};
use delphinus_stats::Recorder;
use delphinus_wire::{Command, HEADER_LEN, query_text_at};

use crate::costs::Costs;
use crate::io::Client;
use crate::statements::ClientStatements;

/// The text of the statement that has ended, with its literals or without.
pub(crate) fn logged_text(
    shows_literals: bool,
    sent: Option<&[u8]>,
    (costs, recorder): (&Costs, &Recorder),
    lex: LexOptions,
) -> String {
    if shows_literals && let Some(sent) = sent {
        return String::from_utf8_lossy(sent).into_owned();
    }
    if let Some(text) = costs.digest().and_then(|digest| recorder.text(digest)) {
        return text.as_ref().to_owned();
    }
    let Some(sent) = sent else { return "/* the text was not kept */".to_owned() };
    let mut text = Vec::new();
    digest(sent, lex, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The same as its client has sent it, if it is still there.
pub(crate) fn sent_text<'a>(
    client: &'a Client,
    statements: &'a ClientStatements,
    costs: &Costs,
) -> Option<&'a [u8]> {
    if let Some(id) = costs.prepared() {
        return Some(statements.look(id)?.key.text());
    }
    let payload = client.kept_command()?.get(HEADER_LEN..)?;
    let Ok(Command::Query(_)) = Command::parse(payload) else { return None };
    payload.get(query_text_at(payload, client.capabilities).ok()?..)
}
