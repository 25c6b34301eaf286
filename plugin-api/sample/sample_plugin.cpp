// A whole backend plugin in one file: copy it to start your own.
//
// It drives an invented device with memory of its own. It has what level 1 of the conformance suite asks for
// (copy between any views, matmul of f32 and f16) and three ops in f32: rms_norm, add, glu with silu. Every
// other node is refused with a reason. The loops are plain; a real backend replaces steps 2 and 3.
//
// The SDK does the rest: it checks graphs, lays out scratch, binds memory and keeps the rules of runs. The
// folder raw/ has the same device without it.
#include "quern/quern_device_plugin.hpp"

#include <cstdlib>

namespace sdk = quern::sdk;
using sdk::at;
using sdk::Call;
using sdk::Failure;
using sdk::Tensor;

namespace sample {

// ---- Step 1: what the library is. The host reads the note from the file, before any code runs [C5].
#define SAMPLE_VERSION "1.0.0"
QUERN_PLUGIN_NOTE("sample", SAMPLE_VERSION, QUERN_DEVICE_OTHER, 0, "");

// ---- Step 2: the device and its memory. A real backend asks its driver; this one asks the host.
struct Release {
  const quern_host* host;
  std::uint64_t bytes;
  void operator()(void* memory) const { host->release(host->context, memory, bytes, sdk::span_alignment); }
};

/// A piece of device memory; given back when it ends.
class Memory {
 public:
  Memory(const quern_host& host, sdk::CountedHeap& heap, std::uint64_t bytes)
      : share_(heap.take(bytes)), data_(nullptr, Release{&host, std::max<std::uint64_t>(bytes, 1)}) {
    data_.reset(host.allocate(host.context, data_.get_deleter().bytes, sdk::span_alignment, "sample device memory"));
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_.get(), 0xff, bytes);  // fresh memory is NaN, so that a read before a write shows
  }
  std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(data_.get()); }

 private:
  sdk::CountedHeap::Share share_;
  std::unique_ptr<void, Release> data_;
};

class Device {
 public:
  static constexpr std::uint64_t numerics_key = 0x73616d706c650001;  // the last digits count its changes
  static constexpr std::uint32_t determinism = QUERN_DETERMINISM_INVARIANT;

  Device(const quern_host& host, std::uint64_t total) : host_(host), heap_(total) {}
  const sdk::Offers& offers() const;
  std::mutex& order() { return order_; }  // held while runs and copies are under way

  std::uint32_t heap_count() const { return 1; }
  quern_heap_info heap(std::uint32_t) const { return heap_.info(QUERN_HEAP_DEVICE_LOCAL); }
  void limit(std::uint32_t, std::uint64_t bytes) { heap_.limit(bytes); }
  Memory allocate(std::uint64_t bytes, std::uint32_t) { return Memory(host_, heap_, bytes); }

  void write(std::uint64_t to, const void* from, std::uint64_t bytes) { std::memcpy(at(to), from, bytes); }
  void read(void* to, std::uint64_t from, std::uint64_t bytes) { std::memcpy(to, at(from), bytes); }
  void write(Memory& to, std::uint64_t offset, const void* from, std::uint64_t bytes) { write(to.address() + offset, from, bytes); }
  void read(void* to, const Memory& from, std::uint64_t offset, std::uint64_t bytes) { read(to, from.address() + offset, bytes); }
  void move(Memory& to, std::uint64_t to_offset, const Memory& from, std::uint64_t from_offset, std::uint64_t bytes) {
    write(to, to_offset, at(from.address() + from_offset), bytes);
  }
  void fill(Memory& to, std::uint64_t offset, std::uint32_t pattern, std::uint64_t bytes) {
    std::fill_n(at<std::uint32_t>(to.address() + offset), bytes / sizeof pattern, pattern);
  }

 private:
  const quern_host& host_;
  sdk::CountedHeap heap_;
  std::mutex order_;
};

