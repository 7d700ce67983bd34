//! KILL and COM_PROCESS_KILL: what of them needs a backend, and what a statement kills that is no KILL by itself. Whom they mean, and
//! who may, is in `answer/kill`.

use delphinus_sql::{Class, Effects, Kill, KillTarget, LexOptions, Statement, kill_target};
use delphinus_view::StoredCode;
use delphinus_wire::{ExecuteParams, first_integer};

use crate::answer::{Killed, Sessions, kill_named_by, killed};
use crate::client_error::ProxyError;
use crate::follow::{TextExecuted, uncover};
use crate::hold::Held;
use crate::served::Served;
use crate::state::Wanted;
use crate::statements::ClientStatement;

/// Does what a `KILL` of any kind says; `value`: that of its parameter. Tells how many sessions it has ended, where they are counted,
/// or how it has ended itself.
pub(crate) async fn carry_out(
    (kill, value): (&Kill, Option<u64>),
    sessions: Sessions<'_>,
    held: &Held,
    state: &Wanted,
) -> Result<u64, Served> {
    match sessions.kill(kill, value.or_else(|| value_of_variable(kill, state))) {
        Ok(Killed::Done(count)) => Ok(count),
        Ok(Killed::OnBackend(victim, backend, thread)) => {
            let last_look = || victim.still_on((backend, thread));
            let ended = held.source.pool.kill_query_if(backend, &held.identity, last_look).await;
            ended.map(|()| 0).map_err(|error| Served::Error(ProxyError::Pool(error)))
        }
        Ok(Killed::Own) => Err(Served::Fatal(killed(state.flavor()))),
        Err(error) => Err(Served::Error(error)),
    }
}

/// The value of the user variable that a `KILL` names, where it is an integer.
fn value_of_variable(kill: &Kill, state: &Wanted) -> Option<u64> {
    let KillTarget::Variable(name) = &kill.target else { return None };
    state.want.user_vars.get(name.as_str())?.integer()
}

/// What an execution of a prepared `KILL` is aimed at, and the value of its parameter; `None` if that is the server's to do.
pub(super) fn by_execution(
    found: &ClientStatement,
    lex: LexOptions,
    (payload, params): (&[u8], Option<&ExecuteParams>),
) -> Result<Option<(Kill, Option<u64>)>, ProxyError> {
    let kill = kill_named_by(found.key.text(), lex)?;
    if kill.target == KillTarget::QueryId {
        return Ok(None);
    }
    Ok(Some((kill, params.and_then(|params| first_integer(payload, params, &found.types)))))
}

/// An error if EXECUTE runs a text that has a server run code with a KILL.
pub(super) async fn uncover_texts(
    code: &StoredCode,
    texts: &[TextExecuted],
    statement: &Statement,
) -> Result<(), ProxyError> {
    if statement.class != Class::Execute || !code.concerns_any() {
        return Ok(());
    }
    for ran in texts.iter().flatten() {
        if code.concerns(&ran.statement) {
            let mut statement = ran.statement;
            Box::pin(uncover(code, &mut statement, ran.text.as_bytes(), ran.lex)).await?;
        }
    }
    Ok(())
}

/// What SQL `EXECUTE` would have a server kill by these texts; `None` if it kills nothing, or what is the server's own. What a text
/// puts together to kill is refused.
pub(super) fn by_texts(texts: &[TextExecuted], statement: &Statement) -> Result<Option<Kill>, ProxyError> {
    if !texts.iter().flatten().any(|ran| ran.statement.effects.contains(Effects::KILLS)) {
        return Ok(None);
    }
    let mut known = texts.iter().flatten();
    let only = known.next().filter(|_| known.next().is_none() && statement.class == Class::Execute);
    match only.and_then(|ran| kill_target(ran.text.as_bytes(), ran.lex)) {
        Some(Kill { target: KillTarget::QueryId, .. }) => Ok(None),
        Some(kill) if kill.target != KillTarget::Parameter => Ok(Some(kill)),
        _ => Err(ProxyError::KillOfExpression),
    }
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{Flavor, KillScope, classify};

    use crate::follow::TextRun;

    use super::*;

    #[test]
    fn only_what_one_text_says_plainly_is_killed() {
        let lex = LexOptions { flavor: Flavor::MariaDb, ..LexOptions::default() };
        let killed = |sql: &str, texts: &[&str]| {
            let known = |text: &&str| Some(TextRun::new((*text).to_owned(), lex));
            let texts: Vec<TextExecuted> = texts.iter().map(known).chain([None]).collect();
            by_texts(&texts, &classify(sql.as_bytes(), lex))
        };
        let five = Kill { target: KillTarget::Connection(5), scope: KillScope::Connection };
        assert_eq!(killed("EXECUTE s", &["KILL 5"]).ok(), Some(Some(five)));
        for (sql, texts) in [
            ("EXECUTE s", &["SELECT 'KILL 5'"][..]),
            ("EXECUTE s", &[]),
            ("PREPARE s FROM 'SELECT 1'", &["SELECT 1"]),
            // An id of the server's own.
            ("EXECUTE s", &["KILL QUERY ID 5"]),
        ] {
            assert!(matches!(killed(sql, texts), Ok(None)), "{sql}: {texts:?}");
        }
        for (sql, texts) in [
            ("EXECUTE s", &["KILL ?"][..]),
            ("EXECUTE s", &["KILL 5", "SELECT 1"]),
            ("PREPARE s FROM 'KILL 5'", &["KILL 5"]),
        ] {
            let refused = matches!(killed(sql, texts), Err(ProxyError::KillOfExpression));
            assert!(refused, "{sql}: {texts:?}");
        }
    }
}
