// The sample's device without the SDK's classes for devices: every function of the table by hand. For authors who want to see what
// quern/quern_device_plugin.hpp does for them, who write in another language, or whose device does not fit it. ../sample_plugin.cpp is
// where to start.
//
// It drives an invented device with memory of its own, which the host reaches only by upload, download and copy. It has
// what level 1 of the conformance suite asks for (copy between any views, and matmul of f32 and f16) and three ops in f32
// (rms_norm, add, glu with silu), answers every other with a reason, and is SYNCHRONOUS: submit returns when the run is done,
// so that the host supplies queues and fences. Plain loops; a real backend replaces step 4.
//
// Step 1 says what the library is (before any code runs), step 9 exports the one function, the rest is in between. The
// rules in brackets are those of CONTRACT.md. No function here prints, throws to the host, or keeps anything outside of
// its handles.
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

// ---- Step 1: the note. The host reads it from the file: id, version, class of device, CPU features that the code
// needs before it can look for itself (none), and libraries that probe() will open (none). [C5]
#define SAMPLE_VERSION "1.0.0"
QUERN_PLUGIN_NOTE("sample_raw", SAMPLE_VERSION, QUERN_DEVICE_OTHER, 0, "");

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
  if (!g.same_shape(x, y)) return sdk::refusal::shape(g.value_names[y], g.shape(y), g.shape(x));
  switch (node.fields.op) {
    case QUERN_OP_COPY:
      if (g.values[x].dtype == g.values[y].dtype) return {};
      return sdk::refusal::dtype(g.value_names[y], g.values[y].dtype, "what it copies");
    case QUERN_OP_RMS_NORM:
      if (!(attributes.real(QUERN_KEY_EPSILON) > 0)) return "rms_norm: epsilon must be above 0";
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
      if (second == QUERN_NONE) return "glu: this plugin takes gate and up as two inputs, not packed in one";
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

// ---- Step 6: plugin, device and memory functions.
quern_status create(const quern_host* host, quern_plugin** out, quern_error* error) {
  return guarded(error, [&] {
    const quern_host h = sdk::read(host);
    if (h.allocate == nullptr || h.release == nullptr || h.option == nullptr) {
      throw Failure(QUERN_INVALID_ARGUMENT, "create: the host gives no allocate, release or option");
    }
    object(out, "place for the plugin");
    *out = new quern_plugin{h, {}, {}};
  });
}

void destroy(quern_plugin* plugin) { delete plugin; }

quern_status device_count(quern_plugin* plugin, std::uint32_t* count, quern_error* error) {
  return guarded(error, [&] {
    object(plugin, "plugin");
    object(count, "place for the count") = 1;
  });
}

/// An option of the user: "memory", in bytes ("sample.memory" in the host's settings), so that a test can make the device
/// small.
std::uint64_t device_memory(const quern_host& host) {
  char text[32] = {};
  const std::uint64_t size = host.option(host.context, "memory", text, sizeof text - 1);
  const std::uint64_t bytes = size < sizeof text ? std::strtoull(text, nullptr, 10) : 0;
  return bytes == 0 ? default_memory : bytes;
}

void check_index(std::uint32_t index, const char* what) {
  if (index != 0) throw Failure(QUERN_NOT_FOUND, concat("sample: ", what, " ", index, " is not there, there is one"));
}

quern_status device_info(quern_plugin* plugin, std::uint32_t index, quern_device_info* out, quern_error* error) {
  return guarded(error, [&] {
    object(plugin, "plugin");
    check_index(index, "device");
    sdk::check(out);
    quern_device_info info = sdk::made<quern_device_info>();
    info.device_class = QUERN_DEVICE_OTHER;
    info.caps = QUERN_CAP_SYNCHRONOUS;
    info.name = sdk::text_of("sample device");
    info.architecture = sdk::text_of("portable");
    info.memory_alignment = memory_alignment;
    info.max_allocation = device_memory(plugin->host);
    info.heap_count = 1;
    info.numa_node = QUERN_NONE;
    sdk::write(out, info);
  });
}

quern_status device_open(quern_plugin* plugin, std::uint32_t index, quern_device** out, quern_error* error) {
  return guarded(error, [&] {
    object(plugin, "plugin");
    check_index(index, "device");
    object(out, "place for the device");
    *out = new quern_device{*plugin, device_memory(plugin->host)};
  });
}

quern_status device_close(quern_device* device, quern_error* error) {
  return guarded(error, [&] {
    const std::uint32_t children = object(device, "device").children;
    if (children != 0) throw Failure(QUERN_BUSY, concat("device_close: ", children, " buffers or plans are alive"));
    delete device;
  });
}

/// Proves that the device computes: y = a + 2 b in its own memory, checked [C8].
quern_status probe(quern_plugin* plugin, quern_probe_report* report, quern_error* error) {
  return guarded(error, [&] {
    object(plugin, "plugin");
    quern_probe_report result = sdk::read(report);
    quern_device device{*plugin, device_memory(plugin->host)};
    const Block block(device, 3 * memory_alignment);
    float* a = reinterpret_cast<float*>(block.at(0));
    float* b = reinterpret_cast<float*>(block.at(memory_alignment));
    float* y = reinterpret_cast<float*>(block.at(2 * memory_alignment));
    for (int i = 0; i < 4; ++i) a[i] = static_cast<float>(i), b[i] = 0.5f;
    add_row(y, a, b, 1, 4, Step{QUERN_OP_ADD, {}, 0, QUERN_NONE, false, 0, 2});
    bool right = true;
    for (int i = 0; i < 4; ++i) right = right && y[i] == static_cast<float>(i + 1);
    result.usable = right ? 1 : 0;
    result.reason_count = right ? 0 : 1;
    if (!right && result.reasons != nullptr && result.reason_capacity > 0) {
      sdk::check(result.reasons);
      quern_reason reason = sdk::made<quern_reason>();
      reason.code = QUERN_INTERNAL;
      reason.text = sdk::text_of("the sample device added 4 numbers and got another sum");
      sdk::write(result.reasons, reason);
    }
    sdk::write(report, result);
  });
}

quern_status heap_info(quern_device* device, std::uint32_t heap, quern_heap_info* out, quern_error* error) {
  return guarded(error, [&] {
    const quern_device& d = object(device, "device");
    check_index(heap, "heap");
    sdk::check(out);
    quern_heap_info info = sdk::made<quern_heap_info>();
    info.flags = QUERN_HEAP_DEVICE_LOCAL;
    info.total_figure = info.budget_figure = info.used_figure = QUERN_FIGURE_EXACT;
    info.total = d.total;
    info.budget = std::min(d.total, d.limit.load());
    info.used = d.used;
    sdk::write(out, info);
  });
}

quern_status memory_limit(quern_device* device, std::uint32_t heap, std::uint64_t bytes, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    check_index(heap, "heap");
    device->limit = bytes;
  });
}

