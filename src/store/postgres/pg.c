/* pg: one PostgreSQL connection with its statements. See pg.h.
 *
 * Owns how a connection is made, how PostgreSQL's states become our errors, and the pipeline. A failed connection is
 * reported in PostgreSQL's words, with what to do; our texts never contain the password.
 *
 * Nothing waits for ever: the kernel notices a cut link (keepalives, tcp_user_timeout) in about 3 s, and each exchange
 * has a deadline for a database that hangs. Of several hosts the first is taken that has the role that the URL wants
 * (target_session_attrs) and isn't a former primary (timeline.h); if no timeline is known yet, all hosts are asked
 * first. A host that didn't answer lately comes last, because it costs the whole connect_timeout each time. */
#include "store/postgres/pg.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/plant.h"
#include "io/clock.h"
#include "io/log.h"
#include "store/damage.h"
#include "store/postgres/pooler.h"
#include "store/postgres/timeline.h"

enum { HELD_MS = 1000 };
enum { ANSWER_BRIEF_MS = 4000 }; /* longer than statement_timeout of session_brief */
/* the first: longer than lock_timeout of session_turns */
enum { ANSWER_MS = 15000, HOST_BYTES_MAX = 256, HOSTS_MAX = 16, LOOKS_MAX = 8 };
/* a pooler lets clients in and has them wait for a connection of its own */
enum { HELLO_FIRST_MS = 6000, HELLO_MS = 3000 };
enum { SILENCE_MS = 1500, SILENT_FOR_MS = 10000 }; /* the first: below the least connect_timeout that libpq knows */
enum { SERVER_VERSION_MIN = 130000 };

/* --- errors --- */

/* SQLSTATE, or the start of one. The longest match stands first. */
static const struct {
    const char *state;
    enum err_code code;
    bool lost;
} states[] = {
    { "53100", ERR_disk_full, false }, { "53", ERR_unavailable, false }, { "57P0", ERR_unavailable, true },
    { "08", ERR_unavailable, true }, { "25006", ERR_unavailable, false }, { "25P03", ERR_unavailable, true },
    /* a file is gone */
    { "XX001", ERR_corrupt, false }, { "XX002", ERR_corrupt, false }, { "58P01", ERR_corrupt, false },
    { "58", ERR_io, false }, { "40P01", ERR_conflict, false }, { "40", ERR_unavailable, false },
    { "55P03", ERR_conflict, false }, { "57014", ERR_unavailable, false }, { "42501", ERR_forbidden, false },
    { "22021", ERR_invalid, false },
    { "3F000", ERR_forbidden, false }, /* no schema of the search_path is there, or may be used */
};

