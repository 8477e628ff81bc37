// A load generator for ZooKeeper in Java, for its best case. See task.py for what it is told and
// tells; generate.py is the same in Python.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

public final class Load {
    static final double BIN_S = 0.05;
    static final double PAUSE_S = 0.02;
    static final int CHILDREN = 1000;
    static final int SESSION_TIMEOUT_MS = 10_000;

    final Map<String, String> given = new HashMap<>();
    final Map<String, String> task = new HashMap<>();  // with the changes of a round
    final byte[] value;
    final List<ZooKeeper> clients = new ArrayList<>();
    final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    double began;
    long cpuBegan;

    // What the report holds.
    long done;
    int errors;
    final TreeMap<Integer, int[]> counts = new TreeMap<>();
    final List<double[]> pauses = new ArrayList<>();
    final Map<String, List<double[]>> timings = new TreeMap<>();
    double lastWrite;

    interface Call {
        void make() throws Exception;
    }

    public static void main(String[] words) throws Exception {
        Load load = new Load(words);
        load.run();
        System.exit(0);
    }

    Load(String[] words) {
        for (String word : words) {
            int equals = word.indexOf('=');
            given.put(word.substring(0, equals), word.substring(equals + 1));
        }
        task.putAll(given);
        value = new byte[number("value_bytes")];
    }

    int number(String name) {
        return Integer.parseInt(task.get(name));
    }

    double seconds() {
        return Double.parseDouble(task.get("seconds"));
    }

    static double now() {
        return System.nanoTime() / 1e9;
    }

    static long cpu() {
        var system = ManagementFactory.getOperatingSystemMXBean();
        return ((com.sun.management.OperatingSystemMXBean) system).getProcessCpuTime();
    }

    void run() throws Exception {
        switch (task.get("kind")) {
            case "mixed" -> mixed();
            case "creates" -> creates();
            case "one_by_one" -> oneByOne();
            case "pipelined", "fill" -> pipelined();
            case "latency" -> latency();
            case "sets" -> sets();
            default -> throw new IllegalArgumentException(task.get("kind"));
        }
        for (ZooKeeper client : clients) {
            client.close();
        }
    }

