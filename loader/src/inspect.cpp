// S0: judges a plugin's file by its note. The order of the checks is the order in which a user can act on
// them.
#include "inspect.hpp"

#include "cpu_features.hpp"
#include "trust.hpp"
#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"
#include "quern/quern_min_sizes.h"
#include "quern/quern_sanitizer.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <iomanip>

namespace quern::loader {
namespace {

constexpr std::uint32_t max_dependency_text = 16 * 1024;

std::string hex(std::uint64_t value) {
  std::ostringstream out;
  out << std::hex << std::setw(16) << std::setfill('0') << value;
  return out.str();
}

const char* sanitizer_name(std::uint32_t sanitizer) {
  switch (sanitizer) {
    case 0: return "no sanitizer";
    case 1: return "the address sanitizer";
    case 2: return "the thread sanitizer";
    default: return "an unknown sanitizer";
  }
}

bool is_id(const std::string& text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'; });
}

bool is_plain_text(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

std::vector<Dependency> parse_dependencies(const std::string& text) {
  std::vector<Dependency> rows;
  std::istringstream in(text);
  for (std::string row; std::getline(in, row, ';') && rows.size() < 64;) {
    const std::size_t equals = row.find('=');
    Dependency d{row.substr(0, equals), equals == std::string::npos ? "" : row.substr(equals + 1)};
    if (!d.soname.empty()) rows.push_back(std::move(d));
  }
  return rows;
}

Verdict malformed_note(const std::string& name, const std::string& what) {
  return {code::note_malformed,
          concat(name, ": malformed plugin note: ", what),
          "install the plugin again, or ask its author for a build against the current headers",
          {}};
}

/// Where a compiler put padding in front of the note, as it does in a struct that is not packed; else empty.
std::string padding_before_magic(const std::vector<std::uint8_t>& bytes) {
  const std::uint32_t magic = QUERN_NOTE_MAGIC;
  for (const std::size_t at : {std::size_t{4}, std::size_t{8}, std::size_t{12}})
    if (bytes.size() >= at + sizeof magic && std::memcmp(bytes.data() + at, &magic, sizeof magic) == 0)
      return concat(", which stands ", at, " bytes further: is the struct around quern_note padded? pack it, as QUERN_PLUGIN_NOTE does");
  return {};
}

Verdict parse_note(const std::string& name, const std::vector<std::uint8_t>& bytes, quern_note& note, Inspection& found) {
  if (bytes.size() < QUERN_MIN_SIZE_quern_note)
    return malformed_note(name, concat("it has ", bytes.size(), " bytes, fewer than ", QUERN_MIN_SIZE_quern_note));
  std::memcpy(&note, bytes.data(), std::min(bytes.size(), sizeof note));
  if (note.magic != QUERN_NOTE_MAGIC)
    return malformed_note(name, concat("magic ", hex(note.magic), " instead of ", hex(QUERN_NOTE_MAGIC), padding_before_magic(bytes)));
  if (note.note_size < QUERN_MIN_SIZE_quern_note || note.note_size > bytes.size())
    return malformed_note(name, concat("note_size is ", note.note_size, " in a note of ", bytes.size(), " bytes"));
  if (note.dependencies_size > max_dependency_text || note.dependencies_size > bytes.size() - note.note_size)
    return malformed_note(name, concat("dependencies_size is ", note.dependencies_size, " but ", bytes.size() - note.note_size,
                                       " bytes follow the note"));
  const auto text = [](const char(&field)[32]) { return std::string(field, strnlen(field, sizeof field)); };
  found.id = text(note.id);
  found.version = text(note.version);
  if (found.id.size() == sizeof note.id || !is_id(found.id)) {
    found.id.clear();
    return malformed_note(name, "its id is not 1 to 31 of the characters a-z 0-9 _ -");
  }
  if (found.version.size() == sizeof note.version || !is_plain_text(found.version)) {
    found.version.clear();
    return malformed_note(name, "its version is not up to 31 printable characters");
  }
  const char* behind = reinterpret_cast<const char*>(bytes.data()) + note.note_size;
  const std::string dependencies(behind, strnlen(behind, note.dependencies_size));
  if (!is_plain_text(dependencies)) return malformed_note(name, "its dependency text is not printable");
  if (note.device_class < QUERN_DEVICE_DISCRETE || note.device_class > QUERN_DEVICE_OTHER)
    return malformed_note(name, concat("device_class ", note.device_class, " is unknown"));
  found.dependencies = parse_dependencies(dependencies);
  found.device_class = note.device_class;
  found.abi_minor = note.abi_minor;
  found.header_hash = note.header_hash;
  return {};
}

Verdict check_note(const std::string& name, const quern_note& note, const HostFacts& host) {
  if (!(note.epochs >> QUERN_ABI_EPOCH & 1))
    return {code::epoch,
            concat(name, ": offers plugin ABI epochs with mask ", note.epochs, ", and this runtime speaks epoch ", QUERN_ABI_EPOCH),
            concat("install the plugin for backends-", QUERN_ABI_EPOCH),
            {}};
  if (note.min_host_minor > host.abi_minor)
    return {code::host_too_old,
            concat(name, ": needs runtime ABI ", QUERN_ABI_EPOCH, ".", note.min_host_minor, " or newer, and this is ", QUERN_ABI_EPOCH, ".",
                   host.abi_minor),
            "install a newer quern runtime, or an older version of the plugin",
            {}};
  if (note.abi_minor < host.abi_minor_min)
    return {code::plugin_too_old,
            concat(name, ": built for ABI ", QUERN_ABI_EPOCH, ".", note.abi_minor, ", and this runtime accepts ", QUERN_ABI_EPOCH, ".",
                   host.abi_minor_min, " and newer"),
            "install a newer version of the plugin",
            {}};
  if (note.header_hash != 0 && note.header_hash != host.header_hash && !host.allow_dev_plugins)
    return {code::header_hash,
            concat(name, ": built from development headers with hash ", hex(note.header_hash), ", and this runtime ",
                   host.header_hash == 0 ? std::string("was built from released headers") : "has hash " + hex(host.header_hash)),
            "build plugin and runtime from the same headers, or set QUERN_ALLOW_DEV_PLUGINS=1 to load it all "
            "the same",
            {}};
  if (note.sanitizer != host.sanitizer)
    return {code::sanitizer,
            concat(name, ": built with ", sanitizer_name(note.sanitizer), ", and this program with ", sanitizer_name(host.sanitizer)),
            "build both the same way",
            {}};
  if (const std::uint64_t missing = note.cpu_features & ~host.cpu_features)
    return {code::cpu_features,
            concat(name, ": needs processor features that cannot be used here: ", feature_names(missing)),
            "install a plugin built for this processor",
            {}};
  return {};
}

}  // namespace

HostFacts own_facts(bool allow_dev_plugins) {
  HostFacts facts;
  facts.header_hash = QUERN_HEADER_HASH;
  facts.cpu_features = usable_cpu_features();
  facts.allow_dev_plugins = allow_dev_plugins;
  facts.sanitizer = QUERN_SANITIZER;
  return facts;
}

Verdict inspect(const std::string& name, const ReadAt& read, std::uint64_t size, const HostFacts& host, Inspection& found) {
  ElfFacts facts;
  if (Verdict bad = read_elf(name, read, size, host.machine, facts); !bad.ok()) return bad;
  found.build_id = facts.build_id;
  found.needed = facts.needed;
  const auto is_ours = [](const ElfNote& n) { return n.name == QUERN_NOTE_NAME && n.type == QUERN_NOTE_TYPE; };
  const auto ours = std::ranges::find_if(facts.notes, is_ours);
  if (ours == facts.notes.end())
    return {code::no_note,
            concat(name, ": has no note of a quern plugin (section ", QUERN_NOTE_SECTION, ")"),
            "remove the file from the plugin directory; it belongs to another program or was built without "
            "the note",
            {}};
  if (std::ranges::count_if(facts.notes, is_ours) > 1) return malformed_note(name, "there is more than one");
  quern_note note{};
  if (Verdict bad = parse_note(name, ours->descriptor, note, found); !bad.ok()) return bad;
  return check_note(name, note, host);
}

Verdict inspect_file(const std::string& path, const HostFacts& host, Inspection& found) {
  base::OpenedFile file;
  if (const base::FileProblem problem = base::open_file(path, file)) {
    if (problem.fault == base::FileFault::wrong_kind) return {code::not_elf, problem.text, "remove it from the plugin directory", {}};
    return {code::file_unreadable, problem.text, "check the file's permissions", {}};
  }
  const struct stat& info = file.status;
  if (const auto others = others_who_may_write(path, info))
    return {others->owner ? code::foreign_owner : code::file_writable,
            concat(path, ": ", others->who, " may write to this file, so its code cannot be trusted"),
            others->remedy,
            {}};
  const ReadAt read = [&](std::uint64_t offset, void* to, std::uint64_t bytes) {
    return !base::read_at(file.descriptor.get(), path, offset, {static_cast<std::byte*>(to), static_cast<std::size_t>(bytes)});
  };
  return inspect(path, read, static_cast<std::uint64_t>(info.st_size), host, found);
}

std::string remedy_for_library(const std::string& soname, const std::vector<Dependency>& dependencies) {
  // "libcuda.so" and "libcuda.so.1" are one library for this purpose.
  for (const Dependency& d : dependencies)
    if (!d.package.empty() && (d.soname == soname || soname.starts_with(d.soname + ".") || d.soname.starts_with(soname + ".")))
      return concat("install ", d.package);
  return concat("install the package that has ", soname);
}

}  // namespace quern::loader
