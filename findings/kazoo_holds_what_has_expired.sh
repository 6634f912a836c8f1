#!/usr/bin/env bash
# Guess: a holder of kazoo's lock that is cut off is told LOST when its session ends, and `lock.is_acquired` is False then; a write on
#        its next session fails.
# Seen:  while it is cut off it is told SUSPENDED only, for however long: another client has the lock after the session's end. LOST
#        comes when it is connected again, to a new session, on which its late writes pass. `is_acquired` stays True all the time.
# A holder must stop at SUSPENDED, and writes need the czxid of the lock's node. `timeout=1` becomes 4 s, as only the log says, below DEBUG.
# Versions: ZooKeeper 3.9.5 (by Maven, Java 17), kazoo 2.11.0. Run on 2026-11-29, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install kazoo==2.11.0
cat >"$folder/pom.xml" <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>server</groupId><artifactId>server</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.zookeeper</groupId><artifactId>zookeeper</artifactId><version>3.9.5</version></dependency>
    <dependency><groupId>io.dropwizard.metrics</groupId><artifactId>metrics-core</artifactId><version>4.1.12.1</version></dependency>
    <dependency><groupId>org.xerial.snappy</groupId><artifactId>snappy-java</artifactId><version>1.1.10.5</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B -Dstyle.color=never -f "$folder/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
    -DoutputDirectory="$folder/lib" >/dev/null
"$folder/venv/bin/python" - "$folder" <<'PROGRAM'
import logging
import re
import socket
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

from kazoo.client import KazooClient

folder, lines = Path(sys.argv[1]), []

class Kept(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())


logging.getLogger("kazoo").setLevel(1)
logging.getLogger("kazoo").addHandler(Kept())


class Proxy:
    """A way to the server that can be cut."""

    def __init__(self, to):
        self.to, self.open, self.sockets = to, True, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            one = self.listener.accept()[0]
            if not self.open:
                one.close()
                continue
            other = socket.create_connection(("127.0.0.1", self.to))
            self.sockets += [one, other]
            for pair in (one, other), (other, one):
                threading.Thread(target=self.copy, args=pair, daemon=True).start()

    def copy(self, source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        target.close()

    def cut(self):
        self.open = False
        for each in self.sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, lines[-10:]
        time.sleep(0.05)


with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
(folder / "config").write_text(f"tickTime=2000\ndataDir={folder}/data\nclientPort={port}\nadmin.enableServer=false\n4lw.commands.whitelist=srvr,envi\n")
command = ["java", "-cp", f"{folder}/lib/*", "org.apache.zookeeper.server.ZooKeeperServerMain", str(folder / "config")]
server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    other = KazooClient(f"127.0.0.1:{port}")
    other.start(60)
    proxy, states = Proxy(port), []
    holder = KazooClient(f"127.0.0.1:{proxy.port}", timeout=1)
    holder.start(30)
    holder.add_listener(lambda state: states.append(str(state)))
    holder.ensure_path("/data")
    lock = holder.Lock("/report")
    lock.acquire()
    [granted] = {int(each) for each in re.findall(r"session timeout: (\d+)", "\n".join(lines)) if each != "10000"}
    proxy.cut()
    began = time.monotonic()
    others = other.Lock("/report")
    assert others.acquire(timeout=30)
    assert other.exists(f"{others.path}/{others.node}").czxid > 0
    waited = time.monotonic() - began
    time.sleep(3)
    while_cut_off = (states[:], lock.is_acquired)
    proxy.open = True
    until(lambda: "CONNECTED" in states)
    holder.set("/data", b"late")
    print(f"kazoo {version('kazoo')}, ZooKeeper {'.'.join(map(str, other.server_version()))}")
    print(f"  timeout=1: {granted} ms; another client has the lock after {waited:.1f} s")
    print("  states while it is cut off, and is_acquired:", *while_cut_off)
    print("  states in all, is_acquired, data:", states, lock.is_acquired, other.get("/data")[0])
    assert granted == 4000
    assert 2 < waited < 8
    assert while_cut_off == (["SUSPENDED"], True)
    assert (states, lock.is_acquired, other.get("/data")[0]) == (["SUSPENDED", "LOST", "CONNECTED"], True, b"late")
finally:
    server.kill()
    server.wait()
PROGRAM
