// What the raw sample is made of, before any function of the table: its handles, what it can do, its kernels, and a step over the rows of a run.
// These are steps 2 to 5 of raw_plugin.cpp, which alone includes it.
#pragma once

#include "quern/quern_plugin.hpp"

#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <memory>

namespace sdk = quern::sdk;
using sdk::concat;
using sdk::Failure;
using sdk::guarded;

// ---- Step 2: what the opaque handles are. All state hangs on them, none on the library [C7].
constexpr std::uint64_t memory_alignment = 64;
constexpr std::uint64_t default_memory = 4ull << 30;

struct quern_plugin {
  quern_host host;
  sdk::Process process;  // after a fork every function but destroy refuses [C27]
  sdk::Texts texts;      // what answers and infos point to
};

/// Memory of the device. A real backend asks its driver; this one takes it from the host's allocator, for accounting.
class Block {
 public:
  Block(quern_device& device, std::uint64_t bytes);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  std::byte* at(std::uint64_t offset) const { return memory_ + offset; }

 private:
  quern_device& device_;
  std::uint64_t bytes_;
  std::byte* memory_;
};

struct quern_device {
  quern_plugin& plugin;
  std::uint64_t total;
  std::atomic<std::uint64_t> limit{UINT64_MAX};
  std::atomic<std::uint64_t> used{0};
  std::atomic<std::uint32_t> children{0};  // buffers and plans: they go before the device does
};

struct quern_buffer {
  quern_device& device;
  std::uint64_t bytes;
  std::shared_ptr<Block> block;  // shared with the instances that were prepared with it
};

/// One node, ready to run.
struct Step {
  std::uint32_t op;
  std::vector<std::uint32_t> inputs;
  std::uint32_t output;
  std::uint32_t predicate;  // QUERN_NONE: none
  bool predicate_per_row;
  float epsilon;  // rms_norm
  float factor;   // rms_norm: weight_offset; add: alpha
};

struct quern_plan {
  quern_device& device;
  sdk::Graph graph;
  std::vector<Step> steps = {};
  std::vector<quern_kernel_info> kernels = {};
  std::atomic<std::uint32_t> instances{0};
};

struct Place {
  std::shared_ptr<Block> block;
  std::uint64_t offset = 0;
};

struct quern_instance {
  quern_plan& plan;
  std::vector<std::int64_t> upper = {};            // bounds of the instance, one a symbol
  std::vector<std::int64_t> now = {};              // of the run; has its room from the start, since submit may not allocate
  std::vector<std::uint64_t> scratch_offset = {};  // of internal values
  std::uint64_t scratch_bytes = 0;
  std::vector<Place> places = {};  // of every value, filled by prepare
  bool prepared = false;
  std::atomic<bool> cancel{false};
  quern_counters counters = sdk::made<quern_counters>();
};

Block::Block(quern_device& device, std::uint64_t bytes) : device_(device), bytes_(bytes) {
  const std::uint64_t budget = std::min(device.total, device.limit.load());
  std::uint64_t used = device.used.load();
  do {
    if (bytes > budget || used > budget - bytes) {
      Failure failure(QUERN_OUT_OF_MEMORY, concat("sample: ", bytes, " bytes asked for, ", used, " of ", budget, " in use"));
      failure.requested = bytes;
      failure.available = used > budget ? 0 : budget - used;
      failure.heap = 0;
      throw failure;
    }
  } while (!device.used.compare_exchange_weak(used, used + bytes));
  const quern_host& host = device.plugin.host;
  memory_ =
      static_cast<std::byte*>(host.allocate(host.context, std::max<std::uint64_t>(bytes, 1), memory_alignment, "sample device memory"));
  if (memory_ == nullptr) {
    device.used -= bytes;
    throw std::bad_alloc();
  }
  std::memset(memory_, 0xFF, bytes);  // fresh memory is NaN, so that a read before a write shows
}

Block::~Block() {
  const quern_host& host = device_.plugin.host;
  host.release(host.context, memory_, std::max<std::uint64_t>(bytes_, 1), memory_alignment);
  device_.used -= bytes_;
}

