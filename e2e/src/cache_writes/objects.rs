//! What there is to read and to write: tables, and all ways in which a write of one is a write of another.
//!
//! Each session owns the row with its number. A version counts how often it has written something; who reads that finds as many.

/// Something to read: `id` is a session, `v` how often that has written it.
pub(super) struct Object {
    /// What stands behind FROM.
    pub from: &'static str,
    /// Which count it shows.
    pub version: usize,
    /// It is made anew meanwhile, so that it may be missing.
    pub is_changed: bool,
}

/// A way to write.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one way")]
pub(super) struct Write {
    /// The statements: `{own}` is the session, `{next}` how often it has been written then.
    pub steps: &'static [&'static str],
    /// Which counts grow.
    pub versions: &'static [usize],
    /// It changes tables; session 0 does that.
    pub is_ddl: bool,
    /// Others see it before the end of its transaction.
    pub is_at_once: bool,
    /// It ends all answers, for nobody can tell what it writes.
    pub is_rare: bool,
    /// It has a transaction of its own.
    pub commits_itself: bool,
    /// Its rows stay locked if its session ends before it does.
    pub has_two_phases: bool,
}

const PLAIN: usize = 0;
const CASCADE: usize = 1;
const TRIGGER: usize = 2;
const CALLED: usize = 3;
const AT_ONCE: usize = 4;
const SEVERAL: usize = 5;
const DELETED: usize = 6;
const ALIAS: usize = 7;
const RENAMED: usize = 8;
const SWITCHED: usize = 9;
const OTHER: usize = 10;

/// How many counts there are.
pub(super) const VERSIONS: usize = 11;

const fn object(from: &'static str, version: usize) -> Object {
    Object { from, version, is_changed: false }
}

const fn changed(from: &'static str, version: usize) -> Object {
    Object { from, version, is_changed: true }
}

pub(super) static OBJECTS: &[Object] = &[
    object("cw_plain", PLAIN),
    object("cw_view", PLAIN),
    object("cw_nested", PLAIN),
    object("(SELECT id, k MOD 1000000 AS v FROM cw_child) AS x", CASCADE),
    object("(SELECT id, k MOD 1000000 AS v FROM cw_grandchild) AS x", CASCADE),
    object("cw_target", TRIGGER),
    object("cw_called", CALLED),
    object("cw_at_once", AT_ONCE),
    object("cw_one", SEVERAL),
    object("app.cw_two", SEVERAL),
    object("(SELECT w AS id, MIN(n) AS v FROM cw_orphan GROUP BY w) AS x", DELETED),
    object("(SELECT w AS id, MIN(n) AS v FROM cw_alias GROUP BY w) AS x", ALIAS),
    object("`CW_OTHER_VIEW`", OTHER),
    changed("cw_renamed", RENAMED),
    changed("cw_switch", SWITCHED),
];

const fn write(steps: &'static [&'static str], versions: &'static [usize]) -> Write {
    Write {
        steps,
        versions,
        is_ddl: false,
        is_at_once: false,
        is_rare: false,
        commits_itself: false,
        has_two_phases: false,
    }
}

