// Classifies dlerror() texts. The patterns are those of glibc and of musl; what matches none is passed on as
// it is.
#include "link_error.hpp"

#include "quern/graph/error.hpp"

#include <algorithm>
#include <optional>

namespace quern::loader {
namespace {

std::optional<std::string> between(const std::string& text, const std::string& before, const std::string& after) {
  const std::size_t start = text.find(before);
  if (start == std::string::npos) return std::nullopt;
  const std::size_t from = start + before.size();
  const std::size_t end = after.empty() ? text.size() : text.find(after, from);
  if (end == std::string::npos) return std::nullopt;
  return text.substr(from, end - from);
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Verdict missing(const std::string& path, const std::string& soname, const std::string& raw, const Inspection& found) {
  const bool direct = std::ranges::find(found.needed, soname) != found.needed.end();
  return {code::missing_library,
          direct ? concat(path, ": needs the shared library ", soname, ", which cannot be found")
                 : concat(path, ": one of its libraries needs ", soname, ", which cannot be found"),
          remedy_for_library(soname, found.dependencies), raw};
}

}  // namespace

Verdict explain_link_error(const std::string& path, const std::string& raw, const Inspection& found) {
  const auto made = [&](const char* code, const std::string& cause, const std::string& remedy) {
    return Verdict{code, concat(path, ": ", cause), remedy, raw};
  };
  // glibc: "libx.so.1: cannot open shared object file: No such file or directory"
  if (const std::size_t at = raw.find(": cannot open shared object file"); at != std::string::npos) {
    const std::string name = raw.substr(0, at);
    if (has(raw, "Permission denied"))
      return made(code::load_permission, concat("may not read ", name), concat("check the permissions of ", name));
    if (name == path) return made(code::load_other, "vanished while it was loaded", "look for it again");
    return missing(path, name, raw, found);
  }
  // musl: "Error loading shared library libx.so.1: No such file or directory (needed by /p/plugin.so)"
  if (const auto name = between(raw, "Error loading shared library ", ":")) return missing(path, *name, raw, found);
  // "/p/plugin.so: undefined symbol: name, version V" or "... name"
  if (auto symbol = between(raw, "undefined symbol: ", "")) {
    if (const std::size_t end = symbol->find_first_of(" ,\n("); end != std::string::npos) symbol->resize(end);
    return made(code::undefined_symbol, concat("uses the symbol '", *symbol, "', which no library here defines"),
                "install the versions of the libraries that the plugin was built with, or a newer build of "
                "the plugin");
  }
  // "/lib/libc.so.6: version `GLIBC_2.99' not found (required by /p/plugin.so)"
  if (const auto version = between(raw, "version `", "'"); version && has(raw, "not found")) {
    const std::string library = file_name(raw.substr(0, raw.find(':')));
    const bool system = version->starts_with("GLIBC");
    return made(code::symbol_version, concat("needs ", *version, ", which ", library, " of this system does not have"),
                system ? "install a build of the plugin for this release of the system, or upgrade the system"
                       : concat("install a newer ", library));
  }
  if (has(raw, "static TLS"))
    return made(code::tls, "no space is left for the thread-local variables that it needs at load time",
                "load it before other libraries, or set GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096");
  if (has(raw, "Permission denied") || has(raw, "Operation not permitted") || has(raw, "failed to map segment"))
    return made(code::load_permission, "the system does not let its code be mapped",
                "check the file's permissions, and that its file system is not mounted noexec");
  return made(code::load_other, concat("the system's linker refused it: ", raw), "install the plugin again");
}

}  // namespace quern::loader
