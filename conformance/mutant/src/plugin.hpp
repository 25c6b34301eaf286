// What the two wrappers share (plugin.cpp), and where they differ: memory, queues and copies.
//
//   plugin_host.cpp     libbackend_mutant.so: host memory and synchronous, as the plugin underneath
//   plugin_device.cpp   libbackend_mutant_device.so: a device with buffers, queues and fences of its own, simulated over it
#pragma once

#include "handles.hpp"

namespace quern::mutant {

/// The functions that do not touch memory.
quern_plugin_api common_table() noexcept;
/// loses_packed_tail: after weights_pack.
void lose_packed_tail(const quern_plugin& plugin, const quern_span& packed);

// Given by each wrapper.
void offer(quern_device_info& info) noexcept;    // of the plugin underneath: what this wrapper makes of it
void require_no_children(quern_device& device);  // throws sdk::Failure(QUERN_BUSY)

}  // namespace quern::mutant
