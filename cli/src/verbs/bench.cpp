// quern bench MODEL: speed, and how much of the machine it uses. Exit 70 where the measurement contradicts itself.
#include "verbs.hpp"

#include "engine.hpp"
#include "numbers.hpp"
#include "shapes.hpp"

#include <algorithm>

namespace quern::cli {
namespace {

int on_repetition(void*, const char* phase, std::uint32_t repetition, double tokens_per_second) {
  write_error_line(std::string(phase) + " " + std::to_string(repetition) + ": " + fixed(tokens_per_second, 1) +
                   " tokens/s");
  return 0;
}

std::string speed_line(const std::string& name, std::uint32_t tokens, const quern_bench_speed& speed,
                       const std::string& share) {
  return name + fixed(speed.tokens_per_second, 2) + " tokens/s  +- " + fixed(speed.deviation, 2) + "  (" +
         counted(tokens, "token") + ", best " + fixed(speed.best, 2) + ")  " + share + "\n";
}

std::string of_peak(double share, double peak, const char* unit) {
  if (peak <= 0) return "no peak: the device has no room or no op to measure it, or is slower at a product alone";
  return fixed(share * 100, 1) + " % of " + fixed(peak / 1e9, 1) + " " + unit + " measured";
}

std::string page(const RanOn& where, const quern_bench_options& options, const quern_bench_result& result) {
  return where.backend + " on " + where.device + ", kernels " + where.kernels + ", " +
         counted(result.threads, "thread") + ", batch " + std::to_string(options.batch) + ", depth " +
         std::to_string(options.depth) + "\n" +
         speed_line("prefill  ", options.prompt_tokens, result.prefill,
                    of_peak(result.prefill_peak_share, result.multiply_adds_per_second, "G multiply-adds/s")) +
         speed_line("decode   ", options.decode_tokens, result.decode,
                    of_peak(result.decode_bandwidth_share, result.read_bytes_per_second, "GB/s")) +
         "memory   peak " + in_mib(result.peak_resident_bytes) + " resident, " + in_mib(result.peak_device_bytes) +
         " allocated on devices\n" + (result.valid != 0 ? "" : "not valid: a share is above 105 %\n");
}

}  // namespace

int bench_verb(const CommandLine& line, const Settings& settings) {
  const BenchFlags& flags = line.bench;
  const Runtime runtime = open_runtime(settings);
  const std::uint64_t context = std::max<std::uint64_t>(flags.prompt_tokens, 2) + flags.decode_tokens;  // a decode begins behind two tokens
  if (flags.depth > UINT64_MAX - context)
    throw Failure(exit_usage, "bench: --depth " + std::to_string(flags.depth) + " is more than any context");
  const Model model = load_model(runtime.get(), {.path = flags.model.path,
                                                 .context = context + flags.depth,
                                                 .sequences = flags.batch,
                                                 .activations = flags.model.activations,
                                                 .kv = flags.model.kv,
                                                 .tokenizer_pre = flags.model.tokenizer_pre,
                                                 .progress = !line.quiet});
  quern_bench_options options{};
  options.struct_size = sizeof options;
  options.prompt_tokens = flags.prompt_tokens;
  options.decode_tokens = flags.decode_tokens;
  options.repetitions = flags.repetitions;
  options.batch = flags.batch;
  options.depth = flags.depth;
  options.progress = line.quiet ? nullptr : on_repetition;
  quern_bench_result result{};
  result.struct_size = sizeof result;
  check(quern_bench(model.get(), &options, &result));

  const auto info = get<quern_model_info>(quern_model_get_info, static_cast<const quern_model*>(model.get()));
  const RanOn where{flags.model.path, info.backend, info.device, info.kernels};
  if (line.json)
    write_json(bench_json(where, options, result));
  else
    write_out(page(where, options, result));
  if (result.valid != 0) return exit_ok;
  throw Failure(exit_bug, "bench: more than 105 % of the measured bandwidth or arithmetic peak, twice; the numbers are "
                          "not to be trusted (is the machine busy?)");
}

}  // namespace quern::cli
