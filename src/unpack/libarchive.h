/* libarchive: its headers, and its functions as they are loaded (libarchive.lazy). Private to the room. */
#ifndef WEIR_UNPACK_LIBARCHIVE_H
#define WEIR_UNPACK_LIBARCHIVE_H

#include <archive.h>
#include <archive_entry.h>
#include <stdbool.h>

#include "unpack_archive.h"

#endif
