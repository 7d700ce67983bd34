//! Verdicts, as docs/failover.md has them.

use delphinus_sql::{LexOptions, classify};

use super::*;

const ALONE: Situation = Situation {
    harm: Harm::Writes,
    parts: Parts::One,
    is_at_hand: true,
    holds: Holds::Nothing,
    transaction: Transaction::None,
    side: Side::Primary,
    next: NextPrimary::Awaited,
    suspicion: Suspicion::None,
    may_have_committed: false,
    attempt: 1,
};
const IN_TRANSACTION: Situation =
    Situation { holds: Holds::Transaction, transaction: Transaction::Open, ..ALONE };
const READ: Situation = Situation { harm: Harm::None, ..ALONE };
const BROKEN: Trouble = Trouble::Cut(Reached::Nothing);

#[test]
fn a_refused_statement_runs_on_the_next_primary_or_its_transaction_ends() {
    use Verdict::{BeginAnew, GiveUp, OnNextPrimary, Tell, ToPrimary};
    let begun = Situation { transaction: Transaction::JustBegun, ..IN_TRANSACTION };
    let on_replica = |may_leave| Situation { side: Side::Replica { may_leave }, ..IN_TRANSACTION };
    for (situation, verdict) in [
        (ALONE, OnNextPrimary),
        (Situation { harm: Harm::Begins, ..ALONE }, OnNextPrimary),
        (Situation { parts: Parts::Several, ..ALONE }, Tell),
        (Situation { parts: Parts::Rows, ..ALONE }, Tell),
        (Situation { is_at_hand: false, ..ALONE }, Tell),
        (Situation { next: NextPrimary::NotAwaited, ..ALONE }, Tell),
        (Situation { next: NextPrimary::Never, ..ALONE }, Tell),
        (Situation { attempt: REFUSALS, ..ALONE }, Tell),
        // Without a pin, but with a transaction that the server knows of.
        (Situation { transaction: Transaction::Open, ..ALONE }, Tell),
        (Situation { holds: Holds::More, ..ALONE }, Tell),
        (Situation { holds: Holds::Transaction, ..ALONE }, Tell),
        (IN_TRANSACTION, GiveUp),
        (Situation { parts: Parts::Several, ..IN_TRANSACTION }, Tell),
        // They are rolled back with it.
        (Situation { parts: Parts::Rows, ..IN_TRANSACTION }, GiveUp),
        (Situation { parts: Parts::Rows, ..begun }, GiveUp),
        (Situation { next: NextPrimary::NotAwaited, ..IN_TRANSACTION }, GiveUp),
        (Situation { next: NextPrimary::Never, ..IN_TRANSACTION }, Tell),
        (Situation { holds: Holds::More, ..IN_TRANSACTION }, Tell),
        (begun, BeginAnew),
        (Situation { is_at_hand: false, ..begun }, GiveUp),
        (Situation { attempt: REFUSALS, ..begun }, GiveUp),
        (Situation { next: NextPrimary::NotAwaited, ..begun }, GiveUp),
        (on_replica(true), ToPrimary),
        (on_replica(false), Tell),
        (Situation { transaction: Transaction::None, ..on_replica(true) }, Tell),
    ] {
        assert_eq!(rescue(Trouble::Refused, situation), verdict, "{situation:?}");
    }
}

#[test]
fn what_changes_nothing_runs_again_where_nothing_has_come_of_it() {
    let part = Trouble::Cut(Reached::APart);
    let answer = Verdict::Lost(Loss::Answer(Suspicion::None));
    let suspect = |suspicion| Situation { suspicion, ..READ };
    let begins = Situation { harm: Harm::Begins, ..ALONE };
    for (trouble, situation, verdict) in [
        (BROKEN, READ, Verdict::Elsewhere),
        (part, READ, answer),
        (BROKEN, Situation { attempt: READ_ATTEMPTS, ..READ }, answer),
        (BROKEN, Situation { is_at_hand: false, ..READ }, answer),
        (BROKEN, suspect(Suspicion::Killed), Verdict::Lost(Loss::Answer(Suspicion::Killed))),
        (BROKEN, suspect(Suspicion::Deadly), Verdict::Lost(Loss::Answer(Suspicion::Deadly))),
        (part, suspect(Suspicion::Killed), answer),
        (BROKEN, begins, Verdict::Elsewhere),
        (BROKEN, Situation { attempt: READ_ATTEMPTS, ..begins }, Verdict::Elsewhere),
        (BROKEN, Situation { attempt: REFUSALS, ..begins }, Verdict::Lost(Loss::Beginning)),
        (BROKEN, Situation { suspicion: Suspicion::Killed, ..begins }, Verdict::Elsewhere),
        (BROKEN, ALONE, Verdict::Lost(Loss::Outcome)),
        (Trouble::BrokenOff(Ends::Itself), READ, Verdict::Elsewhere),
        (Trouble::BrokenOff(Ends::Itself), suspect(Suspicion::Killed), Verdict::Tell),
        (Trouble::BrokenOff(Ends::Connection), suspect(Suspicion::Killed), Verdict::Elsewhere),
        (Trouble::BrokenOff(Ends::Itself), ALONE, Verdict::Tell),
        (Trouble::BrokenOff(Ends::Itself), IN_TRANSACTION, Verdict::Tell),
    ] {
        assert_eq!(rescue(trouble, situation), verdict, "{trouble:?} {situation:?}");
    }
}

