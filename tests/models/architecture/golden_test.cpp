// The graphs of the committed random models compute what transformers computes (scripts/make_architecture_goldens.py).
#include "builders.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <fstream>

namespace quern::test {
namespace {

using models::RopePairing;

struct Golden {
  std::string name, path;
  std::vector<std::int32_t> ids;
  std::vector<std::vector<float>> logits;  // by position
};

std::vector<Golden> goldens() {
  const std::string folder = QUERN_SOURCE_DIR "/tests/data/architecture/";
  const nlohmann::json json = nlohmann::json::parse(std::ifstream(folder + "goldens.json"));
  const GgufWriter::Bytes bytes = read_bytes(folder + "logits.f32");
  std::vector<Golden> list;
  for (const auto& model : json.at("models")) {
    Golden golden;
    golden.name = model.at("name");
    golden.path = folder + model.at("file").get<std::string>();
    golden.ids = model.at("ids").get<std::vector<std::int32_t>>();
    const std::size_t vocabulary = model.at("vocabulary");
    const std::size_t offset = model.at("offset");
    for (std::size_t p = 0; p < golden.ids.size(); ++p) {
      std::vector<float>& row = golden.logits.emplace_back(vocabulary);
      std::memcpy(row.data(), &bytes.at(4 * (offset + p * vocabulary)), 4 * vocabulary);
    }
    list.push_back(std::move(golden));
  }
  return list;
}

double largest_difference(const std::vector<double>& found, const std::vector<float>& wanted) {
  double largest = found.size() == wanted.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < wanted.size() && i < found.size(); ++i) {
    const double difference = std::abs(found[i] - wanted[i]);
    largest = difference <= largest ? largest : difference;  // a NaN is the largest
  }
  return largest;
}

// transformers norms and rotates in f32; logits of up to 40 then agree to about 1e-5.
constexpr double tolerance = 1e-4;

class ArchitectureGoldens : public testing::TestWithParam<Golden> {};

TEST_P(ArchitectureGoldens, AllLogitsOfOneStepAgree) {
  const Golden& golden = GetParam();
  const gguf::File file = gguf::File::open(golden.path);
  const models::Hyperparameters shape = models::read_hyperparameters(file);
  ReferenceModel model(shape, file, test_options(1, 32));
  std::vector<Row> rows;
  std::vector<std::int32_t> wanted;
  for (std::size_t i = 0; i < golden.ids.size(); ++i) {
    rows.push_back({golden.ids[i], static_cast<std::int32_t>(i), 0});
    wanted.push_back(static_cast<std::int32_t>(i));
  }
  const auto logits = model.step(rows, wanted);
  for (std::size_t p = 0; p < golden.ids.size(); ++p) EXPECT_LE(largest_difference(logits[p], golden.logits[p]), tolerance) << p;
  EXPECT_FALSE(model.interpreter().index_fault());
}

TEST_P(ArchitectureGoldens, ChunksOfTwoSequencesWithPaddingAgree) {
  const Golden& golden = GetParam();
  const gguf::File file = gguf::File::open(golden.path);
  ReferenceModel model(models::read_hyperparameters(file), file, test_options(3, 32));
  const std::size_t cut = golden.ids.size() / 2;
  // Sequence 2 is the golden; sequence 0 has other tokens at the same positions. A padding row stands between them.
  const auto chunk = [&](std::size_t first, std::size_t end) {
    std::vector<Row> rows;
    for (std::size_t i = first; i < end; ++i) rows.push_back({golden.ids[golden.ids.size() - 1 - i], static_cast<std::int32_t>(i), 0});
    rows.push_back({0, -1, 1});
    for (std::size_t i = first; i < end; ++i) rows.push_back({golden.ids[i], static_cast<std::int32_t>(i), 2});
    return rows;
  };
  model.step(chunk(0, cut), {});
  const std::vector<Row> rest = chunk(cut, golden.ids.size());
  const auto logits = model.step(rest, {static_cast<std::int32_t>(rest.size() - 1)});
  EXPECT_LE(largest_difference(logits[0], golden.logits.back()), tolerance);
}

// Rows are computed one by one, so leaving some out of the last layer changes no bit of the others.
TEST_P(ArchitectureGoldens, EarlyOutputsGiveTheSameLogits) {
  const Golden& golden = GetParam();
  const gguf::File file = gguf::File::open(golden.path);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < golden.ids.size(); ++i) rows.push_back({golden.ids[i], static_cast<std::int32_t>(i), 0});
  const auto logits = [&](bool early) {
    models::StepOptions options = test_options(1, 32);
    options.early_outputs = early;
    ReferenceModel model(models::read_hyperparameters(file), file, options);
    return model.step(rows, {2, static_cast<std::int32_t>(rows.size() - 1)});
  };
  EXPECT_EQ(logits(true), logits(false));
}

// Each golden notices the mistakes that are easily made.
TEST_P(ArchitectureGoldens, AWrongPairingOrNormShows) {
  const Golden& golden = GetParam();
  const gguf::File file = gguf::File::open(golden.path);
  const models::Hyperparameters right = models::read_hyperparameters(file);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < golden.ids.size(); ++i) rows.push_back({golden.ids[i], static_cast<std::int32_t>(i), 0});
  const auto difference = [&](const models::Hyperparameters& shape) {
    ReferenceModel model(shape, file, test_options(1, 32));
    return largest_difference(model.step(rows, {static_cast<std::int32_t>(rows.size() - 1)})[0], golden.logits.back());
  };
  models::Hyperparameters wrong = right;
  wrong.pairing = right.pairing == RopePairing::interleaved ? RopePairing::half_split : RopePairing::interleaved;
  EXPECT_GT(difference(wrong), 10 * tolerance) << "pairing";
  wrong = right;
  wrong.rope_base *= 1.5;
  EXPECT_GT(difference(wrong), 10 * tolerance) << "base";
  if (right.rope_factors) {
    wrong = right;
    wrong.rope_factors = false;
    EXPECT_GT(difference(wrong), 10 * tolerance) << "factors";
  }
  if (right.rope_scaling != 0) {
    wrong = right;
    wrong.rope_scaling = 0;
    EXPECT_GT(difference(wrong), 10 * tolerance) << "scaling";
  }
  if (right.sliding_window != 0) {
    wrong = right;
    wrong.sliding_window += 1;
    EXPECT_GT(difference(wrong), 10 * tolerance) << "window";
  }
  if (right.qk_norm) {
    wrong = right;
    wrong.qk_norm = false;
    EXPECT_GT(difference(wrong), 10 * tolerance) << "q and k norms";
  }
  if (right.attention_bias) {
    wrong = right;
    wrong.attention_bias = false;
    EXPECT_GT(difference(wrong), 10 * tolerance) << "biases";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ArchitectureGoldens, testing::ValuesIn(goldens()), [](const auto& one) {
  std::string name = one.param.name;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

TEST(ArchitectureGoldens, ThereAreTwentyOfEachArchitecture) {
  int llama = 0, qwen2 = 0, qwen3 = 0;
  for (const Golden& golden : goldens()) {
    llama += golden.name.starts_with("llama");
    qwen2 += golden.name.starts_with("qwen2");
    qwen3 += golden.name.starts_with("qwen3");
  }
  EXPECT_GE(llama, 20);
  EXPECT_GE(qwen2, 20);
  EXPECT_GE(qwen3, 20);
}

}  // namespace
}  // namespace quern::test
