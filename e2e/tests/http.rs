//! The HTTP door, on real servers: it says what the tables say, may do what the admin listener may, and bears with anybody.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "http/hostile.rs"]
mod hostile;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use delphinus_e2e::{
    Client, ConfigFile, HttpDoor, Operators, Stage, bearer, on_both_flavors, proxy_binary, run, until,
};
use delphinus_sandbox::Flavor;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(30);

struct Scene {
    stage: Stage,
    door: HttpDoor,
    operator: Client,
}

fn scene(flavor: Flavor) -> Scene {
    let (operators, door) = (Operators::default(), HttpDoor::new().unwrap());
    let config = ConfigFile::with_sections(&[operators.section(), door.section("")].concat());
    let stage = Stage::with(flavor, &config).unwrap();
    let operator = operators.connect(&stage.address).unwrap();
    Scene { stage, door, operator }
}

/// All of it on the same servers.
fn the_door(flavor: Flavor) {
    let mut scene = scene(flavor);
    run_statements(&scene.stage);
    metrics_agree_with_the_tables(&mut scene);
    scene.door.satisfies_promtool().unwrap();
    times_are_in_their_buckets(&scene);
    if flavor == Flavor::MariaDb {
        scene.door.keeps_its_contract().unwrap();
    }
    statements_are_those_of_the_admin_listener(&mut scene);
    tables_are_read_by_parameters(&scene.door);
    rights_and_audit_are_those_of_operators(&mut scene);
    ctl_has_the_same_answers(&mut scene);
    what_is_set_is_followed(&mut scene);
    no_secret_is_told(&mut scene);
    readiness_is_that_of_the_proxy(scene);
}
on_both_flavors!(the_door);

/// Statements of several kinds; two of them fail.
fn run_statements(stage: &Stage) {
    let mut client = stage.address.connect().unwrap();
    client.query("CREATE TABLE door (id INT PRIMARY KEY, note VARCHAR(100))").unwrap();
    for n in 0..20 {
        client.query(&format!("INSERT INTO door VALUES ({n}, 'note {n}')")).unwrap();
    }
    for n in 0..50 {
        client.query(&format!("SELECT note FROM door WHERE id = {n}")).unwrap();
    }
    client.query("SELECT * FROM missing").unwrap_err();
    client.query("INSERT INTO door VALUES (1, 'again')").unwrap_err();
    client.query("SELECT CONNECTION_ID()").unwrap();
    client.query("BEGIN").unwrap();
    client.query("UPDATE door SET note = 'x' WHERE id < 5").unwrap();
    client.query("ROLLBACK").unwrap();
    client.query("SELECT SLEEP(0.3)").unwrap();
}

fn value(metrics: &[(String, f64)], series: &str) -> f64 {
    let found = metrics.iter().find(|(name, _)| name == series);
    found.unwrap_or_else(|| panic!("{series} is not among {metrics:#?}")).1
}

/// The same number, but for what a sum of fractions loses.
fn agree(one: f64, other: f64, what: &str) {
    assert!((one - other).abs() <= 1e-9 * other.abs().max(1.0), "{what}: {one} and {other}");
}

fn metrics_agree_with_the_tables(Scene { door, operator, .. }: &mut Scene) {
    let table = "SELECT cluster, coalesce(backend, '(proxy)'), count, errors, rows_sent, rows_affected, bytes_received, bytes_sent, total_us, \
                 queue_us, pool_us, sync_us, backend_us, client_us FROM statements_by_backend";
    let rows = operator.rows(table).unwrap();
    let metrics = door.metrics().unwrap();
    assert!(rows.len() >= 2, "{rows:?}");
    for row in &rows {
        let text = |at: usize| row[at].clone().unwrap();
        let number = |at: usize| text(at).parse::<f64>().unwrap();
        let labels = format!("cluster=\"{}\",backend=\"{}\"", text(0), text(1));
        let one = |name: &str| value(&metrics, &format!("delphinus_statement{name}{{{labels}}}"));
        let more = |name: &str, label: &str| {
            value(&metrics, &format!("delphinus_statement_{name}{{{labels},{label}}}"))
        };
        agree(one("s_total"), number(2), &labels);
        agree(one("_errors_total"), number(3), &labels);
        agree(more("rows_total", "kind=\"sent\""), number(4), &labels);
        agree(more("rows_total", "kind=\"affected\""), number(5), &labels);
        agree(more("bytes_total", "direction=\"received\""), number(6), &labels);
        agree(more("bytes_total", "direction=\"sent\""), number(7), &labels);
        agree(one("_duration_seconds_count"), number(2), &labels);
        agree(one("_duration_seconds_sum"), number(8) / 1e6, &labels);
        for (at, place) in (9..).zip(["queue", "pool", "sync", "backend", "client"]) {
            agree(more("seconds_total", &format!("place=\"{place}\"")), number(at) / 1e6, &labels);
        }
    }
    let errors: f64 = rows.iter().map(|row| row[3].as_ref().unwrap().parse::<f64>().unwrap()).sum();
    agree(errors, 2.0, "errors");
    status_agrees(operator, &metrics);
    backends_agree(operator, &metrics);
}

