//! A short run of the real thing: servers, two systems, one workload, and all files that it can write.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
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

/// A folder that is gone with the test.
struct TemporaryFolder(PathBuf);

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn bench(folder: &Path, more: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delphinus-bench"));
    command.arg(format!("--delphinus={}", delphinus().display())).args(more);
    for option in ["json", "plot", "docs"] {
        let name = if option == "docs" { String::new() } else { format!("result.{option}") };
        command.arg(format!("--{option}={}", folder.join(name).display()));
    }
    let done = command.output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    (done.status.success(), text)
}

#[test]
fn a_quick_run_measures_and_writes_everything() {
    let folder = TemporaryFolder(std::env::temp_dir().join(format!("bench-{}", std::process::id())));
    fs::create_dir(&folder.0).unwrap();
    // MySQL Router cannot stand before MariaDB: the run has to say so and go on.
    let options = ["--quick", "--flavor=mariadb", "--systems=direct,relay,router-ro,delphinus", "--rounds=2"];
    let names = [
        "point-select-text",
        "sysbench-point-select-text",
        "read-write-prepared",
        "transactions-prepared",
        "connect",
    ];
    let only = names.map(|name| format!("--only={name}"));
    let only: Vec<&str> = only.iter().map(String::as_str).chain(["--write-docs"]).collect();
    let (is_success, said) = bench(&folder.0, &[&options[..], &only].concat());
    assert!(is_success, "{said}");
    assert!(said.contains("router-ro (every workload): MySQL Router works with MySQL only"), "{said}");
    let list: Value =
        serde_json::from_str(&fs::read_to_string(folder.0.join("result.json")).unwrap()).unwrap();
    let list = list.as_array().unwrap();
    // Point selects with two numbers of connections, and one by sysbench; then what the relay is not for.
    assert_eq!(list.len(), 3 * 3 + 3 * 2, "{said}");
    for row in list {
        assert!(row["qps"].as_f64().unwrap() > 10.0, "{row}");
        assert!(row["p50_ms"].as_f64().unwrap() <= row["p99_ms"].as_f64().unwrap(), "{row}");
        let has_transactions = row["workload"] == "transactions-prepared";
        let is_sysbench = has_transactions || row["workload"] == "sysbench-point-select-text";
        assert_eq!(row["rounds"], if is_sysbench { 1 } else { 2 }, "{row}");
        // A transaction has twenty statements; of those that had begun or not ended, fewer or more are counted.
        let statements = row["transactions_per_s"].as_f64().map(|rate| row["qps"].as_f64().unwrap() / rate);
        assert_eq!(statements.is_some_and(|count| count > 5.0), has_transactions, "{row}");
        let is_proxy = row["system"] != "direct";
        assert_eq!(row["cpu_us_per_query"].as_f64().is_some_and(|cpu| cpu > 1.0), is_proxy, "{row}");
        assert_eq!(row["rss_kib"].as_f64().is_some_and(|kib| kib > 1000.0), is_proxy, "{row}");
        assert!(row["ratio_to_direct"]["qps"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert!(fs::read_to_string(folder.0.join("result.plot")).unwrap().ends_with("</svg>\n"));
    assert!(fs::read_to_string(folder.0.join("bench.svg")).unwrap().contains("point-select-text"));
    let page = fs::read_to_string(folder.0.join("bench.md")).unwrap();
    assert!(page.contains("a quick run, not the figures to quote, at most 2 rounds"), "{page}");
    assert!(page.contains("### `connect`, 16 connections"), "{page}");
    assert!(page.contains("| transactions/s | of haproxy | of direct |"), "{page}");
}

#[test]
fn a_name_that_does_not_exist_is_said_before_anything_is_started() {
    let (is_success, said) = bench(&std::env::temp_dir(), &["--only=point-selects"]);
    assert!(!is_success && said.contains("point-select-text, point-select-prepared"), "{said}");
    let (is_success, said) = bench(&std::env::temp_dir(), &["--systems=router"]);
    assert!(!is_success && said.contains("router-split"), "{said}");
}
