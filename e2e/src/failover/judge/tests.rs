//! Each fault is planted in a good history, and must be found there.

use super::super::history::{Read, Write};
use super::*;

/// Two sessions, two servers; the role moves from server 1 to server 2 at 500. A transaction, a failed write, and one of
/// unknown outcome are in it. Nothing is wrong with it.
fn good() -> History {
    let write = |session, value: u64, begin_us, outcome| Write {
        session,
        transaction: if value == 13 { 12 } else { value },
        list: session,
        value,
        begin_us,
        end_us: begin_us + 20,
        outcome,
    };
    let read =
        |session, list, begin_us, values: &[u64]| Read { session, list, begin_us, values: values.to_vec() };
    let row = |list, value, server| Row { list, value, server };
    History {
        writes: vec![
            write(1, 11, 100, Outcome::Ok),
            write(1, 12, 200, Outcome::Ok),
            write(1, 13, 200, Outcome::Ok),
            write(2, 21, 300, Outcome::Ok),
            write(2, 22, 480, Outcome::Unknown),
            write(1, 14, 490, Outcome::Failed),
            write(1, 15, 600, Outcome::Ok),
            write(2, 23, 620, Outcome::Ok),
            write(2, 24, 700, Outcome::Ok),
        ],
        reads: vec![
            read(1, 1, 150, &[11]),
            read(2, 1, 160, &[]),
            read(1, 1, 250, &[11, 12, 13]),
            read(2, 1, 350, &[11, 12, 13]),
            read(1, 1, 650, &[11, 12, 13, 15]),
            read(2, 2, 750, &[21, 23, 24]),
        ],
        last: vec![
            row(1, 11, 1),
            row(1, 12, 1),
            row(1, 13, 1),
            row(2, 21, 1),
            row(1, 15, 2),
            row(2, 23, 2),
            row(2, 24, 2),
        ],
        // The old primary had run it, and nobody was told.
        strays: vec![row(2, 22, 1)],
    }
}

/// The verdict of the good history with one thing changed, which must be one that is not clean.
fn with(plant: impl FnOnce(&mut History)) -> Verdict {
    let mut history = good();
    plant(&mut history);
    let verdict = judge(&history);
    assert!(!verdict.is_clean(), "the planted fault was not found");
    verdict
}

#[test]
fn a_good_history_is_clean() {
    assert_eq!(judge(&good()), Verdict::default());
    assert!(judge(&History::default()).is_clean());
    // The unknown one may as well be there.
    let mut history = good();
    history.last.append(&mut history.strays);
    history.reads[5].values.push(22);
    assert!(judge(&history).is_clean());
}

#[test]
fn a_lost_write_is_found_and_is_no_stale_read() {
    let verdict = with(|history| {
        history.last.retain(|row| row.value != 21);
        history.reads[5].values.retain(|value| *value != 21);
    });
    assert_eq!(verdict, Verdict { lost: vec![21], ..Verdict::default() });
}

#[test]
fn a_doubled_write_is_found_in_the_end_in_a_read_and_on_two_servers() {
    let again = Row { list: 1, value: 15, server: 2 };
    assert_eq!(with(|history| history.last.push(again)).doubled, [15]);
    assert_eq!(with(|history| history.reads[4].values.push(15)).doubled, [15]);
    assert_eq!(with(|history| history.strays.push(Row { server: 1, ..again })).doubled, [15]);
}

#[test]
fn a_write_that_was_told_as_failed_and_is_there_is_found() {
    let row = Row { list: 1, value: 14, server: 1 };
    assert_eq!(with(|history| history.last.push(row)), Verdict { denied: vec![14], ..Verdict::default() });
    // Also if it was seen for a while only.
    assert_eq!(with(|history| history.reads[4].values.push(14)).denied, [14]);
}

#[test]
fn what_was_seen_and_is_gone_is_found() {
    let verdict = with(|history| history.reads[5].values.push(22));
    assert_eq!(verdict, Verdict { gone: vec![22], ..Verdict::default() });
}

#[test]
fn a_part_of_a_transaction_is_found() {
    let verdict = with(|history| {
        history.last.retain(|row| row.value != 13);
        history.writes.iter_mut().filter(|write| write.transaction == 12).for_each(|write| {
            write.outcome = Outcome::Unknown;
        });
        history.reads.clear();
    });
    assert_eq!(verdict, Verdict { torn: vec![12], ..Verdict::default() });
}

#[test]
fn a_read_that_goes_back_is_found() {
    let verdict = with(|history| {
        let later = Read { begin_us: 400, values: vec![11], ..history.reads[3].clone() };
        history.reads.insert(4, later);
    });
    assert_eq!(verdict, Verdict { backwards: vec![4], ..Verdict::default() });
    // Another session may know less.
    let mut history = good();
    let later = Read { begin_us: 400, session: 3, values: vec![11], ..history.reads[3].clone() };
    history.reads.insert(4, later);
    assert!(judge(&history).is_clean());
}

#[test]
fn an_own_write_that_is_missing_is_found() {
    let verdict = with(|history| history.reads[0].values.clear());
    assert_eq!(verdict, Verdict { own_missing: vec![0], ..Verdict::default() });
    // Not as long as it was not told.
    let mut history = good();
    history.reads[0].values.clear();
    history.reads[0].begin_us = 110;
    assert!(judge(&history).is_clean());
}

#[test]
fn two_writers_are_found() {
    let pair = vec![(1, 2)];
    // The old primary takes one more after the new one has taken one.
    let late = |begin_us| {
        move |history: &mut History| {
            let write = Write {
                value: 25,
                transaction: 25,
                begin_us,
                end_us: begin_us + 10,
                ..history.writes[7].clone()
            };
            history.writes.push(write);
            history.last.push(Row { list: 2, value: 25, server: 1 });
            // The last read would miss it.
            history.reads.pop();
        }
    };
    assert_eq!(with(late(660)), Verdict { two_writers: pair.clone(), ..Verdict::default() });
    // The same on the old primary alone, that is, the write is lost, too.
    let verdict = with(|history| {
        late(660)(history);
        let row = history.last.pop().unwrap();
        history.strays.push(row);
    });
    assert_eq!(verdict, Verdict { two_writers: pair.clone(), lost: vec![25], ..Verdict::default() });
    // One write of a third server in the midst of another's.
    let verdict = with(|history| {
        late(200)(history);
        history.last.last_mut().unwrap().server = 3;
    });
    assert_eq!(verdict.two_writers, [(1, 3)]);
    // Times that only touch are no proof.
    let mut history = good();
    late(610)(&mut history);
    assert!(judge(&history).is_clean(), "{:?}", judge(&history));
}