#[test]
fn a_session_is_told_what_has_gone_with_its_connection() {
    let unclear = Situation { may_have_committed: true, ..IN_TRANSACTION };
    let kept = Situation { transaction: Transaction::None, ..IN_TRANSACTION };
    for (situation, loss) in [
        (IN_TRANSACTION, Loss::Transaction),
        (unclear, Loss::Outcome),
        (kept, Loss::Answer(Suspicion::None)),
        (Situation { harm: Harm::None, ..IN_TRANSACTION }, Loss::Transaction),
        (Situation { holds: Holds::More, ..READ }, Loss::State),
        (Situation { holds: Holds::More, ..unclear }, Loss::State),
    ] {
        assert_eq!(rescue(BROKEN, situation), Verdict::Lost(loss), "{situation:?}");
    }
}

/// Whatever the situation: what may write is never sent twice after its connection broke, nor anything that is not at hand.
#[test]
fn no_write_is_sent_twice() {
    let all_holds = [Holds::Nothing, Holds::Transaction, Holds::More];
    let transactions = [Transaction::None, Transaction::JustBegun, Transaction::Open];
    let suspicions = [Suspicion::None, Suspicion::Killed, Suspicion::Deadly];
    let troubles = [
        BROKEN,
        Trouble::Cut(Reached::APart),
        Trouble::BrokenOff(Ends::Itself),
        Trouble::BrokenOff(Ends::Connection),
    ];
    let mut seen = 0;
    for holds in all_holds {
        for transaction in transactions {
            for suspicion in suspicions {
                for trouble in troubles {
                    let write = Situation { holds, transaction, suspicion, ..ALONE };
                    let in_parts = Situation { is_at_hand: false, harm: Harm::None, ..write };
                    for situation in [write, in_parts] {
                        let verdict = rescue(trouble, situation);
                        assert!(
                            matches!(verdict, Verdict::Tell | Verdict::Lost(_)),
                            "{trouble:?} {situation:?}: {verdict:?}"
                        );
                        seen += 1;
                    }
                }
            }
        }
    }
    assert_eq!(seen, 3 * 3 * 3 * 4 * 2);
}

#[test]
fn what_only_reads_is_harmless_wherever_it_has_to_run() {
    for (sql, is_open, harm) in [
        ("SELECT a FROM t", false, Harm::None),
        ("SELECT CONNECTION_ID()", false, Harm::None),
        ("SELECT LAST_INSERT_ID()", false, Harm::None),
        ("SELECT a FROM t FOR UPDATE", false, Harm::None),
        ("SELECT a FROM t FOR UPDATE INTO OUTFILE '/tmp/x'", false, Harm::Writes),
        ("SELECT CONNECTION_ID() INTO OUTFILE '/tmp/x'", false, Harm::Writes),
        ("SELECT LAST_INSERT_ID(5)", false, Harm::Writes),
        ("SELECT f(1)", false, Harm::Writes),
        ("SELECT a INTO @a FROM t", false, Harm::Writes),
        ("SELECT @a := 1", false, Harm::Writes),
        ("SELECT GET_LOCK('a', 1)", false, Harm::Writes),
        ("SELECT CONNECTION_ID(); DELETE FROM t", false, Harm::Writes),
        ("BEGIN", false, Harm::Begins),
        ("START TRANSACTION", false, Harm::Begins),
        ("BEGIN", true, Harm::Writes),
        ("INSERT INTO t VALUES (1)", false, Harm::Writes),
        ("SET @a = 1", false, Harm::Writes),
        ("COMMIT", true, Harm::Writes),
    ] {
        let statement = classify(sql.as_bytes(), LexOptions::default());
        assert_eq!(Harm::of(&statement, is_open), harm, "{sql}");
    }
}

#[test]
fn what_may_have_committed_a_part_is_not_run_again() {
    for (sql, whole) in [
        ("INSERT INTO t VALUES (1)", true),
        ("INSERT INTO t VALUES (f(1))", true),
        ("SELECT f(1)", true),
        ("UPDATE t SET a = 1", true),
        ("CREATE TABLE t (a INT)", true),
        ("BEGIN", true),
        ("COMMIT", true),
        ("CALL p()", false),
        ("EXECUTE s", false),
        ("EXECUTE IMMEDIATE 'CALL p()'", false),
        ("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)", false),
        ("BEGIN NOT ATOMIC INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); END", false),
        ("WHAT IS THIS", false),
    ] {
        let statement = classify(sql.as_bytes(), LexOptions::default());
        assert_eq!(Parts::of(&statement) == Parts::One, whole, "{sql}");
    }
}