static void text_trim(char *text)
{
    for (size_t n = strlen(text); n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '); n--)
        text[n - 1] = '\0';
    for (char *at = text; *at; at++)
        if (*at == '\n' || *at == '\t')
            *at = ' ';
}

/* result NULL: the connection itself. */
static bool pg_fail(struct pg *pg, const PGresult *result, const char *what, struct err *err)
{
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *primary = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    enum err_code code = ERR_internal;
    char text[300];
    snprintf(text, sizeof text, "%s", pg->silent ? "it doesn't answer" : primary ? primary : PQerrorMessage(pg->conn));
    text_trim(text);
    if (pg->silent || PQstatus(pg->conn) != CONNECTION_OK || (!state && !primary)) {
        pg->lost = true;
        pg->silent = pg->silent || strstr(text, strerrordesc_np(ETIMEDOUT)) != NULL; /* the kernel gave the link up */
        return err_set(err, ERR_unavailable, "%s: the connection to %s is lost: %s", what, pg->place, text);
    }
    if (pooler_lent(pg, state, err))
        return false;
    for (size_t i = 0; state && i < sizeof states / sizeof states[0]; i++)
        if (strncmp(state, states[i].state, strlen(states[i].state)) == 0) {
            code = states[i].code;
            pg->lost = pg->lost || states[i].lost;
            break;
        }
    if (code == ERR_corrupt)
        return damage_set(err, "%s: %s (PostgreSQL %s)", what, text, state);
    if (pg->brief && code == ERR_conflict)
        code = ERR_unavailable; /* it can't be read now */
    return err_set(err, code, "%s: %s (PostgreSQL %s)", what, text, state ? state : "-");
}

/* --- opening --- */

static void place_name(struct pg *pg)
{
    const char *host = PQhost(pg->conn), *db = PQdb(pg->conn), *port = PQport(pg->conn);
    if (host && *host == '/')
        snprintf(pg->place, sizeof pg->place, "database \"%s\" at %s", db ? db : "", host);
    else
        snprintf(
            pg->place, sizeof pg->place, "database \"%s\" at %s:%s", db ? db : "", host ? host : "", port ? port : "");
}

/* libpq gives no SQLSTATE for a connection that didn't come about. */
static bool connect_fail(struct pg *pg, struct err *err)
{
    static const struct {
        const char *words;
        enum err_code code;
        const char *advice;
    } causes[] = {
        { "too many connections", ERR_unreachable,
            "let it take more (max_connections, CONNECTION LIMIT of the role or database), or stop a client" },
        { "connection slots are reserved", ERR_unreachable, "let it take more (max_connections), or stop a client" },
        { "too many clients", ERR_unreachable, "let it take more (max_connections), or stop a client" },
        { "not currently accepting connections", ERR_unreachable,
            "allow them: ALTER DATABASE NAME ALLOW_CONNECTIONS true" },
        { "certificate expired", ERR_untrusted,
            "the client certificate of this server (sslcert in the URL) has expired: renew it" },
        { "certificate has expired", ERR_untrusted, "the database's certificate has expired: renew it there" },
        { "certificate", ERR_untrusted,
            "sslrootcert in the URL must name the CA of the database's certificate, the host be named as in "
            "it, and it must not have expired" },
        { "authentication failed", ERR_forbidden,
            "check the user and the password (in the URL, ~/.pgpass or PGPASSWORD)" },
        { "no password supplied", ERR_forbidden, "give a password in the URL, ~/.pgpass or PGPASSWORD" },
        { "pg_hba.conf", ERR_forbidden, "the database's pg_hba.conf must let this host and user in" },
        { "is not permitted to log in", ERR_forbidden, "give the role the right to log in" },
        { "permission denied for database", ERR_forbidden, "grant CONNECT on the database to this user" },
        { "role \"", ERR_forbidden, "create the user (createuser), or name another one in the URL" },
        { "database \"", ERR_not_found, "create it: createdb --encoding UTF8 --template template0 NAME" },
        { "in recovery mode", ERR_unreachable,
            "it has crashed and recovers: it is tried again; its log says why (a full disk does that)" },
        { "not yet accepting connections", ERR_unreachable, "it starts up: it is tried again" },
        { "starting up", ERR_unreachable, "it starts up: it is tried again" },
        { "shutting down", ERR_unreachable, "it ends: start it again" },
        { "No space left on device", ERR_unreachable, "the disk of PostgreSQL is full: make room there" },
        { "could not write init file", ERR_unreachable, "the disk of PostgreSQL may be full: make room there" },
        { "max_client_conn", ERR_unreachable, "let pgbouncer take more clients (max_client_conn), or stop one" },
        { "no such user", ERR_forbidden,
            "pgbouncer doesn't know the user: add it to its auth_file, or name another one in the URL" },
        { "does not support SSL", ERR_unreachable,
            "switch ssl on in that PostgreSQL, or say another sslmode in the URL" },
        { "missing \"=\"", ERR_invalid, "write postgresql://USER@HOST:PORT/DATABASE" },
        { "invalid ", ERR_invalid, "write postgresql://USER@HOST:PORT/DATABASE" },
    };
    char text[300];
    const char *advice = "is PostgreSQL running there, and does it listen on that address?";
    enum err_code code = ERR_unreachable;
    snprintf(text, sizeof text, "%s", pg->conn ? PQerrorMessage(pg->conn) : "no memory");
    text_trim(text);
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++)
        if (strstr(text, causes[i].words)) {
            code = causes[i].code;
            advice = causes[i].advice;
            break;
        }
    pg->lost = true;
    return err_set(err, code, "the store: %s: %s", text, advice);
}

