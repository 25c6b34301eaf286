// The flag table: what is known of a flag beside its entry in parser.cpp, one row each.
//
// Its columns are the other names that people type, whether the short help shows the flag, and whether quern.conf may give it. A flag
// without a row has one name, is in the short help, and is not in quern.conf (unless it is a setting).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace quern::cli {

enum class Shown { always, in_help_all };
enum class InFile { no, yes };

struct FlagWords {
  const char* flag;  // "--max-tokens"
  const char* also;  // "-n,--n-predict": names that llama.cpp and Ollama users type; "" for none
  Shown shown = Shown::always;
  InFile in_file = InFile::no;
};

std::span<const FlagWords> all_flag_words();

/// All names of a flag for the parser: "-n,--max-tokens,--n-predict".
std::string flag_names(const std::string& flag);

bool shown_always(const std::string& flag);

/// Whether quern.conf may give this flag, for all models or for one.
bool in_file(const std::string& flag);

/// The key of quern.conf for a flag: "top_k" for "--top-k".
std::string file_key(const std::string& flag);

/// What other programs have with one hyphen and several letters: "-hf" is "--model". "" for another word.
std::string_view long_name_of(std::string_view word);

/// What to do in place of a flag that llama.cpp or Ollama has and Quern has not; "" for another flag.
std::string_view in_place_of(std::string_view flag);

}  // namespace quern::cli
