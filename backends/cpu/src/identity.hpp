// Who this plugin is: id, version, and the hash of the untagged headers that it was built from.
#pragma once

#include "quern/quern_abi.h"

// QUERN_HEADER_HASH comes with the headers' target; a tagged build has none.
#define QUERN_CPU_ID "cpu"
#ifndef QUERN_CPU_VERSION
#error "the build defines QUERN_CPU_VERSION"
#endif
#if defined(QUERN_HEADER_HASH)
#define QUERN_CPU_HEADER_HASH QUERN_HEADER_HASH
#else
#define QUERN_CPU_HEADER_HASH 0u
#endif