pub(super) static WAYS: &[Write] = &[
    write(&["UPDATE cw_plain SET v = v + 1 WHERE id = {own}"], &[PLAIN]),
    write(
        &["UPDATE `app`.`cw_plain` AS x JOIN cw_other AS y USING (id) SET x.v = x.v + 1 WHERE y.id = {own}"],
        &[PLAIN],
    ),
    write(&["UPDATE cw_nested SET v = v + 1 WHERE id = {own}"], &[PLAIN]),
    write(&["UPDATE cw_parent SET k = k + 1 WHERE id = {own}"], &[CASCADE]),
    write(&["UPDATE cw_source SET v = v + 1 WHERE id = {own}"], &[TRIGGER]),
    Write { commits_itself: true, is_rare: true, ..write(&["CALL cw_bump({own})"], &[CALLED]) },
    Write { commits_itself: true, is_rare: true, ..write(&["SELECT cw_raise({own})"], &[CALLED]) },
    Write { commits_itself: true, is_rare: true, ..write(&["DO cw_raise({own})"], &[CALLED]) },
    Write {
        is_rare: true,
        ..write(
            &[
                "PREPARE cw_later FROM 'UPDATE cw_nested SET v = v + 1 WHERE id = {own}'",
                "EXECUTE cw_later",
                "DEALLOCATE PREPARE cw_later",
            ],
            &[PLAIN],
        )
    },
    Write {
        commits_itself: true,
        ..write(
            &[
                "BEGIN",
                "SAVEPOINT cw_before",
                "UPDATE cw_plain SET v = v + 7 WHERE id = {own}",
                "ROLLBACK TO cw_before",
                "UPDATE cw_plain SET v = v + 1 WHERE id = {own}",
                "COMMIT",
            ],
            &[PLAIN],
        )
    },
    Write {
        is_rare: true,
        commits_itself: true,
        ..write(
            &[
                "XA START 'cw{own}'",
                "UPDATE cw_one SET v = v + 1 WHERE id = {own}",
                "UPDATE cw_two SET v = v + 1 WHERE id = {own}",
                "XA END 'cw{own}'",
                "XA COMMIT 'cw{own}' ONE PHASE",
            ],
            &[SEVERAL],
        )
    },
    Write {
        is_rare: true,
        commits_itself: true,
        has_two_phases: true,
        ..write(
            &[
                "XA START 'cw{own}'",
                "UPDATE cw_source SET v = v + 1 WHERE id = {own}",
                "XA END 'cw{own}'",
                "XA PREPARE 'cw{own}'",
                "XA COMMIT 'cw{own}'",
            ],
            &[TRIGGER],
        )
    },
    // DDL commits what is open.
    Write {
        is_ddl: true,
        ..write(
            &[
                "BEGIN",
                "UPDATE cw_plain SET v = v + 1 WHERE id = {own}",
                "CREATE TABLE IF NOT EXISTS cw_unread (i INT)",
            ],
            &[PLAIN],
        )
    },
    Write { is_at_once: true, ..write(&["UPDATE cw_at_once SET v = v + 1 WHERE id = {own}"], &[AT_ONCE]) },
    write(
        &["UPDATE cw_one SET v = v + 1 WHERE id = {own}; UPDATE cw_two SET v = v + 1 WHERE id = {own}"],
        &[SEVERAL],
    ),
    Write {
        commits_itself: true,
        ..write(
            &[
                "BEGIN; UPDATE cw_one SET v = v + 1 WHERE id = {own}; UPDATE cw_two SET v = v + 1 WHERE id = {own}; COMMIT",
            ],
            &[SEVERAL],
        )
    },
    write(
        &[
            "INSERT IGNORE INTO cw_owner (w, n) VALUES ({own}, {next})",
            "INSERT IGNORE INTO cw_orphan (w, n) VALUES ({own}, {next})",
            "DELETE FROM cw_owner WHERE w = {own} AND n < {next}",
        ],
        &[DELETED],
    ),
    write(
        &[
            "INSERT IGNORE INTO cw_alias (w, n) VALUES ({own}, {next})",
            "DELETE FROM y USING cw_alias AS y WHERE y.w = {own} AND y.n < {next}",
        ],
        &[ALIAS],
    ),
    write(&["INSERT INTO cw_other (id, v) VALUES ({own}, 1) ON DUPLICATE KEY UPDATE v = v + 1"], &[OTHER]),
    // The file's name is its content.
    write(
        &[
            "LOAD DATA LOCAL INFILE '{own}:{next}' REPLACE INTO TABLE cw_other FIELDS TERMINATED BY ':' (id, v)",
        ],
        &[OTHER],
    ),
    write(
        &["SET autocommit = 0", "UPDATE cw_other SET v = v + 1 WHERE id = {own}", "SET autocommit = 1"],
        &[OTHER],
    ),
    Write {
        is_ddl: true,
        ..write(
            &[
                "UPDATE cw_spare SET v = {next}",
                "RENAME TABLE cw_renamed TO cw_away, cw_spare TO cw_renamed, cw_away TO cw_spare",
            ],
            &[RENAMED],
        )
    },
    Write {
        is_ddl: true,
        ..write(
            &["CREATE OR REPLACE VIEW cw_switch AS SELECT 0 AS id, {next} AS v FROM cw_plain WHERE id = 0"],
            &[SWITCHED],
        )
    },
    // From now on a write of one is a write of the other, and then it is not any more.
    Write {
        is_ddl: true,
        ..write(
            &[
                "DROP TRIGGER IF EXISTS cw_late",
                "CREATE TRIGGER cw_late AFTER UPDATE ON cw_late_source FOR EACH ROW \
                 UPDATE cw_other SET v = v + 1 WHERE id = NEW.id",
                "UPDATE cw_late_source SET v = v + 1 WHERE id = {own}",
            ],
            &[OTHER],
        )
    },
];

/// The statements of a write.
pub(super) fn steps(write: &Write, own: usize, next: u64) -> Vec<String> {
    let fill = |sql: &&str| sql.replace("{own}", &own.to_string()).replace("{next}", &next.to_string());
    write.steps.iter().map(fill).collect()
}

