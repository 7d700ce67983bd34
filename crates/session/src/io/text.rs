//! Where the SQL text of a command stands in the buffer. What the text says, this file does not know.

use delphinus_wire::HEADER_LEN;

use super::{Client, Input};

/// A command that has an SQL text, and the place where the text begins. It ends where the held part of the command ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text {
    /// The command at the front of the buffer.
    pub input: Input,
    /// The place of the text's first byte: bytes from the start of the held packet, the header included.
    pub at: usize,
}

impl Text {
    /// The text that begins behind so many bytes of the command's payload.
    #[inline]
    pub(crate) fn in_payload(input: Input, at: usize) -> Self {
        Self { input, at: HEADER_LEN + at }
    }

    /// Its bytes in a buffer that begins with the command, as far as they are held.
    #[inline]
    pub(crate) fn of(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.at..self.input.held]
    }
}

impl Client {
    /// The text of a command that is still at the front of the buffer, as far as it is held.
    #[inline]
    pub(crate) fn held_text(&self, text: Text) -> &[u8] {
        text.of(self.buffer.data())
    }

    /// The text of the statement just run, as far as it was held.
    pub(crate) fn sent_text(&self, text: Text) -> &[u8] {
        let input = text.input;
        if let Some(command) = self.before_file.as_deref().filter(|command| command.len() >= input.held) {
            text.of(command.data())
        } else if input.is_whole() && self.kept >= input.held {
            self.held_text(text)
        } else {
            &[]
        }
    }
}
