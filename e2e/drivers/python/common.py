"""What the Python driver programs share: settings, the check runner, the scenarios and the sample values.

Knows nothing of a particular driver: a driver program passes in the few calls that differ.
"""

import datetime as dt
import decimal
import hashlib
import json
import os
import pathlib
import random
import threading
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
MEGABYTE = 1024 * 1024
# One above 16 MiB, so that a payload needs two packets and both limits are crossed.
BIG = 17 * MEGABYTE
WORKERS = 20
TRANSFERS_PER_WORKER = 15
ACCOUNTS = 10
OPENING_BALANCE = 100
DEADLINE_S = 30


class Settings:
    """The DELPHINUS_* environment."""

    def __init__(self):
        env = os.environ
        self.host = env.get("DELPHINUS_HOST", "127.0.0.1")
        self.port = int(env["DELPHINUS_PORT"])
        self.socket = env.get("DELPHINUS_SOCKET", "")
        self.user = env["DELPHINUS_USER"]
        self.password = env.get("DELPHINUS_PASSWORD", "")
        self.database = env["DELPHINUS_DATABASE"]
        self.tls = env.get("DELPHINUS_TLS", "off") == "on"
        self.compress = env.get("DELPHINUS_COMPRESS", "off") == "on"


class Failed(Exception):
    """A check saw something other than what it expected."""


def expect(got, wanted, what="value"):
    if got != wanted:
        raise Failed(f"{what}: got {short(got)}, wanted {short(wanted)}")


def expect_true(condition, what):
    if not condition:
        raise Failed(what)


def short(value):
    text = repr(value)
    return text if len(text) < 300 else f"{text[:280]}... ({len(text)} characters)"


class Checks:
    """Runs checks by name, prints one line for each, remembers whether any failed."""

    def __init__(self, driver):
        self.prefix = f"{driver}_{os.getpid()}_{random.randrange(16**6):06x}"
        self.failed = 0
        self.only = os.environ.get("DELPHINUS_ONLY", "")

    def run(self, name, check, *args):
        if self.only and self.only not in name:
            return
        begun = time.monotonic()
        try:
            check(*args)
        except Exception as error:  # noqa: BLE001 - every kind of failure is the result of the check
            self.failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {str(error)[:600]!r}", flush=True)
            if os.environ.get("DELPHINUS_TRACE"):
                traceback.print_exc()
        else:
            print(f"ok {name} ({time.monotonic() - begun:.1f} s)", flush=True)

    def exit_status(self):
        return 1 if self.failed else 0


def expect_error(call, errno, sqlstate, read):
    """`call` must fail with `errno` (or one of several) and `sqlstate`; `read(error)` gives both."""
    wanted = errno if isinstance(errno, list) else [errno]
    try:
        call()
    except Exception as error:  # noqa: BLE001
        got_errno, got_state = read(error)
        if got_errno not in wanted:
            raise Failed(f"error {got_errno} ({error}), wanted {errno}") from error
        if got_state is not None and sqlstate is not None:
            expect(got_state, sqlstate, f"SQLSTATE of {got_errno}")
        return
    raise Failed(f"no error, wanted {errno}")


def as_text(value):
    """The form that scenarios.json writes values in."""
    if value is None:
        return None
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode()
    return str(value)


def load_scenarios(flavor):
    for scenario in json.loads((HERE.parent / "scenarios.json").read_text()):
        if scenario.get("flavor", flavor) == flavor:
            yield scenario


def fill(value, prefix, database):
    """Puts the table prefix and the database in wherever a scenario names them."""
    if isinstance(value, str):
        return value.replace("{p}", prefix).replace("{db}", database)
    if isinstance(value, list):
        return [fill(item, prefix, database) for item in value]
    return value


class Scenario:
    """Plays one scenario. `open_session()` gives an object with `rows(sql)`, `affected(sql)`, `error(exc)`, `close()`."""

    def __init__(self, scenario, prefix, database, open_session):
        self.steps = scenario["steps"]
        self.prefix = f"{prefix}_{scenario['name']}"[:56]
        self.database = database
        self.open_session = open_session
        self.sessions = {}

    def __call__(self):
        try:
            for number, step in enumerate(self.steps, 1):
                sql = fill(step["sql"], self.prefix, self.database)
                try:
                    self.play(step, sql)
                except Exception as error:
                    raise Failed(f"step {number} `{sql[:200]}`: {error}") from error
        finally:
            for session in self.sessions.values():
                session.close()
            self.drop_tables()

    def play(self, step, sql):
        name = step.get("conn", "a")
        if name not in self.sessions:
            self.sessions[name] = self.open_session()
        session = self.sessions[name]
        if "error" in step:
            expect_error(lambda: session.rows(sql), step["error"], step.get("state"), session.error)
        elif "rows" in step:
            wanted = fill(step["rows"], self.prefix, self.database)
            self.rows(session, sql, wanted, step.get("eventually", False))
        else:
            affected = session.affected(sql)
            if "affected" in step:
                expect(affected, step["affected"], "affected rows")

    def rows(self, session, sql, wanted, eventually):
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                got = [[as_text(value) for value in row] for row in session.rows(sql)]
            except Exception as error:  # a replica may not know the table yet
                if not eventually or time.monotonic() > deadline:
                    raise
                got = error
            if got == wanted or not eventually or time.monotonic() > deadline:
                return expect(got, wanted, "rows")
            time.sleep(0.01)

    def drop_tables(self):
        session = self.open_session()
        session.affected(f"DROP TABLE IF EXISTS {self.prefix}, {self.prefix}_2")
        session.close()