/// What a pointer of the host points to; refuses null, and a handle after fork.
template <class Handle>
Handle& object(Handle* handle, const char* what) {
  if (handle == nullptr) throw Failure(QUERN_INVALID_ARGUMENT, concat("the ", what, " is null"));
  if constexpr (std::is_same_v<Handle, quern_plugin>) handle->process.check();
  if constexpr (std::is_same_v<Handle, quern_device>) handle->plugin.process.check();
  if constexpr (std::is_same_v<Handle, quern_buffer> || std::is_same_v<Handle, quern_plan>) handle->device.plugin.process.check();
  if constexpr (std::is_same_v<Handle, quern_instance>) handle->plan.device.plugin.process.check();
  return *handle;
}

/// SYNCHRONOUS: there are no queues and fences of ours, so none may be named.
void check_synchronous(quern_queue* queue, const quern_sync* sync) {
  if (queue != nullptr) throw Failure(QUERN_INVALID_ARGUMENT, "sample: a queue was given; this device is synchronous", 18);
  if (sync == nullptr) return;
  const quern_sync s = sdk::read(sync);
  if (s.wait.count != 0 || s.signal.count != 0) {
    throw Failure(QUERN_INVALID_ARGUMENT, "sample: fences were given; this device is synchronous", 18);
  }
}

/// Checks a span of ours and returns where it lies.
Place place_of(const quern_device& device, const quern_span& span, std::uint64_t bytes) {
  if (span.host != nullptr || span.buffer == nullptr) {
    throw Failure(QUERN_INVALID_ARGUMENT, "sample: a span without a buffer; this device does not see host memory", 16);
  }
  const quern_buffer& buffer = *span.buffer;
  if (&buffer.device != &device) throw Failure(QUERN_INVALID_ARGUMENT, "sample: the buffer is of another device", 16);
  if (span.offset > buffer.bytes || span.bytes > buffer.bytes - span.offset || bytes > span.bytes) {
    throw Failure(QUERN_INVALID_ARGUMENT,
                  concat("sample: ", bytes, " bytes in a span of ", span.bytes, " at ", span.offset, " in a buffer of ", buffer.bytes), 16);
  }
  return {buffer.block, span.offset};
}

// ---- Step 3: what the device can do. The same judgement serves support() and compile(). An empty text is a "yes".
/// Null for an op that this plugin does not have.
const char* kernel_name(std::uint32_t op) {
  switch (op) {
    case QUERN_OP_COPY: return "copy.elements.rows";
    case QUERN_OP_MATMUL: return "matmul.floats.rows";
    case QUERN_OP_RMS_NORM: return "rms_norm.f32.rows";
    case QUERN_OP_ADD: return "add.f32.rows";
    case QUERN_OP_GLU: return "glu.silu.f32.rows";
    default: return nullptr;
  }
}

bool is_plain(quern_dtype dtype) { return dtype == QUERN_F32 || dtype == QUERN_F16 || dtype == QUERN_BF16 || dtype == QUERN_I32; }

std::string refuse_dtype(const sdk::Graph& g, std::uint32_t op, std::uint32_t v) {
  const quern_dtype dtype = g.values[v].dtype;
  if (op == QUERN_OP_COPY) return is_plain(dtype) ? std::string() : sdk::refusal::dtype(g.value_names[v], dtype, "f32, f16, bf16 or i32");
  if (op == QUERN_OP_MATMUL) {
    return dtype == QUERN_F32 || dtype == QUERN_F16 ? std::string() : sdk::refusal::dtype(g.value_names[v], dtype, "f32 or f16");
  }
  return dtype == QUERN_F32 ? std::string() : sdk::refusal::dtype(g.value_names[v], dtype, "f32");
}

/// The value whose memory this one lies in.
std::uint32_t root_of(const sdk::Graph& g, std::uint32_t v) {
  while ((g.values[v].uses & QUERN_VALUE_USES_ALIAS) != 0) v = g.values[v].alias_of;  // each names an earlier value
  return v;
}