/// What SHOW STATUS has is there under its name; times in seconds.
fn status_agrees(operator: &mut Client, metrics: &[(String, f64)]) {
    // These move by themselves.
    const MOVING: [&str; 6] =
        ["uptime", "memory_bytes", "_bytes_total", "_connects_", "backend_connections", "session"];
    let by_name: BTreeMap<_, _> = metrics.iter().cloned().collect();
    let mut compared = 0;
    for row in operator.rows("SELECT variable_name, value FROM status").unwrap() {
        let (name, number) = (row[0].clone().unwrap(), row[1].clone().unwrap().parse::<f64>().unwrap());
        let is_time = name.contains("_microseconds");
        let found = by_name.get(&name.replace("_microseconds", "_seconds"));
        let found = found.unwrap_or_else(|| panic!("{name} is no metric"));
        if !MOVING.iter().any(|part| name.contains(part)) {
            let expected = if is_time { number / 1e6 } else { number };
            agree(*found, expected, &name);
            compared += 1;
        }
    }
    assert!(compared > 60, "{compared}");
}

fn backends_agree(operator: &mut Client, metrics: &[(String, f64)]) {
    let rows = operator.rows("SELECT cluster, name, role, state FROM backends").unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        let [cluster, name, role, state] = [0, 1, 2, 3].map(|at| row[at].clone().unwrap());
        let labels = format!("cluster=\"{cluster}\",backend=\"{name}\"");
        for (metric, label, word) in [("role", "role", &role), ("state", "state", &state)] {
            let series = |word: &str| format!("delphinus_backend_{metric}{{{labels},{label}=\"{word}\"}}");
            agree(value(metrics, &series(word)), 1.0, word);
            let prefix = format!("delphinus_backend_{metric}{{{labels},");
            let all: f64 =
                metrics.iter().filter(|(name, _)| name.starts_with(&prefix)).map(|(_, one)| one).sum();
            agree(all, 1.0, &prefix);
        }
        if role == "replica" {
            assert!(value(metrics, &format!("delphinus_backend_lag_seconds{{{labels}}}")) < 60.0);
        }
    }
    let pools = metrics.iter().filter(|(name, _)| name.starts_with("delphinus_pool_connections{"));
    assert!(pools.map(|(_, connections)| connections).sum::<f64>() > 0.0);
}

/// SLEEP(0.3) took more than 0.262144 s and less than 0.524288 s, and so did nothing else.
fn times_are_in_their_buckets(Scene { door, stage, .. }: &Scene) {
    let within = |metrics: &[(String, f64)]| -> f64 {
        let up_to = |bound: &str| -> f64 {
            let label = format!("le=\"{bound}\"");
            let buckets = metrics.iter().filter(|(name, _)| {
                name.starts_with("delphinus_statement_duration_seconds_bucket") && name.contains(&label)
            });
            buckets.map(|(_, count)| count).sum()
        };
        up_to("0.524288") - up_to("0.262144")
    };
    let before = within(&door.metrics().unwrap());
    let mut client = stage.address.connect().unwrap();
    for _ in 0..3 {
        client.query("SELECT SLEEP(0.3)").unwrap();
    }
    agree(within(&door.metrics().unwrap()), before + 3.0, "SLEEP(0.3)");
}

/// The rows of an answer as texts.
fn texts(rows: &[Vec<Value>]) -> Vec<Vec<Option<String>>> {
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    rows.iter().map(|row| row.iter().map(text).collect()).collect()
}

