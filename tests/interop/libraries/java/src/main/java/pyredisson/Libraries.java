package pyredisson;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.stream.Stream;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;

/**
 * Locks of Java's libraries, driven over stdin with the protocol of ../../../../../../java/src/main/java/pyredisson/Peer.java.
 *
 * <p>The verb is the library, the arguments are the address of the server and the name. Each request has a thread and a
 * connection, acquires the lock as the library does by default, waiting if it can, and keeps it.
 */
public final class Libraries {
    private static final Duration LEASE = Duration.ofMinutes(1);

    private Libraries() {}

    private static boolean acquire(String library, LettuceConnectionFactory server, String name) {
        if (library.equals("shedlock")) {
            LockConfiguration job = new LockConfiguration(Instant.now(), name, LEASE, Duration.ZERO);
            return new RedisLockProvider(server).lock(job).isPresent();
        }
        if (library.equals("shedlock-once")) { // A job that takes no time, and counts as one of two seconds.
            LockConfiguration job = new LockConfiguration(Instant.now(), name, LEASE, Duration.ofSeconds(2));
            Optional<SimpleLock> lock = new RedisLockProvider(server).lock(job);
            lock.ifPresent(SimpleLock::unlock);
            return lock.isPresent();
        }
        RedisLockRegistry registry = new RedisLockRegistry(server, library, LEASE.toMillis());
        registry.setRedisLockType(library.equals("spring-spin") ? RedisLockType.SPIN_LOCK : RedisLockType.PUB_SUB_LOCK);
        registry.obtain(name).lock();
        return true;
    }

    private static String answer(String library, String address, String name) {
        String[] parts = address.split(":");
        LettuceConnectionFactory server = new LettuceConnectionFactory(parts[0], Integer.parseInt(parts[1]));
        server.afterPropertiesSet();
        server.start();
        try {
            return "ok\tb" + acquire(library, server, name);
        } catch (RuntimeException error) {
            String message = URLEncoder.encode(String.valueOf(error.getMessage()), StandardCharsets.UTF_8);
            return "error\t" + error.getClass().getSimpleName() + "\t" + message;
        }
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] request = Stream.of(line.split("\t"))
                    .map(word -> URLDecoder.decode(word, StandardCharsets.UTF_8))
                    .toArray(String[]::new);
            new Thread(() -> System.out.println(request[0] + "\t" + answer(request[2], request[3], request[4]))).start();
        }
        System.exit(0); // Like a crash: locks stay held until they expire.
    }
}
