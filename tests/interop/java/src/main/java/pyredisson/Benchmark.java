package pyredisson;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** What benchmarks/java.py measures in a JVM. Names of locks are those of benchmarks/wire.py, times are nanoseconds. */
final class Benchmark {
    private Benchmark() {}

    private static RLock lock(RedissonClient client, long number) {
        return client.getLock(String.format("bench:%05d", number));
    }

    /** Threads on separate locks: how many pairs in the window, how long that was, and how many pairs in all. */
    static long[] pairs(RedissonClient client, int count, long warmUp, long window) throws InterruptedException {
        long begin = System.nanoTime() + warmUp;
        long end = begin + window;
        long[] within = new long[count];
        long[] all = new long[count];
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int number = i;
            Thread thread = new Thread(() -> {
                RLock lock = lock(client, number);
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
        while (System.nanoTime() < begin) {
            LockSupport.parkNanos(begin - System.nanoTime());
        }
        for (long asked = System.nanoTime(); asked < end; asked = System.nanoTime()) {
            lock.lock();
            if (count == waits.length) {
                waits = Arrays.copyOf(waits, 2 * count);
            }
            long came = System.nanoTime();
            waits[count++] = came - asked;
            while (System.nanoTime() < came + hold) {
                LockSupport.parkNanos(came + hold - System.nanoTime());
            }
            lock.unlock();
        }
        return Arrays.copyOf(waits, count);
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
