// Where the system's linker would find a shared library, and what lies there; nothing is loaded.
#pragma once

#include "quern/loader/settings.hpp"
#include "verdict.hpp"

#include <optional>
#include <string>

namespace quern::loader {

struct FoundLibrary {
  std::string path;     // as the linker finds it
  std::string version;  // of the file behind it: "580.65.06"; empty if its name says none
  Verdict verdict;      // not ok: it is no library that this process can load, and the linker stops there
};

/// LD_LIBRARY_PATH, ld.so.cache, the system's own folders, in this order. Nothing where none has it.
std::optional<FoundLibrary> find_library(const std::string& soname, const Settings& settings);

/// A file as a library; `path` is what names it.
FoundLibrary inspect_library(const std::string& path);

/// All pairs of name and path in an ld.so.cache of glibc 2.2 and newer; nothing from a file that is none.
std::vector<std::pair<std::string, std::string>> parse_ld_cache(const std::string& bytes);

}  // namespace quern::loader
