/* base_http_sqlite DATABASE ADDRESS_FILE: the reachable ceiling of a durable enqueue over HTTP.
 *
 * One epoll thread puts every request that is readable in one wake-up into ONE SQLite transaction (WAL,
 * synchronous=FULL), waits for the commit, then answers all of them 201. It takes any method and path, checks nothing
 * and keeps the body as it came. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

enum { EVENTS = 256, ANSWER_MAX = 256 };

struct peer {
    int fd;
    size_t n_in, n_out;
    char in[16384], out[8192];
};

struct table {
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *insert;
    bool open; /* a transaction */
};

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) != SQLITE_OK) {
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
    }
    return statement;
}

static void step(struct table *table, sqlite3_stmt *statement)
{
    if (sqlite3_step(statement) != SQLITE_DONE) {
        bench_die("sqlite: %s", sqlite3_errmsg(table->db));
    }
    sqlite3_reset(statement);
}

static void table_open(struct table *table, const char *path)
{
    static const char schema[] =
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
        "CREATE TABLE jobs(id INTEGER PRIMARY KEY, queue TEXT NOT NULL, state INTEGER NOT NULL,"
        " payload TEXT NOT NULL,"
        " created INTEGER, claimed INTEGER, done INTEGER);"
        "CREATE INDEX jobs_ready ON jobs(queue, id) WHERE state = 0;";
    if (sqlite3_open(path, &table->db) != SQLITE_OK || sqlite3_exec(table->db, schema, NULL, NULL, NULL) != SQLITE_OK) {
        bench_die("%s: %s", path, sqlite3_errmsg(table->db));
    }
    table->begin = prepare(table->db, "BEGIN IMMEDIATE");
    table->commit = prepare(table->db, "COMMIT");
    table->insert = prepare(table->db, "INSERT INTO jobs(queue, state, payload, created) VALUES('default', 0, ?, ?)");
}

static void request_take(struct table *table, struct peer *peer, const char *body, size_t n)
{
    if (!table->open) {
        step(table, table->begin);
        table->open = true;
    }
    sqlite3_bind_text(table->insert, 1, body, (int)n, SQLITE_STATIC);
    sqlite3_bind_int64(table->insert, 2, bench_now_ns());
    step(table, table->insert);
    char json[48];
    int n_json = snprintf(json, sizeof json, "{\"id\":%lld}", (long long)sqlite3_last_insert_rowid(table->db));
    peer->n_out += (size_t)snprintf(peer->out + peer->n_out, sizeof peer->out - peer->n_out,
        "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", n_json, json);
}

static size_t content_length(const char *head, const char *end)
{
    for (const char *line = head; line < end;) {
        if (!strncasecmp(line, "content-length:", 15)) {
            return strtoul(line + 15, NULL, 10);
        }
        const char *next = memmem(line, (size_t)(end - line), "\r\n", 2);
        if (!next) {
            break;
        }
        line = next + 2;
    }
    return 0;
}

/* Takes all whole requests out of what was read. */
static void peer_parse(struct table *table, struct peer *peer)
{
    size_t used = 0;
    for (;;) {
        char *head = peer->in + used;
        char *end = memmem(head, peer->n_in - used, "\r\n\r\n", 4);
        if (!end || peer->n_out + ANSWER_MAX > sizeof peer->out) {
            break;
        }
        size_t n_body = content_length(head, end), n = (size_t)(end + 4 - head) + n_body;
        if (n > peer->n_in - used) {
            break;
        }
        request_take(table, peer, end + 4, n_body);
        used += n;
    }
    memmove(peer->in, peer->in + used, peer->n_in - used);
    peer->n_in -= used;
}

static bool peer_read(struct table *table, struct peer *peer)
{
    ssize_t n = read(peer->fd, peer->in + peer->n_in, sizeof peer->in - peer->n_in - 1);
    if (n <= 0) {
        close(peer->fd);
        free(peer);
        return false;
    }
    peer->n_in += (size_t)n;
    peer->in[peer->n_in] = '\0';
    peer_parse(table, peer);
    return true;
}

static void peers_accept(int epoll_fd, int listen_fd)
{
    int fd, on = 1;
    while ((fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct peer *peer = calloc(1, sizeof *peer);
        if (!peer) {
            bench_die("no memory");
        }
        peer->fd = fd;
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = peer };
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        bench_die("usage: base_http_sqlite DATABASE ADDRESS_FILE");
    }
    struct table table = { 0 };
    table_open(&table, argv[1]);
    int listen_fd = bench_listen(argv[2]), epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN }, events[EVENTS];
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &event);
    for (;;) {
        int n = epoll_wait(epoll_fd, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (!events[i].data.ptr) {
                peers_accept(epoll_fd, listen_fd);
            } else if (!peer_read(&table, events[i].data.ptr)) {
                events[i].data.ptr = NULL;
            }
        }
        if (table.open) {
            step(&table, table.commit); /* durable: fdatasync of the WAL happens here */
            table.open = false;
        }
        for (int i = 0; i < n; i++) {
            struct peer *peer = events[i].data.ptr;
            if (peer && peer->n_out) {
                if (write(peer->fd, peer->out, peer->n_out) < 0) {
                    perror("write");
                }
                peer->n_out = 0;
            }
        }
    }
}
