"""The admin listener with PyMySQL and mysql-connector-python: what they send by themselves, and a few commands.
Environment: DELPHINUS_HOST, DELPHINUS_PORT, DELPHINUS_USER, DELPHINUS_PASSWORD. Prints `ok ...` for each driver."""

# The C extension brings its own OpenSSL, which must be loaded before Python's `ssl` loads the system's.
import _mysql_connector  # noqa: F401  # isort: skip

import os

import mysql.connector
import pymysql

OPTIONS = dict(
    host=os.environ["DELPHINUS_HOST"],
    port=int(os.environ["DELPHINUS_PORT"]),
    user=os.environ["DELPHINUS_USER"],
    password=os.environ["DELPHINUS_PASSWORD"],
)


def check(name, connection, ping):
    cursor = connection.cursor()
    cursor.execute("SHOW BACKENDS")
    assert len(cursor.fetchall()) == 3
    cursor.execute("EXPLAIN ROUTE SELECT %s", ("it's",))
    assert ("target", "replica") in cursor.fetchall()
    cursor.execute("SHOW SESSIONS LIKE 'nobody'")
    assert list(cursor.fetchall()) == []
    cursor.execute("SELECT DATABASE(), @@version_comment, 7")
    assert cursor.fetchall()[0] == (None, "Delphinus, the operators' side", 7)
    cursor.execute("SELECT count(*), max(weight) / 2.0 FROM backends WHERE role <> %s AND weight > %s", ("mirror", 1))
    assert cursor.fetchall()[0] == (3, 50.0)
    try:
        cursor.execute("SHOW NONSENSE")
        raise SystemExit("an unknown command was taken")
    except (pymysql.err.ProgrammingError, mysql.connector.Error) as error:
        assert error.args[0] == 1064 or error.errno == 1064, error
    cursor.close()
    if name == "connector":
        cursor = connection.cursor(prepared=True)
        cursor.execute("SELECT name, weight FROM backends WHERE role = %s AND weight >= %s", ("primary", 100))
        assert [row[1] for row in cursor.fetchall()] == [100]
        cursor.close()
    ping()
    connection.commit()
    connection.rollback()
    connection.close()
    print("ok", name)


for autocommit in (False, True):
    connection = pymysql.connect(autocommit=autocommit, **OPTIONS)
    check("pymysql", connection, connection.ping)
    for pure in (False, True):
        connection = mysql.connector.connect(autocommit=autocommit, use_pure=pure, **OPTIONS)
        check("connector", connection, connection.ping)
        connection = mysql.connector.connect(use_pure=pure, **OPTIONS)
        connection.reset_session()
        connection.close()
