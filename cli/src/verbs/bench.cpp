// quern bench MODEL: speed, and how much of the machine it uses. Exit 70 where a measurement contradicts itself.
#include "verbs.hpp"

#include "bench_report.hpp"
#include "engine.hpp"
#include "interrupt.hpp"
#include "numbers.hpp"
#include "progress.hpp"
#include "where.hpp"

#include "quern/base/files.hpp"

#include <algorithm>
#include <csignal>

namespace quern::cli {
namespace {

int on_repetition(void*, const char* phase, std::uint32_t repetition, double tokens_per_second) {
  write_error_line(std::string(phase) + " " + std::to_string(repetition) + ": " + fixed(tokens_per_second, 1) + " tokens/s");
  return 0;
}

/// Several benches: how far they are, and whether Ctrl-C has ended them.
struct ManyBenches {
  ManyBenches(std::uint64_t repetitions, bool quiet) : total(repetitions), bar("measuring", "speed", "repetitions", quiet) {}
  const std::uint64_t total;  // repetitions of a phase
  std::uint64_t done = 0;
  Progress bar;
  const InterruptGuard guard{nullptr};
};

int on_repetition_of_many(void* user, const char*, std::uint32_t, double) {
  ManyBenches& many = *static_cast<ManyBenches*>(user);
  many.bar.show(++many.done, many.total);
  return many.guard.interrupted();
}

/// Tokens of context that all of these need.
std::uint64_t context_of(const std::vector<BenchPlan>& plans) {
  std::uint64_t most = 0;
  for (const BenchPlan& plan : plans) {
    const quern_bench_options& o = plan.options;
    const std::uint64_t context = std::max<std::uint64_t>(o.prompt_tokens, 2) + o.decode_tokens;  // a decode begins behind two tokens
    if (o.depth > UINT64_MAX - context)
      throw Failure(exit_usage, "bench: --depth " + std::to_string(o.depth) + " is more than any context");
    most = std::max(most, context + o.depth);
  }
  return most;
}

/// Runs the plans of one number of threads on a model that is loaded for all of them. `many`: null for a single one. Ends early at Ctrl-C.
void measure_plans(const CommandLine& line, Settings settings, const std::vector<BenchPlan>& plans, ManyBenches* many,
                   std::vector<BenchRun>& runs) {
  if (plans.front().threads != 0) settings.threads = plans.front().threads;
  const Runtime runtime = open_runtime(settings);
  const ModelFlags& flags = line.bench.model;
  const std::optional<ScaledAdapter> scaled = adapter_of("bench", flags);
  const Model model =
      load_model(runtime.get(), {.path = flags.path,
                                 .context = context_of(plans),
                                 .sequences = std::ranges::max(plans, {}, [](const BenchPlan& p) { return p.options.batch; }).options.batch,
                                 .activations = flags.activations,
                                 .kv = flags.kv,
                                 .tokenizer_pre = flags.tokenizer_pre,
                                 .adapter = scaled,
                                 .progress = !line.quiet});
  const Adapter adapter = load_adapter(model.get(), scaled);
  const auto info = get<quern_model_info>(quern_model_get_info, static_cast<const quern_model*>(model.get()));
  const bool as_json = line.bench.format == BenchFormat::json;
  if (line.bench.explain && !as_json) write_error_page(plan_words(model.get()));
  const Json explained = line.bench.explain && as_json ? plan_json(model.get()) : Json();
  for (const BenchPlan& plan : plans) {
    BenchRun run{{flags.path, info.backend, info.device, info.kernels}, plan.options, {}, explained};
    run.options.progress = many != nullptr ? on_repetition_of_many : line.quiet ? nullptr : on_repetition;
    run.options.progress_user = many;
    run.options.adapter = adapter.get();
    run.options.adapter_scale = scaled ? scaled->scale : 0;
    run.result.struct_size = sizeof run.result;
    if (many != nullptr && many->guard.interrupted()) return;  // while the model was loaded
    const quern_status status = quern_bench(model.get(), &run.options, &run.result);
    erase_progress();
    if (status == QUERN_CANCELLED) return;
    check(status);
    runs.push_back(std::move(run));
  }
}

void print_benches(const std::vector<BenchRun>& runs, BenchFormat format) {
  if (format == BenchFormat::json) write_json(bench_runs_json(runs));
  else if (format == BenchFormat::markdown) write_out(bench_markdown(runs));
  else if (format == BenchFormat::csv) write_out(bench_csv(runs));
  else if (format == BenchFormat::page && runs.size() == 1) write_out(bench_page(runs.front()));
  else write_out(bench_table(runs));
}

void check_plot(const base::FileProblem& problem) {
  if (problem) throw Failure(exit_refused, "the plot cannot be written: " + problem.text);
}

}  // namespace

int bench_verb(const CommandLine& line, const Settings& settings) {
  const BenchFlags& flags = line.bench;
  const std::vector<BenchPlan> plans = bench_plans(flags.lists);
  base::NewFile plot;  // what is wrong with its place is said before the minutes of a bench
  if (flags.plot_file) check_plot(base::NewFile::create(*flags.plot_file, plot));
  std::optional<ManyBenches> many;
  if (plans.size() > 1) many.emplace(plans.size() * 2 * std::uint64_t{flags.lists.repetitions}, line.quiet);
  const auto interrupted = [&] { return many && many->guard.interrupted(); };
  std::vector<BenchRun> runs;
  for (std::size_t from = 0; from < plans.size() && !interrupted();) {
    const auto end = std::find_if(plans.begin() + static_cast<std::ptrdiff_t>(from), plans.end(),
                                  [&](const BenchPlan& p) { return p.threads != plans[from].threads; });
    measure_plans(line, settings, {plans.begin() + static_cast<std::ptrdiff_t>(from), end}, many ? &*many : nullptr, runs);
    from = static_cast<std::size_t>(end - plans.begin());
  }
  const bool ended_early = interrupted() && runs.size() < plans.size();
  if (!ended_early || !runs.empty()) print_benches(runs, flags.format);
  if (flags.plot_file && !runs.empty()) {
    check_plot(plot.append(bench_plot(runs)));
    check_plot(plot.commit());
  }
  if (ended_early) {
    write_error_line("quern: stopped; " + std::to_string(runs.size()) + " of " + std::to_string(plans.size()) + " rows were measured");
    many.reset();
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  const auto invalid = std::ranges::count_if(runs, [](const BenchRun& run) { return run.result.valid == 0; });
  if (invalid == 0) return exit_ok;
  throw Failure(exit_bug,
                (runs.size() == 1 ? std::string("bench") : "bench: " + std::to_string(invalid) + " of " + std::to_string(runs.size())) +
                    ": more than 105 % of the measured bandwidth or arithmetic peak, twice; the numbers are not to be trusted (is the "
                    "machine busy?)");
}

}  // namespace quern::cli
