// Runs a layer of each kind (conformance/graphs/layers/) once with several numbers of rows, between marks in the log of a driver that computes nothing.
//
//   layer_kernels LABEL LOG [FAMILY ...]
//
// The driver appends a line for each kernel that it is asked for to LOG. This program appends "mark FAMILY ROWS LAYERS" before each run and "end"
// behind it. Who reads the log (scripts/layer_kernels.py) takes the difference of two depths: what lies before and behind the layers does not count.
// Rows 1, 64 and 512 are of one sequence, 8 and 32 of as many sequences; each graph has room for 512 rows, as a session's step. Exit: 0; 2 usage;
// 3 there is no such device; 1 a run failed.
#include "cli/output.hpp"
#include "device_run/flat_graph.hpp"
#include "device_run/prepared.hpp"
#include "device_run/status_words.hpp"
#include "device_run/weight_packing.hpp"
#include "graphs/layers/layer_step.hpp"
#include "worker/loader_settings.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>

using namespace quern::conformance;

namespace {

constexpr std::int64_t most_rows = 512;
constexpr int depths[] = {1, 3};  // layers of a kind alternate by two
struct Rows {
  std::int64_t sequences;
  std::vector<std::int64_t> counts;
};
const Rows row_kinds[] = {{1, {1, 64, 512}}, {8, {8}}, {32, {32}}};

/// A family in the numerics and under the demands of one kind of session.
struct Variant {
  const char* suffix;
  Numerics numerics;
  std::uint32_t determinism;
};
constexpr Variant usual{"", Numerics::fast, QUERN_DETERMINISM_REPEATABLE}, exact{".exact", Numerics::exact, QUERN_DETERMINISM_REPEATABLE},
    invariant{".deterministic", Numerics::fast, QUERN_DETERMINISM_INVARIANT};

class Log {
 public:
  explicit Log(const char* path) : file_(std::fopen(path, "a")) {
    if (file_ == nullptr) throw std::runtime_error(std::string("the log ") + path + " cannot be opened");
  }
  ~Log() { std::fclose(file_); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  void line(const std::string& text) {
    std::fprintf(file_, "%s\n", text.c_str());
    std::fflush(file_);
  }

 private:
  std::FILE* file_;
};

void run(const quern::loader::Device& device, const LayerFamily& family, const Variant& variant, const Rows& kind, int layers, Log& log) {
  const Batch batch{"rows", most_rows, kind.sequences, 16};
  LayerStep step(family.usual, QUERN_Q4_K, batch, {most_rows}, QUERN_CONVERT_INT8 | QUERN_CONVERT_F16 | QUERN_CONVERT_BF16);
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
    if (spec.kind == QUERN_VALUE_CONSTANT) constants[id] = regions.back().get();
  }
  std::map<std::uint32_t, PackedWeight> packed;
  if (device.api().weights_plan != nullptr) packed = pack_constants(device, queue, flat.graph(), constants);
  for (const auto& [id, weight] : packed) {
    flat.set_layout(flat.value_of(id), weight.layout);
    bindings[id] = weight.region.get();
  }
  Prepared plan(device, queue, flat.graph(), bindings, plan_of_rows(most_rows));
  for (const std::int64_t rows : kind.counts) {
    log.line("mark " + std::string(family.name) + variant.suffix + " " + std::to_string(rows) + " " + std::to_string(layers));
    const quern_run_status status = plan.run(60, {}, {{0, 0, rows}});
    log.line("end");
    if (status.code != QUERN_OK) throw AbiFailure(status.code, std::string(family.name) + ": a run ended with " + status_words(status.code));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    to_messages() << "usage: layer_kernels LABEL LOG [FAMILY ...], as in: layer_kernels cuda:0 /tmp/log llama\n";
    return 2;
  }
  const std::vector<std::string> wanted(argv + 3, argv + argc);
  try {
    Selection selection;
    selection.device = argv[1];
    quern::loader::Loader found(loader_settings(selection));
    Log log(argv[2]);
    for (const quern::loader::Candidate& candidate : found.require()) {
      if (candidate.label != argv[1]) continue;
      const std::shared_ptr<quern::loader::Device> device = found.open(candidate);
      setenv("QUERN_TEST_OPENED", "1", 1);  // a driver that computes while a device opens may stop now
      for (const LayerFamily* const family : layer_families()) {
        if (!wanted.empty() && std::ranges::find(wanted, family->name) == wanted.end()) continue;
        std::vector<Variant> variants = {usual};
        if (std::string_view(family->name) == "llama") variants = {usual, exact, invariant};
        for (const Variant& variant : variants)
          for (const Rows& kind : row_kinds)
            for (const int layers : depths) run(*device, *family, variant, kind, layers, log);
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
