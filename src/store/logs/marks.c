/* logs/marks: a durable record of how much of each live log is durable, because after a power cut a file may have a
 * tail that was never part of the log.
 *
 * Owns DATA/logs/marks: a head with the boot it was written in, then one slot of 32 bytes for each plain log. A slot is
 * overwritten in place after the log itself was synced and before its bytes are reported as durable. After a power cut
 * a file that grew may have any part of its unsynced tail, with zeros or worse between. So if the boot is another one,
 * opening cuts every plain log to its mark; the executor that sent the rest still has it. In the same boot nothing is
 * cut: a killed process loses no page.
 *
 * Promises: a byte that was reported as durable is never cut off; a slot lies within one sector, so it holds its old or
 * its new mark.
 *
 * Fails by refusing to open (ERR_disk_full, ERR_io), or by calling a sync failed. Logs without a file of marks (an
 * older Weir's, or a restored store's) are taken as they are. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/plant.h"
#include "store/logs/file.h"

enum { HEAD_BYTES = 512, BOOT_BYTES = 64, READ_SLOTS = 1024 };

#define MARKS_NAME "marks"
#define MARKS_NEW "marks.tmp"
#define MARKS_TITLE "weir log marks 1 "

struct mark {
    int64_t task, grant, size;
    uint64_t check;
};

static uint64_t mark_check(const struct mark *mark)
{
    return str_hash((struct str){ (const char *)mark, offsetof(struct mark, check) }) | 1; /* zeros are no mark */
}

static bool bytes_write(int fd, const void *bytes, size_t n, int64_t offset)
{
    for (size_t at = 0; at < n;) {
        ssize_t put = pwrite(fd, (const char *)bytes + at, n - at, offset + (int64_t)at);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        at += (size_t)put;
    }
    return true;
}

static bool slot_write(int fd, const struct log_plain *plain, int64_t size)
{
    struct mark mark = { .task = plain->key.task, .grant = plain->key.grant, .size = size };
    mark.check = mark_check(&mark);
    return bytes_write(fd, &mark, sizeof mark, HEAD_BYTES + plain->slot * (int64_t)sizeof mark);
}

static void head_fill(char head[HEAD_BYTES])
{
    memset(head, 0, HEAD_BYTES);
    char boot[BOOT_BYTES] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, boot, sizeof boot - 1) : 0;
    if (fd >= 0) {
        close(fd);
    }
    struct str id = str_trim((struct str){ boot, n > 0 ? (size_t)n : 0 });
    snprintf(head, HEAD_BYTES, MARKS_TITLE "%.*s\n", (int)id.len, id.ptr);
}

/* --- opening --- */

struct marks_load {
    struct log_files *logs;
    int fd;         /* of the new file */
    bool known;     /* there was a file of marks */
    bool same_boot; /* written since the machine was started */
    bool ok;
};

/* What the old file says, into `plain`; a slot of a log that is gone says nothing. */
static bool marks_read(struct marks_load *load, int fd, const char head[HEAD_BYTES])
{
    char old[HEAD_BYTES];
    ssize_t n = pread(fd, old, sizeof old, 0);
    load->known = n == HEAD_BYTES && memcmp(old, MARKS_TITLE, sizeof MARKS_TITLE - 1) == 0;
    load->same_boot = load->known && memcmp(old, head, HEAD_BYTES) == 0;
    struct mark *marks = mem_alloc(READ_SLOTS * sizeof *marks);
    for (int64_t offset = HEAD_BYTES; load->known && (n = pread(fd, marks, READ_SLOTS * sizeof *marks, offset)) > 0;
         offset += n) {
        for (size_t i = 0; i < (size_t)n / sizeof *marks; i++) {
            if (marks[i].check == mark_check(&marks[i])) {
                struct log_key key = { marks[i].task, marks[i].grant };
                log_plain_note(load->logs, key)->durable = marks[i].size;
            }
        }
        n -= n % (ssize_t)sizeof *marks;
        if (n == 0) {
            break;
        }
    }
    mem_free(marks);
    return n >= 0;
}

/* Cuts a log to its mark. A sealed log that is cut is open again: the engine, which knows its length, decides whether
 * it is whole. */
