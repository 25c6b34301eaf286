// Attention of a whole prompt beside what it replaces, through one plugin: the op `attention` over a paged cache, and product, softmax and product.
//
//   bench_attention LABEL [LENGTH ...]     cuda:0; 1024 2048 4096 8192 16384 tokens
//
// For each length the milliseconds of both (submit to fence, medians of five), the scratch of both, and how far their outputs are apart. 8 heads of
// 128, causal; f16 keys and values, f32 queries and outputs for attention, as a model's layer has them; f16 queries, scores and probabilities without gaps for the
// composition, so that nothing but the three ops is timed. Rows at the start, in the middle and at the end are judged as the suite judges attention.
// Exit: 0 all rows are within the bound; 1 one is not, or a plan was refused; 2 usage; 3 there is no such device.
#include "case_table/case_table.hpp"
#include "cli/output.hpp"
#include "device_run/flat_graph.hpp"
#include "device_run/prepared.hpp"
#include "graphs/graph_builder.hpp"
#include "judge/judge.hpp"
#include "ops/paged_batch.hpp"
#include "worker/loader_settings.hpp"
#include "device_run/status_words.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

using namespace quern::conformance;

namespace {

constexpr std::int64_t heads = 8, d = 128, page = 64, judged_rows = 8;
constexpr double scale = 0.0883883461356163;  // 128^-1/2 in f32
constexpr int samples = 5;

struct Timed {
  double milliseconds = 0;
  std::uint64_t scratch = 0;
  std::string kernels;
  Tensor y;
};

/// Runs `c`, a graph with one output; `data` in the order of its inputs.
Timed timed(const quern::loader::Device& device, const Case& c, const std::vector<Tensor>& data) {
  const WholeGraph& graph = *c.graph;
  Queue queue(device);
  FlatGraph flat(graph, Numerics::fast);
  std::map<std::uint32_t, Region*> bindings;
  std::vector<std::unique_ptr<Region>> regions;
  Timed result;
  Region* output = nullptr;
  for (const auto& [value, id] : flat.bound()) {
    const GraphValue& v = graph.values[static_cast<std::size_t>(value)];
    regions.push_back(std::make_unique<Region>(device, queue, packed_bytes(v.spec.dtype, v.spec.dims), 0, false));
    bindings[id] = regions.back().get();
    if (v.input != no_value) {
      regions.back()->write(data[static_cast<std::size_t>(v.input)].bytes());
    } else {
      output = regions.back().get();
      result.y = Tensor(v.spec.dtype, v.spec.dims);
    }
  }
  Prepared plan(device, queue, flat.graph(), bindings);
  std::array<double, samples> times{};
  for (int i = -2; i < samples; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const quern_run_status status = plan.run(600);
    if (status.code != QUERN_OK) throw AbiFailure(status.code, "a run ended with " + status_words(status.code));
    if (i >= 0)
      times[static_cast<std::size_t>(i)] = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }
  std::ranges::sort(times);
  result.milliseconds = times[samples / 2];
  result.scratch = plan.scratch_bytes();
  result.kernels = plan.kernels();
  output->read_to(result.y.bytes());
  return result;
}

/// Queries, keys and values of one length, as both want them.
class Prompt {
 public:
  explicit Prompt(std::int64_t length)
      : length_(length),
        batch_{{{0, length}}, page},
        table_(batch_.table()),
        q_(QUERN_F32, {length, heads, d}),
        q_of_heads_(QUERN_F16, {heads, length, d}),
        k_of_heads_(QUERN_F16, {heads, length, d}),
        v_of_heads_(QUERN_F16, {heads, length, d}),
        k_(QUERN_F16, cache_dims()),
        v_(QUERN_F16, cache_dims()) {
    const CounterRandom random = CounterRandom::of("attention of a prompt");
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t t = 0; t < length; ++t)
        for (std::int64_t i = 0; i < d; ++i) {
          const std::int64_t at = (h * length + t) * d + i, slot = cache_slot(batch_, table_, 0, t);
          const std::int64_t in_cache = ((slot / page * heads + h) * page + slot % page) * d + i;
          const auto x = [&](std::uint64_t stream) { return random.stream(stream).gaussian(static_cast<std::uint64_t>(at)); };
          q_of_heads_.set(at, x(0));
          k_of_heads_.set(at, x(1));
          v_of_heads_.set(at, x(2));
          q_.set((t * heads + h) * d + i, q_of_heads_.at(at));
          k_.set(in_cache, k_of_heads_.at(at));
          v_.set(in_cache, v_of_heads_.at(at));
        }
  }

