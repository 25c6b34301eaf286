#include "shapes.hpp"

#include <cmath>

namespace quern::cli {
namespace {

void put_where(Json& json, const RanOn& where) {
  json["model"] = where.model;
  json["backend"] = where.backend;
  json["device"] = where.device;
  json["kernels"] = where.kernels;
}

Json speed_json(std::uint32_t tokens, const quern_bench_speed& speed) {
  return {{"tokens", tokens},
          {"tokens_per_second", speed.tokens_per_second},
          {"deviation", speed.deviation},
          {"best", speed.best},
          {"worst", speed.worst}};
}

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

Json size_json(std::uint64_t bytes) { return {{"bytes", bytes}, {"mib", mib(bytes)}}; }

/// JSON has no infinity and no NaN.
Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace

double rate(std::uint64_t tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }

void put_logprob(Json& json, float logprob, const std::vector<Alternative>& best) {
  json["logprob"] = finite_or_null(logprob);
  json["best"] = Json::array();
  for (const Alternative& one : best) json["best"].push_back({{"id", one.id}, {"logprob", finite_or_null(one.logprob)}});
}

Json run_json(const RunReport& report) {
  Json json;
  json["text"] = std::string(report.text);
  json["ids"] = report.ids;
  json["prompt_ids"] = report.prompt_ids;
  json["finish"] = report.finish;
  put_where(json, report.where);
  json["seed"] = report.seed;
  const std::uint64_t computed = report.prompt_ids.size() - report.reused_tokens;
  // The first token comes out of the prompt's last step; the others took a decode step each.
  const std::uint64_t decoded = report.ids.empty() ? 0 : report.ids.size() - 1;
  json["timings"] = {{"load_seconds", report.load_seconds},
                     {"prompt_tokens", report.prompt_ids.size()},
                     {"reused_tokens", report.reused_tokens},
                     {"prompt_seconds", report.prompt_seconds},
                     {"prompt_tokens_per_second", rate(computed, report.prompt_seconds)},
                     {"generated_tokens", report.ids.size()},
                     {"decode_seconds", report.decode_seconds},
                     {"decode_tokens_per_second", rate(decoded, report.decode_seconds)}};
  if (!report.logprobs.empty()) {
    Json list = Json::array();
    for (std::size_t at = 0; at < report.logprobs.size() && at < report.ids.size(); ++at) {
      Json one{{"id", report.ids[at]}};
      put_logprob(one, report.logprobs[at], at < report.best.size() ? report.best[at] : std::vector<Alternative>());
      list.push_back(std::move(one));
    }
    json["logprobs"] = std::move(list);
  }
  json["statistics"] = report.statistics;
  if (!report.plan.is_null()) json["plan"] = report.plan;
  return json;
}

Json tokenize_json(Ids ids, const std::string* rendered) {
  Json json;
  json["ids"] = ids;
  if (rendered != nullptr) json["text"] = *rendered;
  return json;
}

Json eval_json(const RanOn& where, const quern_evaluation_info& info, bool positions) {
  Json json;
  json["tokens"] = info.count;
  const bool predicted = info.count > 1;
  const double mean = predicted ? info.nll_sum / static_cast<double>(info.count - 1) : 0;
  json["nll_mean"] = predicted ? finite_or_null(mean) : Json(nullptr);
  json["perplexity"] = predicted ? finite_or_null(std::exp(mean)) : Json(nullptr);
  put_where(json, where);
  json["timings"] = {{"seconds", info.seconds}, {"tokens_per_second", rate(info.count, info.seconds)}};
  if (positions) {
    Json list = Json::array();
    for (std::uint64_t at = 0; at < info.count; ++at)
      list.push_back({{"argmax", info.argmax[at]},
                      {"margin", finite_or_null(info.margin[at])},
                      {"nll", at + 1 < info.count ? finite_or_null(info.nll[at]) : Json(nullptr)}});
    json["positions"] = std::move(list);
  }
  return json;
}

Json bench_json(const RanOn& where, const quern_bench_options& options, const quern_bench_result& result) {
  Json json;
  put_where(json, where);
  json["threads"] = result.threads;
  json["batch"] = options.batch;
  json["depth"] = options.depth;
  json["repetitions"] = options.repetitions;
  json["prefill"] = speed_json(options.prompt_tokens, result.prefill);
  json["prefill"]["peak_share"] = finite_or_null(result.prefill_peak_share);
  json["decode"] = speed_json(options.decode_tokens, result.decode);
  json["decode"]["bandwidth_share"] = finite_or_null(result.decode_bandwidth_share);
  json["read_bytes_per_second"] = finite_or_null(result.read_bytes_per_second);
  json["multiply_adds_per_second"] = finite_or_null(result.multiply_adds_per_second);
  json["bytes_per_step"] = result.bytes_per_step;
  json["multiply_adds_per_token"] = result.multiply_adds_per_token;
  json["peak_memory"] = {{"resident_bytes", result.peak_resident_bytes}, {"device_bytes", result.peak_device_bytes}};
  json["valid"] = result.valid != 0;
  return json;
}

Json estimate_json(const quern_estimate_info& info, const std::vector<DtypeBytes>& dtypes) {
  Json json;
  json["parameters"] = info.parameters;
  json["context"] = info.context;
  Json weights = Json::object();
  for (const DtypeBytes& dtype : dtypes) weights[dtype.name] = dtype.available ? size_json(dtype.bytes) : Json(nullptr);
  json["weights"] = std::move(weights);
  json["kv"] = {{"f16", size_json(info.kv_bytes_f16)}, {"f32", size_json(info.kv_bytes_f32)}};
  const bool known = info.scratch_known != 0;
  json["weights_bytes"] = info.weights_bytes;
  json["kv_bytes"] = info.kv_bytes;
  json["scratch_bytes"] = known ? Json(info.scratch_bytes) : Json(nullptr);
  json["overhead_bytes"] = known ? Json(info.overhead_bytes) : Json(nullptr);
  json["adapter_bytes"] = known ? Json(info.adapter_bytes) : Json(nullptr);
  json["total_bytes"] = info.total_bytes;
  json["available_bytes"] = info.available_bytes != 0 ? Json(info.available_bytes) : Json(nullptr);
  json["fits"] = info.available_bytes != 0 ? Json(info.fits != 0) : Json(nullptr);
  return json;
}

}  // namespace quern::cli
