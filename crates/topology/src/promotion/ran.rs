//! Which events run on the primary, as a small text in the lease store: whoever begins to act when the primary is lost cannot ask it any
//! more. The backend is named.

use std::sync::Arc;

/// The store takes small texts.
const MOST_BYTES: usize = 16 * 1024;

/// For the store: these events run on the backend of this name. Of a list that is too long only the number is kept: then nobody knows them.
pub fn events_text(primary: &str, events: &[Arc<str>]) -> String {
    let mut text = format!("primary={}\nevents={}\n", in_one_line(primary), events.len());
    let is_small = events.iter().map(|event| event.len()).sum::<usize>() <= MOST_BYTES;
    if !is_small || events.iter().any(|event| event.contains('\n')) {
        return text;
    }
    for event in events {
        text.push_str("event=");
        text.push_str(event);
        text.push('\n');
    }
    text
}

/// From the store: the events that ran on the backend of this name; `None`: the text is about another one, or does not have all of them.
pub fn events_of_text(text: &str, primary: &str) -> Option<Arc<[Arc<str>]>> {
    let pairs = || text.lines().filter_map(|line| line.split_once('='));
    let value = |key: &str| pairs().find(|(known, _)| *known == key).map(|(_, value)| value);
    let count: usize = value("events")?.parse().ok()?;
    let events: Arc<[Arc<str>]> =
        pairs().filter(|(key, _)| *key == "event").map(|(_, name)| Arc::from(name)).collect();
    let is_whole = value("primary")? == in_one_line(primary) && events.len() == count;
    is_whole.then_some(events)
}

fn in_one_line(name: &str) -> String {
    name.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(names: &[&str]) -> Vec<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    #[test]
    fn the_next_actor_reads_what_ran_on_the_primary_that_it_cannot_ask() {
        let all = events(&["`app`.`purge`", "`app`.`a=b`"]);
        let text = events_text("db1", &all);
        assert_eq!(text, "primary=db1\nevents=2\nevent=`app`.`purge`\nevent=`app`.`a=b`\n");
        assert_eq!(events_of_text(&text, "db1").as_deref(), Some(&all[..]));
        assert_eq!(events_of_text(&text, "db2"), None, "it had the role before the one that is lost");
        let none = events_of_text(&events_text("db1", &[]), "db1");
        assert_eq!(none.map(|events| events.len()), Some(0), "none ran, and that is known");
    }

    #[test]
    fn a_list_that_is_not_whole_says_nothing() {
        let long = "x".repeat(MOST_BYTES);
        for all in [events(&[long.as_str(), "y"]), events(&["`app`.`two\nlines`"])] {
            let text = events_text("db1", &all);
            assert!(text.len() < 100 && events_of_text(&text, "db1").is_none(), "{text}");
        }
        let cut = events_text("db1", &events(&["a", "b"])).replace("event=b\n", "");
        assert_eq!(events_of_text(&cut, "db1"), None);
        for text in ["", "nonsense", "primary=db1", "events=0", "primary=db1\nevents=x"] {
            assert_eq!(events_of_text(text, "db1"), None, "{text}");
        }
    }
}
