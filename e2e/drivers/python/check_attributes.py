"""Query attributes of mysql-connector-python in text and prepared statements, on sessions that share connections.
Argument: `pure` or `cext`."""

# The C extension brings its own OpenSSL, which must be loaded before Python's `ssl` loads the system's.
import _mysql_connector  # noqa: F401  # isort: skip

import sys

import mysql.connector
from common import Settings

settings = Settings()
READ = "SELECT mysql_query_attribute_string('key'), mysql_query_attribute_string('other') FROM app.answered_by FOR UPDATE"


def session():
    return mysql.connector.connect(
        host=settings.host, port=settings.port, user=settings.user, password=settings.password,
        database=settings.database, autocommit=True, use_pure=sys.argv[1] == "pure", ssl_disabled=True,
    )


def text_of(value):
    return value.decode() if isinstance(value, (bytes, bytearray)) else value


def ask(cursor, attributes):
    for name, value in attributes.items():
        cursor.add_attribute(name, value)
    cursor.execute(READ)
    row = cursor.fetchall()[0]
    cursor.clear_attributes()
    return [text_of(value) for value in row]


sessions = [session() for _ in range(3)]
for prepared in (False, True):
    cursors = [one.cursor(prepared=prepared) for one in sessions]
    for turn in range(4):
        for number, cursor in enumerate(cursors):
            value = f"{prepared} {turn} {number}"
            for attributes, wanted in (
                ({"key": value}, [value, None]),
                ({}, [None, None]),
                ({"other": value, "key": 12}, ["12", value]),
            ):
                found = ask(cursor, attributes)
                assert found == wanted, (prepared, turn, number, found, wanted)
                print(f"ok {prepared} {turn} {number} {attributes}")
    for cursor in cursors:
        cursor.close()
for one in sessions:
    one.close()
