// What a good file gives.
#include "header_file.hpp"

#include "quern/models/safetensors.hpp"
#include "support/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace quern::test {
namespace {

using safetensors::Dtype;
using safetensors::File;

TEST(Safetensors, ReadsNamesShapesAndMetadata) {
  const auto bytes = file_of("{\"__metadata__\":{\"format\":\"pt\",\"a\":\"\\u00e9\"}," + record("b", "F32", "[2,1]", "[0,8]") + "," +
                                 record("a", "I64", "[]", "[8,16]") + "," + record("none", "BOOL", "[3,0]", "[16,16]") + "}  ",
                             16);
  const File file = File::from_memory(bytes, "m");
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"a", "\xc3\xa9"}, {"format", "pt"}}));
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors()[0].name, "b");
  EXPECT_EQ(file.tensors()[0].shape, (std::vector<std::uint64_t>{2, 1}));
  EXPECT_EQ(file.require("a").elements(), 1u);
  EXPECT_EQ(file.require("none").bytes, 0u);
  EXPECT_TRUE(file.read_bytes(file.require("none")).empty());
  EXPECT_EQ(file.read_bytes(file.require("a"))[0], std::byte{8});
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST(Safetensors, ReadsFloatsOfThreeTypesExactly) {
  auto bytes = file_of("{" + record("f16", "F16", "[2]", "[0,4]") + "," + record("bf16", "BF16", "[2]", "[4,8]") + "," +
                           record("f32", "F32", "[1]", "[8,12]") + "}",
                       12);
  const std::uint16_t halves[4] = {0x3c00, 0x0001, 0x3f80, 0xc0a0};
  const float single = -1.5f;
  std::memcpy(bytes.data() + bytes.size() - 12, halves, 8);
  std::memcpy(bytes.data() + bytes.size() - 4, &single, 4);
  const File file = File::from_memory(bytes, "m");
  EXPECT_EQ(file.read_f32("f16"), (std::vector<float>{1, 0x1p-24f}));
  EXPECT_EQ(file.read_f32("bf16"), (std::vector<float>{1, -5}));
  EXPECT_EQ(file.read_f32("f32"), (std::vector<float>{-1.5f}));
}

TEST(Safetensors, ListsOtherTypesAndRefusesToReadThemAsNumbers) {
  const auto bytes = file_of("{" + record("a", "F8_E4M3", "[4]", "[0,4]") + "," + record("b", "F4", "[2,4]", "[4,8]") + "}", 8);
  const File file = File::from_memory(bytes, "m");
  EXPECT_EQ(file.require("a").dtype, Dtype::f8_e4m3);
  EXPECT_EQ(file.read_bytes(file.require("b")).size(), 4u);
  try {
    (void)file.read_f32("a");
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_UNSUPPORTED);
    EXPECT_NE(std::string(error.what()).find("m: tensor 'a': is of type F8_E4M3"), std::string::npos) << error.what();
  }
}

TEST(Safetensors, AFileIsReadWhenItsTensorsAreAskedFor) {
  const ScratchFolder folder;
  const std::string path = folder.path("m.safetensors");
  const auto bytes = file_of("{" + record("a", "F32", "[1]", "[0,4]") + "}", 4);
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const File file = File::open(path);
  EXPECT_EQ(file.read_bytes(file.require("a")), (std::vector<std::byte>{std::byte{0}, std::byte{1}, std::byte{2}, std::byte{3}}));
  std::filesystem::resize_file(path, bytes.size() - 1);
  try {
    (void)file.read_f32("a");
    FAIL() << "it was read";
  } catch (const Error& error) { EXPECT_EQ(error.code(), QUERN_IO) << error.what(); }
}

TEST(Safetensors, AFolderAndAMissingFileAreRefused) {
  const ScratchFolder folder;
  const auto code = [](const std::string& path) {
    try {
      File::open(path);
    } catch (const Error& error) { return error.code(); }
    return quern_status{QUERN_OK};
  };
  EXPECT_EQ(code(folder.path("none")), quern_status{QUERN_NOT_FOUND});
  EXPECT_EQ(code(folder.path(".")), quern_status{QUERN_BAD_MODEL});
}

}  // namespace
}  // namespace quern::test
