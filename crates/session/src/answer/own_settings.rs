//! Settings of the proxy's own, in the place of system variables: what they are called, what they may be, what they are.

use delphinus_sql::{
    CacheWish, Consistency, Hints, LexOptions, Scope, SelectedVariable, Target, Wanted, assignments,
    selected_variables,
};
use delphinus_wire::response::TextResult;

use super::{Answer, TextShape};
use crate::client_error::{ProxyError, Steered};
use crate::outlook::Outlook;

/// What their names begin with.
pub(crate) const PREFIX: &str = "delphinus.";

/// What another session has to find to see all that this one has seen.
pub(crate) const TOKEN: &str = "causality_token";

/// Whether each statement of the session is explained in the log.
const TRACE: &str = "trace";

/// What the session's own settings are.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnSettings {
    pub hints: Hints,
    pub traces: bool,
}

/// What a session may set.
pub(crate) struct MaySet<'a> {
    /// Its user may ask where statements go.
    pub explains: bool,
    /// There is a cache.
    pub keeps_answers: bool,
    /// It knows the names of backends.
    pub outlook: &'a Outlook,
}

/// What `SET @@delphinus.mode = .., ..` makes of the settings: all of them, or an error; `take_token` reads the causality token.
pub(crate) fn set_own(
    sql: &[u8],
    lex: LexOptions,
    mut own: OwnSettings,
    may: &MaySet<'_>,
    mut take_token: impl FnMut(&str) -> Result<(), ProxyError>,
) -> Result<OwnSettings, ProxyError> {
    for assignment in assignments(sql, lex) {
        let Target::System { scope, name } = &assignment.target else {
            return Err(Steered::OwnSettingsMixed.into());
        };
        let Some(short) = name.strip_prefix(PREFIX) else { return Err(Steered::OwnSettingsMixed.into()) };
        if *scope != Scope::Session {
            return Err(Steered::OwnSettingGlobal(name.clone()).into());
        }
        let value = &assignment.value;
        match short {
            TOKEN if value.eq_ignore_ascii_case(b"default") => take_token("")?,
            TOKEN => take_token(&String::from_utf8_lossy(unquoted(value.trim_ascii())))?,
            TRACE => own.traces = read_trace(value, may.explains)?,
            _ => {
                let has_backend = |name: &str| may.outlook.named(name).is_some();
                set_hint(&mut own.hints, (short, value), has_backend, may.keeps_answers)?;
            }
        }
    }
    Ok(own)
}

/// The columns of `SELECT @@delphinus.mode [AS a], ..`, by the short names of the settings; an error for all else.
pub(crate) fn own_selected(sql: &[u8], lex: LexOptions) -> Result<Vec<SelectedVariable>, ProxyError> {
    let mixed = || ProxyError::from(Steered::OwnSettingsMixed);
    let mut columns = selected_variables(sql, lex).ok_or_else(mixed)?;
    for column in &mut columns {
        column.name = column.name.strip_prefix(PREFIX).ok_or_else(mixed)?.to_owned();
    }
    Ok(columns)
}

/// The one row of these columns.
pub(crate) fn own_row(columns: Vec<(SelectedVariable, String)>, shape: TextShape) -> Answer {
    let mut result = TextResult { columns: Vec::new(), rows: vec![Vec::new()] };
    for (selected, value) in columns {
        let width = u32::try_from(value.len()).unwrap_or(u32::MAX).max(64);
        result.columns.push(shape.column(selected.column.as_bytes(), width));
        result.rows[0].push(Some(value.into_bytes()));
    }
    Answer::rows(result)
}

/// Whether statements are to be traced; `may_explain`: the user may ask for that.
fn read_trace(value: &[u8], may_explain: bool) -> Result<bool, ProxyError> {
    let text = String::from_utf8_lossy(unquoted(value.trim_ascii())).to_ascii_lowercase();
    match text.as_str() {
        "0" | "off" | "false" | "default" => Ok(false),
        "1" | "on" | "true" if may_explain => Ok(true),
        "1" | "on" | "true" => Err(Steered::MayNotExplain("@@delphinus.trace").into()),
        _ => Err(Steered::OwnSettingValue(format!("{PREFIX}{TRACE}"), text).into()),
    }
}

