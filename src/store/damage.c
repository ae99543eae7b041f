/* damage: see damage.h. A lock, a count, the first text. */
#include "store/damage.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static struct {
    pthread_mutex_t lock;
    _Atomic uint64_t count;
    char text[DAMAGE_TEXT_MAX];
    void (*heard)(void *owner);
    void *owner;
} damage = { .lock = PTHREAD_MUTEX_INITIALIZER };

uint64_t damage_count(void)
{
    return atomic_load_explicit(&damage.count, memory_order_relaxed);
}

void damage_text(char out[DAMAGE_TEXT_MAX])
{
    pthread_mutex_lock(&damage.lock);
    memcpy(out, damage.text, DAMAGE_TEXT_MAX);
    pthread_mutex_unlock(&damage.lock);
}

void damage_listen(void (*heard)(void *owner), void *owner)
{
    pthread_mutex_lock(&damage.lock);
    damage.heard = heard;
    damage.owner = owner;
    pthread_mutex_unlock(&damage.lock);
}

void damage_note(const char *text)
{
    pthread_mutex_lock(&damage.lock);
    bool first = damage.text[0] == '\0';
    if (first)
        snprintf(damage.text, sizeof damage.text, "%s", text);
    atomic_fetch_add(&damage.count, 1);
    if (first && damage.heard)
        damage.heard(damage.owner);
    pthread_mutex_unlock(&damage.lock);
}

bool damage_set(struct err *err, const char *fmt, ...)
{
    char text[DAMAGE_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    damage_note(text);
    return err_set(err, ERR_corrupt, "%s", text);
}