    /** The number of the client is that in the whole load. */
    ZooKeeper connect(int number) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        String[] places = task.get("where").split(";");
        String where = places[(number("first_client") + number) % places.length];
        ZooKeeper client = new ZooKeeper(where, SESSION_TIMEOUT_MS, (WatchedEvent event) -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            } else if (event.getState() == KeeperState.Expired) {
                System.err.println("the session expired");
                System.exit(1);
            }
        });
        connected.await();
        synchronized (clients) {
            clients.add(client);
        }
        return client;
    }

    /** Waits for a round, whose line may change the task for it; false if there is none. */
    boolean begin() throws IOException {
        System.out.println("ready");
        String line = input.readLine();
        if (line == null || line.equals("end")) {
            return false;
        }
        task.putAll(given);
        for (String word : line.split(" ")) {
            int equals = word.indexOf('=');
            if (equals > 0) {
                task.put(word.substring(0, equals), word.substring(equals + 1));
            }
        }
        done = 0;
        errors = 0;
        counts.clear();
        pauses.clear();
        timings.clear();
        began = now();
        lastWrite = began;
        cpuBegan = cpu();
        return true;
    }

    void tell() {
        System.out.println(report(now() - began, (cpu() - cpuBegan) / 1e9));
    }

    static void create(ZooKeeper client, String path, byte[] value) throws Exception {
        client.create(path, value, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    // Many under way.

    void mixed() throws Exception {
        List<Mix> mixes = new ArrayList<>();
        for (int i = 0; i < number("clients"); i++) {
            String path = "/mixed-" + task.get("number") + "-" + i;
            ZooKeeper client = connect(i);
            create(client, path, value);
            mixes.add(new Mix(client, path));
        }
        while (begin()) {
            int outstanding = number("outstanding");
            CountDownLatch over = new CountDownLatch(mixes.size() * outstanding);
            double until = began + seconds();
            for (Mix mix : mixes) {
                mix.begin(until, over);
            }
            for (Mix mix : mixes) {
                for (int i = 0; i < outstanding; i++) {
                    mix.next();
                }
            }
            over.await();
            wrote(now());
            for (Mix mix : mixes) {
                errors += mix.errors.get();
                mix.counts.forEach((bin, pair) -> {
                    int[] sum = counts.computeIfAbsent(bin, ignored -> new int[2]);
                    sum[0] += pair[0];
                    sum[1] += pair[1];
                    done += pair[0] + pair[1];
                });
            }
            tell();
        }
    }

    synchronized void wrote(double now) {
        if (now - lastWrite > PAUSE_S) {
            pauses.add(new double[] {lastWrite, now});
        }
        lastWrite = Math.max(now, lastWrite);
    }

    /** The reads and writes of one client, each answer followed by the next request. */
    final class Mix {
        final ZooKeeper client;
        final String path;
        final Random random;
        final TreeMap<Integer, int[]> counts = new TreeMap<>();
        final AtomicInteger errors = new AtomicInteger();
        volatile double share;
        volatile double until;
        volatile CountDownLatch over;

        Mix(ZooKeeper client, String path) {
            this.client = client;
            this.path = path;
            this.random = new Random(path.hashCode());
        }

        /** Between two rounds, when nothing is under way. */
        void begin(double until, CountDownLatch over) {
            this.until = until;
            this.over = over;
            share = number("reads_percent") / 100.0;
            counts.clear();
            errors.set(0);
        }

        void next() {
            boolean isRead;
            synchronized (random) {
                isRead = random.nextDouble() < share;
            }
            if (isRead) {
                client.getData(path, false, (rc, p, context, data, stat) -> completed(rc, 0), null);
            } else {
                client.setData(path, value, -1, (rc, p, context, stat) -> completed(rc, 1), null);
            }
        }

        /** On the event thread of the client. */
        void completed(int code, int which) {
            double now = now();
            if (code == Code.OK.intValue()) {
                counts.computeIfAbsent((int) (now / BIN_S), ignored -> new int[2])[which]++;
                if (which == 1) {
                    wrote(now);
                }
            } else {
                errors.incrementAndGet();
            }
            if (now < until) {
                next();
            } else {
                over.countDown();
            }
        }
    }

    /** Whether a round of so many operations, or seconds, has another one. */
    boolean goesOn(int index) {
        int count = number("count");
        return count > 0 ? index < count : now() < began + seconds();
    }

    void pipelined() throws Exception {
        ZooKeeper client = connect(0);
        String znode = "/" + task.get("kind") + "-" + task.get("number");
        create(client, znode, new byte[0]);
        for (int round = 0; begin(); round++) {
            String root = znode + "/" + round;
            Window window = new Window(number("outstanding"));
            int i = 0;
            for (; goesOn(i); i++) {
                if (i % CHILDREN == 0) {
                    window.create(client, parent(root, i), new byte[0]);
                }
                window.create(client, child(root, i), value);
            }
            window.drain();
            done = i;
            tell();
            if (number("count") == 0) {
                deleteBelow(client, root, i);
            }
        }
    }

    static String parent(String root, int index) {
        return root + "-" + index / CHILDREN;
    }

    static String child(String root, int index) {
        return parent(root, index) + "/" + index;
    }

    void deleteBelow(ZooKeeper client, String root, int created) throws Exception {
        Window window = new Window(number("outstanding"));
        for (int i = 0; i < created; i++) {
            window.delete(client, child(root, i));
        }
        for (int i = 0; i < created; i += CHILDREN) {
            window.delete(client, parent(root, i));
        }
        window.drain();
    }

    /** At most so many requests under way. */
    static final class Window {
        final int size;
        final Semaphore room;
        final AtomicInteger failed = new AtomicInteger();

        Window(int size) {
            this.size = size;
            room = new Semaphore(size);
        }

        void create(ZooKeeper client, String path, byte[] value) throws Exception {
            room.acquire();
            client.create(path, value, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT,
                (rc, p, context, name) -> completed(rc), null);
        }

        void delete(ZooKeeper client, String path) throws Exception {
            room.acquire();
            client.delete(path, -1, (rc, p, context) -> completed(rc), null);
        }

        void completed(int code) {
            if (code != Code.OK.intValue()) {
                failed.incrementAndGet();
            }
            room.release();
        }

        void drain() throws Exception {
            room.acquire(size);
            if (failed.get() > 0) {
                throw new IllegalStateException(failed.get() + " requests failed");
            }
        }
    }

    // One at a time.

    void creates() throws Exception {
        int workers = number("clients");
        for (int w = 0; w < workers; w++) {
            connect(w);
        }
        for (int round = 0; begin(); round++) {
            AtomicInteger created = new AtomicInteger();
            List<Thread> threads = new ArrayList<>();
            for (int w = 0; w < workers; w++) {
                ZooKeeper client = clients.get(w);
                String prefix = "/creates-" + task.get("number") + "-" + w + "-" + round + "-";
                threads.add(new Thread(() -> {
                    try {
                        for (int i = 0; goesOn(i); i++) {
                            create(client, prefix + i, value);
                            client.delete(prefix + i, -1, (rc, p, context) -> { }, null);
                            created.incrementAndGet();
                        }
                    } catch (Exception error) {
                        error.printStackTrace();
                        System.exit(1);
                    }
                }));
            }
            for (Thread thread : threads) {
                thread.start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
            done = created.get();
            tell();
        }
    }

    void oneByOne() throws Exception {
        ZooKeeper client = connect(0);
        String root = "/one-by-one-" + task.get("number");
        create(client, root, new byte[0]);
        for (int round = 0; begin(); round++) {
            int i = 0;
            for (; goesOn(i); i++) {
                create(client, root + "/" + round + "-" + i, value);
            }
            done = i;
            tell();
            if (number("count") == 0) {
                while (i-- > 0) {
                    client.delete(root + "/" + round + "-" + i, -1, (rc, p, context) -> { }, null);
                }
                client.setData(root, new byte[0], -1);  // behind the deletions
            }
        }
    }

    void latency() throws Exception {
        ZooKeeper client = connect(0);
        ZooKeeper other = connect(0);
        String root = "/latency-" + task.get("number");
        create(client, root, value);
        int next = 0;
        while (begin()) {
            for (int i = 0; goesOn(i); i++) {
                String path = root + "/" + next++;
                turn(client, other, root, path);
            }
            tell();
        }
    }

    void turn(ZooKeeper client, ZooKeeper other, String root, String path) throws Exception {
        time("create", () -> create(client, path, value));
        time("set", () -> client.setData(path, value, -1));
        time("get", () -> client.getData(path, false, null));
        time("linearizable get", () -> {
            client.sync(path, (rc, p, context) -> { }, null);
            client.getData(path, false, null);
        });
        CountDownLatch told = new CountDownLatch(1);
        client.getData(root, event -> told.countDown(), null);
        time("watch notification", () -> {
            other.setData(root, value, -1);
            told.await();
        });
        done += 5;
    }

    void sets() throws Exception {
        ZooKeeper client = connect(0);
        String path = "/sets-" + task.get("number");
        create(client, path, value);
        while (begin()) {
            while (now() < began + seconds()) {
                time("set", () -> client.setData(path, value, -1));
                done++;
            }
            tell();
        }
    }

    void time(String name, Call call) throws Exception {
        double from = now();
        call.make();
        double[] timing = {from, (now() - from) * 1e6};
        timings.computeIfAbsent(name, ignored -> new ArrayList<>()).add(timing);
    }

    // The report, in JSON.

    String report(double seconds, double cpuSeconds) {
        StringJoiner bins = new StringJoiner(",", "[", "]");
        counts.forEach((bin, pair) -> bins.add("[" + bin + "," + pair[0] + "," + pair[1] + "]"));
        StringJoiner timed = new StringJoiner(",", "{", "}");
        timings.forEach((name, pairs) -> timed.add("\"" + name + "\":" + pairs(pairs)));
        int threads = Runtime.getRuntime().availableProcessors();
        return String.format(Locale.ROOT,
            "{\"seconds\":%.6f,\"cpu_s\":%.6f,\"threads\":%d,\"done\":%d,\"errors\":%d,"
                + "\"counts\":%s,\"pauses\":%s,\"timings\":%s}",
            seconds, cpuSeconds, threads, done, errors, bins, pairs(pauses), timed);
    }

    static String pairs(List<double[]> pairs) {
        StringJoiner joined = new StringJoiner(",", "[", "]");
        for (double[] pair : pairs) {
            joined.add(String.format(Locale.ROOT, "[%.6f,%.6f]", pair[0], pair[1]));
        }
        return joined.toString();
    }
}
