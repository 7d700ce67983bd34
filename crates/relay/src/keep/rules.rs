//! Which files go, which stay, and what a file is held by. Pure: ages and places are told.

use std::time::Duration;

/// When files go by themselves. Nothing of it set: they stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rules {
    /// A file goes when its last byte is older than this.
    pub max_age: Option<Duration>,
    /// The oldest files go while all of them together have more bytes than this.
    pub max_bytes: Option<u64>,
    /// A file goes once so many replicas have it, and no replica lacks it.
    pub after_replicas: Option<u32>,
    /// A replica that was connected within this time is waited for. Those that are connected always are.
    pub remember: Duration,
    /// A replica has a file when it was sent all of it so long ago: what it was sent it may lose before it has applied it.
    pub margin: Duration,
}

/// A closed file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) ordinal: u32,
    /// Since its last byte was written.
    pub(crate) age: Duration,
    /// Bytes of this file and of all that are newer.
    pub(crate) total: u64,
    pub(crate) is_in_use: bool,
    pub(crate) is_archived: bool,
}

/// How far a replica is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Needs {
    /// For operators.
    pub(crate) name: String,
    /// It has all files before this one.
    pub(crate) first: u32,
}

/// Why a file goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Age,
    Size,
    Replicated,
}

impl Why {
    /// For logs: by which option.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Age => "expire_logs_s",
            Self::Size => "max_size_mb",
            Self::Replicated => "purge_after_replicas",
        }
    }
}

/// What holds a file that would go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hold {
    /// This replica lacks it.
    Replica(String),
    /// It was not archived.
    Archive,
    /// It is being read.
    Reader,
}

impl std::fmt::Display for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Replica(name) => write!(f, "replica {name} may lack it"),
            Self::Archive => f.write_str("archive_command has not taken it"),
            Self::Reader => f.write_str("it is being read"),
        }
    }
}

/// What becomes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    Stays,
    Held(Hold),
    Goes(Why),
}

impl Rules {
    /// What becomes of the oldest file.
    pub(crate) fn judge(&self, file: &Candidate, replicas: &[Needs]) -> Fate {
        let Some(why) = self.why(file, replicas) else { return Fate::Stays };
        if let Some(replica) = replicas.iter().find(|replica| replica.first <= file.ordinal) {
            return Fate::Held(Hold::Replica(replica.name.clone()));
        }
        match file.held() {
            Some(hold) => Fate::Held(hold),
            None => Fate::Goes(why),
        }
    }

    fn why(&self, file: &Candidate, replicas: &[Needs]) -> Option<Why> {
        let had = replicas.iter().filter(|replica| replica.first > file.ordinal).count();
        if self.max_age.is_some_and(|most| file.age > most) {
            Some(Why::Age)
        } else if self.max_bytes.is_some_and(|most| file.total > most) {
            Some(Why::Size)
        } else if self.after_replicas.is_some_and(|wanted| had >= wanted as usize && had == replicas.len()) {
            Some(Why::Replicated)
        } else {
            None
        }
    }
}

impl Candidate {
    /// What holds it whoever wants it to go.
    pub(crate) fn held(&self) -> Option<Hold> {
        if !self.is_archived {
            Some(Hold::Archive)
        } else if self.is_in_use {
            Some(Hold::Reader)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn file(ordinal: u32) -> Candidate {
        Candidate { ordinal, age: HOUR, total: 1000, is_in_use: false, is_archived: true }
    }

    fn needs(first: u32) -> Needs {
        Needs { name: format!("r{first}"), first }
    }

    #[test]
    fn without_a_rule_everything_stays() {
        assert_eq!(Rules::default().judge(&file(0), &[needs(9)]), Fate::Stays);
    }

    #[test]
    fn files_go_by_age_and_by_size_alone() {
        let by_age = |most| Rules { max_age: Some(most), ..Rules::default() };
        assert_eq!(by_age(HOUR / 2).judge(&file(0), &[]), Fate::Goes(Why::Age));
        assert_eq!(by_age(HOUR).judge(&file(0), &[]), Fate::Stays);
        let by_size = |most| Rules { max_bytes: Some(most), ..Rules::default() };
        assert_eq!(by_size(999).judge(&file(0), &[]), Fate::Goes(Why::Size));
        assert_eq!(by_size(1000).judge(&file(0), &[]), Fate::Stays);
    }

    #[test]
    fn what_a_replica_lacks_is_held_whatever_the_rule() {
        let both = Rules { max_age: Some(HOUR / 2), max_bytes: Some(1), ..Rules::default() };
        let held = Fate::Held(Hold::Replica("r3".to_owned()));
        assert_eq!(both.judge(&file(3), &[needs(9), needs(3)]), held);
        assert_eq!(both.judge(&file(2), &[needs(9), needs(3)]), Fate::Goes(Why::Age));
    }

    #[test]
    fn files_go_when_enough_replicas_have_them_and_none_lacks_them() {
        let two = Rules { after_replicas: Some(2), ..Rules::default() };
        assert_eq!(two.judge(&file(3), &[]), Fate::Stays, "a relay that was just started knows of none");
        assert_eq!(two.judge(&file(3), &[needs(4)]), Fate::Stays);
        assert_eq!(two.judge(&file(3), &[needs(4), needs(7)]), Fate::Goes(Why::Replicated));
        assert_eq!(two.judge(&file(3), &[needs(4), needs(7), needs(3)]), Fate::Stays);
    }

    #[test]
    fn readers_and_the_archive_hold_files() {
        let rules = Rules { max_bytes: Some(1), ..Rules::default() };
        let read = Candidate { is_in_use: true, ..file(0) };
        assert_eq!(rules.judge(&read, &[]), Fate::Held(Hold::Reader));
        let fresh = Candidate { is_archived: false, ..file(0) };
        assert_eq!(rules.judge(&fresh, &[]), Fate::Held(Hold::Archive));
        assert_eq!(Rules::default().judge(&fresh, &[]), Fate::Stays);
    }
}
