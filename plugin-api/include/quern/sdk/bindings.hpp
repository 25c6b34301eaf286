// The memory, bounds and extents of one instance: what prepare() binds and what a run may ask.
//
// Part of the plugin SDK (include quern/quern_device_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_BINDINGS_HPP
#define QUERN_SDK_BINDINGS_HPP

#include "quern/sdk/resolved.hpp"

namespace quern {
namespace sdk {

/// What the spans of a plugin are in: buffers of the device, or the host's own memory.
enum class SpansIn { buffers, host_memory };

/// Where the slots and the scratch of an instance lie.
struct BoundPlaces {
  std::vector<std::uint64_t> of;  ///< address of each bound value, 0 of internal ones
  std::uint64_t scratch = 0;
};

class InstanceBounds {
 public:
  explicit InstanceBounds(const ResolvedGraph& graph) : graph_(graph), bounds_(graph.source.widest()), extents_(bounds_) {}

  void lower(const quern_array& bounds) { graph_.source.apply_bounds(bounds, bounds_); }
  const std::vector<std::int64_t>& bounds() const noexcept { return bounds_; }
  /// Of the run that check_run() saw last.
  std::vector<std::int64_t>& extents() noexcept { return extents_; }

  /// Bytes that the span of a slot has at least.
  std::uint64_t needed(std::uint32_t value) const {
    const ResolvedValue& v = graph_.values[value];
    return v.tensor.packed_layout ? v.bytes : graph_.source.bytes(value, bounds_);
  }

  /// Checks all bindings. `address_of(span, bytes)` gives the address of a span that must hold so many bytes, or throws.
  /// A value of its own starts at a multiple of `alignment`, a view that is bound by itself at one of `view_alignment`.
  template <SpansIn memory = SpansIn::buffers, class AddressOf>
  BoundPlaces check_bindings(const quern_array& bindings, const quern_span& scratch, std::uint64_t scratch_bytes, std::uint64_t alignment,
                             std::uint64_t view_alignment, const AddressOf& address_of) const {
    BoundPlaces places;
    places.of.assign(graph_.values.size(), 0);
    std::vector<bool> bound(graph_.values.size(), false);
    for (const quern_binding& binding : List<quern_binding>(bindings, "bindings")) {
      const std::uint32_t v = binding.value;
      if (v >= graph_.values.size() || !graph_.source.is_slot(v)) refuse(concat("value ", v, " is bound and is no slot"), v);
      if (bound[v]) refuse(concat("value ", v, " is bound twice"), v);
      check_flags(binding.flags, 0, "binding flags");
      const List<quern_span> spans(binding.spans, "spans");
      if (spans.size() != 1) refuse(concat("value ", v, " has ", spans.size(), " spans; this plugin takes one"), v);
      places.of[v] =
          place<memory>(spans[0], needed(v), graph_.values[v].root == v ? alignment : view_alignment, concat("value ", v), v, address_of);
      bound[v] = true;
    }
    for (std::uint32_t v = 0; v < graph_.values.size(); ++v) {
      const ResolvedValue& value = graph_.values[v];
      if (bound[v] || graph_.internal(value.root)) continue;
      if (value.root == v || !bound[value.root]) refuse(concat("value ", v, " '", value.tensor.name, "' is not bound"), v);
      places.of[v] = places.of[value.root] + value.offset;  // an alias that stays unbound lies in the other's memory
    }
    places.scratch = place<memory>(scratch, scratch_bytes, alignment, "scratch", QUERN_NONE, address_of);
    return places;
  }

  /// Checks a run and takes its bounds; changes nothing that is bound.
  void check_run(const quern_run& run) {
    check_flags(run.flags, 0, "run flags");
    if (run.status != nullptr) check(run.status);
    extents_ = bounds_;
    graph_.source.apply_bounds(run.bounds, extents_);
    std::uint64_t all = 0;
    for (const quern_patch& patch : List<quern_patch>(run.patches, "patches")) {
      if (patch.value >= graph_.values.size()) throw Failure(QUERN_INVALID_ARGUMENT, concat("a patch is for value ", patch.value), 13);
      const std::uint32_t kind = graph_.source.values[patch.value].kind;
      if (kind != QUERN_VALUE_STATE && kind != QUERN_VALUE_INPUT)
        throw Failure(QUERN_INVALID_ARGUMENT, concat("a patch is for value ", patch.value, ", which is neither state nor input"), 13);
      const std::uint64_t bytes = graph_.source.bytes(patch.value, bounds_);
      if (patch.offset > bytes || patch.bytes > bytes - patch.offset || (patch.data == nullptr && patch.bytes > 0))
        throw Failure(QUERN_INVALID_ARGUMENT,
                      concat("a patch writes bytes ", patch.offset, " + ", patch.bytes, " of value ", patch.value, ", which has ", bytes),
                      13);
      all += patch.bytes;
    }
    patch_bytes_ = all;
  }

  /// Sets the extents that lie in device memory, behind the run's patches: `read(value)` gives the first i32 of a value [C11].
  template <class Read>
  void read_extents(const Read& read) {
    for (std::size_t s = 0; s < extents_.size(); ++s) {
      const std::uint32_t value = graph_.source.symbols[s].extent;
      if (value == QUERN_NONE) continue;
      const std::int32_t exact = read(value);
      if (exact < 0 || exact > extents_[s])
        throw Failure(QUERN_INVALID_ARGUMENT, concat("symbol ", s, " has the extent ", exact, ", the run's bound is ", extents_[s]), 11);
      extents_[s] = exact;
    }
  }
  std::uint64_t patch_bytes() const noexcept { return patch_bytes_; }

 private:
  [[noreturn]] static void refuse(std::string text, std::uint32_t slot) {
    Failure failure(QUERN_INVALID_ARGUMENT, std::move(text), 16);
    failure.slot = slot;
    throw failure;
  }

  template <SpansIn memory, class AddressOf>
  static std::uint64_t place(const quern_span& span, std::uint64_t bytes, std::uint64_t alignment, const std::string& what,
                             std::uint32_t slot, const AddressOf& address_of) {
    constexpr bool in_buffers = memory == SpansIn::buffers;
    if (in_buffers && span.host != nullptr) refuse(what + " is bound to host memory; this device takes buffers", slot);
    if (!in_buffers && span.buffer != nullptr) refuse(what + " is bound to a buffer; this device takes host memory", slot);
    if (in_buffers ? span.buffer == nullptr : span.host == nullptr) {
      if (bytes > 0) refuse(concat(what, " is bound to no ", in_buffers ? "buffer" : "host memory", "; it needs ", bytes, " bytes"), slot);
      return 0;
    }
    if (span.bytes < bytes) refuse(concat(what, " needs ", bytes, " bytes, its span has ", span.bytes), slot);
    const std::uint64_t address = address_of(span, span.bytes);
    if (address % alignment != 0) refuse(concat(what, " does not start at a multiple of ", alignment, " bytes"), slot);
    return address;
  }

  const ResolvedGraph& graph_;
  std::vector<std::int64_t> bounds_, extents_;
  std::uint64_t patch_bytes_ = 0;
};

}  // namespace sdk
}  // namespace quern

#endif
