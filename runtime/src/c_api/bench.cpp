// quern_bench: the speed of a model through the same calls that an application makes, against what the machine can do.
#include "boundary.hpp"
#include "handles.hpp"

#include "../device_peaks.hpp"
#include "../machine_peaks.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace quern;
using namespace quern::c_api;

namespace {

constexpr double most_believable_share = 1.05;

struct Session {
  quern_session* handle = nullptr;
  ~Session() { quern_session_release(handle); }
};

void check(quern_status status) {
  if (status != QUERN_OK) throw Error(status, quern_last_error());
}

/// Ids that a model could have been given: spread over the vocabulary, the same in every run.
std::vector<std::int32_t> some_tokens(std::uint64_t count, std::uint32_t vocabulary, std::uint32_t first) {
  std::vector<std::int32_t> ids(count);
  std::uint64_t state = 0x9e3779b97f4a7c15ull * (first + 1);
  for (std::int32_t& id : ids) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    id = static_cast<std::int32_t>((state >> 33) % vocabulary);
  }
  return ids;
}

quern_bench_speed speed_of(const std::vector<double>& values) {
  quern_bench_speed speed{};
  const double count = static_cast<double>(values.size());
  speed.tokens_per_second = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double v : values) squares += (v - speed.tokens_per_second) * (v - speed.tokens_per_second);
  speed.deviation = values.size() > 1 ? std::sqrt(squares / (count - 1)) : 0;
  speed.best = *std::ranges::max_element(values);
  speed.worst = *std::ranges::min_element(values);
  return speed;
}

/// What the first device can do: the processor by loops of ours, another device by its own ops.
runtime::DevicePeaks measure_peaks(const runtime::Model& m, std::uint32_t threads) {
  const runtime::MemoryBudget& first = *m.devices()[0];
  if (first.host_memory()) {
    // Half of what is left at most: the buffer must not cost a container its process.
    const std::uint64_t most = runtime::room_on(first).free.value_or(UINT64_MAX) / 2;
    runtime::ReadBandwidth reader(std::min(m.weight_bytes(), most), threads);
    using enum runtime::Arithmetic;
    return {reader.measure(6), runtime::multiply_add_peak(threads, m.integer_products()           ? int8
                                                                   : m.main_dtype() == QUERN_BF16 ? bf16
                                                                                                  : f32)};
  }
  const quern_dtype weights = m.main_dtype() == QUERN_DTYPE_NONE ? QUERN_F16 : m.main_dtype();
  runtime::PeakConditions conditions{m.weight_bytes(), weights, m.conversions(), 0};
  if (first.limit() != 0) conditions.limit = std::max<std::uint64_t>(1, first.limit() - std::min(first.limit(), first.statistics().in_use));
  return runtime::measure_device_peaks(first.device(), conditions);
}

/// 0 where there is no peak: what no share can be told of.
double share(double rate, double peak) { return peak > 0 ? rate / peak : 0; }

struct Measured {
  quern_bench_speed prefill, decode;
};

Measured measure(quern_session* session, const quern_bench_options& o, std::uint32_t vocabulary) {
  std::vector<double> prefills, decodes;
  std::vector<quern_request> requests(o.batch);
  std::vector<std::vector<std::int32_t>> prompts(o.batch);
  const auto run = [&](std::uint64_t max_tokens, quern_answer_info* first) {
    for (std::uint32_t b = 0; b < o.batch; ++b) {
      requests[b] = {};
      requests[b].struct_size = sizeof(quern_request);
      requests[b].prompt = prompts[b].data();
      requests[b].prompt_count = prompts[b].size();
      requests[b].sequence = b;
      requests[b].flags = QUERN_REQUEST_APPEND;
      requests[b].max_tokens = max_tokens;
      requests[b].ignore_end = 1;
    }
    quern_generation* generation = nullptr;
    check(quern_generate(session, requests.data(), o.batch, &generation));
    *first = {};
    first->struct_size = sizeof(*first);
    check(quern_generation_answer(generation, 0, first));
    quern_generation_release(generation);
  };
  const auto fill_depth = [&] {
    for (std::uint32_t b = 0; b < o.batch; ++b) check(quern_sequence_truncate(session, b, 0));
    if (o.depth == 0) return;
    for (std::uint32_t b = 0; b < o.batch; ++b) prompts[b] = some_tokens(o.depth, vocabulary, b);
    quern_answer_info ignored;
    run(1, &ignored);
  };
  const auto report = [&](const char* phase, std::uint32_t repetition, double value) {
    if (repetition > 0 && o.progress != nullptr && call_back(o.progress, o.progress_user, phase, repetition, value) != 0) {
      throw Error(QUERN_CANCELLED, "the bench was cancelled");
    }
  };
  for (std::uint32_t r = 0; r <= o.repetitions; ++r) {  // the first is not counted
    fill_depth();
    for (std::uint32_t b = 0; b < o.batch; ++b) prompts[b] = some_tokens(o.prompt_tokens, vocabulary, 1000 + r * o.batch + b);
    quern_answer_info answer;
    run(1, &answer);
    const double prefill = static_cast<double>(o.prompt_tokens) * o.batch / answer.prompt_seconds;
    report("prefill", r, prefill);
    if (r > 0) prefills.push_back(prefill);

    fill_depth();
    for (std::uint32_t b = 0; b < o.batch; ++b) prompts[b] = some_tokens(1, vocabulary, 2000 + b);
    run(std::uint64_t{o.decode_tokens} + 1, &answer);
    const double decode = static_cast<double>(o.decode_tokens) * o.batch / answer.decode_seconds;
    report("decode", r, decode);
    if (r > 0) decodes.push_back(decode);
  }
  return {speed_of(prefills), speed_of(decodes)};
}

}  // namespace

