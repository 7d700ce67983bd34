"""mysql-connector-python, pure or with the C extension (argument `pure` or `cext`): text and prepared statements,
reset connection, change user, pooling, long data."""

# The C extension brings its own OpenSSL, which must be loaded before Python's `ssl` loads the system's.
import _mysql_connector  # noqa: F401  # isort: skip

import datetime as dt
import decimal
import io
import sys
import tempfile
import warnings

import mysql.connector
import mysql.connector.pooling
from mysql.connector.constants import ClientFlag

import common
from common import Checks, Failed, Settings, expect, expect_error, expect_true

KIND = sys.argv[1]
PURE = KIND == "pure"
settings = Settings()
checks = Checks(f"connector_{KIND}")
flavor = "mysql"
# The driver pings the server before each cursor, which resets what these scenarios look at.
RESET_BY_PING = {"row_count"}


def options(**changes):
    result = dict(
        host=settings.host, port=settings.port, user=settings.user, password=settings.password,
        database=settings.database, charset="utf8mb4", collation="utf8mb4_general_ci", autocommit=True,
        connection_timeout=60, use_pure=PURE, ssl_disabled=not settings.tls, compress=settings.compress,
        allow_local_infile=True,
    )
    result.update(changes)
    if "unix_socket" in result:
        del result["host"], result["port"]
        result["ssl_disabled"] = True
    return result


def connect(**changes):
    return mysql.connector.connect(**options(**changes))


def error_of(error):
    if not isinstance(error, mysql.connector.Error):
        raise error
    return error.errno, error.sqlstate


def query(connection, sql, params=None, prepared=False):
    # A cursor whose statement failed is left to the garbage collector: closing it hides the error behind another.
    cursor = connection.cursor(prepared=True) if prepared else connection.cursor(buffered=True)
    cursor.execute(sql, params or ())
    rows = [list(row) for row in cursor.fetchall()] if cursor.with_rows else []
    cursor.close()
    return rows


def execute(connection, sql, params=None, prepared=False):
    cursor = connection.cursor(prepared=prepared)
    cursor.execute(sql, params or ())
    if cursor.with_rows:
        cursor.fetchall()
    count = cursor.rowcount
    cursor.close()
    return count


class Session:
    """Plays scenario steps; `prepared` sends what can be prepared over the binary protocol."""

    def __init__(self, prepared):
        self.connection = connect()
        self.prepared = prepared

    def is_prepared(self, sql):
        return self.prepared and sql.split(None, 1)[0].upper() in ("SELECT", "INSERT", "UPDATE", "DELETE")

    def rows(self, sql):
        # The C driver is of no use after a prepared statement failed while its rows were read.
        if not PURE and "(SELECT 1 UNION SELECT 2)" in sql:
            return query(self.connection, sql)
        return query(self.connection, sql, prepared=self.is_prepared(sql))

    def affected(self, sql):
        return execute(self.connection, sql, prepared=self.is_prepared(sql))

    error = staticmethod(error_of)

    def close(self):
        self.connection.close()


def table(name):
    return f"{checks.prefix}_{name}"


def drop(name):
    with connect() as connection:
        execute(connection, f"DROP TABLE IF EXISTS {name}")


def login_tcp():
    with connect() as connection:
        user = query(connection, "SELECT CURRENT_USER()")[0][0]
        expect(user.split("@")[0], settings.user, "CURRENT_USER()")
        if PURE:
            expect(connection.is_secure, settings.tls, "the connection is encrypted")


def login_socket():
    with connect(unix_socket=settings.socket) as connection:
        expect(query(connection, "SELECT DATABASE()"), [[settings.database]])


def refused_logins():
    for password in ("certainly wrong", "x" * 200):
        try:
            connect(password=password)
        except mysql.connector.Error as error:
            # libmysqlclient does not send a password for full authentication without TLS.
            if not (error.errno == 2061 and not PURE and not settings.tls and flavor == "mysql"):
                expect((error.errno, error.sqlstate), (1045, "28000"), "error")
                expect_true("Access denied for user" in error.msg, error.msg)
        else:
            raise Failed("a wrong password was accepted")
    expect_error(lambda: connect(database="nowhere_" + checks.prefix), [1049, 1044], "42000", error_of)


def server_version():
    with connect() as connection:
        version = query(connection, "SELECT VERSION()")[0][0]
        expect(connection.server_info.removeprefix("5.5.5-"), version, "version in the greeting")
        expect(query(connection, "SELECT @@collation_connection"), [["utf8mb4_general_ci"]])


# What this version of the driver itself gets wrong in the binary protocol: the pure one reads negative TIMEs and
# YEARs wrongly; the C one writes doubles as floats, refuses 64 unsigned bits and cuts text at a NUL.
WRONG_IN_BINARY = ("tm", "y") if PURE else ("bu", "d", "tx")


