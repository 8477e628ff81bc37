/* A tour of the C client of ZooKeeper, with two sessions of one process.

   cc c_client.c -lzookeeper_mt && ./a.out tour 127.0.0.1:2181

   `survive` sets a znode once for each line of its input, and ends when that ends; it tries again
   while no server takes it. `readonly` reads from a server without a leader. Each step that does
   not do what it must prints why, and exits with 1. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "line %d: not %s\n", __LINE__, #condition);                           \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_connected[2], events, last_type;
static char last_path[200];

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context) {
    pthread_mutex_lock(&mutex);
    *(int *)zoo_get_context(zh) = state == ZOO_CONNECTED_STATE || state == ZOO_READONLY_STATE;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void on_event(zhandle_t *zh, int type, int state, const char *path, void *context) {
    if (type == ZOO_SESSION_EVENT) return;
    pthread_mutex_lock(&mutex);
    events++;
    last_type = type;
    snprintf(last_path, sizeof last_path, "%s", path);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static zhandle_t *open_with(const char *hosts, int number, int flags) {
    zhandle_t *zh = zookeeper_init(hosts, on_session, 30000, NULL, &is_connected[number], flags);
    CHECK(zh != NULL);
    pthread_mutex_lock(&mutex);
    while (!is_connected[number]) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    return zh;
}

static zhandle_t *open_session(const char *hosts, int number) {
    return open_with(hosts, number, 0);
}

static void expect_event(int count, int type, const char *path) {
    pthread_mutex_lock(&mutex);
    while (events < count) pthread_cond_wait(&changed, &mutex);
    CHECK(events == count);
    CHECK(last_type == type);
    CHECK(strcmp(last_path, path) == 0);
    pthread_mutex_unlock(&mutex);
}

static void read_and_write(zhandle_t *zh) {
    char path[200], data[200];
    int size = sizeof data;
    struct Stat stat;
    struct String_vector names;
    CHECK(zoo_create(zh, "/c", "one", 3, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof path) == ZOK);
    CHECK(zoo_create(zh, "/c", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0) == ZNODEEXISTS);
    CHECK(zoo_create(zh, "/c/s-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, path, sizeof path)
          == ZOK);
    CHECK(strcmp(path, "/c/s-0000000000") == 0);
    CHECK(zoo_create2(zh, "/c/e", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, path, sizeof path,
                      &stat) == ZOK);
    CHECK(stat.ephemeralOwner == zoo_client_id(zh)->client_id);
    CHECK(zoo_get(zh, "/c", 0, data, &size, &stat) == ZOK);
    CHECK(size == 3 && memcmp(data, "one", 3) == 0 && stat.numChildren == 2);
    CHECK(zoo_set(zh, "/c", "two", 3, 7) == ZBADVERSION);
    CHECK(zoo_set2(zh, "/c", "two", 3, 0, &stat) == ZOK);
    CHECK(stat.version == 1);
    CHECK(zoo_get_children2(zh, "/c", 0, &names, &stat) == ZOK);
    CHECK(names.count == 2 && stat.cversion == 2);
    deallocate_String_vector(&names);
    CHECK(zoo_exists(zh, "/c/missing", 0, &stat) == ZNONODE);
    CHECK(zoo_delete(zh, "/c", -1) == ZNOTEMPTY);
}

static void watch(zhandle_t *watcher, zhandle_t *writer) {
    char data[200];
    int size = sizeof data;
    struct Stat stat;
    struct String_vector names;
    CHECK(zoo_wget(watcher, "/c", on_event, NULL, data, &size, &stat) == ZOK);
    CHECK(zoo_set(writer, "/c", "three", 5, -1) == ZOK);
    expect_event(1, ZOO_CHANGED_EVENT, "/c");
    CHECK(zoo_wexists(watcher, "/c/w", on_event, NULL, &stat) == ZNONODE);
    CHECK(zoo_create(writer, "/c/w", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0) == ZOK);
    expect_event(2, ZOO_CREATED_EVENT, "/c/w");
    CHECK(zoo_wget_children(watcher, "/c", on_event, NULL, &names) == ZOK);
    CHECK(names.count == 3);
    deallocate_String_vector(&names);
    CHECK(zoo_delete(writer, "/c/w", 0) == ZOK);
    expect_event(3, ZOO_CHILD_EVENT, "/c");
}

static void several_at_once(zhandle_t *zh) {
    zoo_op_t ops[4];
    zoo_op_result_t results[4];
    char path[200];
    struct Stat stat;
    zoo_create_op_init(&ops[0], "/c/m", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof path);
    zoo_set_op_init(&ops[1], "/c/m", "m", 1, 0, &stat);
    zoo_check_op_init(&ops[2], "/c/m", 1);
    zoo_delete_op_init(&ops[3], "/c/m", 1);
    CHECK(zoo_multi(zh, 4, ops, results) == ZOK);
    CHECK(strcmp(path, "/c/m") == 0 && stat.version == 1);
    zoo_check_op_init(&ops[2], "/c/m", 9);
    CHECK(zoo_multi(zh, 4, ops, results) == ZBADVERSION);
    CHECK(results[0].err == ZOK && results[2].err == ZBADVERSION);
    CHECK(results[3].err == ZRUNTIMEINCONSISTENCY);
    CHECK(zoo_exists(zh, "/c/m", 0, &stat) == ZNONODE);
}

static int auth_code = 1;

static void on_auth(int code, const void *context) {
    pthread_mutex_lock(&mutex);
    auth_code = code;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void access(zhandle_t *owner, zhandle_t *other) {
    char data[200];
    int size = sizeof data;
    struct Stat stat;
    struct ACL_vector acls;
    CHECK(zoo_add_auth(owner, "digest", "ann:secret", 10, on_auth, NULL) == ZOK);
    pthread_mutex_lock(&mutex);
    while (auth_code == 1) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    CHECK(auth_code == ZOK);
    CHECK(zoo_create(owner, "/c/acl", "x", 1, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0) == ZOK);
    CHECK(zoo_get(other, "/c/acl", 0, data, &size, &stat) == ZNOAUTH);
    size = sizeof data;
    CHECK(zoo_get(owner, "/c/acl", 0, data, &size, &stat) == ZOK);
    CHECK(zoo_get_acl(owner, "/c/acl", &acls, &stat) == ZOK);
    CHECK(acls.count == 1 && strcmp(acls.data[0].id.scheme, "digest") == 0);
    deallocate_ACL_vector(&acls);
    CHECK(zoo_set_acl(owner, "/c/acl", 0, &ZOO_OPEN_ACL_UNSAFE) == ZOK);
    size = sizeof data;
    CHECK(zoo_get(other, "/c/acl", 0, data, &size, &stat) == ZOK);
}

/* The second of two contenders waits for the end of the first one's session. */
static void contend(const char *hosts, zhandle_t *second) {
    char first_path[200], second_path[200];
    struct Stat stat;
    zhandle_t *first = open_session(hosts, 1);
    CHECK(zoo_create(second, "/c/lock", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0) == ZOK);
    int flags = ZOO_SEQUENCE | ZOO_EPHEMERAL, before = events;
    CHECK(zoo_create(first, "/c/lock/n-", "", 0, &ZOO_OPEN_ACL_UNSAFE, flags, first_path,
                     sizeof first_path) == ZOK);
    CHECK(zoo_create(second, "/c/lock/n-", "", 0, &ZOO_OPEN_ACL_UNSAFE, flags, second_path,
                     sizeof second_path) == ZOK);
    CHECK(strcmp(first_path, second_path) < 0);
    CHECK(zoo_wexists(second, first_path, on_event, NULL, &stat) == ZOK);
    CHECK(zookeeper_close(first) == ZOK);
    expect_event(before + 1, ZOO_DELETED_EVENT, first_path);
}

