//! The sample schema: a small shop, and a view that says which server answered.

/// The tables and their rows, one statement for each line, for both kinds of server.
const SHOP: &str = include_str!("schema/shop.sql");

/// The statements that fill the schema `app`, one for each line.
pub(crate) fn statements(is_mysql: bool) -> Vec<String> {
    let lines = SHOP.lines().filter(|line| !line.is_empty() && !line.starts_with("--"));
    let mut sql: Vec<String> = lines.map(|line| line.trim_end_matches(';').to_owned()).collect();
    let variables = if is_mysql { "performance_schema" } else { "information_schema" };
    let value = |name: &str| {
        format!("(SELECT VARIABLE_VALUE FROM {variables}.global_variables WHERE VARIABLE_NAME = '{name}')")
    };
    sql.push(format!(
        "CREATE DEFINER = root@localhost SQL SECURITY DEFINER VIEW app.answered_by AS SELECT {} AS server_id, {} AS port, \
         IF({} IN ('OFF', '0'), 'primary', 'replica') AS role",
        value("server_id"),
        value("port"),
        value("read_only"),
    ));
    sql
}
