// libFuzzer target: any bytes as a settings file of up to 100 KB.
//
// Holds: nothing but Failure with the code of a user's mistake escapes; what is taken is JSON of an object within its limits, and each
// key of it has a position within the text.
#include "yaml_file.hpp"

#include "failure.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const quern::cli::YamlFile& file, std::string_view text) {
  using quern::cli::YamlLimits;
  require(file.json.size() <= YamlLimits::json_bytes);
  const nlohmann::json parsed = nlohmann::json::parse(file.json, nullptr, false);
  require(parsed.is_object());
  require(file.positions.size() <= YamlLimits::values);
  for (const auto& member : parsed.items()) require(file.positions.contains(member.key()));
  const auto lines = 1 + std::ranges::count_if(text, [](char c) { return c == '\n' || c == '\r'; });
  for (const auto& [path, at] : file.positions) require(at.line >= 1 && at.line <= lines && at.column >= 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    check(quern::cli::parse_yaml(text, "fuzz.yaml"), text);
  } catch (const quern::cli::Failure& failure) { require(failure.code() == quern::cli::exit_usage); }
  return 0;
}
