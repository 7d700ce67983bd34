//! Statements that may change rights, and of which the proxy cannot know whether they have: everybody can run such.

use std::time::{Duration, Instant};

use delphinus_e2e::{Address, Client, ConfigFile, Login, Stage, until};

use super::rights::{LONG, RITA, code, config};
use super::{NOTICE, log_in, logins, on_primary};

/// Within so long a change that nobody could see holds for new logins.
const PAUSE: Duration = Duration::from_secs(5);

/// A procedure that runs a text of a variable, as code for pivot tables does.
const PIVOT: &str = "CREATE PROCEDURE app.pivot() \
                     BEGIN PREPARE pivot FROM @pivot; EXECUTE pivot; DEALLOCATE PREPARE pivot; END";

/// A procedure that changes rights, where only its maker may run it.
pub(super) fn make_closed(admin: &mut Client) {
    admin.query("CREATE DATABASE IF NOT EXISTS closed").unwrap();
    admin.query("DROP PROCEDURE IF EXISTS closed.grants").unwrap();
    admin.query("CREATE PROCEDURE closed.grants() GRANT PROCESS ON *.* TO app2@'%'").unwrap();
}

/// Texts that need no right.
fn unseen(stage: &Stage) -> Vec<&'static str> {
    let mut all = vec!["CALL app.pivot()"];
    if !stage.cluster.flavor.is_mysql() {
        all.extend([
            "EXECUTE IMMEDIATE CONCAT('DO', ' 1')",
            "BEGIN NOT ATOMIC IF 0 THEN DROP USER carl@'%'; END IF; END",
            "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR SQLEXCEPTION DO 0; DROP USER carl@'%'; END",
        ]);
    }
    all
}

/// The password of carl, which a backend has found right, is not asked again.
pub(super) fn it_costs_nobody_a_password(stage: &Stage) {
    let at = &stage.address;
    let mut admin = log_in(at, "admin", "adminpw").unwrap();
    make_closed(&mut admin);
    let mut bob = log_in(at, "bob", "right").unwrap();
    bob.query(PIVOT).unwrap();
    bob.query("SET @pivot = 'DO 1'").unwrap();
    log_in(at, "carl", "cpw").unwrap().quit().unwrap();
    let before = logins(stage, "carl");
    let asked = |what: &str| {
        log_in(at, "carl", "cpw").unwrap().quit().unwrap();
        assert_eq!(logins(stage, "carl") - before, 0, "{what}");
    };
    for sql in unseen(stage) {
        for _ in 0..3 {
            bob.query(sql).unwrap();
        }
        asked(sql);
    }
    assert_eq!(code(bob.query("CALL closed.grants()")), 1370);
    asked("a CALL that is refused");
    let mut login = Login::new(at);
    (login.user, login.password) = ("bob".to_owned(), "right".to_owned());
    login.allows_multi_statements = true;
    let mut bob = Client::connect(&login).unwrap();
    bob.query_all("DO 1; DROP USER carl@'%'").unwrap_err();
    asked("one of several statements that is refused");
    bob.query("DROP PROCEDURE app.pivot").unwrap();
}

fn process(at: &Address) -> u16 {
    code(log_in(at, RITA.0, RITA.1).unwrap().query("SHOW ENGINE INNODB STATUS"))
}

/// A change that the proxy cannot see, but which it knows that there may have been, however many there are.
pub(super) fn it_holds_soon(stage: &Stage) {
    // One that has seen no other change: after such, connections are made anew for replicas that follow later.
    on_primary(stage, "GRANT PROCESS ON *.* TO rita@'%'");
    let config = ConfigFile { pool: vec![LONG.to_owned()], ..config() };
    let (_proxy, at, _lease) = stage.another_proxy(&config).unwrap();
    let at = &at;
    let mut admin = log_in(at, "admin", "adminpw").unwrap();
    admin.query(PIVOT).unwrap();
    assert_eq!(process(at), 0);
    let mut run = |sql: &str| {
        admin.query(&format!("SET @pivot = \"{sql}\"")).unwrap();
        admin.query("CALL app.pivot()").unwrap();
    };
    for _ in 0..3 {
        run("DO 1");
    }
    let mut warm: Vec<_> = (0..6).map(|_| log_in(at, RITA.0, RITA.1).unwrap()).collect();
    for session in &mut warm {
        session.query("SHOW ENGINE INNODB STATUS").unwrap();
    }
    drop(warm);
    run("REVOKE PROCESS ON *.* FROM rita@'%'");
    let begun = Instant::now();
    until(NOTICE, "the right to be gone", || Ok(process(at) == 1227)).unwrap();
    // A second for a machine that is busy.
    assert!(begun.elapsed() < PAUSE + Duration::from_secs(1), "{:?}", begun.elapsed());
    admin.query("DROP PROCEDURE app.pivot").unwrap();
}