static bool server_fits(struct pg *pg, struct err *err)
{
    const char *encoding = PQparameterStatus(pg->conn, "server_encoding");
    if (PQserverVersion(pg->conn) < SERVER_VERSION_MIN)
        return err_set(err, ERR_conflict, "%s is PostgreSQL %d: 13 or newer is needed", pg->place,
            PQserverVersion(pg->conn) / 10000);
    if (!encoding || strcmp(encoding, "UTF8") != 0)
        return err_set(err, ERR_conflict,
            "%s has the encoding %s: it must be UTF8 (createdb --encoding UTF8 --template template0)", pg->place,
            encoding ? encoding : "?");
    return true;
}

/* Notices ("relation exists, skipping") are nobody's, but one: a commit whose wait for the synchronous standby was
 * broken off is answered as done, though only the primary has it. */
static void notice_take(void *owner, const PGresult *result)
{
    struct pg *pg = owner;
    const char *from = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);
    bool unwaited = from && strncmp(from, "SyncRep", strlen("SyncRep")) == 0;
    if (PLANT(standby_unwaited))
        unwaited = false;
    pg->unsure |= unwaited;
}

/* host, port: "": as the URL says. Who starts is patient; later a silent host is one that is gone, and another may be
 * there. */
static bool host_connect(struct pg *pg, const char *url, const char *host, const char *port, struct err *err)
{
    static _Atomic bool reached;
    /* What stands before the URL it may say otherwise; what stands behind, not. An empty value is as none. */
    const char *keys[] = { "connect_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count",
        "tcp_user_timeout", "dbname", "client_encoding", "application_name", "host", "port", NULL };
    const char *values[] = { reached ? "2" : "5", "1", "1", "3", "3000", url, "UTF8", pg->name, host, port, NULL };
    bool patient = !reached;
    pg->lost = pg->unsure = pg->silent = pg->hello = false;
    snprintf(pg->place, sizeof pg->place, "the database");
    pg->conn = PQconnectdbParams(keys, values, 1);
    if (!pg->conn || PQstatus(pg->conn) != CONNECTION_OK)
        return connect_fail(pg, err);
    reached = true;
    PQsetNoticeReceiver(pg->conn, notice_take, pg);
    place_name(pg);
    pg->answer_by_ms = clock_boot_ms() + (patient ? HELLO_FIRST_MS : HELLO_MS);
    pg->hello = true;
    bool ok = server_fits(pg, err) && pooler_check(pg, keys, values, err) && pg_exec(pg, SQL_session, err) &&
              timeline_check(pg, err) && pg_exec(pg, SQL_session_keepalive, err);
    pg->hello = false;
    if (!ok && pg->silent)
        err_set(err, ERR_unreachable,
            "the store: %s accepts connections and doesn't answer: is it overloaded, or has a pooler in front "
            "of it no connection left (pgbouncer: default_pool_size, at least 10 for each server of Weir)?",
            pg->place);
    return ok;
}

/* Until when a host counts as silent, boot time; by its place in the URL. Only the order of asking hangs on it. */
static _Atomic int64_t silent_until[HOSTS_MAX];

static void host_was_silent(size_t at)
{
    silent_until[at] = clock_boot_ms() + SILENT_FOR_MS;
}

