// mysql2: text and binary protocol, streams, LOAD DATA from a stream, change user, reset, its pool.
import assert from "node:assert/strict";
import crypto from "node:crypto";
import { Readable } from "node:stream";
import mysql from "mysql2/promise";
import { more } from "./more.mjs";
import { check, connect, encrypted, env, exitStatus, expectError, one, play, prefix, scenarios, settings, using } from "./checks.mjs";

const MEGABYTE = 1024 * 1024;
const BIG = 17 * MEGABYTE;
const table = (name) => `${prefix}_${name}`;
const drop = (name) => using({}, (connection) => connection.query(`DROP TABLE IF EXISTS ${name}`));
const digest = (data) => crypto.createHash("sha256").update(data).digest("hex");

async function logins() {
  await check("login_tcp", () => using({}, async (connection) => {
    assert.equal((await one(connection, "SELECT CURRENT_USER()")).split("@")[0], env("USER"));
    assert.equal(Boolean(connection.connection.stream.encrypted), encrypted, "the connection is encrypted");
  }));
  if (env("SOCKET")) {
    await check("login_socket", () => using({ socketPath: env("SOCKET") }, async (connection) => {
      assert.equal(await one(connection, "SELECT DATABASE()"), env("DATABASE"));
    }));
  }
  await check("refused_logins", async () => {
    await expectError(connect({ password: "certainly wrong" }), 1045, "28000");
    await expectError(connect({ password: "" }), 1045, "28000");
    // For a name that it does not know MariaDB takes somebody else's way to log in: 1275 if that is of old.
    await expectError(connect({ user: `nobody_${prefix}`.slice(0, 30) }), [1045, 1275]);
    await expectError(connect({ database: `nowhere_${prefix}` }), [1049, 1044], "42000");
  });
  await check("server_version", () => using({}, async (connection) => {
    const told = connection.connection._handshakePacket.serverVersion.replace(/^5\.5\.5-/, "");
    assert.equal(told, await one(connection, "SELECT VERSION()"));
    assert.equal(await one(connection, "SELECT @@character_set_client"), "utf8mb4");
  }));
}

const ALL_BYTES = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
const SAMPLES = [
  ["TINYINT", -128], ["TINYINT UNSIGNED", 255], ["SMALLINT", -32768], ["MEDIUMINT", 8388607], ["INT", -2147483648],
  ["INT UNSIGNED", 4294967295], ["BIGINT", "-9223372036854775808"], ["BIGINT UNSIGNED", "18446744073709551615"],
  ["FLOAT", 1.5], ["DOUBLE", -2.25e300], ["DECIMAL(30,10)", "-12345678901234567890.0123456789"],
  ["DATE", "1000-01-01"], ["DATETIME(6)", "9999-12-31 23:59:59.999999"], ["TIMESTAMP(6) NULL", "2038-01-19 01:02:03.456789"],
  ["TIME(6)", "-838:59:58.999999"], ["YEAR", 2155], ["CHAR(10)", "0123456789"],
  ["VARCHAR(200)", "naïve 🐬 'quoted' \\ \"%s\" ?"], ["VARBINARY(300)", ALL_BYTES], ["LONGBLOB", Buffer.concat(Array(100).fill(ALL_BYTES))],
  ["LONGTEXT", "\0\n\r\t\x1a😀"], ["ENUM('a','b')", "b"], ["SET('x','y')", "x,y"], ["BIT(10)", Buffer.from([2, 1])], ["LONGTEXT", ""],
];

