package pyredisson;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;
import org.redisson.config.SingleServerConfig;

/**
 * Real Redisson clients and threads that use them, told what to do line by line.
 *
 * <p>A request is {@code id TAB thread TAB verb TAB argument...}: it is done by the Java thread of that name, which is
 * made when it is first heard of and does one thing after another; what blocks in one hinders no other. The answer, in
 * the order of completion, is {@code id TAB ok TAB value}, or {@code id TAB error TAB class TAB message}. All texts are
 * URL-encoded.
 *
 * <p>An argument or value is a letter and what it says: {@code s} a text, {@code i} an int, {@code l} a long, {@code m} a
 * time in milliseconds as a long, {@code u} the {@code TimeUnit} of those before it, {@code d} a {@code Duration} in
 * milliseconds, {@code b} a boolean, {@code n} null, {@code a} longs and {@code t} texts with commas between them. Several
 * clients have commas between them. Objects are used by reflection, so that one source serves every version of Redisson.
 */
public final class Peer {
    private final PrintStream out;
    private final Map<String, RedissonClient> clients = new ConcurrentHashMap<>();
    private final Map<String, Worker> workers = new ConcurrentHashMap<>();

    private Peer(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream out = System.out;
        System.setOut(System.err); // Whatever else prints shall not be taken for an answer.
        Peer peer = new Peer(out);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            peer.accept(line.split("\t", -1));
        }
        Runtime.getRuntime().halt(0); // Whoever told it what to do is gone: like a crash, whatever is held.
    }

    private void accept(String[] request) {
        Worker worker = workers.computeIfAbsent(request[1], Worker::new);
        if (request[2].equals("interrupt")) {
            worker.thread.interrupt();
            answer(request[0], "ok", "n");
        } else if (request[2].equals("waits")) {
            answer(request[0], "ok", "b" + waits(worker.thread));
        } else {
            worker.todo.add(request);
        }
    }

    /** Whether a thread waits to be woken by a message; to wait for the answer to a command is something else. */
    private static boolean waits(Thread thread) {
        for (StackTraceElement frame : thread.getStackTrace()) {
            String place = frame.getClassName();
            if (place.equals("java.util.concurrent.Semaphore") || place.equals("org.redisson.misc.ReclosableLatch")) {
                return true;
            }
        }
        return false;
    }

    /** One thread: an owner of locks. */
    private final class Worker {
        private final LinkedBlockingQueue<String[]> todo = new LinkedBlockingQueue<>();
        /** One of each that it uses, as in a program that keeps them. */
        private final Map<String, Handle> handles = new ConcurrentHashMap<>();
        private final Thread thread;

        private Worker(String name) {
            thread = new Thread(this::run, name);
            thread.setDaemon(true);
            thread.start();
        }

        private void run() {
            while (true) {
                String[] request;
                try {
                    request = todo.take();
                } catch (InterruptedException lateInterrupt) {
                    continue;
                }
                try {
                    answer(request[0], "ok", encoded(perform(request)));
                } catch (Throwable error) {
                    Throwable cause = error;
                    while (cause instanceof InvocationTargetException) {
                        cause = cause.getCause();
                    }
                    answer(request[0], "error", cause.getClass().getSimpleName(), quoted(said(cause)));
                }
            }
        }

        private Object perform(String[] request) throws Exception {
            switch (request[2]) {
                case "number":
                    return thread.getId();
                case "clock":
                    return System.nanoTime();
                case "connect":
                    return connect(request);
                case "disconnect":
                    clients.remove(request[3]).shutdown(0, 2, TimeUnit.SECONDS);
                    return null;
                case "contend":
                    return new Contention(those(request[3]), unquoted(request[4]), unquoted(request[5]), request).run();
                case "pairs":
                    return Benchmark.pairs(those(request[3]), (int) number(request, 4), number(request, 5),
                            number(request, 6));
                case "turns":
                    return Benchmark.turns(clients.get(request[3]), number(request, 4), number(request, 5),
                            number(request, 6));
                case "passes":
                    return Benchmark.passes((RLock) handle(request[3], request[4], unquoted(request[5])).object,
                            number(request, 6), number(request, 7), number(request, 8), number(request, 9));
                case "many":
                    Benchmark.many(clients.get(request[3]), request[4].equals("take"), (int) number(request, 5));
                    return null;
                case "used":
                    return Benchmark.used();
                case "call":
                    return handle(request[3], unquoted(request[4]), unquoted(request[5])).call(request, 6);
                default:
                    throw new IllegalArgumentException("no such verb: " + request[2]);
            }
        }

        private Handle handle(String client, String kind, String name) throws Exception {
            String key = client + " " + kind + " " + name;
            Handle handle = handles.get(key);
            if (handle == null) {
                if (handles.size() > 1000) {
                    handles.clear(); // What it holds is counted in Redis and in the client, not there.
                }
                handle = Handle.of(those(client), kind, name);
                handles.put(key, handle);
            }
            return handle;
        }

        private List<RedissonClient> those(String names) {
            return Arrays.stream(names.split(",")).map(clients::get).collect(Collectors.toList());
        }
    }

    /** An object of Redisson's, and the interface by which it is used. */
    record Handle(Object object, Class<?> face) {
        /**
         * By our name for its kind: {@code fair_lock}, or {@code read_lock} for one side of a read-write lock. Of several
         * kinds in one, {@code multi_lock/fair_lock} or {@code red_lock/lock}, is one over the locks of all these clients
         * by all these names, with commas between them.
         */
        static Handle of(List<RedissonClient> clients, String kind, String name) throws Exception {
            String[] kinds = kind.split("/");
            if (kinds.length == 1) {
                return of(clients.get(0), kind, name);
            }
            List<RLock> members = new ArrayList<>();
            for (RedissonClient client : clients) {
                for (String each : name.split(",")) {
                    members.add((RLock) of(client, kinds[1], each).object);
                }
            }
            RLock[] locks = members.toArray(new RLock[0]);
            boolean all = kinds[0].equals("multi_lock");
            RLock lock = all ? clients.get(0).getMultiLock(locks) : clients.get(0).getRedLock(locks);
            return new Handle(lock, RLock.class);
        }

        private static Handle of(RedissonClient client, String kind, String name) throws Exception {
            if (kind.equals("read_lock") || kind.equals("write_lock")) {
                RReadWriteLock both = client.getReadWriteLock(name);
                Object side = kind.equals("read_lock") ? both.readLock() : both.writeLock();
                return new Handle(side, RLock.class);
            }
            StringBuilder getter = new StringBuilder("get");
            for (String word : kind.split("_")) {
                getter.append(Character.toUpperCase(word.charAt(0))).append(word.substring(1));
            }
            Method method = RedissonClient.class.getMethod(getter.toString(), String.class);
            return new Handle(method.invoke(client, name), method.getReturnType());
        }

        Object call(String[] request, int at) throws Exception {
            List<Class<?>> types = new ArrayList<>();
            List<Object> values = new ArrayList<>();
            for (int i = at + 1; i < request.length; i++) {
                String text = request[i].substring(1);
                switch (request[i].charAt(0)) {
                    case 's':
                        types.add(String.class);
                        values.add(unquoted(text));
                        break;
                    case 'i':
                        types.add(int.class);
                        values.add(Integer.parseInt(text));
                        break;
                    case 'l':
                        types.add(long.class);
                        values.add(Long.parseLong(text));
                        break;
                    case 'm':
                        types.add(long.class);
                        values.add(Long.parseLong(text));
                        break;
                    case 't':
                        types.add(List.class);
                        values.add(Arrays.stream(text.split(",")).map(Peer::unquoted).collect(Collectors.toList()));
                        break;
                    case 'd':
                        types.add(Duration.class);
                        values.add(Duration.ofMillis(Long.parseLong(text)));
                        break;
                    case 'u':
                        types.add(TimeUnit.class);
                        values.add(TimeUnit.MILLISECONDS);
                        break;
                    default:
                        throw new IllegalArgumentException(request[i]);
                }
            }
            Method method = face.getMethod(request[at], types.toArray(new Class<?>[0]));
            return method.invoke(object, values.toArray());
        }
    }

    /** {@code connect name mode addresses watchdogMs sharded prefix}: a client, and its id. */
    private String connect(String[] request) throws Exception {
        Config config = new Config();
        config.setLockWatchdogTimeout(Long.parseLong(request[6]));
        BaseMasterSlaveServersConfig<?> cluster = null;
        BaseConfig<?> section;
        if (request[4].equals("cluster")) {
            ClusterServersConfig servers = config.useClusterServers();
            servers.addNodeAddress(unquoted(request[5]).split(","));
            servers.setScanInterval(1000);
            servers.setMasterConnectionMinimumIdleSize(1).setSlaveConnectionMinimumIdleSize(1);
            servers.setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(50);
            servers.setReadMode(ReadMode.MASTER); // A replica may not have what was counted before.
            config.setThreads(4).setNettyThreads(4);
            cluster = servers;
            section = servers;
        } else if (request[4].equals("untouched")) {
            section = config.useSingleServer().setAddress(unquoted(request[5])); // As it comes, to be measured.
        } else {
            // Many clients share a JVM here, and none has much to do.
            config.setThreads(4).setNettyThreads(4);
            SingleServerConfig server = config.useSingleServer();
            server.setAddress(unquoted(request[5])).setConnectionMinimumIdleSize(1);
            server.setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(50);
            section = server;
        }
        if (!request[4].equals("untouched")) {
            // What is sent again after a while counts twice in old versions: an unlock is refused the second time.
            section.setTimeout(15_000).setRetryInterval(5_000);
        }
        if (!request[8].isEmpty()) {
            mapNames(section, unquoted(request[8]));
        }
        if (cluster != null && !request[7].equals("AUTO")) {
            Class<?> mode = Class.forName("org.redisson.config.ShardedSubscriptionMode");
            for (Object each : mode.getEnumConstants()) {
                if (each.toString().equals(request[7])) {
                    cluster.getClass().getMethod("setShardedSubscriptionMode", mode).invoke(cluster, each);
                }
            }
        }
        RedissonClient client = Redisson.create(config);
        clients.put(request[3], client);
        return client.getId();
    }

    /** A name mapper that puts a prefix before each name; by reflection, since the interface has moved. */
    private static void mapNames(BaseConfig<?> section, String prefix) throws Exception {
        Method setter = Arrays.stream(section.getClass().getMethods())
                .filter(method -> method.getName().equals("setNameMapper")).findFirst().orElseThrow();
        Class<?> face = setter.getParameterTypes()[0];
        setter.invoke(section, Proxy.newProxyInstance(face.getClassLoader(), new Class<?>[] {face}, (self, asked, given) -> {
            switch (asked.getName()) {
                case "map":
                    return prefix + given[0];
                case "unmap":
                    return given[0].toString().substring(prefix.length());
                case "equals":
                    return self == given[0];
                case "hashCode":
                    return prefix.hashCode();
                default:
                    return prefix;
            }
        }));
    }

    private static long number(String[] request, int at) {
        return Long.parseLong(request[at]);
    }

    private void answer(String... words) {
        String line = String.join("\t", words);
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }

    private static String said(Throwable error) {
        StringBuilder text = new StringBuilder(String.valueOf(error.getMessage()));
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            text.append(" <- ").append(cause);
        }
        return text.toString();
    }

    private static String encoded(Object value) {
        if (value == null) {
            return "n";
        }
        if (value instanceof Boolean) {
            return "b" + value;
        }
        if (value instanceof Number) {
            return "l" + value;
        }
        if (value instanceof long[]) {
            return "a" + Arrays.stream((long[]) value).mapToObj(Long::toString)
                    .collect(Collectors.joining(","));
        }
        if (value instanceof List) {
            return "t" + ((List<?>) value).stream().map(each -> quoted(each.toString())).collect(Collectors.joining(","));
        }
        return "s" + quoted(value.toString());
    }

    static String quoted(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }

    static String unquoted(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }
}