extern "C" quern_status quern_bench(quern_model* model, const quern_bench_options* options, quern_bench_result* out) {
  return guarded([&] {
    require(model, "model");
    require(out, "out");
    auto o = whole(options, "quern_bench_options");
    if (o.prompt_tokens == 0) o.prompt_tokens = 512;
    if (o.decode_tokens == 0) o.decode_tokens = 128;
    if (o.repetitions == 0) o.repetitions = 5;
    if (o.batch == 0) o.batch = 1;
    const Owner::Use use(model);  // the callback may release it
    const runtime::Model& m = *model->model;
    require_driver_stack(m.devices());
    const std::uint64_t longest = o.depth + std::max<std::uint64_t>(o.prompt_tokens + 1ull, o.decode_tokens + 2ull);
    if (longest > m.context()) {
      throw Error(QUERN_CONTEXT_FULL, concat("the bench needs ", longest, " positions but the model was loaded for ", m.context()));
    }
    quern_session_options session_options{};
    session_options.struct_size = sizeof(session_options);
    session_options.sequences = o.batch;
    Session session;
    check(quern_session_create(model, &session_options, &session.handle));
    for (std::uint32_t b = 0; b < o.batch; ++b) check(quern_session_use_adapter(session.handle, b, o.adapter, o.adapter_scale));

    quern_bench_result result{};
    result.threads = m.runtime()->threads();
    const runtime::Engine& engine = *session.handle->engine;
    const double middle = static_cast<double>(o.depth) + o.decode_tokens / 2.0;
    const std::uint64_t kv_position = engine.kv_bytes() / (std::uint64_t{m.sequences()} * ((m.context() + 63) / 64) * 64);
    result.bytes_per_step = m.step_weight_bytes() + static_cast<std::uint64_t>(middle * static_cast<double>(kv_position)) * o.batch;
    const models::Hyperparameters& shape = m.shape();
    const double attention = 2.0 * shape.layers * shape.heads * shape.head_size * (static_cast<double>(o.depth) + o.prompt_tokens / 2.0);
    std::uint64_t matrices = 0;  // the head runs for the last position only
    for (const auto& weight : m.step().weights) {
      const graph::Value& value = m.step().graph.value(weight.value);
      const bool table = value.shape.size() < 2 || value.shape[0].size == shape.vocabulary;
      if (!table) matrices += static_cast<std::uint64_t>(value.shape[0].size) * static_cast<std::uint64_t>(value.shape[1].size);
    }
    result.multiply_adds_per_token = matrices + static_cast<std::uint64_t>(attention);

    for (int attempt = 0; attempt < 2 && result.valid == 0; ++attempt) {
      const runtime::DevicePeaks before = measure_peaks(m, result.threads);
      const Measured measured = measure(session.handle, o, shape.vocabulary);
      const runtime::DevicePeaks after = measure_peaks(m, result.threads);
      result.prefill = measured.prefill;
      result.decode = measured.decode;
      result.read_bytes_per_second = std::max(before.bytes_per_second, after.bytes_per_second);
      result.multiply_adds_per_second = std::max(before.multiply_adds_per_second, after.multiply_adds_per_second);
      result.decode_bandwidth_share =
          share(static_cast<double>(result.bytes_per_step) * measured.decode.tokens_per_second / o.batch, result.read_bytes_per_second);
      result.prefill_peak_share =
          share(static_cast<double>(result.multiply_adds_per_token) * measured.prefill.tokens_per_second, result.multiply_adds_per_second);
      // A device's own product is measured as a plan of one node; where whole prefills beat it, it is not the device's peak.
      if (!m.devices()[0]->host_memory() && result.prefill_peak_share > most_believable_share)
        result.multiply_adds_per_second = result.prefill_peak_share = 0;
      result.valid = result.decode_bandwidth_share <= most_believable_share && result.prefill_peak_share <= most_believable_share ? 1 : 0;
    }
    result.peak_resident_bytes = runtime::peak_resident_bytes();
    for (const auto& budget : m.devices()) result.peak_device_bytes += budget->statistics().peak;
    give(out, result, "quern_bench_result");
  });
}