async function types(method) {
  const name = table(`types_${method}`);
  // Dates as text: this driver's Date has milliseconds only.
  const options = { supportBigNumbers: true, bigNumberStrings: false, dateStrings: true };
  try {
    await using(options, async (connection) => {
      await connection.query("SET time_zone = '+00:00'");
      const columns = SAMPLES.map(([kind], place) => `c${place} ${kind}`).join(", ");
      await connection.query(`CREATE TABLE ${name} (id INT AUTO_INCREMENT PRIMARY KEY, ${columns}) CHARACTER SET utf8mb4`);
      const rows = [SAMPLES.map(([, value]) => value), SAMPLES.map(() => null), SAMPLES.map(([, value]) => value)];
      for (const row of rows) {
        const [result] = await connection[method](`INSERT INTO ${name} VALUES (NULL, ${row.map(() => "?").join(", ")})`, row);
        assert.equal(result.affectedRows, 1);
      }
      const [got] = await connection[method]({ sql: `SELECT * FROM ${name} ORDER BY id FOR UPDATE`, rowsAsArray: true });
      assert.equal(got.length, rows.length);
      got.forEach((row, at) => rows[at].forEach((wanted, place) =>
        assert.deepEqual(row[place + 1], wanted, `row ${at} ${SAMPLES[place][0]}: ${row[place + 1]}`)));
    });
  } finally {
    await drop(name);
  }
}

const json = () => using({}, async (connection) => {
  const document = { a: [1, "é😀", null], b: true };
  for (const method of ["query", "execute"]) {
    const [[row]] = await connection[method]("SELECT JSON_EXTRACT(?, '$.a[1]') AS v", [JSON.stringify(document)]);
    assert.equal(typeof row.v === "string" && row.v.startsWith('"') ? JSON.parse(row.v) : row.v, "é😀");
  }
});

const preparedAgain = () => using({}, async (connection) => {
  for (let turn = 0; turn < 2; turn += 1) {
    for (const value of [1, "text 😀", null, 1.5, Buffer.from([0, 255]), new Date(0), "", true]) {
      const [[row]] = await connection.execute("SELECT ? IS NULL AS n, LENGTH(CONCAT(?, '')) AS l", [value, value]);
      assert.equal(row.n, value === null ? 1 : 0);
      if (typeof value === "string") assert.equal(row.l, Buffer.byteLength(value));
    }
  }
});

// The driver keeps a bounded cache of statements and closes the others.
const preparedMany = () => using({ maxPreparedStatements: 50 }, async (connection) => {
  for (let turn = 0; turn < 2; turn += 1) {
    for (let number = 0; number < 200; number += 1) {
      assert.equal(Number(await one(connection, `SELECT ${number} + ?`, [1])), number + 1);
    }
  }
  const statement = await connection.prepare("SELECT ? AS v");
  assert.equal((await statement.execute(["again"]))[0][0].v, "again");
  await statement.close();
  await expectError(connection.execute("SELEC ?", [1]), 1064, "42000");
  await expectError(connection.execute(`SELECT * FROM ${table("none")} WHERE a = ?`, [1]), 1146, "42S02");
  assert.equal(await one(connection, "SELECT ?", ["yes"]), "yes");
});

// sql_mode, collation and schema are those of the moment of the PREPARE, however often it runs and whatever runs between.
const preparedKeepsItsMeaning = () => using({}, async (connection) => {
  await connection.query("SET NAMES utf8mb4 COLLATE utf8mb4_bin");
  await connection.query("SET SESSION sql_mode = 'ANSI_QUOTES'");
  const quoted = await connection.prepare('SELECT "x" AS v, \'a\' = \'A\' AS same FROM (SELECT 1 AS x) t');
  const schema = await connection.prepare("SELECT DATABASE() AS v");
  await connection.query("SET SESSION sql_mode = ''");
  await connection.query("SET NAMES utf8mb4 COLLATE utf8mb4_general_ci");
  await connection.query("USE information_schema");
  for (let turn = 0; turn < 5; turn += 1) {
    const [[row]] = await quoted.execute([]);
    assert.deepEqual([row.v, row.same], [1, 0], "ANSI_QUOTES and utf8mb4_bin at PREPARE");
    assert.equal((await schema.execute([]))[0][0].v, env("DATABASE"), "the schema at PREPARE");
    const [[now]] = await connection.query('SELECT "x" AS v, \'a\' = \'A\' AS same, DATABASE() AS d FROM (SELECT 1 AS x) t');
    assert.deepEqual([now.v, now.same, now.d], ["x", 1, "information_schema"]);
  }
});

