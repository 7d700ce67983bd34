//! Statements that change code in the database, and run it, while the proxy's reading of such code does not come to its end: none of
//! them waits for that.

use std::time::{Duration, Instant};

use delphinus_e2e::{ConfigFile, Relay, Stage};
use delphinus_sandbox::Flavor;
use delphinus_testkit::Client;

use super::{NOTICE, connect};

/// How long a statement may take on a busy machine. The reading takes longer than the whole test.
const PATIENCE: Duration = Duration::from_secs(30);

/// A wait that gives up by itself shows in the sum: this is a ninth of a second for each of the 90 statements.
const SLACK: Duration = Duration::from_secs(10);

pub(crate) fn no_statement_waits(stage: &Stage) {
    let primary = &stage.cluster.servers[0];
    let relay = Relay::start(&stage.cluster.dir().join("unread"), &primary.socket).unwrap();
    let config = ConfigFile {
        // The monitor gives a reading up after ten times as long.
        monitor: vec!["interval_ms = 200".to_owned(), "timeout_ms = 600000".to_owned()],
        only_primary_at: Some(relay.path.clone()),
        ..ConfigFile::default()
    };
    let (proxy, address, _port) = stage.another_proxy(&config).unwrap();
    let mut client = address.login().patience(PATIENCE).connect().unwrap();
    // Statements wait for the first reading, and for that only.
    client.run("CALL app.p_harmless()").unwrap();
    let reading: &[u8] = match stage.cluster.flavor {
        Flavor::MariaDb => b"FROM mysql.proc",
        Flavor::MySql | Flavor::Group => b"FROM information_schema.ROUTINES",
    };
    relay.hold_on(reading);
    // It is read anew because of this, and not to the end.
    client.run("CREATE OR REPLACE VIEW app.unread_view AS SELECT 'first' AS a").unwrap();
    relay.wait_until_held(NOTICE).unwrap();

    let through = change_and_run(&mut client);
    let log = proxy.log();
    assert!(!log.contains("stored routines cannot be read"), "the reading was to go on all the time:\n{log}");
    let direct = change_and_run(&mut stage.primary_address().login().connect().unwrap());
    assert!(through <= direct * 10 + SLACK, "{through:?} through the proxy, {direct:?} at the server");
    connect(stage).run("DROP PROCEDURE app.unread").unwrap();
    connect(stage).run("DROP VIEW app.unread_view").unwrap();
}

/// How long that takes. Each answer is that of the code which was made last.
fn change_and_run(client: &mut Client) -> Duration {
    let began = Instant::now();
    for round in 0..60 {
        client.run("DROP PROCEDURE IF EXISTS app.unread").unwrap();
        client.run(format!("CREATE PROCEDURE app.unread() SELECT {round}")).unwrap();
        assert_eq!(cell(client, "CALL app.unread()"), round.to_string());
    }
    for round in 0..30 {
        client.run(format!("CREATE OR REPLACE VIEW app.unread_view AS SELECT {round} AS a")).unwrap();
        assert_eq!(cell(client, "SELECT a FROM app.unread_view"), round.to_string());
    }
    began.elapsed()
}

/// The first column of the first row of the first answer.
fn cell(client: &mut Client, sql: &str) -> String {
    let rows = client.run(sql).unwrap().remove(0).rows().unwrap();
    String::from_utf8_lossy(rows[0][0].as_deref().unwrap()).into_owned()
}
