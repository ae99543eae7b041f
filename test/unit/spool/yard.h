/* yard: a BASE in a temp folder, and what stands in it. */
#ifndef WEIR_TEST_SPOOL_YARD_H
#define WEIR_TEST_SPOOL_YARD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spool/folders.h"

struct yard {
    char dir[64], base[96];
    struct folders folders;
};

static inline void yard_make(struct yard *yard)
{
    struct err err = { 0 };
    *yard = (struct yard){ .dir = "/tmp/weir-spool.XXXXXX" };
    assert_non_null(mkdtemp(yard->dir));
    snprintf(yard->base, sizeof yard->base, "%s/spool", yard->dir);
    if (!folders_open(&yard->folders, yard->base, &err))
        fail_msg("%s", err.text);
}

static inline void yard_drop(struct yard *yard)
{
    char line[128];
    folders_close(&yard->folders);
    snprintf(line, sizeof line, "rm -rf %s", yard->dir);
    assert_int_equal(system(line), 0);
}

static inline const char *yard_path(const struct yard *yard, const char *folder, const char *name)
{
    static char path[4][512];
    static unsigned n;
    char *out = path[n++ % 4];
    snprintf(out, sizeof path[0], "%s/%s/%s", yard->base, folder, name);
    return out;
}

static inline void yard_write(const struct yard *yard, const char *folder, const char *name, const char *text)
{
    FILE *file = fopen(yard_path(yard, folder, name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* yard_read: the whole file, or NULL; the caller's to free. */
static inline char *yard_read(const struct yard *yard, const char *folder, const char *name)
{
    FILE *file = fopen(yard_path(yard, folder, name), "r");
    if (file == NULL)
        return NULL;
    char *text = calloc(1, 1 << 16);
    assert_non_null(text);
    (void)!fread(text, 1, (1 << 16) - 1, file);
    fclose(file);
    return text;
}

static inline void yard_says(const struct yard *yard, const char *folder, const char *name, const char *text)
{
    char *is = yard_read(yard, folder, name);
    if (is == NULL)
        fail_msg("%s/%s isn't there", folder, name);
    assert_string_equal(is, text);
    free(is);
}

static inline bool yard_has(const struct yard *yard, const char *folder, const char *name)
{
    struct stat st;
    return lstat(yard_path(yard, folder, name), &st) == 0;
}

/* yard_count: entries of a folder whose names begin so. */
static inline size_t yard_count(const struct yard *yard, const char *folder, const char *prefix)
{
    DIR *dir = opendir(yard_path(yard, folder, ""));
    struct dirent *entry;
    size_t n = 0;
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL)
        n += entry->d_name[0] != '.' && strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    closedir(dir);
    return n;
}

/* yard_where: the state folders that have the name, as letters: "Q", "QP", "". */
static inline const char *yard_where(const struct yard *yard, const char *name)
{
    static const char *const folders[] = { "queue", "staging", "pending", "run", "done", "fail", "term", "abandon" };
    static char out[9];
    size_t n = 0;
    for (size_t i = 0; i < 8; i++)
        if (yard_has(yard, folders[i], name))
            out[n++] = "QSPXDFTA"[i];
    out[n] = '\0';
    return out;
}

#endif