// ---- Step 3: the ops: why a call cannot run (empty: it can) [C3, C10], and how it runs [C17]. Shapes, and dtypes that an op never has,
// are refused before: ops.def has the form of each.
std::string refuse_copy(const Call& call) {
  const Tensor& x = call.input(0);
  const bool plain = sdk::is_float(x.dtype) || x.dtype == QUERN_I32;
  return sdk::first_of({plain ? "" : sdk::describe(x) + "; f32, f16, bf16 or i32 is copied", sdk::check_row_predicate(call)});
}
void run_copy(const Call& call, Device&) {
  const Tensor &x = call.input(0), &y = call.output(0);
  const std::uint64_t size = sdk::element_size(y.dtype).bytes;
  const auto step = [](const Tensor& t) { return t.rank == 0 ? 0 : t.strides[t.rank - 1]; };
  sdk::for_each_row(call, [&](std::uint64_t to, std::uint64_t from, std::uint64_t) {
    for (std::int64_t i = 0; i < y.last(); ++i) std::memcpy(at(to) + i * step(y), at(from) + i * step(x), size);
  });
}

/// y[m, n] = a[m, k] b[n, k]^T and nothing more.
std::string refuse_matmul(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1), &y = call.output(0);
  for (const Tensor* t : {&a, &b, &y}) {
    if (t->dtype != QUERN_F32 && t->dtype != QUERN_F16) return sdk::describe(*t) + "; f32 or f16 is taken";
    if (std::string text = sdk::first_of({sdk::check_rank(*t, 2), sdk::check_contiguous(*t)}); !text.empty()) return text;
  }
  if (call.input(2).present() || call.input(3).present()) return "matmul: this plugin has no bias and no c";
  const bool turned = call.flag(QUERN_KEY_TRANSPOSE_A) || call.flag(QUERN_KEY_TRANSPOSE_B);
  return turned || call.real(QUERN_KEY_ALPHA) != 1 ? "matmul: this plugin has neither transposes nor an alpha" : "";
}
void run_matmul(const Call& call, Device&) {
  const Tensor &a = call.input(0), &b = call.input(1), &y = call.output(0);
  const auto size = [](const Tensor& t) { return sdk::element_size(t.dtype).bytes; };
  sdk::for_each_row(call, [&](std::uint64_t to, std::uint64_t from, std::uint64_t) {
    for (std::uint64_t j = 0; j < static_cast<std::uint64_t>(b.dims[0]); ++j) {
      const std::uint64_t weights = b.data + j * static_cast<std::uint64_t>(b.strides[0]);
      sdk::store(to + j * size(y), y.dtype, sdk::sum_of(a.dims[1], [&](std::int64_t l) {
                   const auto i = static_cast<std::uint64_t>(l);
                   return sdk::load(from + i * size(a), a.dtype) * sdk::load(weights + i * size(b), b.dtype);
                 }));
    }
  });
}

/// What the f32 ops ask of all their operands.
std::string check_f32(const Call& call) {
  for (const sdk::TensorList* list : {&call.inputs, &call.outputs})
    for (const Tensor& t : *list)
      if (t.present() && (t.dtype != QUERN_F32 || !sdk::is_contiguous(t))) return sdk::describe(t) + "; contiguous f32 is taken";
  return sdk::check_row_predicate(call);
}

void run_rms_norm(const Call& call, Device&) {
  const float epsilon = call.number(QUERN_KEY_EPSILON), offset = call.number(QUERN_KEY_WEIGHT_OFFSET);
  const float* weight = call.input(1).present() ? at<float>(call.input(1).data) : nullptr;
  const std::int64_t n = call.output(0).last();
  sdk::for_each_row(call, [&](std::uint64_t to, std::uint64_t from, std::uint64_t) {
    const float *x = at<float>(from), squares = sdk::sum_of(n, [x](std::int64_t i) { return x[i] * x[i]; });
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(n) + epsilon);
    for (std::int64_t i = 0; i < n; ++i) at<float>(to)[i] = (weight == nullptr ? 1.0f : weight[i] + offset) * (x[i] * scale);
  });
}

void run_add(const Call& call, Device&) {
  const Tensor &y = call.output(0), &b = call.input(1);
  const float alpha = call.number(QUERN_KEY_ALPHA);
  const std::int64_t step = b.rank == 0 || b.last() == 1 ? 0 : 1;
  sdk::for_each_row(call, [&](std::uint64_t to, std::uint64_t from, std::uint64_t second) {
    for (std::int64_t i = 0; i < y.last(); ++i) at<float>(to)[i] = at<float>(from)[i] + alpha * at<float>(second)[i * step];
  });
}