fn statements_are_those_of_the_admin_listener(Scene { door, operator, .. }: &mut Scene) {
    for statement in [
        "SELECT name, role, weight, NULL AS absent FROM backends ORDER BY name",
        "SHOW COMMANDS",
        "SHOW TABLES",
        "DESCRIBE digests",
        "EXPLAIN ROUTE SELECT 1",
        "SHOW CONFIG",
    ] {
        assert_eq!(texts(&door.rows(statement).unwrap()), operator.rows(statement).unwrap(), "{statement}");
    }
    let typed = door.statement_as(
        "viewer",
        "SELECT ? AS a, ? AS b, ? AS c, ? AS d",
        &[json!(7), json!(0.5), json!("x'"), Value::Null],
    );
    let typed = typed.unwrap().json().unwrap();
    assert_eq!(typed["rows"], json!([[7, 0.5, "x'", null]]));
    let kinds: Vec<_> = typed["columns"].as_array().unwrap().iter().map(|one| one["type"].clone()).collect();
    assert_eq!(json!(kinds), json!(["integer", "real", "text", "text"]));
    let done = door.statement_as("operator", "RESET DIGESTS", &[]).unwrap().json().unwrap();
    assert_eq!((&done["message"], &done["affected"], &done["rows"]), (&json!("done"), &json!(0), &json!([])));
    for (statement, status, code) in [
        ("SELEC 1", 400, 1064),
        ("SELECT x FROM backends", 400, 1054),
        ("SELECT * FROM absent", 404, 1146),
        ("SET BACKEND nobody OFFLINE", 409, 1105),
        ("SELECT 1; SELECT 2", 400, 1064),
        ("", 400, 1065),
        (
            "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
            504,
            3024,
        ),
        ("SELECT randomblob(1000000000)", 422, 1104),
    ] {
        let reply = door.statement_as("admin", statement, &[]).unwrap();
        let error = &reply.json().unwrap()["error"];
        assert_eq!(
            (reply.status, &error["code"], &error["status"]),
            (status, &json!(code), &json!(status)),
            "{statement}: {}",
            reply.body
        );
        let told = operator.error(statement).map(|error| error.code);
        assert!(
            statement.contains("; ") || told.as_ref().is_ok_and(|told| *told == code),
            "{statement}: {told:?}"
        );
    }
}

fn tables_are_read_by_parameters(door: &HttpDoor) {
    let list = door.get("/v1/tables").unwrap().json().unwrap();
    let named =
        |name: &str| list["tables"].as_array().unwrap().iter().find(|one| one["name"] == name).cloned();
    assert_eq!(named("audit").unwrap()["role"], "operator");
    assert!(named("digests").unwrap()["columns"].as_array().unwrap().iter().any(|one| one["unit"] == "us"));
    let get = |rest: &str| door.get(&format!("/v1/tables/{rest}")).unwrap();
    let rows = |rest: &str| {
        let reply = get(rest);
        assert_eq!(reply.status, 200, "{rest}: {}", reply.body);
        serde_json::from_value::<Vec<Vec<Value>>>(reply.json().unwrap()["rows"].clone()).unwrap()
    };
    assert_eq!(rows("backends?role=replica&columns=name,role").len(), 2);
    assert_eq!(rows("backends?role=replica&role=primary").len(), 3);
    assert_eq!(
        rows("backends?role=replica&role=primary&order_by=-name&limit=1&offset=1&columns=name").len(),
        1
    );
    assert_eq!(rows("backends?name=%27%20OR%201%3D1--").len(), 0);
    assert_eq!(rows("runtime_mysql_servers?columns=hostname,port").len(), 3);
    for (rest, status) in [
        ("nothing", 404),
        ("backends?nothing=1", 400),
        ("backends?weight=x", 400),
        ("backends?limit=-1", 400),
        ("backends?order_by=name;DROP", 400),
        ("%ff", 400),
        ("..", 404),
        ("..%2f..%2fmetrics", 404),
        ("backends/", 404),
    ] {
        assert_eq!(get(rest).status, status, "{rest}");
    }
}