COLUMNS = [
    ("t", "TINYINT"), ("tu", "TINYINT UNSIGNED"), ("s", "SMALLINT"), ("m", "MEDIUMINT"), ("i", "INT"),
    ("iu", "INT UNSIGNED"), ("b", "BIGINT"), ("bu", "BIGINT UNSIGNED"), ("f", "FLOAT"), ("d", "DOUBLE"),
    ("dc", "DECIMAL(30,10)"), ("dt", "DATE"), ("dtm", "DATETIME(6)"), ("ts", "TIMESTAMP(6) NULL"),
    ("tm", "TIME(6)"), ("y", "YEAR"), ("c", "CHAR(10)"), ("vc", "VARCHAR(200)"), ("vb", "VARBINARY(300)"),
    ("bl", "LONGBLOB"), ("tx", "LONGTEXT"), ("en", "ENUM('a','b')"),
]
ALL_BYTES = bytes(range(256))
SAMPLE_ROWS = [
    [-128, 255, -32768, -8388608, -2147483648, 4294967295, -(2**63), 2**64 - 1, 1.5, -2.25e300,
     decimal.Decimal("-12345678901234567890.0123456789"), dt.date(1000, 1, 1),
     dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(2038, 1, 19, 1, 2, 3, 456789),
     dt.timedelta(days=-34, hours=-22, minutes=-59, seconds=-59), 1901, "0123456789", "naïve 🐬 'quoted' \\ \"%s\" ?",
     ALL_BYTES, ALL_BYTES * 5, "\u0000\n\r\t\u001a😀" * 10, "a"],
    [127, 0, 32767, 8388607, 2147483647, 0, 2**63 - 1, 0, -0.125, 0.0, decimal.Decimal("0E-10"),
     dt.date(2024, 2, 29), dt.datetime(1970, 1, 1, 0, 0, 0), dt.datetime(2000, 1, 1, 12, 0, 0, 1),
     dt.timedelta(hours=838, minutes=59, seconds=58, microseconds=999999), 2155, "", "", b"", b"", "", "b"],
    [None] * 22,
]


class TypesTable:
    """A table with a column of each type but those in `without`."""

    def __init__(self, name, without=()):
        self.name = name
        self.places = [place for place, (column, _) in enumerate(COLUMNS) if column not in without]
        self.columns = [COLUMNS[place] for place in self.places]
        self.names = ", ".join(column for column, _ in self.columns)

    def create(self):
        columns = ", ".join(f"{column} {kind}" for column, kind in self.columns)
        return f"CREATE TABLE {self.name} (id INT AUTO_INCREMENT PRIMARY KEY, {columns}) CHARACTER SET utf8mb4"

    def insert(self):
        return f"INSERT INTO {self.name} ({self.names}) VALUES ({', '.join(['%s'] * len(self.columns))})"

    def select(self):
        return f"SELECT {self.names} FROM {self.name} ORDER BY id"

    def sample_rows(self):
        return [[row[place] for place in self.places] for row in SAMPLE_ROWS]

    def expect(self, rows):
        """Every value of every sample row came back with its value and its type."""
        expect(len(rows), len(SAMPLE_ROWS), "number of rows")
        for row, wanted_row in zip(rows, self.sample_rows()):
            for (column, _), got, wanted in zip(self.columns, row, wanted_row):
                got = bytes(got) if isinstance(got, bytearray) else got
                expect(got, wanted, f"column {column}")
                if isinstance(wanted, decimal.Decimal):
                    expect_true(isinstance(got, decimal.Decimal), f"column {column} is a {type(got).__name__}")


def time_text(value):
    """A timedelta as a TIME literal."""
    micros = abs(value) // dt.timedelta(microseconds=1)
    seconds, micros = divmod(micros, 1_000_000)
    sign = "-" if value < dt.timedelta(0) else ""
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"


def noise(size, seed):
    """Reproducible bytes of every value."""
    return random.Random(seed).randbytes(size)


def digest(data):
    return hashlib.sha256(data).hexdigest()


# 100,000 rows without a table: any backend can answer it at once.
TEN = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL " \
      "SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
MANY_ROWS = (
    "SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n, REPEAT('x', 50) AS pad "
    f"FROM {TEN} a, {TEN} b, {TEN} c, {TEN} e, {TEN} f"
)
MANY_ROWS_COUNT = 100_000
MANY_ROWS_SUM = MANY_ROWS_COUNT * (MANY_ROWS_COUNT - 1) // 2


def run_transfers(transfer):
    """`transfer(from_account, to_account, amount)` from many threads at once; re-raises the first failure."""
    errors = []

    def work(seed):
        dice = random.Random(seed)
        try:
            for _ in range(TRANSFERS_PER_WORKER):
                source, target = dice.sample(range(1, ACCOUNTS + 1), 2)
                transfer(source, target, dice.randrange(1, 10))
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def is_deadlock(errno):
    """Errors after which a server asks the client to run the transaction again."""
    return errno in (1213, 1205, 1020)