async function insertIds() {
  const name = table("ids");
  try {
    await using({}, async (connection) => {
      await connection.query(`CREATE TABLE ${name} (id INT AUTO_INCREMENT PRIMARY KEY, v INT UNIQUE)`);
      const [first] = await connection.query(`INSERT INTO ${name} (v) VALUES ?`, [[[1], [2], [3]]]);
      assert.deepEqual([first.insertId, first.affectedRows], [1, 3]);
      assert.match(first.info, /Records: 3/);
      const [second] = await connection.execute(`INSERT INTO ${name} (v) VALUES (?)`, [4]);
      assert.equal(second.insertId, 4);
      assert.equal(await one(connection, "SELECT LAST_INSERT_ID()"), 4);
      await expectError(connection.execute(`INSERT INTO ${name} (v) VALUES (?)`, [4]), 1062, "23000");
      const [ignored] = await connection.query(`INSERT IGNORE INTO ${name} (id, v) VALUES (1, 1)`);
      assert.deepEqual([ignored.affectedRows, ignored.warningStatus], [0, 1]);
    });
  } finally {
    await drop(name);
  }
}

async function foundRows() {
  const name = table("found");
  try {
    await using({ flags: ["-FOUND_ROWS"] }, (changed) => using({ flags: ["FOUND_ROWS"] }, async (found) => {
      await changed.query(`CREATE TABLE ${name} (v INT)`);
      await changed.query(`INSERT INTO ${name} VALUES (1), (1), (2)`);
      for (const method of ["query", "execute", "query", "execute"]) {
        const update = `UPDATE ${name} SET v = 1 WHERE v = 1`;
        assert.equal((await changed[method](update))[0].affectedRows, 0);
        assert.equal((await found[method](update))[0].affectedRows, 2);
      }
    }));
  } finally {
    await drop(name);
  }
}

async function transactions() {
  const name = table("txn");
  try {
    await using({}, async (connection) => {
      await connection.query(`CREATE TABLE ${name} (v INT)`);
      await connection.beginTransaction();
      await connection.execute(`INSERT INTO ${name} VALUES (?)`, [1]);
      await connection.rollback();
      await connection.beginTransaction();
      await connection.execute(`INSERT INTO ${name} VALUES (?)`, [2]);
      assert.equal(await one(connection, `SELECT COUNT(*) FROM ${name}`), 1);
      await connection.commit();
      assert.equal(await one(connection, `SELECT SUM(v) + 0 FROM ${name} FOR UPDATE`), "2");
    });
  } finally {
    await drop(name);
  }
}

const bigValues = (size) => using({}, async (connection) => {
  const data = crypto.randomBytes(size);
  for (const method of ["query", "execute"]) {
    const [[row]] = await connection[method]("SELECT CAST(? AS BINARY) AS echo, LENGTH(?) AS l, 7 AS after_it", [data, data.subarray(0, 1000)]);
    assert.ok(Buffer.from(row.echo).equals(data), `the echo by ${method} differs`);
    assert.deepEqual([Number(row.l), row.after_it], [1000, 7]);
    const [[sum]] = await connection[method]("SELECT SHA2(?, 256) AS s", [data]);
    assert.equal(sum.s, digest(data));
    const [[text]] = await connection[method]("SELECT REPEAT('ab', ?) AS t", [size / 2]);
    assert.ok(text.t === "ab".repeat(size / 2), "the big text differs");
  }
});

const TEN = `(SELECT 0 AS d${[1, 2, 3, 4, 5, 6, 7, 8, 9].map((d) => ` UNION ALL SELECT ${d}`).join("")})`;
const MANY = "SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n, REPEAT('x', 50) AS pad " +
  `FROM ${TEN} a, ${TEN} b, ${TEN} c, ${TEN} e, ${TEN} f`;

