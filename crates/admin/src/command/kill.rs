//! `KILL`: one session or statement by its id, or all of a user, a host, a digest, or an age.

use std::sync::Arc;

use delphinus_clients::{Activity, ClientConnId};
use delphinus_sql::Digest;
use delphinus_wire::error_code;

use super::{Call, usage_of};
use crate::answer::{Answer, Refused};
use crate::table::{Table, text};
use crate::text::Word;

/// Which sessions are meant, where none is named by its id.
#[derive(Debug, Default, PartialEq, Eq)]
struct Victims {
    user: Option<String>,
    host: Option<String>,
    /// They run a statement with this digest.
    digest: Option<Digest>,
    /// In the same state for so many seconds.
    older_s: Option<u32>,
}

pub(super) fn kill(call: &Call<'_>) -> Result<Answer, Refused> {
    let (ends_session, rest) = match call.words {
        [word, rest @ ..] if word.is("CONNECTION") => (true, rest),
        [word, rest @ ..] if word.is("QUERY") => (false, rest),
        rest => (true, rest),
    };
    if let [id] = rest {
        let id: u64 = id.text.parse().map_err(|_| usage_of("KILL"))?;
        return kill_session(call, id, ends_session);
    }
    let victims = victims(rest).ok_or_else(|| usage_of("KILL"))?;
    Ok(kill_all(call, &victims, ends_session))
}

/// `USER name HOST host DIGEST hash OLDER seconds`, each of them at most once.
fn victims(words: &[Word]) -> Option<Victims> {
    let mut found = Victims::default();
    let mut rest = words;
    while let [word, value, behind @ ..] = rest {
        if word.is("USER") && found.user.is_none() {
            found.user = Some(value.text.clone());
        } else if word.is("HOST") && found.host.is_none() {
            found.host = Some(value.text.clone());
        } else if word.is("DIGEST") && found.digest.is_none() {
            found.digest = Some(Digest(u64::from_str_radix(value.text.trim_start_matches("0x"), 16).ok()?));
        } else if word.is("OLDER") && found.older_s.is_none() {
            found.older_s = Some(value.text.parse().ok()?);
        } else {
            return None;
        }
        rest = behind;
    }
    (rest.is_empty() && found != Victims::default()).then_some(found)
}

impl Victims {
    fn has(&self, one: &Activity, now_s: u32) -> bool {
        self.user.as_deref().is_none_or(|user| *one.user() == *user)
            && self.host.as_deref().is_none_or(|host| one.host == host)
            && self.digest.is_none_or(|digest| one.running_digest() == Some(digest.0))
            && self.older_s.is_none_or(|least| one.since_s(now_s) >= least)
    }
}

/// Ends all that are meant; how many.
fn kill_all(call: &Call<'_>, victims: &Victims, ends_session: bool) -> Answer {
    let registry = &call.console.parts.registry;
    let is_meant = |one: &Arc<Activity>| {
        let runs = ends_session || one.place().is_some() || one.is_waiting();
        runs && victims.has(one, registry.clock_s())
    };
    let meant: Vec<_> = registry.list().into_iter().filter(is_meant).collect();
    for one in &meant {
        one.kill_from_outside(ends_session);
    }
    Answer::Rows(Table::new(["#killed"]).with([vec![text(meant.len())]]))
}

/// Ends a session, or what it runs. It does so itself, as soon as it can: this returns before.
fn kill_session(call: &Call<'_>, id: u64, ends_session: bool) -> Result<Answer, Refused> {
    let registry = &call.console.parts.registry;
    let found = u32::try_from(id).ok().and_then(|id| registry.find(ClientConnId(id)));
    let Some(victim) = found else {
        return Err(Refused {
            code: error_code::ER_NO_SUCH_THREAD,
            state: *b"HY000",
            text: format!("Unknown thread id: {id}"),
        });
    };
    let caller = call.caller;
    tracing::warn!(
        admin.user = %caller.user, client.host = %caller.host, session.id = id, session.user = %victim.user(),
        ends_session, "KILL"
    );
    victim.kill_from_outside(ends_session);
    Ok(Answer::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::words;

    #[test]
    fn sessions_are_meant_by_user_host_digest_and_age() {
        let read = |text: &str| victims(&words(text));
        let all = Victims {
            user: Some("a b".into()),
            host: Some("10.0.0.7".into()),
            digest: Some(Digest(0xa1)),
            older_s: Some(60),
        };
        assert_eq!(read("USER 'a b' HOST 10.0.0.7 DIGEST 00000000000000A1 OLDER 60"), Some(all));
        let by_digest = Victims { digest: Some(Digest(u64::MAX)), ..Victims::default() };
        assert_eq!(read("digest '0xffffffffffffffff'"), Some(by_digest));
        let old = Victims { older_s: Some(0), ..Victims::default() };
        assert_eq!(read("older 0"), Some(old));
        for wrong in [
            "",
            "USER",
            "USER a b",
            "OLDER x",
            "DIGEST x",
            "DIGEST 1ffffffffffffffff",
            "USER a USER b",
            "WHERE 1",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
