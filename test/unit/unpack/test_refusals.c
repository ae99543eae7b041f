/* Every refusal of a tarball (INTERFACES.md section 6, RELIABILITY.md rows 39 to 49) with its answer: by a check and by
 * an extract, of which nothing stays behind. */
#include "world.h"

const char *world_program;

#define N100 "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"

#define NSHOWN "lroot/nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"

enum { NO_META = 1, NO_FILE = 2, NO_END = 4, BARE = 7 };

struct row {
    const char *name;
    void (*build)(struct buf *out);
    unsigned flags;
    enum err_code code;
    const char *text; /* of err */
    const char *path; /* of its first item */
    unsigned line;
};

#define ONLY "only meta, and files and folders below lroot/, may be in the tarball"
/* ENTRY: a row about one entry more. SAYS: its answer, "'PATH' in the tarball: TEXT". */
#define ENTRY(id, ...) \
    static void build_##id(struct buf *out) \
    { \
        tarball_put(out, (struct tar_put){ __VA_ARGS__ }); \
    }
ENTRY(above, .name = "lroot/../x")
ENTRY(above_first, .name = "../x")
ENTRY(above_far, .name = "lroot/a/../../x")
ENTRY(absolute, .name = "/etc/passwd")
ENTRY(absolute_below, .name = "lroot//etc/passwd")
ENTRY(no_name, .name = "")
ENTRY(dot, .name = ".", .type = '5')
ENTRY(dot_slash, .name = "./", .type = '5')
ENTRY(dot_meta, .name = "./meta")
ENTRY(dot_part, .name = "lroot/./b")
ENTRY(folder_above, .name = "lroot/../../x/", .type = '5')
ENTRY(folder_absolute, .name = "/tmp/", .type = '5')
ENTRY(folder_root, .name = "/", .type = '5')
ENTRY(git, .name = "lroot/.GIT/config")
ENTRY(svn, .name = "lroot/x/.svn")
ENTRY(control, .name = "lroot/a\x1b[1m")
ENTRY(newline, .name = "lroot/a\nb")
ENTRY(not_utf8, .name = "lroot/\xff")
ENTRY(elsewhere, .name = "other/file")
ENTRY(lroot_like, .name = "lroots/file")
ENTRY(lroot_file, .name = "lroot")
ENTRY(meta_folder, .name = "meta", .type = '5')
ENTRY(meta_twice, .name = "meta", .data = STR(META_A))
ENTRY(symlink, .name = "lroot/b", .type = '2', .link = "/etc/passwd")
ENTRY(symlink_of_a, .name = "lroot/a", .type = '2', .link = "b")
ENTRY(hard_link, .name = "lroot/b", .type = '1', .link = "lroot/a")
ENTRY(long_link, .name = "././@LongLink", .type = 'K', .data = STR("target"), .is_gnu = true)
ENTRY(char_device, .name = "lroot/b", .type = '3')
ENTRY(block_device, .name = "lroot/b", .type = '4')
ENTRY(fifo, .name = "lroot/b", .type = '6')
ENTRY(socket, .name = "lroot/b", .type = 's')
ENTRY(contiguous, .name = "lroot/b", .type = '7')
ENTRY(sparse, .name = "lroot/b", .type = 'S', .is_gnu = true)
ENTRY(gnu_parts, .name = "lroot/b", .is_gnu = true, .prefix = N100)
ENTRY(odd_magic, .name = "lroot/b", .is_odd = true)
ENTRY(volume, .name = "label", .type = 'V', .is_gnu = true)
ENTRY(acl_solaris, .name = "lroot/b", .type = 'A')
ENTRY(set_uid, .name = "lroot/b", .mode = 04755)
ENTRY(set_gid, .name = "lroot/b", .mode = 02755)
ENTRY(sticky, .name = "lroot/b", .mode = 01644)
ENTRY(sticky_folder, .name = "lroot/b/", .type = '5', .mode = 01777)
ENTRY(file_slash, .name = "lroot/b/")
ENTRY(folder_size, .name = "lroot/b/", .type = '5', .data = STR("x"))
ENTRY(bad_sum, .name = "lroot/b", .has_bad_sum = true)
ENTRY(v7, .name = "lroot/b", .is_v7 = true)
ENTRY(size_no_number, .name = "lroot/b", .size = "12x")
ENTRY(size_negative, .name = "lroot/b", .size_raw = STR("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
ENTRY(size_huge, .name = "lroot/b", .size_raw = STR("\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
ENTRY(size_8_eib, .name = "lroot/b", .size_raw = STR("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"))
ENTRY(unlisted, .name = "lroot/b", .data = STR("x"))
ENTRY(other_case, .name = "lroot/A", .data = STR("x"))
ENTRY(twice, .name = "lroot/a", .data = STR("y"))
ENTRY(folder_of_file, .name = "lroot/a/", .type = '5')
ENTRY(below_file, .name = "lroot/a/b")
ENTRY(nested_long, .name = "lroot/1/2/3/4/5/6/7")

static void build_nothing(struct buf *out)
{
    (void)out;
}

static void build_zeros(struct buf *out)
{
    tarball_end(out);
    tarball_end(out);
}

static void build_text(struct buf *out)
{
    for (int i = 0; i < 100; i++)
        buf_add_z(out, "this is no tarball at all\n");
}

static void build_short(struct buf *out)
{
    buf_add_z(out, "short");
}

static void build_zip(struct buf *out)
{
    char bytes[600] = "PK\x03\x04";
    buf_add(out, bytes, sizeof bytes);
}

static void build_cut_header(struct buf *out)
{
    put_file(out, "lroot/b", "x");
    out->len -= 600;
}

static void build_cut_data(struct buf *out)
{
    tarball_header(out, (struct tar_put){ .name = "lroot/b", .size = "00000000100" });
    buf_add_z(out, "short");
}

static void build_no_end(struct buf *out)
{
    (void)out;
}

static void build_one_zero_block(struct buf *out)
{
    char zeros[512] = { 0 };
    buf_add(out, zeros, sizeof zeros);
}

static void build_zero_between(struct buf *out)
{
    build_one_zero_block(out);
    put_file(out, "lroot/b", "x");
}

static void build_behind_end(struct buf *out)
{
    tarball_end(out);
    put_file(out, "lroot/b", "x");
}

static void build_garbage_behind(struct buf *out)
{
    tarball_end(out);
    buf_add_z(out, "garbage");
}

static void build_zeros_behind(struct buf *out)
{
    for (int i = 0; i < 1100; i++)
        tarball_end(out);
}

/* pax_row: an extended header with one record, and the entry that it is about. */
static void pax_row(struct buf *out, char type, const char *key, struct str value)
{
    tarball_pax(out, type, key, value);
    put_file(out, "lroot/b", "12345");
}

#define PAX(id, type, key, value) \
    static void build_##id(struct buf *out) \
    { \
        pax_row(out, type, key, STR(value)); \
    }
PAX(pax_size, 'x', "size", "4")
PAX(pax_size_negative, 'x', "size", "-1")
PAX(pax_size_text, 'x', "size", "x")
PAX(pax_size_huge, 'x', "size", "9223372036854775808")
PAX(pax_path, 'x', "path", "lroot/../../b")
PAX(pax_path_empty, 'x', "path", "")
PAX(pax_path_nul, 'x', "path", "lroot/b\0c")
PAX(pax_link, 'x', "linkpath", "/etc/passwd")
PAX(pax_sparse, 'x', "GNU.sparse.realsize", "9223372036854775807")
PAX(pax_sparse_name, 'x', "GNU.sparse.name", "lroot/c")
PAX(pax_capability, 'x', "SCHILY.xattr.security.capability", "\1\0\0\2")
PAX(pax_xattr, 'x', "LIBARCHIVE.xattr.user.a", "Yg")
PAX(pax_selinux, 'x', "RHT.security.selinux", "x")
PAX(pax_acl, 'x', "SCHILY.acl.access", "user::rw-")
PAX(pax_flags, 'x', "SCHILY.fflags", "schg")
PAX(global_path, 'g', "path", "lroot/c")
PAX(global_size, 'g', "size", "5")
PAX(global_xattr, 'g', "SCHILY.xattr.user.a", "b")

static void build_no_name_but_pax(struct buf *out)
{
    tarball_pax(out, 'x', "path", STR("lroot/b"));
    put_file(out, "", "x");
}

static void build_pax_twice(struct buf *out)
{
    tarball_pax(out, 'x', "path", STR("lroot/c"));
    pax_row(out, 'x', "path", STR("lroot/b"));
}

static void build_pax_record(struct buf *out, const char *record)
{
    tarball_put(out, (struct tar_put){ .name = "PaxHeaders/x", .type = 'x', .data = str_of(record) });
    put_file(out, "lroot/b", "12345");
}

#define RECORD(id, record) \
    static void build_##id(struct buf *out) \
    { \
        build_pax_record(out, record); \
    }
RECORD(record_long, "99 path=lroot/c\n")
RECORD(record_short, "5 path=lroot/c\n")
RECORD(record_zero, "0 path=lroot/c\n")
RECORD(record_no_length, "path=lroot/c\n")
RECORD(record_no_key, "10 =value\n")
RECORD(record_no_equals, "9 value1\n")
RECORD(record_two_sizes, "9 size=5\n9 size=5\n")

static void build_pax_long(struct buf *out)
{
    struct buf value;
    buf_init(&value, SIZE_MAX);
    for (int i = 0; i < 700; i++)
        buf_add_z(&value, N100);
    pax_row(out, 'x', "comment", buf_str(&value));
    buf_release(&value);
}

static void build_pax_alone(struct buf *out)
{
    tarball_pax(out, 'x', "path", STR("lroot/c"));
}

static void build_name_1_mib(struct buf *out)
{
    struct buf name;
    buf_init(&name, SIZE_MAX);
    while (name.len < 1 << 20)
        buf_add_z(&name, N100);
    tarball_long_name(out, buf_str(&name));
    put_file(out, "lroot/b", "x");
    buf_release(&name);
}

static void build_long_name_twice(struct buf *out)
{
    tarball_long_name(out, STR("lroot/c"));
    tarball_long_name(out, STR("lroot/d"));
    put_file(out, "lroot/b", "x");
}

static void build_long_name_loop(struct buf *out)
{
    for (int i = 0; i < 1000; i++)
        tarball_long_name(out, STR("././@LongLink"));
}

static void build_path_long(struct buf *out)
{
    tarball_long_name(out, STR("lroot/" N100 "/" N100 "/" N100 "/b"));
    put_file(out, "lroot/b", "x");
}

static void build_part_long(struct buf *out)
{
    tarball_pax(out, 'x', "path", STR("lroot/" N100 N100 N100));
    put_file(out, "lroot/b", "x");
}

static void build_many_files(struct buf *out)
{
    for (int i = 0; i < 30; i++) {
        char name[40];
        snprintf(name, sizeof name, "lroot/f%d", i);
        put_file(out, name, "");
    }
}

static void build_many_folders(struct buf *out)
{
    for (int i = 0; i < 30; i++) {
        char name[40];
        snprintf(name, sizeof name, "lroot/d%d/", i);
        tarball_put(out, (struct tar_put){ .name = name, .type = '5' });
    }
}

static void build_too_much(struct buf *out)
{
    char bytes[60000];
    memset(bytes, 'x', sizeof bytes);
    tarball_put(out, (struct tar_put){ .name = "lroot/b", .data = { bytes, sizeof bytes } });
    tarball_put(out, (struct tar_put){ .name = "lroot/c", .data = { bytes, sizeof bytes } });
}

static void build_meta_1_gib(struct buf *out)
{
    tarball_header(out, (struct tar_put){ .name = "meta", .size = "10000000000" });
}

#define META(id, text) \
    static void build_##id(struct buf *out) \
    { \
        tarball_put(out, (struct tar_put){ .name = "meta", .data = STR(text) }); \
    }
META(meta_repeated, META_A "##files\nb\n")
META(meta_cr, "##movetype\r\nDC\r\n")
META(meta_nul, "##movetype\nDC\0\n")
META(meta_early, "hello\n##movetype\nDC\n")
META(meta_missing_file, "##movetype\nDC\n##target\nt\n##files\na\nsrc/b\n")
META(meta_no_target, "##movetype\nDC\n##files\na\n")
META(meta_no_type, "##target\nt\n##files\na\n")
META(meta_other_type, "##movetype\nXY\n##target\nt\n##files\na\n")
META(meta_bad_path, "##movetype\nDC\n##target\nt\n##files\na\n../b\n")
META(meta_case, "##movetype\nDC\n##target\nt\n##files\nA\n")
META(meta_both, META_A "##removed\na\n")
META(rb_with_files, "##movetype\nRB\n##target\nt\n##files\na\n##dependencies\nc-1\n")
META(rb_without, "##movetype\nRB\n##target\nt\n")
META(no_work, "##movetype\nDC\n##target\nt\n")
META(rb_unlisted, "##movetype\nRB\n##target\nt\n##dependencies\nc-1\n")

static void compressed(struct buf *out, const char *filter, struct str more)
{
    struct buf plain;
    buf_init(&plain, SIZE_MAX);
    put_file(&plain, "meta", META_A);
    put_file(&plain, "lroot/a", "x");
    tarball_end(&plain);
    tarball_compress(out, filter, buf_str(&plain));
    buf_add_str(out, more);
    buf_release(&plain);
}

static void build_bzip2(struct buf *out)
{
    compressed(out, "bzip2", (struct str){ 0 });
}

static void build_lz4(struct buf *out)
{
    compressed(out, "lz4", (struct str){ 0 });
}

static void build_two_layers(struct buf *out)
{
    struct buf inner;
    buf_init(&inner, SIZE_MAX);
    compressed(&inner, "gzip", (struct str){ 0 });
    tarball_compress(out, "gzip", buf_str(&inner));
    buf_release(&inner);
}

static void build_xz_in_gzip(struct buf *out)
{
    struct buf inner;
    buf_init(&inner, SIZE_MAX);
    compressed(&inner, "xz", (struct str){ 0 });
    tarball_compress(out, "gzip", buf_str(&inner));
    buf_release(&inner);
}

#define LAYER(id, filter) \
    static void build_##id##_cut(struct buf *out) \
    { \
        compressed(out, filter, (struct str){ 0 }); \
        out->len -= 12; \
    } \
    static void build_##id##_behind(struct buf *out) \
    { \
        compressed(out, filter, STR("garbage, and more of it")); \
    } \
    static void build_##id##_damaged(struct buf *out) \
    { \
        compressed(out, filter, (struct str){ 0 }); \
        for (size_t i = 30; i < 60 && i < out->len; i++) \
            out->ptr[i] = (char)(out->ptr[i] ^ 0x55); \
    }
LAYER(gzip, "gzip")
LAYER(xz, "xz")
LAYER(zstd, "zstd")

#define NOT_TAR "not a tar archive (ustar, pax or GNU; plain, or gzip, xz or zstd around it)"
#define DAMAGED(layer) "the " layer " around the archive is damaged, cut off or followed by other bytes"
#define IN(path, text) "'" path "' in the tarball: " text, path, 0
#define ROW(id, flags) #id, build_##id, flags
static const struct row rows[] = {
    /* row 39 */
    { ROW(above, 0), ERR_invalid, IN("lroot/../x", "its path has a part '..'") },
    { ROW(above_first, 0), ERR_invalid, IN("../x", "its path has a part '..'") },
    { ROW(above_far, 0), ERR_invalid, IN("lroot/a/../../x", "its path has a part '..'") },
    { ROW(absolute, 0), ERR_invalid, IN("/etc/passwd", "its path begins with '/': paths are relative") },
    { ROW(absolute_below, 0), ERR_invalid, IN("lroot//etc/passwd", "its path begins with '/': paths are relative") },
    { ROW(no_name, 0), ERR_invalid, "a header without a name", "", 0 },
    { ROW(no_name_but_pax, 0), ERR_invalid, "a header without a name", "", 0 },
    { ROW(dot, 0), ERR_invalid, IN(".", "its path has a part '.'") },
    { ROW(dot_slash, 0), ERR_invalid, IN(".", "its path has a part '.'") },
    { ROW(dot_meta, 0), ERR_invalid, IN("./meta", "its path has a part '.'") },
    { ROW(dot_part, 0), ERR_invalid, IN("lroot/./b", "its path has a part '.'") },
    { ROW(folder_above, 0), ERR_invalid, IN("lroot/../../x", "its path has a part '..'") },
    { ROW(folder_absolute, 0), ERR_invalid, IN("/tmp", "its path begins with '/': paths are relative") },
    { ROW(folder_root, 0), ERR_invalid, IN("/", "its path begins with '/': paths are relative") },
    { ROW(git, 0), ERR_invalid,
        IN("lroot/.GIT/config", "its path has a part '.git' or '.svn', which belongs to the repository") },
    { ROW(svn, 0), ERR_invalid,
        IN("lroot/x/.svn", "its path has a part '.git' or '.svn', which belongs to the repository") },
    { ROW(control, 0), ERR_invalid, IN("lroot/a?[1m", "its path has a control character") },
    { ROW(newline, 0), ERR_invalid, IN("lroot/a?b", "its path has a control character") },
    { ROW(not_utf8, 0), ERR_invalid, IN("lroot/?", "its path isn't UTF-8") },
    { ROW(elsewhere, 0), ERR_invalid, IN("other/file", ONLY) },
    { ROW(lroot_like, 0), ERR_invalid, IN("lroots/file", ONLY) },
    { ROW(lroot_file, 0), ERR_invalid, IN("lroot", ONLY) },
    { ROW(pax_path, 0), ERR_invalid, IN("lroot/../../b", "its path has a part '..'") },
    /* row 40 */
    { ROW(symlink, 0), ERR_invalid, IN("lroot/b", "a symbolic link") },
    { ROW(symlink_of_a, 0), ERR_invalid, IN("lroot/a", "a symbolic link") },
    { ROW(hard_link, 0), ERR_invalid, IN("lroot/b", "a hard link") },
    { ROW(long_link, 0), ERR_invalid, IN("././@LongLink", "a symbolic link") },
    { ROW(pax_link, 0), ERR_invalid, IN("lroot/b", "a link") },
    /* row 42 */
    { ROW(char_device, 0), ERR_invalid, IN("lroot/b", "a device") },
    { ROW(block_device, 0), ERR_invalid, IN("lroot/b", "a device") },
    { ROW(fifo, 0), ERR_invalid, IN("lroot/b", "a FIFO") },
    { ROW(socket, 0), ERR_invalid, IN("lroot/b", "a socket") },
    { ROW(contiguous, 0), ERR_invalid, IN("lroot/b", "neither a regular file nor a folder") },
    { ROW(volume, 0), ERR_invalid, IN("label", "neither a regular file nor a folder") },
    { ROW(set_uid, 0), ERR_invalid, IN("lroot/b", "the set-user-id bit") },
    { ROW(set_gid, 0), ERR_invalid, IN("lroot/b", "the set-group-id bit") },
    { ROW(sticky, 0), ERR_invalid, IN("lroot/b", "the sticky bit") },
    { ROW(sticky_folder, 0), ERR_invalid, IN("lroot/b", "the sticky bit") },
    { ROW(acl_solaris, 0), ERR_invalid, IN("lroot/b", "an access control list") },
    { ROW(pax_acl, 0), ERR_invalid, IN("lroot/b", "an access control list") },
    { ROW(pax_flags, 0), ERR_invalid, IN("lroot/b", "file flags") },
    { ROW(pax_capability, 0), ERR_invalid, IN("lroot/b", "extended attributes") },
    { ROW(pax_xattr, 0), ERR_invalid, IN("lroot/b", "extended attributes") },
    { ROW(pax_selinux, 0), ERR_invalid, IN("lroot/b", "extended attributes") },
    { ROW(global_xattr, 0), ERR_invalid, "a global header with 'SCHILY.xattr.user.a' for all entries", "", 0 },
    /* row 45 */
    { ROW(sparse, 0), ERR_invalid, IN("lroot/b", "a sparse file") },
    { ROW(gnu_parts, 0), ERR_invalid, IN("lroot/b", "a sparse file, or a part of a file") },
    { ROW(pax_sparse, 0), ERR_invalid, IN("lroot/b", "a sparse file") },
    { ROW(pax_sparse_name, 0), ERR_invalid, IN("lroot/b", "a sparse file") },
    { ROW(size_8_eib, 0), ERR_body_too_large,
        IN("lroot/b", "more than 100000 bytes in all files (changesets.limits.unpacked)") },
    { ROW(too_much, 0), ERR_body_too_large,
        IN("lroot/c", "more than 100000 bytes in all files (changesets.limits.unpacked)") },
    { ROW(many_files, 0), ERR_body_too_large, IN("lroot/f19", "more than 20 files (changesets.limits.files)") },
    { ROW(many_folders, 0), ERR_body_too_large, IN("lroot/d20", "more than 20 folders (changesets.limits.files)") },
    { ROW(nested_long, 0), ERR_body_too_large,
        IN("lroot/1/2/3/4/5/6/7", "its path has more than 6 parts (changesets.limits.depth)") },
    { ROW(path_long, 0), ERR_body_too_large,
        "'" NSHOWN "' in the tarball: its path is longer than 300 bytes (changesets.limits.path)",
        "lroot/" N100 "/" N100 "/" N100 "/b", 0 },
    { ROW(part_long, 0), ERR_body_too_large, "'" NSHOWN "' in the tarball: its path has a part longer than 255 bytes",
        "lroot/" N100 N100 N100, 0 },
    { ROW(name_1_mib, 0), ERR_body_too_large, "an extended header longer than 8193 bytes", "", 0 },
    { ROW(pax_long, 0), ERR_body_too_large, "an extended header longer than 65536 bytes", "", 0 },
    { ROW(zeros_behind, 0), ERR_body_too_large, "more than 1048576 zeros behind the end of the archive", "", 0 },
    /* row 47 */
    { ROW(zeros, BARE), ERR_invalid, "there is no file meta in the tarball", "", 0 },
    { ROW(text, BARE), ERR_invalid, NOT_TAR, "", 0 },
    { ROW(zip, BARE), ERR_invalid, NOT_TAR, "", 0 },
    { ROW(bzip2, BARE), ERR_invalid, NOT_TAR, "", 0 },
    { ROW(lz4, BARE), ERR_invalid, NOT_TAR, "", 0 },
    { ROW(two_layers, BARE), ERR_invalid, NOT_TAR, "", 0 },
    { ROW(xz_in_gzip, BARE), ERR_invalid, NOT_TAR, "", 0 },
    { ROW(short, BARE), ERR_invalid, NOT_TAR, "", 0 },
    { ROW(nothing, BARE), ERR_bad_request, "the tarball is empty", "", 0 },
    { ROW(cut_header, NO_END), ERR_invalid, "truncated: the archive ends in the middle of an entry", "", 0 },
    { ROW(cut_data, NO_END), ERR_invalid, IN("lroot/b", "truncated: the archive ends in the middle of an entry") },
    { ROW(no_end, NO_END), ERR_invalid, "truncated: the archive has no end, which is two blocks of zeros", "", 0 },
    { ROW(one_zero_block, NO_END), ERR_invalid, "truncated: the archive has no end, which is two blocks of zeros", "",
        0 },
    { ROW(zero_between, 0), ERR_invalid, "a block of zeros in the middle of the archive", "", 0 },
    { ROW(behind_end, 0), ERR_invalid, "bytes behind the end of the archive", "", 0 },
    { ROW(garbage_behind, NO_END), ERR_invalid, "bytes behind the end of the archive", "", 0 },
    { ROW(bad_sum, 0), ERR_invalid, "a header whose checksum is wrong", "", 0 },
    { ROW(v7, 0), ERR_invalid, NOT_TAR, "", 0 },
    { ROW(odd_magic, 0), ERR_invalid, NOT_TAR, "", 0 },
    { ROW(size_no_number, 0), ERR_invalid, "a header whose size is no number, negative or beyond all measure", "", 0 },
    { ROW(size_negative, 0), ERR_invalid, "a header whose size is no number, negative or beyond all measure", "", 0 },
    { ROW(size_huge, 0), ERR_invalid, "a header whose size is no number, negative or beyond all measure", "", 0 },
    { ROW(pax_size, 0), ERR_invalid, IN("lroot/b", "two sizes: 5 in its header, 4 in its extended header") },
    { ROW(pax_size_negative, 0), ERR_invalid, "an extended header with a size that is no number, or with two", "", 0 },
    { ROW(pax_size_text, 0), ERR_invalid, "an extended header with a size that is no number, or with two", "", 0 },
    { ROW(pax_size_huge, 0), ERR_invalid, "an extended header with a size that is no number, or with two", "", 0 },
    { ROW(record_two_sizes, 0), ERR_invalid, "an extended header with a size that is no number, or with two", "", 0 },
    { ROW(pax_path_empty, 0), ERR_invalid, "an extended header with an empty name, or a NUL in it", "", 0 },
    { ROW(pax_path_nul, 0), ERR_invalid, "an extended header with an empty name, or a NUL in it", "", 0 },
    { ROW(pax_twice, 0), ERR_invalid, "two extended headers for one entry", "", 0 },
    { ROW(pax_alone, 0), ERR_invalid, "an extended header without its entry", "", 0 },
    { ROW(global_path, 0), ERR_invalid, "a global header with 'path' for all entries", "", 0 },
    { ROW(global_size, 0), ERR_invalid, "a global header with 'size' for all entries", "", 0 },
    { ROW(record_long, 0), ERR_invalid, "an extended header that can't be read", "", 0 },
    { ROW(record_short, 0), ERR_invalid, "an extended header that can't be read", "", 0 },
    { ROW(record_zero, 0), ERR_invalid, "an extended header that can't be read", "", 0 },
    { ROW(record_no_length, 0), ERR_invalid, "an extended header that can't be read", "", 0 },
    { ROW(record_no_key, 0), ERR_invalid, "an extended header that can't be read", "", 0 },
    { ROW(record_no_equals, 0), ERR_invalid, "an extended header that can't be read", "", 0 },
    { ROW(long_name_twice, 0), ERR_invalid, "two extended headers for one entry", "", 0 },
    { ROW(long_name_loop, 0), ERR_invalid, "two extended headers for one entry", "", 0 },
    { ROW(file_slash, 0), ERR_invalid, IN("lroot/b/", "a file whose name ends in '/'") },
    { ROW(folder_size, 0), ERR_invalid, IN("lroot/b", "a folder with a size") },
    { ROW(gzip_cut, BARE), ERR_invalid, DAMAGED("gzip"), "", 0 },
    { ROW(gzip_behind, BARE), ERR_invalid, DAMAGED("gzip"), "", 0 },
    { ROW(gzip_damaged, BARE), ERR_invalid, DAMAGED("gzip"), "", 0 },
    { ROW(xz_cut, BARE), ERR_invalid, DAMAGED("xz"), "", 0 },
    { ROW(xz_behind, BARE), ERR_invalid, DAMAGED("xz"), "", 0 },
    { ROW(xz_damaged, BARE), ERR_invalid, DAMAGED("xz"), "", 0 },
    { ROW(zstd_cut, BARE), ERR_invalid, DAMAGED("zstd"), "", 0 },
    { ROW(zstd_behind, BARE), ERR_invalid, DAMAGED("zstd"), "", 0 },
    { ROW(zstd_damaged, BARE), ERR_invalid, DAMAGED("zstd"), "", 0 },
    /* row 48 */
    { ROW(nothing, NO_META), ERR_invalid, "there is no file meta in the tarball", "", 0 },
    { ROW(meta_twice, 0), ERR_invalid, IN("meta", "it stands in the tarball twice") },
    { ROW(meta_folder, NO_META), ERR_invalid, IN("meta", "a folder, but meta is a file") },
    { ROW(meta_1_gib, NO_META | NO_END), ERR_body_too_large,
        IN("meta", "longer than 2000 bytes (changesets.limits.meta)") },
    { ROW(meta_repeated, NO_META), ERR_invalid, "the section '##files' stands in line 5 already", "", 7 },
    { ROW(meta_cr, NO_META), ERR_invalid, "a carriage return", "", 1 },
    { ROW(meta_nul, NO_META), ERR_invalid, "a byte 0, which no text has", "", 2 },
    { ROW(meta_early, NO_META), ERR_invalid, "text before the first section", "", 1 },
    { ROW(meta_no_target, NO_META), ERR_invalid, "there is no ##target", "", 0 },
    { ROW(meta_no_type, NO_META), ERR_invalid, "there is no ##movetype", "", 0 },
    { ROW(meta_other_type, NO_META), ERR_invalid, "'XY' is no move type", "", 2 },
    { ROW(meta_bad_path, NO_META), ERR_invalid, "'../b' has a part '..'", "../b", 7 },
    { ROW(meta_both, NO_META), ERR_invalid, "'a' is in ##files and in ##removed (line 6)", "a", 8 },
    { ROW(rb_with_files, NO_META), ERR_invalid, "a rollback (RB) has no files", "", 6 },
    { ROW(rb_without, NO_META | NO_FILE), ERR_invalid, "a rollback (RB) lists what it rolls back in ##dependencies", "",
        0 },
    { ROW(rb_unlisted, NO_META), ERR_invalid, "'a' is in the tarball, but not in ##files", "a", 0 },
    { ROW(no_work, NO_META | NO_FILE), ERR_invalid, "nothing to do: no path in ##files and none in ##removed", "", 0 },
    /* row 49 */
    { ROW(meta_missing_file, NO_META), ERR_invalid, "'src/b' is in ##files, but not in the tarball", "src/b", 7 },
    { ROW(unlisted, 0), ERR_invalid, "'b' is in the tarball, but not in ##files", "b", 0 },
    { ROW(other_case, 0), ERR_invalid, "'A' is in the tarball, but not in ##files", "A", 0 },
    { ROW(meta_case, NO_META), ERR_invalid, "'a' is in the tarball, but not in ##files", "a", 0 },
    { ROW(twice, 0), ERR_invalid, "'a' stands in the tarball twice", "a", 0 },
    { ROW(folder_of_file, 0), ERR_invalid, "'a' is a folder in the tarball", "a", 6 },
    { ROW(below_file, 0), ERR_invalid, "'a/b' is in the tarball, but not in ##files", "a/b", 0 },
};

static void row_build(const struct row *row, struct buf *out)
{
    if (!(row->flags & NO_META))
        put_file(out, "meta", META_A);
    if (!(row->flags & NO_FILE))
        put_file(out, "lroot/a", "content of a");
    row->build(out);
    if (!(row->flags & NO_END))
        tarball_end(out);
}

/* An extract sees some faults at the entry, before it sees the whole list. */
static const struct row others[] = {
    { ROW(twice, 0), ERR_invalid, IN("lroot/a", "it stands in the tarball twice") },
    { ROW(folder_of_file, 0), ERR_invalid, IN("lroot/a", "a file and a folder of one path") },
    { ROW(below_file, 0), ERR_invalid, IN("lroot/a/b", "a file and a folder of one path") },
};

/* row_show: the answer that came instead of the one that was wanted. */
static void row_show(const struct row *row, const struct world *world, bool is_extract)
{
    const struct err_item *item = world->err.n_items > 0 ? &world->err.items[0] : NULL;
    print_error("%s (%s): wanted %s '%s' at '%s':%u\n    got %s '%s' at '%.*s':%u\n", row->name,
        is_extract ? "extract" : "check", err_name(row->code), row->text ? row->text : "", row->path ? row->path : "",
        row->line, err_name(world->err.code), world->err.text, item ? (int)item->path.len : 0,
        item ? item->path.ptr : "", item ? item->line : 0);
}

static bool row_check(const struct row *row, bool is_extract)
{
    struct world world;
    struct buf out;
    buf_init(&out, SIZE_MAX);
    world_open(&world);
    row_build(row, &out);
    world_run(&world, buf_str(&out), is_extract);
    const struct err_item *item = world.err.n_items > 0 ? &world.err.items[0] : NULL;
    bool same = world.err.code == row->code && strcmp(world.err.text, row->text) == 0 && item != NULL &&
                str_eqz(item->path, row->path) && item->line == row->line;
    if (!same)
        row_show(row, &world, is_extract);
    struct walked walked = world_look(&world);
    assert_int_equal(walked.n_files + walked.n_folders, 0);
    buf_release(&out);
    world_close(&world);
    return same;
}

static void rows_check(bool is_extract)
{
    size_t n_wrong = 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        for (size_t k = 0; is_extract && k < COUNT_OF(others); k++)
            row = others[k].build == rows[i].build ? &others[k] : row;
        n_wrong += !row_check(row, is_extract);
    }
    assert_int_equal(n_wrong, 0);
}

static void refuses_by_check(void **state)
{
    (void)state;
    rows_check(false);
}

static void refuses_by_extract(void **state)
{
    (void)state;
    rows_check(true);
}

int main(int argc, char **argv)
{
    world_program = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_by_check),
        cmocka_unit_test(refuses_by_extract),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
