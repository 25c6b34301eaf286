// YAML of settings files as JSON text, for the library, with the line of every key.
//
// One document with a map at its top. Plain words are those of YAML 1.2: `2e-4` and `0x10` are numbers, `yes` and `no` are texts.
// Refused, each with its line: a key given twice, a key that is no plain text, merge keys, own tags, several documents, numbers that are
// not finite, control characters, and whatever passes a limit below.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace quern::cli {

struct YamlLimits {
  static constexpr std::size_t bytes = 256 << 10;  // of the file
  static constexpr std::size_t json_bytes = 1 << 20;
  static constexpr std::size_t values = 10'000;  // with each alias written out
  static constexpr std::size_t aliases = 100;
  static constexpr std::size_t nesting = 16;
  static constexpr std::size_t key_bytes = 100;
};

/// Both count from 1.
struct YamlPosition {
  int line = 0, column = 0;
  bool operator==(const YamlPosition&) const = default;
};

struct YamlFile {
  std::string json;  // an object on one line
  /// Of each key and each item of a list, by its path: "lora.r", "datasets[0].path". What an alias brings has the lines of its anchor.
  std::map<std::string, YamlPosition> positions;
};

/// `name` is for messages ("cfg.yaml:12: .."). Throws Failure(exit_usage).
YamlFile parse_yaml(std::string_view text, const std::string& name);

/// Reads a regular file. Throws Failure(exit_usage) as parse_yaml, and for a file that cannot be read.
YamlFile read_yaml(const std::string& path);

/// The positions as the library takes them: a JSON object of path -> "cfg.yaml:12", and of "" -> "cfg.yaml".
std::string places_json(const YamlFile& file, const std::string& name);

}  // namespace quern::cli
