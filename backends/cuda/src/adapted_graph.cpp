// See adapted_graph.hpp.
#include "adapted_graph.hpp"

namespace quern::cuda {

AdaptedGraph::AdaptedGraph(const Graph& host, Refusal why) : host_(host), why_(why) {}

AdaptedGraph::AdaptedGraph(const Graph& host, const quern_graph* given, const WhyNoKernel& why_no_kernel) : host_(host) {
  const sdk::fusion::AdapterPattern<Graph> pattern(host);
  std::map<std::uint32_t, std::uint32_t> taken;  // lora_matmul by its product, in the host's graph
  std::vector<bool> gone(host.nodes.size(), false);
  std::map<std::uint32_t, Refusal> refused;
  for (std::uint32_t n = 0; n < host.nodes.size(); ++n) {
    if (host.nodes[n].op != QUERN_OP_LORA_MATMUL) continue;
    Refusal why = nullptr;
    const std::uint32_t product = pattern.adapted_product_of(n, &why);
    if (why == nullptr) why = why_no_kernel(host, host.nodes[product], host.nodes[n]);
    if (why == nullptr) taken[product] = n, gone[n] = true;
    else refused[n] = why;
  }
  if (taken.empty()) {
    refusals_ = std::move(refused);
    return;
  }
  own_ = std::make_unique<Graph>(given);
  std::vector<Node> kept;
  for (std::uint32_t n = 0; n < host.nodes.size(); ++n) {
    if (gone[n]) continue;
    const auto at = static_cast<std::uint32_t>(kept.size());
    if (const auto pair = taken.find(n); pair != taken.end()) {
      const Node& adapter = host.nodes[pair->second];
      own_->nodes[n].outputs = adapter.outputs;
      adapters_[at] = {pair->second, adapter.inputs[1], adapter.inputs[2], adapter.inputs[3], real_of(adapter, QUERN_KEY_ALPHA)};
    }
    if (const auto why = refused.find(n); why != refused.end()) refusals_[at] = why->second;
    nodes_.push_back(n);
    kept.push_back(std::move(own_->nodes[n]));
  }
  own_->nodes = std::move(kept);
}

std::vector<std::uint32_t> AdaptedGraph::in_host(const std::vector<std::uint32_t>& nodes) const {
  std::vector<std::uint32_t> host;
  for (const std::uint32_t n : nodes) {
    host.push_back(in_host(n));
    if (const Adapter* adapter = adapter_of(n)) host.push_back(adapter->node);
  }
  return host;
}

std::vector<sdk::Alone> AdaptedGraph::in_host(std::vector<sdk::Alone> alone) const {
  std::vector<sdk::Alone> host;
  for (sdk::Alone& node : alone) {
    const Adapter* adapter = adapter_of(node.node);
    node.node = in_host(node.node);
    host.push_back(node);
    if (adapter != nullptr) host.push_back({adapter->node, "adapters", "its product runs by itself"});
  }
  return host;
}

}  // namespace quern::cuda
