// A graph in which a product is one node with the adapters behind it, or with the order of its operand's columns in front of it, for schedules whose
// kernels make both.
//
// A product with adapters stores what lora_matmul stores, and one with an order reads what take reads; the nodes of those are gone, so that rules of
// fusion see what is behind and in front of them. Values keep their numbers, nodes do not: a schedule is told in the numbers of the host's graph (in_host).
#pragma once

#include "quern/sdk/fusion/adapters.hpp"
#include "quern/sdk/fusion/orders.hpp"
#include "schedule.hpp"

#include <memory>

namespace quern::cuda {

/// What lora_matmul says of the adapters of a product.
struct Adapter {
  std::uint32_t node;  // of the host's graph
  std::uint32_t pool, table, slot;
  float alpha;
};

/// No adapter of the pool has a higher rank.
inline std::uint64_t most_rank_of(const Graph& graph, std::uint32_t pool, std::uint32_t weight) {
  const Tensor& w = graph.values[weight].tensor;
  return static_cast<std::uint64_t>(graph.values[pool].tensor.elements() / std::max<std::int64_t>(1, std::max(w.dims[0], w.last())));
}

class AdaptedGraph {
 public:
  using Refusal = sdk::fusion::Refusal;
  using WhyNoKernel = std::function<Refusal(const Graph& graph, const Node& product, const Node& lora_matmul)>;
  /// Of a product of the host's graph.
  using WhyNoOrder = std::function<Refusal(std::uint32_t product)>;

  /// The host's graph as it is. `why`: what is said of its adapters.
  AdaptedGraph(const Graph& host, Refusal why);
  /// `given`: what `host` was read from. `why_no_kernel`: why kernels take no adapters for a product; null where they do. `why_no_order`: why a schedule
  /// takes no order for a product; null where it does. Empty: it takes none.
  AdaptedGraph(const Graph& host, const quern_graph* given, const WhyNoKernel& why_no_kernel, const WhyNoOrder& why_no_order = {});
  AdaptedGraph(const AdaptedGraph&) = delete;
  AdaptedGraph& operator=(const AdaptedGraph&) = delete;

  const Graph& host() const noexcept { return host_; }
  const Graph& graph() const noexcept { return own_ == nullptr ? host_ : *own_; }
  /// Of a product with adapters; null: it has none.
  const Adapter* adapter_of(std::uint32_t node) const { return adapters_.contains(node) ? &adapters_.at(node) : nullptr; }
  bool has_adapters() const noexcept { return !adapters_.empty(); }
  /// The value whose index the columns of a product's operand are ordered by; none: they are as they lie.
  std::uint32_t order_of(std::uint32_t node) const { return orders_.contains(node) ? orders_.at(node).index : QUERN_NONE; }
  /// All such values, each once.
  std::vector<std::uint32_t> orders() const;
  /// Why a node that is lora_matmul here too is not one with its product.
  Refusal why_no_adapters(std::uint32_t node) const { return why_not(node, why_); }
  /// Why a node that is take here too is not one with its products.
  Refusal why_no_order(std::uint32_t node) const { return why_not(node, "no kernel of this schedule stores an operand in another order"); }
  /// Node of the host's graph: of a product with adapters, the product.
  std::uint32_t in_host(std::uint32_t node) const { return nodes_.empty() ? node : nodes_[node]; }
  /// In place of nodes of this graph, those of the host's that they stand for.
  std::vector<std::uint32_t> in_host(const std::vector<std::uint32_t>& nodes) const;
  std::vector<sdk::Alone> in_host(std::vector<sdk::Alone> alone) const;

 private:
  Refusal why_not(std::uint32_t node, Refusal otherwise) const { return refusals_.contains(node) ? refusals_.at(node) : otherwise; }
  struct Ordered {
    std::uint32_t index, take;  // value; node of the host's graph, where this is its first product, or none
  };
  /// Nodes of the host's graph: lora_matmul or take by its product.
  using ByProduct = std::map<std::uint32_t, std::uint32_t>;
  ByProduct find_adapters(const WhyNoKernel& why_no_kernel);
  ByProduct find_orders(const WhyNoOrder& why_no_order, const ByProduct& adapters);
  void join(const quern_graph* given, const ByProduct& adapters, const ByProduct& takes);

  const Graph& host_;
  std::unique_ptr<Graph> own_;        // null: host_
  std::vector<std::uint32_t> nodes_;  // by node: that of the host's graph
  std::map<std::uint32_t, Adapter> adapters_;
  std::map<std::uint32_t, Ordered> orders_;
  std::map<std::uint32_t, Refusal> refusals_;
  Refusal why_ = nullptr;
};

}  // namespace quern::cuda