quern_status buffer_create(quern_device* device, const quern_buffer_options* options, std::uint64_t bytes, quern_buffer** out,
                           quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    if (options != nullptr) {
      const quern_buffer_options o = sdk::read(options);
      check_index(o.heap, "heap");
      sdk::check_flags(o.usage, QUERN_USAGE_WEIGHTS | QUERN_USAGE_STATE | QUERN_USAGE_SCRATCH | QUERN_USAGE_STAGING, "usage");
    }
    object(out, "place for the buffer");
    *out = new quern_buffer{*device, bytes, std::make_shared<Block>(*device, bytes)};
    ++device->children;
  });
}

quern_status buffer_destroy(quern_buffer* buffer, quern_error* error) {
  return guarded(error, [&] {
    --object(buffer, "buffer").device.children;
    delete buffer;
  });
}

quern_status upload(quern_device* device, quern_queue* queue, const quern_span* to, const void* from, std::uint64_t bytes,
                    const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    check_synchronous(queue, sync);
    const Place place = place_of(*device, object(to, "span"), bytes);
    if (bytes != 0) std::memcpy(place.block->at(place.offset), &object(static_cast<const char*>(from), "source"), bytes);
  });
}

quern_status download(quern_device* device, quern_queue* queue, void* to, const quern_span* from, std::uint64_t bytes,
                      const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    check_synchronous(queue, sync);
    const Place place = place_of(*device, object(from, "span"), bytes);
    if (bytes != 0) std::memcpy(&object(static_cast<char*>(to), "target"), place.block->at(place.offset), bytes);
  });
}

