// Keeps probe results between processes, one small file a plugin.
#pragma once

#include "verdict.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace quern::loader {

/// The text of a file that this user or root wrote, and nobody else can; nothing where there is none. `fault`: why it is not believed.
std::optional<std::string> read_kept(const std::string& name, std::string& fault);

/// Several processes may use one directory at once: files are replaced whole. A file that is damaged, another
/// user's, or writable by everyone is no result; `fault` then says why. A checksum tells damage; it does not tell forgery, so what a
/// kept result says of a device is compared with the opened device all the same.
class ProbeCache {
 public:
  /// Empty directory: nothing is kept.
  explicit ProbeCache(std::string directory);
  bool is_on() const { return !directory_.empty(); }

  /// What find() believes of crashes and time-outs, which may have been bad luck: for ten minutes, or not at all.
  enum class Doubtful { for_a_while, never };

  /// The result kept for a slot (a plugin's path, and what was asked) under this key, or nothing; nothing is kept under an empty key.
  std::optional<Examination> find(const std::string& slot, const std::string& key, Doubtful doubtful, std::string& fault) const;

  /// Removes what is kept for a slot.
  void forget(const std::string& slot) const noexcept;

  /// Keeps a result, doubtful ones too.
  void keep(const std::string& slot, const std::string& key, const Examination& result, std::string& fault) const;

  /// The file for a slot.
  std::string file(const std::string& slot) const;
  /// The file for a fault of the plugin at `path`, in a folder that is there; empty where nothing is kept.
  std::string fault_file(const std::string& path) const;

 private:
  std::string directory_;
};

}  // namespace quern::loader