fn rights_and_audit_are_those_of_operators(Scene { door, operator, .. }: &mut Scene) {
    for (role, statement, status) in [
        ("viewer", "SHOW BACKENDS", 200),
        ("viewer", "RESET DIGESTS", 403),
        ("viewer", "SELECT * FROM audit", 403),
        ("operator", "SELECT * FROM audit", 200),
        ("operator", "SET USER app password = 'planted-secret-1'", 403),
        ("admin", "SET pool.hold_ms = 300", 200),
    ] {
        let reply = door.statement_as(role, statement, &[]).unwrap();
        assert_eq!(reply.status, status, "{role}: {statement}: {}", reply.body);
    }
    let noted =
        "SELECT user, host, role, statement, result FROM audit WHERE user LIKE 'token:%' ORDER BY number";
    let noted = operator.rows(noted).unwrap();
    let has = |user: &str, statement: &str, result: &str| {
        noted.iter().any(|row| {
            let row: Vec<_> = row.iter().map(|cell| cell.clone().unwrap_or_default()).collect();
            row[0] == user && row[1] == "127.0.0.1" && row[3] == statement && row[4].starts_with(result)
        })
    };
    assert!(has("token:admin", "SET pool.hold_ms = 300", "1 row"), "{noted:?}");
    assert!(has("token:viewer", "RESET DIGESTS", "error 1227"), "{noted:?}");
    assert!(has("token:operator", "SET USER app password = (hidden)", "error 1227"), "{noted:?}");
    let status = |headers: &[&str]| door.send("GET", "/v1/tables", headers, "").unwrap();
    // The operator of `Operators`: ops, operator-pw.
    assert_eq!(status(&["Authorization: Basic b3BzOm9wZXJhdG9yLXB3"]).status, 200);
    let wrong = status(&["Authorization: Basic b3BzOndyb25n"]);
    assert_eq!(wrong.status, 401);
    assert!(wrong.header("www-authenticate").unwrap().contains("Bearer"), "{wrong:?}");
    assert_eq!(status(&["Authorization: Basic YXBwOmFwcC1wYXNzd29yZA=="]).status, 401);
    assert_eq!((status(&[]).status, status(&[&bearer("nonsense-0123456789")]).status), (401, 401));
    let without = |path: &str| door.send("GET", path, &[], "").unwrap().status;
    let all = ["/metrics", "/v1/openapi.json", "/v1/tables/backends", "/healthz", "/readyz"].map(without);
    assert_eq!(all, [401, 401, 401, 200, 200]);
}

fn ctl(door: &HttpDoor, arguments: &[&str]) -> delphinus_e2e::Outcome {
    let mut command = Command::new(proxy_binary().unwrap());
    command.args(["ctl", "--url", &door.url()]).args(arguments);
    command.env("DELPHINUS_HTTP_TOKEN", HttpDoor::token("admin"));
    run(&mut command, LIMIT).unwrap()
}

fn ctl_has_the_same_answers(Scene { door, operator, .. }: &mut Scene) {
    let statement = "SELECT name, weight FROM backends ORDER BY name";
    let listed: Value = serde_json::from_str(&ctl(door, &["--json", statement]).success().unwrap()).unwrap();
    let rows = operator.rows(statement).unwrap();
    let expected: Vec<_> = rows
        .iter()
        .map(|row| json!({ "name": row[0], "weight": row[1].as_ref().unwrap().parse::<u64>().unwrap() }))
        .collect();
    assert_eq!(listed, json!(expected));
    assert!(ctl(door, &["SHOW BACKENDS"]).success().unwrap().starts_with("NAME "));
    assert_eq!(ctl(door, &["RESET DIGESTS"]).success().unwrap(), "");
    let mut https = Command::new(proxy_binary().unwrap());
    let url = door.url().replace("http://", "https://");
    https.args(["ctl", "--url", &url, "--token", HttpDoor::token("viewer"), "RESET DIGESTS"]);
    let refused = run(&mut https, LIMIT).unwrap();
    assert!(!refused.status.success() && refused.output.contains("error 1227"), "{refused:?}");
}

