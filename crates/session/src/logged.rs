//! What of a statement goes into the logs: of a client's when it has ended, of each try that has come to nothing, and of commands that are
//! no statements but go to a backend.

use delphinus_journal::{Command as Logged, Entry, Origin, Pen, Settings, Side};
use delphinus_pool::{Checkout, Connection, Question};
use delphinus_sql::SqlText;
use delphinus_state::Response;
use delphinus_stats::{Cost, Recorder};
use delphinus_wire::{Command, HEADER_LEN, error_code, query_text_at};

use crate::costs::Costs;
use crate::io::{Client, Cut, Relayed};
use crate::state::Wanted;
use crate::statements::ClientStatements;

/// What a statement has cost, as a log has it.
pub(crate) fn entry_of(cost: &Cost, costs: &Costs) -> Entry<'static> {
    Entry {
        took_us: cost.total_us,
        at_us: cost.at_us,
        command: if costs.is_fetch() {
            Logged::Fetch
        } else if costs.prepared().is_some() {
            Logged::Execute
        } else {
            Logged::Query
        },
        rows_sent: cost.rows_sent,
        rows_affected: cost.rows_affected,
        bytes_received: cost.bytes_received,
        bytes_sent: cost.bytes_sent,
        connection: costs.connection(),
        digest: costs.digest().map(|digest| digest.0),
        ..Entry::now()
    }
}

/// Where the text of a statement is, and how it is read.
pub(crate) struct Texts<'a> {
    pub client: &'a Client,
    pub statements: &'a ClientStatements,
    pub recorder: &'a Recorder,
    pub state: &'a Wanted,
}

/// Writes the entry with its text, as the log wants texts.
pub(crate) fn write(pen: &Pen, entry: &Entry<'_>, (costs, texts): (&Costs, &Texts<'_>), settings: &Settings) {
    if costs.is_rewritten() && entry.side != Side::Client {
        if entry.side == Side::Both {
            write_as_counted(pen, &Entry { side: Side::Client, ..*entry }, (costs, texts), settings);
        }
        // What the backend was asked is another text, with another digest.
        let took_us = entry.at_us[3].into();
        let entry = Entry { side: Side::Backend, digest: None, took_us, ..*entry };
        return write_sent(pen, &entry, (costs, texts), settings);
    }
    write_as_counted(pen, entry, (costs, texts), settings);
}

/// The same with the text that its digest is of.
fn write_as_counted(pen: &Pen, entry: &Entry<'_>, (costs, texts): (&Costs, &Texts<'_>), settings: &Settings) {
    if !settings.shows_literals
        && let Some(digest) = costs.digest()
        && let Some(text) = pen.text(digest.0, || texts.recorder.text(digest))
    {
        return pen.write(&Entry { text: text.as_bytes(), ..*entry });
    }
    write_sent(pen, entry, (costs, texts), settings);
}

/// The same with the text that was sent.
fn write_sent(pen: &Pen, entry: &Entry<'_>, (costs, texts): (&Costs, &Texts<'_>), settings: &Settings) {
    match sent_text(texts, costs) {
        Some(sent) => pen.write_text(entry, (sent.sql, sent.lex), settings),
        None => pen.write(&Entry { text: b"/* the text was not kept */", ..*entry }),
    }
}

/// The text as its client has sent it, if it is still there.
fn sent_text<'a>(texts: &Texts<'a>, costs: &Costs) -> Option<SqlText<'a>> {
    let Texts { client, statements, state, .. } = *texts;
    if let Some(id) = costs.prepared() {
        return Some(state.text_of(&statements.look(id)?.key));
    }
    let payload = client.kept_command()?.get(HEADER_LEN..)?;
    let Ok(Command::Query(_)) = Command::parse(payload) else { return None };
    let sql = payload.get(query_text_at(payload, client.capabilities).ok()?..)?;
    Some(SqlText::new(sql, state.lex.as_read()))
}

/// A try that has come to nothing: what follows is written as a statement's own end.
#[cold]
pub(crate) fn log_try(
    client: &Client,
    statements: &ClientStatements,
    connection: &Connection,
    costs: &Costs,
    forwarded: &Result<Relayed, Cut>,
) {
    let (Some(_), Some(began)) = (connection.begin_question(), costs.began()) else { return };
    let Some(payload) = client.kept_command().and_then(|command| command.get(HEADER_LEN..)) else { return };
    let error = match forwarded {
        Ok(relayed) => relayed.response.error.unwrap_or(0),
        Err(_) => error_code::CR_SERVER_LOST,
    };
    let text = costs.prepared().and_then(|id| statements.look(id)).map(|found| &*found.key);
    let question = Question { origin: Origin::Client, payload, text, began, error, rows: 0 };
    connection.log_question(question);
}

/// A command of the client that is no statement: it goes to a backend all the same.
pub(crate) fn log_command(
    client: &Client,
    checkout: &mut Checkout,
    (began, response): (Option<std::time::Instant>, &Response),
) {
    let (Some(began), Some(command)) = (began, client.kept_command()) else { return };
    let Some(payload) = command.get(HEADER_LEN..) else { return };
    let (error, rows) = (response.error.unwrap_or(0), response.rows);
    let question = Question { origin: Origin::Client, payload, text: None, began, error, rows };
    checkout.connection().log_question(question);
}

#[cfg(test)]
mod tests {
    use delphinus_journal::PLACES;
    use delphinus_stats::Place;

    /// A log takes the times as they are counted.
    #[test]
    fn places_have_one_order() {
        assert_eq!(Place::ALL.map(Place::as_str), PLACES);
    }
}