std::string refuse_operands(const sdk::Graph& g, const sdk::Node& node) {
  const std::uint32_t op = node.fields.op;
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const std::uint32_t v : *list) {
      if (v == QUERN_NONE) continue;
      const std::string text = refuse_dtype(g, op, v);
      if (!text.empty()) return text;
      if (g.values[v].alias_offset % sdk::element_size(g.values[v].dtype).bytes != 0) {
        return concat("'", g.value_names[v], "' starts inside an element");
      }
      const bool in_place = op == QUERN_OP_COPY || op == QUERN_OP_MATMUL ? root_of(g, v) == root_of(g, node.outputs[0]) : false;
      if (list == &node.inputs && in_place) return "copy and matmul do not run in place";
    }
  }
  if ((node.fields.uses & QUERN_NODE_USES_PREDICATE) == 0) return {};
  const std::uint32_t p = node.fields.predicate;
  const quern_value& predicate = g.values[p];
  const quern_value& first = g.values[node.inputs[0]];
  if (predicate.dtype != QUERN_I32 && predicate.dtype != QUERN_U32) {
    return sdk::refusal::dtype(g.value_names[p], predicate.dtype, "i32 or u32");
  }
  const bool rows = predicate.rank == 1 && first.rank > 1 && predicate.dims[0] == first.dims[0] && predicate.symbols[0] == first.symbols[0];
  return g.is_one(p) || rows ? std::string() : sdk::refusal::shape(g.value_names[p], g.shape(p), "[1] or one number a row");
}

/// y[m, n] = a[m, k] b[n, k]^T and nothing more.
std::string refuse_matmul(const sdk::Graph& g, const sdk::Node& node, const sdk::Attributes& attributes) {
  if (node.input(2) != QUERN_NONE || node.input(3) != QUERN_NONE) return "matmul: this plugin has no bias and no c";
  if (attributes.integer(QUERN_KEY_TRANSPOSE_A) != 0 || attributes.integer(QUERN_KEY_TRANSPOSE_B) != 0 ||
      attributes.real(QUERN_KEY_ALPHA) != 1) {
    return "matmul: this plugin has neither transposes nor an alpha";
  }
  const std::uint32_t ids[] = {node.inputs[0], node.inputs[1], node.outputs[0]};
  for (const std::uint32_t v : ids) {
    if (g.values[v].rank != 2) return sdk::refusal::shape(g.value_names[v], g.shape(v), "two dimensions");
  }
  const auto same = [&](std::uint32_t v, std::uint32_t d, std::uint32_t w, std::uint32_t e) {
    return g.values[v].dims[d] == g.values[w].dims[e] && g.values[v].symbols[d] == g.values[w].symbols[e];
  };
  if (!same(ids[0], 1, ids[1], 1)) return sdk::refusal::shape(g.value_names[ids[1]], g.shape(ids[1]), "rows as long as those of a");
  if (same(ids[2], 0, ids[0], 0) && same(ids[2], 1, ids[1], 0)) return {};
  return sdk::refusal::shape(g.value_names[ids[2]], g.shape(ids[2]), "[rows of a, rows of b]");
}

std::string refuse_op(const sdk::Graph& g, const sdk::Node& node, const sdk::Attributes& attributes) {
  if (node.fields.op == QUERN_OP_MATMUL) return refuse_matmul(g, node, attributes);
  const std::uint32_t x = node.input(0), y = node.outputs[0], second = node.input(1);
  if (node.fields.op == QUERN_OP_GLU && second == QUERN_NONE) return "glu: this plugin takes gate and up as two inputs, not packed in one";
  if (!g.same_shape(x, y)) return sdk::refusal::shape(g.value_names[y], g.shape(y), g.shape(x));
  switch (node.fields.op) {
    case QUERN_OP_COPY:
      if (g.values[x].dtype == g.values[y].dtype) return {};
      return sdk::refusal::dtype(g.value_names[y], g.values[y].dtype, "what it copies");
    case QUERN_OP_RMS_NORM:
      if (const double e = attributes.real(QUERN_KEY_EPSILON); !(e > 0))
        return sdk::concat("rms_norm: epsilon is ", e == 0 ? "0" : std::to_string(e), "; it is above 0");
      if (g.values[x].rank == 0) return sdk::refusal::shape(g.value_names[x], "[]", "at least one dimension");
      if (second != QUERN_NONE &&
          (g.values[second].rank != 1 || !g.broadcasts(second, x) || g.values[second].dims[0] != g.values[x].dims[g.values[x].rank - 1])) {
        return sdk::refusal::shape(g.value_names[second], g.shape(second), "that of a row");
      }
      return {};
    case QUERN_OP_ADD:
      return g.broadcasts(second, x) ? std::string() : sdk::refusal::shape(g.value_names[second], g.shape(second), "one that broadcasts");
    default:  // QUERN_OP_GLU
      if (attributes.integer(QUERN_KEY_KIND) != 0) return "glu: this plugin has the silu kind (0) only";
      if (!std::isinf(attributes.real(QUERN_KEY_LIMIT))) return "glu: this plugin has no limit";
      return g.same_shape(x, second) ? std::string() : sdk::refusal::shape(g.value_names[second], g.shape(second), g.shape(x));
  }
}

