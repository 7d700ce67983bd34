//! Foreign drivers do all that they do through the proxy before MariaDB 10.11, with TLS and without.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::OnceLock;

use delphinus_e2e::{Driver, Stage};
use delphinus_sandbox::Flavor;

/// One stage for all tests of this file; the programs keep to tables of their own.
fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| Stage::start(Flavor::MariaDb).unwrap())
}

fn check(driver: Driver, with_tls: bool) {
    if let Err(error) = driver.check(&stage().address, with_tls) {
        panic!("{error:#}");
    }
}

macro_rules! drivers {
    ($($name:ident: $driver:ident, $with_tls:literal;)+) => {$(
        #[test]
        fn $name() {
            check(Driver::$driver, $with_tls);
        }
    )+};
}

drivers! {
    pymysql: PyMySql, false;
    pymysql_tls: PyMySql, true;
    connector_python: ConnectorPure, false;
    connector_python_tls: ConnectorPure, true;
    connector_python_c_extension: ConnectorC, false;
    connector_python_c_extension_tls: ConnectorC, true;
    go_sql_driver: Go, false;
    go_sql_driver_tls: Go, true;
    node_mysql2: Node, false;
    node_mysql2_tls: Node, true;
    connector_j: Java, false;
    connector_j_tls: Java, true;
}
