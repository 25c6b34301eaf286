// See library.hpp.
#include "abi/library.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstring>

namespace quern::conformance::abi {
namespace {

/// A handle of the library that is already in this process; it stays there, so the handle may go.
link_map* loaded(ScriptContext& t) {
  const std::string& path = t.device().plugin()->path();
  if (path.starts_with("registered:")) t.waive("no library", "the plugin is registered by pointer");
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  t.require(handle != nullptr, "the plugin's library " + path + " is in the process that opened its device");
  link_map* map = nullptr;
  t.require(::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0, "the library has a link map");
  return map;
}

/// Symbols in the table: the GNU hash table ends with the chain of the last bucket.
std::size_t symbol_count(const std::uint32_t* hash) {
  const std::uint32_t buckets = hash[0], first = hash[1], bloom = hash[2];
  const auto* bucket = reinterpret_cast<const std::uint32_t*>(reinterpret_cast<const char*>(hash + 4) + bloom * sizeof(ElfW(Addr)));
  const std::uint32_t* chain = bucket + buckets;
  std::uint32_t last = 0;
  for (std::uint32_t b = 0; b < buckets; ++b) last = std::max(last, bucket[b]);
  if (last < first) return first;
  while ((chain[last - first] & 1u) == 0) ++last;
  return last + 1;
}

struct NoteSearch {
  ElfW(Addr) base;
  Library* library;
};

int find_note(dl_phdr_info* info, std::size_t, void* data) {
  const auto& search = *static_cast<NoteSearch*>(data);
  if (info->dlpi_addr != search.base) return 0;
  for (int p = 0; p < info->dlpi_phnum; ++p) {
    if (info->dlpi_phdr[p].p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(info->dlpi_addr + info->dlpi_phdr[p].p_vaddr);
    const char* end = at + info->dlpi_phdr[p].p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) head;
      std::memcpy(&head, at, sizeof head);
      const char* name = at + sizeof head;
      const std::uint64_t name_bytes = (std::uint64_t{head.n_namesz} + 3) / 4 * 4,
                          content_bytes = (std::uint64_t{head.n_descsz} + 3) / 4 * 4;
      if (name_bytes + content_bytes > static_cast<std::uint64_t>(end - name)) break;
      if (head.n_type == QUERN_NOTE_TYPE && head.n_namesz == sizeof(QUERN_NOTE_NAME) &&
          std::memcmp(name, QUERN_NOTE_NAME, head.n_namesz) == 0 && head.n_descsz >= sizeof(quern_note)) {
        std::memcpy(&search.library->note, name + name_bytes, sizeof(quern_note));
        search.library->has_note = true;
        return 1;  // behind it may lie what AddressSanitizer puts behind a variable
      }
      at = name + name_bytes + content_bytes;
    }
  }
  return 1;
}

}  // namespace

Library inspect_library(ScriptContext& t) {
  const link_map* map = loaded(t);
  const ElfW(Sym)* symbols = nullptr;
  const char* strings = nullptr;
  const std::uint32_t* hash = nullptr;
  std::vector<std::size_t> needed;
  for (const ElfW(Dyn)* d = map->l_ld; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(d->d_un.d_ptr);
    if (d->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(d->d_un.d_ptr);
    if (d->d_tag == DT_GNU_HASH) hash = reinterpret_cast<const std::uint32_t*>(d->d_un.d_ptr);
    if (d->d_tag == DT_NEEDED) needed.push_back(d->d_un.d_val);
  }
  t.require(symbols != nullptr && strings != nullptr && hash != nullptr, "the library has a dynamic symbol table with a GNU hash");
  Library library;
  for (const std::size_t at : needed) library.needed.emplace_back(strings + at);
  for (std::size_t i = 1, count = symbol_count(hash); i < count; ++i) {
    const unsigned bind = ELF64_ST_BIND(symbols[i].st_info), visibility = ELF64_ST_VISIBILITY(symbols[i].st_other);
    if (symbols[i].st_shndx == SHN_UNDEF || bind == STB_LOCAL || visibility == STV_HIDDEN || visibility == STV_INTERNAL) continue;
    library.exported.emplace_back(strings + symbols[i].st_name);
    library.has_unique = library.has_unique || bind == STB_GNU_UNIQUE;
  }
  NoteSearch search{map->l_addr, &library};
  ::dl_iterate_phdr(find_note, &search);
  return library;
}

quern_plugin_query_fn query_of(ScriptContext& t) {
  loaded(t);
  void* handle = ::dlopen(t.device().plugin()->path().c_str(), RTLD_NOW | RTLD_NOLOAD);
  void* symbol = ::dlsym(handle, QUERN_PLUGIN_QUERY_NAME);
  t.require(symbol != nullptr, std::string("the library exports ") + QUERN_PLUGIN_QUERY_NAME);
  return reinterpret_cast<quern_plugin_query_fn>(symbol);
}

}  // namespace quern::conformance::abi
