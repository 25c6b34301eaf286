// Runs a layer of each kind (conformance/graphs/layers/) once with several numbers of rows, between marks in the log of a driver that computes nothing.
//
//   layer_kernels LABEL [FAMILY ...]
//   layer_kernels --time RUNS [--widths HIDDEN,FFN,HEADS,KV_HEADS,HEAD[,EXPERTS,USED]] [--format FORMAT] LABEL [FAMILY ...]
//
// Its output goes to the file that the driver appends its launches to. It writes "mark FAMILY ROWS LAYERS" before each run and "end" behind it. Who
// reads the file (scripts/layer_kernels.py) takes the difference of two depths: what lies before and behind the layers does not count.
// With --time, on a device that computes: each step runs RUNS times, and "FAMILY ROWS LAYERS MICROSECONDS" is the median of them, the wait of the host
// included, which the difference of two depths is without. Values of up to 16 MiB then have the suite's contents, so that routers choose as in a model.
// Larger ones get none: their contents change no time. --widths puts other widths in place of the family's, --format (as in q6_k) another block format
// in place of the family's.
// Rows 1, 64 and 512 (timed also 2,048) are of one sequence, 8 and 32 of as many sequences; each graph has room for 512 rows (timed for 2,048), as a
// session's step. A llama comes in further numerics too, and in a format of quantised directories. Exit: 0; 2 usage;
// 3 there is no such device; 1 a run failed.
#include "cli/output.hpp"
#include "data/data_kind.hpp"
#include "device_run/flat_graph.hpp"
#include "device_run/prepared.hpp"
#include "device_run/status_words.hpp"
#include "device_run/weight_packing.hpp"
#include "graphs/layers/layer_step.hpp"
#include "worker/loader_settings.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <optional>
#include <ostream>
#include <ranges>
#include <span>

using namespace quern::conformance;

