package pyredisson;

import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RBucket;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * One of several who count up together: under the lock it reads a number, and writes the next one. What is written is
 * right only if nobody else is inside. Each says that it is connected, and begins when it is told to. Whoever was not
 * yet inside when it is over goes on for one more. The same is done, with the same keys, by
 * tests/interop/contention.py.
 *
 * <p>{@code contend client kind name counter until holdMicros restMicros}; the answer is when it came in and when it began
 * to go out, in nanoseconds, for each time that it was inside.
 */
final class Contention {
    private final Section section;
    private final boolean reads;
    private final RBucket<String> counter;
    private final RBucket<String> twin;
    private final RAtomicLong here;
    private final RBucket<String> begin;
    private final long until;
    private final long hold;
    private final long rest;

    Contention(List<RedissonClient> clients, String kind, String name, String[] request) throws Exception {
        section = section(Peer.Handle.of(clients, kind, name).object());
        RedissonClient client = clients.get(0);
        reads = kind.equals("read_lock");
        counter = client.getBucket(Peer.unquoted(request[6]), StringCodec.INSTANCE);
        twin = client.getBucket(Peer.unquoted(request[6]) + ":twin", StringCodec.INSTANCE);
        here = client.getAtomicLong(Peer.unquoted(request[6]) + ":here");
        begin = client.getBucket(Peer.unquoted(request[6]) + ":begin", StringCodec.INSTANCE);
        until = Long.parseLong(request[7]);
        hold = TimeUnit.MICROSECONDS.toNanos(Long.parseLong(request[8]));
        rest = TimeUnit.MICROSECONDS.toNanos(Long.parseLong(request[9]));
    }

    /** Whatever lets one in at a time. */
    private interface Section {
        void enter() throws InterruptedException;

        void leave();
    }

    private static Section section(Object object) {
        if (object instanceof Lock) {
            Lock lock = (Lock) object;
            return new Section() {
                public void enter() {
                    lock.lock();
                }

                public void leave() {
                    lock.unlock();
                }
            };
        }
        if (object instanceof RSemaphore) {
            RSemaphore semaphore = (RSemaphore) object;
            return new Section() {
                public void enter() throws InterruptedException {
                    semaphore.acquire();
                }

                public void leave() {
                    semaphore.release();
                }
            };
        }
        RPermitExpirableSemaphore permits = (RPermitExpirableSemaphore) object;
        return new Section() {
            private String permit;

            public void enter() throws InterruptedException {
                permit = permits.acquire(60, TimeUnit.SECONDS);
            }

            public void leave() {
                permits.release(permit);
            }
        };
    }

    long[] run() throws InterruptedException {
        long[] times = new long[1024];
        int count = 0;
        boolean over = false;
        here.incrementAndGet();
        while (!begin.isExists()) {
            pause(TimeUnit.MILLISECONDS.toNanos(1));
        }
        while (!over) {
            section.enter();
            long came = System.nanoTime();
            long value = read(counter);
            over = value >= until && count > 0;
            if (read(twin) != value) {
                throw new IllegalStateException("somebody else is inside: " + value + ", then " + read(twin));
            }
            if (!over && !reads) {
                counter.set(Long.toString(value + 1));
            }
            pause(hold);
            if (!over && !reads) {
                twin.set(Long.toString(value + 1));
            }
            if (count == times.length) {
                times = java.util.Arrays.copyOf(times, 2 * count);
            }
            if (!over) {
                times[count++] = came;
                times[count++] = System.nanoTime();
            }
            section.leave();
            if (!over && rest > 0) {
                pause(ThreadLocalRandom.current().nextLong(2 * rest));
            }
        }
        return java.util.Arrays.copyOf(times, count);
    }

    private static long read(RBucket<String> bucket) {
        String value = bucket.get();
        return value == null ? 0 : Long.parseLong(value);
    }

    private static void pause(long nanos) {
        if (nanos > 0) {
            LockSupport.parkNanos(nanos);
        }
    }
}
