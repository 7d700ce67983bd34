//! MySQL's private prefix, made from nothing.

use std::process::Command;
use std::time::{Duration, Instant};

use delphinus_sandbox::{MySqlPrefix, Silent};

use crate::support::temp_dir;

#[test]
fn two_installers_at_once_make_one_working_mysql() {
    let temp = temp_dir();
    let dir = temp.join("mysql");
    let prefixes = std::thread::scope(|scope| {
        let installers = [(); 2].map(|()| scope.spawn(|| MySqlPrefix::ensure_in(&dir, &Silent).unwrap()));
        installers.map(|installer| installer.join().unwrap())
    });
    for prefix in &prefixes {
        assert!(prefix.version().contains("Ver 9.7."), "{}", prefix.version());
    }
    for program in ["mysqld", "mysql", "mysqldump", "mysqlbinlog", "mysqladmin", "mysqlrouter"] {
        let said = Command::new(prefixes[0].program(program)).args(["--version"]).output().unwrap();
        assert!(said.status.success(), "{program}: {}", String::from_utf8_lossy(&said.stderr));
    }
    let began = Instant::now();
    MySqlPrefix::ensure_in(&dir, &Silent).unwrap();
    assert!(began.elapsed() < Duration::from_millis(50), "{:?}", began.elapsed());
    std::fs::remove_dir_all(&temp).unwrap();
}
