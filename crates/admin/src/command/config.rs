//! `RELOAD CONFIG`, `CONFIG ..`, and what changes what runs: `SET option`, `ADD`, `SET`, `REMOVE` of backends, users, rules, listeners.
//!
//! All of them make one change to the text that runs, which is read and carried out like a file (`app/src/reload.rs`).

use delphinus_config::{Assigned, Edit, Effect, Given, Rows};

use super::{Call, usage_of};
use crate::answer::{Answer, Refused};
use crate::console::ChangedOption;
use crate::table::{Table, number, text, yes_or_no};
use crate::text::Word;
use crate::time::stamp;

/// The file, read again; what came of it.
pub(super) async fn apply(call: &Call<'_>) -> Result<Answer, Refused> {
    let changed = call.console.parts.proxy.reload(&by(call)).await.map_err(Refused::because)?;
    Ok(Answer::Rows(plan_table(changed, "applied")))
}

/// What the file would change.
pub(super) fn plan(call: &Call<'_>) -> Result<Answer, Refused> {
    let changes = call.console.parts.proxy.plan().map_err(Refused::because)?;
    Ok(Answer::Rows(plan_table(changes, "hot")))
}

/// What differs between what runs and the file.
pub(super) fn diff(call: &Call<'_>) -> Result<Answer, Refused> {
    let changes = call.console.parts.proxy.plan().map_err(Refused::because)?;
    let row = |change: ChangedOption| vec![change.option.into(), change.before.into(), change.after.into()];
    Ok(Answer::Rows(Table::new(["option", "running", "file"]).with(changes.into_iter().map(row))))
}

/// Puts what runs in the place of the file.
pub(super) async fn save(call: &Call<'_>) -> Result<Answer, Refused> {
    call.console.parts.proxy.save(&by(call)).await.map_err(Refused::because)?;
    Ok(Answer::Done)
}

/// The changes that are kept.
pub(super) fn history(call: &Call<'_>) -> Table {
    let rows = call.console.parts.proxy.history().into_iter().map(|one| {
        let told = vec![
            number(one.number),
            text(stamp(one.at)),
            one.by.into(),
            one.what.into(),
            number(one.changes),
        ];
        [told, vec![yes_or_no(one.is_running), yes_or_no(one.is_saved)]].concat()
    });
    let columns = ["#number", "time", "by", "what", "#changes", "running", "saved"];
    Table::new(columns).with(rows)
}

/// Goes back to what ran after a change.
pub(super) async fn roll_back(call: &Call<'_>) -> Result<Answer, Refused> {
    let [number] = call.words else { return Err(usage_of("CONFIG ROLLBACK")) };
    let Ok(number) = number.text.parse() else { return Err(usage_of("CONFIG ROLLBACK")) };
    let changed = call.console.parts.proxy.roll_back(number, &by(call)).await.map_err(Refused::because)?;
    Ok(Answer::Rows(plan_table(changed, "applied")))
}

/// `ADD BACKEND name option = value, ..`, and its like.
pub(super) async fn add(call: &Call<'_>) -> Result<Answer, Refused> {
    let (rows, name, rest) = row(call, "ADD")?;
    let (cluster, rest) = match rest {
        [first, second, cluster, rest @ ..] if first.is("IN") && second.is("CLUSTER") => {
            (Some(cluster.text.clone()), rest)
        }
        rest => (None, rest),
    };
    let options = assigned(rest).ok_or_else(|| usage_of("ADD"))?;
    change(call, Edit::Add { rows, name, cluster, options }).await
}

/// `REMOVE BACKEND name`, and its like.
pub(super) async fn remove(call: &Call<'_>) -> Result<Answer, Refused> {
    let (rows, name, []) = row(call, "REMOVE")? else { return Err(usage_of("REMOVE")) };
    change(call, Edit::Remove { rows, name }).await
}

/// `SET BACKEND name option = value, ..`, and its like.
pub(super) async fn alter(call: &Call<'_>, rows: Rows, usage: &str) -> Result<Answer, Refused> {
    let [name, rest @ ..] = call.words else { return Err(usage_of(usage)) };
    let options = assigned(rest).filter(|options| !options.is_empty()).ok_or_else(|| usage_of(usage))?;
    change(call, Edit::Alter { rows, name: name.text.clone(), options }).await
}

/// `SET option = value`: of a section of the file that is there once.
pub(super) async fn set(call: &Call<'_>, words: &[Word]) -> Result<Answer, Refused> {
    let Some([option]) = assigned(words).and_then(|options| <[Assigned; 1]>::try_from(options).ok()) else {
        return Err(usage_of("SET"));
    };
    change(call, Edit::Set(option)).await
}