static void tour(const char *hosts) {
    zhandle_t *zh = open_session(hosts, 0), *other = open_session(hosts, 1);
    read_and_write(zh);
    watch(other, zh);
    several_at_once(zh);
    access(zh, other);
    CHECK(zookeeper_close(other) == ZOK);
    contend(hosts, zh);
    CHECK(zookeeper_close(zh) == ZOK);
}

static void survive(const char *hosts) {
    char line[100], data[200];
    struct Stat stat;
    zhandle_t *zh = open_session(hosts, 0);
    CHECK(zoo_create(zh, "/survives-c", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0)
          == ZOK);
    while (fgets(line, sizeof line, stdin) != NULL) {
        int code, size = (int)strcspn(line, "\n");
        do code = zoo_set(zh, "/survives-c", line, size, -1);
        while (code == ZCONNECTIONLOSS || code == ZOPERATIONTIMEOUT);
        CHECK(code == ZOK);
        printf("set %.*s\n", size, line);
        fflush(stdout);
    }
    int size = sizeof data;
    CHECK(zoo_get(zh, "/survives-c", 0, data, &size, &stat) == ZOK);
    CHECK(stat.ephemeralOwner == zoo_client_id(zh)->client_id);
    CHECK(zookeeper_close(zh) == ZOK);
}

static void readonly(const char *hosts) {
    struct Stat stat;
    zhandle_t *zh = open_with(hosts, 0, ZOO_READONLY);
    CHECK(zoo_state(zh) == ZOO_READONLY_STATE);
    CHECK(zoo_exists(zh, "/kept", 0, &stat) == ZOK);
    CHECK(zoo_exists(zh, "/missing", 0, &stat) == ZNONODE);
    CHECK(zoo_create(zh, "/c", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0) == ZNOTREADONLY);
    CHECK(zoo_exists(zh, "/kept", 0, &stat) == ZOK);
    CHECK(zoo_state(zh) == ZOO_READONLY_STATE);
    CHECK(zookeeper_close(zh) == ZOK);
}

int main(int count, char **words) {
    CHECK(count == 3);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    if (strcmp(words[1], "tour") == 0) tour(words[2]);
    else if (strcmp(words[1], "readonly") == 0) readonly(words[2]);
    else survive(words[2]);
    printf("done\n");
    return 0;
}