static bool plain_cut(struct log_files *logs, struct log_key key, int64_t size, bool sealed)
{
    char name[LOG_NAME_BYTES];
    log_name_plain(name, key);
    if (sealed && fchmodat(logs->live_fd, name, 0600, 0) != 0) {
        return false;
    }
    int fd = openat(logs->live_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    bool ok =
        fd >= 0 && fstat(fd, &st) == 0 && (st.st_size <= size || (ftruncate(fd, size) == 0 && fdatasync(fd) == 0));
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

static void plain_load(void *owner, struct log_key key, enum log_found found)
{
    if (found == LOG_FOUND_UNNOTED) {
        return;
    }
    struct marks_load *load = owner;
    struct log_files *logs = load->logs;
    bool cut = load->known && !load->same_boot;
    if (cut && log_pack_end(logs, key)) {
        return;
    }
    struct log_plain *plain = log_plain_note(logs, key);
    if (PLANT(log_tail_kept))
        cut = false;
    if (cut) {
        load->ok = load->ok && plain_cut(logs, key, plain->durable, found == LOG_FOUND_SEALED);
    }
    if (!load->known) {
        char name[LOG_NAME_BYTES];
        struct stat st;
        log_name_plain(name, key);
        plain->durable = fstatat(logs->live_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_size : 0;
    }
    plain->slot = logs->n_slots++;
    load->ok = load->ok && slot_write(load->fd, plain, plain->durable);
}

/* What has a mark and no file: it was packed, or its name didn't survive. */
static void plain_forget_gone(struct log_files *logs)
{
    struct list gone = { 0 };
    SMAP_EACH (&logs->plain, entry) {
        struct log_plain *plain = entry->value;
        if (plain->slot < 0) {
            list_append(&gone, &plain->spare);
        }
    }
    for (struct list_node *node; (node = list_take_first(&gone)) != NULL;) {
        log_plain_drop(logs, LOG_PLAIN_OF(node)->key);
    }
}

bool log_marks_open(struct log_files *logs, struct err *err)
{
    char head[HEAD_BYTES];
    head_fill(head);
    struct marks_load load = { .logs = logs, .fd = -1, .ok = true };
    int old_fd = openat(logs->root_fd, MARKS_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    load.ok = old_fd >= 0 ? marks_read(&load, old_fd, head) : errno == ENOENT;
    if (old_fd >= 0) {
        close(old_fd);
    }
    if (load.ok) {
        unlinkat(logs->root_fd, MARKS_NEW, 0);
        load.fd = openat(logs->root_fd, MARKS_NEW, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    load.ok = load.fd >= 0 && bytes_write(load.fd, head, sizeof head, 0) &&
              log_live_each(logs, false, plain_load, &load) && load.ok;
    plain_forget_gone(logs);
    load.ok = load.ok && fdatasync(load.fd) == 0 &&
              renameat(logs->root_fd, MARKS_NEW, logs->root_fd, MARKS_NAME) == 0 && fsync(logs->root_fd) == 0;
    logs->marks_fd = load.fd;
    if (!load.ok) {
        return err_set(err, errno == ENOSPC || errno == EDQUOT ? ERR_disk_full : ERR_io, "writing the file %s: %s",
            MARKS_NAME, strerror(errno));
    }
    return true;
}

/* --- while running --- */

void log_mark_take(struct log_files *logs, struct sync_item *item)
{
    struct log_plain *plain = log_plain_find(logs, item->file->key);
    item->mark = (struct log_plain){ .key = item->file->key, .slot = -1 };
    if (!plain) {
        return; /* packed or removed meanwhile */
    }
    if (plain->slot < 0) {
        struct list_node *spare = list_take_first(&logs->spare);
        plain->slot = spare ? LOG_PLAIN_OF(spare)->slot : logs->n_slots++;
        if (spare) {
            mem_free(LOG_PLAIN_OF(spare));
        }
    }
    item->mark.slot = plain->slot;
}

bool log_marks_write(struct log_files *logs, const struct sync_item *items, size_t n)
{
    bool ok = true, any = false;
    for (size_t i = 0; i < n; i++) {
        if (items[i].ok && items[i].mark.slot >= 0) {
            ok = ok && slot_write(logs->marks_fd, &items[i].mark, items[i].size);
            any = true;
        }
    }
    return ok && (!any || fdatasync(logs->marks_fd) == 0);
}
