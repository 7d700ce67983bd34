//! `GET /v1/tables` and `GET /v1/tables/{table}`: what there is to read, and the rows of one table.

use std::fmt::Write;

use axum::Extension;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use delphinus_admin::{TableInfo, tables};
use delphinus_tables::{Cell, Column, Kind, Table};
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::reply;
use crate::request::Visit;

/// Parameters that are no columns.
pub(crate) const PARAMETERS: [&str; 4] = ["columns", "order_by", "limit", "offset"];

pub(crate) async fn list(
    Extension(visit): Extension<Visit>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    visit.ask(&headers, |_, _| async { Ok(()) }).await?;
    let list: Vec<_> = tables().iter().map(described).collect();
    Ok(reply::json(StatusCode::OK, json!({ "tables": list }).to_string() + "\n"))
}

fn described(info: &TableInfo) -> Value {
    let column = |column: &Column| {
        json!({
            "name": column.name,
            "type": reply::type_word(column.kind),
            "unit": column.unit,
            "help": column.help,
        })
    };
    json!({
        "name": info.table.name,
        "help": info.table.help,
        "role": info.role.map(delphinus_admin::AdminRole::as_str),
        "columns": info.table.columns.iter().map(column).collect::<Vec<_>>(),
    })
}

pub(crate) async fn get(
    Extension(visit): Extension<Visit>,
    headers: HeaderMap,
    name: Result<Path<String>, PathRejection>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Response, Problem> {
    // Who has not logged in is told nothing but that.
    let job = move || {
        let Path(name) = name.map_err(|error| Problem::bad(error.body_text()))?;
        let Query(query) = query.map_err(|error| Problem::bad(error.body_text()))?;
        let unknown =
            || Problem::new("no_table", format!("there is no table {name:?}; GET /v1/tables lists them"));
        let info = tables()
            .into_iter()
            .find(|info| info.table.name.eq_ignore_ascii_case(&name))
            .ok_or_else(unknown)?;
        select(info.table, &query)
    };
    let told = visit.ask(&headers, |console, program| async move {
        Ok(match job() {
            Ok((text, parameters)) => Ok(console.answer(&program, &text, &parameters).await?),
            Err(problem) => Err(problem),
        })
    });
    reply::told(told.await??)
}

/// The statement for these parameters of a request, and its own.
fn select(table: &Table, query: &[(String, String)]) -> Result<(String, Vec<Cell>), Problem> {
    let one = |name: &str| {
        let mut found = query.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(Problem::bad(format!("{name} is given twice"))),
            (found, None) => Ok(found),
        }
    };
    let names = match one("columns")? {
        Some(list) => list.split(',').map(|name| column(table, name)).collect::<Result<Vec<_>, _>>()?,
        None => table.columns.iter().collect(),
    };
    let names: Vec<_> = names.iter().map(|column| format!("\"{}\"", column.name)).collect();
    let mut text = format!("SELECT {} FROM \"{}\"", names.join(", "), table.name);
    let parameters = conditions(&mut text, table, query)?;
    if let Some(list) = one("order_by")? {
        let keys = list.split(',').map(|key| {
            let (name, way) = key.strip_prefix('-').map_or((key, ""), |name| (name, " DESC"));
            Ok(format!("\"{}\"{way}", column(table, name)?.name))
        });
        let _ = write!(text, " ORDER BY {}", keys.collect::<Result<Vec<_>, Problem>>()?.join(", "));
    }
    let number = |name: &'static str| {
        let wrong = |value: &str| Problem::bad(format!("{name} = {value:?} is not a whole number"));
        one(name)?.map(|value| value.parse::<u32>().map_err(|_| wrong(value))).transpose()
    };
    match (number("limit")?, number("offset")?) {
        (None, None) => {}
        (limit, offset) => {
            let limit = limit.map_or(-1, i64::from);
            let _ = write!(text, " LIMIT {limit} OFFSET {}", offset.unwrap_or(0));
        }
    }
    Ok((text, parameters))
}

