// Each mutant reads some golden otherwise than the packer or the GGUF file has it. A mutant that nothing catches is a failure.
#include "mutants.hpp"
#include "packed_golden.hpp"
#include "tensor_names.hpp"

#include <gtest/gtest.h>

#include <ostream>

namespace quern::directory {

void PrintTo(const WeightMutant& mutant, std::ostream* out) { *out << mutant.name; }
void PrintTo(const RopeMutant& mutant, std::ostream* out) { *out << mutant.name; }

}  // namespace quern::directory

namespace quern::test {
namespace {

using namespace quern::directory;

Method method_of(const std::string& source) {
  if (source == "quantised_awq.cpp") return Method::awq;
  if (source == "quantised_gptq.cpp") return Method::gptq;
  return source == "quantised_bitsandbytes.cpp" ? Method::bitsandbytes : Method::compressed;
}

/// Whether the numbers differ, or the reader refuses them.
bool catches(const PackedGolden& golden, const WeightMutant& mutant) {
  try {
    return !golden.difference(mutant.weight).empty();
  } catch (const Error&) { return true; }
}

class WeightMutants : public testing::TestWithParam<WeightMutant> {};

TEST_P(WeightMutants, ReadsSomeGoldenOtherwise) {
  const auto& mutant = GetParam();
  bool caught = false;
  for (const std::string& name : packed_goldens()) {
    const PackedGolden golden(name);
    if (golden.method() != method_of(mutant.source)) continue;
    if (mutant.source == "quantised_fp8.cpp" && !name.starts_with("ct-floats")) continue;
    ASSERT_EQ(golden.difference(quantised_weight), "");  // the reader itself
    caught = caught || catches(golden, mutant);
  }
  EXPECT_TRUE(caught);
}

INSTANTIATE_TEST_SUITE_P(All, WeightMutants, testing::ValuesIn(weight_mutants), [](const auto& info) { return info.param.name; });

/// The keys that a reader of the rotation writes, and the divisors of frequencies.
struct Rotation {
  std::vector<std::byte> keys;
  std::vector<float> factors;
  bool operator==(const Rotation&) const = default;
};

Rotation rotation(const Config& config, decltype(write_rope_keys)& write) {
  Shape shape;
  shape.head_size = 64;
  shape.context = 131072;
  gguf::Writer keys;
  write(config, family_of(config), shape, keys);
  return {keys.bytes_of_keys(), shape.rope_factors};
}

/// Two spellings of the same rotation have to give the same keys, and those of the numbers that transformers computes with.
struct Spelled {
  const char* text;
  std::vector<float> some_factors;  ///< the first, the one in the blend, and the last, by transformers' formula in f64
  double magnitude = 0;             ///< of yarn
};

const std::vector<Spelled>& spelled() {
  // Llama 3.1: factor 8, corners 1 and 4 of 8192, base 500,000, heads of 64. Divisor 15 lies in the blend.
  static const std::vector<Spelled> all = {
      {R"({"model_type": "llama", "rope_theta": 500000, "rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1,
          "high_freq_factor": 4, "original_max_position_embeddings": 8192}})",
       {1, 1.5534146f, 8}},
      {R"({"model_type": "llama", "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000, "factor": 8, "low_freq_factor": 1,
          "high_freq_factor": 4, "original_max_position_embeddings": 8192}})",
       {1, 1.5534146f, 8}},
      {R"({"model_type": "llama", "rope_scaling": {"rope_type": "yarn", "factor": 32, "mscale": 0.5, "mscale_all_dim": 1,
          "original_max_position_embeddings": 4096}})",
       {},
       0.8713127924156322},  // (1 + 0.05 ln 32) / (1 + 0.1 ln 32)
  };
  return all;
}

std::string difference(const Spelled& one, decltype(write_rope_keys)& write) {
  const auto json = Json::parse(one.text);
  const Config config(JsonFile::made_of("config.json", *json));
  const Rotation found = rotation(config, write);
  if (one.some_factors.empty() != found.factors.empty()) return "factors";
  if (!one.some_factors.empty()) {
    const float factors[] = {found.factors.front(), found.factors[15], found.factors.back()};
    for (std::size_t i = 0; i < std::size(factors); ++i)
      if (std::abs(factors[i] - one.some_factors[i]) > 1e-6f * one.some_factors[i]) return concat("factor ", factors[i]);
  }
  gguf::Writer expected;
  expected.u32("llama.rope.dimension_count", 64);
  expected.f32("llama.rope.freq_base", one.some_factors.empty() ? 10000.0f : 500000.0f);
  if (one.magnitude != 0) {
    expected.string("llama.rope.scaling.type", "yarn");
    expected.f32("llama.rope.scaling.factor", 32);
    expected.u32("llama.rope.scaling.original_context_length", 4096);
    expected.f32("llama.rope.scaling.yarn_attn_factor", static_cast<float>(one.magnitude));
  }
  return found.keys == expected.bytes_of_keys() ? "" : "keys";
}

class RopeMutants : public testing::TestWithParam<RopeMutant> {};

TEST_P(RopeMutants, ReadsSomeRotationOtherwise) {
  bool caught = false;
  for (const Spelled& one : spelled()) {
    ASSERT_EQ(difference(one, write_rope_keys), "");  // the reader itself
    caught = caught || !difference(one, *GetParam().write).empty();
  }
  EXPECT_TRUE(caught);
}

INSTANTIATE_TEST_SUITE_P(All, RopeMutants, testing::ValuesIn(rope_mutants), [](const auto& info) { return info.param.name; });

