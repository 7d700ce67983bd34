//! What becomes of a statement under which something has gone wrong: it runs again, on which server, or what its client is told.
//! The table in docs/failover.md is this one in the words of users.
//!
//! Owns: the verdicts. Must not know how a verdict is carried out.

use delphinus_sql::{Access, Class, Effects, Statement, Why};

/// How often a statement that changes nothing is tried on other backends.
pub const READ_ATTEMPTS: u32 = 5;

/// How often a statement is run that is refused because the server takes no writes, although that is said to be the primary; and
/// one that begins a transaction, where its connection breaks: there is no other backend for it, and a primary that comes and goes
/// may have many connections that break one after the other.
pub const REFUSALS: u32 = 20;

/// What has gone wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The server has refused it because it takes no writes, and nothing of an answer has reached the client.
    Refused,
    /// The server breaks it off by an error, because it ends itself or the connection. Nothing has reached the client.
    BrokenOff(Ends),
    /// The connection broke before the answer was complete.
    Cut(Reached),
}

/// What a server says that it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Itself; or, in the same words, a connection that somebody has killed.
    Itself,
    /// The connection, for its own reasons.
    Connection,
}

/// How far an answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// Nothing has reached the client.
    Nothing,
    /// A part has.
    APart,
}

/// What the statement may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// It changes nothing.
    None,
    /// It begins a transaction where none is open: what it has begun ends with its connection.
    Begins,
    /// It may write.
    Writes,
}

impl Harm {
    /// What a statement may do; `is_open`: in a transaction.
    pub fn of(statement: &Statement, is_open: bool) -> Self {
        // They are for the primary, and leave no more there than any other read.
        let looks = matches!(
            statement.why,
            Why::LastInsertId | Why::SessionFunction | Why::SystemVariable | Why::LockingRead
        );
        let only_reads = statement.class == Class::Select && statement.effects.is_empty() && looks;
        match statement.class {
            _ if statement.access == Access::Read || only_reads => Self::None,
            Class::Begin | Class::StartTransaction if !is_open => Self::Begins,
            _ => Self::Writes,
        }
    }
}

/// What a refusal says of all that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// It is one statement: nothing of it was done.
    One,
    /// A part may have been done before another one was refused.
    Several,
    /// An array of parameters, of which each row is an execution of its own: the rows before the one that was refused may have been
    /// done. In a transaction they end with that.
    Rows,
}

impl Parts {
    /// Of a procedure, of a text of several statements, of SQL that is in a variable and of what is not understood, a part may have
    /// been committed.
    pub fn of(statement: &Statement) -> Self {
        let is_one = statement.count == 1
            && !matches!(statement.class, Class::Call | Class::Multi)
            && !statement.effects.intersects(Effects::SQL_EXECUTES.union(Effects::UNKNOWN));
        if is_one { Self::One } else { Self::Several }
    }
}

/// What the session would lose with its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Nothing.
    Nothing,
    /// A transaction, or only a place that an operator wants it to keep. It goes on without.
    Transaction,
    /// What it cannot go on without.
    More,
}

/// The transaction that the session is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transaction {
    /// None.
    None,
    /// One in which nothing has run yet: this is its first statement.
    JustBegun,
    /// One that has read or written.
    Open,
}

/// Whether another backend will be the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextPrimary {
    /// Never: roles do not move.
    Never,
    /// It may, and no statement waits for that.
    NotAwaited,
    /// It may, and statements wait for it.
    Awaited,
}

/// Why a read should not run again, though it could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspicion {
    /// No reason.
    None,
    /// Somebody may have killed it.
    Killed,
    /// Two servers have broken its connection: it may be what they die of.
    Deadly,
}

/// Where it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// On the primary.
    Primary,
    /// On a replica; `may_leave`: the session may go on on the primary.
    Replica {
        /// Its listener is for writing, too.
        may_leave: bool,
    },
}

/// What a verdict depends on, beside the trouble.
#[derive(Debug, Clone, Copy)]
pub struct Situation {
    /// What it may do.
    pub harm: Harm,
    /// Whether a refusal is one of all of it.
    pub parts: Parts,
    /// All of the command is at hand, and can be sent again.
    pub is_at_hand: bool,
    /// What is lost with the connection.
    pub holds: Holds,
    /// The transaction.
    pub transaction: Transaction,
    /// Where it ran.
    pub side: Side,
    /// Who will be the primary.
    pub next: NextPrimary,
    /// Why it should not run again.
    pub suspicion: Suspicion,
    /// It may have committed something.
    pub may_have_committed: bool,
    /// The number of this try, from 1.
    pub attempt: u32,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The client is told what the server has said.
    Tell,
    /// It waits for the next primary, and runs there.
    OnNextPrimary,
    /// Its transaction begins anew on the next primary, and it runs there.
    BeginAnew,
    /// Its transaction is rolled back: the client is to try that again.
    GiveUp,
    /// The same, where the transaction was on a replica: it is to be tried on the primary.
    ToPrimary,
    /// It runs again on another backend.
    Elsewhere,
    /// The client is told what is lost.
    Lost(Loss),
}

