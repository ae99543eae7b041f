/* Tarballs of change sets: any bytes, in any pieces, are refused or mean one thing. What is accepted is compared with a
 * simple reader (whole archive in memory, nothing shared with the code) and with libarchive's listing; a model file
 * system takes what is written: nothing outside lroot/, no path twice, totals within the limits. */
#include <archive.h>
#include <archive_entry.h>
#include <locale.h>

#include "base/map.h"
#include "fuzz.h"
#include "unpack/content.h"

#define SHAPES(X) \
    X(accepted) X(refused) X(files) X(folders) X(executable) X(pax) X(long_name) X(global) X(prefix) X(limit) X(link) \
    X(checksum) X(truncated) X(behind) X(listed)
FUZZ_SHAPES(SHAPES)

static const struct changeset_limits limits = { 8192, 600, 8, 80, 5 };

struct item {
    char path[100];
    uint64_t size, hash;
    bool is_folder, is_executable;
};

struct world {
    struct item items[64];
    size_t n;
};

static uint64_t hash_add(uint64_t hash, struct str bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        hash = (hash ^ (unsigned char)bytes.ptr[i]) * 1099511628211u;
    return hash;
}

static struct item *item_add(struct world *world, struct str path)
{
    HOLDS(world->n < sizeof world->items / sizeof world->items[0] && path.len < sizeof world->items[0].path);
    struct item *item = &world->items[world->n++];
    *item = (struct item){ .hash = 14695981039346656037u };
    memcpy(item->path, path.ptr, path.len);
    return item;
}

/* --- the code, with a model of what it writes --- */

struct run {
    struct world world;
    struct content content;
    struct tar_events inner;
    struct item *item;
    uint64_t n_bytes;
};

static bool run_report(void *owner, const struct report *report, struct err *err)
{
    (void)err;
    struct run *run = owner;
    if (report->kind == REPORT_FILE || report->kind == REPORT_FOLDER)
        HOLDS(changeset_path_check(report->path, &limits) == PATH_GOOD);
    if (report->kind == REPORT_META)
        HOLDS(report->text.len <= limits.meta_bytes);
    HOLDS(run->content.n_files <= limits.files && run->content.n_bytes <= limits.unpacked_bytes);
    return true;
}

static bool run_begin(void *owner, const struct tar_entry *entry, struct err *err)
{
    struct run *run = owner;
    if (!run->inner.begin(run->inner.owner, entry, err))
        return false;
    bool is_lroot = str_eqz(entry->path, "lroot") || str_starts(entry->path, STR("lroot/"));
    HOLDS(is_lroot || (str_eqz(entry->path, "meta") && !entry->is_folder));
    run->item = item_add(&run->world, entry->path);
    run->item->is_folder = entry->is_folder;
    run->item->is_executable = entry->is_executable;
    return true;
}

static bool run_bytes(void *owner, struct str bytes, struct err *err)
{
    struct run *run = owner;
    run->item->size += bytes.len;
    run->item->hash = hash_add(run->item->hash, bytes);
    run->n_bytes += bytes.len;
    HOLDS(run->n_bytes <= limits.unpacked_bytes + limits.meta_bytes);
    return run->inner.bytes(run->inner.owner, bytes, err);
}

static bool run_end(void *owner, struct err *err)
{
    struct run *run = owner;
    return run->inner.end(run->inner.owner, err);
}

static bool run_read(struct run *run, struct str text, size_t piece, struct arena *arena, struct err *err)
{
    struct tar_reader *tar = mem_alloc(sizeof *tar);
    content_init(&run->content, &limits, arena);
    run->content.report = run_report;
    run->content.owner = run;
    run->inner = content_events(&run->content);
    tar_reader_init(tar, &(struct tar_events){ run_begin, run_bytes, run_end, run });
    bool good = true;
    for (size_t at = 0; good && at < text.len; at += piece)
        good = tar_reader_feed(tar, str_sub(text, at, at + piece), err);
    good = good && tar_reader_end(tar, err) && content_end(&run->content, err);
    tar_reader_release(tar);
    content_release(&run->content);
    mem_free(tar);
    return good;
}

