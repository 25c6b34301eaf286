// S0: files that are no plugin, or not for this machine, are refused without running them.
#include "cpu_features.hpp"
#include "fixture.hpp"
#include "inspect.hpp"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

namespace quern::loader {
namespace {

using testing::HasSubstr;

const std::string& good() {
  static const std::string bytes = read_whole(std::string(QUERN_ZOO) + "/libbackend_good.so");
  return bytes;
}

Verdict inspect_bytes(const std::string& bytes, Inspection& found, HostFacts facts = own_facts(false)) {
  const ReadAt read = [&bytes](std::uint64_t offset, void* to, std::uint64_t count) {
    if (offset > bytes.size() || count > bytes.size() - offset) return false;
    std::memcpy(to, bytes.data() + offset, count);
    return true;
  };
  return inspect("zoo.so", read, bytes.size(), facts, found);
}

Verdict inspect_bytes(const std::string& bytes) {
  Inspection found;
  return inspect_bytes(bytes, found);
}

template <typename T>
std::string patched(std::size_t at, T value) {
  std::string bytes = good();
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

std::size_t note_at() {
  const std::uint32_t magic = QUERN_NOTE_MAGIC;
  return good().find(std::string(reinterpret_cast<const char*>(&magic), 4));
}

std::string with_note(void (*change)(quern_note&)) {
  std::string bytes = good();
  quern_note note;
  std::memcpy(&note, bytes.data() + note_at(), sizeof note);
  change(note);
  std::memcpy(bytes.data() + note_at(), &note, sizeof note);
  return bytes;
}

TEST(Inspect, ReadsIdVersionDependenciesAndBuildFromAGoodPlugin) {
  Inspection found;
  EXPECT_TRUE(inspect_bytes(good(), found).ok());
  EXPECT_EQ(found.id, "good");
  EXPECT_EQ(found.version, "1.0");
  EXPECT_EQ(found.device_class, std::uint32_t{QUERN_DEVICE_CPU});
  ASSERT_EQ(found.dependencies.size(), 1u);
  EXPECT_EQ(found.dependencies[0].soname, "libzoo_driver.so.1");
  EXPECT_EQ(found.dependencies[0].package, "zoo-driver-package");
  EXPECT_THAT(found.needed, testing::Contains("libc.so.6"));
}

TEST(Inspect, AFileCutAtAnyPointOfItsLoadedPartIsRefused) {
  std::size_t end = 0;  // of the last loaded segment: what follows is not needed to run
  Elf64_Ehdr header;
  std::memcpy(&header, good().data(), sizeof header);
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, good().data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type == PT_LOAD) end = std::max<std::size_t>(end, segment.p_offset + segment.p_filesz);
  }
  ASSERT_GT(end, 1000u);
  for (std::size_t cut = 0; cut < end; cut += cut < 4096 ? 1 : 97) {
    const Verdict verdict = inspect_bytes(good().substr(0, cut));
    ASSERT_FALSE(verdict.ok()) << "cut at byte " << cut;
    ASSERT_THAT(verdict.code, testing::AnyOf("QUERN-L-0102", "QUERN-L-0103")) << "cut at byte " << cut;
    ASSERT_THAT(verdict.cause, HasSubstr("zoo.so"));
  }
  EXPECT_TRUE(inspect_bytes(good().substr(0, end)).ok()) << "section headers are not needed";
}

TEST(Inspect, RefusesTextAnEmptyFileAndAnotherFormat) {
  for (const std::string& bytes : {std::string("#!/bin/sh\n"), std::string(), std::string("MZ\x90"), std::string(5000, '\0')}) {
    EXPECT_EQ(inspect_bytes(bytes).code, "QUERN-L-0102");
    EXPECT_THAT(inspect_bytes(bytes).cause, HasSubstr("not a shared library"));
  }
}

TEST(Inspect, RefusesA32BitLibrary) {
  const Verdict verdict = inspect_bytes(patched<std::uint8_t>(EI_CLASS, ELFCLASS32));
  EXPECT_EQ(verdict.code, "QUERN-L-0104");
  EXPECT_THAT(verdict.cause, HasSubstr("32-bit"));
}

TEST(Inspect, RefusesAnotherMachineByName) {
  const std::uint16_t other = own_machine() == EM_AARCH64 ? EM_X86_64 : EM_AARCH64;
  const Verdict verdict = inspect_bytes(patched(offsetof(Elf64_Ehdr, e_machine), other));
  EXPECT_EQ(verdict.code, "QUERN-L-0105");
  EXPECT_THAT(verdict.cause, HasSubstr(other == EM_AARCH64 ? "built for aarch64" : "built for x86-64"));
}

TEST(Inspect, RefusesAnObjectFile) {
  EXPECT_EQ(inspect_bytes(patched<std::uint16_t>(offsetof(Elf64_Ehdr, e_type), ET_REL)).code, "QUERN-L-0106");
}

TEST(Inspect, RefusesHeaderOffsetsThatWrapAround) {
  const Verdict verdict = inspect_bytes(patched<std::uint64_t>(offsetof(Elf64_Ehdr, e_phoff), UINT64_MAX - 8));
  EXPECT_EQ(verdict.code, "QUERN-L-0103");
  EXPECT_THAT(verdict.cause, HasSubstr("18446744073709551607"));
}

TEST(Inspect, RefusesANoteSegmentThatClaimsMoreThanTheFileHas) {
  std::string bytes = good();
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    const std::size_t at = header.e_phoff + i * sizeof segment;
    std::memcpy(&segment, bytes.data() + at, sizeof segment);
    if (segment.p_type != PT_NOTE) continue;
    segment.p_filesz = UINT64_MAX;
    std::memcpy(bytes.data() + at, &segment, sizeof segment);
  }
  EXPECT_EQ(inspect_bytes(bytes).code, "QUERN-L-0103");
}

