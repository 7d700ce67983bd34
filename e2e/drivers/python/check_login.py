"""Logins and changes of the user with PyMySQL and mysql-connector-python. Environment: DELPHINUS_HOST, DELPHINUS_PORT,
DELPHINUS_SOCKET, and DELPHINUS_LOGINS: a JSON list of [user, password, "ok" or the error's number]; the first has to
be right. Prints a line `ok ...` or `FAIL ...` for each login."""

# The C extension brings its own OpenSSL, which must be loaded before Python's `ssl` loads the system's.
import _mysql_connector  # noqa: F401  # isort: skip

import json
import os
import ssl
import sys

import mysql.connector
import pymysql

HOST, PORT = os.environ["DELPHINUS_HOST"], int(os.environ["DELPHINUS_PORT"])
SOCKET = os.environ["DELPHINUS_SOCKET"]
LOGINS = json.loads(os.environ["DELPHINUS_LOGINS"])
failed = 0


def by_pymysql(way, user, password):
    options = dict(user=user, password=password, connect_timeout=30)
    if way == "socket":
        options["unix_socket"] = SOCKET
    else:
        options.update(host=HOST, port=PORT)
    if way == "tls":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        options["ssl"] = context
    connection = pymysql.connect(**options)
    with connection.cursor() as cursor:
        cursor.execute("SELECT CURRENT_USER()")
        name = cursor.fetchone()[0]
    connection.close()
    return name


def connector(pure, way, user, password):
    options = dict(user=user, password=password, use_pure=pure, connection_timeout=30, ssl_disabled=way != "tls")
    if way == "socket":
        options["unix_socket"] = SOCKET
    else:
        options.update(host=HOST, port=PORT)
    return mysql.connector.connect(**options)


def current_user(connection):
    cursor = connection.cursor()
    cursor.execute("SELECT CURRENT_USER()")
    name = cursor.fetchall()[0][0]
    cursor.close()
    return name


def by_connector(pure):
    def log_in(way, user, password):
        connection = connector(pure, way, user, password)
        name = current_user(connection)
        connection.close()
        return name

    return log_in


def by_change_user(pure):
    first_user, first_password, _ = LOGINS[0]

    def change(way, user, password):
        connection = connector(pure, way, first_user, first_password)
        connection.cmd_change_user(username=user, password=password, database="")
        name = current_user(connection)
        # And back again, on the same connection.
        connection.cmd_change_user(username=first_user, password=first_password, database="")
        if current_user(connection).split("@")[0] != first_user:
            raise RuntimeError("the change back did nothing")
        connection.close()
        return name

    return change


def check(name, log_in, way, user, password, expected):
    global failed
    try:
        seen = "ok" if log_in(way, user, password).split("@")[0] == user else "another user"
        text = ""
    except (pymysql.MySQLError, mysql.connector.Error) as error:
        seen = error.args[0] if isinstance(error, pymysql.MySQLError) else error.errno
        text = str(error)
    except Exception as error:  # noqa: BLE001
        seen, text = type(error).__name__, str(error)
    if seen == expected:
        print(f"ok {name} {way} {user}")
    else:
        failed += 1
        print(f"FAIL {name} {way} {user}: expected {expected}, seen {seen} {text}")


KINDS = [
    ("pymysql", by_pymysql, ["tcp", "tls", "socket"]),
    ("connector_pure", by_connector(True), ["tls", "socket"]),
    ("connector_cext", by_connector(False), ["tls", "socket"]),
    ("change_user_pure", by_change_user(True), ["tls"]),
    ("change_user_cext", by_change_user(False), ["tls", "socket"]),
]
for name, log_in, ways in KINDS:
    for way in ways:
        for user, password, expected in LOGINS:
            check(name, log_in, way, user, password, expected)
sys.exit(1 if failed else 0)