std::string refuse_glu(const Call& call) {
  if (call.integer(QUERN_KEY_KIND) != 0) return "glu: this plugin has the silu kind (0) only";
  if (!call.input(1).present()) return "glu: this plugin takes gate and up as two inputs, not packed in one";
  if (!std::isinf(call.real(QUERN_KEY_LIMIT))) return "glu: this plugin has no limit";
  return check_f32(call);
}
void run_glu(const Call& call, Device&) {
  sdk::for_each_row(call, [&](std::uint64_t to, std::uint64_t from, std::uint64_t second) {
    for (std::int64_t i = 0; i < call.output(0).last(); ++i) {
      const float g = at<float>(from)[i], silu = g == -INFINITY ? -0.0f : g / (1.0f + std::exp(-g));
      at<float>(to)[i] = silu * at<float>(second)[i];
    }
  });
}

using Op = sdk::InOrderOp<Device>;
constexpr Op ops[] = {{QUERN_OP_COPY, "copy.elements.rows", refuse_copy, run_copy, true},
                      {QUERN_OP_MATMUL, "matmul.floats.rows", refuse_matmul, run_matmul, true},
                      {QUERN_OP_RMS_NORM, "rms_norm.f32.rows", check_f32, run_rms_norm, true},
                      {QUERN_OP_ADD, "add.f32.rows", check_f32, run_add, true},
                      {QUERN_OP_GLU, "glu.silu.f32.rows", refuse_glu, run_glu, true}};

const sdk::Offers& Device::offers() const {
  static const sdk::TableOffers<Op> offers(ops);
  return offers;
}

// ---- Step 4: the plugin: its devices, and the proof that one computes [C8].
class Backend : public sdk::BackendDefaults {
 public:
  using Device = sample::Device;
  using Memory = sample::Memory;
  using Plan = sdk::InOrderPlan<Device>;
  using Instance = sdk::InOrderInstance<Device>;

  explicit Backend(const quern_host& host) : host_(host) {
    if (host.allocate == nullptr || host.release == nullptr)
      throw Failure(QUERN_INVALID_ARGUMENT, "create: the host gives no allocate or release");
  }
  std::uint32_t device_count() const { return 1; }
  quern_device_info device_info(std::uint32_t, sdk::Texts&) const {
    quern_device_info info = sdk::made<quern_device_info>();
    info.device_class = QUERN_DEVICE_OTHER;
    info.name = sdk::text_of("sample device");
    info.architecture = sdk::text_of("portable");
    info.max_allocation = memory();
    info.heap_count = 1;
    info.numa_node = QUERN_NONE;
    return info;
  }
  std::unique_ptr<Device> open(std::uint32_t) const { return std::make_unique<Device>(host_, memory()); }
  /// A sum in the device's own memory, compared.
  void prove(std::uint32_t index) const {
    const std::unique_ptr<Device> device = open(index);
    const Memory memory = device->allocate(4 * sizeof(float), 0);
    for (std::uint64_t i = 0; i < 4; ++i) at<float>(memory.address())[i] = static_cast<float>(i);
    const float total = sdk::sum_of(4, [&](std::int64_t i) { return 3 * at<float>(memory.address())[i]; });
    if (total != 18.0f) throw Failure(QUERN_INTERNAL, "the sample device added to another sum");
  }

 private:
  /// An option of the user: "sample.memory", in bytes, so that a test can make the device small.
  std::uint64_t memory() const {
    const std::uint64_t bytes = std::strtoull(sdk::host_option(host_, "memory").c_str(), nullptr, 10);
    return bytes == 0 ? std::uint64_t{4} << 30 : bytes;
  }
  const quern_host& host_;
};

}  // namespace sample

// ---- Step 5: the handles, the table and the one exported function. All state hangs on the handles [C7].
QUERN_PLUGIN_HANDLES(sample::Backend);
#include "quern/sdk/synchronous.hpp"
using Table = sdk::Synchronous<sample::Backend>;
QUERN_PLUGIN_ENTRY(Table::table("sample", SAMPLE_VERSION, "sample " SAMPLE_VERSION))
