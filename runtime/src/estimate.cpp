// See estimate.hpp.
#include "estimate.hpp"

#include "act_order.hpp"
#include "adapters.hpp"

#include "quern/models/directory.hpp"
#include "quern/models/gguf.hpp"
#include "quern/quern_formats.h"

#include <algorithm>

namespace quern::runtime {
namespace {

/// Multiplication and addition that refuse to wrap.
std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) || result > INT64_MAX) {
    throw Error(QUERN_INVALID_ARGUMENT, concat("the model would be larger than 2^63: ", a, " x ", b));
  }
  return result;
}
std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  if (__builtin_add_overflow(a, b, &result) || result > INT64_MAX) {
    throw Error(QUERN_INVALID_ARGUMENT, concat("the model would be larger than 2^63: ", a, " + ", b));
  }
  return result;
}

/// That files of models have.
std::vector<quern_dtype> weight_formats() {
  std::vector<quern_dtype> formats = {QUERN_F32, QUERN_F16, QUERN_BF16};
  for (const quern_format& format : quern_formats)
    if (gguf::has_ggml_type(format.id)) formats.push_back(format.id);
  return formats;
}

/// What all parameters take in each format: vectors stay f32 in quantised ones, as in files.
std::vector<FormatSize> format_sizes(std::uint64_t matrices, std::uint64_t vectors, const std::vector<std::uint64_t>& row_lengths) {
  std::vector<FormatSize> sizes;
  for (const quern_dtype dtype : weight_formats()) {
    const graph::BlockSize block = graph::block_size(dtype);
    FormatSize size{graph::dtype_name(dtype), 0, true};
    for (const std::uint64_t row : row_lengths) size.available &= row % static_cast<std::uint64_t>(block.elements) == 0;
    if (size.available) {
      const std::uint64_t bytes = times(matrices / static_cast<std::uint64_t>(block.elements), static_cast<std::uint64_t>(block.bytes));
      size.bytes = plus(bytes, block.elements == 1 ? times(vectors, static_cast<std::uint64_t>(block.bytes)) : times(vectors, 4));
    }
    sizes.push_back(std::move(size));
  }
  return sizes;
}

/// Bytes of the cache, in whole pages as the session allocates it.
std::uint64_t kv_size(std::uint64_t layers, std::uint64_t kv_heads, std::uint64_t key_size, std::uint64_t value_size, std::uint64_t context,
                      std::uint64_t sequences, quern_dtype dtype) {
  const std::uint64_t positions = times((plus(context, kv_page_size - 1)) / kv_page_size * kv_page_size, sequences);
  const std::uint64_t per_position = times(times(layers, kv_heads), plus(key_size, value_size));
  return times(times(per_position, positions), static_cast<std::uint64_t>(graph::block_size(dtype).bytes));
}

}  // namespace

Estimate estimate_shape(const ShapeNumbers& given, std::uint64_t context, std::uint32_t sequences, quern_dtype kv_dtype) {
  ShapeNumbers s = given;
  for (const auto& [name, value] : {std::pair{"hidden", s.hidden},
                                    {"feed-forward", s.feed_forward},
                                    {"layers", s.layers},
                                    {"vocabulary", s.vocabulary},
                                    {"heads", s.heads}}) {
    if (value == 0) throw Error(QUERN_INVALID_ARGUMENT, concat("the shape's ", name, " is 0"));
  }
  if (s.kv_heads == 0) s.kv_heads = s.heads;
  if (s.heads % s.kv_heads != 0) {
    throw Error(QUERN_INVALID_ARGUMENT,
                concat("the shape has ", s.heads, " heads, which is not a multiple of its ", s.kv_heads, " kv heads"));
  }
  if (s.head_size == 0) {
    if (s.hidden % s.heads != 0) {
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat("the shape's hidden size ", s.hidden, " is not a multiple of its ", s.heads, " heads; give the head size too"));
    }
    s.head_size = s.hidden / s.heads;
  }
  const std::uint64_t q = times(s.heads, s.head_size), kv = times(s.kv_heads, s.head_size);
  std::uint64_t layer = plus(times(s.hidden, plus(plus(q, kv), kv)), times(q, s.hidden));
  layer = plus(layer, times(3, times(s.hidden, s.feed_forward)));
  const std::uint64_t tables = times(times(s.vocabulary, s.hidden), s.tied ? 1 : 2);
  const std::uint64_t matrices = plus(times(layer, s.layers), tables);
  const std::uint64_t vectors = plus(times(times(2, s.hidden), s.layers), s.hidden);

  Estimate e;
  e.parameters = plus(matrices, vectors);
  e.context = context == 0 ? default_context : context;
  e.formats = format_sizes(matrices, vectors, {s.hidden, s.feed_forward, q});
  e.weights_bytes = times(e.parameters, 2);
  const auto cache = [&](quern_dtype dtype) {
    return kv_size(s.layers, s.kv_heads, s.head_size, s.head_size, e.context, std::max(1u, sequences), dtype);
  };
  e.kv_bytes = cache(kv_dtype);
  e.kv_bytes_f16 = cache(QUERN_F16);
  e.kv_bytes_f32 = cache(QUERN_F32);
  return e;
}

