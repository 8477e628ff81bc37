/*
 * A tour of Curator, and so of the Java client of ZooKeeper, with two sessions of one process.
 *
 *     java CuratorClient.java tour 127.0.0.1:2181
 *
 * `survive` sets a znode once for each line of its input, and ends when that ends; Curator tries
 * again while no server takes it. `readonly` reads from a server without a leader. A step that does
 * not do what it must throws.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper.States;
import org.apache.zookeeper.data.Stat;

public class CuratorClient {
    private static final long PATIENCE_S = 60;

    private static void check(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    private static CuratorFramework open(String hosts, String password) throws Exception {
        CuratorFrameworkFactory.Builder builder = CuratorFrameworkFactory.builder()
            .connectString(hosts)
            .sessionTimeoutMs(30_000)
            .retryPolicy(password == null ? new RetryForever(50) : new RetryOneTime(100));
        if (password != null && !password.isEmpty()) {
            builder.authorization("digest", password.getBytes());
        }
        CuratorFramework client = builder.build();
        client.start();
        check(client.blockUntilConnected((int) PATIENCE_S, TimeUnit.SECONDS), "connected");
        return client;
    }

    private static void readOnly(String hosts) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(hosts)
            .sessionTimeoutMs(30_000)
            .retryPolicy(new RetryForever(50))
            .canBeReadOnly(true)
            .build();
        client.start();
        check(client.blockUntilConnected((int) PATIENCE_S, TimeUnit.SECONDS), "connected");
        check(client.getZookeeperClient().getZooKeeper().getState() == States.CONNECTEDREADONLY,
            "read-only");
        check(client.checkExists().forPath("/kept") != null, "a read is answered");
        try {
            client.create().forPath("/curator");
            check(false, "a write is refused");
        } catch (KeeperException.NotReadOnlyException expected) {
        }
        check(client.checkExists().forPath("/curator") == null, "nothing was done");
        client.close();
    }

    private static void expect(BlockingQueue<String> events, String expected) throws Exception {
        String event = events.poll(PATIENCE_S, TimeUnit.SECONDS);
        check(expected.equals(event), expected + ", not " + event);
    }

    private static void readAndWrite(CuratorFramework client) throws Exception {
        client.create().creatingParentsIfNeeded().forPath("/curator/a", "one".getBytes());
        Stat stat = new Stat();
        byte[] data = client.getData().storingStatIn(stat).forPath("/curator/a");
        check(new String(data).equals("one") && stat.getVersion() == 0, "the first value");
        check(client.setData().withVersion(0).forPath("/curator/a", "two".getBytes()).getVersion()
            == 1, "the second version");
        try {
            client.setData().withVersion(0).forPath("/curator/a", "three".getBytes());
            check(false, "a wrong version is refused");
        } catch (KeeperException.BadVersionException expected) {
        }
        String path = client.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL)
            .forPath("/curator/s-");
        check(path.equals("/curator/s-0000000001"), path);
        client.create().withMode(CreateMode.CONTAINER).forPath("/curator/c");
        check(client.getChildren().forPath("/curator").size() == 3, "three children");
        check(client.checkExists().forPath("/curator/missing") == null, "nothing is there");
    }

    private static void watch(CuratorFramework watcher, CuratorFramework writer) throws Exception {
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        watcher.getData()
            .usingWatcher((org.apache.zookeeper.Watcher) e -> events.add("one " + e.getType()))
            .forPath("/curator/a");
        writer.setData().forPath("/curator/a", "x".getBytes());
        expect(events, "one " + EventType.NodeDataChanged);
        watcher.watchers().add().withMode(AddWatchMode.PERSISTENT_RECURSIVE)
            .usingWatcher((org.apache.zookeeper.Watcher)
                e -> events.add(e.getType() + " " + e.getPath()))
            .forPath("/curator");
        writer.create().forPath("/curator/a/below");
        expect(events, EventType.NodeCreated + " /curator/a/below");
        writer.delete().forPath("/curator/a/below");
        expect(events, EventType.NodeDeleted + " /curator/a/below");
        watcher.watchers().removeAll().forPath("/curator");
        CuratorCache cache = CuratorCache.build(watcher, "/curator/a");
        BlockingQueue<String> cached = new LinkedBlockingQueue<>();
        cache.listenable().addListener((type, before, after) -> {
            if (after != null) {
                cached.add(new String(after.getData()));
            }
        });
        cache.start();
        expect(cached, "x");
        writer.setData().forPath("/curator/a", "cached".getBytes());
        expect(cached, "cached");
        cache.close();
    }

    private static void severalAtOnce(CuratorFramework client) throws Exception {
        CuratorOp create = client.transactionOp().create().forPath("/curator/m");
        CuratorOp set = client.transactionOp().setData().forPath("/curator/m", "m".getBytes());
        CuratorOp checked = client.transactionOp().check().withVersion(1).forPath("/curator/m");
        CuratorOp delete = client.transactionOp().delete().forPath("/curator/m");
        List<CuratorTransactionResult> results =
            client.transaction().forOperations(create, set, checked, delete);
        check(results.get(0).getResultPath().equals("/curator/m"), "the path of a creation");
        check(results.get(1).getResultStat().getVersion() == 1, "the version of a change");
        try {
            client.transaction().forOperations(create, delete, delete);
            check(false, "a failed operation fails the transaction");
        } catch (KeeperException.NoNodeException expected) {
            check(expected.getResults().size() == 3, "a result for each operation");
        }
        check(client.checkExists().forPath("/curator/m") == null, "nothing was done");
    }

    private static void access(CuratorFramework owner, CuratorFramework other) throws Exception {
        owner.create().withACL(Ids.CREATOR_ALL_ACL).forPath("/curator/acl");
        try {
            other.getData().forPath("/curator/acl");
            check(false, "a stranger may not read");
        } catch (KeeperException.NoAuthException expected) {
        }
        check(owner.getACL().forPath("/curator/acl").get(0).getId().getId().startsWith("ann:"),
            "the creator is in the ACL");
        owner.setACL().withACL(Ids.OPEN_ACL_UNSAFE).forPath("/curator/acl");
        other.getData().forPath("/curator/acl");
    }

    private static void recipes(CuratorFramework one, CuratorFramework two) throws Exception {
        InterProcessMutex held = new InterProcessMutex(one, "/curator/lock");
        InterProcessMutex wanted = new InterProcessMutex(two, "/curator/lock");
        held.acquire();
        check(!wanted.acquire(50, TimeUnit.MILLISECONDS), "the lock is held");
        held.release();
        check(wanted.acquire(PATIENCE_S, TimeUnit.SECONDS), "the lock is free");
        wanted.release();
        DistributedAtomicLong counter =
            new DistributedAtomicLong(one, "/curator/counter", new RetryOneTime(10));
        check(counter.increment().postValue() == 1, "the counter counts");
        LeaderLatch first = new LeaderLatch(one, "/curator/leader", "one");
        LeaderLatch second = new LeaderLatch(two, "/curator/leader", "two");
        first.start();
        check(first.await(PATIENCE_S, TimeUnit.SECONDS), "the first one leads");
        second.start();
        check(!second.hasLeadership(), "the second one does not");
        first.close();
        check(second.await(PATIENCE_S, TimeUnit.SECONDS), "the second one leads");
        second.close();
    }

    private static void survive(String hosts) throws Exception {
        CuratorFramework client = open(hosts, null);
        String path = client.create().withMode(CreateMode.EPHEMERAL).forPath("/survives-java");
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            client.setData().forPath(path, line.getBytes());
            System.out.println("set " + line);
        }
        check(client.checkExists().forPath(path).getEphemeralOwner() == session, "one session");
        client.close();
    }

    public static void main(String[] words) throws Exception {
        if (words[0].equals("tour")) {
            CuratorFramework one = open(words[1], "ann:secret");
            CuratorFramework two = open(words[1], "");
            readAndWrite(one);
            watch(two, one);
            severalAtOnce(one);
            access(one, two);
            recipes(one, two);
            two.close();
            one.close();
        } else if (words[0].equals("readonly")) {
            readOnly(words[1]);
        } else {
            survive(words[1]);
        }
        System.out.println("done");
        System.exit(0);
    }
}
