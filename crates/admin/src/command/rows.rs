//! The table of all commands.

use super::kind::{ask, change, client, look, look_for_clients, operate};
use super::{
    AdminRole, Answer, Beyond, Command, Rows, Run, activity, audit, backends, cache, cache_digests,
    cache_streams, clusters, config, describe, digests, doctor, filters, hello, help, kill, limits, logs,
    memory, pause, pools, relay_fences, relay_replicas, relays, route, select, service, sessions, set,
    settings, snapshots, status, switchover, vips,
};

/// All commands, in the order of the reference.
pub(crate) const COMMANDS: &[Command] = &[
    look(
        &["SHOW BACKENDS"],
        "name",
        "The servers behind the proxy: role, state and since when, why they are down, and the connections to them. States: \
         unknown, up, down; draining and maintenance after SET BACKEND .. OFFLINE, with and without open connections. \
         max_connections is the most that the pool uses, and reserved_connections is the part of it for users with \
         connection_admin. A warning says that the server allows fewer than are configured.",
        &backends::BACKENDS,
    ),
    look(
        &["SHOW CLUSTERS"],
        "name",
        "The clusters: the backend that takes writes (NULL: none does), the version that clients are told, the sessions in each; and which schemas, \
         listeners and users choose it. The default one is for all others.",
        &clusters::CLUSTERS,
    ),
    look(
        &["SHOW SESSIONS", "SHOW PROCESSLIST", "SHOW FULL PROCESSLIST"],
        "user",
        "The clients: their id (as in CONNECTION_ID() and KILL), what they run and where, and why they are pinned. \
         `waiting`: the command has no backend connection yet. Statements have no literals. Idle sessions have no \
         statement.",
        &sessions::SESSIONS,
    ),
    look(
        &["SHOW PINS"],
        "reason",
        "Why sessions keep their backend connection, since when, and because of which statement (without literals).",
        &sessions::PINS,
    ),
    look(
        &["SHOW POOLS"],
        "backend",
        "Backend connections by worker, backend and user: idle (of these held for the session that used them last), in use, \
         clients that wait; and the limits, which are those of the backend over all workers.",
        &pools::POOLS,
    ),
    look(&["SHOW MEMORY"], "owner", "The memory in use by owner, and memory_limit.", &memory::MEMORY),
    look(
        &["SHOW WAITERS"],
        "user",
        "The sessions whose command has no backend connection yet, and for how long.",
        &sessions::WAITERS,
    ),
    look(
        &["SHOW PAUSES"],
        "cluster",
        "Whose statements wait because of PAUSE, since when, and how many; and what is still open there.",
        &pause::PAUSES,
    ),
    look(
        &["SHOW RULES"],
        "name",
        "The rules in their order, and how many statements each has matched, also those that are only tried out (log_only).",
        &route::RULES,
    ),
    look(
        &["SHOW FILTERS"],
        "name",
        "The filters of dangerous statements, and how many each has refused or logged.",
        &filters::FILTERS,
    ),
    look(
        &["SHOW LIMITS"],
        "name",
        "The limits for clients, what runs and waits by each, and how many statements each has refused.",
        &limits::LIMITS,
    ),
    look(&["SHOW VIPS", "VIP SHOW"], "name", "The virtual IPs, and where they are.", &vips::VIPS),
    Command {
        role: AdminRole::Operator,
        ..look(&["VIP CHECK"], "vip", "Whether the virtual IPs can work on this host, and what to do if not.", &vips::CHECKS)
    },
    look(
        &["SHOW RELAY STATUS", "SHOW RELAYS"],
        "name",
        "The replication relays: what each receives and acknowledges, and how far its log goes.",
        &relays::RELAYS,
    ),
    look(
        &["SHOW RELAY REPLICAS"],
        "host",
        "The replicas that follow the relays: how far each is, what it was sent, and how far it is behind.",
        &relay_replicas::REPLICAS,
    ),
    look(&["SHOW RELAY FILES"], "name", "The files of replication relays, oldest first.", &relays::FILES),
    Command {
        role: AdminRole::Operator,
        ..look(
            &["SHOW RELAY FENCES"],
            "name",
            "The source that each relay acknowledges to, who has cut it off, and the transactions that it has: for \
             proxies in other processes.",
            &relay_fences::FENCES,
        )
    },
    operate(
        &["RELAY"],
        "{START name [ADMIT 'uuid'] | STOP name | CUT name [BY MOVE EPOCH n] | TURN name TO 'server' AT 'address' IDENTITY 'uuid' EPOCH n | PURGE name TO 'file' | ROTATE name}",
        "START: the relay receives, or tries again at once; after CUT it takes any source that was not cut off, and the one with this uuid \
         (MariaDB: 'server-ID') in any case. STOP: it stops receiving. CUT: it cuts its source off for good: the answer comes when that is on \
         disk, and no acknowledgement leaves after it, also not after a restart. BY MOVE is for a proxy in another process that moves the \
         primary's role: the next move ends that cut. TURN: it follows the server at this address, also after a restart, and acknowledges \
         to it; 'uuid' as for START. With EPOCH, nothing happens if the relay is in another epoch (SHOW RELAY FENCES). PURGE: it removes \
         all files before this one that no replica reads. ROTATE: it has its source begin a new log file (FLUSH BINARY LOGS; its user needs RELOAD there), waits until that has come, and \
         says which file is closed now.",
        Run::Asking(|call| Box::pin(relays::relay(call))),
    ),
    look(&["SHOW MEMBERS"], "name", "The processes that share the lease store.", &vips::MEMBERS),
    operate(
        &["VIP"],
        "{MOVE name TO member | FREEZE | UNFREEZE | REBALANCE | PROMISE holder ms 'keys' 'members'}",
        "MOVE: the virtual IP goes to this member, and stays with it as long as that can have it. FREEZE: none moves, also if its holder cannot be \
         used, until UNFREEZE. REBALANCE forgets all wishes of MOVE. PROMISE is what members ask each other when the lease store is lost: to take none of these keys \
         over for so long. All processes that share the lease store follow.",
        Run::Asking(|call| Box::pin(vips::vip(call))),
    ),
    look(
        &["SHOW CACHE"],
        "item",
        "The cached answers: how many and how large, and the results of lookups, over all workers.",
        &cache::CACHE,
    ),
    look(
        &["SHOW CACHE DIGESTS"],
        "digest_text",
        "What the cache has done, by rule and digest: hits, misses, stale answers, statements that waited for \
         another session's answer, and the time of backends that was saved.",
        &cache_digests::CACHE_DIGESTS,
    ),
    look(
        &["SHOW CACHE STREAMS"],
        "cluster",
        "How far the cache knows the writes on each cluster that do not pass through this proxy (cache.invalidation \
         = \"stream\"): its lag, and why there is a gap.",
        &cache_streams::CACHE_STREAMS,
    ),
    look(
        &["SHOW DIGESTS"],
        "digest_text",
        "What statements cost: count, errors, times and their percentiles, where the time went, rows and bytes, by digest (the text without \
         literals), since the start or RESET DIGESTS. By user, schema and backend: SELECT from digests_by_origin.",
        &digests::DIGESTS,
    ),
    look(&["DOCTOR", "SHOW DOCTOR"], "object", "What is wrong with the file and the servers.", &doctor::DOCTOR),
    look(
        &["ACTIVITY STATUS", "SHOW ACTIVITY STATUS"],
        "state",
        "Whether the activity of sessions is stored, and how many samples were stored, dropped and lost. The \
         samples are in the tables activity, activity_minutes and activity_hours.",
        &activity::STORAGE,
    ),
    look(
        &["LOG STATUS", "SHOW LOGS"],
        "log",
        "The logs of statements: whether they are written, where, and how many entries were written, dropped and lost.",
        &logs::LOGS,
    ),
    look(
        &["SHOW STATUS", "SHOW STATS", "SHOW GLOBAL STATUS"],
        "variable_name",
        "The current values, and all counters since the start, over all workers. Those of a cluster have its name \
         (`cluster`).",
        &status::STATUS,
    ),
    look(&["SHOW VERSION"], "item", "The version, process and uptime of the proxy.", &settings::VERSION),
    look(
        &["SHOW LISTENERS"],
        "name",
        "The addresses where clients, operators and programs connect.",
        &settings::LISTENERS,
    ),
    look(
        &["SHOW USERS"],
        "name",
        "The users of the configuration and those who are connected, clients and operators; never their passwords.",
        &settings::USERS,
    ),
    look(
        &["SHOW CONFIG"],
        "option",
        "Every option with the value that it has, secrets hidden. An empty value: nothing is written, see the reference.",
        &settings::CONFIG,
    ),
    ask(
        &["SELECT", "WITH"],
        "... FROM table ...",
        "Reads tables, in SQLite's dialect: with WHERE, ORDER BY, LIMIT, joins and aggregates, also as a prepared statement. \
         tables.md has the tables. Without a table: variables and functions that clients ask for when they connect.",
        Run::Asking(|call| Box::pin(select::run(call))),
    ),
    Command {
        like: "name",
        ..ask(
            &["SHOW TABLES", "SHOW FULL TABLES"],
            "[LIKE 'pattern']",
            "The tables that SELECT reads.",
            Run::Showing(describe::show_tables),
        )
    },
    ask(
        &[
            "DESCRIBE",
            "DESC",
            "SHOW COLUMNS FROM",
            "SHOW FULL COLUMNS FROM",
            "SHOW FIELDS FROM",
            "SHOW FULL FIELDS FROM",
        ],
        "table",
        "The columns of a table: type, unit, and what they mean.",
        Run::Now(describe::describe),
    ),
    ask(
        &["SHOW CREATE TABLE", "SHOW CREATE VIEW"],
        "table",
        "The definition of the table in SQLite; of a view: its query.",
        Run::Now(describe::show_create),
    ),
    ask(
        &["EXPLAIN ROUTE"],
        "[IN CLUSTER name] statement",
        "Where a statement would go as the first of a session, why, and what might pin the session afterwards. It is not run. \
         Without a cluster: in the default one.",
        Run::Now(route::explain),
    ),
    ask(
        &["CONFIG PLAN"],
        "",
        "What CONFIG APPLY would do: every option that differs, and when that takes effect. Nothing changes.",
        Run::Now(config::plan),
    ),
    ask(
        &["CONFIG DIFF"],
        "",
        "What differs between what runs and the file: changes that are not saved, or not applied.",
        Run::Now(config::diff),
    ),
    ask(
        &["CONFIG HISTORY"],
        "",
        "The changes of what runs since the start: by whom, which, and whether the file has them. At most 64 are kept.",
        Run::Showing(config::history),
    ),
    Command {
        role: AdminRole::Operator,
        ..look(
            &["SHOW AUDIT"],
            "user",
            "The operators' changes, and the commands that were refused because the operator lacks the role, \
             without secrets.",
            &audit::AUDIT,
        )
    },
    switchover::SHOW,
    switchover::CHECK,
    look(&["SHOW COMMANDS", "HELP"], "command", "This table.", &help::COMMANDS_TABLE),
    operate(
        &["KILL"],
        "[CONNECTION | QUERY] {id | [USER name] [HOST host] [DIGEST hash] [OLDER seconds]}",
        "Ends a session, or only the statement that it runs, also on the backend. The id is that of SHOW SESSIONS. \
         Without an id: ends all sessions (or statements) of a user, of a host, that run a statement with a digest \
         of SHOW DIGESTS, or that have been in their state for that many seconds. The answer has their number.",
        Run::Now(kill::kill),
    ),
    operate(
        &["SET BACKEND"],
        "name {ONLINE | OFFLINE [SOFT | HARD] [WAIT seconds] | option = value, ...}",
        "OFFLINE: no new statement goes to the backend, what is pinned to it (such as an open transaction) finishes, idle \
         connections are closed. It stays so, whatever the probes say, until ONLINE or the end of the process. WAIT: the answer \
         comes when no connection is open any more; an error if that takes longer. HARD: sessions that still have one then, or \
         at once without WAIT, are ended. Options are those of [[cluster.backend]], such as weight; DEFAULT is what holds where \
         nothing is written.",
        Run::Asking(|call| Box::pin(backends::set(call))),
    )
    .beyond(Beyond { role: AdminRole::Admin, what: "option = value", are_these: backends::are_options }),
    operate(
        &["SET PROXY"],
        "{OFFLINE | ONLINE}",
        "OFFLINE: new clients are refused (error 3032), but for those of proxy.offline_exempt_networks; sessions end as soon as no transaction \
         is open. So a load balancer moves them elsewhere. Operators get in. SIGUSR1 and SIGUSR2 do the same.",
        Run::Now(service::set_proxy),
    ),
    operate(
        &["PAUSE"],
        "[CLUSTER name] [USER name] [WAIT seconds]",
        "New statements and transactions wait, of all clusters or one, of all users or one. Open transactions go on to their end, and so \
         does what keeps its connection. The answer has how many there are. WAIT: the answer comes when no transaction is open any \
         more, and is an error if that takes longer. A statement waits for routing.pause_timeout_ms, then it gets error 9102. \
         Sessions stay, and clients can log in.",
        Run::Asking(|call| Box::pin(pause::pause(call))),
    ),
    operate(
        &["RESUME"],
        "[CLUSTER name] [USER name]",
        "Ends the pause that PAUSE began with the same words. Without words: ends all pauses. Statements go on in \
         the order in which they came.",
        Run::Asking(|call| Box::pin(pause::resume(call))),
    ),
    switchover::SWITCHOVER,
    switchover::FAILOVER,
    switchover::REJOIN,
    operate(
        &["RECONNECT"],
        "[BACKEND name | USER name]",
        "Replaces connections to backends by new ones, without an error for a client: idle ones at once, others when their sessions give \
         them back. The answer has how many there are.",
        Run::Asking(|call| Box::pin(service::reconnect(call))),
    ),
    change(
        &["SET USER"],
        "name option = value, ...",
        "Changes options of a user of the configuration. Sessions that are there stay; the next login finds the new ones.",
        Run::Asking(|call| Box::pin(config::alter(call, Rows::User, "SET USER"))),
    ),
    change(
        &["SET RULE"],
        "name option = value, ...",
        "Changes options of a rule. Its counts go on.",
        Run::Asking(|call| Box::pin(config::alter(call, Rows::Rule, "SET RULE"))),
    ),
    change(
        &["SET FILTER"],
        "name option = value, ...",
        "Changes options of a filter. Its counts go on.",
        Run::Asking(|call| Box::pin(config::alter(call, Rows::Filter, "SET FILTER"))),
    ),
    change(
        &["SET LIMIT"],
        "name option = value, ...",
        "Changes options of a limit for clients. Its counts go on.",
        Run::Asking(|call| Box::pin(config::alter(call, Rows::Limit, "SET LIMIT"))),
    ),
    change(
        &["SET LISTENER"],
        "name option = value, ...",
        "Changes options of a listener, for clients that connect afterwards.",
        Run::Asking(|call| Box::pin(config::alter(call, Rows::Listener, "SET LISTENER"))),
    ),
    change(
        &["ADD"],
        "{BACKEND | USER | RULE | FILTER | LIMIT | LISTENER} name [IN CLUSTER cluster] option = value, ...",
        "Adds one to the running configuration. Options are those of its section in the reference. A backend gets statements once \
         the monitor has seen it; CONFIG SAVE writes the file.",
        Run::Asking(|call| Box::pin(config::add(call))),
    ),
    change(
        &["REMOVE"],
        "{BACKEND | USER | RULE | FILTER | LIMIT | LISTENER} name",
        "Removes one from the running configuration. Of a backend, what is pinned to it comes to its end, as with OFFLINE; sessions of \
         a user or a listener stay.",
        Run::Asking(|call| Box::pin(config::remove(call))),
    ),
    change(
        &["RELOAD CONFIG", "CONFIG APPLY"],
        "",
        "Reads the configuration file again, and changes what runs to what it says. The answer has every option that differs: `applied`, \
         `drain` (connections to a backend come to their end), or `with the next start`. A file with a mistake changes nothing. SIGHUP \
         does the same. Changes that were made by commands and not saved are gone then.",
        Run::Asking(|call| Box::pin(config::apply(call))),
    ),
    change(
        &["CONFIG ROLLBACK"],
        "number",
        "Goes back to what ran after a change of CONFIG HISTORY. The file stays as it is.",
        Run::Asking(|call| Box::pin(config::roll_back(call))),
    ),
    change(
        &["CONFIG SAVE"],
        "",
        "Writes what runs into the configuration file; comments and order stay. Refused if the file has changed since it was read.",
        Run::Asking(|call| Box::pin(config::save(call))),
    ),
    operate(
        &["CACHE FLUSH", "CLEAR CACHE", "PURGE CACHE", "PROXYSQL FLUSH QUERY CACHE"],
        "[SCHEMA name | TABLE name | DIGEST digest | RULE name]",
        "Removes all cached answers, or those of statements that name a table of this schema, or this table (with \
         or without its schema), those of a digest, or those of a rule. Names are those in the statements: a view \
         is not looked into.",
        Run::Now(cache_digests::flush),
    ),
    operate(
        &["LOG STOP"],
        "[slow_log | sql_log]",
        "Stops the slow log, the log of all statements, or both, until LOG START. Their options stay.",
        Run::Now(logs::stop),
    ),
    operate(
        &["LOG START"],
        "[slow_log | sql_log]",
        "Starts the slow log, the log of all statements, or both again, and reopens their files.",
        Run::Now(logs::start),
    ),
    operate(
        &["SNAPSHOT NOW", "SNAPSHOT"],
        "",
        "Takes a snapshot of all counters now, beside the one of each hour. The answer is its number. The tables \
         snapshots, snapshot_counters and snapshot_statements have the snapshots.",
        Run::Asking(|call| Box::pin(snapshots::take(call))),
    ),
    operate(
        &["RESET DIGESTS"],
        "",
        "Resets the counts of statements by digest. The counters since the start go on.",
        Run::Now(digests::reset),
    ),
    look_for_clients(
        &["SHOW VARIABLES", "SHOW SESSION VARIABLES", "SHOW GLOBAL VARIABLES"],
        Run::Showing(hello::show_variables),
    ),
    look_for_clients(&["SHOW WARNINGS", "SHOW ERRORS"], Run::Showing(hello::show_warnings)),
    look_for_clients(&["SHOW DATABASES", "SHOW SCHEMAS"], Run::Showing(hello::show_databases)),
    client(
        &["SET"],
        "section.option = value | NAMES ... | @@variable = ...",
        "Operators change an option of the running configuration with its path, such as routing.read_balance; DEFAULT is what holds where \
         nothing is written. What clients set for their own session is accepted and has no effect.",
        Run::Asking(|call| Box::pin(set::set(call))),
    )
    .beyond(Beyond { role: AdminRole::Admin, what: "section.option = value", are_these: set::is_option }),
    client(
        &["USE", "BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK"],
        "...",
        "Accepted, and has no effect.",
        Run::Now(|_| Ok(Answer::Done)),
    ),
];