const streamMany = () => using({}, async (connection) => {
  for (const method of ["query", "execute"]) {
    let count = 0;
    let sum = 0;
    for await (const row of connection.connection[method](MANY).stream({ highWaterMark: 5 })) {
      count += 1;
      sum += Number(row.n);
    }
    assert.deepEqual([count, sum], [100_000, 4_999_950_000]);
  }
});

async function streamAbandoned() {
  for (let turn = 0; turn < 3; turn += 1) {
    const connection = await connect();
    connection.on?.("error", () => {});
    const stream = connection.connection.query(MANY).stream({ highWaterMark: 5 });
    for await (const row of stream) {
      assert.ok(row.pad);
      break;
    }
    connection.destroy();
  }
  await using({}, async (connection) => assert.equal(await one(connection, "SELECT 1"), 1));
}

async function multiStatements() {
  await using({ multipleStatements: true }, async (connection) => {
    const [results] = await connection.query("SELECT 1 AS a; SET @m = 2; SELECT @m AS b, ';' AS c");
    assert.equal(results.length, 3);
    assert.deepEqual([results[0][0].a, Number(results[2][0].b), results[2][0].c], [1, 2, ";"]);
    await expectError(connection.query("SELECT 1; SELEC 2; SELECT 3"), 1064, "42000");
    assert.equal(await one(connection, "SELECT 4"), 4);
  });
  await using({}, (connection) => expectError(connection.query("SELECT 1; SELECT 2"), 1064, "42000"));
}

const procedure = () => using({}, async (connection) => {
  const name = table("proc");
  try {
    await connection.query(`CREATE PROCEDURE ${name}(IN n INT) BEGIN SELECT n; SELECT n + 1 AS m; END`);
    for (const method of ["query", "execute"]) {
      const [results] = await connection[method](`CALL ${name}(?)`, [5]);
      assert.deepEqual([results[0][0].n, Number(results[1][0].m)], [5, 6]);
    }
  } finally {
    await connection.query(`DROP PROCEDURE IF EXISTS ${name}`);
  }
});

async function loadData() {
  const name = table("load");
  try {
    await using({}, async (connection) => {
      await connection.query(`CREATE TABLE ${name} (id INT, v VARCHAR(100))`);
      const lines = () => Readable.from((function* all() {
        for (let n = 0; n < 500; n += 1) {
          yield Buffer.from(Array.from({ length: 100 }, (_, m) => `${n * 100 + m}\tvalue ${m}\n`).join(""));
        }
      })());
      const [result] = await connection.query({ sql: `LOAD DATA LOCAL INFILE 'lines' INTO TABLE ${name}`, infileStreamFactory: lines });
      assert.equal(result.affectedRows, 50_000);
      assert.equal(await one(connection, `SELECT COUNT(*) FROM ${name} FOR UPDATE`), 50_000);
    });
  } finally {
    await drop(name);
  }
}

const pingAndChangeUser = () => using({}, async (connection) => {
  await connection.ping();
  await connection.query("SET @kept = 5, time_zone = '+07:00'");
  await connection.query("CREATE TEMPORARY TABLE temporary_thing (v INT)");
  const statement = await connection.prepare("SELECT ? + 1 AS v");
  assert.equal(Number((await statement.execute([1]))[0][0].v), 2);
  await connection.changeUser({ user: env("USER"), password: env("PASSWORD"), database: "information_schema" });
  const [[row]] = await connection.query("SELECT @kept AS kept, DATABASE() AS d, @@time_zone AS z");
  assert.deepEqual([row.kept, row.d, row.z === "+07:00"], [null, "information_schema", false]);
  await expectError(connection.query(`SELECT * FROM ${env("DATABASE")}.temporary_thing`), 1146, "42S02");
  await connection.changeUser({ user: env("USER"), password: env("PASSWORD"), database: env("DATABASE") });
  assert.equal(await one(connection, "SELECT DATABASE()"), env("DATABASE"));
});

