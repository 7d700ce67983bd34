//! A new login has the rights that the servers give it now, though connections are shared.

use std::time::{Duration, Instant};

use delphinus_e2e::{Address, Client, ConfigFile, Login, ServerError, Stage, eventually, until};

use super::{NOTICE, create, log_in, logins, on_primary, unseen};

/// The user whose rights change; the proxy has its password in the file, so that only connections ask the server.
pub(super) const RITA: (&str, &str) = ("rita", "ritapw");

/// What a proxy is told that sees every change: its connections would be shared for a day.
pub(super) const LONG: &str = "rights_max_age_ms = 86400000";
/// How soon another one has to notice what passes it by.
const AGE: Duration = Duration::from_secs(1);

fn rita(at: &Address) -> Client {
    log_in(at, RITA.0, RITA.1).expect("its password is in the file")
}

fn admin(at: &Address) -> Client {
    let mut login = Login::new(at);
    (login.user, login.password) = ("admin".to_owned(), "adminpw".to_owned());
    login.allows_multi_statements = true;
    Client::connect(&login).unwrap()
}

pub(super) fn code(result: anyhow::Result<impl Sized>) -> u16 {
    result.map_or_else(|error| error.downcast::<ServerError>().unwrap().code, |_| 0)
}

/// What a new login gets to hear; 0 if it may. On the primary.
fn locking(at: &Address) -> u16 {
    code(rita(at).query("SELECT id FROM app.customers LIMIT 1 FOR UPDATE"))
}

/// A right on everything, which servers look up at the login only.
fn process(at: &Address) -> u16 {
    code(rita(at).query("SHOW ENGINE INNODB STATUS"))
}

/// Leaves idle connections in each of the two workers, so many that a login finds one though the session before has not ended.
fn warm(at: &Address) {
    let mut sessions: Vec<_> = (0..6).map(|_| rita(at)).collect();
    for session in &mut sessions {
        // Whether it may is not asked here.
        let _ = session.query("SHOW ENGINE INNODB STATUS");
    }
}

/// How a statement can come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Text,
    Prepared,
    InSql,
    Multi,
    Procedure,
    Immediate,
    ImmediateVariable,
    ImmediateUnknown,
    Compound,
}

const EVERYWHERE: [Way; 5] = [Way::Text, Way::Prepared, Way::InSql, Way::Multi, Way::Procedure];
const MARIADB: [Way; 4] = [Way::Immediate, Way::ImmediateVariable, Way::ImmediateUnknown, Way::Compound];

fn run(admin: &mut Client, way: Way, sql: &str) {
    let quoted = sql.replace('\'', "''");
    let done = match way {
        Way::Text => admin.query(sql).map(drop),
        Way::Prepared => admin.prepare(sql).and_then(|id| admin.execute(id)).map(drop),
        Way::InSql => admin
            .query(&format!("PREPARE s FROM '{quoted}'"))
            .and_then(|_| admin.query("EXECUTE s"))
            .map(drop),
        Way::Multi => admin.query_all(&format!("DO 1; {sql}; DO 2")).map(drop),
        Way::Procedure => {
            admin.query("DROP PROCEDURE IF EXISTS app.changes").unwrap();
            admin.query(&format!("CREATE PROCEDURE app.changes() BEGIN {sql}; END")).unwrap();
            admin.query("CALL app.changes()").map(drop)
        }
        Way::Immediate => admin.query(&format!("EXECUTE IMMEDIATE '{quoted}'")).map(drop),
        Way::ImmediateVariable => {
            admin.query(&format!("SET @s = '{quoted}'")).unwrap();
            admin.query("EXECUTE IMMEDIATE @s").map(drop)
        }
        Way::ImmediateUnknown => admin.query(&format!("EXECUTE IMMEDIATE CONCAT('{quoted}', ' ')")).map(drop),
        Way::Compound => admin.query(&format!("BEGIN NOT ATOMIC {sql}; END")).map(drop),
    };
    done.unwrap_or_else(|error| panic!("{way:?} {sql}: {error:#}"));
}