/* host_try: the host at this place of the URL. */
static bool host_try(struct pg *pg, const char *url, size_t at, const char *host, const char *port, struct err *err)
{
    int64_t began = clock_boot_ms();
    bool ok = host_connect(pg, url, host, port, err);
    if (ok)
        silent_until[at] = 0;
    else if (err->code == ERR_unreachable && clock_boot_ms() - began >= SILENCE_MS)
        host_was_silent(at);
    pg->host = at;
    return ok;
}

/* The n-th of a list with commas; a list of one is for all. */
static bool list_item(const char *list, size_t n, char out[HOST_BYTES_MAX])
{
    struct str rest = str_of(list ? list : "");
    ptrdiff_t comma = str_index(rest, ',');
    out[0] = '\0';
    if (comma < 0 && n > 0)
        n = 0;
    for (; n > 0; n--, comma = str_index(rest, ',')) {
        if (comma < 0)
            return false;
        rest = str_sub(rest, (size_t)comma + 1, rest.len);
    }
    struct str item = str_sub(rest, 0, comma < 0 ? rest.len : (size_t)comma);
    return (size_t)snprintf(out, HOST_BYTES_MAX, "%.*s", STR_ARG(item)) < HOST_BYTES_MAX;
}

static size_t list_count(const char *list)
{
    size_t n = 1;
    for (; list && *list; list++)
        n += *list == ',';
    return n;
}

/* A new data directory knows no timeline. So every host is asked for its timeline first; otherwise a former primary
 * that is the first in the URL would be taken although it has a successor. A host that can't be asked is logged: it
 * might be that successor. */
static void hosts_ask(const struct pg *like, const char *url, const char *hosts, const char *ports)
{
    size_t n = list_count(hosts);
    char host[HOST_BYTES_MAX], port[HOST_BYTES_MAX];
    for (size_t i = 0; i < n && i < HOSTS_MAX; i++) {
        struct pg pg = { 0 };
        struct err why = { 0 };
        memcpy(pg.name, like->name, sizeof pg.name);
        if (list_item(hosts, i, host) && list_item(ports, i, port) && !host_try(&pg, url, i, host, port, &why) &&
            why.code == ERR_unreachable)
            log_warn("store.unasked", "host=%s error=%s", log_quote(str_of(host)).z, log_quote(str_of(why.text)).z);
        pg_close(&pg);
    }
}

/* libpq goes from host to host by itself, but stops at one that we refuse: so it gets them one by one. The one that was
 * good last comes first, and one that was silent last: it may be a machine that is gone, and cost the whole
 * connect_timeout. */
static bool hosts_connect(struct pg *pg, const char *url, const char *hosts, const char *ports, struct err *err)
{
    static _Atomic size_t good;
    size_t n = list_count(hosts), first = good;
    n = n < HOSTS_MAX ? n : HOSTS_MAX;
    char host[HOST_BYTES_MAX], port[HOST_BYTES_MAX];
    struct err why = { 0 };
    if (!timeline_known())
        hosts_ask(pg, url, hosts, ports);
    if (pg->silent)
        host_was_silent(pg->host);
    bool last[HOSTS_MAX];
    for (size_t i = 0; i < n; i++)
        last[i] = clock_boot_ms() < silent_until[i];
    for (size_t i = 0, tried = 0; i < 2 * n; i++) {
        struct err one = { 0 };
        size_t at = (first + i) % n;
        if (last[at] != (i >= n))
            continue;
        if (!list_item(hosts, at, host) || !list_item(ports, at, port))
            return err_set(
                err, ERR_invalid, "the store: the hosts and ports of the URL don't fit together: HOST:PORT,HOST:PORT");
        if (host_try(pg, url, at, host, port, &one)) {
            good = at;
            return true;
        }
        pg_close(pg);
        pg->lost = true;
        /* report a fault that the user can mend rather than a host that is away */
        if (tried++ == 0 || one.code != ERR_unreachable)
            why = one;
    }
    return err_set(err, why.code, "%s", why.text);
}

