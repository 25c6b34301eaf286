// Reads what an ELF shared library says of itself: header, program headers, notes, and the needed libraries.
//
// Section headers are never used: strip may remove them, and the loader of the system does not look at them
// either.
#include "elf_reader.hpp"

#include "quern/graph/error.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace quern::loader {
namespace {

constexpr std::uint64_t max_program_headers = 256;
constexpr std::uint64_t max_note_segment = 64 * 1024;
constexpr std::size_t max_notes = 64;
constexpr std::uint64_t max_dynamic_entries = 4096;
constexpr std::size_t max_needed = 256;
constexpr std::uint64_t max_name = 255;

const char* const reinstall = "install the plugin again; the file is damaged";

class Reader {
 public:
  Reader(const std::string& name, const ReadAt& read, std::uint64_t size) : name_(name), read_(read), size_(size) {}

  bool inside(std::uint64_t offset, std::uint64_t bytes) const { return offset <= size_ && bytes <= size_ - offset; }

  /// Reads an object; what: the part of the file, for the message.
  template <typename T>
  std::optional<Verdict> get(std::uint64_t offset, T& to, const char* what) const {
    return bytes(offset, &to, sizeof(T), what);
  }

  std::optional<Verdict> bytes(std::uint64_t offset, void* to, std::uint64_t count, const char* what) const {
    if (!inside(offset, count))
      return malformed(concat(what, " takes ", count, " bytes at byte ", offset, " but the file has ", size_, " bytes"));
    if (count == 0) return std::nullopt;  // an empty list has no address to read to
    if (!read_(offset, to, count))
      return Verdict{
          code::file_unreadable, concat(name_, ": ", what, " at byte ", offset, " could not be read"), "check the file and its disk", {}};
    return std::nullopt;
  }

  Verdict malformed(const std::string& what) const {
    return {code::elf_malformed, concat(name_, ": malformed ELF file: ", what), reinstall, {}};
  }

  const std::string& name() const { return name_; }

 private:
  const std::string& name_;
  const ReadAt& read_;
  std::uint64_t size_;
};

const char* machine_name(std::uint16_t machine) {
  switch (machine) {
    case EM_386: return "32-bit x86";
    case EM_ARM: return "32-bit arm";
    case EM_PPC64: return "ppc64";
    case EM_S390: return "s390x";
    case EM_X86_64: return "x86-64";
    case EM_AARCH64: return "aarch64";
    case EM_RISCV: return "risc-v";
    case 258: return "loongarch";
    default: return nullptr;
  }
}

std::string describe_machine(std::uint16_t machine) {
  if (const char* known = machine_name(machine)) return known;
  return concat("machine ", machine);
}

std::optional<Verdict> check_header(const Reader& reader, std::uint64_t size, std::uint16_t machine, Elf64_Ehdr& header) {
  std::uint8_t ident[EI_NIDENT] = {};
  const std::uint64_t have = std::min<std::uint64_t>(size, sizeof ident);
  if (auto bad = reader.bytes(0, ident, have, "the ELF identification")) return bad;
  if (std::memcmp(ident, ELFMAG, SELFMAG) != 0)
    return Verdict{code::not_elf,
                   concat(reader.name(), ": not a shared library: it does not start with the ELF magic"),
                   "remove the file or install the plugin again",
                   {}};
  if (ident[EI_CLASS] == ELFCLASS32)
    return Verdict{code::elf_class,
                   concat(reader.name(), ": a 32-bit library, and this program has 64 bits"),
                   "install the plugin for this architecture",
                   {}};
  if (have == sizeof ident && ident[EI_CLASS] != ELFCLASS64)
    return reader.malformed(concat("class ", int{ident[EI_CLASS]}, " is neither 32 nor 64 bits"));
  if (auto bad = reader.get(0, header, "the ELF header")) return bad;
  if (ident[EI_DATA] != ELFDATA2LSB || header.e_machine != machine)
    return Verdict{code::elf_machine,
                   concat(reader.name(), ": built for ", describe_machine(header.e_machine),
                          ident[EI_DATA] == ELFDATA2LSB ? "" : " (big-endian)", ", and this machine is ", describe_machine(machine)),
                   "install the plugin for this architecture",
                   {}};
  if (header.e_type != ET_DYN)
    return Verdict{code::elf_type,
                   concat(reader.name(), ": ELF type ", header.e_type, " is not a shared library (3)"),
                   "install the plugin again; this is another kind of file",
                   {}};
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 || header.e_phnum > max_program_headers)
    return reader.malformed(concat(header.e_phnum, " program headers of ", header.e_phentsize, " bytes; expected 1 to ",
                                   max_program_headers, " of ", sizeof(Elf64_Phdr)));
  return std::nullopt;
}