Estimate estimate_file(Runtime* runtime, const std::string& path, const ModelOptions& options) {
  const gguf::File file = runtime != nullptr ? open_for_devices(*runtime, path) : models::open_model(path, models::ActOrder::by_groups);
  const models::Hyperparameters shape = models::read_hyperparameters(file);
  Estimate e;
  std::uint64_t matrices = 0, vectors = 0;
  std::vector<std::uint64_t> rows;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    (tensor.n_dims > 1 ? matrices : vectors) += tensor.parameters();
    if (tensor.n_dims > 1) rows.push_back(tensor.dims[0]);
    e.weights_bytes += (tensor.bytes + 63) / 64 * 64;
  }
  e.parameters = matrices + vectors;
  e.formats = format_sizes(matrices, vectors, rows);
  if (options.context > shape.context) {
    throw Error(QUERN_CONTEXT_FULL, concat(path, ": a context of ", options.context, " was asked for, but the model has ", shape.context));
  }
  e.context = options.context != 0 ? options.context : std::min(shape.context, default_context);
  const std::uint32_t sequences = std::max(1u, options.sequences);
  const auto cache = [&](quern_dtype dtype) {
    return kv_size(shape.layers, shape.kv_heads, shape.head_size, shape.value_size, e.context, sequences, dtype);
  };
  e.kv_bytes = cache(options.kv_dtype);
  e.kv_bytes_f16 = cache(QUERN_F16);
  e.kv_bytes_f32 = cache(QUERN_F32);
  if (runtime == nullptr) return e;

  const PlacedStep placed = place_best(*runtime, file, shape, static_cast<std::uint32_t>(e.context), options);
  const std::vector<std::shared_ptr<MemoryBudget>>& devices = placed.choice.devices;
  const models::StepGraph& step = *placed.graph;
  const Program program(step.graph, devices, runtime->settings().fallback, "", {}, run_ahead_of(step));
  e.weights_bytes = 0;  // as they will lie in memory
  for (const WantedWeight& weight : wanted_weights(program, step, models::build_rope(shape, static_cast<std::uint32_t>(e.context)), file)) {
    e.weights_bytes += weight.arena_bytes();
  }
  const ProgramNeeds needs = program.needs();
  for (const graph::ValueId value : {step.adapter_pool, step.adapter_table}) {
    if (value == graph::no_value) continue;
    const graph::Value& held = step.graph.value(value);
    e.adapter_bytes += graph::byte_size(held.dtype, held.shape) * program.readers(value).size();
  }
  const std::uint64_t state = e.kv_bytes + e.adapter_bytes;
  e.scratch_bytes = needs.scratch + needs.plans + needs.io + (needs.state > state ? needs.state - state : 0);
  // And the vocabulary with its merges, which takes about 200 bytes a token (README, "memory").
  e.overhead_bytes = process_bytes(step, e.weights_bytes + e.kv_bytes + e.scratch_bytes) + std::uint64_t{shape.vocabulary} * 200;
  for (const models::AdaptedProduct& product : placed.options.adapted)  // the process keeps the numbers of each adapter too
    e.overhead_bytes +=
        static_cast<std::uint64_t>(product.rank * (product.inputs + product.outputs)) * sizeof(float) * placed.options.adapters;
  e.scratch_known = true;
  e.available_bytes = room_on(*devices[0]).available.value_or(0);
  return e;
}

}  // namespace quern::runtime
