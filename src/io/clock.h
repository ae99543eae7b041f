/* clock: the only reader of clocks and entropy. */
#ifndef WEIR_IO_CLOCK_H
#define WEIR_IO_CLOCK_H

#include <stddef.h>
#include <stdint.h>

int64_t clock_wall_ms(void); /* for display and calendars */
int64_t clock_boot_ms(void); /* CLOCK_BOOTTIME: leases, time-outs */
int64_t clock_boot_us(void);
struct boot_id { char z[64]; };
struct boot_id clock_boot_id(void); /* of this start of the machine, as the kernel tells it; empty: it doesn't */
void clock_entropy(void *out, size_t n); /* from the kernel; aborts when it has none */

#endif