/// `column=value`: the rows that have this value; with several for one column, one of these.
fn conditions(text: &mut String, table: &Table, query: &[(String, String)]) -> Result<Vec<Cell>, Problem> {
    let mut wanted: Vec<(&Column, Vec<Cell>)> = Vec::new();
    for (name, value) in query.iter().filter(|(name, _)| !PARAMETERS.contains(&name.as_str())) {
        let column = column(table, name)?;
        let cell = cell(column, value)?;
        match wanted.iter_mut().find(|(known, _)| known.name == column.name) {
            Some((_, values)) => values.push(cell),
            None => wanted.push((column, vec![cell])),
        }
    }
    let mut parameters = Vec::new();
    for (at, (column, values)) in wanted.into_iter().enumerate() {
        let word = if at == 0 { " WHERE" } else { " AND" };
        let marks = vec!["?"; values.len()].join(", ");
        let _ = write!(text, "{word} \"{}\" IN ({marks})", column.name);
        parameters.extend(values);
    }
    Ok(parameters)
}

fn column<'t>(table: &'t Table, name: &str) -> Result<&'t Column, Problem> {
    let found = table.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let names: Vec<_> = table.columns.iter().map(|column| column.name).collect();
        let known = names.join(", ");
        Problem::bad(format!("the table {} has no column {name:?}; it has {known}", table.name))
    })
}

/// A value with the type of its column.
fn cell(column: &Column, value: &str) -> Result<Cell, Problem> {
    let wrong = || Problem::bad(format!("{} = {value:?} is not a number", column.name));
    Ok(match column.kind {
        Kind::Text => Cell::from(value),
        Kind::Integer => Cell::Integer(value.parse().map_err(|_| wrong())?),
        Kind::Real => Cell::Real(value.parse().map_err(|_| wrong())?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(query: &[(&str, &str)]) -> Result<(String, Vec<Cell>), Problem> {
        static TABLE: Table = Table {
            name: "t",
            help: "",
            columns: &[Column::text("name", ""), Column::integer("count", "", "")],
            over: "",
        };
        let query: Vec<_> =
            query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        select(&TABLE, &query)
    }

    #[test]
    fn parameters_become_a_select() {
        let (text, parameters) = of(&[]).unwrap();
        assert_eq!((text.as_str(), parameters.len()), ("SELECT \"name\", \"count\" FROM \"t\"", 0));
        let (text, parameters) = of(&[
            ("name", "a'b"),
            ("count", "7"),
            ("name", "c"),
            ("columns", "COUNT"),
            ("order_by", "-count,name"),
            ("limit", "10"),
            ("offset", "5"),
        ])
        .unwrap();
        let expected = "SELECT \"count\" FROM \"t\" WHERE \"name\" IN (?, ?) AND \"count\" IN (?) \
                        ORDER BY \"count\" DESC, \"name\" LIMIT 10 OFFSET 5";
        assert_eq!(text, expected);
        assert_eq!(parameters, [Cell::from("a'b"), Cell::from("c"), Cell::Integer(7)]);
        assert_eq!(
            of(&[("offset", "5")]).unwrap().0,
            "SELECT \"name\", \"count\" FROM \"t\" LIMIT -1 OFFSET 5"
        );
    }

    #[test]
    fn what_is_no_column_is_refused() {
        for wrong in [
            ("nam", "x"),
            ("count", "x"),
            ("columns", "name,(SELECT 1)"),
            ("columns", ""),
            ("order_by", "name; DROP"),
            ("limit", "-1"),
            ("limit", "99999999999"),
            ("\"", ""),
        ] {
            assert_eq!(of(&[wrong]).unwrap_err().status(), 400, "{wrong:?}");
        }
        assert!(of(&[("limit", "1"), ("limit", "2")]).is_err());
    }

    #[test]
    fn no_table_has_a_column_that_is_a_parameter() {
        for info in tables() {
            let both = info.table.columns.iter().find(|column| PARAMETERS.contains(&column.name));
            assert_eq!(both, None, "{}", info.table.name);
        }
    }
}