/// Most devices copy in any order, so that a copy onto a part of itself has no meaning [C31].
void check_apart(const Place& target, const Place& source, std::uint64_t bytes) {
  if (target.block == source.block && target.offset < source.offset + bytes && source.offset < target.offset + bytes) {
    throw Failure(QUERN_INVALID_ARGUMENT,
                  concat("a copy of ", bytes, " bytes from ", source.offset, " to ", target.offset, " of one buffer overlaps itself"), 31);
  }
}

quern_status copy(quern_device* device, quern_queue* queue, const quern_span* to, const quern_span* from, std::uint64_t bytes,
                  const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    check_synchronous(queue, sync);
    const Place target = place_of(*device, object(to, "span"), bytes);
    const Place source = place_of(*device, object(from, "span"), bytes);
    check_apart(target, source, bytes);
    if (bytes != 0) std::memcpy(target.block->at(target.offset), source.block->at(source.offset), bytes);
  });
}

// ---- Step 7: support and compile.
quern_status support(quern_device* device, const quern_graph* graph, const quern_support_options* options, quern_answer* answers,
                     quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    if (options != nullptr) sdk::check_flags(sdk::read(options).flags, 0, "support options");
    const sdk::Graph g(graph);
    const sdk::Answers list(answers, g.nodes.size());
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
      const std::string text = refuse(g, g.nodes[i]);
      quern_answer answer = sdk::made<quern_answer>();
      answer.verdict = text.empty() ? QUERN_ANSWER_YES : QUERN_ANSWER_NO;
      answer.group = QUERN_NONE;
      answer.code = text.empty() ? QUERN_OK : QUERN_UNSUPPORTED;
      if (text.empty()) {
        answer.kernel = sdk::text_of(kernel_name(g.nodes[i].fields.op));
      } else {
        answer.text = device->plugin.texts.keep(text);
      }
      list.set(i, answer);
    }
  });
}

Step step_of(const sdk::Graph& g, const sdk::Node& node) {
  const sdk::Attributes attributes(node.fields);
  Step step{node.fields.op, node.inputs, node.outputs[0], QUERN_NONE, false, 0, 0};
  if (node.fields.op == QUERN_OP_RMS_NORM) {
    step.epsilon = static_cast<float>(attributes.real(QUERN_KEY_EPSILON));
    step.factor = static_cast<float>(attributes.real(QUERN_KEY_WEIGHT_OFFSET));
  } else if (node.fields.op == QUERN_OP_ADD) {
    step.factor = static_cast<float>(attributes.real(QUERN_KEY_ALPHA));
  }
  if ((node.fields.uses & QUERN_NODE_USES_PREDICATE) != 0) {
    step.predicate = node.fields.predicate;
    step.predicate_per_row = !g.is_one(step.predicate);
  }
  return step;
}

bool fits_force(std::string_view wanted, std::uint32_t op) { return wanted.empty() || wanted == "rows" || wanted == kernel_name(op); }

