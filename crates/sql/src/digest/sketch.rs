//! A hash of a text that is cheap to find: texts with the same sketch have the same digest.
//!
//! It leaves out what literals say and how they are spaced, and nothing else: texts with the same digest may have many sketches, as those
//! do whose lists have different lengths. Whoever counts remembers the digests of sketches.

use crate::LexOptions;
use crate::cursor::{Cursor, Watch};
use crate::lexer::TokenKind;
use crate::options::{Flavor, Quotes};

/// The sketch of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sketch(pub u64);

/// By the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes a sketch, token by token. Clients that do not know the seed cannot make texts whose sketches meet.
pub(crate) struct Sketcher {
    value: u64,
    /// Where the digest leaves out the rest.
    stopped: Option<Sketch>,
}

impl Sketcher {
    pub(crate) fn new(seed: u64, options: LexOptions) -> Self {
        // What is a call, and so in capitals, depends on the server.
        let reader = u64::from(options.server_version) << 2
            | u64::from(options.flavor == Flavor::MariaDb) << 1
            | u64::from(options.ansi_quotes == Quotes::Ansi);
        let mut sketcher = Self { value: seed, stopped: None };
        sketcher.mix(reader);
        sketcher
    }

    pub(crate) fn finish(self) -> Sketch {
        self.stopped.unwrap_or(Sketch(self.value))
    }

    #[inline]
    fn mix(&mut self, value: u64) {
        self.value = fold(self.value ^ value, FACTOR);
    }

    /// A text of more than eight bytes.
    fn long(&mut self, text: &[u8], meta: u64) {
        self.mix(meta);
        let (words, _) = text.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        // Some of them again.
        if let Some(last) = text.last_chunk::<8>() {
            self.mix(u64::from_le_bytes(*last));
        }
    }
}

/// The product of two numbers, its halves put together.
#[inline]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product as u64) ^ (product >> 64) as u64
}

/// All of a text of up to eight bytes; two of the same length have the same number only if they are the same.
#[inline]
fn short(text: &[u8]) -> u64 {
    match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
        }
        _ => match text {
            [] => 0,
            [one, .., last] => {
                u64::from(*one) | u64::from(text[text.len() / 2]) << 8 | u64::from(*last) << 16
            }
            [one] => u64::from(*one),
        },
    }
}

impl Watch for &mut Sketcher {
    #[inline]
    fn leaves(&mut self, cursor: &Cursor<'_>) {
        let here = cursor.here;
        // Whether two tokens touch tells `<=` from `< =`, and `user@host` from `user @host`.
        let touches = u64::from(cursor.before.end == here.start);
        let kind = here.kind as u64 | touches << 8;
        match here.kind {
            TokenKind::Text | TokenKind::Number | TokenKind::Parameter | TokenKind::Error => {
                self.mix(TokenKind::Parameter as u64);
            }
            TokenKind::Open
            | TokenKind::Close
            | TokenKind::Comma
            | TokenKind::Dot
            | TokenKind::Semicolon
            | TokenKind::Equals
            | TokenKind::SystemVariable => self.mix(kind),
            _ => {
                let text = cursor.text(here);
                let meta = kind | (text.len() as u64) << 16;
                if text.len() <= 8 {
                    self.value = fold(self.value ^ short(text), FACTOR ^ meta << 20);
                } else {
                    self.long(text, meta);
                }
            }
        }
    }

    fn stops(&mut self) {
        // No token has this.
        self.mix(u64::MAX);
        self.stopped = Some(Sketch(self.value));
    }
}
