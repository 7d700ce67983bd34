//! `SHOW TABLES`, `DESCRIBE`, `SHOW CREATE TABLE`: which tables there are, and what they have.

use delphinus_tables as tables;

use super::Call;
use crate::answer::{Answer, Refused};
use crate::source::catalog;
use crate::table::{Table, text};

pub(super) fn show_tables(_: &Call<'_>) -> Table {
    let kind = |table: &tables::Table| if table.is_view() { "VIEW" } else { "BASE TABLE" };
    let row = |table: &'static tables::Table| vec![text(table.name), text(kind(table)), text(table.help)];
    Table::new(["name", "Table_type", "help"]).with(catalog().iter().map(row))
}

pub(super) fn describe(call: &Call<'_>) -> Result<Answer, Refused> {
    let table = the_table(call)?;
    let row = |column: &tables::Column| {
        let help = match column.unit {
            "" => column.help.to_owned(),
            unit => format!("{} ({unit})", column.help),
        };
        let fixed = [column.name, column.kind.as_str(), "YES", ""].map(text);
        fixed.into_iter().chain([tables::Cell::Null, text(""), text(help)]).collect()
    };
    let columns = ["Field", "Type", "Null", "Key", "Default", "Extra", "Comment"];
    Ok(Answer::Rows(Table::new(columns).with(table.columns.iter().map(row))))
}

pub(super) fn show_create(call: &Call<'_>) -> Result<Answer, Refused> {
    let table = the_table(call)?;
    let (name, create) = if table.is_view() { ("View", "Create View") } else { ("Table", "Create Table") };
    Ok(Answer::Rows(Table::new([name, create]).with([vec![text(table.name), text(table.create())]])))
}

fn the_table(call: &Call<'_>) -> Result<&'static tables::Table, Refused> {
    let [word] = call.words else {
        return Err(Refused::syntax("write the name of one table; SHOW TABLES lists them"));
    };
    let name = word.text.rsplit_once('.').map_or(&*word.text, |(_, name)| name);
    catalog().find(name).ok_or_else(|| tables::Fault::NoTable(name.to_owned()).into())
}
