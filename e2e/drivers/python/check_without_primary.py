"""New sessions of the Python drivers while there is no primary: what they say of themselves, and what they read, waits for none."""

import mysql.connector
import pymysql

from common import Settings, expect

settings = Settings()
WHERE = dict(
    host=settings.host, port=settings.port, user=settings.user, password=settings.password,
    database=settings.database,
)


def by_pymysql(autocommit):
    return pymysql.connect(
        charset="utf8mb4", sql_mode="ANSI_QUOTES", init_command="SET @own = 'kept'", autocommit=autocommit, **WHERE
    )


def by_connector(autocommit):
    connection = mysql.connector.connect(
        use_pure=True, autocommit=autocommit, charset="utf8mb4", collation="utf8mb4_bin",
        sql_mode="ANSI_QUOTES", ssl_disabled=True, **WHERE
    )
    connection.cursor().execute("SET @own = 'kept'")
    return connection


DRIVERS = {
    "PyMySQL": by_pymysql,
    "Connector/Python": by_connector,
}

for name, connect in DRIVERS.items():
    # PEP 249 has it that sessions begin without autocommit.
    for autocommit in (False, True):
        connection = connect(autocommit)
        cursor = connection.cursor()
        for end in (connection.commit, connection.rollback):
            cursor.execute('SELECT "id", @own FROM down')
            expect([tuple(row) for row in cursor.fetchall()], [(1, "kept")], name)
            end()
        connection.close()
        print("ok", name, autocommit)