quern_status compile(quern_device* device, const quern_graph* graph, quern_compile_options* options, quern_plan** out, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    object(out, "place for the plan");
    const quern_compile_options o = options == nullptr ? sdk::made<quern_compile_options>() : sdk::read(options);
    if (o.effort > 2 || o.tuning > QUERN_TUNING_MEASURE || o.fusion > 1) {
      throw Failure(QUERN_UNSUPPORTED, "compile: an effort, tuning or fusion that is newer than this plugin", 3);
    }
    if (o.communicators.count != 0) throw Failure(QUERN_UNSUPPORTED, sdk::refusal::collectives(), 19);
    auto plan = std::unique_ptr<quern_plan>(new quern_plan{*device, sdk::Graph(graph)});
    std::string first_reason;
    std::uint64_t refused = 0;
    for (std::size_t i = 0; i < plan->graph.nodes.size(); ++i) {
      const sdk::Node& node = plan->graph.nodes[i];
      std::string text = refuse(plan->graph, node);
      if (text.empty() && !fits_force(sdk::view(o.force_kernel), node.fields.op)) {
        text = concat("no kernel '", sdk::view(o.force_kernel), "' here; there is ", kernel_name(node.fields.op));
      }
      if (text.empty()) {
        plan->steps.push_back(step_of(plan->graph, node));
        quern_kernel_info kernel = sdk::made<quern_kernel_info>();
        kernel.name = sdk::text_of(kernel_name(node.fields.op));
        kernel.node = static_cast<std::uint32_t>(i);
        kernel.node_count = 1;
        plan->kernels.push_back(kernel);
        continue;
      }
      if (refused < o.refused_capacity && o.refused_nodes != nullptr) o.refused_nodes[refused] = static_cast<std::uint32_t>(i);
      if (refused++ == 0) first_reason = concat("node ", i, ": ", text);
    }
    if (options != nullptr) options->refused_count = refused;
    if (refused != 0) throw Failure(QUERN_UNSUPPORTED, first_reason, 10);
    if (o.progress != nullptr && o.progress(o.progress_context, 1.0) == 0) throw Failure(QUERN_CANCELLED, "compile was stopped");
    ++device->children;
    *out = plan.release();
  });
}

quern_status plan_info(quern_plan* plan, quern_plan_info* out, quern_error* error) {
  return guarded(error, [&] {
    const quern_plan& p = object(plan, "plan");
    sdk::check(out);
    quern_plan_info info = sdk::made<quern_plan_info>();
    info.determinism = QUERN_DETERMINISM_INVARIANT;
    info.launches = static_cast<std::uint32_t>(p.steps.size());
    info.numerics_key = 0x73616d706c650001ull;  // one set of kernels; the last digits count its changes
    info.kernels = {p.kernels.data(), p.kernels.size(), sizeof(quern_kernel_info)};
    sdk::write(out, info);
  });
}

quern_status plan_destroy(quern_plan* plan, quern_error* error) {
  return guarded(error, [&] {
    const std::uint32_t instances = object(plan, "plan").instances;
    if (instances != 0) throw Failure(QUERN_BUSY, concat("plan_destroy: ", instances, " instances are alive"));
    --plan->device.children;
    delete plan;
  });
}

// ---- Step 8: instance, prepare, submit. Only instance_create and prepare may allocate [C12].
quern_status instance_create(quern_plan* plan, const quern_instance_options* options, quern_instance** out, quern_instance_info* info,
                             quern_error* error) {
  return guarded(error, [&] {
    const sdk::Graph& g = object(plan, "plan").graph;
    object(out, "place for the instance");
    sdk::check(info);
    auto instance = std::unique_ptr<quern_instance>(new quern_instance{*plan});
    instance->upper = g.widest();
    if (options != nullptr) g.apply_bounds(sdk::read(options).bounds, instance->upper);
    instance->now = instance->upper;
    instance->scratch_offset.assign(g.values.size(), 0);
    for (std::uint32_t v = 0; v < g.values.size(); ++v) {
      if (g.is_slot(v) || (g.values[v].uses & QUERN_VALUE_USES_ALIAS) != 0) continue;
      instance->scratch_offset[v] = instance->scratch_bytes;
      const std::uint64_t bytes = g.bytes(v, instance->upper);
      if (bytes > (1ull << 62) - instance->scratch_bytes) throw Failure(QUERN_DOES_NOT_FIT, "the scratch exceeds 62 bits");
      instance->scratch_bytes += (bytes + memory_alignment - 1) / memory_alignment * memory_alignment;
    }
    quern_instance_info i = sdk::made<quern_instance_info>();
    i.scratch_bytes = instance->scratch_bytes;
    i.scratch_alignment = memory_alignment;
    i.max_in_flight = 1;
    sdk::write(info, i);
    ++plan->instances;
    *out = instance.release();
  });
}

quern_status instance_destroy(quern_instance* instance, quern_error* error) {
  return guarded(error, [&] {
    --object(instance, "instance").plan.instances;
    delete instance;
  });
}