  Timed attention(const quern::loader::Device& device) const {
    GraphBuilder graph(length_);
    graph.allow(QUERN_CONVERT_F16 | QUERN_CONVERT_BF16);
    const auto width = static_cast<std::int64_t>(table_.size());
    const int q = graph.input("q", input(QUERN_F32, q_.dims())), k = graph.input("k", input(QUERN_F16, k_.dims())),
              v = graph.input("v", input(QUERN_F16, v_.dims()));
    const int table = graph.input("table", input(QUERN_I32, {1, width})), slot = graph.input("slot", input(QUERN_I32, {length_})),
              position = graph.input("position", input(QUERN_I32, {length_}));
    graph.output(graph.node(QUERN_OP_ATTENTION, "attention", {q, k, v, table, slot, position}, q_.dims(), {{QUERN_KEY_SCALE, scale}}));
    return timed(device, graph.finish(Profile::huge, level_inference),
                 {q_, k_, v_, table_tensor(), Tensor(QUERN_I32, {length_}), positions(0, length_)});
  }

  Timed composition(const quern::loader::Device& device) const {
    GraphBuilder graph(length_);
    const Dims by_heads{heads, length_, d}, square{heads, length_, length_};
    graph.allow(QUERN_CONVERT_F16 | QUERN_CONVERT_BF16);
    const int q = graph.input("q", input(QUERN_F16, by_heads)), k = graph.input("k", input(QUERN_F16, by_heads)),
              v = graph.input("v", input(QUERN_F16, by_heads));
    const int scores = graph.node(QUERN_OP_MATMUL, "scores", {q, k}, square, {}, QUERN_F16);
    const int shares =
        graph.node(QUERN_OP_SOFTMAX, "shares", {scores}, square, {{QUERN_KEY_SCALE, scale}, {QUERN_KEY_CAUSAL, 1}}, QUERN_F16);
    graph.output(graph.node(QUERN_OP_MATMUL, "sums", {shares, v}, by_heads, {{QUERN_KEY_TRANSPOSE_B, 1}}));
    return timed(device, graph.finish(Profile::huge, level_inference), {q_of_heads_, k_of_heads_, v_of_heads_});
  }

  /// What the suite says of judged_rows rows of attention's output from `first` on.
  Verdict judge_rows(const Case& any_attention, const Tensor& y, std::int64_t first) const {
    const std::int64_t rows = std::min(judged_rows, length_ - first), row = heads * d;
    Case c;
    c.op = QUERN_OP_ATTENTION;
    c.fast_conversions = QUERN_CONVERT_F16 | QUERN_CONVERT_BF16;
    c.attributes = {{QUERN_KEY_SCALE, scale}};
    c.outputs = {output(QUERN_F32, {rows, heads, d})};
    std::vector<Tensor> inputs = {
        Tensor(QUERN_F32, {rows, heads, d}), k_, v_, table_tensor(), Tensor(QUERN_I32, {rows}), positions(first, rows)};
    for (const Tensor& t : inputs) c.inputs.push_back(input(t.dtype(), t.dims()));
    Tensor found(QUERN_F32, {rows, heads, d});
    for (std::int64_t i = 0; i < rows * row; ++i) {
      inputs[0].set(i, q_.at(first * row + i));
      found.set(i, y.at(first * row + i));
    }
    const std::vector<Tensor> states(6);
    Expected expected;
    expected.outputs.resize(1);
    any_attention.reference({c, inputs, states}, expected);
    return judge(expected.outputs[0], found, Numerics::fast);
  }

