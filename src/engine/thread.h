/* thread: threads around the engine: thread.c. */
#ifndef WEIR_ENGINE_THREAD_H
#define WEIR_ENGINE_THREAD_H

#include "engine/state.h"

/* thread_hears: can executors be heard? Their polls come through the loop, which may stand still (a read that waits for
 * the database) while turns go on. due: an executor is to be given up now, so the loop has to have turned since. */
enum hearing { HEARS, HEARS_LATER, HEARS_NOTHING };
enum hearing thread_hears(struct engine *engine, int64_t boot, bool due);
/* thread_stopwatch_us: to measure how long a part of a turn takes. 0 where no thread was started (unit tests, the
 * simulator): there a turn reads no clock at all. */
int64_t thread_stopwatch_us(const struct engine *engine);
void engine_thread_free(struct engine *engine);

#endif