/// Where each value lies, or a Failure. Changes nothing.
std::vector<Place> bind(const quern_instance& instance, const quern_prepare_entry& entry) {
  const sdk::Graph& g = instance.plan.graph;
  const quern_device& device = instance.plan.device;
  std::vector<Place> places(g.values.size());
  for (const quern_binding& b : sdk::List<quern_binding>(entry.bindings, "bindings")) {
    if (b.value >= g.values.size() || !g.is_slot(b.value)) {
      throw Failure(QUERN_INVALID_ARGUMENT, concat("prepare: value ", b.value, " is no slot of this plan"), 16);
    }
    if (places[b.value].block) throw Failure(QUERN_INVALID_ARGUMENT, concat("prepare: value ", b.value, " is bound twice"), 16);
    sdk::check_flags(b.flags, 0, "binding");
    const sdk::List<quern_span> spans(b.spans, "spans");
    if (spans.size() != 1) throw Failure(QUERN_INVALID_ARGUMENT, concat("prepare: ", spans.size(), " spans, one is needed"), 16);
    places[b.value] = place_of(device, spans[0], g.bytes(b.value, instance.upper));
    if (places[b.value].offset % memory_alignment != 0) {
      throw Failure(QUERN_INVALID_ARGUMENT, concat("prepare: value ", b.value, " is not aligned to ", memory_alignment), 16);
    }
  }
  Place scratch;
  if (instance.scratch_bytes != 0) scratch = place_of(device, entry.scratch, instance.scratch_bytes);
  for (std::uint32_t v = 0; v < g.values.size(); ++v) {
    const quern_value& value = g.values[v];
    if (places[v].block) continue;
    if ((value.uses & QUERN_VALUE_USES_ALIAS) != 0) {  // aliases follow what they are views of
      const std::uint64_t room = g.bytes(value.alias_of, instance.upper), need = g.bytes(v, instance.upper);
      if (value.alias_offset > room || need > room - value.alias_offset) {
        throw Failure(QUERN_INVALID_ARGUMENT, concat("prepare: value ", v, " reaches beyond value ", value.alias_of), 16);
      }
      places[v] = {places[value.alias_of].block, places[value.alias_of].offset + value.alias_offset};
    } else if (!g.is_slot(v)) {
      places[v] = {scratch.block, scratch.offset + instance.scratch_offset[v]};
    } else {
      throw Failure(QUERN_INVALID_ARGUMENT, concat("prepare: value ", v, " '", g.value_names[v], "' is not bound"), 16);
    }
  }
  return places;
}

quern_status prepare(quern_device* device, quern_queue* queue, const quern_array* entries, const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    check_synchronous(queue, sync);
    const sdk::List<quern_prepare_entry> list(object(entries, "entry list"), "prepare entries");
    std::vector<std::vector<Place>> places;  // all entries or none
    for (const quern_prepare_entry& entry : list) {
      const quern_instance& instance = object(entry.instance, "instance");
      if (&instance.plan.device != device) throw Failure(QUERN_INVALID_ARGUMENT, "prepare: an instance of another device");
      places.push_back(bind(instance, entry));
    }
    for (std::uint64_t i = 0; i < list.size(); ++i) {
      quern_instance& instance = *list[i].instance;
      instance.places = std::move(places[i]);
      instance.prepared = true;
      instance.counters = sdk::made<quern_counters>();
    }
  });
}

