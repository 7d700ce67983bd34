//! Statements over tables run one at a time, so that the limit on memory is that of one statement. Operators take turns by their
//! user: one who has many statements under way, or slow ones, delays another user by one of them. Examinations of all servers have
//! turns of their own.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use delphinus_net::rt::{self, oneshot};

/// How long a statement waits for its turn.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who waits.
#[derive(Clone, Default)]
pub(crate) struct Turns(Rc<RefCell<Queue>>);

#[derive(Default)]
struct Queue {
    is_taken: bool,
    /// Whose turn it was.
    last: String,
    waiting: VecDeque<(String, oneshot::Sender<Turn>)>,
}

/// The turn of one statement; the next one has it when this is dropped.
pub(crate) struct Turn(Turns);

impl Turns {
    /// Waits for the turn of a user; `None` if it does not come in time.
    pub(crate) async fn take(&self, user: &str) -> Option<Turn> {
        let turn = {
            let mut queue = self.0.borrow_mut();
            if !queue.is_taken {
                queue.is_taken = true;
                user.clone_into(&mut queue.last);
                return Some(Turn(self.clone()));
            }
            let (sender, turn) = oneshot::channel();
            queue.waiting.push_back((user.to_owned(), sender));
            turn
        };
        rt::timeout(PATIENCE, turn).await?.ok()
    }

    /// The next one who still waits: of another user, if there is one.
    fn next(&self) -> Option<oneshot::Sender<Turn>> {
        let mut queue = self.0.borrow_mut();
        queue.waiting.retain(|(_, sender)| !sender.is_closed());
        let other = queue.waiting.iter().position(|(user, _)| *user != queue.last);
        let next = queue.waiting.remove(other.unwrap_or(0));
        queue.is_taken = next.is_some();
        let (user, sender) = next?;
        queue.last = user;
        Some(sender)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(sender) = self.0.next() {
            // One that has given up at this moment drops its turn, which comes here again.
            drop(sender.send(Turn(self.0.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_take_turns_and_who_gives_up_loses_nothing_for_others() {
        rt::block_on(async {
            let turns = Turns::default();
            let first = turns.take("a").await.unwrap();
            let order = Rc::new(RefCell::new(Vec::new()));
            for (user, number) in [("a", 1), ("a", 2), ("b", 3), ("a", 4)] {
                let (turns, order) = (turns.clone(), order.clone());
                rt::spawn_local(async move {
                    let turn = turns.take(user).await;
                    order.borrow_mut().push(number);
                    drop(turn);
                });
            }
            // It waits, and gives up.
            assert!(rt::timeout(Duration::from_millis(5), turns.take("c")).await.is_none());
            drop(first);
            while order.borrow().len() < 4 {
                rt::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(*order.borrow(), [3, 1, 2, 4]);
            assert!(turns.take("c").await.is_some());
        })
        .unwrap();
    }
}
