// See shared_libraries.hpp.
#include "shared_libraries.hpp"

#include "elf_reader.hpp"
#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>

namespace quern::loader {
namespace {

namespace fs = std::filesystem;

std::string read_whole(const std::string& path) {
  std::string text;
  (void)base::read_file(path, text);
  return text;
}

/// Whether the linker would stop at this path: any file that it can open, whatever it is.
bool is_there(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

/// The linker passes over a library of another class or machine, and stops at one that is no library.
bool is_passed_over(const FoundLibrary& library) {
  return library.verdict.code == code::elf_class || library.verdict.code == code::elf_machine;
}

std::vector<std::string> split(const char* text) {
  std::vector<std::string> parts;
  std::string_view rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find_first_of(":;"), rest.size());
    if (end > 0 && rest.front() == '/') parts.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return parts;
}

template <typename T>
T number_at(const std::string& bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

/// "580.65.06" of "libcuda.so.580.65.06".
std::string version_of(const std::string& path, const std::string& real) {
  const std::string name = real.substr(real.rfind('/') + 1);
  const std::size_t at = name.find(".so.");
  if (at == std::string::npos || real == path) return {};
  const std::string version = name.substr(at + 4);
  return version.find('.') == std::string::npos ? std::string() : version;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> parse_ld_cache(const std::string& bytes) {
  constexpr std::string_view magic = "glibc-ld.so.cache1.1";
  constexpr std::size_t head = 48, row = 24;
  std::vector<std::pair<std::string, std::string>> found;
  const std::size_t start = bytes.find(magic);
  if (start == std::string::npos || bytes.size() - start < head) return found;
  const auto count = number_at<std::uint32_t>(bytes, start + magic.size());
  if (count > (bytes.size() - start - head) / row) return found;
  const auto text = [&](std::uint32_t offset) -> std::string {
    if (offset >= bytes.size() - start) return {};
    const char* first = bytes.data() + start + offset;
    return std::string(first, strnlen(first, bytes.size() - start - offset));
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t at = start + head + std::size_t{i} * row;
    found.emplace_back(text(number_at<std::uint32_t>(bytes, at + 4)), text(number_at<std::uint32_t>(bytes, at + 8)));
  }
  return found;
}

FoundLibrary inspect_library(const std::string& path) {
  FoundLibrary found{path, {}, {}};
  std::error_code failed;
  const fs::path real = fs::canonical(path, failed);
  base::OpenedFile file;
  if (const base::FileProblem problem = base::open_file(path, file)) {
    found.verdict = {code::library_broken, problem.text, "check the file's permissions", {}};
    return found;
  }
  found.version = version_of(path, failed ? path : real.string());
  const ReadAt read = [&](std::uint64_t offset, void* to, std::uint64_t bytes) {
    return !base::read_at(file.descriptor.get(), path, offset, {static_cast<std::byte*>(to), static_cast<std::size_t>(bytes)});
  };
  ElfFacts facts;
  found.verdict = read_elf(path, read, static_cast<std::uint64_t>(file.status.st_size), own_machine(), facts);
  return found;
}

std::optional<FoundLibrary> find_library(const std::string& soname, const Settings& settings) {
  std::vector<std::string> places;
  for (const std::string& folder : split(std::getenv("LD_LIBRARY_PATH"))) places.push_back(folder + "/" + soname);
  for (const auto& [name, path] : parse_ld_cache(read_whole(settings.etc_root + "/ld.so.cache")))
    if (name == soname) places.push_back(path);
  for (const char* folder : {"/lib/" QUERN_MULTIARCH, "/lib64", "/lib"}) places.push_back(settings.usr_root + folder + "/" + soname);
  for (const std::string& place : places) {
    if (!is_there(place)) continue;
    FoundLibrary found = inspect_library(place);
    if (!is_passed_over(found)) return found;
  }
  return std::nullopt;
}

}  // namespace quern::loader