bool pg_connect(struct pg *pg, const char *url, struct err *err)
{
    const char *hosts = NULL, *ports = NULL, *addresses = NULL;
    char host[32] = "";
    gethostname(host, sizeof host - 1);
    snprintf(pg->name, sizeof pg->name, "weir process %ld on %s", (long)getpid(), host);
    PQconninfoOption *options = PQconninfoParse(url, NULL);
    for (PQconninfoOption *at = options; at && at->keyword; at++) {
        hosts = strcmp(at->keyword, "host") == 0 ? at->val : hosts;
        ports = strcmp(at->keyword, "port") == 0 ? at->val : ports;
        addresses = strcmp(at->keyword, "hostaddr") == 0 ? at->val : addresses;
    }
    bool ok = addresses || list_count(hosts) < 2 ? host_connect(pg, url, "", "", err)
                                                 : hosts_connect(pg, url, hosts, ports, err);
    PQconninfoFree(options);
    return ok;
}

void pg_close(struct pg *pg)
{
    pg_clear(pg);
    if (pg->conn)
        PQfinish(pg->conn);
    pg->conn = NULL;
    pg->n_queue = 0;
    pg->sent = pg->exchanged = false;
    bulk_release(&pg->bulk);
}

void pg_look(struct pg *pg)
{
    /* the last words of the database come before the end */
    for (int rounds = 0; !pg->lost && rounds < LOOKS_MAX; rounds++) {
        struct pollfd fd = { .fd = PQsocket(pg->conn), .events = POLLIN };
        if (poll(&fd, 1, 0) <= 0)
            return;
        pg->lost = !PQconsumeInput(pg->conn) || PQstatus(pg->conn) != CONNECTION_OK;
    }
}

static bool result_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/* Until PQgetResult won't block, or the answer is late (answer_by_ms): then the connection counts as lost. */
static bool answer_wait(struct pg *pg)
{
    while (PQisBusy(pg->conn)) {
        struct pollfd fd = { .fd = PQsocket(pg->conn), .events = POLLIN };
        int64_t left = pg->answer_by_ms - clock_boot_ms();
        int ready = left > 0 ? poll(&fd, 1, (int)left) : 0;
        if (ready == 0) {
            pg->lost = pg->silent = true;
            return false;
        }
        if (ready > 0 && !PQconsumeInput(pg->conn))
            break; /* PQgetResult tells why */
    }
    return true;
}

/* The last result of a text, as PQexec gives it; NULL: the connection is lost. Only while a connection is made there is
 * a time limit: the steps of a schema may last. */
static PGresult *text_result(struct pg *pg, const char *text, const char *arg)
{
    PGresult *last = NULL, *next;
    if (!pg->hello)
        return arg ? PQexecParams(pg->conn, text, 1, NULL, &arg, NULL, NULL, 0) : PQexec(pg->conn, text);
    if (!(arg ? PQsendQueryParams(pg->conn, text, 1, NULL, &arg, NULL, NULL, 0) : PQsendQuery(pg->conn, text)))
        return NULL;
    while (answer_wait(pg) && (next = PQgetResult(pg->conn)) != NULL) {
        if (!last || PQresultStatus(last) != PGRES_FATAL_ERROR) {
            PQclear(last);
            last = next;
        } else {
            PQclear(next);
        }
    }
    if (pg->silent) {
        PQclear(last);
        return NULL;
    }
    return last;
}

static bool text_exec(struct pg *pg, const char *text, const char *what, struct err *err)
{
    PGresult *result = text_result(pg, text, NULL);
    bool ok = result_good(result) || pg_fail(pg, result, what, err);
    PQclear(result);
    return ok;
}

bool pg_exec(struct pg *pg, enum sql_id id, struct err *err)
{
    return text_exec(pg, pg_texts[id].text, pg_texts[id].name, err);
}

bool pg_exec_all(struct pg *pg, const char *const *texts, struct err *err)
{
    for (; *texts; texts++)
        if (!text_exec(pg, *texts, *texts, err))
            return false;
    return true;
}

