// S0: judges a plugin's file by its note, without running any of its code.
#pragma once

#include "elf_reader.hpp"
#include "verdict.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace quern::loader {

/// What a plugin is measured against. The defaults are this build's and this machine's.
struct HostFacts {
  std::uint16_t machine = own_machine();
  std::uint32_t abi_minor = QUERN_ABI_MINOR;
  std::uint32_t abi_minor_min = QUERN_ABI_MINOR > QUERN_ABI_MINOR_SUPPORTED ? QUERN_ABI_MINOR - QUERN_ABI_MINOR_SUPPORTED : 0;
  std::uint64_t header_hash = 0;
  std::uint64_t cpu_features = 0;
  std::uint32_t sanitizer = 0;
  bool allow_dev_plugins = false;
};
HostFacts own_facts(bool allow_dev_plugins);

/// One row of the note's dependency text "soname=package;...".
struct Dependency {
  std::string soname;
  std::string package;  // what to install; may be empty
};

/// What the file says, checked.
struct Inspection {
  std::string id;
  std::string version;
  std::uint32_t device_class = QUERN_DEVICE_OTHER;
  std::uint32_t abi_minor = 0;
  std::uint64_t header_hash = 0;
  std::vector<Dependency> dependencies;
  std::vector<std::string> needed;  // DT_NEEDED
  std::string build_id;             // hex, or empty
};

/// Inspects a file of `size` bytes. As much of `found` is filled as could be read.
Verdict inspect(const std::string& name, const ReadAt& read, std::uint64_t size, const HostFacts& host, Inspection& found);

/// Inspects a file on disk: a regular file, not writable by everyone.
Verdict inspect_file(const std::string& path, const HostFacts& host, Inspection& found);

/// "install nvidia-driver" for the library of that name, or a general sentence.
std::string remedy_for_library(const std::string& soname, const std::vector<Dependency>& dependencies);

}  // namespace quern::loader
