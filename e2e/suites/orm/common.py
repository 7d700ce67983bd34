"""What the ORM programs share: settings, threads, and how they say what came of them.

Each program does what applications do, in several threads, for as many rounds as it is told, and checks what it reads.
"""

import os
import threading
import time
import traceback

THREADS = 6
ROUNDS = int(os.environ.get("DELPHINUS_ROUNDS", "20"))
HOST = os.environ["DELPHINUS_HOST"]
PORT = int(os.environ["DELPHINUS_PORT"])
USER = os.environ["DELPHINUS_USER"]
PASSWORD = os.environ["DELPHINUS_PASSWORD"]
DATABASE = os.environ["DELPHINUS_DATABASE"]


def expect(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")


def once(name, work):
    """Runs a part of the program and says what came of it."""
    begun = time.monotonic()
    try:
        work()
    except Exception as error:
        traceback.print_exc()
        print(f"FAIL {name}: {error}", flush=True)
        raise SystemExit(1)
    print(f"ok {name} ({time.monotonic() - begun:.2f} s)", flush=True)


def in_threads(work):
    """Runs `work(thread, round)` in all threads and rounds."""
    errors = []

    def run(thread):
        try:
            for number in range(ROUNDS):
                work(thread, number)
        except Exception as error:
            errors.append(error)
            traceback.print_exc()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
