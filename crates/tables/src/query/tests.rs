//! What statements may, and what they may not.

use std::time::Instant;

use super::*;
use crate::function::Function;
use crate::table::Column;

static CLIENTS: Table = Table {
    name: "clients",
    help: "Clients.",
    columns: &[
        Column::integer("id", "", "Its id."),
        Column::text("user", "Its user."),
        Column::integer("twice", "", "The id twice.").of("id * 2"),
    ],
    over: "",
};
static SERVERS: Table = Table {
    name: "servers",
    help: "Servers.",
    columns: &[
        Column::text("name", "Its name."),
        Column::integer("number", "", "Its place.").of(Column::NUMBER),
    ],
    over: "",
};
static BOTH: Table = Table {
    name: "both",
    help: "A view.",
    columns: &[
        Column::text("who", "A user.").of("c.user"),
        Column::integer("n", "", "A place.").of("s.number"),
    ],
    over: "clients c JOIN servers s ON s.number = c.id",
};

static KEPT: Table = Table {
    name: "kept",
    help: "What lies in files.",
    columns: &[
        Column::text("at", "When."),
        Column::integer("value", "", "How much."),
        Column::text("name", "Of what."),
    ],
    over: "",
};
const KEPT_SELECT: &str =
    "SELECT r.at, r.value, (SELECT name FROM {db}.names WHERE id = r.name) FROM {db}.rows r";

static FUNCTIONS: [Function; 1] = [Function {
    name: "doubled",
    usage: "doubled(x)",
    arguments: 1,
    help: "Twice x.",
    run: |arguments| match arguments {
        [Cell::Integer(value)] => Ok(Cell::Integer(2 * value)),
        _ => Err("doubled() wants a whole number".to_owned()),
    },
}];

fn catalog() -> Catalog {
    Catalog::new([&CLIENTS, &SERVERS, &BOTH, &KEPT]).with(&FUNCTIONS)
}

/// Files with rows, gone with it.
struct KeptFiles(std::path::PathBuf, Vec<String>);

impl KeptFiles {
    fn new(name: &str, files: i64, rows: i64) -> Self {
        let dir = std::env::temp_dir().join(format!("delphinus-tables-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let file = |n: i64| {
            let path = dir.join(format!("{n}.sqlite"));
            let connection = Connection::open(&path).unwrap();
            connection
                .execute_batch(&format!(
                    "CREATE TABLE names(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO names VALUES (1, 'one'), (2, 'two'); \
                     CREATE TABLE rows(at TEXT, value INTEGER, name INTEGER); CREATE INDEX by_at ON rows(at); \
                     WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {rows} - 1) \
                     INSERT INTO rows SELECT printf('2026-01-%02d %06d', {n}, i), i, 1 + i % 2 FROM n"
                ))
                .unwrap();
            format!("file:{}?mode=ro", path.display())
        };
        let uris = (1..=files).map(file).collect();
        Self(dir, uris)
    }

    fn ask(&self, text: &str) -> Result<Vec<String>, Fault> {
        let query = Query::plan(&catalog(), text)?;
        let content = |table: &'static Table| match table.name {
            "kept" => Content::Files { uris: self.1.clone(), select: KEPT_SELECT },
            _ => rows(table, 3).into(),
        };
        let tables = query.needs().into_iter().map(|table| (table, content(table))).collect();
        let answer = query.run(tables, &[])?;
        let line = |row: &Vec<Cell>| row.iter().filter_map(Cell::to_text).collect::<Vec<_>>().join(" ");
        Ok(answer.rows.iter().map(line).collect())
    }
}

