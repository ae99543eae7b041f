/* task_text: see task_text.h. Nothing here fails: an absent field is shown as nothing. */
#include "cli/task_text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "core/model.h"

enum { KEY_CAP = 8192, TEXTS_MAX = 511 };

static const struct {
    char letter;
    const char *word;
    bool ended;
} states[] = {
#define X(name, letter, word, ended) { letter, word, ended },
    TASK_STATES(X)
#undef X
};

const char state_letters[] = "QSPXDFTA";

const char *field_z(const json_t *object, const char *name)
{
    const char *z = json_string_value(json_object_get(object, name));
    return z ? z : "";
}

int64_t field_i64(const json_t *object, const char *name, int64_t otherwise)
{
    const json_t *value = json_object_get(object, name);
    if (json_is_integer(value))
        return (int64_t)json_integer_value(value);
    if (json_is_real(value))
        return (int64_t)(json_real_value(value) + 0.5);
    return otherwise;
}

bool field_time(const json_t *object, const char *name, int64_t *out_ms)
{
    return when_parse(str_of(field_z(object, name)), out_ms);
}

char task_letter(const json_t *task)
{
    const char *state = field_z(task, "state");
    return *state ? *state : '?';
}

const char *letter_word(char letter)
{
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (states[i].letter == letter)
            return states[i].word;
    return "";
}

bool letter_ended(char letter)
{
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (states[i].letter == letter)
            return states[i].ended;
    return false;
}

const char *task_key(struct arena *arena, const json_t *task)
{
    const json_t *key = json_object_get(task, "key");
    if (json_is_string(key))
        return str_dupz(arena, str_of(json_string_value(key)));
    long long id = field_i64(task, "id", 0);
    struct buf text;
    buf_init(&text, KEY_CAP);
    if (*field_z(key, "archive")) {
        buf_addf(
            &text, "%s@%lld:%s", field_z(key, "archive"), (long long)field_i64(key, "rev", 0), field_z(key, "name"));
        if (*field_z(key, "variant"))
            buf_addf(&text, "[%s]", field_z(key, "variant"));
        if (field_i64(key, "run", 0) > 0)
            buf_addf(&text, "#%lld", (long long)field_i64(key, "run", 0));
    } else if (*field_z(key, "queue")) {
        buf_addf(&text, "%s:%lld", field_z(key, "queue"), id);
    } else if (*field_z(key, "target")) {
        buf_addf(&text, "%s:%s", field_z(key, "target"), field_z(key, "name"));
    } else {
        buf_addf(&text, "%lld", id);
    }
    const char *z = str_dupz(arena, buf_str(&text));
    buf_release(&text);
    return z;
}

const char *texts_join(struct arena *arena, const json_t *texts)
{
    struct str all = { 0 };
    const json_t *text;
    size_t i;
    json_array_foreach (texts, i, text)
        all = str_fmt(
            arena, "%.*s%s%s", STR_ARG(all), i ? " " : "", json_is_string(text) ? json_string_value(text) : "?");
    return str_dupz(arena, str_sub(all, 0, TEXTS_MAX));
}

const char *task_name(const json_t *task)
{
    const char *name = field_z(json_object_get(task, "key"), "name");
    return *name ? name : field_z(task, "name");
}

const char *task_reason(struct arena *arena, const json_t *task)
{
    const json_t *cause = json_object_get(task, "cause");
    const char *reason = field_z(task, "reason"), *key = json_is_string(cause) ? json_string_value(cause) : "";
    if (!*key || strstr(reason, key))
        return reason;
    return str_dupz(arena, str_fmt(arena, "%s (%s)", reason, key));
}

struct when_text span_text(int64_t ms)
{
    struct when_text text;
    if (ms < 0)
        ms = 0;
    int64_t s = ms / 1000, m = s / 60, h = m / 60, d = h / 24;
    if (ms < 1000)
        snprintf(text.z, sizeof text.z, "%lldms", (long long)ms);
    else if (ms < 10000)
        snprintf(text.z, sizeof text.z, "%lld.%llds", (long long)s, (long long)(ms / 100 % 10));
    else if (s < 60)
        snprintf(text.z, sizeof text.z, "%llds", (long long)s);
    else if (m < 60)
        snprintf(text.z, sizeof text.z, "%lldm %llds", (long long)m, (long long)(s % 60));
    else if (h < 24)
        snprintf(text.z, sizeof text.z, "%lldh %lldm", (long long)h, (long long)(m % 60));
    else
        snprintf(text.z, sizeof text.z, "%lldd %lldh", (long long)d, (long long)(h % 24));
    return text;
}

struct when_text ago_text(int64_t then_ms, int64_t now_ms)
{
    struct when_text text;
    int64_t distance = now_ms - then_ms;
    bool future = distance < 0;
    struct when_text span = span_text(future ? -distance : distance);
    snprintf(text.z, sizeof text.z, future ? "in %.24s" : "%.24s ago", span.z);
    return text;
}

struct when_text local_text(int64_t ms)
{
    struct when_text text = { "" };
    time_t seconds = (time_t)(ms / 1000);
    struct tm local;
    if (localtime_r(&seconds, &local))
        strftime(text.z, sizeof text.z, "%Y-%m-%d %H:%M:%S", &local);
    return text;
}

void time_line(const json_t *object, const char *label, const char *field, int64_t now_ms)
{
    int64_t then;
    if (field_time(object, field, &then))
        printf("%-10s %s  (%s)\n", label, local_text(then).z, ago_text(then, now_ms).z);
}

struct when_text bytes_text(int64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    struct when_text text;
    double n = (double)bytes;
    size_t unit = 0;
    while (n >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        n /= 1024;
        unit++;
    }
    snprintf(text.z, sizeof text.z, unit ? "%.1f%s" : "%.0f%s", n, units[unit]);
    return text;
}
