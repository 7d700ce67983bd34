//! A short run of the experiment about kept answers: hosts, wires, proxies, and that answers come from where they are said to be kept. As root.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// `$DELPHINUS_BIN`, or the binary of this workspace, built now.
fn delphinus() -> PathBuf {
    if let Some(path) = std::env::var_os("DELPHINUS_BIN") {
        return path.into();
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--package", "delphinus-cli", "--message-format=json"]);
    let said = build.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let messages = String::from_utf8(said.stdout).unwrap();
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let built = messages.filter(|message| message["target"]["name"] == "delphinus");
    built.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back().unwrap()
}

#[test]
fn answers_come_from_where_they_are_kept() {
    let file = std::env::temp_dir().join(format!("bench-cache-{}.json", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_delphinus-bench"));
    command.arg("cache").arg(format!("--delphinus={}", delphinus().display()));
    command.arg(format!("--json={}", file.display()));
    command.args(["--quick", "--flavor=mariadb", "--rows=400", "--connections=16"]);
    command.arg("--systems=direct,no-cache,beside-database,beside-clients,two-layers,echo");
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let found: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let _ = fs::remove_file(&file);
    let rows = found["rows"].as_array().unwrap();
    // Six set-ups, each asked for rows alike, for few of them, and for some more than others.
    assert_eq!((rows.len(), found["left_out"].as_array().unwrap().len()), (6 * 3, 0), "{said}");
    for row in rows {
        assert!(row["qps"].as_f64().unwrap() > 10.0, "{row}");
        // There and back: 0.2 ms each.
        let is_far = row["setup"] != "beside-clients" && row["setup"] != "two-layers";
        assert!(!is_far || row["p50_ms"].as_f64().unwrap() >= 0.4, "{row}");
        let keeps =
            ["beside-database", "beside-clients", "two-layers"].iter().any(|setup| row["setup"] == *setup);
        assert_eq!(row["hits_percent"].as_f64().is_some_and(|hits| hits > 95.0), keeps, "{row}");
        assert_eq!(row["proxy_us"].as_f64().is_some_and(|us| us > 0.5), row["setup"] != "direct", "{row}");
        assert_eq!(
            row["of_echo"].is_number(),
            row["setup"] == "beside-database" || row["setup"] == "beside-clients"
        );
    }
}

#[test]
fn a_set_up_that_does_not_exist_is_said_before_anything_is_started() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delphinus-bench"));
    let done = command.args(["cache", "--delphinus=/none", "--systems=beside"]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && said.contains("beside-database, beside-clients"), "{said}");
}