/* --- the simple reader, for archives that were accepted --- */

static uint64_t number_at(const char *field, size_t len)
{
    uint64_t n = 0;
    if ((unsigned char)field[0] == 0x80) {
        for (size_t i = 1; i < len; i++)
            n = n * 256 + (unsigned char)field[i];
        return n;
    }
    for (size_t i = 0; i < len && field[i]; i++)
        if (field[i] != ' ')
            n = n * 8 + (uint64_t)(field[i] - '0');
    return n;
}

static struct str pax_path(struct str data)
{
    struct str found = { 0 };
    while (data.len > 0) {
        size_t len = (size_t)strtoull(data.ptr, NULL, 10);
        struct str record = str_sub(data, 0, len - 1);
        record = str_sub(record, (size_t)str_index(record, ' ') + 1, record.len);
        if (str_starts(record, STR("path=")))
            found = str_sub(record, 5, record.len);
        data = str_sub(data, len, data.len);
    }
    return found;
}

static void simple_read(struct str text, struct world *world)
{
    char name[300];
    struct str given = { 0 };
    for (size_t at = 0; at + 512 <= text.len && text.ptr[at] != 0;) {
        const char *head = text.ptr + at;
        uint64_t size = number_at(head + 124, 12);
        char type = head[156];
        struct str data = str_sub(text, at + 512, at + 512 + (size_t)size);
        at += 512 + (size_t)((size + 511) / 512 * 512);
        if (type == 'x' || type == 'L') {
            struct buf copy; /* NUL-terminated, for strtoull */
            buf_init(&copy, SIZE_MAX);
            buf_add_str(&copy, data);
            struct str path = type == 'L' ? str_of(copy.ptr) : pax_path(buf_str(&copy));
            given = path.len > 0
                        ? str_sub(data, (size_t)(path.ptr - copy.ptr), (size_t)(path.ptr - copy.ptr) + path.len)
                        : given;
            buf_release(&copy);
            SEEN_IF(pax, type == 'x');
            SEEN_IF(long_name, type == 'L');
            continue;
        }
        SEEN_IF(global, type == 'g');
        if (type == 'g')
            continue;
        bool has_prefix = memcmp(head + 257, "ustar\0", 6) == 0 && head[345] != 0;
        SEEN_IF(prefix, has_prefix && given.len == 0);
        snprintf(name, sizeof name, "%.*s%s%.100s", has_prefix ? 155 : 0, head + 345, has_prefix ? "/" : "", head);
        struct str path = given.len > 0 ? given : str_of(name);
        if (type == '5' && str_ends(path, STR("/")))
            path.len--;
        struct item *item = item_add(world, path);
        item->size = data.len;
        item->hash = hash_add(item->hash, data);
        item->is_folder = type == '5';
        item->is_executable = type != '5' && (number_at(head + 100, 8) & 0100) != 0;
        given = (struct str){ 0 };
    }
}

/* --- libarchive's listing --- */

/* listing_compare: libarchive normalises and repairs names of pax, so that only plain ones are compared. */
static void listing_compare(struct str text, const struct world *world)
{
    struct archive *archive = archive_read_new();
    struct archive_entry *entry;
    size_t n = 0;
    archive_read_support_format_tar(archive);
    archive_read_support_filter_none(archive);
    if (archive_read_open_memory(archive, text.ptr, text.len) != ARCHIVE_OK) { /* an owner that is no number */
        archive_read_free(archive);
        return;
    }
    for (int status; (status = archive_read_next_header(archive, &entry)) == ARCHIVE_OK || status == ARCHIVE_WARN;) {
        HOLDS(n < world->n);
        const struct item *item = &world->items[n++];
        struct str path = str_of(archive_entry_pathname(entry));
        if (str_ends(path, STR("/")))
            path.len--;
        bool is_plain = true;
        for (const char *c = item->path; *c; c++)
            is_plain &= (unsigned char)*c < 0x80;
        HOLDS(!is_plain || str_eqz(path, item->path));
        HOLDS((archive_entry_filetype(entry) == AE_IFDIR) == item->is_folder);
        HOLDS((uint64_t)archive_entry_size(entry) == item->size && archive_entry_hardlink(entry) == NULL);
        HOLDS((archive_entry_mode(entry) & 07000) == 0 && archive_entry_xattr_count(entry) == 0);
        HOLDS(archive_entry_sparse_count(entry) == 0);
        uint64_t hash = 14695981039346656037u;
        const void *bytes;
        size_t len;
        la_int64_t at;
        while (archive_read_data_block(archive, &bytes, &len, &at) == ARCHIVE_OK)
            hash = hash_add(hash, (struct str){ bytes, len });
        HOLDS(hash == item->hash);
    }
    HOLDS(n == world->n);
    SEEN(listed);
    archive_read_free(archive);
}