std::string refuse(const sdk::Graph& g, const sdk::Node& node) {
  std::string text = sdk::refuse_unknown(g, node);
  if (!text.empty()) return text;
  const std::uint32_t op = node.fields.op;
  if (kernel_name(op) == nullptr) return sdk::refusal::op(op);
  // Any determinism is kept: each row is computed alone, in one order. Input conversions are allowed, not asked for.
  const std::uint64_t strides = op == QUERN_OP_COPY ? QUERN_VALUE_USES_STRIDES : 0;  // a copy is what makes values contiguous
  text = sdk::refuse_features(g, node, QUERN_VALUE_USES_SYMBOLS | QUERN_VALUE_USES_ALIAS | QUERN_VALUE_USES_DATA | strides,
                              QUERN_NODE_USES_PREDICATE | QUERN_NODE_USES_PRECISION | QUERN_NODE_USES_DETERMINISM | QUERN_NODE_USES_REGION);
  if (!text.empty()) return text;
  if ((node.fields.uses & QUERN_NODE_USES_PRECISION) != 0) {
    if (node.fields.accumulate != QUERN_F32) return sdk::refusal::accumulate();
    text = sdk::unknown_bit("conversions", node.fields.conversions,
                            QUERN_CONVERT_TF32 | QUERN_CONVERT_BF16 | QUERN_CONVERT_F16 | QUERN_CONVERT_INT8);
    if (!text.empty()) return text;
  }
  if ((node.fields.uses & QUERN_NODE_USES_DETERMINISM) != 0 && node.fields.determinism > QUERN_DETERMINISM_INVARIANT) {
    return concat("determinism ", node.fields.determinism, " is newer than this plugin");
  }
  text = refuse_operands(g, node);
  if (!text.empty()) return text;
  const sdk::Attributes attributes(node.fields);
  return attributes.problem().empty() ? refuse_op(g, node, attributes) : attributes.problem();
}

// ---- Step 4: the kernels, one row each. In place is allowed, so each element is read before it is written.
void rms_norm_row(float* y, const float* x, const float* weight, std::int64_t n, const Step& step) {
  constexpr int lanes = 16;  // sums in blocks: the error grows with the root of n
  float part[lanes] = {};
  for (std::int64_t i = 0; i < n; ++i) part[i % lanes] += x[i] * x[i];
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) part[i] += part[i + half];
  }
  const float scale = 1.0f / std::sqrt(part[0] / static_cast<float>(n) + step.epsilon);
  for (std::int64_t i = 0; i < n; ++i) y[i] = (weight == nullptr ? 1.0f : weight[i] + step.factor) * (x[i] * scale);
}

void add_row(float* y, const float* a, const float* b, std::int64_t b_step, std::int64_t n, const Step& step) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = a[i] + step.factor * b[i * b_step];
}

void glu_row(float* y, const float* gate, const float* up, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float silu = std::isinf(gate[i]) && gate[i] < 0.0f ? -0.0f : gate[i] / (1.0f + std::exp(-gate[i]));
    y[i] = silu * up[i];
  }
}

