// The SDK for plugins that run synchronously or on queues, on memory of their device or on the host's: the author's SDK and all of a plugin
// but its memory, its kernels and its order of work at the driver.
//
//   tensors.hpp      values as kernels see them; checks that ops share
//   calls.hpp        a node as an op's code sees it
//   forms.hpp        dtypes, shapes and attributes that an op asks for: what is refused before the plugin is asked
//   form_rules.hpp   what of these the table of forms has no words for
//   resolved.hpp     a host's graph: views, layouts, predicates, an answer a node
//   fusion/uses.hpp  who makes and who reads a value: what may be fused
//   fusion/patterns.hpp  nodes that fused kernels of most backends stand for
//   scratch.hpp      where internal values lie
//   blocks.hpp       the fields of block formats, and matrices in planes of them
//   weights.hpp      which constants are packed: in planes, or as the plugin has it
//   bindings.hpp     what an instance binds and a run may ask
//   handles.hpp      what the handles are, and what the plugin gives
//   heap.hpp         memory that is counted
//   host_kernels.hpp kernels that are loops on the host's processor
//   in_order.hpp     plans that run a node after the other, to begin with
//   run_list.hpp     the runs of one submit
//   device_calls.hpp the C functions that all have
//   synchronous.hpp  those of devices that are done when a call returns; included by itself, behind the handles
//   work_queue.hpp   queues and fences, with the handles of plugins that have some
//   asynchronous.hpp the C functions over them; included by itself, behind those handles
//
// It is convenience, not ABI, as quern_plugin.hpp is.
#ifndef QUERN_DEVICE_PLUGIN_HPP
#define QUERN_DEVICE_PLUGIN_HPP

#include "quern/quern_plugin.hpp"
#include "quern/sdk/bindings.hpp"
#include "quern/sdk/blocks.hpp"
#include "quern/sdk/calls.hpp"
#include "quern/sdk/form_rules.hpp"
#include "quern/sdk/forms.hpp"
#include "quern/sdk/fusion/attention.hpp"
#include "quern/sdk/fusion/patterns.hpp"
#include "quern/sdk/fusion/rules.hpp"
#include "quern/sdk/fusion/uses.hpp"
#include "quern/sdk/handles.hpp"
#include "quern/sdk/heap.hpp"
#include "quern/sdk/host_kernels.hpp"
#include "quern/sdk/in_order.hpp"
#include "quern/sdk/resolved.hpp"
#include "quern/sdk/scratch.hpp"
#include "quern/sdk/tensors.hpp"
#include "quern/sdk/weights.hpp"

#endif
