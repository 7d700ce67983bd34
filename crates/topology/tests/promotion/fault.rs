//! Mistakes that are planted, and what they have to lead to.

use crate::world::Style;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Receivers go on although they were told to stop.
    ReceiversGoOn,
    /// Something acknowledged may be lost, and nobody minds.
    LossIsNoMatter,
    /// Sessions are not ended on the old primary.
    SessionsStay,
    /// Statements of an earlier actor come late.
    PredecessorsStay,
    /// An actor forgets its own statements that ran out of time.
    OwnStatementsStay,
    /// An actor takes a move back after the new primary was told to take writes.
    OpeningIsForgotten,
    /// A primary that starts again takes writes.
    StartsOpen,
    /// Proxies pass on what a lost primary says.
    AnswersPass,
    /// A relay is not cut before the candidate is chosen, but when the new primary is told to it.
    CutComesLate,
    /// The candidate does not get what the relay has.
    NothingIsDrained,
}

impl Fault {
    pub(crate) const ALL: &'static [Self] = &[
        Self::ReceiversGoOn,
        Self::LossIsNoMatter,
        Self::SessionsStay,
        Self::PredecessorsStay,
        Self::OwnStatementsStay,
        Self::OpeningIsForgotten,
        Self::StartsOpen,
        Self::AnswersPass,
        Self::CutComesLate,
        Self::NothingIsDrained,
    ];

    pub(crate) fn style(self) -> Style {
        match self {
            Self::SessionsStay | Self::OpeningIsForgotten => Style::Async,
            Self::CutComesLate | Self::NothingIsDrained => Style::Relayed,
            _ => Style::SemiSync,
        }
    }

    pub(crate) fn says(self) -> &'static [&'static str] {
        match self {
            Self::ReceiversGoOn
            | Self::LossIsNoMatter
            | Self::AnswersPass
            | Self::CutComesLate
            | Self::NothingIsDrained => &["were lost", "two writers"],
            Self::SessionsStay => &["two writers", "were lost"],
            Self::PredecessorsStay => &["an earlier actor"],
            Self::OwnStatementsStay => &["that ran out of time"],
            Self::OpeningIsForgotten | Self::StartsOpen => {
                &["two writers", "were lost", "servers take writes"]
            }
        }
    }
}