void copy_row(std::byte* y, std::int64_t y_step, const std::byte* x, std::int64_t x_step, std::int64_t n, std::uint64_t size) {
  for (std::int64_t i = 0; i < n; ++i) std::memcpy(y + i * y_step, x + i * x_step, size);
}

float from_f16(std::uint16_t h) {
  const std::uint32_t magnitude = h & 0x7fffu, sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  std::uint32_t bits = magnitude << 13;  // the value times 2^-112, subnormals too
  float f;
  std::memcpy(&f, &bits, sizeof f);
  f *= 0x1p112f;
  std::memcpy(&bits, &f, sizeof bits);
  if (magnitude >= 0x7c00u) bits = 0x7f800000u | (magnitude & 0x3ffu) << 13;  // infinity and NaN
  bits |= sign;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

/// To nearest, ties to even; beyond the largest number to infinity.
std::uint16_t to_f16(float f) {
  std::uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24, which nearbyint rounds
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::nearbyint(std::ldexp(std::fabs(f), 24))));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<std::uint16_t>(sign | (rounded >= 0x47800000u ? 0x7c00u : (rounded - 0x38000000u) >> 13));
}

float load(const std::byte* at, quern_dtype dtype) {
  if (dtype == QUERN_F32) {
    float f;
    std::memcpy(&f, at, sizeof f);
    return f;
  }
  std::uint16_t h;
  std::memcpy(&h, at, sizeof h);
  return from_f16(h);
}

void store(std::byte* at, quern_dtype dtype, float f) {
  if (dtype == QUERN_F32) {
    std::memcpy(at, &f, sizeof f);
    return;
  }
  const std::uint16_t h = to_f16(f);
  std::memcpy(at, &h, sizeof h);
}

/// 16 sums, so that the error grows with the root of k. b_step: bytes between rows of b.
void matmul_row(std::byte* y, quern_dtype y_type, const std::byte* a, quern_dtype a_type, const std::byte* b, quern_dtype b_type,
                std::int64_t b_step, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t lanes = 16;
  const auto a_size = static_cast<std::int64_t>(sdk::element_size(a_type).bytes);
  const auto b_size = static_cast<std::int64_t>(sdk::element_size(b_type).bytes);
  const auto y_size = static_cast<std::int64_t>(sdk::element_size(y_type).bytes);
  for (std::int64_t j = 0; j < n; ++j) {
    float part[lanes] = {};
    for (std::int64_t l = 0; l < k; ++l) part[l % lanes] += load(a + l * a_size, a_type) * load(b + j * b_step + l * b_size, b_type);
    for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
      for (std::int64_t i = 0; i < half; ++i) part[i] += part[i + half];
    }
    store(y + j * y_size, y_type, part[0]);
  }
}

// ---- Step 5: running a step over the rows that the run has.
/// A value seen with the dimensions of the output: bytes between neighbours, 0 where it broadcasts.
struct Operand {
  std::byte* base = nullptr;
  std::array<std::int64_t, QUERN_MAX_DIMS> step = {};

  float* floats(std::int64_t offset) const { return base == nullptr ? nullptr : reinterpret_cast<float*>(base + offset); }
};

Operand operand(const quern_instance& instance, std::uint32_t value, std::uint32_t output) {
  const sdk::Graph& g = instance.plan.graph;
  const quern_value& v = g.values[value];
  const sdk::Steps steps = sdk::contiguous_steps(v);
  const auto size = static_cast<std::int64_t>(sdk::element_size(v.dtype).bytes);
  const Place& place = instance.places[value];
  Operand result;
  result.base = place.block->at(place.offset);
  const std::uint32_t missing = g.values[output].rank - v.rank;
  for (std::uint32_t d = 0; d < v.rank; ++d) {
    const bool one = v.dims[d] == 1 && v.symbols[d] == 0;
    result.step[d + missing] = one ? 0 : (v.uses & QUERN_VALUE_USES_STRIDES) != 0 ? v.strides[d] : steps.of[d] * size;
  }
  return result;
}

std::int32_t integer_at(const quern_instance& instance, std::uint32_t value, std::int64_t index) {
  std::int32_t number;
  const Place& place = instance.places[value];
  std::memcpy(&number, place.block->at(place.offset + static_cast<std::uint64_t>(index) * sizeof number), sizeof number);
  return number;
}