std::optional<Verdict> read_notes(const Reader& reader, const Elf64_Phdr& segment, ElfFacts& facts) {
  if (segment.p_filesz > max_note_segment)
    return reader.malformed(concat("a note segment has ", segment.p_filesz, " bytes, more than ", max_note_segment));
  if (!reader.inside(segment.p_offset, segment.p_filesz))  // before the allocation
    return reader.malformed(concat("a note segment takes ", segment.p_filesz, " bytes at byte ", segment.p_offset,
                                   ", beyond the end of the file"));
  std::vector<std::uint8_t> bytes(segment.p_filesz);
  if (auto bad = reader.bytes(segment.p_offset, bytes.data(), bytes.size(), "a note segment")) return bad;

  const std::uint64_t align = segment.p_align == 8 ? 8 : 4;
  const auto padded = [align](std::uint64_t n) { return (n + align - 1) / align * align; };
  std::uint64_t at = 0;
  while (bytes.size() - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, bytes.data() + at, sizeof note);
    // Both sizes are 32 bits, so none of these sums can wrap.
    const std::uint64_t name_at = at + sizeof note;
    const std::uint64_t descriptor_at = at + padded(sizeof note + std::uint64_t{note.n_namesz});
    const std::uint64_t end = descriptor_at + note.n_descsz;
    if (name_at + note.n_namesz > bytes.size() || end > bytes.size())
      return reader.malformed(concat("a note of ", note.n_namesz, " and ", note.n_descsz, " bytes does not fit its segment of ",
                                     bytes.size(), " bytes"));
    if (facts.notes.size() == max_notes) return reader.malformed(concat("more than ", max_notes, " notes"));
    ElfNote& entry = facts.notes.emplace_back();
    const char* name = reinterpret_cast<const char*>(bytes.data() + name_at);
    entry.name.assign(name, strnlen(name, note.n_namesz));
    entry.type = note.n_type;
    entry.descriptor.assign(bytes.begin() + static_cast<std::ptrdiff_t>(descriptor_at), bytes.begin() + static_cast<std::ptrdiff_t>(end));
    at = std::min<std::uint64_t>(padded(end), bytes.size());
  }
  return std::nullopt;
}

/// The file offset of a virtual address, through the loaded segments.
std::optional<std::uint64_t> file_offset(const std::vector<Elf64_Phdr>& segments, std::uint64_t address) {
  for (const Elf64_Phdr& s : segments)
    if (s.p_type == PT_LOAD && address >= s.p_vaddr && address - s.p_vaddr < s.p_filesz && s.p_offset <= UINT64_MAX - (address - s.p_vaddr))
      return s.p_offset + (address - s.p_vaddr);
  return std::nullopt;
}

std::optional<Verdict> read_needed(const Reader& reader, const std::vector<Elf64_Phdr>& segments, const Elf64_Phdr& dynamic,
                                   ElfFacts& facts) {
  const std::uint64_t entries = dynamic.p_filesz / sizeof(Elf64_Dyn);
  if (entries > max_dynamic_entries) return reader.malformed(concat(entries, " dynamic entries, more than ", max_dynamic_entries));
  if (!reader.inside(dynamic.p_offset, dynamic.p_filesz)) return reader.malformed("the dynamic segment lies beyond the end of the file");
  std::vector<Elf64_Dyn> table(entries);
  if (auto bad = reader.bytes(dynamic.p_offset, table.data(), entries * sizeof(Elf64_Dyn), "the dynamic segment")) return bad;

  std::uint64_t strings = 0, strings_size = 0;
  std::vector<std::uint64_t> names;
  for (const Elf64_Dyn& entry : table) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_STRTAB) strings = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) strings_size = entry.d_un.d_val;
    if (entry.d_tag == DT_NEEDED) names.push_back(entry.d_un.d_val);
  }
  if (names.size() > max_needed) return reader.malformed(concat(names.size(), " needed libraries, more than ", max_needed));
  if (names.empty()) return std::nullopt;
  const std::optional<std::uint64_t> base = file_offset(segments, strings);
  if (!base || !reader.inside(*base, strings_size)) return reader.malformed("its string table lies outside of the file");
  for (const std::uint64_t at : names) {
    if (at >= strings_size)
      return reader.malformed(concat("the name of a needed library is at ", at, " of a string table of ", strings_size, " bytes"));
    char name[max_name + 1] = {};
    const std::uint64_t have = std::min(max_name, strings_size - at);
    if (auto bad = reader.bytes(*base + at, name, have, "the name of a needed library")) return bad;
    facts.needed.emplace_back(name);
  }
  return std::nullopt;
}

}  // namespace

std::uint16_t own_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#elif defined(__riscv)
  return EM_RISCV;
#elif defined(__powerpc64__)
  return EM_PPC64;
#else
#error "say which e_machine this architecture has"
#endif
}

Verdict read_elf(const std::string& name, const ReadAt& read, std::uint64_t size, std::uint16_t machine, ElfFacts& facts) {
  const Reader reader(name, read, size);
  Elf64_Ehdr header;
  if (auto bad = check_header(reader, size, machine, header)) return *bad;

  const std::uint64_t table_bytes = std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  if (!reader.inside(header.e_phoff, table_bytes))
    return reader.malformed(concat("the program headers take ", table_bytes, " bytes at byte ", header.e_phoff, " but the file has ", size,
                                   " bytes"));
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  if (auto bad = reader.bytes(header.e_phoff, segments.data(), table_bytes, "the program headers")) return *bad;

  for (const Elf64_Phdr& segment : segments) {
    // The system's loader maps what it is told; behind the end of a cut file that is a SIGBUS at the first
    // touch.
    if (segment.p_type == PT_LOAD && !reader.inside(segment.p_offset, segment.p_filesz))
      return reader.malformed(concat("a segment takes ", segment.p_filesz, " bytes at byte ", segment.p_offset, " but the file has ", size,
                                     " bytes; it is cut off"));
    if (segment.p_type == PT_NOTE)
      if (auto bad = read_notes(reader, segment, facts)) return *bad;
    if (segment.p_type == PT_DYNAMIC)
      if (auto bad = read_needed(reader, segments, segment, facts)) return *bad;
  }
  for (const ElfNote& note : facts.notes)
    if (note.name == "GNU" && note.type == NT_GNU_BUILD_ID && facts.build_id.empty())
      for (const std::uint8_t byte : note.descriptor) {
        const char* digits = "0123456789abcdef";
        facts.build_id += digits[byte >> 4];
        facts.build_id += digits[byte & 15];
      }
  return {};
}

}  // namespace quern::loader
