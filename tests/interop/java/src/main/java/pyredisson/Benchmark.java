package pyredisson;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** What benchmarks/ measures in a JVM. Names of locks are those of benchmarks/wire.py, times are nanoseconds. */
final class Benchmark {
    private Benchmark() {}

    private static RLock lock(RedissonClient client, long number) {
        return client.getLock(String.format("bench:%05d", number));
    }

    /** By that number on one server; or on several, of which the majority counts. */
    private static RLock lock(List<RedissonClient> clients, long number) {
        if (clients.size() == 1) {
            return lock(clients.get(0), number);
        }
        return clients.get(0).getRedLock(clients.stream().map(each -> lock(each, number)).toArray(RLock[]::new));
    }

    private static void sleepUntil(long time) {
        while (System.nanoTime() < time) {
            LockSupport.parkNanos(time - System.nanoTime());
        }
    }

    /** Threads on separate locks: how many pairs in the window, how long that was, and how many pairs in all. */
    static long[] pairs(List<RedissonClient> clients, int count, long warmUp, long window)
            throws InterruptedException {
        long begin = System.nanoTime() + warmUp;
        long end = begin + window;
        long[] within = new long[count];
        long[] all = new long[count];
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int number = i;
            Thread thread = new Thread(() -> {
                RLock lock = lock(clients, number);
                for (long now = System.nanoTime(); now < end; now = System.nanoTime()) {
                    lock.lock();
                    lock.unlock();
                    all[number]++;
                    if (now >= begin) {
                        within[number]++;
                    }
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return new long[] {Arrays.stream(within).sum(), window, Arrays.stream(all).sum()};
    }

    /** One of several processes that take the same lock again and again: how long each wait was. */
    static long[] turns(RedissonClient client, long begin, long end, long hold) {
        RLock lock = lock(client, 0);
        long[] waits = new long[1024];
        int count = 0;
        sleepUntil(begin);
        for (long asked = System.nanoTime(); asked < end; asked = System.nanoTime()) {
            lock.lock();
            if (count == waits.length) {
                waits = Arrays.copyOf(waits, 2 * count);
            }
            long came = System.nanoTime();
            waits[count++] = came - asked;
            sleepUntil(came + hold);
            lock.unlock();
        }
        return Arrays.copyOf(waits, count);
    }

    /** One of two owners that pass a lock to and fro: when it asked, came in and began to go out, each time. */
    static long[] passes(RLock lock, long begin, long end, long hold, long rest) {
        List<Long> times = new ArrayList<>();
        sleepUntil(begin);
        for (long asked = System.nanoTime(); asked < end; asked = System.nanoTime()) {
            lock.lock();
            long came = System.nanoTime();
            sleepUntil(came + hold);
            long left = System.nanoTime();
            lock.unlock();
            times.addAll(List.of(asked, came, left));
            sleepUntil(System.nanoTime() + rest);
        }
        return times.stream().mapToLong(Long::longValue).toArray();
    }

    /** Take or give back many locks. */
    static void many(RedissonClient client, boolean take, int count) {
        for (int number = 0; number < count; number++) {
            if (take) {
                lock(client, number).lock();
            } else {
                lock(client, number).unlock();
            }
        }
    }

    /** Bytes of the heap that are in use, after what is not needed has been thrown away. */
    static long used() {
        Runtime runtime = Runtime.getRuntime();
        for (int i = 0; i < 3; i++) {
            System.gc();
        }
        return runtime.totalMemory() - runtime.freeMemory();
    }
}