def bound(value):
    """What the driver cannot bind in the binary protocol, as text: it packs a negative or long timedelta wrongly, and the C extension
    reads and writes the memory of a Decimal that it has freed already (valgrind shows it), which ended the program some times."""
    if isinstance(value, dt.timedelta):
        return common.time_text(value)
    return str(value) if isinstance(value, decimal.Decimal) and not PURE else value


def types(prepared):
    table_of_types = common.TypesTable(table(f"types_{prepared}"), WRONG_IN_BINARY if prepared else ())
    try:
        with connect(time_zone="+00:00") as connection:
            execute(connection, table_of_types.create())
            for row in table_of_types.sample_rows():
                row = [bound(value) for value in row]
                expect(execute(connection, table_of_types.insert(), row, prepared), 1, "affected rows")
            connection.start_transaction()
            table_of_types.expect(query(connection, table_of_types.select(), prepared=prepared))
            connection.commit()
    finally:
        drop(table_of_types.name)


def prepared_again_with_other_types():
    with connect() as connection, connection.cursor(prepared=True) as cursor:
        values = [1, "text 😀", None, 1.5, decimal.Decimal("3.14"), b"\x00\xff", dt.datetime(2024, 1, 2, 3, 4, 5, 6),
                  "", -1, 2**63 - 1, dt.date(2020, 2, 2)]
        for value in values * 2:
            cursor.execute("SELECT ? IS NULL, LENGTH(CONCAT(?, ''))", (bound(value), bound(value)))
            row = cursor.fetchall()[0]
            expect(row[0], 1 if value is None else 0, f"IS NULL of {value!r}")
            if isinstance(value, str):
                expect(row[1], len(value.encode()), f"length of {value!r}")


def prepared_many():
    """Many statements open at once, run out of order, some closed in between."""
    with connect() as connection:
        cursors = []
        for number in range(100):
            cursor = connection.cursor(prepared=True)
            cursor.execute(f"SELECT {number} + ?", (1,))
            expect(int(cursor.fetchall()[0][0]), number + 1)
            cursors.append((number, cursor))
        for number, cursor in cursors[::7]:
            cursor.close()
        open_cursors = [pair for place, pair in enumerate(cursors) if place % 7]
        for number, cursor in reversed(open_cursors):
            cursor.execute(f"SELECT {number} + ?", (2,))
            expect(int(cursor.fetchall()[0][0]), number + 2)
            cursor.close()
        expect(query(connection, "SELECT 1"), [[1]])


def prepared_errors():
    with connect() as connection:
        expect_error(lambda: query(connection, "SELEC ?", (1,), True), 1064, "42000", error_of)
        expect_error(lambda: query(connection, f"SELECT * FROM {table('none')} WHERE a = ?", (1,), True),
                     1146, "42S02", error_of)
        expect(query(connection, "SELECT ?", ("ok",), True), [["ok"]])


def insert_ids():
    name = table("ids")
    try:
        with connect() as connection:
            execute(connection, f"CREATE TABLE {name} (id INT AUTO_INCREMENT PRIMARY KEY, v INT UNIQUE)")
            for prepared, first in ((False, 1), (True, 3)):
                with connection.cursor(prepared=prepared) as cursor:
                    cursor.execute(f"INSERT INTO {name} (v) VALUES (%s), (%s)", (first, first + 1))
                    expect((cursor.lastrowid, cursor.rowcount), (first, 2), "lastrowid and rowcount")
                    expect_error(lambda: cursor.execute(f"INSERT INTO {name} (id, v) VALUES (%s, %s)", (99, first)),
                                 1062, "23000", error_of)
            expect(query(connection, "SELECT LAST_INSERT_ID()"), [[3]])
            expect(query(connection, "SELECT LAST_INSERT_ID()", prepared=True), [[3]])
    finally:
        drop(name)


def found_rows_flag():
    name = table("found")
    try:
        with connect(client_flags=[-ClientFlag.FOUND_ROWS]) as changed, \
                connect(client_flags=[ClientFlag.FOUND_ROWS]) as found:
            execute(found, f"CREATE TABLE {name} (v INT)")
            execute(found, f"INSERT INTO {name} VALUES (1), (1), (2)")
            for prepared in (False, True, False, True):
                expect(execute(changed, f"UPDATE {name} SET v = 1 WHERE v = 1", None, prepared), 0, "changed rows")
                expect(execute(found, f"UPDATE {name} SET v = 1 WHERE v = 1", None, prepared), 2, "found rows")
    finally:
        drop(name)


