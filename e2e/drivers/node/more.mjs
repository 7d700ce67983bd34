// More of mysql2, where its own tests are not to be had: what its users do with results, parameters, pools and errors.
// Runs only where a read sees every write before it, that is, without replicas.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import mysql from "mysql2/promise";
import { check, connect, env, expectError, one, prefix, settings, using } from "./checks.mjs";

const table = (name) => `${prefix}_more_${name}`;
const BOTH = ["query", "execute"];

/** A connection and a table of these columns, which is gone afterwards. */
const withTable = (name, columns, body, changes = {}) => using(changes, async (connection) => {
  await connection.query(`CREATE TABLE ${table(name)} (${columns})`);
  try {
    return await body(connection, table(name));
  } finally {
    await connection.query(`DROP TABLE IF EXISTS ${table(name)}`);
  }
});

const shapes = {
  rows_as_arrays: async (method) => using({}, async (connection) => {
    const [rows, fields] = await connection[method]({ sql: "SELECT 1 AS a, 'x' AS a, NULL AS b", rowsAsArray: true });
    assert.deepEqual(rows, [[1, "x", null]]);
    assert.deepEqual(fields.map((field) => field.name), ["a", "a", "b"]);
  }),
  nested_tables: async (method) => withTable("nest", "id INT", async (connection, name) => {
    await connection.query(`INSERT INTO ${name} VALUES (1)`);
    const [rows] = await connection[method]({ sql: `SELECT l.id, r.id FROM ${name} l, ${name} r`, nestTables: true });
    assert.deepEqual({ l: rows[0].l.id, r: rows[0].r.id }, { l: 1, r: 1 });
  }),
  named_placeholders: async (method) => using({ namedPlaceholders: true }, async (connection) => {
    const [[row]] = await connection[method]("SELECT :a AS a, :b AS b, :a AS c", { a: "one", b: null });
    assert.deepEqual([row.a, row.b, row.c], ["one", null, "one"]);
  }),
  type_cast: async (method) => using({}, async (connection) => {
    const typeCast = (field, next) => (field.name === "flag" ? field.string() === "1" : next());
    const [[row]] = await connection[method]({ sql: "SELECT 1 AS flag, 'x' AS text", ...(method === "query" ? { typeCast } : {}) });
    assert.deepEqual([row.flag, row.text], [method === "query" ? true : 1, "x"]);
  }),
  decimals_as_numbers: async (method) => using({ decimalNumbers: true }, async (connection) => {
    assert.equal(await Object.values((await connection[method]("SELECT CAST(12.5 AS DECIMAL(10, 2)) AS d"))[0][0])[0], 12.5);
  }),
  big_numbers: async (method) => using({ supportBigNumbers: true, bigNumberStrings: true }, async (connection) => {
    const [[row]] = await connection[method]("SELECT 9223372036854775807 AS a, CAST(18446744073709551615 AS UNSIGNED) AS b, -1 AS c");
    assert.deepEqual([String(row.a), String(row.b), String(row.c)], ["9223372036854775807", "18446744073709551615", "-1"]);
  }),
  dates: async (method) => withTable("dates", "d DATE, t DATETIME(3), s TIMESTAMP(3) NULL, h TIME(3), y YEAR", async (connection, name) => {
    await connection.query("SET time_zone = '+00:00'");
    const moment = new Date("2024-02-29T12:34:56.789Z");
    await connection[method](`INSERT INTO ${name} VALUES (?, ?, ?, ?, ?)`, [moment, moment, moment, "-12:34:56.789", 2024]);
    const [[row]] = await connection[method](`SELECT * FROM ${name}`);
    assert.equal(row.d.toISOString().slice(0, 10), "2024-02-29");
    assert.deepEqual([row.t.getTime(), row.s.getTime(), row.h, row.y], [moment.getTime(), moment.getTime(), "-12:34:56.789", 2024]);
  }),
  time_zones: async (method) => using({}, async (connection) => {
    for (const zone of ["+00:00", "+05:30", "-08:00"]) {
      await connection.query("SET time_zone = ?", [zone]);
      const [[row]] = await connection[method]("SELECT CAST(FROM_UNIXTIME(86400) AS CHAR) AS t, @@session.time_zone AS z");
      assert.equal(row.z, zone);
      assert.equal(row.t.slice(0, 19), { "+00:00": "1970-01-02 00:00:00", "+05:30": "1970-01-02 05:30:00", "-08:00": "1970-01-01 16:00:00" }[zone]);
    }
  }),
  zero_dates: async (method) => withTable("zero", "d DATE", async (connection, name) => {
    await connection.query("SET sql_mode = ''");
    await connection[method](`INSERT INTO ${name} VALUES ('0000-00-00')`);
    assert.equal((await connection[method](`SELECT * FROM ${name}`))[0][0].d, "0000-00-00");
  }, { dateStrings: true }),
  json_column: async (method) => withTable("json", "j JSON", async (connection, name) => {
    const value = { a: [1, "é😀", null, { b: true }], "quoted \"key\"": 1.5 };
    await connection[method](`INSERT INTO ${name} VALUES (?)`, [JSON.stringify(value)]);
    const [[row]] = await connection[method](`SELECT j FROM ${name}`);
    assert.deepEqual(typeof row.j === "string" ? JSON.parse(row.j) : row.j, value);
  }),
  points: async (method) => withTable("points", "p POINT", async (connection, name) => {
    await connection[method](`INSERT INTO ${name} VALUES (ST_GeomFromText('POINT(1.5 -2)'))`);
    const [[row]] = await connection[method](`SELECT p FROM ${name}`);
    assert.deepEqual({ ...row.p }, { x: 1.5, y: -2 });
  }),
  fields: async (method) => withTable("fields", "id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20) NOT NULL, b BLOB", async (connection, name) => {
    const [, fields] = await connection[method](`SELECT id AS number, v, b FROM ${name} AS t`);
    assert.deepEqual(fields.map((field) => [field.name, field.orgName, field.table, field.orgTable]),
      [["number", "id", "t", name], ["v", "v", "t", name], ["b", "b", "t", name]]);
    assert.ok(fields[0].flags & 2 && fields[0].flags & 32 && fields[0].flags & 512, "PRIMARY KEY, UNSIGNED, AUTO_INCREMENT");
  }),
  results_of_writes: async (method) => withTable("writes", "id INT AUTO_INCREMENT PRIMARY KEY, v INT", async (connection, name) => {
    const [first] = await connection[method](`INSERT INTO ${name} (v) VALUES (1), (2), (3)`);
    assert.deepEqual([first.affectedRows, first.insertId], [3, 1]);
    const [second] = await connection[method](`UPDATE ${name} SET v = 2 WHERE v <= 2`);
    assert.deepEqual([second.affectedRows, second.changedRows], [2, 1]);
    assert.match(second.info, /Rows matched: 2 {2}Changed: 1/);
    const [third] = await connection[method](`DELETE FROM ${name}`);
    assert.equal(third.affectedRows, 3);
    const [big] = await connection[method](`INSERT INTO ${name} VALUES (2000000000, 1)`);
    assert.equal(big.insertId, 2000000000);
  }),
  many_columns: async (method) => using({}, async (connection) => {
    const columns = Array.from({ length: 300 }, (_, n) => `${n} AS c${n}`).join(", ");
    const [[row]] = await connection[method](`SELECT ${columns}`);
    assert.equal(Object.keys(row).length, 300);
    assert.equal(row.c299, 299);
  }),
  empty_results: async (method) => using({}, async (connection) => {
    const [rows, fields] = await connection[method]("SELECT 1 AS a FROM DUAL WHERE 1 = 0");
    assert.deepEqual([rows, fields.length], [[], 1]);
    const [done] = await connection[method]("DO 1");
    assert.equal(done.affectedRows, 0);
  }),
  errors_with_state: async (method) => withTable("errors", "id INT PRIMARY KEY, v INT NOT NULL", async (connection, name) => {
    await connection[method](`INSERT INTO ${name} VALUES (1, 1)`);
    await expectError(connection[method](`INSERT INTO ${name} VALUES (1, 1)`), 1062, "23000");
    await expectError(connection[method](`INSERT INTO ${name} (id, v) VALUES (2, NULL)`), 1048, "23000");
    await expectError(connection[method](`SELECT nothing FROM ${name}`), 1054, "42S22");
    await expectError(connection[method]("SELECT no_such_function_here(1)"), [1305, 1046], "42000");
    assert.equal(await one(connection, "SELECT 7"), 7);
  }),
  lock_wait_timeout: async (method) => withTable("locks", "id INT PRIMARY KEY, v INT", async (first, name) => {
    await first.query(`INSERT INTO ${name} VALUES (1, 1)`);
    await using({}, async (second) => {
      await first.beginTransaction();
      await first[method](`UPDATE ${name} SET v = 2 WHERE id = 1`);
      await second.query("SET innodb_lock_wait_timeout = 1");
      await expectError(second[method](`UPDATE ${name} SET v = 3 WHERE id = 1`), 1205, "HY000");
      await first.rollback();
      assert.equal((await second[method](`UPDATE ${name} SET v = 3 WHERE id = 1`))[0].affectedRows, 1);
    });
  }),
  deadlock: async (method) => withTable("deadlock", "id INT PRIMARY KEY, v INT", async (first, name) => {
    await first.query(`INSERT INTO ${name} VALUES (1, 1), (2, 2)`);
    await using({}, async (second) => {
      const update = (connection, id) => connection[method](`UPDATE ${name} SET v = v + 1 WHERE id = ${id}`);
      await first.beginTransaction();
      await second.beginTransaction();
      await update(first, 1);
      await update(second, 2);
      const settled = await Promise.allSettled([update(first, 2), update(second, 1)]);
      const refused = settled.filter((one_) => one_.status === "rejected").map((one_) => one_.reason.errno);
      assert.deepEqual(refused, [1213]);
      await first.rollback();
      await second.rollback();
    });
  }),
  savepoints: async (method) => withTable("savepoints", "v INT", async (connection, name) => {
    await connection.beginTransaction();
    await connection[method](`INSERT INTO ${name} VALUES (1)`);
    await connection.query("SAVEPOINT here");
    await connection[method](`INSERT INTO ${name} VALUES (2)`);
    await connection.query("ROLLBACK TO SAVEPOINT here");
    await connection.commit();
    assert.deepEqual((await connection[method](`SELECT v FROM ${name}`))[0].map((row) => row.v), [1]);
  }),
  autocommit_off: async (method) => withTable("autocommit", "v INT", async (connection, name) => {
    await connection.query("SET autocommit = 0");
    await connection[method](`INSERT INTO ${name} VALUES (1)`);
    await connection.rollback();
    await connection[method](`INSERT INTO ${name} VALUES (2)`);
    await connection.commit();
    await connection.query("SET autocommit = 1");
    assert.deepEqual((await connection[method](`SELECT v FROM ${name}`))[0].map((row) => row.v), [2]);
  }),
  read_only_transaction: async (method) => withTable("readonly", "v INT", async (connection, name) => {
    await connection.query("START TRANSACTION READ ONLY");
    await expectError(connection[method](`INSERT INTO ${name} VALUES (1)`), 1792, "25006");
    await connection.rollback();
    assert.equal((await connection[method](`INSERT INTO ${name} VALUES (1)`))[0].affectedRows, 1);
  }),
  isolation_levels: async (method) => using({}, async (connection) => {
    for (const level of ["READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"]) {
      await connection.query(`SET SESSION TRANSACTION ISOLATION LEVEL ${level.replace("-", " ")}`);
      const variable = (await connection.query("SHOW VARIABLES LIKE 't%_isolation'"))[0].map((row) => row.Value);
      assert.ok(variable.length > 0 && variable.every((value) => value === level), variable.join());
      assert.equal(Object.values((await connection[method]("SELECT 1 AS one"))[0][0])[0], 1);
    }
  }),
  temporary_tables: async (method) => using({}, async (connection) => {
    await connection.query("CREATE TEMPORARY TABLE own_thing (v INT)");
    await connection[method]("INSERT INTO own_thing VALUES (1), (2)");
    assert.equal((await connection[method]("SELECT v FROM own_thing ORDER BY v"))[0].length, 2);
    await using({}, (other) => expectError(other[method]("SELECT v FROM own_thing"), 1146, "42S02"));
    await connection.query("DROP TEMPORARY TABLE own_thing");
    await expectError(connection[method]("SELECT v FROM own_thing"), 1146, "42S02");
  }),
  user_variables: async (method) => using({}, async (connection) => {
    await connection.query("SET @a = 1, @b = 'text', @c = NULL");
    const [[row]] = await connection[method]("SELECT @a + 1 AS a, @b AS b, @c AS c");
    assert.deepEqual([Number(row.a), row.b, row.c], [2, "text", null]);
  }),
  session_variables: async (method) => using({}, async (connection) => {
    await connection.query("SET SESSION group_concat_max_len = 5, sql_mode = 'ANSI_QUOTES', max_execution_time = 0".replace(/, max_execution_time = 0/, ""));
    const [[row]] = await connection[method]('SELECT GROUP_CONCAT("v") AS g, @@group_concat_max_len AS l FROM (SELECT \'0123456789\' AS v) t');
    assert.deepEqual([row.g, Number(row.l)], ["01234", 5]);
  }),
  prepare_in_sql: async (method) => using({}, async (connection) => {
    await connection.query("PREPARE own FROM 'SELECT ? + 1 AS v'");
    await connection.query("SET @n = 41");
    for (let turn = 0; turn < 3; turn += 1) {
      assert.equal(Number((await connection.query("EXECUTE own USING @n"))[0][0].v), 42);
      await connection[method]("SELECT 1 AS between_them");
    }
    await connection.query("DEALLOCATE PREPARE own");
    await expectError(connection.query("EXECUTE own USING @n"), 1243, "HY000");
  }),
  last_insert_id: async (method) => withTable("lastid", "id INT AUTO_INCREMENT PRIMARY KEY, v INT", async (connection, name) => {
    await connection[method](`INSERT INTO ${name} (v) VALUES (1), (2)`);
    await using({}, (other) => other[method](`INSERT INTO ${name} (v) VALUES (9)`));
    for (let turn = 0; turn < 3; turn += 1) {
      assert.equal(Number((await connection[method]("SELECT LAST_INSERT_ID() AS v"))[0][0].v), 1);
    }
    await connection[method](`UPDATE ${name} SET v = LAST_INSERT_ID(77) LIMIT 1`);
    assert.equal(Number(await one(connection, "SELECT LAST_INSERT_ID()")), 77);
  }),
  named_locks: async (method) => using({}, (first) => using({}, async (second) => {
    const lock = `${prefix}_lock`;
    const get = async (connection, wait) => Number((await connection[method](`SELECT GET_LOCK('${lock}', ${wait}) AS v`))[0][0].v);
    assert.deepEqual([await get(first, 0), await get(second, 0)], [1, 0]);
    await first[method](`SELECT RELEASE_LOCK('${lock}')`);
    assert.equal(await get(second, 1), 1);
    await second[method](`SELECT RELEASE_LOCK('${lock}')`);
  })),
  many_at_once: async (method) => {
    const connections = await Promise.all(Array.from({ length: 30 }, () => connect()));
    try {
      await Promise.all(connections.map((connection, n) => connection.query("SET @mine = ?", [n])));
      const seen = await Promise.all(connections.map((connection) => connection[method]("SELECT @mine AS v")));
      assert.deepEqual(seen.map(([[row]]) => Number(row.v)), connections.map((_, n) => n));
    } finally {
      await Promise.all(connections.map((connection) => connection.end()));
    }
  },
  queued_without_waiting: async (method) => using({}, async (connection) => {
    const all = Array.from({ length: 200 }, (_, n) => connection[method](n % 10 ? "SELECT ? AS v" : "SELECT ? + 0 AS v", [n]));
    const seen = (await Promise.all(all)).map(([[row]]) => Number(row.v));
    assert.deepEqual(seen, Array.from({ length: 200 }, (_, n) => n));
  }),
  texts_of_every_size: async (method) => using({}, async (connection) => {
    for (const size of [0, 1, 250, 251, 252, 65535, 65536, 70000, 16_777_000, 16_777_210, 16_777_216]) {
      const [[row]] = await connection[method]("SELECT LENGTH(?) AS l, REPEAT('x', ?) AS t", ["y".repeat(Math.min(size, 100_000)), size]);
      assert.deepEqual([Number(row.l), row.t.length], [Math.min(size, 100_000), size]);
    }
  }),
  statements_of_every_size: async (method) => using({}, async (connection) => {
    // The driver itself cannot send those of exactly 16 MiB less 1 byte.
    // Delphinus prepares no text of 16 MiB and more.
    for (const size of [1000, 70_000, 16_000_000, 16_777_000, ...(method === "query" ? [17_000_000] : [])]) {
      const text = "SELECT LENGTH('') + 5 AS v /* ";
      const [[row]] = await connection[method](`${text}${"c".repeat(size - text.length - 4)} */`);
      assert.equal(Number(row.v), 5);
    }
  }),
  warnings: async (method) => using({}, async (connection) => {
    await connection.query("SET sql_mode = ''");
    const [result] = await connection[method]("DO CAST('1x' AS SIGNED), CAST('2y' AS SIGNED)");
    assert.equal(result.warningStatus, 2);
    // Others use the connections, so that the warnings have to be kept for the session.
    await Promise.all(Array.from({ length: 6 }, () => using({}, (other) => other.query("SELECT 1"))));
    const [rows] = await connection.query("SHOW WARNINGS");
    assert.deepEqual(rows.map((row) => [row.Level, row.Code]), [["Warning", 1292], ["Warning", 1292]]);
    const [[count]] = await connection.query("SHOW COUNT(*) WARNINGS");
    assert.equal(Number(Object.values(count)[0]), 2);
  }),
  streams_with_pauses: async (method) => using({}, async (connection) => {
    const sql = "WITH RECURSIVE n (v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < 900) SELECT v, REPEAT('x', 2000) AS p FROM n";
    let sum = 0;
    let count = 0;
    for await (const row of connection.connection[method](sql).stream({ highWaterMark: 2 })) {
      sum += Number(row.v);
      count += 1;
      if (count % 300 === 0) await sleep(20);
    }
    assert.deepEqual([count, sum], [900, 405_450]);
  }),
};

