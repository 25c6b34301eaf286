// See adapted_graph.hpp.
#include "adapted_graph.hpp"

#include <algorithm>

namespace quern::cuda {

AdaptedGraph::AdaptedGraph(const Graph& host, Refusal why) : host_(host), why_(why) {}

AdaptedGraph::AdaptedGraph(const Graph& host, const quern_graph* given, const WhyNoKernel& why_no_kernel, const WhyNoOrder& why_no_order)
    : host_(host) {
  const ByProduct adapters = find_adapters(why_no_kernel);
  join(given, adapters, why_no_order ? find_orders(why_no_order, adapters) : ByProduct{});
}

AdaptedGraph::ByProduct AdaptedGraph::find_adapters(const WhyNoKernel& why_no_kernel) {
  const sdk::fusion::AdapterPattern<Graph> pattern(host_);
  ByProduct taken;
  for (std::uint32_t n = 0; n < host_.nodes.size(); ++n) {
    if (host_.nodes[n].op != QUERN_OP_LORA_MATMUL) continue;
    Refusal why = nullptr;
    const std::uint32_t product = pattern.adapted_product_of(n, &why);
    if (why == nullptr) why = why_no_kernel(host_, host_.nodes[product], host_.nodes[n]);
    if (why == nullptr) taken[product] = n;
    else refusals_[n] = why;
  }
  return taken;
}

AdaptedGraph::ByProduct AdaptedGraph::find_orders(const WhyNoOrder& why_no_order, const ByProduct& adapters) {
  const sdk::fusion::OrderPattern<Graph> pattern(host_);
  ByProduct taken;
  for (std::uint32_t n = 0; n < host_.nodes.size(); ++n) {
    if (host_.nodes[n].op != QUERN_OP_TAKE) continue;
    const auto& products = pattern.readers(pattern.root(host_.nodes[n].outputs[0]));
    Refusal refusal = pattern.why_no_order(n);
    for (std::size_t i = 0; refusal == nullptr && i < products.size(); ++i)
      refusal = adapters.contains(products[i]) ? "a product of it has adapters, which read their operand as it lies"
                                               : why_no_order(products[i]);
    if (refusal != nullptr) refusals_[n] = refusal;
    else
      for (const std::uint32_t product : products) taken[product] = n;
  }
  return taken;
}

void AdaptedGraph::join(const quern_graph* given, const ByProduct& adapters, const ByProduct& takes) {
  if (adapters.empty() && takes.empty()) return;
  std::vector<bool> gone(host_.nodes.size(), false);
  for (const ByProduct* joined : {&adapters, &takes})
    for (const auto& [product, n] : *joined) gone[n] = true;
  own_ = std::make_unique<Graph>(given);
  std::vector<Node> kept;
  std::map<std::uint32_t, Refusal> refused;
  std::vector<bool> told(host_.nodes.size(), false);
  for (std::uint32_t n = 0; n < host_.nodes.size(); ++n) {
    if (gone[n]) continue;
    const auto at = static_cast<std::uint32_t>(kept.size());
    Node& node = own_->nodes[n];
    if (const auto pair = adapters.find(n); pair != adapters.end()) {
      const Node& adapter = host_.nodes[pair->second];
      node.outputs = adapter.outputs;
      adapters_[at] = {pair->second, adapter.inputs[1], adapter.inputs[2], adapter.inputs[3], real_of(adapter, QUERN_KEY_ALPHA)};
    }
    if (const auto pair = takes.find(n); pair != takes.end()) {
      const Node& take = host_.nodes[pair->second];
      node.inputs[0] = take.inputs[0];
      orders_[at] = {take.inputs[1], told[pair->second] ? QUERN_NONE : pair->second};
      told[pair->second] = true;
    }
    if (const auto why = refusals_.find(n); why != refusals_.end()) refused[at] = why->second;
    nodes_.push_back(n);
    kept.push_back(std::move(node));
  }
  refusals_ = std::move(refused);
  own_->nodes = std::move(kept);
}

std::vector<std::uint32_t> AdaptedGraph::orders() const {
  std::vector<std::uint32_t> values;
  for (const auto& [product, ordered] : orders_)
    if (std::ranges::find(values, ordered.index) == values.end()) values.push_back(ordered.index);
  return values;
}

std::vector<std::uint32_t> AdaptedGraph::in_host(const std::vector<std::uint32_t>& nodes) const {
  std::vector<std::uint32_t> host;
  for (const std::uint32_t n : nodes) {
    if (const auto ordered = orders_.find(n); ordered != orders_.end() && ordered->second.take != QUERN_NONE)
      host.push_back(ordered->second.take);
    host.push_back(in_host(n));
    if (const Adapter* adapter = adapter_of(n)) host.push_back(adapter->node);
  }
  return host;
}

std::vector<sdk::Alone> AdaptedGraph::in_host(std::vector<sdk::Alone> alone) const {
  std::vector<sdk::Alone> host;
  for (sdk::Alone& node : alone) {
    const Adapter* adapter = adapter_of(node.node);
    const auto ordered = orders_.find(node.node);
    node.node = in_host(node.node);
    host.push_back(node);
    if (adapter != nullptr) host.push_back({adapter->node, "adapters", "its product runs by itself"});
    if (ordered != orders_.end() && ordered->second.take != QUERN_NONE)
      host.push_back({ordered->second.take, "order", "its products run by themselves"});
  }
  return host;
}

}  // namespace quern::cuda
