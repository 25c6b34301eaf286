// What /set changes: the flags of quern run that shape an answer, under their names without "--".
#pragma once

#include "command_line.hpp"

#include <map>
#include <string>
#include <vector>

namespace quern::cli {

class ChatSettings {
 public:
  /// `flags` must outlive this; `given` are the values of the command line in words (CommandLine::flags).
  ChatSettings(RunFlags& flags, const std::vector<FlagState>& given);

  static std::vector<std::string> names();
  /// "NAME VALUE"; "default" takes a value back. Throws Failure(exit_usage) and changes nothing where it cannot be.
  void set(const std::string& name_and_value);
  /// One line each.
  std::string page() const;

 private:
  void apply(const std::map<std::string, std::string>& given);

  RunFlags& flags_;
  std::map<std::string, std::string> given_;     ///< by name
  std::map<std::string, std::string> standard_;  ///< what holds where nothing is given, in words
};

}  // namespace quern::cli
