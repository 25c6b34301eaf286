// Sizes from shape numbers, against figures that were counted by hand.
#include "estimate.hpp"

#include "quern/models/gguf.hpp"
#include "quern/quern_formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

namespace quern::runtime {
namespace {

const ShapeNumbers mistral{4096, 14336, 32, 32000, 32, 8, 0, false};

TEST(EstimateShape, CountsTheParametersOfA7BModel) {
  const Estimate e = estimate_shape(mistral, 4096, 1, QUERN_F16);
  EXPECT_EQ(e.parameters, 7'241'732'096u);
  EXPECT_EQ(e.formats[0].name, "f32");
  EXPECT_EQ(e.formats[0].bytes, 7'241'732'096u * 4);  // 27,625.0 MiB
  EXPECT_EQ(e.formats[1].bytes, 7'241'732'096u * 2);  // 13,812.5 MiB
  EXPECT_EQ(e.kv_bytes, 2ull * 32 * 8 * 128 * 4096 * 2);
  EXPECT_EQ(e.kv_bytes_f32, 2 * e.kv_bytes);
}

TEST(EstimateShape, OffersEachFormatThatFilesHave) {
  const Estimate e = estimate_shape(mistral, 0, 1, QUERN_F16);
  for (const quern_format& format : quern_formats) {
    const std::string_view name(format.name.data, format.name.size);
    const auto row = std::ranges::find(e.formats, name, &FormatSize::name);
    EXPECT_EQ(row != e.formats.end(), gguf::has_ggml_type(format.id)) << name;
  }
}

TEST(EstimateShape, AFormatWhoseBlocksDoNotFitTheRowsIsNotOffered) {
  const ShapeNumbers smollm{576, 1536, 30, 49152, 9, 3, 0, true};
  const Estimate e = estimate_shape(smollm, 0, 1, QUERN_F16);
  EXPECT_EQ(e.parameters, 134'515'008u);
  for (const FormatSize& format : e.formats) {
    const bool k_quant = format.name.ends_with("_k");  // blocks of 256, rows of 576
    EXPECT_EQ(format.available, !k_quant) << format.name;
  }
}

TEST(EstimateShape, RefusesAShapeThatCannotBe) {
  ShapeNumbers shape = mistral;
  shape.layers = 0;
  EXPECT_THROW(estimate_shape(shape, 0, 1, QUERN_F16), Error);
  shape = mistral;
  shape.kv_heads = 5;
  EXPECT_THROW(estimate_shape(shape, 0, 1, QUERN_F16), Error);
  shape = mistral;
  shape.vocabulary = UINT64_MAX / 2;
  EXPECT_THROW(estimate_shape(shape, 0, 1, QUERN_F16), Error);
}

}  // namespace
}  // namespace quern::runtime
