//! Foreign drivers do all that they do through the proxy before MariaDB 10.11, without TLS. All combinations are run by
//! `cargo xtask e2e drivers`; TLS is the same before both products.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::OnceLock;

use delphinus_e2e::{Driver, Stage};
use delphinus_sandbox::Flavor;

/// One stage for all tests of this file; the programs keep to tables of their own.
fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| Stage::start(Flavor::MariaDb).unwrap())
}

fn check(driver: Driver) {
    if let Err(error) = driver.check(&stage().address, false) {
        panic!("{error:#}");
    }
}

macro_rules! drivers {
    ($($name:ident: $driver:ident;)+) => {$(
        #[test]
        fn $name() {
            check(Driver::$driver);
        }
    )+};
}

drivers! {
    pymysql: PyMySql;
    connector_python: ConnectorPure;
    connector_python_c_extension: ConnectorC;
    go_sql_driver: Go;
    node_mysql2: Node;
    connector_j: Java;
}