pub(super) fn what_passes_holds_for_the_next_login(stage: &Stage) {
    let at = &stage.address;
    let mut admin = admin(at);
    let ways = if stage.cluster.flavor.is_mysql() { &[][..] } else { &MARIADB[..] };
    for way in EVERYWHERE.iter().chain(ways) {
        warm(at);
        run(&mut admin, *way, "GRANT PROCESS ON *.* TO rita@'%'");
        assert_eq!(process(at), 0, "granted, {way:?}");
        warm(at);
        let mut running = rita(at);
        running.query("SHOW ENGINE INNODB STATUS").unwrap();
        run(&mut admin, *way, "REVOKE PROCESS ON *.* FROM rita@'%'");
        assert_eq!(process(at), 1227, "revoked, {way:?}");
        running.query("SHOW ENGINE INNODB STATUS").expect("as in a session that goes on at a server");
        let mut login = Login::new(at);
        (login.user, login.password) = (RITA.0.to_owned(), RITA.1.to_owned());
        running.change_user(&login).unwrap();
        assert_eq!(
            code(running.query("SHOW ENGINE INNODB STATUS")),
            1227,
            "another login of the same client"
        );
    }
    part_of_a_text(at);
    warm(at);
    admin.query("ALTER USER rita@'%' ACCOUNT LOCK").unwrap();
    assert!(matches!(locking(at), 3118 | 4151), "locked: {}", locking(at));
    admin.query("ALTER USER rita@'%' ACCOUNT UNLOCK").unwrap();
    assert_eq!(locking(at), 0, "unlocked");
    warm(at);
    admin.query("ALTER USER rita@'%' PASSWORD EXPIRE").unwrap();
    assert!(matches!(locking(at), 1820 | 1862), "expired: {}", locking(at));
    admin.query("ALTER USER rita@'%' IDENTIFIED BY 'ritapw'").unwrap();
    assert_eq!(locking(at), 0, "a new password");
    warm(at);
    run(&mut admin, Way::Multi, "DROP USER rita@'%'; CREATE USER rita@'%' IDENTIFIED BY 'ritapw'");
    assert_eq!(locking(at), 1142, "another account of the same name");
    admin.query("GRANT ALL ON app.* TO rita@'%'").unwrap();
    assert_eq!(locking(at), 0);
}

/// Which sessions began with it can be told.
const LENGTH: &str = "/*+ delphinus(primary) */ SELECT @@group_concat_max_len";

fn length(client: &mut Client) -> u32 {
    client.value(LENGTH).unwrap().parse().unwrap()
}

pub(super) fn what_is_set_for_all_holds_for_the_next_login(stage: &Stage) {
    let at = &stage.address;
    let mut admin = admin(at);
    let ways = if stage.cluster.flavor.is_mysql() { &[][..] } else { &MARIADB[..] };
    let mut before = length(&mut rita(at));
    for (number, way) in (2000..).zip(EVERYWHERE.iter().chain(ways)) {
        warm(at);
        let mut running = rita(at);
        assert_eq!(length(&mut running), before, "{way:?}");
        run(&mut admin, *way, &format!("SET GLOBAL group_concat_max_len = {number}"));
        assert_eq!(length(&mut rita(at)), number, "{way:?}");
        assert_eq!(length(&mut running), before, "a session that runs, {way:?}");
        before = number;
    }
    for (sql, number) in [
        ("SET @@global.group_concat_max_len = 3000", 3000),
        ("SET @x = 1, GLOBAL group_concat_max_len = 3001, wait_timeout = 28000", 3001),
        ("SET SESSION group_concat_max_len = 5, GLOBAL group_concat_max_len = 3002", 3002),
        ("SET PERSIST group_concat_max_len = 3003", 3003),
        ("SET GLOBAL group_concat_max_len = DEFAULT", 0),
    ] {
        if sql.contains("PERSIST") && !stage.cluster.flavor.is_mysql() {
            continue;
        }
        warm(at);
        admin.query(sql).unwrap();
        let found = length(&mut rita(at));
        assert!(found == number || number == 0 && !(2000..4000).contains(&found), "{sql}: {found}");
    }
    admin.query("SET GLOBAL wait_timeout = DEFAULT").unwrap();
    if stage.cluster.flavor.is_mysql() {
        admin.query("RESET PERSIST").unwrap();
    }
}