/// Everything of a run that can be refused, before anything of any run is done.
void check_run(const quern_device& device, const quern_run& run) {
  quern_instance& instance = object(run.instance, "instance");
  const sdk::Graph& g = instance.plan.graph;
  if (&instance.plan.device != &device) throw Failure(QUERN_INVALID_ARGUMENT, "submit: an instance of another device");
  if (!instance.prepared) throw Failure(QUERN_INVALID_ARGUMENT, "submit: the instance was not prepared", 12);
  sdk::check_flags(run.flags, 0, "run flags");
  check_synchronous(nullptr, run.sync);
  if (run.status != nullptr) sdk::check(run.status);
  instance.now = instance.upper;
  g.apply_bounds(run.bounds, instance.now);
  for (const quern_patch& patch : sdk::List<quern_patch>(run.patches, "patches")) {
    const bool known = patch.value < g.values.size();
    const std::uint32_t kind = known ? g.values[patch.value].kind : std::uint32_t{QUERN_VALUE_INTERNAL};
    if (kind != QUERN_VALUE_STATE && kind != QUERN_VALUE_INPUT) {
      throw Failure(QUERN_INVALID_ARGUMENT, concat("submit: a patch of value ", patch.value, ", no state or input"), 13);
    }
    const std::uint64_t room = g.bytes(patch.value, instance.upper);
    if (patch.offset > room || patch.bytes > room - patch.offset || (patch.data == nullptr && patch.bytes != 0)) {
      throw Failure(QUERN_INVALID_ARGUMENT,
                    concat("submit: a patch of ", patch.bytes, " bytes at ", patch.offset, " of value ", patch.value, ", which has ", room),
                    13);
    }
  }
}

void execute(quern_instance& instance, const quern_run& run, quern_run_status& status) {
  instance.cancel = false;
  instance.now = instance.upper;
  instance.plan.graph.apply_bounds(run.bounds, instance.now);
  for (const quern_patch& patch : sdk::List<quern_patch>(run.patches, "patches")) {
    const Place& place = instance.places[patch.value];
    if (patch.bytes != 0) std::memcpy(place.block->at(place.offset + patch.offset), patch.data, patch.bytes);
    instance.counters.host_copies += patch.bytes;
  }
  read_extents(instance);
  for (const Step& step : instance.plan.steps) {
    status.node = static_cast<std::uint32_t>(&step - instance.plan.steps.data());
    status.op = step.op;
    run_step(instance, step);
  }
}

/// A run that fails says so in its status; the others go on.
void run_one(const quern_run& run, quern_error* error) {
  quern_run_status status = sdk::made<quern_run_status>();
  status.node = status.op = QUERN_NONE;
  status.code = guarded(error, [&] {
    try {
      execute(*run.instance, run, status);
    } catch (const Failure& failure) {
      status.rule = failure.rule;
      throw;
    }
    status.node = status.op = QUERN_NONE;
  });
  ++run.instance->counters.runs;
  if (run.status != nullptr) sdk::write(run.status, status);
}

quern_status submit(quern_device* device, quern_queue* queue, const quern_array* runs, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    check_synchronous(queue, nullptr);
    const sdk::List<quern_run> list(object(runs, "run list"), "runs");
    for (const quern_run& run : list) check_run(*device, run);
    for (const quern_run& run : list) run_one(run, error);
  });
}

quern_status run_cancel(quern_instance* instance, quern_error* error) {
  return guarded(error, [&] { object(instance, "instance").cancel = true; });
}

quern_status counters(quern_instance* instance, quern_counters* out, quern_error* error) {
  return guarded(error, [&] {
    object(instance, "instance");
    sdk::check(out);
    sdk::write(out, instance->counters);
  });
}

// ---- Step 9: the table and the one exported function. What stays null the host does without [C24].
quern_plugin_api table() {
  quern_plugin_api api = sdk::make_api();
  api.id = sdk::text_of("sample_raw");
  api.version = sdk::text_of(SAMPLE_VERSION);
  api.build = sdk::text_of("sample " SAMPLE_VERSION);
  api.create = create;
  api.destroy = destroy;
  api.probe = probe;
  api.device_count = device_count;
  api.device_info = device_info;
  api.device_open = device_open;
  api.device_close = device_close;
  api.heap_info = heap_info;
  api.memory_limit = memory_limit;
  api.buffer_create = buffer_create;
  api.buffer_destroy = buffer_destroy;
  api.upload = upload;
  api.download = download;
  api.copy = copy;
  api.support = support;
  api.compile = compile;
  api.plan_info = plan_info;
  api.plan_destroy = plan_destroy;
  api.instance_create = instance_create;
  api.instance_destroy = instance_destroy;
  api.prepare = prepare;
  api.submit = submit;
  api.run_cancel = run_cancel;
  api.counters = counters;
  return api;
}

QUERN_PLUGIN_ENTRY(table())
