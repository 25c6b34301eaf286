/* Compiles the pinned layout as C11: each row is a static assertion. The C++ twin is in sdk_test.cpp. */
#include "quern/quern_formats.h"
#include "quern/quern_ops.h"
#include "quern/quern_plugin_api.h"

#include "quern_layout.inc"

#include "quern/quern_min_sizes.h"

/* Until a release differs, the least size is the present one; never more. */
_Static_assert(QUERN_MIN_SIZE_quern_plugin_api <= sizeof(quern_plugin_api), "a 1.0 size is never above the present one");
int quern_layout_test_compiled;
