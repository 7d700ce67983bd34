//! A result that is larger than its client may have: what has come of it stays, an error takes the place of the rest, and the
//! statement is ended on its backend.

use std::cell::Cell;
use std::rc::Rc;

use delphinus_net::{Buffer, rt};
use delphinus_pool::Checkout;
use delphinus_state::{Progress, ResponseTracker};
use delphinus_wire::error_code;

use super::Client;
use super::beside::{Beside, Break};

/// An order to end a statement. It reaches no later one on its connection.
pub(crate) struct Ending {
    /// The statement has ended by itself.
    pub is_over: Rc<Cell<bool>>,
    /// Who carries it out.
    pub task: rt::JoinHandle<()>,
}

/// What has come of a result that is too large.
pub(super) struct Excess {
    pub bytes: Buffer,
    pub progress: Progress,
    /// After how many of the bytes an error can stand, and the number that it has there.
    pub place: (usize, u8),
}

impl Client {
    /// Passes the first bytes, up to the place where an error can stand, ends the statement, and reads what still comes, which is
    /// passed to nobody. Returns the error, with the number that it has there.
    pub(super) async fn cut_short(
        &mut self,
        checkout: &mut Checkout,
        tracker: &mut ResponseTracker,
        Excess { bytes, progress, place: (at, seq) }: Excess,
        beside: &mut impl Beside,
    ) -> Result<(Buffer, usize), Break> {
        let (mut bytes, mut progress) = (self.pass(bytes, at, beside).await?, progress.behind(at));
        let ending = (!tracker.is_done()).then(|| beside.ends_statement(checkout));
        while !tracker.is_done() {
            match progress {
                Progress::More(n) | Progress::ResultEnd(n) | Progress::Done(n) => bytes.consume(n),
                Progress::Rewrite(n, len) | Progress::Shortened(n, len) => bytes.consume(n + len),
                Progress::LocalInfile(_) => {
                    return Err(delphinus_wire::Malformed("a request for a file behind rows").into());
                }
            }
            if bytes.is_empty() || matches!(progress, Progress::More(_)) {
                bytes.compact();
                // What comes without a pause would keep the order to end it from being carried out.
                rt::yield_now().await;
                bytes = self.read_backend(checkout, bytes, beside).await?;
            }
            progress = tracker.advance(bytes.data_mut())?;
        }
        if let Some(Ending { is_over, task }) = ending {
            is_over.set(true);
            let _ = task.await;
        }
        tracker.was_ended(error_code::ER_USER_LIMIT_REACHED);
        let error = beside.error_of_limit(seq, self.capabilities);
        bytes.clear();
        bytes.extend(&error);
        Ok((bytes, error.len()))
    }
}
