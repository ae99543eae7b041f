/* pg: one PostgreSQL connection with its statements; private to store/postgres.
 *
 * The connection stays in pipeline mode: statements are queued and sent, pg_exchange brings all their results in one
 * round trip. What is exchanged without an explicit BEGIN is one transaction. Everything goes in binary form: numbers
 * are 8 bytes, text and bytes are themselves, the rows of a bulk statement are one array per column. Results live until
 * the next pg_queue. A connection is used by one thread at a time.
 *
 * Errors: `lost` says that the connection is gone (ERR_unavailable); else the statement was refused and the transaction
 * rolled back. */
#ifndef WEIR_STORE_POSTGRES_PG_H
#define WEIR_STORE_POSTGRES_PG_H

#include <endian.h>
#include <libpq-fe.h>

#include "base/buf.h"
#include "base/err.h"
#include "store_sql.h"

enum { PG_ARGS_MAX = 20, PG_QUEUE_MAX = 52, PG_NAME_BYTES = 64, PG_PLACE_BYTES = 320, PG_SYSTEM_BYTES = 24 };

struct pg_args { /* parameters of one statement; what they point to must live until it is queued */
    int n;
    const char *values[PG_ARGS_MAX];
    int lengths[PG_ARGS_MAX];
    uint64_t numbers[PG_ARGS_MAX]; /* big-endian */
};

struct pg_bulk { /* rows of one statement, as one array per column */
    struct buf columns[PG_ARGS_MAX];
    const char *types; /* one letter per column: i bigint, t text, b bytea, p tid */
    size_t n_columns, at, n_rows;
    bool nulls[PG_ARGS_MAX];
};

struct pg {
    PGconn *conn;
    bool lost;
    bool unsure;          /* a commit was answered before the synchronous standby had it */
    bool silent;          /* lost because no answer came in time */
    size_t host;          /* of several in the URL, the one it is or was connected to */
    bool hello;           /* the connection is being made: an answer that is late ends it */
    int backend;          /* the database's process that serves it; behind a pooler libpq knows another number */
    bool brief;           /* waits a second for a lock, then says ERR_unavailable (pg_brief) */
    bool hurried;         /* hardly waits at all (pg_hurry) */
    bool refused;         /* something of the queue wasn't sent: it met a lock lately */
    int64_t answer_ms;    /* so long an exchange may last; 0: as long as it may anywhere */
    int64_t answer_by_ms; /* boot time */
    char system[PG_SYSTEM_BYTES]; /* the cluster and its timeline; 0: a standby's */
    int64_t timeline;
    int epoch; /* see timeline.h */
    enum sql_id queue[PG_QUEUE_MAX];
    PGresult *results[PG_QUEUE_MAX]; /* of the last exchange, in the order they were queued */
    size_t n_queue;
    bool sent;                  /* the queue is on its way */
    bool exchanged;             /* results are those of the queue */
    char name[PG_NAME_BYTES];   /* application_name: who we are */
    char place[PG_PLACE_BYTES]; /* the database in words, without its password */
    struct pg_bulk bulk;
};

/* pg_connect: opens, says who we are, sets the session. Nothing is prepared and no pipeline yet. pg_prepare ends that.
 */
bool pg_connect(struct pg *pg, const char *url, struct err *err);
bool pg_prepare(struct pg *pg, unsigned users, struct err *err);
void pg_close(struct pg *pg);
/* between exchanges: has the database ended the connection? Then it is lost. Doesn't wait. */
void pg_look(struct pg *pg);

/* Before pg_prepare: texts for exec, run at once. pg_number: the first column of the first row; 0: no row. */
bool pg_brief(struct pg *pg, struct err *err); /* the server's loop waits for this connection: seconds at most */
/* pg_hurry: the loop itself waits for it: a statement that met a lock, which it waits 30 ms for, is refused for a
 * second without being asked (ERR_unavailable), by every such connection. pg_held_until: boot ms until which some are;
 * 0: never yet. */
bool pg_hurry(struct pg *pg, struct err *err);
int64_t pg_held_until(void);
bool pg_exec(struct pg *pg, enum sql_id id, struct err *err);
bool pg_exec_all(struct pg *pg, const char *const *texts, struct err *err);
bool pg_number(struct pg *pg, enum sql_id id, int64_t *out, struct err *err);
/* with one parameter; out may be NULL */
bool pg_number_for(struct pg *pg, enum sql_id id, int64_t arg, int64_t *out, struct err *err);
/* pg_words: the first row's first two columns as text; false: no row, or an error that nobody wants to hear of. */
bool pg_words(struct pg *pg, enum sql_id id, char *out, size_t size, int64_t *out_number);

/* pg_queue: sends a statement; NULL args: it has none. Its result is results[its place in the queue]. A connection that
 * is lost is told by pg_exchange. pg_send: what is queued goes now, and pg_exchange only waits for what comes of it. */
void pg_queue(struct pg *pg, enum sql_id id, const struct pg_args *args);
void pg_send(struct pg *pg);
bool pg_exchange(struct pg *pg, struct err *err);
/* both, for one */
bool pg_run(struct pg *pg, enum sql_id id, const struct pg_args *args, PGresult **out, struct err *err);
void pg_clear(struct pg *pg);

static inline uint64_t pg_swap(uint64_t n)
{
    return htobe64(n);
}

static inline void arg_bytes(struct pg_args *args, const void *bytes, size_t len)
{
    args->values[args->n] = len ? bytes : "";
    args->lengths[args->n++] = (int)len;
}

static inline void arg_text(struct pg_args *args, struct str s)
{
    arg_bytes(args, s.ptr, s.len);
}

static inline void arg_i64(struct pg_args *args, int64_t n)
{
    args->numbers[args->n] = pg_swap((uint64_t)n);
    arg_bytes(args, &args->numbers[args->n], sizeof args->numbers[0]);
}

static inline void arg_null(struct pg_args *args)
{
    args->values[args->n] = NULL;
    args->lengths[args->n++] = 0;
}

/* Cells go row by row, in the order of the columns. bulk_args: adds the arrays as parameters; they live until the next
 * bulk_begin. */
void bulk_begin(struct pg_bulk *bulk, const char *types);
void bulk_i64(struct pg_bulk *bulk, int64_t n);
void bulk_bytes(struct pg_bulk *bulk, const void *bytes, size_t len);
void bulk_null(struct pg_bulk *bulk);
bool bulk_args(struct pg_bulk *bulk, struct pg_args *args); /* false: over the limit */
void bulk_release(struct pg_bulk *bulk);

static inline void bulk_text(struct pg_bulk *bulk, struct str s)
{
    bulk_bytes(bulk, s.ptr, s.len);
}

/* Cells of a result. NULL is 0 or empty. */
int64_t cell_i64(const PGresult *result, int row, int column);
struct str cell_view(const PGresult *result, int row, int column);

#endif
