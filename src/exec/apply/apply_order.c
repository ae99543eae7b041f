/* apply_order: see apply_order.h. */
#include "exec/apply/apply_order.h"

#include <string.h>

#include "exec/kind.h"
#include "text/json_value.h"

/* As INTERFACES.md section 4 has them, for a server that doesn't say. */
static const struct changeset_limits limits_default = {
    .unpacked_bytes = (uint64_t)1 << 30, .meta_bytes = 1 << 20, .files = 10000, .path_bytes = 1024, .depth = 64
};

struct str ident_text(struct arena *arena, enum archive_kind kind, struct source_ident ident)
{
    if (kind == ARCHIVE_SVN)
        return str_fmt(arena, "%lld", (long long)ident.rev);
    return ident.id.len > 0 ? ident.id : STR(BASE_NONE);
}

bool ident_read(enum archive_kind kind, struct str text, struct source_ident *out)
{
    *out = (struct source_ident){ 0 };
    if (kind == ARCHIVE_SVN)
        return str_to_i64(text, &out->rev) && out->rev >= 0;
    if (str_eqz(text, BASE_NONE))
        return true;
    for (size_t i = 0; i < text.len; i++)
        if (!((text.ptr[i] >= '0' && text.ptr[i] <= '9') || (text.ptr[i] >= 'a' && text.ptr[i] <= 'f')))
            return false;
    out->id = text;
    return text.len == 40 || text.len == 64;
}

static bool hash_read(struct str hex, unsigned char out[32])
{
    for (size_t i = 0; i < 64 && hex.len == 64; i++) {
        char c = hex.ptr[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return false;
        out[i / 2] = (unsigned char)(out[i / 2] << 4 | digit);
    }
    return hex.len == 64;
}

static struct str text_of(const json_t *object, const char *key, struct arena *arena)
{
    return str_dup(arena, kind_text(object, key));
}

static struct str *texts_of(const json_t *list, struct arena *arena, size_t *out_n)
{
    size_t n = json_array_size(list);
    n = n < ORDER_LIST_MAX ? n : ORDER_LIST_MAX;
    struct str *texts = ARENA_ARRAY(arena, struct str, n + 1);
    *out_n = 0;
    for (size_t i = 0; i < n; i++)
        if (json_is_string(json_array_get(list, i)))
            texts[(*out_n)++] = str_dup(arena, str_of(json_string_value(json_array_get(list, i))));
    return texts;
}

static void limit_read(const json_t *limits, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(limits, key);
    if (json_is_integer(value) && json_integer_value(value) > 0)
        *out = json_integer_value(value);
}

static void limits_read(const json_t *limits, struct changeset_limits *out)
{
    *out = limits_default;
    int64_t unpacked = (int64_t)out->unpacked_bytes, meta = (int64_t)out->meta_bytes;
    limit_read(limits, "unpacked", &unpacked);
    limit_read(limits, "meta", &meta);
    limit_read(limits, "files", &out->files);
    limit_read(limits, "path", &out->path_bytes);
    limit_read(limits, "depth", &out->depth);
    out->unpacked_bytes = (uint64_t)unpacked;
    out->meta_bytes = (uint64_t)meta;
}

static bool undoes_read(const json_t *list, struct arena *arena, struct apply_order *out, struct err *err)
{
    size_t n = json_array_size(list);
    if (n > ORDER_LIST_MAX)
        return err_set(err, ERR_invalid, "the order undoes more than %d change sets", ORDER_LIST_MAX);
    out->undoes = ARENA_ARRAY(arena, struct order_undo, n + 1);
    out->n_undoes = n;
    for (size_t i = 0; i < n; i++) {
        const json_t *undo = json_array_get(list, i);
        struct str revision = text_of(undo, "revision", arena);
        out->undoes[i].csid = text_of(undo, "csid", arena);
        if (out->program || out->kind == ARCHIVE_EXTERNAL)
            continue; /* what it called its revisions is the program's own */
        if (!ident_read(out->kind, revision, &out->undoes[i].revision))
            return err_set(err, ERR_invalid,
                "the change set %.*s has the revision '%.*s', which is none of the archive",
                STR_ARG(out->undoes[i].csid), STR_ARG(revision));
    }
    return true;
}

static bool program_read(const json_t *list, struct arena *arena, struct apply_order *out)
{
    size_t n;
    struct str *words = texts_of(list, arena, &n);
    if (n == 0)
        return true;
    out->program = ARENA_ARRAY(arena, char *, n + 1);
    for (size_t i = 0; i < n; i++)
        out->program[i] = str_dupz(arena, words[i]);
    return n == json_array_size(list);
}

static bool idents_read(const json_t *order, struct arena *arena, struct apply_order *out, struct err *err)
{
    struct str base = text_of(order, "base_rev", arena), from = text_of(order, "base", arena),
               hash = text_of(order, "sha256", arena);
    bool repository = out->kind == ARCHIVE_SVN || out->kind == ARCHIVE_GIT;
    out->has_base = repository && base.len > 0;
    if (out->has_base && !ident_read(out->kind, base, &out->base))
        return err_set(err, ERR_invalid, "the recorded base '%.*s' is no revision of this archive", STR_ARG(base));
    out->has_from = repository && from.len > 0;
    if (out->has_from && !ident_read(out->kind, from, &out->from))
        return err_set(err, ERR_invalid, "##base '%.*s' is no revision of this archive", STR_ARG(from));
    out->has_tarball = hash.len > 0;
    if (out->has_tarball && !hash_read(hash, out->sha256))
        return err_set(err, ERR_invalid, "the order has a damaged hash");
    return true;
}

bool order_read(struct str text, struct arena *arena, struct apply_order *out, struct err *err)
{
    json_t *order = json_parse(text, 16, err);
    if (!json_is_object(order)) {
        json_decref(order);
        return err_set(err, ERR_invalid, "the order isn't an object");
    }
    const json_t *source = json_object_get(order, "source"), *bytes = json_object_get(order, "tarball_bytes");
    *out = (struct apply_order){ .csid = text_of(order, "csid", arena),
        .target = text_of(order, "target", arena),
        .movetype = text_of(order, "movetype", arena),
        .submitter = text_of(order, "submitter", arena),
        .ticket = text_of(order, "ticket", arena),
        .message = text_of(order, "message", arena),
        .cause = text_of(order, "cause", arena),
        .tarball_bytes = json_is_integer(bytes) ? json_integer_value(bytes) : 0,
        .kind = archive_kind_find(kind_text(source, "kind")),
        .url = text_of(source, "url", arena),
        .branch = text_of(source, "branch", arena),
        .path = text_of(source, "path", arena),
        .look = json_is_true(json_object_get(order, "look")) };
    out->rollback = str_eqz(out->movetype, "RB");
    out->depends = texts_of(json_object_get(order, "depends"), arena, &out->n_depends);
    limits_read(json_object_get(order, "limits"), &out->limits);
    bool good = program_read(json_object_get(order, "program"), arena, out) ||
                err_set(err, ERR_invalid, "the target's `apply` isn't a list of texts");
    good =
        good && idents_read(order, arena, out, err) && undoes_read(json_object_get(order, "undoes"), arena, out, err);
    json_decref(order);
    if (good && (out->csid.len == 0 || out->target.len == 0))
        good = err_set(err, ERR_invalid, "the order names no change set and target");
    if (good && !out->rollback && !out->has_tarball && !out->look)
        good = err_set(err, ERR_invalid, "the order names no tarball");
    return good;
}
