/* clock: the only reader of clocks and entropy. */
#ifndef WEIR_IO_CLOCK_H
#define WEIR_IO_CLOCK_H

#include <stddef.h>
#include <stdint.h>

/* for display and calendars: boot time and what it is counted from, or the machine's own wall clock */
int64_t clock_wall_ms(void);
int64_t clock_wall_own_ms(void);
/* clock_wall_follow: whoever knows better what time it is says from where boot time is to be counted, for the whole
 * process; 0: the machine's own wall clock again. By any thread. */
void clock_wall_follow(int64_t from_ms);
int64_t clock_wall_correction(void); /* how far clock_wall_ms is from the machine's own */
int64_t clock_boot_ms(void);         /* CLOCK_BOOTTIME: leases, time-outs */
int64_t clock_boot_us(void);
struct boot_id {
    char z[64];
};
struct boot_id clock_boot_id(void);      /* of this start of the machine, as the kernel tells it; empty: it doesn't */
void clock_entropy(void *out, size_t n); /* from the kernel; aborts when it has none */

#endif
