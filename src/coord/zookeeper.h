/* zookeeper: the client library's header, and its functions behind pointers; private to this room. */
#ifndef WEIR_COORD_ZOOKEEPER_H
#define WEIR_COORD_ZOOKEEPER_H

#include <stdbool.h>
#include <zookeeper/zookeeper.h>

#include "coord_zk.h" /* written by the build */

#endif