const resetConnection = () => using({}, async (connection) => {
  await connection.query("SET @kept = 5");
  await connection.reset();
  assert.equal(await one(connection, "SELECT @kept"), null);
  assert.equal(await one(connection, "SELECT DATABASE()"), env("DATABASE"));
});

async function wrongChangeUser() {
  const connection = await connect();
  connection.connection.on("error", () => {});
  await expectError(connection.changeUser({ user: env("USER"), password: "certainly wrong" }), 1045, "28000");
  connection.destroy();
}

async function transfers() {
  const name = table("accounts");
  const pool = mysql.createPool({ ...settings(), connectionLimit: 15 });
  try {
    await pool.query(`CREATE TABLE ${name} (id INT PRIMARY KEY, balance INT NOT NULL)`);
    for (let account = 1; account <= 10; account += 1) await pool.execute(`INSERT INTO ${name} VALUES (?, 100)`, [account]);
    await Promise.all(Array.from({ length: 20 }, (_, seed) => worker(pool, name, seed)));
    const connection = await pool.getConnection();
    await connection.beginTransaction();
    assert.equal(Number(await one(connection, `SELECT SUM(balance) FROM ${name}`)), 1000);
    await connection.commit();
    connection.release();
  } finally {
    await pool.end();
    await drop(name);
  }
}

async function worker(pool, name, seed) {
  for (let turn = 0; turn < 20; turn += 1) {
    const from = 1 + ((seed * 7 + turn * 3) % 10);
    const to = 1 + ((seed + turn * 7 + 5) % 10);
    if (from !== to) while (!(await transfer(pool, name, [from, to, turn % 9])));
  }
}

async function transfer(pool, name, [from, to, amount]) {
  const connection = await pool.getConnection();
  try {
    await connection.beginTransaction();
    const balance = await one(connection, `SELECT balance FROM ${name} WHERE id = ? FOR UPDATE`, [from]);
    await connection.execute(`UPDATE ${name} SET balance = ? WHERE id = ?`, [balance - amount, from]);
    await connection.query(`UPDATE ${name} SET balance = balance + ? WHERE id = ?`, [amount, to]);
    await connection.commit();
    return true;
  } catch (error) {
    await connection.rollback();
    if (error.errno === 1213) return false;
    throw error;
  } finally {
    connection.release();
  }
}

const flavor = await using({}, async (connection) =>
  (await one(connection, "SELECT VERSION()")).includes("MariaDB") ? "mariadb" : "mysql");
await logins();
const all = {
  text_types: () => types("query"), prepared_types: () => types("execute"), json, prepared_again_with_other_types: preparedAgain,
  prepared_many: preparedMany,
  prepared_keeps_its_meaning: preparedKeepsItsMeaning, insert_ids: insertIds, found_rows_flag: foundRows, transactions,
  big_values_1m: () => bigValues(MEGABYTE), big_values_17m: () => bigValues(BIG), stream_many_rows: streamMany,
  stream_abandoned: streamAbandoned, multi_statements: multiStatements, stored_procedure: procedure,
  load_data_local: loadData, ping_and_change_user: pingAndChangeUser, reset_connection: resetConnection,
  change_user_to_a_wrong_password: wrongChangeUser, pool_of_connections: transfers,
};
for (const [name, body] of Object.entries(all)) await check(name, body);
for (const scenario of scenarios(flavor)) {
  for (const prepared of [false, true]) {
    if (!prepared || !scenario.text_only) {
      await check(`scenario_${scenario.name}_${prepared ? "prepared" : "text"}`, () => play(scenario, prepared));
    }
  }
}
if (env("MORE") === "on") await more();
process.exit(exitStatus());
