// Fused steps: one kernel for several neighbouring nodes, recognised when a plan is compiled.
//
// A fusion lives in fusion/<name>.cpp: `match`, `run`, `scratch` and a table `<name>_fusions`, listed in fusion_table.cpp. It gives the
// bits that the kernels of its nodes give one after another, for any number of tokens and threads; what it saves is barriers, passes
// over memory, and rounding the same activations twice. `match` takes only nodes whose own kernels it stands for, so that forcing a
// family or a kernel decides about fusions too.
//
// Values that only the nodes of one step touch have no memory: their views hold a null address in `run`, and the step keeps what it
// needs of them in its scratch. All other outputs are written.
#pragma once

#include "../graph.hpp"
#include "../kernel.hpp"

#include "quern/sdk/fusion/uses.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace quern::cpu {

using Uses = sdk::fusion::Uses<Graph>;
/// Is a root that the host does not see touched by nodes of [first, first + count) alone?
bool touched_within(const Uses& uses, std::uint32_t root, std::uint32_t first, std::uint32_t count) noexcept;

/// A graph with the kernels that were chosen for its nodes, as `match` sees it.
struct Neighbours {
  const Graph& graph;
  std::span<const Kernel* const> kernels;  // one a node
  std::span<const Call> calls;             // one a node; dims are at their largest, addresses are null
  const Uses& uses;

  bool is(std::uint32_t node, std::uint32_t op) const noexcept { return node < graph.nodes.size() && graph.nodes[node].op == op; }
  /// The value that a node reads or writes; QUERN_NONE: absent.
  std::uint32_t input(std::uint32_t node, std::size_t i) const noexcept;
  std::uint32_t output(std::uint32_t node, std::size_t i) const noexcept;
  /// Is output 0 of `node` touched by nodes of [first, first + count) alone?
  bool inner(std::uint32_t node, std::uint32_t first, std::uint32_t count) const noexcept;
};

/// What a fusion says of nodes that stand as its pattern wants them and that it does not take all the same.
struct Refusal {
  const char* reason = nullptr;  // in words, for the user; null: they do not stand so
  std::uint32_t count = 0;       // nodes from the first on
};

struct Fusion {
  const char* name;  // "matmul_add.packed.avx512"; the last part is the family
  /// How many nodes from `first` on are one step; 0: this is not the pattern, or `refusal` says what is in the way.
  std::uint32_t (*match)(const Neighbours& nodes, std::uint32_t first, Refusal& refusal);
  /// The calls of those nodes, in their order.
  void (*run)(std::span<const Call> calls, Context& context) noexcept;
  /// As Kernel::scratch. Null: none.
  std::uint64_t (*scratch)(std::span<const Call> calls);
};

/// All tables, most nodes first: the first row that matches is taken. Defined in fusion_table.cpp.
std::span<const std::span<const Fusion>> fusion_tables() noexcept;

/// The fusion whose pattern starts at node `first`, and how many nodes it takes; null and 0: none does, and `refusal` is of the first one
/// whose pattern stands there.
struct Match {
  const Fusion* fusion = nullptr;
  std::uint32_t count = 0;
  std::string_view rule = {};  // of the refusal: the fusion's name without its family
  Refusal refusal = {};
};
/// Whether some fusion is for nodes of this op.
bool any_fusion_takes(std::uint32_t op) noexcept;
Match find_fusion(const Neighbours& nodes, std::uint32_t first);

}  // namespace quern::cpu
