/* clock: the only reader of clocks and entropy. */
#ifndef WEIR_IO_CLOCK_H
#define WEIR_IO_CLOCK_H

#include <stddef.h>
#include <stdint.h>

/* for display and calendars: boot time and what it is counted from, or the machine's own wall clock */
int64_t clock_wall_ms(void);
int64_t clock_wall_own_ms(void);
/* clock_wall_follow: sets, for the whole process, the wall time at boot that clock_wall_ms counts from (the store's
 * clock is trusted more than the machine's); 0: the machine's own wall clock again. Any thread may call it. */
void clock_wall_follow(int64_t from_ms);
int64_t clock_wall_correction(void); /* how far clock_wall_ms is from the machine's own */
int64_t clock_boot_ms(void);         /* CLOCK_BOOTTIME: leases, time-outs */
int64_t clock_boot_us(void);
struct boot_id {
    char z[64];
};
struct boot_id clock_boot_id(void);      /* the kernel's id of this boot; empty: unknown */
void clock_entropy(void *out, size_t n); /* from the kernel; aborts when it has none */

#endif