namespace {

constexpr std::int64_t most_counted = 512, most_timed = 2048;  // rows
constexpr int depths[] = {1, 3};                               // layers of a kind alternate by two
struct Rows {
  std::int64_t sequences;
  std::vector<std::int64_t> counts;
};
const Rows row_kinds[] = {{1, {1, 64, most_counted, most_timed}}, {8, {8}}, {32, {32}}};

/// A family in the numerics and under the demands of one kind of session, or with weights as a kind of directory has them.
struct Variant {
  const char* suffix;
  Numerics numerics;
  std::uint32_t determinism;
  std::optional<quern_dtype> format = std::nullopt;
};
constexpr Variant usual{"", Numerics::fast, QUERN_DETERMINISM_REPEATABLE}, exact{".exact", Numerics::exact, QUERN_DETERMINISM_REPEATABLE},
    invariant{".deterministic", Numerics::fast, QUERN_DETERMINISM_INVARIANT},
    directory{".q4_z128", Numerics::fast, QUERN_DETERMINISM_REPEATABLE, QUERN_Q4_Z128};

/// The median of the times of `runs` runs, after a few that count for nothing.
double microseconds(Prepared& plan, std::int64_t rows, int runs) {
  std::vector<double> times;
  for (int i = -5; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const quern_run_status status = plan.run(60, {}, {{0, 0, rows}});
    const double took = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    if (status.code != QUERN_OK) throw AbiFailure(status.code, std::string("a run ended with ") + status_words(status.code));
    if (i >= 0) times.push_back(took);
  }
  std::ranges::nth_element(times, times.begin() + runs / 2);
  return times[static_cast<std::size_t>(runs / 2)];
}

constexpr std::uint64_t most_contents = 16 << 20;

void write_contents(Region& region, const ValueSpec& spec, int value) {
  std::vector<std::byte> bytes(region.bytes());
  const Tensor tensor(spec.dtype, spec.dims, bytes);
  const CounterRandom random = CounterRandom::of("layer_kernels").stream(static_cast<std::uint64_t>(value));
  if (spec.fill) spec.fill(tensor, random);
  else fill(tensor, spec.data, random);
  region.write(bytes);
}

void run(const quern::loader::Device& device, const LayerFamily& family, const Variant& variant, const Rows& kind, int layers, int timed,
         quern_dtype format) {
  const std::int64_t most_rows = timed > 0 ? most_timed : most_counted;
  const Batch batch{"rows", most_rows, kind.sequences, 16};
  LayerStep step(family.usual, format, batch, {most_rows}, QUERN_CONVERT_INT8 | QUERN_CONVERT_F16 | QUERN_CONVERT_BF16);
  add_layers(step, family, layers);
  const Case c = step.graph.finish(Profile::full, level_inference);
  Queue queue(device);
  FlatGraph flat(*c.graph, variant.numerics, {}, variant.determinism);
  std::vector<std::unique_ptr<Region>> regions;
  std::map<std::uint32_t, Region*> bindings, constants;
  for (const auto& [value, id] : flat.bound()) {
    const ValueSpec& spec = c.graph->values[static_cast<std::size_t>(value)].spec;
    regions.push_back(std::make_unique<Region>(device, queue, packed_bytes(spec.dtype, spec.dims), 0, false));
    bindings[id] = regions.back().get();
    if (timed > 0 ? regions.back()->bytes() <= most_contents : spec.kind == QUERN_VALUE_CONSTANT && spec.dtype == QUERN_I32)
      write_contents(*regions.back(), spec, value);  // untimed: kernels may be chosen by an index
    if (spec.kind == QUERN_VALUE_CONSTANT) constants[id] = regions.back().get();
  }
  std::map<std::uint32_t, PackedWeight> packed;
  if (device.api().weights_plan != nullptr) packed = pack_constants(device, queue, flat.graph(), constants);
  for (const auto& [id, weight] : packed) {
    flat.set_layout(flat.value_of(id), weight.layout);
    bindings[id] = weight.region.get();
  }
  Prepared plan(device, queue, flat.graph(), bindings);
  for (const std::int64_t rows : kind.counts) {
    if (rows > most_rows) continue;
    if (timed > 0) {
      to_output() << family.name << variant.suffix << " " << rows << " " << layers << " " << microseconds(plan, rows, timed) << "\n"
                  << std::flush;
      continue;
    }
    to_output() << "mark " << family.name << variant.suffix << " " << rows << " " << layers << "\n" << std::flush;
    const quern_run_status status = plan.run(60, {}, {{0, 0, rows}});
    to_output() << "end\n" << std::flush;
    if (status.code != QUERN_OK)
      throw AbiFailure(status.code, std::string(family.name) + ": a run ended with " + status_words(status.code));
  }
}

/// "2048,768,32,4,128,128,8" as widths; nothing where it is no such list.
std::optional<LayerWidths> widths_of(std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (const auto part : std::views::split(text, ',')) {
    std::int64_t number = 0;
    const char* const end = part.data() + part.size();
    if (const auto read = std::from_chars(part.data(), end, number); read.ec != std::errc() || read.ptr != end || number <= 0)
      return std::nullopt;
    numbers.push_back(number);
  }
  if (numbers.size() != 5 && numbers.size() != 7) return std::nullopt;
  LayerWidths widths{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
  if (numbers.size() == 7) widths.experts = numbers[5], widths.used = numbers[6];
  return widths;
}

int usage() {
  to_messages()
      << "usage: layer_kernels [--time RUNS [--widths HIDDEN,FFN,HEADS,KV_HEADS,HEAD[,EXPERTS,USED]] [--format FORMAT]] LABEL [FAMILY ...], as in: "
         "layer_kernels cuda:0 llama\n";
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  int timed = 0;
  std::optional<LayerWidths> widths;
  if (argc > 2 && std::string_view(argv[1]) == "--time") timed = std::atoi(argv[2]), argc -= 2, argv += 2;
  if (argc > 2 && std::string_view(argv[1]) == "--widths") {
    widths = widths_of(argv[2]), argc -= 2, argv += 2;
    if (!widths) return usage();
  }
  std::optional<quern_dtype> format;
  if (argc > 2 && std::string_view(argv[1]) == "--format") {
    const auto named = std::ranges::find_if(quern_formats, [&](const quern_format& f) { return dtype_name(f.id) == argv[2]; });
    if (named == std::end(quern_formats)) return usage();
    format = named->id, argc -= 2, argv += 2;
  }
  if (argc < 2 || timed < 0) return usage();
  const std::vector<std::string> wanted(argv + 2, argv + argc);
  try {
    Selection selection;
    selection.device = argv[1];
    quern::loader::Loader found(loader_settings(selection));
    for (const quern::loader::Candidate& candidate : found.require()) {
      if (candidate.label != argv[1]) continue;
      const std::shared_ptr<quern::loader::Device> device = found.open(candidate);
      setenv("QUERN_TEST_OPENED", "1", 1);  // a driver that computes while a device opens may stop now
      for (const LayerFamily* const family : layer_families()) {
        if (!wanted.empty() && std::ranges::find(wanted, family->name) == wanted.end()) continue;
        std::vector<Variant> variants = {usual};
        if (std::string_view(family->name) == "llama") variants = {usual, exact, invariant, directory};
        for (const Variant& variant : variants)
          for (const Rows& kind : row_kinds)
            for (const int layers : depths) {
              LayerFamily of = *family;
              if (widths) of.usual = *widths;
              run(*device, of, variant, kind, layers, timed, variant.format.value_or(format.value_or(family->usual_block)));
            }
      }
      return 0;
    }
    to_messages() << "layer_kernels: there is no device " << argv[1] << "\n";
    return 3;
  } catch (const AbiFailure& failure) {
    to_messages() << "layer_kernels: " << failure.what() << "\n";
    return 1;
  } catch (const std::exception& failure) {
    to_messages() << "layer_kernels: " << failure.what() << "\n";
    return 3;
  }
}
