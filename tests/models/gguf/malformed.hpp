// Malformed files, each beside a good twin that differs in the one field that is wrong.
#pragma once

#include "sample.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace quern::test {

struct Malformed {
  std::string name;
  /// Makes the file wrong: changes one field of the twin and gives its bytes.
  std::function<GgufWriter::Bytes(GgufWriter)> corrupt;
  /// What the error must say beside the name of the file: the field, the value found, the byte.
  std::vector<std::string> words;
  /// What a caller then asks of the open file; some faults are seen only there.
  std::function<void(const gguf::File&)> use = [](const gguf::File&) {};
  std::function<GgufWriter()> twin = sample;
};

/// For the usual case: a change of the writer.
std::function<GgufWriter::Bytes(GgufWriter)> change(std::function<void(GgufWriter&)> edit);

/// The twin opens and can be used, from a file and from memory. The malformed one is refused in both, with QUERN_BAD_MODEL and the same
/// words, at a cost by its size (support/processor_time.hpp).
void expect_refused(const Malformed& malformed);

/// The file at `path` is refused with this code and these words, at a cost by its size.
void expect_refused(const std::filesystem::path& path, quern_status code, const std::vector<std::string>& words);

inline void PrintTo(const Malformed& malformed, std::ostream* out) { *out << malformed.name; }
inline std::string name_of_case(const ::testing::TestParamInfo<Malformed>& info) { return info.param.name; }

}  // namespace quern::test
