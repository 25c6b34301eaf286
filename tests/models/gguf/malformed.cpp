#include "malformed.hpp"

#include "support/processor_time.hpp"

#include <gmock/gmock.h>

#include <utility>

namespace quern::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Runs `refused`, whose input of `bytes` may not cost far more than its good twin, which `good` reads.
void expect_cheap(const std::function<void()>& good, std::size_t good_bytes, const std::function<void()>& refused, std::size_t bytes) {
  const double most = far_beyond(processor_seconds_of(good), good_bytes, bytes);
  EXPECT_LT(processor_seconds_of(refused), most) << "in seconds of the processor, by what its good twin takes";
}

template <typename Open>
void expect_error(const Malformed& malformed, const std::string& file, Open open) {
  try {
    malformed.use(open());
    ADD_FAILURE() << file << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_BAD_MODEL) << error.what();
    EXPECT_THAT(error.what(), StartsWith(file + ": "));
    for (const std::string& word : malformed.words) EXPECT_THAT(error.what(), HasSubstr(word));
  }
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
  const auto read_good = [&] { EXPECT_NO_THROW(malformed.use(gguf::File::open(good))); };
  const auto read_good_memory = [&] { EXPECT_NO_THROW(malformed.use(gguf::File::from_memory(good_bytes, "twin in memory"))); };

  const auto bad = temporary("malformed.gguf");
  const auto bad_bytes = malformed.corrupt(malformed.twin());
  ASSERT_NE(bad_bytes, good_bytes);
  write_bytes(bad, bad_bytes);
  expect_cheap(
      read_good, good_bytes.size(), [&] { expect_error(malformed, bad.string(), [&] { return gguf::File::open(bad); }); },
      bad_bytes.size());
  expect_cheap(
      read_good_memory, good_bytes.size(),
      [&] { expect_error(malformed, "in memory", [&] { return gguf::File::from_memory(bad_bytes, "in memory"); }); }, bad_bytes.size());
}

void expect_refused(const std::filesystem::path& path, quern_status code, const std::vector<std::string>& words) {
  const auto good = sample().bytes();
  std::error_code none;  // of what is there a file, the size
  const std::uintmax_t bytes = std::filesystem::is_regular_file(path, none) ? std::filesystem::file_size(path, none) : 0;
  expect_cheap([&] { gguf::File::from_memory(good, "good"); }, good.size(),
               [&] {
                 try {
                   gguf::File::open(path);
                   ADD_FAILURE() << path << " was accepted";
                 } catch (const Error& error) {
                   EXPECT_EQ(error.code(), code) << error.what();
                   for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
                 }
               },
               bytes);
}

}  // namespace quern::test