/// One connection for everybody: each session has the variables of its own login on it.
pub(super) fn sessions_keep_what_they_began_with(stage: &Stage) {
    let lines = ["max_connections = 1".to_owned(), LONG.to_owned()];
    let config = ConfigFile { pool: lines.to_vec(), proxy: vec!["workers = 1".to_owned()], ..config() };
    let (_proxy, at, _lease) = stage.another_proxy(&config).unwrap();
    let mode = "/*+ delphinus(primary) */ SELECT CONCAT_WS('|', @@sql_mode, @@group_concat_max_len, \
                @@session.time_zone, @@wait_timeout)";
    let read = |client: &mut Client| client.value(mode).unwrap();
    let mut admin = admin(&at);
    let [mut first, mut idle] = [rita(&at), rita(&at)];
    let at_first = read(&mut first);
    admin.query("SET GLOBAL sql_mode = 'ANSI_QUOTES', GLOBAL group_concat_max_len = 4000").unwrap();
    let mut second = rita(&at);
    let at_second = read(&mut second);
    assert!(at_second.starts_with("ANSI_QUOTES|4000|"), "{at_second}");
    admin.query("SET GLOBAL sql_mode = 'PIPES_AS_CONCAT'").unwrap();
    admin.query("SET GLOBAL time_zone = '+03:00', wait_timeout = 1000").unwrap();
    let mut third = rita(&at);
    let at_third = read(&mut third);
    assert!(at_third.starts_with("PIPES_AS_CONCAT|4000|+03:00|1000"), "{at_third}");
    for _ in 0..2 {
        assert_eq!(read(&mut first), at_first);
        assert_eq!(read(&mut third), at_third);
        assert_eq!(read(&mut idle), at_first, "it had no connection before");
        assert_eq!(read(&mut second), at_second);
    }
    first.query("SET sql_mode = DEFAULT").unwrap();
    assert!(read(&mut first).starts_with("PIPES_AS_CONCAT|"), "as it asks for");
    idle.command(31, &[]).unwrap();
    assert_eq!(read(&mut idle), at_third, "as a new login");
    admin
        .query(
            "SET GLOBAL sql_mode = DEFAULT, group_concat_max_len = DEFAULT, time_zone = DEFAULT, \
             wait_timeout = DEFAULT",
        )
        .unwrap();
    let mut last = rita(&at);
    assert_eq!(read(&mut last), at_first);
    assert_eq!(read(&mut second), at_second);
}

/// Of several statements in one text the client is told of each when it has run.
fn part_of_a_text(at: &Address) {
    let mut admin = admin(at);
    admin.query("GRANT PROCESS ON *.* TO rita@'%'").unwrap();
    warm(at);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            admin.query_all("REVOKE PROCESS ON *.* FROM rita@'%'; DO SLEEP(3)").unwrap();
        });
        until(NOTICE, "the first part to hold", || Ok(process(at) == 1227)).unwrap();
        assert!(begun.elapsed() < Duration::from_millis(2900), "before the text has ended");
    });
}

/// One connection for everybody: who may not use it gets its place.
pub(super) fn a_full_pool_makes_room(stage: &Stage) {
    let age = Duration::from_millis(500);
    let lines = ["max_connections = 1".to_owned(), format!("rights_max_age_ms = {}", age.as_millis())];
    let config = ConfigFile { pool: lines.to_vec(), proxy: vec!["workers = 1".to_owned()], ..config() };
    let (_proxy, at, _lease) = stage.another_proxy(&config).unwrap();
    let mut running = rita(&at);
    assert_eq!(code(running.query("SHOW ENGINE INNODB STATUS")), 1227);
    on_primary(stage, "GRANT PROCESS ON *.* TO rita@'%'");
    until(NOTICE, "the place of an idle one to be taken", || Ok(process(&at) == 0)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            running.query("SELECT id, SLEEP(3) FROM app.customers WHERE id = 1 FOR UPDATE").unwrap()
        });
        let runs = "SELECT COUNT(*) FROM information_schema.processlist WHERE user='rita' AND info LIKE '%SLEEP(3)%'";
        until(NOTICE, "it to run", || Ok(stage.cluster.servers[0].query(runs)?.trim() == "1")).unwrap();
        on_primary(stage, "REVOKE PROCESS ON *.* FROM rita@'%'");
        std::thread::sleep(age * 2);
        assert_eq!(process(&at), 1227, "in the place of one that comes back");
    });
}

