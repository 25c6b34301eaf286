// The node tests of ONNX: our references against the values of another project, and the reader of the case file.
#include "ops/onnx.hpp"
#include "case_table/case_table.hpp"
#include "onnx/vectors.hpp"
#include "worker/arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include <cmath>
#include <cstring>
#include <fstream>
#include <set>

namespace quern::conformance::onnx {
namespace {

const CaseTable& table() {
  static const CaseTable all;
  return all;
}

TEST(OnnxVectors, OurReferencesGiveTheValuesOfOnnxAtItsTolerance) {
  std::size_t compared = 0;
  const std::vector<References> all = onnx_references(table().all());
  for (std::size_t n = 0; n < all.size(); ++n) {
    const Vector& vector = vectors()[n];
    const References& references = all[n];
    if (references.empty()) continue;  // no family has the op yet
    const std::vector<Tensor> values = reference_values(vector, references);
    for (std::size_t v = 0; v < values.size(); ++v) {
      if (vector.values[v].expected.empty()) continue;
      ++compared;
      EXPECT_EQ(disagreement(vector, v, values[v]), "") << vector.name;
    }
  }
  EXPECT_GE(compared, 60u);
}

TEST(OnnxVectors, EveryTestSaysWhatItExpects) {
  EXPECT_GE(vectors().size(), 400u);
  std::set<std::string> names;
  for (const Vector& vector : vectors()) {
    EXPECT_TRUE(names.insert(vector.name).second) << vector.name;
    bool any = false;
    for (const Value& v : vector.values) any = any || !v.expected.empty();
    EXPECT_TRUE(any) << vector.name;
    EXPECT_GT(vector.rtol, 0);
  }
}

TEST(OnnxVectors, ATestWhoseOpsHaveFamiliesIsACase) {
  std::size_t cases = 0, expected = 0;
  for (const Case& c : table().all()) cases += c.group == "onnx";
  for (const References& references : onnx_references(table().all())) expected += !references.empty();
  EXPECT_EQ(cases, expected);
  EXPECT_GE(cases, 150u);
}

TEST(OnnxVectors, ACaseHasTheDataOfItsTest) {
  for (const Case& c : table().all()) {
    if (c.note != "matmul_2d") continue;
    std::vector<std::byte> arena(input_bytes(c));
    const CaseData data = map_data(c, arena);
    fill_data(c, data, 7);  // a seed changes random data, not these
    for (const Vector& vector : vectors()) {
      if (vector.name != c.note) continue;
      const std::span<const std::byte> wanted = vector.values[vector.nodes[0].inputs[0]].data;
      ASSERT_EQ(data.inputs[0].bytes().size(), wanted.size());
      EXPECT_EQ(std::memcmp(data.inputs[0].bytes().data(), wanted.data(), wanted.size()), 0);
      return;
    }
  }
  FAIL() << "there is no case of matmul_2d";
}

TEST(OnnxVectors, AReferenceThatDisagreesMakesTheCaseUnknown) {
  const float x[] = {1, 2}, y[] = {3, 4};
  std::vector<std::byte> data(16);
  std::memcpy(data.data(), x, 8);
  std::memcpy(data.data() + 8, y, 8);
  const std::vector<Vector> read = parse_vectors("case wrong 0.001 1e-07\nin 0 f32 2 - 0\nout 1 f32 2 - 8\nnode copy 0 1\n", data);
  const auto copies = std::ranges::find_if(table().all(), [](const Case& c) { return c.op == QUERN_OP_COPY && c.reference; });
  ASSERT_NE(copies, table().all().end());
  const std::vector<Tensor> values = reference_values(read[0], {copies->reference});
  EXPECT_EQ(disagreement(read[0], 1, values[1]), "value 1, element 0: our reference gives 1, ONNX 3");
}

TEST(OnnxVectors, ToleranceIsThatOfOnnx) {
  const float e[] = {100.0f};
  std::vector<std::byte> data(4);
  std::memcpy(data.data(), e, 4);
  const std::vector<Vector> read = parse_vectors("case edge 0.001 0\nout 0 f32 1 - 0\n", data);
  Tensor found(QUERN_F32, {1});
  found.set(0, 100.09);
  EXPECT_EQ(disagreement(read[0], 0, found), "");
  found.set(0, 100.11);
  EXPECT_NE(disagreement(read[0], 0, found), "");
  found.set(0, std::nan(""));
  EXPECT_NE(disagreement(read[0], 0, found), "");
}

TEST(OnnxVectors, AFileThatIsNotWellFormedIsRefused) {
  const std::vector<std::byte> data(8);
  for (const char* text :
       {"in 0 f32 2 - 0\n", "case a 1 0\nin 1 f32 2 - 0\n", "case a 1 0\nin 0 f32 2 - 4\n", "case a 1 0\nin 0 f33 2 - 0\n",
        "case a 1 0\nin 0 f32 2 - 18446744073709551612\n", "case a 1 0\nin 0 f32 2 - 0\nnode copy 0 1\n", "case a x 0\n",
        "case a 1 0\nin 0 f32 2 - 0\nnode nosuch 0 0\n", "case a 1 0\nin 0 f32 2 - 0\nview 1 3 0\n", "case a 1 0\nnode copy\n"})
    EXPECT_THROW(parse_vectors(text, data), std::logic_error) << text;
}

TEST(OnnxVectors, TheListOfThoseLeftOutHasReasons) {
  std::ifstream in(QUERN_SOURCE_DIR "/conformance/onnx/left_out.md");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_NE(text.find(std::to_string(vectors().size()) + " are taken"), std::string::npos);
}

}  // namespace
}  // namespace quern::conformance::onnx
