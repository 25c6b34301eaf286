#include "malformed.hpp"

#include <chrono>
#include <gmock/gmock.h>
#include <utility>

namespace quern::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

template <typename Open>
void expect_error(const Malformed& malformed, const std::string& file, Open open) {
  const auto start = std::chrono::steady_clock::now();
  try {
    malformed.use(open());
    ADD_FAILURE() << file << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_BAD_MODEL) << error.what();
    EXPECT_THAT(error.what(), StartsWith(file + ": "));
    for (const std::string& word : malformed.words) EXPECT_THAT(error.what(), HasSubstr(word));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

}  // namespace

std::function<GgufWriter::Bytes(GgufWriter)> change(std::function<void(GgufWriter&)> edit) {
  return [edit = std::move(edit)](GgufWriter writer) {
    edit(writer);
    return writer.bytes();
  };
}

void expect_refused(const Malformed& malformed) {
  const auto good = temporary("twin.gguf");
  const auto good_bytes = malformed.twin().bytes();
  write_bytes(good, good_bytes);
  EXPECT_NO_THROW(malformed.use(gguf::File::open(good)));
  EXPECT_NO_THROW(malformed.use(gguf::File::from_memory(good_bytes, "twin in memory")));

  const auto bad = temporary("malformed.gguf");
  const auto bad_bytes = malformed.corrupt(malformed.twin());
  ASSERT_NE(bad_bytes, good_bytes);
  write_bytes(bad, bad_bytes);
  expect_error(malformed, bad.string(), [&] { return gguf::File::open(bad); });
  expect_error(malformed, "in memory", [&] { return gguf::File::from_memory(bad_bytes, "in memory"); });
}

void expect_refused(const std::filesystem::path& path, quern_status code, const std::vector<std::string>& words) {
  const auto start = std::chrono::steady_clock::now();
  try {
    gguf::File::open(path);
    ADD_FAILURE() << path << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

}  // namespace quern::test