/// What a run before on the same servers may have left, beside what `table` makes. A table goes before the one that it refers to.
const LEFT: [&str; 4] = [
    "DROP VIEW IF EXISTS cw_stamp, cw_view, cw_nested, CW_OTHER_VIEW, cw_switch",
    "DROP TABLE IF EXISTS cw_grandchild, cw_child, cw_parent, cw_orphan, cw_owner, cw_alias, cw_renamed, cw_spare, \
     cw_unread",
    "DROP FUNCTION IF EXISTS cw_raise",
    "DROP PROCEDURE IF EXISTS cw_bump",
];

/// What makes all of it, for so many sessions.
pub(super) fn statements(sessions: usize) -> Vec<String> {
    let mut all = Vec::from(LEFT.map(str::to_owned));
    all.extend(
        ["cw_plain", "cw_source", "cw_target", "cw_called", "cw_one", "cw_two", "cw_other", "cw_late_source"]
            .iter()
            .flat_map(|name| table(name, "InnoDB", sessions)),
    );
    all.extend(table("cw_at_once", "MyISAM", sessions));
    let keys: Vec<String> = (0..sessions).map(|id| format!("({id}, {})", id * 1_000_000)).collect();
    for (name, of) in
        [("cw_parent", None), ("cw_child", Some("cw_parent")), ("cw_grandchild", Some("cw_child"))]
    {
        let key = of.map_or(String::new(), |of| {
            format!(", FOREIGN KEY (k) REFERENCES {of} (k) ON UPDATE CASCADE ON DELETE CASCADE")
        });
        all.push(format!(
            "CREATE TABLE {name} (id INT PRIMARY KEY, k BIGINT NOT NULL, UNIQUE KEY (k){key}) ENGINE=InnoDB"
        ));
        all.push(format!("INSERT INTO {name} VALUES {}", keys.join(", ")));
    }
    let none: Vec<String> = (0..sessions).map(|id| format!("({id}, 0)")).collect();
    for (name, key) in [
        ("cw_owner", ""),
        ("cw_orphan", ", FOREIGN KEY (w, n) REFERENCES cw_owner (w, n) ON DELETE CASCADE"),
        ("cw_alias", ""),
    ] {
        all.push(format!("CREATE TABLE {name} (w INT, n INT, PRIMARY KEY (w, n){key}) ENGINE=InnoDB"));
        all.push(format!("INSERT INTO {name} VALUES {}", none.join(", ")));
    }
    for sql in [
        "CREATE VIEW cw_stamp AS SELECT UUID() AS u",
        "CREATE VIEW cw_view AS SELECT id, v FROM cw_plain",
        "CREATE VIEW cw_nested AS SELECT id, v FROM cw_view",
        "CREATE VIEW CW_OTHER_VIEW AS SELECT id, v FROM cw_other",
        "CREATE VIEW cw_switch AS SELECT 0 AS id, 0 AS v FROM cw_plain WHERE id = 0",
        "CREATE TABLE cw_renamed (id INT PRIMARY KEY, v INT NOT NULL) ENGINE=InnoDB",
        "INSERT INTO cw_renamed VALUES (0, 0)",
        "CREATE TABLE cw_spare (id INT PRIMARY KEY, v INT NOT NULL) ENGINE=InnoDB",
        "INSERT INTO cw_spare VALUES (0, 0)",
        "CREATE TRIGGER cw_follow AFTER UPDATE ON cw_source FOR EACH ROW \
         UPDATE cw_target SET v = NEW.v, n = 'it''s so' WHERE id = NEW.id",
        "CREATE FUNCTION cw_raise(own INT) RETURNS INT \
         BEGIN UPDATE cw_called SET v = v + 1 WHERE id = own; RETURN own; END",
        "CREATE PROCEDURE cw_bump(own INT) UPDATE cw_called SET v = v + 1 WHERE id = own",
    ] {
        all.push(sql.to_owned());
    }
    all
}

fn table(name: &str, engine: &str, sessions: usize) -> [String; 3] {
    let rows: Vec<String> = (0..sessions).map(|id| format!("({id}, 0, '')")).collect();
    [
        format!("DROP TABLE IF EXISTS {name}"),
        format!(
            "CREATE TABLE {name} (id INT PRIMARY KEY, v INT NOT NULL, n VARCHAR(20) NOT NULL DEFAULT '') ENGINE={engine}"
        ),
        format!("INSERT INTO {name} VALUES {}", rows.join(", ")),
    ]
}