/// Sets one of the hints. `has_backend` knows the names of backends; `keeps_answers`: there is a cache.
fn set_hint(
    own: &mut Hints,
    (name, value): (&str, &[u8]),
    has_backend: impl Fn(&str) -> bool,
    keeps_answers: bool,
) -> Result<(), ProxyError> {
    let is_default = value.eq_ignore_ascii_case(b"default");
    let value = unquoted(value.trim_ascii());
    let is_default = is_default || value.is_empty();
    match name {
        "mode" | "backend" if is_default => own.wanted = None,
        "consistency" if is_default => own.consistency = None,
        "timeout_ms" if is_default => own.timeout_ms = None,
        "cache_ttl" | "cache_ttl_ms" if is_default => own.cache = None,
        "mode" | "backend" | "consistency" | "timeout_ms" | "cache_ttl" | "cache_ttl_ms" => {
            let is_there = match name {
                "backend" => has_backend(&String::from_utf8_lossy(value)),
                "cache_ttl" | "cache_ttl_ms" => value == b"0" || keeps_answers,
                _ => true,
            };
            if !is_there || !own.ask(name.as_bytes(), Some(value)) {
                let value = String::from_utf8_lossy(value).into_owned();
                return Err(Steered::OwnSettingValue(format!("{PREFIX}{name}"), value).into());
            }
            if own.wanted == Some(Wanted::Auto) {
                own.wanted = None;
            }
        }
        _ => return Err(Steered::UnknownOwnSetting(format!("{PREFIX}{name}")).into()),
    }
    Ok(())
}

/// What one of them is; `None` for any other name.
pub(crate) fn own_value(OwnSettings { hints: own, traces }: &OwnSettings, name: &str) -> Option<String> {
    Some(match name {
        "mode" => match own.wanted {
            Some(Wanted::Primary) => "primary".to_owned(),
            Some(Wanted::Replica) => "replica".to_owned(),
            Some(Wanted::Auto | Wanted::Backend(_)) | None => "auto".to_owned(),
        },
        "backend" => match &own.wanted {
            Some(Wanted::Backend(name)) => name.to_string(),
            _ => String::new(),
        },
        "consistency" => match own.consistency {
            Some(Consistency::Eventual) => "eventual".to_owned(),
            Some(Consistency::Session) => "session".to_owned(),
            Some(Consistency::Global) => "global".to_owned(),
            None => String::new(),
        },
        "timeout_ms" => own.timeout_ms.unwrap_or(0).to_string(),
        TRACE => u8::from(*traces).to_string(),
        "cache_ttl" | "cache_ttl_ms" => match own.cache {
            Some(CacheWish::TtlMs(ttl_ms)) => ttl_ms.to_string(),
            Some(CacheWish::Never) => "0".to_owned(),
            None => String::new(),
        },
        _ => return None,
    })
}

/// The value without its quotes.
fn unquoted(value: &[u8]) -> &[u8] {
    match value {
        [mark @ (b'\'' | b'"' | b'`'), inner @ .., last] if mark == last => inner,
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> Option<String> {
        let mut own = OwnSettings::default();
        set_hint(&mut own.hints, (name, value.as_bytes()), |name| name == "db1", false).ok()?;
        own_value(&own, name)
    }

    #[test]
    fn what_is_set_is_read_back() {
        for (name, value, read) in [
            ("mode", "'replica'", Some("replica")),
            ("mode", "auto", Some("auto")),
            ("mode", "'other'", None),
            ("backend", "\"db1\"", Some("db1")),
            ("backend", "'db2'", None),
            ("backend", "DEFAULT", Some("")),
            ("consistency", "'global'", Some("global")),
            ("timeout_ms", "250", Some("250")),
            ("cache_ttl_ms", "1000", None),
            ("cache_ttl_ms", "0", Some("0")),
            ("no_such", "1", None),
        ] {
            assert_eq!(set(name, value).as_deref(), read, "{name} = {value}");
        }
    }

    #[test]
    fn nothing_else_is_selected_with_them() {
        let names = |sql: &str| {
            let columns = own_selected(sql.as_bytes(), LexOptions::default()).ok()?;
            Some(columns.into_iter().map(|one| one.name).collect::<Vec<_>>().join(", "))
        };
        let sql = "SELECT @@delphinus.mode AS m, @@session.`delphinus`.trace";
        assert_eq!(names(sql).as_deref(), Some("mode, trace"));
        for mixed in [
            "SELECT @@delphinus.mode, 1",
            "SELECT @@delphinus.mode, @@port",
            "SELECT @@global.delphinus.mode",
        ] {
            assert_eq!(names(mixed), None, "{mixed}");
        }
    }
}