/// Connections that are kept open for a user are of the epoch that its next login needs.
pub(super) fn connections_in_advance_are_new(stage: &Stage) {
    create(stage, "kept", "keptpw");
    let kept = "[[user]]\nname = \"kept\"\npassword = \"keptpw\"\nmin_backend_connections = 2\n";
    let pool = vec![format!("rights_max_age_ms = {}", AGE.as_millis())];
    let _proxy = stage.another_proxy(&ConfigFile { pool, ..ConfigFile::with_sections(kept) }).unwrap();
    let list = "SELECT id FROM information_schema.processlist WHERE user='kept'";
    let open = || {
        stage.cluster.servers[0].query(list).map(|ids| ids.split_whitespace().map(str::to_owned).collect())
    };
    let enough = |ids: &Vec<String>| ids.len() >= 2;
    let first: Vec<String> = eventually(NOTICE, "connections", || Ok(Some(open()?).filter(enough))).unwrap();
    until(NOTICE, "the first ones to be replaced", || {
        let ids: Vec<String> = open()?;
        assert!(enough(&ids), "others are there first: {ids:?}");
        Ok(!ids.iter().any(|id| first.contains(id)))
    })
    .unwrap();
}

/// Also statements that have failed.
pub(super) fn what_has_failed_may_have_been_done(stage: &Stage) {
    if stage.cluster.flavor.is_mysql() {
        return;
    }
    let at = &stage.address;
    warm(at);
    assert_eq!(admin(at).error("DROP USER rita@'%', missing@'%'").unwrap().code, 1396);
    assert_eq!(locking(at), 1045, "dropped, whatever the error said");
    create(stage, RITA.0, RITA.1);
    admin(at).query("FLUSH PRIVILEGES").unwrap();
    assert_eq!(locking(at), 0);
}

/// New backend connections of rita while others do that.
fn connects(stage: &Stage, at: &Address, does: &mut dyn FnMut()) -> u32 {
    warm(at);
    let before = logins(stage, RITA.0);
    does();
    warm(at);
    logins(stage, RITA.0) - before
}

pub(super) fn what_changes_nothing_costs_nothing(stage: &Stage) {
    // One that has not seen a change: after one, connections are made anew for replicas that follow later, too.
    let (_proxy, at, _lease) =
        stage.another_proxy(&ConfigFile { pool: vec![LONG.to_owned()], ..config() }).unwrap();
    let (at, connects) = (&at, |does: &mut dyn FnMut()| connects(stage, &at, does));
    let idle = connects(&mut || (0..40).for_each(|_| assert_eq!(locking(at), 0)));
    assert_eq!(idle, 0, "logins share connections");
    let mut other = log_in(at, "app2", "app2pw").unwrap();
    unseen::make_closed(&mut admin(at));
    let refused = connects(&mut || {
        let mut caller = log_in(at, "app2", "app2pw").unwrap();
        assert_eq!(caller.error("CALL closed.grants()").unwrap().code, 1370);
        if !stage.cluster.flavor.is_mysql() {
            caller.query("EXECUTE IMMEDIATE CONCAT('DO', ' 1')").unwrap();
        }
        for sql in [
            "ALTER USER rita@'%' ACCOUNT LOCK",
            "DROP USER rita@'%'",
            "CREATE USER somebody@'%'",
            "GRANT SELECT ON app.* TO rita@'%'",
            "REVOKE ALL PRIVILEGES ON app.* FROM rita@'%'",
            "FLUSH PRIVILEGES",
            "GRANT NONSENSE",
            "SET GLOBAL default_password_lifetime = 1",
        ] {
            let code = other.error(sql).unwrap().code;
            assert!([1044, 1045, 1064, 1142, 1227].contains(&code), "{sql}: {code}");
            let id = other.prepare(sql);
            assert!(id.and_then(|id| other.execute(id)).is_err(), "{sql}");
        }
    });
    assert_eq!(refused, 0, "nothing was done");
    let mut admin = admin(at);
    let flushed = connects(&mut || drop(admin.query("FLUSH TABLES").unwrap()));
    assert_eq!(flushed, 0, "FLUSH of something else");
    let own = connects(&mut || {
        let set = if stage.cluster.flavor.is_mysql() { "'app2pw'" } else { "PASSWORD('app2pw')" };
        other.query(&format!("SET PASSWORD = {set}")).unwrap();
        other.query(&format!("SET PASSWORD FOR app2@'%' = {set}")).unwrap();
    });
    assert_eq!(own, 0, "what others do to themselves");
    let own = connects(&mut || {
        admin.query("SET @a = @@global.sql_mode, SESSION sql_mode = DEFAULT").unwrap();
        for sql in ["SET GLOBAL no_such_variable = 1", "SET GLOBAL sql_mode = 'x'", "SET GLOBAL version = 1"]
        {
            admin.error(sql).unwrap();
        }
    });
    assert_eq!(own, 0, "nothing that others begin with");
    // MySQL 9 does not know COM_REFRESH.
    let flushed = connects(&mut || _ = admin.command(7, &[1]));
    assert_eq!(flushed > 0, !stage.cluster.flavor.is_mysql(), "COM_REFRESH of the grants");
    let flushed = connects(&mut || drop(admin.query("FLUSH PRIVILEGES").unwrap()));
    assert!(flushed > 0);
}