impl Drop for KeptFiles {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn tables_in_files_are_read_where_they_are() {
    let files = KeptFiles::new("files", 3, 1000);
    let ask = |text: &str| files.ask(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    assert_eq!(ask("SELECT count(*), sum(value) FROM kept"), ["3000 1498500"]);
    assert_eq!(
        ask("SELECT name, count(*) FROM kept WHERE at >= '2026-01-03' GROUP BY name"),
        ["one 500", "two 500"]
    );
    assert_eq!(
        ask(
            "SELECT k.name, c.user FROM kept k JOIN clients c ON c.id = k.value WHERE k.at < '2026-01-02' AND c.id = 2"
        ),
        ["one user2"]
    );
    assert_eq!(ask("SELECT doubled(value) FROM kept ORDER BY value DESC LIMIT 1"), ["1998"]);
    assert_eq!(ask("WITH kept2 AS (SELECT * FROM kept) SELECT count(*) FROM kept2"), ["3000"]);
    for text in [
        "SELECT * FROM file_0.rows",
        "SELECT * FROM file_0.names",
        "WITH kept AS (SELECT name AS at FROM file_0.names) SELECT * FROM kept",
        "SELECT * FROM names",
        "ATTACH '/etc/passwd' AS x",
        "SELECT doubled('x') FROM kept",
    ] {
        assert!(files.ask(text).is_err(), "{text}");
    }
    // One that has gone is left out; one that is none is told.
    std::fs::remove_file(files.0.join("2.sqlite")).unwrap();
    assert_eq!(ask("SELECT count(*) FROM kept"), ["2000"]);
    std::fs::write(files.0.join("1.sqlite"), "x".repeat(9000)).unwrap();
    assert!(matches!(files.ask("SELECT count(*) FROM kept"), Err(Fault::Damaged(_))));
    assert!(matches!(KeptFiles::new("many", 11, 1).ask("SELECT count(*) FROM kept"), Err(Fault::Files)));
    assert_eq!(KeptFiles::new("none", 0, 0).ask("SELECT count(*) FROM kept").unwrap(), ["0"]);
}

/// What is stored may be large: a condition on time reads no more than it has to, and what reads all ends in its time.
#[test]
fn a_condition_on_time_reads_no_more_than_it_has_to() {
    let files = KeptFiles::new("large", 3, 300_000);
    let started = Instant::now();
    let few = files.ask("SELECT name, count(*), max(value) FROM kept WHERE at BETWEEN '2026-01-02 000100' AND '2026-01-02 000199' GROUP BY name");
    assert_eq!(few.unwrap(), ["one 50 198", "two 50 199"]);
    let quick = started.elapsed();
    let started = Instant::now();
    files.ask("SELECT name, count(*), max(value) FROM kept GROUP BY name").unwrap();
    assert!(quick * 5 < started.elapsed(), "{quick:?} with a condition, {:?} without", started.elapsed());
    let started = Instant::now();
    assert_eq!(files.ask("SELECT count(*) FROM kept a JOIN kept b ON a.value < b.value"), Err(Fault::Time));
    assert!(started.elapsed() < 5 * TIME_LIMIT);
}

fn rows(table: &Table, count: i64) -> Vec<Vec<Cell>> {
    let row = |at: i64| match table.name {
        "clients" => vec![Cell::Integer(at), Cell::from(format!("user{}", at % 7))],
        _ => vec![Cell::from(format!("db{at}"))],
    };
    (1..=count).map(row).collect()
}

fn answer_of(text: &str, parameters: &[Cell], count: i64) -> Result<Answer, Fault> {
    let query = Query::plan(&catalog(), text)?;
    let tables = query.needs().into_iter().map(|table| (table, rows(table, count).into())).collect();
    query.run(tables, parameters)
}

fn texts(text: &str) -> Vec<String> {
    let answer = answer_of(text, &[], 3).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    answer.rows.iter().map(|row| row.iter().filter_map(Cell::to_text).collect::<Vec<_>>().join(" ")).collect()
}

fn fault(text: &str) -> Fault {
    answer_of(text, &[], 3).expect_err(text)
}

#[test]
fn statements_are_answered() {
    assert_eq!(texts("SELECT * FROM clients ORDER BY id DESC LIMIT 2"), ["3 user3 6", "2 user2 4"]);
    assert_eq!(texts("SELECT count(*) FROM clients"), ["3"]);
    assert_eq!(texts("SELECT who, n FROM BOTH WHERE `n` > 1"), ["user2 2", "user3 3"]);
    assert_eq!(texts("WITH x(n) AS (SELECT max(id) FROM clients) SELECT n FROM x"), ["3"]);
    assert_eq!(texts("SELECT name FROM servers WHERE name LIKE 'DB1'"), ["db1"]);
    let named =
        answer_of("SELECT user, id FROM clients WHERE id = ? OR user = ?", &[2.into(), "user3".into()], 3);
    assert_eq!(named.unwrap().rows.len(), 2);
    let wrong = Fault::Parameters { wanted: 1, given: 0 };
    assert_eq!(answer_of("SELECT ?", &[], 3), Err(wrong));
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

/// As SQLite has them, though they are ours.
#[test]
fn functions_on_texts() {
    for (expression, expected) in [
        ("instr('äab', 'b')", "3"),
        ("instr('ab', '')", "1"),
        ("instr('ab', 'c')", "0"),
        ("instr(1.0, '.')", "2"),
        ("coalesce(instr(NULL, 'a'), 'none')", "none"),
        ("replace('aaa', 'a', 'bb')", "bbbbbb"),
        ("replace('abc', '', 'x')", "abc"),
        ("replace('abcabc', 'bc', '')", "aa"),
        ("trim('xyaxx', 'yx')", "a"),
        ("ltrim('xxax', 'x')", "ax"),
        ("rtrim('xaxx', 'x')", "xa"),
        ("trim(' a ')", "a"),
        ("'ABC' LIKE 'a%'", "1"),
        ("'aäc' LIKE 'a_c'", "1"),
        ("'ab' NOT LIKE 'a'", "1"),
        ("'a%' LIKE 'a!%' ESCAPE '!'", "1"),
        ("12 LIKE '1%'", "1"),
        ("'abc' GLOB '[a-b]*'", "1"),
        ("'abc' GLOB 'A*'", "0"),
    ] {
        assert_eq!(texts(&format!("SELECT {expression}")), [expected], "{expression}");
    }
    assert_eq!(fault("SELECT replace(hex(zeroblob(60000)), '0', '123')"), Fault::Value);
    assert!(matches!(fault("SELECT 'a' LIKE hex(zeroblob(200))"), Fault::Syntax(_)));
    assert!(matches!(fault("SELECT 'a' LIKE 'a' ESCAPE 'ab'"), Fault::Syntax(_)));
}

#[test]
fn columns_have_types_also_without_rows() {
    let columns = |text: &str, count| answer_of(text, &[], count).unwrap().columns;
    let named = |name: &str, kind| (name.to_owned(), kind);
    for count in [0, 2] {
        let found = columns("SELECT id, user AS u, twice FROM clients", count);
        assert_eq!(
            found,
            [named("id", Kind::Integer), named("u", Kind::Text), named("twice", Kind::Integer)]
        );
    }
    assert_eq!(columns("SELECT 1 AS a, 1.5 AS b, 'x' AS c", 0)[1], named("b", Kind::Real));
    assert_eq!(
        columns("SELECT id AS a FROM clients UNION SELECT name FROM servers", 1)[0],
        named("a", Kind::Text)
    );
}

#[test]
fn what_is_read_is_known_before() {
    let query = |text: &str| Query::plan(&catalog(), text).unwrap();
    let needs = |text: &str| query(text).needs().iter().map(|table| table.name).collect::<Vec<_>>();
    assert_eq!(needs("SELECT 1"), [""; 0]);
    assert_eq!(needs("SELECT count(*) FROM servers"), ["servers"]);
    assert_eq!(needs("SELECT n FROM both"), ["clients", "servers"]);
    assert!(query("SELECT id FROM clients").reads().column("clients", "id"));
    assert!(!query("SELECT id FROM clients").reads().column("clients", "user"));
    assert!(query("SELECT * FROM clients").reads().column("clients", "user"));
}

#[test]
fn nothing_but_reading_is_done() {
    for text in [
        "DELETE FROM clients",
        "WITH x AS (SELECT 1) DELETE FROM clients",
        "INSERT INTO clients VALUES (1, 'x')",
        "CREATE TABLE t (a)",
        "CREATE TEMP TABLE t AS SELECT 1",
        "DROP TABLE clients",
        "ATTACH '/tmp/x' AS x",
        "VACUUM INTO '/tmp/delphinus-vacuum'",
        "PRAGMA hard_heap_limit = 0",
        "PRAGMA table_list",
        "BEGIN",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM pragma_database_list",
        "SELECT count(*) FROM pragma_database_list",
        "SELECT count(*) FROM sqlite_schema",
        "SELECT * FROM json_each('[1]')",
        "SELECT * FROM dbstat",
        "SELECT load_extension('/tmp/x')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT unhex('61')",
        "SELECT json_patch('{}', '{}')",
        "EXPLAIN DELETE FROM clients",
    ] {
        assert_eq!(fault(text), Fault::Forbidden, "{text}");
    }
}

#[test]
fn mistakes_are_named() {
    assert_eq!(fault("SELECT * FROM nowhere"), Fault::NoTable("nowhere".to_owned()));
    assert_eq!(fault("SELECT nowhere FROM clients"), Fault::NoColumn("nowhere".to_owned()));
    for text in ["SELECT", "SELECT 1; SELECT 2", "SELECT * FROM clients WHERE"] {
        assert!(matches!(fault(text), Fault::Syntax(_)), "{text}: {:?}", fault(text));
    }
}

/// The size of this process in bytes, as the kernel counts it.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn hostile_statements_end_within_their_bounds() {
    let before = resident();
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    let (long, part) = ("hex(zeroblob(100000))", "substr(hex(zeroblob(99999)), i % 10 + 1, 60000)");
    let (others, short) =
        ("replace(hex(zeroblob(60000)), '0', 'x')", "substr(hex(zeroblob(120)), i % 10 + 1, 200)");
    let cases = [
        (format!("{numbers} SELECT count(*) FROM n"), Fault::Time),
        (format!("{numbers} SELECT i FROM n"), Fault::Answer),
        (format!("{numbers} SELECT hex(randomblob(60000)) FROM n"), Fault::Answer),
        (format!("{numbers} SELECT hex(randomblob(60000)) AS h FROM n ORDER BY h"), Fault::Memory),
        (format!("{numbers} SELECT DISTINCT hex(randomblob(60000)) = 'x' FROM n"), Fault::Time),
        ("SELECT randomblob(1e9)".to_owned(), Fault::Value),
        ("SELECT zeroblob(2147483647)".to_owned(), Fault::Value),
        ("SELECT printf('%.*c', 1000000000, 'x')".to_owned(), Fault::Value),
        (format!("{numbers} SELECT group_concat(i) FROM n"), Fault::Time),
        ("SELECT count(*) FROM clients a, clients b, clients c, clients d".to_owned(), Fault::Time),
        // Functions that take long by themselves.
        (format!("{numbers} SELECT count(*) FROM n WHERE instr({long}, {part} || 'x')"), Fault::Time),
        (
            format!("{numbers} SELECT count(*) FROM n WHERE replace({long}, {part} || 'x', 'y') = ''"),
            Fault::Time,
        ),
        (
            format!("{numbers} SELECT count(*) FROM n WHERE trim({long}, {others} || i || '0') > 'a'"),
            Fault::Time,
        ),
        (format!("{numbers} SELECT count(*) FROM n WHERE {long} LIKE '%' || {short} || 'x'"), Fault::Time),
        (format!("{numbers} SELECT count(*) FROM n WHERE {long} GLOB '*' || {short} || 'x'"), Fault::Time),
    ];
    for (text, expected) in cases {
        // On a busy machine any other bound would be reached later than a short time.
        let limit = if expected == Fault::Time { Duration::from_secs(1) } else { Duration::from_mins(5) };
        let started = Instant::now();
        let query = Query::plan_within(&catalog(), &text, limit).unwrap();
        let tables = query.needs().into_iter().map(|table| (table, rows(table, 10_000).into())).collect();
        assert_eq!(query.run(tables, &[]), Err(expected), "{text}");
        assert!(started.elapsed() < 10 * limit, "{text}: {:?}", started.elapsed());
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 3 * (bounds::MAX_BYTES + MAX_ANSWER_BYTES), "{grown} bytes");
    // After all of them there is room again.
    assert_eq!(texts("SELECT count(*) FROM clients"), ["3"]);
}

#[test]
fn texts_that_are_hard_to_read_are_refused() {
    let deep = format!("SELECT {}1{}", "(".repeat(30_000), ")".repeat(30_000));
    let wide = format!("SELECT {}", vec!["1"; 20_000].join(","));
    let many = format!("SELECT 1 {}", "UNION SELECT 1 ".repeat(4000));
    let joins = format!("SELECT 1 FROM clients {}", ", clients".repeat(70));
    for text in [deep, wide, many, joins] {
        let started = Instant::now();
        assert!(Query::plan(&catalog(), &text).is_err(), "{}", &text[..40]);
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn long_texts_are_cut_and_do_not_hide_their_table() {
    let query = Query::plan(&catalog(), "SELECT user FROM clients").unwrap();
    let long = vec![vec![Cell::Integer(1), Cell::from("ä".repeat(MAX_VALUE_BYTES))]];
    let answer = query.run(vec![(&CLIENTS, long.into())], &[]).unwrap();
    assert_eq!(answer.rows[0][0].as_text().unwrap().len(), MAX_VALUE_BYTES / 4);
}
