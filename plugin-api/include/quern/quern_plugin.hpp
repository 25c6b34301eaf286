// The SDK for authors of backend plugins, header-only C++17: everything in quern/sdk.
//
//   guard.hpp     Failure, guarded(), set_error(): errors at the C boundary
//   structs.hpp   read(), write(), made(), check_flags(): structs of any size
//   lists.hpp     List<T>, Answers: arrays of any stride
//   ops.hpp       the op set, Attributes with the defaults of ops.def
//   graph.hpp     Graph: a checked copy; shapes, bounds, extents
//   refusals.hpp  the standard texts of a "no"; Texts, which keeps them alive
//   entry.hpp     QUERN_PLUGIN_NOTE, QUERN_PLUGIN_ENTRY, negotiation
//   thread.hpp    Thread: a thread that survives its owner's fork, with room on its stack
//
// It is convenience, not ABI: a plugin in C with the C headers alone is as good. The rules are in CONTRACT.md; a whole
// plugin in one file is in sample/sample_plugin.cpp.
#ifndef QUERN_PLUGIN_HPP
#define QUERN_PLUGIN_HPP

#include "quern/quern_formats.h"
#include "quern/quern_plugin_api.h"
#include "quern/sdk/entry.hpp"
#include "quern/sdk/graph.hpp"
#include "quern/sdk/guard.hpp"
#include "quern/sdk/lists.hpp"
#include "quern/sdk/ops.hpp"
#include "quern/sdk/refusals.hpp"
#include "quern/sdk/structs.hpp"
#include "quern/sdk/thread.hpp"

#endif
