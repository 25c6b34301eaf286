// Where trained numbers lie in the flat state.
#include "tensors.hpp"

#include "quern/models/training_graph.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace quern::models {
namespace {

// Parts begin at multiples of 256 bytes.
constexpr std::uint64_t aligned_elements = 64;

/// Takes so many elements at the end of the layout and returns the first.
std::uint64_t append(TrainedLayout& layout, std::uint64_t elements) {
  const std::uint64_t first = layout.elements;
  layout.elements += (elements + aligned_elements - 1) / aligned_elements * aligned_elements;
  return first;
}

struct Part {
  std::string_view name;
  std::int64_t inputs, outputs;
};

/// The products of a layer; their places number their dropout masks and initial values.
std::array<Part, 7> parts_of(const Hyperparameters& model) {
  const std::int64_t hidden = model.hidden, ffn = model.ffn, joined = std::int64_t{model.heads} * model.value_size;
  return {{{"attn_q", hidden, std::int64_t{model.heads} * model.head_size},
           {"attn_k", hidden, std::int64_t{model.kv_heads} * model.head_size},
           {"attn_v", hidden, std::int64_t{model.kv_heads} * model.value_size},
           {"attn_output", joined, hidden},
           {"ffn_gate", hidden, ffn},
           {"ffn_up", hidden, ffn},
           {"ffn_down", ffn, hidden}}};
}

}  // namespace

TrainedLayout adapter_layout(const Hyperparameters& model, const std::vector<std::uint32_t>& layers, const std::vector<std::string>& parts,
                             std::int64_t rank, double alpha, bool rank_stabilised) {
  const std::array<Part, 7> known = parts_of(model);
  for (const std::string& part : parts) {
    if (std::ranges::any_of(known, [&](const Part& one) { return one.name == part; })) continue;
    throw Error(QUERN_INVALID_ARGUMENT, concat("an adapter of '", part, "' was asked for; a layer of ", model.architecture,
                                               " has attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up and ffn_down"));
  }
  if (rank < 1 || rank > 65536) throw Error(QUERN_INVALID_ARGUMENT, concat("an adapter's rank is ", rank, "; it must be 1 to 65536"));
  const double scale = alpha / (rank_stabilised ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank));
  std::vector<AdapterPlace> places;
  for (const std::uint32_t layer : layers) {
    if (layer >= model.layers)
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat("an adapter of layer ", layer, " was asked for; the model has layers 0 to ", model.layers - 1));
    for (std::size_t place = 0; place < known.size(); ++place) {
      const Part& part = known[place];
      if (std::ranges::find(parts, part.name) == parts.end()) continue;
      AdapterPlace adapter{.layer = layer,
                           .part = std::string(part.name),
                           .rank = rank,
                           .inputs = part.inputs,
                           .outputs = part.outputs,
                           .scale = scale,
                           .salt = static_cast<std::uint32_t>(layer * known.size() + place)};
      places.push_back(std::move(adapter));
    }
  }
  return adapter_layout(std::move(places));
}

TrainedLayout adapter_layout(std::vector<AdapterPlace> places) {
  TrainedLayout layout;
  layout.adapters = std::move(places);
  for (AdapterPlace& place : layout.adapters) {
    place.a = append(layout, static_cast<std::uint64_t>(place.rank * place.inputs));
    place.b = append(layout, static_cast<std::uint64_t>(place.rank * place.outputs));
  }
  layout.decayed = layout.elements;
  return layout;
}

TrainedLayout full_layout(const Hyperparameters& model, const gguf::File& file) {
  TrainedLayout layout;
  const auto append_all = [&](bool matrices) {
    for (const gguf::TensorInfo& tensor : file.tensors())
      if ((tensor.n_dims > 1) == matrices && tensor.name != "rope_freqs.weight")
        layout.tensors.push_back({std::string(tensor.name), append(layout, tensor.elements()), tensor.elements()});
  };
  append_all(true);
  layout.decayed = layout.elements;
  append_all(false);
  if (layout.tensors.empty()) throw Error(QUERN_BAD_MODEL, concat("a model of ", model.architecture, " has no tensors to train"));
  return layout;
}

}  // namespace quern::models