bool pg_brief(struct pg *pg, struct err *err)
{
    pg->brief = true;
    pg->answer_ms = ANSWER_BRIEF_MS;
    return pg_exec(pg, SQL_session_brief, err);
}

/* --- statements that met a lock --- */

static _Atomic int64_t held_until[SQL_COUNT], held_last;

bool pg_hurry(struct pg *pg, struct err *err)
{
    pg->hurried = true;
    return pg_brief(pg, err) && pg_exec(pg, SQL_session_hurried, err);
}

int64_t pg_held_until(void)
{
    return held_last;
}

static void held_note(enum sql_id id)
{
    held_last = held_until[id] = clock_boot_ms() + HELD_MS;
}

static bool held_now(enum sql_id id)
{
    return held_until[id] && clock_boot_ms() < held_until[id];
}

bool pg_number(struct pg *pg, enum sql_id id, int64_t *out, struct err *err)
{
    PGresult *result = text_result(pg, pg_texts[id].text, NULL);
    bool ok = PQresultStatus(result) == PGRES_TUPLES_OK || pg_fail(pg, result, pg_texts[id].name, err);
    *out = 0;
    if (ok && PQntuples(result) > 0 && !str_to_i64(str_of(PQgetvalue(result, 0, 0)), out))
        ok = err_set(err, ERR_internal, "%s: no number came back", pg_texts[id].name);
    PQclear(result);
    return ok;
}

bool pg_number_for(struct pg *pg, enum sql_id id, int64_t arg, int64_t *out, struct err *err)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)arg);
    PGresult *result = text_result(pg, pg_texts[id].text, text);
    bool ok = PQresultStatus(result) == PGRES_TUPLES_OK || pg_fail(pg, result, pg_texts[id].name, err);
    if (ok && out && (PQntuples(result) != 1 || !str_to_i64(str_of(PQgetvalue(result, 0, 0)), out)))
        ok = err_set(err, ERR_internal, "%s: no number came back", pg_texts[id].name);
    PQclear(result);
    return ok;
}

bool pg_words(struct pg *pg, enum sql_id id, char *out, size_t size, int64_t *out_number)
{
    PGresult *result = text_result(pg, pg_texts[id].text, NULL);
    bool ok = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0 && PQnfields(result) > 1;
    if (ok) {
        snprintf(out, size, "%s", PQgetvalue(result, 0, 0));
        ok = str_to_i64(str_of(PQgetvalue(result, 0, 1)), out_number);
    }
    PQclear(result);
    return ok;
}

/* --- the pipeline --- */

void pg_clear(struct pg *pg)
{
    for (size_t i = 0; i < pg->n_queue && pg->exchanged; i++) {
        PQclear(pg->results[i]);
        pg->results[i] = NULL;
    }
    if (pg->exchanged)
        pg->n_queue = 0;
    pg->exchanged = false;
}

/* The results of one queued statement, up to the NULL that ends them; the first is kept. */
static PGresult *result_take(struct pg *pg)
{
    PGresult *first = answer_wait(pg) ? PQgetResult(pg->conn) : NULL, *next;
    while (first && answer_wait(pg) && (next = PQgetResult(pg->conn)) != NULL)
        PQclear(next);
    return first;
}

static bool sync_take(struct pg *pg)
{
    PGresult *result = answer_wait(pg) ? PQgetResult(pg->conn) : NULL;
    bool ok = result && PQresultStatus(result) == PGRES_PIPELINE_SYNC;
    PQclear(result);
    return ok;
}

void pg_send(struct pg *pg)
{
    if (!pg->lost && !pg->sent && !PQpipelineSync(pg->conn))
        pg->lost = true;
    pg->sent = true;
}

static bool held_refuse(struct err *err)
{
    return err_set(err, ERR_unavailable, "a lock in the database holds this up");
}