const alone = {
  escaping: () => using({}, async (connection) => {
    const nasty = "it's \"quoted\" \\ back\0nul\n\r\x1a % _ ; -- /* */ `tick`";
    for (const value of [nasty, "", "é😀", 0, -1.5, true, false, null]) {
      const [[row]] = await connection.query("SELECT ? AS v", [value]);
      assert.equal(String(row.v), String(typeof value === "boolean" ? Number(value) : value));
    }
    const [[row]] = await connection.query("SELECT ?? AS v FROM (SELECT 5 AS `odd``name`) t", ["odd`name"]);
    assert.equal(row.v, 5);
    assert.equal(mysql.format("a IN (?)", [[1, "x"]]), "a IN (1, 'x')");
  }),
  bulk_insert: () => withTable("bulk", "id INT PRIMARY KEY, v VARCHAR(20)", async (connection, name) => {
    const rows = Array.from({ length: 5000 }, (_, n) => [n, `value ${n}`]);
    const [result] = await connection.query(`INSERT INTO ${name} VALUES ?`, [rows]);
    assert.equal(result.affectedRows, 5000);
    assert.equal(Number(await one(connection, `SELECT SUM(id) FROM ${name}`)), 12_497_500);
  }),
  charsets: async () => {
    for (const charset of ["latin1", "utf8", "utf8mb4", "koi8r", "UTF8MB4_UNICODE_CI"]) {
      await using({ charset }, async (connection) => {
        const wanted = charset === "koi8r" ? "Привет" : "naïve é";
        for (const method of BOTH) assert.equal((await connection[method]("SELECT ? AS v", [wanted]))[0][0].v, wanted, charset);
      });
    }
  },
  set_names: () => using({}, async (connection) => {
    for (const names of ["latin1", "utf8mb4", "utf8mb4 COLLATE utf8mb4_bin", "cp1251"]) {
      await connection.query(`SET NAMES ${names}`);
      const [[row]] = await connection.query("SELECT @@character_set_client AS c, @@collation_connection AS o, HEX(_latin1 X'E9') AS h");
      assert.equal(row.c, names.split(" ")[0]);
      assert.equal(row.h, "E9");
    }
  }),
  statement_handles: () => using({}, async (connection) => {
    const statements = [];
    for (let n = 0; n < 150; n += 1) statements.push(await connection.prepare(`SELECT ${n} + ? AS v`));
    for (const turn of [1, 2]) {
      for (const [n, statement] of statements.entries()) assert.equal(Number((await statement.execute([turn]))[0][0].v), n + turn);
    }
    for (const statement of statements) await statement.close();
    assert.equal(await one(connection, "SELECT ?", ["still here"]), "still here");
  }),
  statements_after_ddl: () => withTable("ddl", "a INT", async (connection, name) => {
    await connection.query(`INSERT INTO ${name} VALUES (1)`);
    const statement = await connection.prepare(`SELECT * FROM ${name} WHERE a = ?`);
    assert.deepEqual(Object.keys((await statement.execute([1]))[0][0]), ["a"]);
    await connection.query(`ALTER TABLE ${name} ADD COLUMN b INT DEFAULT 2`);
    assert.deepEqual({ ...(await statement.execute([1]))[0][0] }, { a: 1, b: 2 });
    await connection.query(`ALTER TABLE ${name} DROP COLUMN b`);
    assert.deepEqual(Object.keys((await statement.execute([1]))[0][0]), ["a"]);
    await statement.close();
  }),
  results_of_calls: () => using({}, async (connection) => {
    const name = table("proc");
    await connection.query(`CREATE PROCEDURE ${name}(IN n INT, OUT o INT) BEGIN SELECT n; SET o = n * 2; SELECT 'two' AS t; SELECT 1 WHERE 1 = 0; END`);
    try {
      await connection.query(`CALL ${name}(4, @out)`);
      assert.equal(Number(await one(connection, "SELECT @out")), 8);
      for (const method of BOTH) {
        const [results] = await connection[method](`CALL ${name}(?, @out)`, [5]);
        assert.deepEqual([results[0][0].n, results[1][0].t, results[2].length], [5, "two", 0]);
        assert.equal(Number(await one(connection, "SELECT @out")), 10);
      }
    } finally {
      await connection.query(`DROP PROCEDURE ${name}`);
    }
  }),
  errors_in_procedures: () => using({}, async (connection) => {
    const name = table("fails");
    await connection.query(`CREATE PROCEDURE ${name}() BEGIN SELECT 1; SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 5000, MESSAGE_TEXT = 'on purpose'; END`);
    try {
      for (const method of BOTH) await expectError(connection[method](`CALL ${name}()`), 5000, "45000");
      assert.equal(await one(connection, "SELECT 'usable'"), "usable");
    } finally {
      await connection.query(`DROP PROCEDURE ${name}`);
    }
  }),
  many_statements: () => using({ multipleStatements: true }, async (connection) => {
    const [results] = await connection.query(Array.from({ length: 100 }, (_, n) => `SELECT ${n} AS v`).join("; "));
    assert.deepEqual(results.map(([row]) => row.v), Array.from({ length: 100 }, (_, n) => n));
    const [mixed] = await connection.query("SET @x = 3; SELECT @x AS v; DO 1; SELECT @x + 1 AS v");
    assert.deepEqual([mixed[1][0].v, Number(mixed[3][0].v)].map(Number), [3, 4]);
  }),
  time_limit_of_a_query: async () => {
    const connection = await connect();
    connection.connection.on("error", () => {});
    await assert.rejects(connection.query({ sql: "SELECT SLEEP(10)", timeout: 300 }), (error) => error.code === "PROTOCOL_SEQUENCE_TIMEOUT");
    connection.destroy();
    await using({}, async (next) => assert.equal(await one(next, "SELECT 1"), 1));
  },
  kill_query: () => using({}, (victim) => using({}, async (killer) => {
    const began = Date.now();
    const sleeping = victim.query("SELECT SLEEP(20) AS v").then(([[row]]) => row.v, (error) => error.errno);
    await sleep(300);
    await killer.query(`KILL QUERY ${victim.threadId}`);
    assert.ok([1, 1317].includes(Number(await sleeping)));
    assert.ok(Date.now() - began < 10_000);
    assert.equal(await one(victim, "SELECT 'alive'"), "alive");
  })),
  kill_connection: async () => {
    const victim = await connect();
    victim.connection.on("error", () => {});
    await using({}, (killer) => killer.query(`KILL ${victim.threadId}`));
    await assert.rejects(async () => {
      for (let turn = 0; turn < 50; turn += 1) {
        await victim.query("SELECT 1");
        await sleep(20);
      }
    });
    victim.destroy();
  },
  connection_id_and_process_list: () => using({}, async (connection) => {
    assert.equal(Number(await one(connection, "SELECT CONNECTION_ID()")), connection.threadId);
    const [rows] = await connection.query("SHOW FULL PROCESSLIST");
    const own = rows.filter((row) => Number(row.Id) === connection.threadId);
    assert.equal(own.length, 1);
    assert.match(own[0].Info, /SHOW FULL PROCESSLIST/);
  }),
  change_user_many_times: () => using({}, async (connection) => {
    const user = { user: env("USER"), password: env("PASSWORD") };
    for (let turn = 0; turn < 10; turn += 1) {
      await connection.query(`SET @turn = ${turn}`);
      await connection.changeUser({ ...user, database: turn % 2 ? env("DATABASE") : "information_schema" });
      const [[row]] = await connection.execute("SELECT @turn AS t, DATABASE() AS d");
      assert.deepEqual([row.t, row.d], [null, turn % 2 ? env("DATABASE") : "information_schema"]);
    }
  }),
  reset_forgets: () => using({}, async (connection) => {
    await connection.query("SET @a = 1, SESSION sql_mode = 'ANSI_QUOTES', autocommit = 0");
    await connection.query("CREATE TEMPORARY TABLE gone_soon (v INT)");
    await connection.reset();
    const [[row]] = await connection.query("SELECT @a AS a, @@autocommit AS c, @@sql_mode AS m");
    assert.deepEqual([row.a, Number(row.c), row.m.includes("ANSI_QUOTES")], [null, 1, false]);
    await expectError(connection.query("SELECT * FROM gone_soon"), 1146, "42S02");
  }),
  idle_time_limit: async () => {
    const connection = await connect();
    connection.connection.on("error", () => {});
    await connection.query("SET wait_timeout = 1");
    await sleep(2500);
    await assert.rejects(connection.query("SELECT 1"));
    connection.destroy();
  },
  pool_keeps_sessions_apart: async () => {
    const pool = mysql.createPool({ ...settings(), connectionLimit: 5, maxIdle: 5 });
    try {
      const held = await Promise.all(Array.from({ length: 5 }, () => pool.getConnection()));
      await Promise.all(held.map((connection, n) => connection.query("SET @who = ?", [n])));
      const seen = await Promise.all(held.map((connection) => connection.execute("SELECT @who AS v")));
      assert.deepEqual(seen.map(([[row]]) => Number(row.v)), [0, 1, 2, 3, 4]);
      held.forEach((connection) => connection.release());
      const many = await Promise.all(Array.from({ length: 300 }, (_, n) => pool[BOTH[n % 2]]("SELECT ? AS v", [n])));
      assert.deepEqual(many.map(([[row]]) => Number(row.v)), Array.from({ length: 300 }, (_, n) => n));
    } finally {
      await pool.end();
    }
  },
  pool_of_pools: async () => {
    const cluster = mysql.createPoolCluster({});
    cluster.add("ONE", settings());
    cluster.add("TWO", settings());
    try {
      for (let turn = 0; turn < 6; turn += 1) {
        const connection = await cluster.getConnection("*", "RR");
        assert.equal((await connection.query("SELECT ? AS v", [turn]))[0][0].v, turn);
        connection.release();
      }
    } finally {
      await cluster.end();
    }
  },
  connect_attributes: () => using({ connectAttributes: { program_name: "more.mjs", odd: "é=;" } }, async (connection) => {
    assert.equal(await one(connection, "SELECT 1"), 1);
  }),
  connections_come_and_go: async () => {
    for (let turn = 0; turn < 60; turn += 1) {
      await using(turn % 2 ? { database: undefined } : {}, async (connection) => {
        assert.equal(await one(connection, "SELECT DATABASE()"), turn % 2 ? null : env("DATABASE"));
      });
    }
  },
  lock_tables: () => withTable("locked", "v INT", async (connection, name) => {
    await connection.query(`LOCK TABLES ${name} WRITE`);
    await connection.query(`INSERT INTO ${name} VALUES (1)`);
    await expectError(connection.query("SELECT * FROM mysql.proc_or_not LIMIT 1"), [1100, 1146]);
    await connection.query("UNLOCK TABLES");
    assert.equal(Number(await one(connection, `SELECT COUNT(*) FROM ${name}`)), 1);
  }),
  found_rows: () => withTable("found", "v INT", async (connection, name) => {
    await connection.query(`INSERT INTO ${name} VALUES (1), (2), (3)`);
    await connection.query(`SELECT SQL_CALC_FOUND_ROWS v FROM ${name} LIMIT 1`);
    assert.equal(Number(await one(connection, "SELECT FOUND_ROWS()")), 3);
  }),
};

export async function more() {
  for (const method of BOTH) {
    for (const [name, body] of Object.entries(shapes)) {
      await check(`more_${name}_${method === "query" ? "text" : "prepared"}`, () => body(method));
    }
  }
  for (const [name, body] of Object.entries(alone)) await check(`more_${name}`, body);
}
