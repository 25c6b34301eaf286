// See device_peaks.hpp.
#include "device_peaks.hpp"

#include "program.hpp"
#include "runtime.hpp"

#include "quern/base/byte_sizes.hpp"
#include "quern/graph/ops.hpp"
#include "quern/loader/host_limits.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

namespace quern::runtime {
namespace {

constexpr int passes = 5;
constexpr double long_enough = 0.03;  // seconds of a product: every unit is busy, and the submit is nothing
constexpr std::uint64_t least_bytes = 1 << 20, most_read = std::uint64_t{512} << 20;  // beyond the caches; made on the host

/// The best time of a run, after one that is not counted; fewer on a device that takes long.
double best_seconds(Program& program) {
  double best = 0, total = 0;
  for (int pass = 0; pass <= passes && (pass < 2 || total < 0.5); ++pass) {
    const auto start = std::chrono::steady_clock::now();
    program.run({});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    total += seconds;
    if (pass == 1 || seconds < best) best = seconds;
  }
  return best;
}

graph::NodeOptions measured(const char* name, std::uint32_t conversions = QUERN_CONVERT_NONE) {
  graph::NodeOptions options;
  options.name = name;
  options.conversions = conversions;
  options.determinism = QUERN_DETERMINISM_FREE;
  return options;
}

/// Numbers of [1, 2) in f16, no two neighbours alike: a device may run faster on zeros. In a block format every scale is one of them.
std::vector<std::byte> halves(std::uint64_t count) {
  if (const std::optional<std::uint64_t> available = loader::host_memory().available; available && count > *available / 2) {
    throw Error(QUERN_HOST_OUT_OF_MEMORY,
                concat("a matrix of ", byte_words(count), " was to be measured, and the host has ", byte_words(*available), " available"));
  }
  std::vector<std::byte> bytes(count);
  std::uint32_t state = 1;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    state = state * 1664525u + 1013904223u;
    const std::uint32_t bits = 0x3c00u | state >> 22;
    bytes[i] = static_cast<std::byte>(bits & 0xff);
    bytes[i + 1] = static_cast<std::byte>(bits >> 8);
  }
  return bytes;
}

struct Product {
  std::int64_t m, n, k;
  quern_dtype weights;
};

double copy_seconds(const std::shared_ptr<MemoryBudget>& budget, std::int64_t elements) {
  graph::Graph graph("copy");
  const graph::ValueId x = graph.input("x", QUERN_F32, {elements});
  graph.mark_output(graph::ops::copy(graph, x, measured("copy")), "y");
  Program program(std::move(graph), {budget}, Fallback::strict, "");
  program.prepare();
  return best_seconds(program);
}

double product_seconds(const std::shared_ptr<MemoryBudget>& budget, const Product& size, std::uint32_t conversions) {
  graph::Graph graph("product");
  const graph::ValueId a = graph.input("a", QUERN_F32, {size.m, size.k}), b = graph.constant("b", size.weights, {size.n, size.k});
  graph.mark_output(graph::ops::matmul(graph, a, b, measured("product", conversions)), "y");
  Program program(std::move(graph), {budget}, Fallback::strict, "");
  const std::vector<std::byte> weights = halves(graph::byte_size(size.weights, {size.n, size.k}));
  const PackedWeight* packed = program.packed(b, 0);
  const std::uint64_t bytes = packed == nullptr ? weights.size() : packed->bytes;
  require_room(*budget, bytes, "the matrix of a measurement");
  Memory memory = budget->allocate(bytes, QUERN_USAGE_WEIGHTS, "the matrix of a measurement");
  PackingRoom room(budget);
  if (packed == nullptr) memory.write(0, weights);
  else program.pack(b, 0, weights, memory.span(), room);
  room.wait();
  program.bind_constant(b, 0, memory.span());
  program.prepare();
  const std::vector<float> ones(static_cast<std::size_t>(size.m * size.k), 1.0f);
  program.write(a, 0, std::as_bytes(std::span(ones)));
  return best_seconds(program);
}

/// Runs `measure`; false if the device has no room for it, or has not the op.
template <class F>
bool fits(const F& measure) {
  try {
    measure();
    return true;
  } catch (const Error& error) {
    if (error.code() == QUERN_OUT_OF_MEMORY || error.code() == QUERN_HOST_OUT_OF_MEMORY || error.code() == QUERN_UNSUPPORTED) return false;
    throw;
  }
}

double bandwidth(const std::shared_ptr<MemoryBudget>& budget, const PeakConditions& conditions) {
  double best = 0;
  for (std::uint64_t bytes = std::max(conditions.weight_bytes, least_bytes); best == 0 && bytes >= least_bytes; bytes /= 2)
    fits([&] {
      const auto elements = static_cast<std::int64_t>(bytes / 8);
      best = 8.0 * static_cast<double>(elements) / copy_seconds(budget, elements);
    });
  constexpr std::int64_t row = 4096;
  const std::uint64_t bytes = std::clamp(conditions.weight_bytes, least_bytes, most_read);
  fits([&] {
    const Product one_row{1, static_cast<std::int64_t>(bytes / (2 * row)), row, QUERN_F16};
    best = std::max(best, static_cast<double>(bytes) / product_seconds(budget, one_row, conditions.conversions));
  });
  return best;
}

/// Products grow until one is long enough.
double multiply_adds(const std::shared_ptr<MemoryBudget>& budget, quern_dtype weights, std::uint32_t conversions) {
  double best = 0, seconds = 0;
  bool room = true;
  for (std::int64_t n = 256; n <= 8192 && seconds < long_enough && room; n *= 2)
    room = fits([&] {
      seconds = product_seconds(budget, {n, n, n, weights}, conversions);
      best = std::max(best, static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / seconds);
    });
  return best;
}

}  // namespace

DevicePeaks measure_device_peaks(const std::shared_ptr<loader::Device>& device, const PeakConditions& conditions) {
  const auto budget = std::make_shared<MemoryBudget>(device, conditions.limit);
  DevicePeaks peaks{bandwidth(budget, conditions), multiply_adds(budget, QUERN_F16, conditions.conversions)};
  if (conditions.weights != QUERN_F16)
    peaks.multiply_adds_per_second =
        std::max(peaks.multiply_adds_per_second, multiply_adds(budget, conditions.weights, conditions.conversions));
  return peaks;
}

}  // namespace quern::runtime
