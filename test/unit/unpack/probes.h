/* probes: what a child in an attacker's hands tries, and what it reports; shared by plain_child.c and the tests. */
#ifndef WEIR_TEST_UNPACK_PROBES_H
#define WEIR_TEST_UNPACK_PROBES_H

enum { LIE_BYTES = 2048 }; /* of the tarball that asks for one */

enum probe {
#define PROBE(name, call, check, extract) PROBE_##name,
#include "probes.def"
#undef PROBE
    PROBE_COUNT
};

enum lie {
#define LIE(name, says, ...) LIE_##name,
#include "probes.def"
#undef LIE
    LIE_COUNT
};

#endif
