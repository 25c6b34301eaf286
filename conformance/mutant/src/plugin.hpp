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
void offer(quern_device_info& info) noexcept;  // of the plugin underneath: what this wrapper makes of it
/// A span of the host's as the plugin underneath takes it. Throws sdk::Failure for one that is not this device's kind of memory.
quern_span host_span(quern_device& device, const quern_span& span);
/// Throws sdk::Failure(QUERN_BUSY) where buffers are alive. True: the mutant says that it is closed all the same.
bool require_no_children(quern_device& device);

}  // namespace quern::mutant