/// A committed model beside its directory.
class Pair {
 public:
  explicit Pair(const std::string& name) : model_(gguf::File::open(test_data + "architecture/" + name)) {
    write_directory(model_, scratch_.path("m"));
    config_.emplace(*JsonFile::find(scratch_.path("m/config.json")));
    gguf::Writer keys;
    shape_ = write_model_keys(*config_, family(), keys);
    shards_ = read_shards(scratch_.path("m"));
  }
  const Family& family() const { return family_of(*config_); }

  using Change = std::function<std::vector<std::byte>(const gguf::AssembledTensor&, gguf::LyingPieces)>;

  /// Whether these tables and this family give every tensor of the GGUF file with its bytes.
  bool holds(const Family& family, const NameTable& names, const Change& change = once) const {
    try {
      const AssembledTensors found = assembled_tensors(shards_, family, shape_, {}, 0, names);
      std::size_t equal = 0;
      for (const gguf::AssembledTensor& tensor : found.all) {
        const gguf::TensorInfo* wanted = model_.find_tensor(tensor.tensor.name);
        if (wanted == nullptr || (tensor.tensor.name != made_tensor && !is_equal(tensor, *wanted, change))) return false;
        ++equal;
      }
      return equal == model_.tensors().size();
    } catch (const Error&) { return false; }
  }

  static std::vector<std::byte> once(const gguf::AssembledTensor& tensor, gguf::LyingPieces lying) {
    if (!tensor.change) return {lying[0].begin(), lying[0].end()};
    std::vector<std::byte> made(tensor.tensor.elements() * models::float_bytes(tensor.tensor.dtype));
    const gguf::TensorParts parts = tensor.change(lying, made);
    for (std::uint64_t part = 0; part < parts.count; ++part) parts.make(part);
    return made;
  }

 private:
  bool is_equal(const gguf::AssembledTensor& tensor, const gguf::TensorInfo& wanted, const Change& change) const {
    const auto at = std::ranges::find_if(shards_.tensors, [&](const StoredTensor& stored) {
      return stored.file == tensor.tensor.shard && stored.info.offset == tensor.tensor.offset && stored.info.bytes == tensor.lying_bytes;
    });
    const std::vector<std::byte> stored = shards_.readers[at->file].read_bytes(at->info);
    const std::span<const std::byte> pieces[] = {stored};
    return tensor.tensor.dtype == wanted.dtype && std::ranges::equal(tensor.tensor.dims, wanted.dims) &&
           std::ranges::equal(change(tensor, pieces), model_.data(wanted));
  }

  gguf::File model_;
  ScratchFolder scratch_;
  std::optional<Config> config_;
  Shape shape_;
  Shards shards_;
};

/// With biases of all four products, with norms of queries and keys, and with heads of their own; the right tables hold for each.
const std::vector<std::unique_ptr<Pair>>& pairs() {
  static const std::vector<std::unique_ptr<Pair>> all = [] {
    std::vector<std::unique_ptr<Pair>> made;
    for (const std::string& name : committed_models()) made.push_back(std::make_unique<Pair>(name));
    return made;
  }();
  return all;
}

bool some_pair_catches(const NameTable& names) {
  return std::ranges::any_of(pairs(), [&](const auto& pair) { return !pair->holds(pair->family(), names); });
}

class NameMutants : public testing::Test {
 protected:
  NameMutants()
      : whole_(name_table().whole.begin(), name_table().whole.end()), layers_(name_table().layers.begin(), name_table().layers.end()) {}
  std::size_t size() const { return whole_.size() + layers_.size(); }
  NameRow& row(std::size_t i) { return i < whole_.size() ? whole_[i] : layers_[i - whole_.size()]; }
  NameTable table() const { return {whole_, layers_}; }

  std::vector<NameRow> whole_, layers_;
};

TEST_F(NameMutants, TheRightTableHoldsForEachModel) {
  for (const auto& pair : pairs()) EXPECT_TRUE(pair->holds(pair->family(), table()));
}

TEST_F(NameMutants, TwoTransformationsExchangedAreCaught) {
  std::size_t mutants = 0;
  for (std::size_t i = 0; i < size(); ++i)
    for (std::size_t j = i + 1; j < size(); ++j) {
      if (row(i).rows == row(j).rows) continue;  // the same table
      std::swap(row(i).rows, row(j).rows);
      EXPECT_TRUE(some_pair_catches(table())) << row(i).theirs << " and " << row(j).theirs;
      std::swap(row(i).rows, row(j).rows);
      ++mutants;
    }
  EXPECT_GE(mutants, 60u);
}

TEST_F(NameMutants, TwoNamesExchangedAreCaught) {
  for (std::size_t i = 0; i < size(); ++i)
    for (std::size_t j = i + 1; j < size(); ++j) {
      std::swap(row(i).ours, row(j).ours);
      EXPECT_TRUE(some_pair_catches(table())) << row(i).theirs << " and " << row(j).theirs;
      std::swap(row(i).ours, row(j).ours);
    }
}

TEST_F(NameMutants, APermutationMissingOrDoubledIsCaught) {
  std::size_t interleaving = 0;
  for (const auto& pair : pairs()) {
    Family other = pair->family();
    if (other.interleaves) {
      ++interleaving;
      EXPECT_FALSE(pair->holds(pair->family(), table(), [](const gguf::AssembledTensor& tensor, gguf::LyingPieces lying) {
        const std::vector<std::byte> made = Pair::once(tensor, lying);
        const std::span<const std::byte> again[] = {made};
        return tensor.tensor.name.find("attn_q.w") != std::string::npos ? Pair::once(tensor, again) : made;
      }));
    }
    other.interleaves = !other.interleaves;
    EXPECT_FALSE(pair->holds(other, table()));
  }
  EXPECT_GT(interleaving, 0u);
}

}  // namespace
}  // namespace quern::test