static bool result_refuse(struct pg *pg, size_t at, struct err *err)
{
    (void)pg_fail(pg, pg->results[at], pg_texts[pg->queue[at]].name, err);
    if (pg->hurried && !pg->lost && err->code == ERR_unavailable)
        held_note(pg->queue[at]);
    return false;
}

bool pg_exchange(struct pg *pg, struct err *err)
{
    bool ok = true, refused = pg->refused;
    ASSERT(!pg->exchanged);
    pg->refused = false;
    if (refused && !pg->n_queue) {
        pg->exchanged = true;
        return held_refuse(err);
    }
    pg_send(pg);
    pg->sent = false;
    pg->exchanged = true;
    pg->answer_by_ms = clock_boot_ms() + (pg->answer_ms ? pg->answer_ms : ANSWER_MS);
    memset(pg->results, 0, sizeof pg->results);
    if (pg->lost)
        return err_set(err, ERR_unavailable, "the connection to %s is lost: %s", pg->place,
            pg->conn ? PQerrorMessage(pg->conn) : "");
    for (size_t i = 0; i < pg->n_queue && !pg->lost; i++) {
        pg->results[i] = result_take(pg);
        if (ok && !result_good(pg->results[i]))
            ok = result_refuse(pg, i, err);
    }
    if (!pg->lost && !sync_take(pg)) {
        pg->lost = true;
        if (ok)
            ok = err_set(err, ERR_unavailable, "the connection to %s is lost: %s", pg->place,
                pg->silent ? "it doesn't answer" : PQerrorMessage(pg->conn));
    }
    if (ok && refused)
        ok = held_refuse(err);
    /* what was committed is looked for on a new connection, which waits for the standby first */
    if (ok && pg->unsure) {
        pg->lost = true;
        ok = err_set(err, ERR_unavailable, "%s didn't wait for its synchronous standby", pg->place);
    }
    return ok;
}

void pg_queue(struct pg *pg, enum sql_id id, const struct pg_args *args)
{
    static const int binary[PG_ARGS_MAX] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    static const struct pg_args none;
    pg_clear(pg);
    ASSERT(pg->n_queue < PG_QUEUE_MAX && !pg->sent);
    if (pg->hurried && held_now(id)) {
        pg->refused = true;
        return;
    }
    pg->queue[pg->n_queue++] = id;
    if (!args)
        args = &none;
    if (!pg->lost && !PQsendQueryPrepared(pg->conn, pg_texts[id].name, args->n, args->values, args->lengths, binary, 1))
        pg->lost = true;
}

bool pg_run(struct pg *pg, enum sql_id id, const struct pg_args *args, PGresult **out, struct err *err)
{
    pg_queue(pg, id, args);
    if (!pg_exchange(pg, err))
        return false;
    if (out)
        *out = pg->results[0];
    return true;
}

bool pg_prepare(struct pg *pg, unsigned users, struct err *err)
{
    size_t n = 0;
    bool ok = true;
    enum sql_id sent[SQL_COUNT];
    if (!PQenterPipelineMode(pg->conn))
        return pg_fail(pg, NULL, "pipeline", err);
    pg->answer_by_ms = clock_boot_ms() + ANSWER_MS;
    for (int id = 0; id < SQL_COUNT; id++)
        if (pg_texts[id].users & users && PQsendPrepare(pg->conn, pg_texts[id].name, pg_texts[id].text, 0, NULL))
            sent[n++] = (enum sql_id)id;
    if (!PQpipelineSync(pg->conn))
        return pg_fail(pg, NULL, "prepare", err);
    for (size_t i = 0; i < n; i++) {
        PGresult *result = result_take(pg);
        if (ok && !result_good(result))
            ok = pg_fail(pg, result, pg_texts[sent[i]].name, err);
        PQclear(result);
    }
    if (!sync_take(pg) && ok)
        ok = pg_fail(pg, NULL, "prepare", err);
    return ok;
}
