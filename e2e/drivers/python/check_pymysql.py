"""PyMySQL: text protocol only, unbuffered cursors, LOAD DATA LOCAL, multi-statements."""

import queue
import ssl
import sys
import tempfile

import pymysql
import pymysql.cursors
from pymysql.constants import CLIENT

import common
from common import Checks, Settings, expect, expect_error, expect_true

settings = Settings()
checks = Checks("pymysql")


def tls_context():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def connect(**changes):
    options = dict(
        host=settings.host, port=settings.port, user=settings.user, password=settings.password,
        database=settings.database, charset="utf8mb4", autocommit=True, connect_timeout=20,
        read_timeout=120, write_timeout=120,
    )
    options.update(changes)
    if settings.tls and "unix_socket" not in options:
        options["ssl"] = tls_context()
    else:
        options["ssl_disabled"] = True
    return pymysql.connect(**options)


def error_of(error):
    if not isinstance(error, pymysql.err.MySQLError):
        raise error
    return error.args[0], None


def query(connection, sql, params=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return [list(row) for row in cursor.fetchall()]


def execute(connection, sql, params=None):
    with connection.cursor() as cursor:
        return cursor.execute(sql, params)


class Session:
    def __init__(self):
        self.connection = connect()

    def rows(self, sql):
        return query(self.connection, sql)

    def affected(self, sql):
        return execute(self.connection, sql)

    error = staticmethod(error_of)

    def close(self):
        self.connection.close()


def table(name):
    return f"{checks.prefix}_{name}"


def login_tcp():
    connection = connect()
    expect_true(connection.open, "the connection is not open")
    user = query(connection, "SELECT CURRENT_USER()")[0][0]
    expect(user.split("@")[0], settings.user, "CURRENT_USER()")
    expect(isinstance(connection._sock, ssl.SSLSocket), settings.tls, "the connection is encrypted")
    connection.close()


def login_socket():
    with connect(unix_socket=settings.socket) as connection:
        expect(query(connection, "SELECT 1"), [[1]])
        expect(query(connection, "SELECT DATABASE()"), [[settings.database]])


def login_without_database():
    with connect(database=None) as connection:
        expect(query(connection, "SELECT DATABASE()"), [[None]])
        expect_error(lambda: query(connection, "SELECT * FROM nowhere"), 1046, "3D000", error_of)
        connection.select_db(settings.database)
        expect(query(connection, "SELECT DATABASE()"), [[settings.database]])


def refused_logins():
    expect_error(lambda: connect(password="certainly wrong"), 1045, "28000", error_of)
    expect_error(lambda: connect(password=""), 1045, "28000", error_of)
    # For a name that it does not know MariaDB takes somebody else's way to log in: 1275 if that is of old.
    expect_error(lambda: connect(user="nobody_" + checks.prefix[:20]), [1045, 1275], None, error_of)
    try:
        connect(password="certainly wrong")
    except pymysql.err.OperationalError as error:
        expect_true("Access denied for user" in error.args[1], f"message {error.args[1]!r}")
        expect_true("using password: YES" in error.args[1], f"message {error.args[1]!r}")


def unknown_database():
    expect_error(lambda: connect(database="nowhere_" + checks.prefix), [1049, 1044], "42000", error_of)


def server_version():
    connection = connect()
    told = connection.get_server_info()
    version = query(connection, "SELECT VERSION()")[0][0]
    expect(told.removeprefix("5.5.5-"), version, "version in the greeting")
    expect(query(connection, "SELECT @@character_set_client"), [["utf8mb4"]])
    connection.close()


def text_types():
    types = common.TypesTable(table("types"))
    connection = connect()
    try:
        execute(connection, "SET time_zone = '+00:00'")
        execute(connection, types.create())
        for row in types.sample_rows():
            expect(execute(connection, types.insert(), row), 1, "affected rows")
        connection.begin()
        types.expect(query(connection, types.select()))
        connection.commit()
    finally:
        execute(connection, f"DROP TABLE IF EXISTS {types.name}")
        connection.close()


def text_json():
    with connect() as connection:
        rows = query(connection, "SELECT JSON_EXTRACT(%s, '$.a[1]'), JSON_UNQUOTE(JSON_EXTRACT(%s, '$.s'))",
                     ('{"a": [1, 2]}', '{"s": "é😀"}'))
        expect([[str(value) for value in row] for row in rows], [["2", "é😀"]])


def column_metadata():
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 AS `naïve`, 'x' AS ``, NULL AS c")
        expect([column[0] for column in cursor.description], ["naïve", "", "c"], "column names")


def insert_ids():
    name = table("ids")
    connection = connect()
    try:
        execute(connection, f"CREATE TABLE {name} (id INT AUTO_INCREMENT PRIMARY KEY, v INT)")
        with connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO {name} (v) VALUES (1)")
            expect(cursor.lastrowid, 1, "lastrowid")
            expect(cursor.executemany(f"INSERT INTO {name} (v) VALUES (%s)", [(n,) for n in range(500)]), 500)
            expect(cursor.lastrowid, 2, "lastrowid of a multi-row insert")
        expect(query(connection, "SELECT LAST_INSERT_ID()"), [[2]])
    finally:
        execute(connection, f"DROP TABLE IF EXISTS {name}")
        connection.close()


def found_rows_flag():
    name = table("found")
    plain, found = connect(), connect(client_flag=CLIENT.FOUND_ROWS)
    try:
        execute(plain, f"CREATE TABLE {name} (v INT)")
        execute(plain, f"INSERT INTO {name} VALUES (1), (1), (2)")
        for _ in range(5):  # the two kinds of session must not share a connection's flag
            expect(execute(plain, f"UPDATE {name} SET v = 1 WHERE v = 1"), 0, "changed rows")
            expect(execute(found, f"UPDATE {name} SET v = 1 WHERE v = 1"), 2, "found rows")
    finally:
        execute(plain, f"DROP TABLE IF EXISTS {name}")
        plain.close()
        found.close()


def transaction_api():
    name = table("txn")
    connection = connect(autocommit=False)
    other = connect()
    try:
        execute(connection, f"CREATE TABLE {name} (v INT)")
        execute(connection, f"INSERT INTO {name} VALUES (1)")
        expect(connection.get_autocommit(), False, "autocommit")
        connection.rollback()
        execute(connection, f"INSERT INTO {name} VALUES (2)")
        connection.commit()
        expect(query(other, f"SELECT v FROM {name} FOR UPDATE"), [[2]])
    finally:
        connection.rollback()
        execute(other, f"DROP TABLE IF EXISTS {name}")
        connection.close()
        other.close()


def big_values(size):
    data = common.noise(size, size)
    with connect(max_allowed_packet=3 * common.BIG) as connection:
        rows = query(connection, "SELECT LENGTH(%s)", (data,))
        expect(rows, [[size]], "length of the parameter")
        hexed = data[: size // 2].hex()
        expect(query(connection, "SELECT SHA2(UNHEX(%s), 256)", (hexed,)), [[common.digest(data[: size // 2])]])
        got = query(connection, "SELECT %s, 1", (data,))[0]
        expect_true(got[0] == data or got[0].encode("utf-8", "surrogateescape") == data, "the echo differs")
        expect(got[1], 1, "the column after the big one")
        expect(query(connection, "SELECT REPEAT('ab', %s)", (size // 2,))[0][0], "ab" * (size // 2))
        expect(query(connection, "SELECT 1"), [[1]])


def exact_packet_boundaries():
    """Results whose payload ends exactly at 2^24-1 need an empty packet after them."""
    with connect(max_allowed_packet=3 * common.BIG) as connection:
        for size in range(2**24 - 1 - 6, 2**24 + 1):
            expect(len(query(connection, f"SELECT REPEAT('x', {size})")[0][0]), size)
            comment = "x" * (size - len("SELECT 1/**/") - 1)
            expect(query(connection, f"SELECT 1/*{comment}*/"), [[1]])


def stream_many_rows():
    connection = connect(cursorclass=pymysql.cursors.SSCursor)
    with connection.cursor() as cursor:
        cursor.execute(common.MANY_ROWS)
        count = total = 0
        for number, pad in cursor:
            count, total = count + 1, total + number
            expect(len(pad), 50)
    expect((count, total), (common.MANY_ROWS_COUNT, common.MANY_ROWS_SUM), "rows and their sum")
    connection.close()
    with connect() as buffered:
        expect(len(query(buffered, common.MANY_ROWS)), common.MANY_ROWS_COUNT)


def stream_abandoned():
    """A client that goes away in the middle of a result must not disturb others."""
    for _ in range(3):
        connection = connect(cursorclass=pymysql.cursors.SSCursor)
        cursor = connection.cursor()
        cursor.execute(common.MANY_ROWS)
        cursor.fetchone()
        connection._result.unbuffered_active = False  # or PyMySQL reads the rest when it frees the result
        connection._force_close()
    with connect() as connection:
        expect(query(connection, "SELECT 1"), [[1]])


def multi_statements():
    connection = connect(client_flag=CLIENT.MULTI_STATEMENTS)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1; SELECT 2, ';'; SET @m = 5; SELECT @m")
        expect(cursor.fetchall(), ((1,),))
        expect_true(cursor.nextset(), "no second result")
        expect(cursor.fetchall(), ((2, ";"),))
        cursor.nextset()
        cursor.nextset()
        expect(cursor.fetchall(), ((5,),))
        expect(cursor.nextset(), None, "a result too many")
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1; SELEC 2; SELECT 3")
        expect(cursor.fetchall(), ((1,),))
        expect_error(cursor.nextset, 1064, "42000", error_of)
    expect(query(connection, "SELECT 4"), [[4]])
    connection.close()
    with connect() as single:
        expect_error(lambda: query(single, "SELECT 1; SELECT 2"), 1064, "42000", error_of)
        expect(query(single, "SELECT 3;"), [[3]])


def stored_procedure():
    name = table("proc")
    connection = connect()
    try:
        execute(connection, f"CREATE PROCEDURE {name}(IN n INT) BEGIN SELECT n; SELECT n + 1, 'two'; "
                            "SET @from_proc = n; END")
        for n in (1, 10):
            with connection.cursor() as cursor:
                cursor.callproc(name, (n,))
                expect(cursor.fetchall(), ((n,),))
                expect_true(cursor.nextset(), "no second result")
                expect(cursor.fetchall(), ((n + 1, "two"),))
                expect_true(cursor.nextset(), "no status after the results")
                expect(cursor.nextset(), None, "a result too many")
            expect(query(connection, "SELECT @from_proc"), [[n]])
    finally:
        execute(connection, f"DROP PROCEDURE IF EXISTS {name}")
        connection.close()


def load_data_local():
    name = table("load")
    connection = connect(local_infile=True)
    try:
        execute(connection, f"CREATE TABLE {name} (id INT, v VARCHAR(100)) CHARACTER SET utf8mb4")
        with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as file:
            file.writelines(f"{n}\tnaïve {n}\n" for n in range(50_000))
            file.flush()
            count = execute(connection, f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE {name} CHARACTER SET utf8mb4")
        expect(count, 50_000, "loaded rows")
        connection.begin()
        expect(query(connection, f"SELECT COUNT(*), MAX(v) FROM {name} WHERE id < 10"), [[10, "naïve 9"]])
        connection.commit()
        with tempfile.NamedTemporaryFile("w") as empty:
            expect(execute(connection, f"LOAD DATA LOCAL INFILE '{empty.name}' INTO TABLE {name}"), 0)
        expect_error(lambda: execute(connection, f"LOAD DATA LOCAL INFILE '/nowhere/at/all' INTO TABLE {name}"),
                     [1017], None, error_of)
    finally:
        drop = connect()
        execute(drop, f"DROP TABLE IF EXISTS {name}")
        drop.close()


def ping():
    with connect() as connection:
        for _ in range(3):
            connection.ping(reconnect=False)
        expect_true(connection.thread_id() > 0, "no connection id")


def kill_of_an_unknown_connection():
    with connect() as connection:
        expect_error(lambda: execute(connection, "KILL 4294967290"), 1094, "HY000", error_of)
        expect_error(lambda: execute(connection, "KILL QUERY 4294967290"), 1094, "HY000", error_of)
        expect(query(connection, "SELECT 1"), [[1]])


def pool_of_connections():
    name = table("accounts")
    idle = queue.Queue()
    for _ in range(common.WORKERS // 2):
        idle.put(connect(autocommit=False))
    admin = connect()
    try:
        execute(admin, f"CREATE TABLE {name} (id INT PRIMARY KEY, balance INT NOT NULL)")
        with admin.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {name} VALUES (%s, %s)",
                               [(n, common.OPENING_BALANCE) for n in range(1, common.ACCOUNTS + 1)])

        def transfer(source, target, amount):
            connection = idle.get()
            try:
                while not try_transfer(connection, name, (source, target, amount)):
                    pass
            finally:
                idle.put(connection)

        common.run_transfers(transfer)
        admin.begin()
        total, count = query(admin, f"SELECT SUM(balance), COUNT(*) FROM {name}")[0]
        admin.commit()
        expect((int(total), count), (common.ACCOUNTS * common.OPENING_BALANCE, common.ACCOUNTS), "sum of balances")
    finally:
        while not idle.empty():
            idle.get().close()
        execute(admin, f"DROP TABLE IF EXISTS {name}")
        admin.close()


def try_transfer(connection, name, order):
    source, target, amount = order
    try:
        before = query(connection, f"SELECT balance FROM {name} WHERE id = %s FOR UPDATE", (source,))[0][0]
        execute(connection, f"UPDATE {name} SET balance = %s WHERE id = %s", (before - amount, source))
        execute(connection, f"UPDATE {name} SET balance = balance + %s WHERE id = %s", (amount, target))
        connection.commit()
        return True
    except pymysql.err.OperationalError as error:
        connection.rollback()
        if common.is_deadlock(error.args[0]):
            return False
        raise


def main():
    flavor = "mariadb" if "MariaDB" in query(connect(), "SELECT VERSION()")[0][0] else "mysql"
    checks.run("login_tcp", login_tcp)
    if settings.socket:
        checks.run("login_socket", login_socket)
    for check in (
        login_without_database, refused_logins, unknown_database, server_version, text_types, text_json,
        column_metadata, insert_ids, found_rows_flag, transaction_api, stream_many_rows, stream_abandoned,
        multi_statements, stored_procedure, load_data_local, ping, kill_of_an_unknown_connection, exact_packet_boundaries,
        pool_of_connections,
    ):
        checks.run(check.__name__, check)
    checks.run("big_values_1m", big_values, common.MEGABYTE)
    checks.run("big_values_17m", big_values, common.BIG)
    for scenario in common.load_scenarios(flavor):
        run = common.Scenario(scenario, checks.prefix, settings.database, Session)
        checks.run(f"scenario_{scenario['name']}", run)
    return checks.exit_status()


if __name__ == "__main__":
    sys.exit(main())