 private:
  Dims cache_dims() const { return {batch_.pages(), heads, page, d}; }
  Tensor table_tensor() const {
    Tensor t(QUERN_I32, {1, static_cast<std::int64_t>(table_.size())});
    for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, static_cast<double>(table_[static_cast<std::size_t>(i)]));
    return t;
  }
  static Tensor positions(std::int64_t first, std::int64_t rows) {
    Tensor t(QUERN_I32, {rows});
    for (std::int64_t i = 0; i < rows; ++i) t.set(i, static_cast<double>(first + i));
    return t;
  }

  std::int64_t length_;
  PagedBatch batch_;
  std::vector<std::int64_t> table_;
  Tensor q_, q_of_heads_, k_of_heads_, v_of_heads_, k_, v_;
};

/// The largest difference of [rows, heads, d] and [heads, rows, d].
double apart(const Tensor& y, const Tensor& of_heads, std::int64_t length) {
  double most = 0;
  for (std::int64_t i = 0; i < y.count(); ++i) {
    const double other = of_heads.at((i / d % heads * length + i / d / heads) * d + i % d);
    most = std::max(most, std::fabs(y.at(i) - other));
  }
  return most;
}

bool compare(const quern::loader::Device& device, const Case& any_attention, std::int64_t length) {
  const Prompt prompt(length);
  const Timed flash = prompt.attention(device), unfused = prompt.composition(device);
  Verdict verdict{Status::pass, {}, 0, 0, {}};
  for (const std::int64_t first : {std::int64_t{0}, length / 2, std::max<std::int64_t>(0, length - judged_rows)})
    verdict.merge(prompt.judge_rows(any_attention, flash.y, first));
  char figures[400];
  std::snprintf(
      figures, sizeof figures,
      "%6lld tokens: %9.3f ms (%s, scratch %.1f MiB), composition %9.3f ms (%s, scratch %.1f MiB), %.2f times; apart at most %.2g; %s, worst %.2f of the bound ",
      static_cast<long long>(length), flash.milliseconds, flash.kernels.c_str(), static_cast<double>(flash.scratch) / 0x1p20,
      unfused.milliseconds, unfused.kernels.c_str(), static_cast<double>(unfused.scratch) / 0x1p20,
      unfused.milliseconds / flash.milliseconds, apart(flash.y, unfused.y, length), status_name(verdict.status), verdict.worst);
  to_output() << figures << verdict.text << std::endl;
  return verdict.status == Status::pass;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::int64_t> lengths;
  for (int i = 2; i < argc; ++i) lengths.push_back(std::atoll(argv[i]));
  if (argc < 2 || std::ranges::any_of(lengths, [](std::int64_t n) { return n < 1 || n > 1 << 20; })) {
    to_messages() << "usage: bench_attention LABEL [LENGTH ...], as in: bench_attention cuda:0 4096 16384\n";
    return 2;
  }
  if (lengths.empty()) lengths = {1024, 2048, 4096, 8192, 16384};
  try {
    Selection selection;
    selection.device = argv[1];
    quern::loader::Loader found(loader_settings(selection));
    const Case* any_attention = nullptr;
    const CaseTable table;
    for (const Case& c : table.all())
      if (c.op == QUERN_OP_ATTENTION && !c.graph && !c.script && c.group == "attention") any_attention = &c;
    for (const quern::loader::Candidate& c : found.require())
      if (c.label == argv[1]) {
        const std::shared_ptr<quern::loader::Device> device = found.open(c);
        bool right = true;
        for (const std::int64_t length : lengths) right = compare(*device, *any_attention, length) && right;
        return right ? 0 : 1;
      }
    to_messages() << "bench_attention: there is no device " << argv[1] << "\n";
    return 3;
  } catch (const AbiFailure& failure) {
    to_messages() << "bench_attention: " << failure.what() << "\n";
    return 1;
  } catch (const std::exception& failure) {
    to_messages() << "bench_attention: " << failure.what() << "\n";
    return 3;
  }
}