static void worlds_compare(const struct world *a, const struct world *b)
{
    HOLDS(a->n == b->n);
    for (size_t i = 0; i < a->n; i++) {
        HOLDS(strcmp(a->items[i].path, b->items[i].path) == 0);
        HOLDS(a->items[i].size == b->items[i].size && a->items[i].hash == b->items[i].hash);
        HOLDS(a->items[i].is_folder == b->items[i].is_folder && a->items[i].is_executable == b->items[i].is_executable);
        SEEN_IF(files, !a->items[i].is_folder);
        SEEN_IF(folders, a->items[i].is_folder);
        SEEN_IF(executable, a->items[i].is_executable);
    }
}

/* sums_mend: the right checksum for each block that could be a header, so that mutations get further than it. */
static void sums_mend(char *bytes, size_t len)
{
    for (size_t at = 0; at + 512 <= len; at += 512) {
        unsigned sum = 0;
        char text[16];
        if (memcmp(bytes + at + 257, "ustar", 5) != 0)
            continue;
        memset(bytes + at + 148, ' ', 8);
        for (size_t i = 0; i < 512; i++)
            sum += (unsigned char)bytes[at + i];
        snprintf(text, sizeof text, "%06o", sum);
        memcpy(bytes + at + 148, text, 7);
    }
}

static void text_try(struct str text, size_t piece)
{
    static struct run whole, pieces;
    static struct world simple;
    struct arena arena = { 0 };
    struct err err = { 0 }, other = { 0 };
    whole = (struct run){ 0 };
    pieces = (struct run){ 0 };
    simple = (struct world){ 0 };
    bool good = run_read(&whole, text, text.len > 0 ? text.len : 1, &arena, &err);
    HOLDS(run_read(&pieces, text, piece, &arena, &other) == good);
    HOLDS(good || (err.code == other.code && strcmp(err.text, other.text) == 0));
    if (good) {
        SEEN(accepted);
        simple_read(text, &simple);
        worlds_compare(&whole.world, &pieces.world);
        worlds_compare(&whole.world, &simple);
        listing_compare(text, &simple);
    } else {
        SEEN(refused);
        HOLDS(err.code == ERR_invalid || err.code == ERR_body_too_large);
        SEEN_IF(limit, err.code == ERR_body_too_large);
        SEEN_IF(link, strstr(err.text, "link") != NULL);
        SEEN_IF(checksum, strstr(err.text, "checksum") != NULL);
        SEEN_IF(truncated, strstr(err.text, "truncated") != NULL);
        SEEN_IF(behind, strstr(err.text, "behind the end") != NULL);
    }
    arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static bool has_locale;
    if (!has_locale)
        has_locale = setlocale(LC_CTYPE, "C.UTF-8") != NULL; /* libarchive's names */
    size_t piece = len > 0 ? 1 + bytes[len / 2] * (size_t)7 : 1;
    text_try((struct str){ (const char *)bytes, len }, piece);
    char *copy = mem_alloc(len > 0 ? len : 1);
    memcpy(copy, bytes, len);
    sums_mend(copy, len);
    text_try((struct str){ copy, len }, piece);
    mem_free(copy);
    return 0;
}