def transaction_api():
    name = table("txn")
    try:
        with connect() as connection:
            execute(connection, f"CREATE TABLE {name} (v INT)")
            connection.start_transaction(isolation_level="SERIALIZABLE")
            expect(connection.in_transaction, True, "in_transaction")
            execute(connection, f"INSERT INTO {name} VALUES (?)", (1,), prepared=True)
            connection.rollback()
            expect(connection.in_transaction, False, "in_transaction")
            connection.start_transaction(consistent_snapshot=True)
            execute(connection, f"INSERT INTO {name} VALUES (?)", (2,), prepared=True)
            connection.commit()
            expect(query(connection, f"SELECT v FROM {name} FOR UPDATE", prepared=True), [[2]])
            connection.autocommit = False
            execute(connection, f"INSERT INTO {name} VALUES (3)")
            connection.rollback()
            connection.autocommit = True
            expect(query(connection, f"SELECT v FROM {name} FOR UPDATE"), [[2]])
    finally:
        drop(name)


def big_values(size):
    data = common.noise(size, size)
    with connect() as connection:
        for prepared in (False, True):
            row = query(connection, "SELECT LENGTH(%s), SHA2(%s, 256)", (data, data[: size // 2]), prepared)[0]
            expect(row[0], size, "length of the parameter")
            expect(row[1], common.digest(data[: size // 2]), "digest of the parameter")
            if prepared and PURE and size > 2**24:
                continue  # the pure driver cannot read binary rows of two packets
            row = query(connection, "SELECT REPEAT('ab', %s), 7", (size // 2,), prepared)[0]
            expect_true(row[0] == "ab" * (size // 2), "the big result differs")
            expect(row[1], 7, "the column after the big one")
        expect(query(connection, "SELECT 1"), [[1]])


def long_data():
    """COM_STMT_SEND_LONG_DATA in pieces, through the low-level calls."""
    if not PURE:
        return
    data = common.noise(common.MEGABYTE, 3)
    with connect() as connection:
        statement = connection.cmd_stmt_prepare(b"SELECT LENGTH(?), SHA2(?, 256)")["statement_id"]
        cursor = connection.cursor(prepared=True)
        cursor.execute("SELECT LENGTH(?), SHA2(?, 256)", (io.BytesIO(data), io.BytesIO(data)))
        row = cursor.fetchall()[0]
        expect([row[0], row[1]], [len(data), common.digest(data)], "long data")
        cursor.close()
        connection.cmd_stmt_reset(statement)
        connection.cmd_stmt_close(statement)
        expect(query(connection, "SELECT 1"), [[1]])


def stream_many_rows():
    with connect() as connection:
        for prepared in (False, True):
            cursor = connection.cursor(prepared=prepared)
            cursor.execute(common.MANY_ROWS)
            count = total = 0
            for number, _ in cursor:
                count, total = count + 1, total + int(number)
            expect((count, total), (common.MANY_ROWS_COUNT, common.MANY_ROWS_SUM), "rows and their sum")
            cursor.close()


def multi_statements():
    with connect() as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT 1; SET @m = 2; SELECT @m, ';'")
        results = [cursor.fetchall() if cursor.with_rows else None]
        while cursor.nextset():
            results.append(cursor.fetchall() if cursor.with_rows else None)
        expect(results, [[(1,)], None, [(2, ";")]], "results")
        cursor.close()
        expect(query(connection, "SELECT 4"), [[4]])


def stored_procedure():
    name = table("proc")
    with connect() as connection:
        try:
            execute(connection, f"CREATE PROCEDURE {name}(IN n INT, OUT doubled INT) "
                                "BEGIN SELECT n; SET doubled = n * 2; SELECT n + 1; END")
            cursor = connection.cursor()
            expect(int(cursor.callproc(name, (21, 0))[1]), 42, "OUT parameter")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                results = list(cursor.stored_results())
            expect([result.fetchall() for result in results], [[(21,)], [(22,)]], "results")
            cursor.close()
        finally:
            execute(connection, f"DROP PROCEDURE IF EXISTS {name}")


def load_data_local():
    name = table("load")
    try:
        with connect() as connection, tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
            execute(connection, f"CREATE TABLE {name} (id INT, v VARCHAR(100))")
            file.writelines(f"{n}\tvalue {n}\n" for n in range(20_000))
            file.flush()
            expect(execute(connection, f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE {name}"), 20_000)
            expect(query(connection, "SELECT 1"), [[1]])
    finally:
        drop(name)


def ping_reset_change_user():
    with connect() as connection:
        connection.ping(reconnect=False)
        expect(query(connection, "SET @kept = 5") or query(connection, "SELECT @kept"), [[5]])
        execute(connection, "CREATE TEMPORARY TABLE temporary_thing (v INT)")
        connection.cmd_reset_connection()
        expect(query(connection, "SELECT @kept, DATABASE()"), [[None, settings.database]])
        expect_error(lambda: query(connection, "SELECT * FROM temporary_thing"), 1146, "42S02", error_of)
        execute(connection, "SET @kept = 6, time_zone = '+07:00'")
        try:
            connection.cmd_change_user(settings.user, settings.password, "information_schema")
        except mysql.connector.Error as error:
            # libmysqlclient refuses full authentication without TLS, also here.
            if error.errno != 2061 or PURE or settings.tls:
                raise
            return
        expect(query(connection, "SELECT @kept, DATABASE()"), [[None, "information_schema"]])
        expect(query(connection, "SELECT @@time_zone")[0][0] == "+07:00", False, "time zone kept")


def change_user_to_a_wrong_password():
    connection = connect()
    refused = [1045] if PURE or settings.tls or flavor == "mariadb" else [1045, 2061]
    expect_error(lambda: connection.cmd_change_user(settings.user, "certainly wrong", settings.database),
                 refused, None, error_of)


def low_level_commands():
    with connect() as connection:
        statistics = connection.cmd_statistics()
        expect_true(statistics and "Uptime" in str(statistics), f"COM_STATISTICS: {statistics!r}")
        connection.cmd_init_db("information_schema")
        expect(query(connection, "SELECT DATABASE()"), [["information_schema"]])
        expect_error(lambda: connection.cmd_init_db("nowhere_" + checks.prefix), [1049, 1044], "42000", error_of)
        expect(query(connection, "SELECT DATABASE()"), [["information_schema"]])


def pool_of_connections():
    name = table("accounts")
    pool = mysql.connector.pooling.MySQLConnectionPool(
        pool_name=checks.prefix[-20:], pool_size=common.WORKERS, **options(autocommit=False))
    try:
        with connect() as admin:
            execute(admin, f"CREATE TABLE {name} (id INT PRIMARY KEY, balance INT NOT NULL)")
            for account in range(1, common.ACCOUNTS + 1):
                execute(admin, f"INSERT INTO {name} VALUES (?, ?)", (account, common.OPENING_BALANCE), True)

        def transfer(source, target, amount):
            done = False
            while not done:
                connection = pool.get_connection()
                try:
                    done = try_transfer(connection, name, (source, target, amount))
                finally:
                    connection.close()

        common.run_transfers(transfer)
        with connect(autocommit=False) as admin:
            total, count = query(admin, f"SELECT SUM(balance), COUNT(*) FROM {name}")[0]
            admin.commit()
        expect((int(total), count), (common.ACCOUNTS * common.OPENING_BALANCE, common.ACCOUNTS), "sum of balances")
    finally:
        pool._remove_connections()
        drop(name)


def try_transfer(connection, name, order):
    source, target, amount = order
    try:
        before = query(connection, f"SELECT balance FROM {name} WHERE id = %s FOR UPDATE", (source,), True)[0][0]
        execute(connection, f"UPDATE {name} SET balance = %s WHERE id = %s", (before - amount, source), True)
        execute(connection, f"UPDATE {name} SET balance = balance + %s WHERE id = %s", (amount, target))
        connection.commit()
        return True
    except mysql.connector.Error as error:
        connection.rollback()
        if common.is_deadlock(error.errno):
            return False
        raise


def main():
    global flavor
    with connect() as connection:
        flavor = "mariadb" if "MariaDB" in query(connection, "SELECT VERSION()")[0][0] else "mysql"
    checks.run("login_tcp", login_tcp)
    if settings.socket:
        checks.run("login_socket", login_socket)
    checks.run("text_types", types, False)
    checks.run("prepared_types", types, True)
    for check in (
        refused_logins, server_version, prepared_again_with_other_types, prepared_many, prepared_errors, insert_ids,
        found_rows_flag, transaction_api, long_data, stream_many_rows, multi_statements, stored_procedure,
        load_data_local, ping_reset_change_user, change_user_to_a_wrong_password, low_level_commands,
        pool_of_connections,
    ):
        checks.run(check.__name__, check)
    checks.run("big_values_1m", big_values, common.MEGABYTE)
    checks.run("big_values_17m", big_values, common.BIG)
    for scenario in common.load_scenarios(flavor):
        for prepared in (False, True):
            if scenario["name"] in RESET_BY_PING or (prepared and scenario.get("text_only")):
                continue
            kind = "prepared" if prepared else "text"
            run = common.Scenario(scenario, f"{checks.prefix}{kind[0]}", settings.database, lambda: Session(prepared))
            checks.run(f"scenario_{scenario['name']}_{kind}", run)
    return checks.exit_status()


if __name__ == "__main__":
    sys.exit(main())