/// Tokens and limits change while the door is open; it closes and opens.
fn what_is_set_is_followed(Scene { door, operator, .. }: &mut Scene) {
    operator.query("SET http.metrics_without_login = true").unwrap();
    assert_eq!(door.send("GET", "/metrics", &[], "").unwrap().status, 200);
    operator.query("SET http.basic_auth = false").unwrap();
    let basic = door.send("GET", "/v1/tables", &["Authorization: Basic b3BzOm9wZXJhdG9yLXB3"], "").unwrap();
    assert_eq!((basic.status, basic.header("www-authenticate")), (401, Some("Bearer realm=\"delphinus\"")));
    let port = door.url().rsplit_once(':').unwrap().1.to_owned();
    operator.query("SET http.deny = ['127.0.0.1']").unwrap();
    assert_eq!(door.send("GET", "/healthz", &[], "").unwrap().status, 403);
    operator.query("SET http.deny = DEFAULT").unwrap();
    let socket = std::env::temp_dir().join(format!("delphinus-http-{}-{port}", std::process::id()));
    let addresses = |list: &str| format!("SET http.addresses = [{list}]");
    operator.query(&addresses(&format!("'unix:{}'", socket.display()))).unwrap();
    door.connect().unwrap_err();
    assert!(socket.exists());
    operator.query(&addresses(&format!("'127.0.0.1:{port}'"))).unwrap();
    assert!(!socket.exists());
    assert_eq!(door.get("/v1/tables").unwrap().status, 200);
    let shown = "SELECT count(*) FROM listeners WHERE serves = 'programs'";
    assert_eq!(operator.value(shown).unwrap(), "1");
}

/// Tokens and passwords are in no answer, metric or line of the log.
fn no_secret_is_told(Scene { stage, door, operator }: &mut Scene) {
    let mut said = vec![stage.proxy().unwrap().log(), door.get("/metrics").unwrap().body];
    for table in ["config", "audit", "users", "listeners", "status"] {
        said.push(door.get(&format!("/v1/tables/{table}")).unwrap().body);
    }
    said.push(format!("{:?}", operator.rows("CONFIG HISTORY").unwrap()));
    let secrets = ["admin", "operator", "viewer"].map(HttpDoor::token);
    for secret in
        secrets.into_iter().chain(["operator-pw", "planted-secret-1", "nonsense-0123456789", "b3BzOm"])
    {
        assert!(said.iter().all(|text| !text.contains(secret)), "{secret}");
    }
}

fn readiness_is_that_of_the_proxy(Scene { mut stage, door, mut operator }: Scene) {
    let ready = || {
        let reply = door.send("GET", "/readyz", &[], "").unwrap();
        (reply.status, reply.json().unwrap())
    };
    let (status, body) = ready();
    assert_eq!(
        (status, &body["status"], &body["clusters"][0]["writable"]),
        (200, &json!("ready"), &json!(true))
    );
    operator.query("SET PROXY OFFLINE").unwrap();
    let (status, body) = ready();
    assert!(status == 503 && body["reasons"][0].as_str().unwrap().contains("OFFLINE"), "{body}");
    operator.query("SET PROXY ONLINE").unwrap();
    assert_eq!(ready().0, 200);
    let names: Vec<_> = operator
        .rows("SELECT name FROM backends")
        .unwrap()
        .into_iter()
        .filter_map(|row| row[0].clone())
        .collect();
    for (at, name) in names.iter().enumerate() {
        assert_eq!(ready().0, 200, "{at} of {}", names.len());
        operator.query(&format!("SET BACKEND {name} OFFLINE")).unwrap();
    }
    let (status, body) = ready();
    assert!(status == 503 && body["reasons"][0].as_str().unwrap().starts_with("cluster "), "{body}");
    for name in &names {
        operator.query(&format!("SET BACKEND {name} ONLINE")).unwrap();
    }
    until(LIMIT, "the proxy is ready again", || Ok(ready().0 == 200)).unwrap();
    // A stop waits for the transaction, and says so meanwhile.
    let mut client = stage.address.connect().unwrap();
    client.query("BEGIN").unwrap();
    client.query("SELECT * FROM door FOR UPDATE").unwrap();
    stage.proxy().unwrap().terminate().unwrap();
    until(LIMIT, "the stop is seen", || Ok(ready().0 == 503)).unwrap();
    assert!(ready().1["reasons"][0].as_str().unwrap().contains("stops"));
    assert_eq!(door.send("GET", "/healthz", &[], "").unwrap().status, 200);
    client.query("COMMIT").unwrap();
    assert!(stage.proxy().unwrap().wait(LIMIT).unwrap().success());
}