async fn change(call: &Call<'_>, edit: Edit) -> Result<Answer, Refused> {
    let changed = call.console.parts.proxy.change(&edit, &by(call)).await.map_err(Refused::because)?;
    Ok(Answer::Rows(plan_table(changed, "applied")))
}

/// Which row is meant.
fn row<'w>(call: &'w Call<'_>, usage: &str) -> Result<(Rows, String, &'w [Word]), Refused> {
    let [kind, name, rest @ ..] = call.words else { return Err(usage_of(usage)) };
    let rows = Rows::ALL.into_iter().find(|rows| kind.is(rows.as_str()));
    Ok((rows.ok_or_else(|| usage_of(usage))?, name.text.clone(), rest))
}

/// `option = value, option = value`; DEFAULT is what holds where nothing is written. `None`: something else stands there.
fn assigned(words: &[Word]) -> Option<Vec<Assigned>> {
    let mut tokens = tokens(words).into_iter().peekable();
    let mut found = Vec::new();
    while let Some(name) = tokens.next() {
        if name.is_quoted || tokens.next()?.text != "=" {
            return None;
        }
        let mut value = tokens.next()?;
        // A list in brackets, whose items are apart.
        while value.text.starts_with('[') && !value.is_quoted && !value.text.ends_with(']') {
            let next = tokens.next()?;
            let is_toml =
                ["true", "false", ",", "]"].contains(&&*next.text) || next.text.parse::<f64>().is_ok();
            let next = if next.is_quoted || !is_toml { format!("{:?}", next.text) } else { next.text };
            value.text.push_str(&next);
        }
        let is_default = !value.is_quoted && value.text.eq_ignore_ascii_case("DEFAULT");
        let given = (!is_default).then_some(value);
        found.push((name.text.to_ascii_lowercase(), given));
        match tokens.next() {
            None => return Some(found),
            Some(comma) if comma.text == "," && !comma.is_quoted => {}
            Some(_) => return None,
        }
    }
    found.is_empty().then_some(found)
}

/// The words, taken apart at equals signs, commas and brackets.
fn tokens(words: &[Word]) -> Vec<Given> {
    let mut all: Vec<Given> = Vec::new();
    for word in words {
        if word.is_quoted {
            all.push(Given { text: word.text.clone(), is_quoted: true });
            continue;
        }
        let mut rest = word.text.as_str();
        while let Some(at) = rest.find(['=', ',', '[', ']']) {
            let (before, mark) = (&rest[..at], &rest[at..=at]);
            if !before.is_empty() {
                all.push(Given { text: before.to_owned(), is_quoted: false });
            }
            all.push(Given { text: mark.to_owned(), is_quoted: false });
            rest = &rest[at + 1..];
        }
        if !rest.is_empty() {
            all.push(Given { text: rest.to_owned(), is_quoted: false });
        }
    }
    all
}

fn plan_table(changes: Vec<ChangedOption>, hot: &str) -> Table {
    let row = |change: ChangedOption| {
        let effect = match change.effect {
            Effect::Hot => hot,
            Effect::Drain => "drain",
            Effect::Restart => "with the next start",
        };
        vec![change.option.into(), change.before.into(), change.after.into(), text(effect)]
    };
    Table::new(["option", "before", "after", "effect"]).with(changes.into_iter().map(row))
}

fn by(call: &Call<'_>) -> String {
    format!("{}@{}", call.caller.user, call.caller.host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::words;

    fn read(text: &str) -> Option<Vec<(String, Option<String>)>> {
        let shown = |(name, given): Assigned| (name, given.map(|given| given.to_string()));
        assigned(&words(text)).map(|options| options.into_iter().map(shown).collect())
    }

    #[test]
    fn options_are_taken_apart_at_equals_signs_and_commas() {
        let one = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
        assert_eq!(
            read("address = 'db4:3306',WEIGHT=50 , role=replica, max_connections = default"),
            Some(vec![
                one("address", Some("\"db4:3306\"")),
                one("weight", Some("50")),
                one("role", Some("replica")),
                one("max_connections", None),
            ])
        );
        assert_eq!(read("user = ['a', 'b,c']"), Some(vec![one("user", Some("[\"a\",\"b,c\"]"))]));
        assert_eq!(read("password = 'a = b, c'"), Some(vec![one("password", Some("\"a = b, c\""))]));
        assert_eq!(read(""), Some(Vec::new()));
        for wrong in ["weight", "weight =", "weight = 1 2", "= 1", "weight 1", "a = 1,", "a = [1", "'a' = 1"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