/// The next index of the leading dimensions, the last running fastest.
void advance(std::int64_t* index, const std::int64_t* extent, std::uint32_t count) {
  for (std::uint32_t d = count; d-- > 0;) {
    if (++index[d] < extent[d]) return;
    index[d] = 0;
  }
}

void run_step(const quern_instance& instance, const Step& step) {
  const sdk::Graph& g = instance.plan.graph;
  const std::uint32_t rank = g.values[step.output].rank;
  const std::uint32_t leading = rank == 0 ? 0 : rank - 1;
  const std::uint32_t second = step.inputs.size() > 1 ? step.inputs[1] : QUERN_NONE;
  const Operand y = operand(instance, step.output, step.output);
  const Operand a = operand(instance, step.inputs[0], step.output);
  const Operand b = second == QUERN_NONE ? Operand() : operand(instance, second, step.output);
  if (step.predicate != QUERN_NONE && !step.predicate_per_row && integer_at(instance, step.predicate, 0) == 0) return;

  const std::int64_t n = rank == 0 ? 1 : g.extent(step.output, leading, instance.now);
  const std::uint64_t size = sdk::element_size(g.values[step.output].dtype).bytes;
  const std::int64_t y_step = rank == 0 ? 0 : y.step[leading], a_step = rank == 0 ? 0 : a.step[leading];
  const std::int64_t b_step = rank == 0 ? 0 : b.step[leading] / static_cast<std::int64_t>(sizeof(float));  // 1, or 0 where b broadcasts
  std::int64_t extent[QUERN_MAX_DIMS] = {};
  std::int64_t index[QUERN_MAX_DIMS] = {};
  std::int64_t rows = n == 0 ? 0 : 1;
  for (std::uint32_t d = 0; d < leading; ++d) rows *= extent[d] = g.extent(step.output, d, instance.now);
  for (std::int64_t row = 0; row < rows; ++row, advance(index, extent, leading)) {
    if (instance.cancel.load(std::memory_order_relaxed)) throw Failure(QUERN_CANCELLED, "sample: the run was cancelled", 18);
    if (step.predicate_per_row && integer_at(instance, step.predicate, index[0]) == 0) continue;
    std::int64_t at_y = 0, at_a = 0, at_b = 0;
    for (std::uint32_t d = 0; d < leading; ++d) {
      at_y += index[d] * y.step[d];
      at_a += index[d] * a.step[d];
      at_b += index[d] * b.step[d];
    }
    switch (step.op) {
      case QUERN_OP_COPY: copy_row(y.base + at_y, y_step, a.base + at_a, a_step, n, size); break;
      case QUERN_OP_MATMUL:
        matmul_row(y.base + at_y, g.values[step.output].dtype, a.base + at_a, g.values[step.inputs[0]].dtype, b.base,
                   g.values[second].dtype, b.step[0], n, g.extent(step.inputs[0], 1, instance.now));
        break;
      case QUERN_OP_RMS_NORM: rms_norm_row(y.floats(at_y), a.floats(at_a), b.floats(at_b), n, step); break;
      case QUERN_OP_ADD: add_row(y.floats(at_y), a.floats(at_a), b.floats(at_b), b_step, n, step); break;
      default: glu_row(y.floats(at_y), a.floats(at_a), b.floats(at_b), n); break;
    }
  }
}

/// The exact count of each symbol that lies in device memory [C11].
void read_extents(quern_instance& instance) {
  const sdk::Graph& g = instance.plan.graph;
  for (std::size_t s = 0; s < g.symbols.size(); ++s) {
    if (g.symbols[s].extent == QUERN_NONE) continue;
    const std::int64_t exact = integer_at(instance, g.symbols[s].extent, 0);
    if (exact < 0 || exact > instance.now[s]) {
      throw Failure(QUERN_INVALID_ARGUMENT,
                    concat("sample: symbol ", s, " has the extent ", exact, ", the run's bound is ", instance.now[s]), 11);
    }
    instance.now[s] = exact;
  }
}
