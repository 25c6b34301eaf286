// quern estimate: the memory that a model needs, from its file or from shape numbers.
#include "verbs.hpp"

#include "engine.hpp"
#include "model_path.hpp"
#include "numbers.hpp"
#include "shapes.hpp"
#include "training_settings.hpp"

namespace quern::cli {
namespace {

Estimate estimate(const EstimateFlags& flags, const Settings& settings) {
  quern_estimate_options options{};
  options.struct_size = sizeof options;
  options.context = flags.context;
  options.sequences = flags.sequences;
  options.activations = flags.model.activations;
  options.kv = flags.model.kv;
  const std::optional<ScaledAdapter> named = adapter_of("estimate", flags.model);
  const char* adapter = named ? named->path.c_str() : nullptr;
  options.adapters = &adapter;
  options.adapter_count = named ? 1 : 0;
  quern_estimate* made = nullptr;
  if (!flags.model.path.empty()) {
    const Runtime runtime = open_runtime(settings);
    check(quern_estimate_file(runtime.get(), flags.model.path.c_str(), &options, &made), flags.model.path);
  } else {
    quern_shape shape = flags.shape;
    shape.struct_size = sizeof shape;
    check(quern_estimate_shape(&shape, &options, &made));
  }
  return Estimate(made);
}

std::vector<DtypeBytes> dtypes_of(const quern_estimate* made, std::uint32_t count) {
  std::vector<DtypeBytes> list;
  for (std::uint32_t at = 0; at < count; ++at) {
    const char* name = nullptr;
    std::uint64_t bytes = 0;
    int available = 0;
    check(quern_estimate_dtype(made, at, &name, &bytes, &available));
    list.push_back({name, bytes, available != 0});
  }
  return list;
}

std::string row(std::string name, const std::string& value) {
  name.resize(std::max<std::size_t>(name.size() + 1, 24), ' ');
  return name + value + "\n";
}

std::string page(const quern_estimate_info& info, const std::vector<DtypeBytes>& dtypes, bool of_file) {
  std::string out = row("parameters", with_commas(info.parameters));
  out += "\nweights, if all were\n";
  for (const DtypeBytes& dtype : dtypes) out += row("  " + dtype.name, dtype.available ? byte_words(dtype.bytes) : "not with these rows");
  out += "\nkey/value cache, " + with_commas(info.context) + " tokens\n";
  out += row("  f16", byte_words(info.kv_bytes_f16)) + row("  f32", byte_words(info.kv_bytes_f32));
  if (!of_file) return out;
  out += "\nto run this file\n" + row("  weights", byte_words(info.weights_bytes)) + row("  cache", byte_words(info.kv_bytes));
  if (info.scratch_known != 0) out += row("  scratch", byte_words(info.scratch_bytes)) + row("  overhead", byte_words(info.overhead_bytes));
  if (info.adapter_bytes != 0) out += row("  adapter", byte_words(info.adapter_bytes));
  out += row("  total", byte_words(info.total_bytes));
  if (info.available_bytes != 0)
    out += row("  available", byte_words(info.available_bytes) + (info.fits != 0 ? ": fits" : ": does not fit"));
  return out;
}

int estimate_training(const CommandLine& line, const Settings& settings) {
  const OpenedTraining training = open_training(*line.estimate.train, line.estimate.overrides);
  const Runtime runtime = open_runtime(settings);
  check(quern_runtime_ready(runtime.get()));
  const std::string base =
      model_path(training.info.base_model, settings, {.pull = line.named.pull, .offer = !line.quiet, .quiet = line.quiet});
  quern_training_callbacks callbacks{};
  callbacks.struct_size = sizeof callbacks;
  callbacks.warning = [](void*, const char* sentence) { write_error_line(std::string("warning: ") + sentence); };
  const quern_training_callbacks* told = &callbacks;
  const Text text = make<Text>(quern_training_estimate_json, runtime.get(), training.get(), base.c_str(), told);
  const Json plan = Json::parse(view(text));
  if (line.json) write_json(plan);
  else write_out(plan_page(plan));
  return exit_ok;
}

}  // namespace

int estimate_verb(const CommandLine& line, const Settings& settings) {
  if (line.estimate.train) return estimate_training(line, settings);
  const Estimate made = estimate(line.estimate, settings);
  const quern_estimate* handle = made.get();
  const auto info = get<quern_estimate_info>(quern_estimate_get_info, handle);
  const auto dtypes = dtypes_of(handle, info.dtypes);
  if (line.json) write_json(estimate_json(info, dtypes));
  else write_out(page(info, dtypes, !line.estimate.model.path.empty()));
  return exit_ok;
}

}  // namespace quern::cli