/// What is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The answer to what changes nothing.
    Answer(Suspicion),
    /// A transaction that has not begun.
    Beginning,
    /// The outcome: it may have been committed.
    Outcome,
    /// The transaction.
    Transaction,
    /// State of the session, which ends.
    State,
}

/// How often a statement that changes nothing is tried.
pub fn attempts(harm: Harm) -> u32 {
    if harm == Harm::Begins { REFUSALS } else { READ_ATTEMPTS }
}

/// What becomes of a statement that was sent.
pub fn rescue(trouble: Trouble, situation: Situation) -> Verdict {
    let verdict = verdict(trouble, situation);
    debug_assert!(
        match verdict {
            Verdict::Elsewhere => situation.harm != Harm::Writes,
            Verdict::OnNextPrimary | Verdict::BeginAnew => situation.parts == Parts::One,
            _ => true,
        },
        "a write that may have been done is sent again: {trouble:?}, {situation:?}"
    );
    verdict
}

fn verdict(trouble: Trouble, situation: Situation) -> Verdict {
    match trouble {
        Trouble::Refused if situation.parts == Parts::Several => Verdict::Tell,
        Trouble::Refused => after_refusal(situation),
        Trouble::BrokenOff(ends) => {
            let is_suspect = ends == Ends::Itself && situation.suspicion == Suspicion::Killed;
            let runs_again = situation.holds == Holds::Nothing && may_run_again(situation) && !is_suspect;
            if runs_again { Verdict::Elsewhere } else { Verdict::Tell }
        }
        Trouble::Cut(reached) => after_cut(situation, reached),
    }
}

fn after_refusal(situation: Situation) -> Verdict {
    let Situation { transaction, next, parts, .. } = situation;
    // Not the rows of an array, in a transaction neither: what they have written to tables without transactions stays.
    let may_run_again = parts == Parts::One
        && next == NextPrimary::Awaited
        && situation.is_at_hand
        && situation.attempt < REFUSALS;
    match (situation.side, situation.holds) {
        (Side::Replica { may_leave: true }, _) if transaction != Transaction::None => Verdict::ToPrimary,
        (Side::Primary, Holds::Nothing) if transaction == Transaction::None && may_run_again => {
            Verdict::OnNextPrimary
        }
        (Side::Primary, Holds::Transaction) if next != NextPrimary::Never => match transaction {
            Transaction::None => Verdict::Tell,
            Transaction::JustBegun if may_run_again => Verdict::BeginAnew,
            Transaction::JustBegun | Transaction::Open => Verdict::GiveUp,
        },
        _ => Verdict::Tell,
    }
}

fn may_run_again(Situation { harm, is_at_hand, attempt, .. }: Situation) -> bool {
    harm != Harm::Writes && is_at_hand && attempt < attempts(harm)
}

fn after_cut(situation: Situation, reached: Reached) -> Verdict {
    if situation.holds != Holds::Nothing {
        return Verdict::Lost(lost(situation.holds, situation.transaction, situation.may_have_committed));
    }
    let suspicion = if situation.harm == Harm::None { situation.suspicion } else { Suspicion::None };
    let runs_again = may_run_again(situation) && reached == Reached::Nothing;
    match (situation.harm, suspicion) {
        (Harm::Writes, _) => Verdict::Lost(Loss::Outcome),
        (_, Suspicion::None) if runs_again => Verdict::Elsewhere,
        (Harm::Begins, _) => Verdict::Lost(Loss::Beginning),
        // Why it does not run again is worth a word only where it would have.
        (Harm::None, suspicion) => {
            Verdict::Lost(Loss::Answer(if runs_again { suspicion } else { Suspicion::None }))
        }
    }
}

/// What a session loses with the connection that it was held to.
pub fn lost(holds: Holds, transaction: Transaction, may_have_committed: bool) -> Loss {
    match (holds, transaction) {
        // A session that was held to it for nothing that is known has lost that.
        (Holds::More | Holds::Nothing, _) => Loss::State,
        (Holds::Transaction, _) if may_have_committed => Loss::Outcome,
        (Holds::Transaction, Transaction::None) => Loss::Answer(Suspicion::None),
        (Holds::Transaction, _) => Loss::Transaction,
    }
}

#[cfg(test)]
mod tests;