TEST(Inspect, ANoteBehindPaddingIsCalledPadded) {
  std::string bytes = good();
  const std::size_t at = note_at();
  bytes.replace(at, sizeof(quern_note), std::string(4, '\0') + bytes.substr(at, sizeof(quern_note) - 4));
  EXPECT_THAT(inspect_bytes(bytes).cause, HasSubstr("which stands 4 bytes further: is the struct around quern_note padded?"));
  EXPECT_THAT(inspect_bytes(with_note([](quern_note& n) { n.magic = 7; })).cause, testing::Not(HasSubstr("padded")));
}

TEST(Inspect, NamesTheFieldOfADamagedNote) {
  struct Case {
    void (*change)(quern_note&);
    const char* words;
  };
  const Case cases[] = {
      {[](quern_note& n) { n.note_size = 8; }, "note_size is 8"},
      {[](quern_note& n) { n.note_size = 4000; }, "note_size is 4000"},
      {[](quern_note& n) { n.dependencies_size = 0xffffffff; }, "dependencies_size is 4294967295"},
      {[](quern_note& n) { n.dependencies_size = 1000; }, "dependencies_size is 1000"},
      {[](quern_note& n) { std::memset(n.id, 'x', sizeof n.id); }, "id is not 1 to 31"},
      {[](quern_note& n) { std::memcpy(n.id, "../evil", 8); }, "id is not 1 to 31"},
      {[](quern_note& n) { n.id[0] = 0; }, "id is not 1 to 31"},
      {[](quern_note& n) { std::memset(n.version, '\x1b', 3); }, "version is not"},
      {[](quern_note& n) { n.device_class = 99; }, "device_class 99"},
      {[](quern_note& n) { n.magic = 7; }, "magic"},
  };
  for (const Case& c : cases) {
    const Verdict verdict = inspect_bytes(with_note(c.change));
    EXPECT_EQ(verdict.code, "QUERN-L-0108") << c.words;
    EXPECT_THAT(verdict.cause, HasSubstr(c.words));
  }
}

TEST(Inspect, KeepsTwoMinorsAndRefusesAnOlderPlugin) {
  HostFacts facts = own_facts(false);
  facts.abi_minor = 5;
  facts.abi_minor_min = 3;
  for (const std::uint32_t minor : {2u, 3u, 5u, 9u}) {
    std::string bytes = good();
    std::memcpy(bytes.data() + note_at() + offsetof(quern_note, abi_minor), &minor, 4);
    Inspection found;
    const Verdict verdict = inspect_bytes(bytes, found, facts);
    EXPECT_EQ(verdict.code, minor < 3 ? "QUERN-L-0110" : "QUERN-L-0000") << minor;
    if (minor < 3) { EXPECT_THAT(verdict.cause, HasSubstr("built for ABI 1.2, and this runtime accepts 1.3 and newer")); }
  }
}

