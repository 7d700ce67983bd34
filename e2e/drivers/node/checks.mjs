// The check runner, the settings and the scenarios; what is checked stands in main.mjs.
import assert from "node:assert/strict";
import fs from "node:fs";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import mysql from "mysql2/promise";

export const env = (name) => process.env[`DELPHINUS_${name}`] ?? "";
export const prefix = `node_${process.pid}_${Math.floor(Math.random() * 2 ** 24).toString(16)}`;
export const encrypted = env("TLS") === "on";
const WAIT_AT_MOST_MS = 30_000;
let failed = false;

export function settings(changes = {}) {
  const all = {
    host: env("HOST"), port: Number(env("PORT")), user: env("USER"), password: env("PASSWORD"),
    database: env("DATABASE"), charset: "utf8mb4", timezone: "Z", connectTimeout: 20_000,
    compress: env("COMPRESS") === "on",
    ssl: encrypted ? { rejectUnauthorized: false } : undefined, ...changes,
  };
  if (all.socketPath) {
    delete all.host;
    delete all.port;
    delete all.ssl;
  }
  return all;
}

export const connect = (changes) => mysql.createConnection(settings(changes));

/** Runs `body` with a connection that is closed afterwards. */
export async function using(changes, body) {
  const connection = await connect(changes);
  try {
    return await body(connection);
  } finally {
    await connection.end();
  }
}

export async function check(name, body) {
  if (env("ONLY") && !name.includes(env("ONLY"))) return;
  const begun = Date.now();
  try {
    await body();
    console.log(`ok ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed = true;
    console.log(`FAIL ${name}: ${String(error?.message ?? error).replaceAll("\n", " ").slice(0, 600)}`);
  }
}

export const exitStatus = () => (failed ? 1 : 0);

export async function expectError(promise, errno, state) {
  let error;
  try {
    await promise;
  } catch (caught) {
    error = caught;
  }
  assert.ok(error, `no error, wanted ${errno}`);
  assert.ok([errno].flat().includes(error.errno), `error ${error.errno} (${error.message}), wanted ${errno}`);
  if (state) assert.equal(error.sqlState, state, `SQLSTATE of ${error.errno}`);
}

export async function one(connection, sql, values) {
  const [rows] = await (values ? connection.execute(sql, values) : connection.query(sql));
  return Object.values(rows[0])[0];
}

const asText = (value) => (value === null ? null : Buffer.isBuffer(value) ? value.toString() : String(value));

/** Plays one scenario; `prepared` sends what can be prepared over the binary protocol. */
export async function play(scenario, prepared) {
  const name = `${prefix}_${prepared ? "p" : "t"}_${scenario.name}`.slice(0, 56);
  const fill = (text) => text.replaceAll("{p}", name).replaceAll("{db}", env("DATABASE"));
  const connections = {};
  try {
    for (const [index, step] of scenario.steps.entries()) {
      const key = step.conn ?? "a";
      // The scenarios count changed rows, not found ones.
      connections[key] ??= await connect({ flags: ["-FOUND_ROWS"] });
      const sql = fill(step.sql);
      const binary = prepared && /^(select|insert|update|delete)\b/i.test(sql);
      const run = async () => {
        const connection = connections[key];
        if (!binary) return connection.query({ sql, rowsAsArray: true });
        try {
          return await connection.execute({ sql, rowsAsArray: true });
        } finally {
          // Or the next use of the same text runs the statement as it was prepared in another state.
          connection.unprepare({ sql, rowsAsArray: true });
        }
      };
      try {
        await playStep(step, run, fill);
      } catch (error) {
        throw new Error(`step ${index + 1} \`${sql.slice(0, 200)}\`: ${error.message}`);
      }
    }
  } finally {
    for (const connection of Object.values(connections)) await connection.end();
    await using({}, (connection) => connection.query(`DROP TABLE IF EXISTS ${name}, ${name}_2`));
  }
}

async function playStep(step, run, fill) {
  if (step.error) return expectError(run(), step.error, step.state);
  if (!step.rows) {
    const [result] = await run();
    if (step.affected !== undefined) assert.equal(result.affectedRows, step.affected, "affected rows");
    return undefined;
  }
  const wanted = JSON.parse(fill(JSON.stringify(step.rows)));
  const deadline = Date.now() + WAIT_AT_MOST_MS;
  for (;;) {
    try {
      const [rows] = await run();
      // A block or a CALL answers with a list of results.
      const table = Array.isArray(rows.at(-1)) || rows.length === 0 ? rows : [];
      const result = rows.length && Array.isArray(rows[0]?.[0]) ? rows[0] : table;
      assert.deepEqual(result.map((row) => row.map(asText)), wanted);
      return undefined;
    } catch (error) {
      if (!step.eventually || Date.now() > deadline) throw error;
      await sleep(10);
    }
  }
}

export function scenarios(flavor) {
  const path = env("SCENARIOS") || new URL("../scenarios.json", import.meta.url);
  return JSON.parse(fs.readFileSync(path)).filter((scenario) => (scenario.flavor ?? flavor) === flavor);
}
