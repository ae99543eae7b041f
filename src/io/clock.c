/* clock: the only reader of clocks and entropy, so that everything above can be run under another time.
 *
 * Wall time may jump and is for display and calendars only; boot time never goes back and counts suspension too.
 *
 * A kernel without these clocks or without entropy can't run Weir: both are assertions. */
#include "io/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "io/fsx.h"

static struct timespec clock_read(clockid_t id)
{
    struct timespec ts;
    ASSERT(clock_gettime(id, &ts) == 0);
    return ts;
}

static _Atomic int64_t wall_from_ms;

int64_t clock_wall_own_ms(void)
{
    struct timespec ts = clock_read(CLOCK_REALTIME);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t clock_wall_ms(void)
{
    int64_t from = wall_from_ms;
    return from ? from + clock_boot_ms() : clock_wall_own_ms();
}

void clock_wall_follow(int64_t from_ms)
{
    wall_from_ms = from_ms;
}

int64_t clock_wall_correction(void)
{
    int64_t from = wall_from_ms;
    return from ? from + clock_boot_ms() - clock_wall_own_ms() : 0;
}

int64_t clock_boot_ms(void)
{
    struct timespec ts = clock_read(CLOCK_BOOTTIME);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t clock_boot_us(void)
{
    struct timespec ts = clock_read(CLOCK_BOOTTIME);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

struct boot_id clock_boot_id(void)
{
    struct boot_id id = { "" };
    fsx_read_text(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 0, id.z, sizeof id.z);
    id.z[strcspn(id.z, "\n")] = '\0';
    return id;
}

void clock_entropy(void *out, size_t n)
{
    char *at = out;
    while (n > 0) {
        ssize_t got = getrandom(at, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        ASSERT(got > 0);
        at += got;
        n -= (size_t)got;
    }
}