/// A kept answer is one to a question with these rights.
pub(super) fn no_answer_outlives_its_rights(stage: &Stage) {
    let at = &stage.address;
    let mut admin = admin(at);
    let sql = "/*+ delphinus(primary, cache_ttl=3600000) */ SELECT COUNT(*) FROM app.customers";
    let mut before = rita(at);
    for _ in 0..3 {
        before.value(sql).unwrap();
        rita(at).value(sql).unwrap();
    }
    admin.query("REVOKE ALL PRIVILEGES ON app.* FROM rita@'%'").unwrap();
    assert_eq!(code(rita(at).query(sql)), 1142, "a new login");
    assert_eq!(code(before.query(sql)), 1142, "servers look these rights up for each statement");
    admin.query("GRANT ALL ON app.* TO rita@'%'").unwrap();
    // What only the old connection may see, it does not show to others.
    admin.query("CREATE TABLE IF NOT EXISTS sbtest.secrets (a INT)").unwrap();
    admin.query("GRANT SELECT ON *.* TO rita@'%'").unwrap();
    let sql = "/*+ delphinus(primary, cache_ttl=3600000) */ SELECT COUNT(*) FROM sbtest.secrets";
    let mut before = rita(at);
    before.value(sql).unwrap();
    admin.query("REVOKE SELECT ON *.* FROM rita@'%'").unwrap();
    before.value(sql).expect("as in a session that goes on at a server");
    assert_eq!(code(rita(at).query(sql)), 1142, "what was kept for another");
}

/// Done straight at the primary: this proxy hears nothing of it.
pub(super) fn what_passes_by_is_noticed_soon(stage: &Stage) {
    let age = format!("rights_max_age_ms = {}", AGE.as_millis());
    let config = ConfigFile { pool: vec![age], ..config() };
    let (_proxy, at, _lease) = stage.another_proxy(&config).unwrap();
    let noticed = |sql: &str, is_there: &dyn Fn() -> bool| {
        warm(&at);
        on_primary(stage, sql);
        let done = Instant::now();
        until(NOTICE, sql, || Ok(is_there())).unwrap();
        // Some time for a machine that is busy.
        assert!(done.elapsed() < AGE + Duration::from_secs(2), "{sql}: {:?}", done.elapsed());
    };
    noticed("GRANT PROCESS ON *.* TO rita@'%'", &|| process(&at) == 0);
    noticed("REVOKE PROCESS ON *.* FROM rita@'%'", &|| process(&at) == 1227);
    noticed("ALTER USER rita@'%' ACCOUNT LOCK", &|| matches!(locking(&at), 3118 | 4151));
    noticed("ALTER USER rita@'%' ACCOUNT UNLOCK", &|| locking(&at) == 0);
    noticed("ALTER USER rita@'%' PASSWORD EXPIRE", &|| matches!(locking(&at), 1820 | 1862));
    noticed("ALTER USER rita@'%' IDENTIFIED BY 'ritapw'", &|| locking(&at) == 0);
    noticed("DROP USER rita@'%'", &|| locking(&at) == 1045);
    create(stage, RITA.0, RITA.1);
    noticed("FLUSH PRIVILEGES", &|| locking(&at) == 0);
    // Between two epochs connections are shared: so many logins as workers and epochs, not as sessions.
    warm(&at);
    let (before, begun) = (logins(stage, RITA.0), Instant::now());
    let mut sessions = 0_u32;
    while begun.elapsed() < AGE * 3 {
        assert_eq!(locking(&at), 0);
        sessions += 1;
    }
    let made = logins(stage, RITA.0) - before;
    assert!((2..=12).contains(&made) && made < sessions, "{made} logins for {sessions} sessions");
}

/// With this user in the file, and everybody else as the primary knows them.
pub(super) fn config() -> ConfigFile {
    ConfigFile {
        users: vec![(RITA.0.to_owned(), RITA.1.to_owned())],
        ..ConfigFile::with_sections(super::FORGETFUL)
    }
}