TEST(Inspect, AReleasedHostRefusesADevelopmentPluginAndTakesATaggedOne) {
  HostFacts released = own_facts(false);
  released.header_hash = 0;
  for (const std::uint64_t hash : {std::uint64_t{0}, std::uint64_t{77}}) {
    std::string bytes = good();
    std::memcpy(bytes.data() + note_at() + offsetof(quern_note, header_hash), &hash, 8);
    Inspection found;
    const Verdict verdict = inspect_bytes(bytes, found, released);
    EXPECT_EQ(verdict.code, hash ? "QUERN-L-0112" : "QUERN-L-0000");
    if (hash) { EXPECT_THAT(verdict.cause, HasSubstr("this runtime was built from released headers")); }
  }
}

TEST(Inspect, RefusesAnotherSanitizer) {
  HostFacts facts = own_facts(false);
  facts.sanitizer = facts.sanitizer == 2 ? 0 : 2;
  Inspection found;
  EXPECT_EQ(inspect_bytes(good(), found, facts).code, "QUERN-L-0114");
}

TEST(Inspect, NamesTheProcessorFeaturesThatAreMissing) {
  HostFacts facts = own_facts(false);
  facts.cpu_features = QUERN_CPU_AVX2;
  std::string bytes = good();
  const std::uint64_t needed = QUERN_CPU_AVX2 | QUERN_CPU_AVX512_VNNI | QUERN_CPU_AMX;
  std::memcpy(bytes.data() + note_at() + offsetof(quern_note, cpu_features), &needed, 8);
  Inspection found;
  const Verdict verdict = inspect_bytes(bytes, found, facts);
  EXPECT_EQ(verdict.code, "QUERN-L-0113");
  EXPECT_THAT(verdict.cause, testing::EndsWith("avx512 vnni, amx"));
}

TEST(Inspect, RefusesAFileThatEveryoneMayWriteTo) {
  Folder folder;
  write_file(folder / "libbackend_good.so", good());
  ASSERT_EQ(::chmod((folder / "libbackend_good.so").c_str(), 0666), 0);
  Inspection found;
  const Verdict verdict = inspect_file(folder / "libbackend_good.so", own_facts(false), found);
  EXPECT_EQ(verdict.code, "QUERN-L-0012");
  EXPECT_THAT(verdict.remedy, HasSubstr("chmod o-w"));
}

TEST(Inspect, RefusesAFileOfAnotherUserOrGroup) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  Folder folder;
  const std::string file = folder / "libbackend_good.so";
  write_file(file, good());
  ASSERT_EQ(::chown(file.c_str(), 0, 54321), 0);
  ASSERT_EQ(::chmod(file.c_str(), 0664), 0);
  Inspection found;
  const Verdict group = inspect_file(file, own_facts(false), found);
  EXPECT_EQ(group.code, "QUERN-L-0012");
  EXPECT_THAT(group.cause, HasSubstr("the group 54321 may write to this file"));
  ASSERT_EQ(::chown(file.c_str(), 54321, 0), 0);
  EXPECT_EQ(inspect_file(file, own_facts(false), found).code, "QUERN-L-0013");
}

TEST(Inspect, DoesNotWaitForAFifo) {
  Folder folder;
  ASSERT_EQ(::mkfifo((folder / "libbackend_pipe.so").c_str(), 0600), 0);
  Inspection found;
  EXPECT_EQ(inspect_file(folder / "libbackend_pipe.so", own_facts(false), found).code, "QUERN-L-0102");
}

#if defined(__x86_64__)
TEST(CpuFeatures, AgreeWithTheCompilersOwnCheck) {
  const std::uint64_t usable = usable_cpu_features();
  EXPECT_EQ((usable & QUERN_CPU_AVX2) != 0, __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ((usable & QUERN_CPU_FMA) != 0, __builtin_cpu_supports("fma") != 0);
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  EXPECT_EQ((usable & QUERN_CPU_AVX512) != 0, avx512);
}
#endif

}  // namespace
}  // namespace quern::loader
