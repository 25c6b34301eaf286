// Where plugins are looked for, and which of two wins.
#include "discovery.hpp"
#include "fixture.hpp"
#include "location.hpp"
#include "trust.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace quern::loader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Discovery, ApiThenExtraThenPathEachSorted) {
  Machine m;
  m.add({"second", "good"}, "api");
  m.add({"cpu"}, "extra");
  m.add({"vulkan", "cuda"}, "path");
  Settings s;
  s.directories.set({m.root / "api"}, "api");
  s.extra_path.set({m.root / "extra"}, "QUERN_BACKEND_EXTRA_PATH");
  s.backend_path.set({m.root / "path"}, "QUERN_BACKEND_PATH");
  const Discovery found = discover(s, {m.root / "plugins"});
  EXPECT_THAT(found.files, ElementsAre(m.plugin("good", "api"), m.plugin("second", "api"), m.plugin("cpu", "extra"),
                                       m.plugin("cuda", "path"), m.plugin("vulkan", "path")));
  EXPECT_THAT(found.directories, ElementsAre(m.root / "api", m.root / "extra", m.root / "path")) << "the path replaces the default";
}

TEST(Discovery, TheDefaultIsTheFirstThatExists) {
  Machine m;
  m.add({"good"});
  const Discovery found = discover(Settings(), {m.root / "nowhere", m.root / "plugins"});
  EXPECT_THAT(found.directories, ElementsAre(m.root / "plugins"));
  EXPECT_TRUE(found.notes.empty());
}

TEST(Discovery, NoDefaultIsANoteThatNamesWhereItLooked) {
  Machine m;
  const Discovery found = discover(Settings(), {m.root / "a", m.root / "b"});
  ASSERT_EQ(found.notes.size(), 1u);
  EXPECT_EQ(found.notes[0].code, "QUERN-L-0005");
  EXPECT_THAT(found.notes[0].cause, HasSubstr(m.root / "a" + ", " + m.root / "b"));
}

TEST(Discovery, OnlyPluginNamesAreCandidates) {
  Machine m;
  for (const char* name : {"libbackend_.so", "libbackend_x.so.1", "backend_x.so", "libother.so", "notes.txt"})
    write_file(m.root / "plugins/" + name, "x");
  EXPECT_TRUE(discover(Settings(), {m.root / "plugins"}).files.empty());
}

TEST(Discovery, TheSameFileByTwoNamesCountsOnce) {
  Machine m;
  m.add({"good"});
  std::filesystem::create_symlink(m.plugin("good"), m.root / "plugins/libbackend_twin.so");
  const Discovery found = discover(Settings(), {m.root / "plugins"});
  EXPECT_THAT(found.files, ElementsAre(m.plugin("good")));
  EXPECT_EQ(found.notes.at(0).code, "QUERN-L-0008");
}

TEST(Discovery, ARelativeDirectoryIsNeverSearched) {
  Machine m;
  m.add({"good"});
  const std::string before = std::filesystem::current_path();
  ASSERT_EQ(::chdir(m.root.path().c_str()), 0);
  Settings s;
  s.backend_path.set({"plugins", "."}, "QUERN_BACKEND_PATH");
  const Discovery found = discover(s, {});
  ASSERT_EQ(::chdir(before.c_str()), 0);
  EXPECT_TRUE(found.files.empty());
  ASSERT_EQ(found.notes.size(), 2u);
  EXPECT_EQ(found.notes[0].code, "QUERN-L-0003");
  EXPECT_THAT(found.notes[0].cause, HasSubstr("'plugins' (from QUERN_BACKEND_PATH)"));
}

TEST(Discovery, ADirectoryThatEveryoneMayWriteToIsRefusedEvenWithTheStickyBit) {
  for (const mode_t mode : {0777u, 01777u}) {
    Machine m;
    m.add({"good"});
    ASSERT_EQ(::chmod((m.root / "plugins").c_str(), mode), 0);
    const Discovery found = discover(Settings(), {m.root / "plugins"});
    EXPECT_TRUE(found.files.empty());
    EXPECT_EQ(found.notes.at(0).code, "QUERN-L-0002");
    EXPECT_THAT(found.notes[0].remedy, HasSubstr("chmod o-w"));
  }
}

TEST(Discovery, ALinkIntoADirectoryThatEveryoneMayWriteToIsRefused) {
  Machine m;
  m.add({"good"}, "open");
  ASSERT_EQ(::chmod((m.root / "open").c_str(), 0777), 0);
  std::filesystem::create_symlink(m.plugin("good", "open"), m.root / "plugins/libbackend_good.so");
  const Discovery found = discover(Settings(), {m.root / "plugins"});
  EXPECT_TRUE(found.files.empty());
  EXPECT_EQ(found.notes.at(0).code, "QUERN-L-0002");
}

constexpr gid_t strange_group = 54321;  // which no system has: nobody's private one
constexpr uid_t strange_user = 54321;

TEST(Discovery, WhatAGroupMayWriteToIsRefusedButForRootsOwn) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files to groups";
  for (const bool of_root : {true, false}) {
    Machine m;
    m.add({"good"});
    ASSERT_EQ(::chown((m.root / "plugins").c_str(), 0, of_root ? 0 : strange_group), 0);
    ASSERT_EQ(::chmod((m.root / "plugins").c_str(), 0775), 0);
    const Discovery found = discover(Settings(), {m.root / "plugins"});
    ASSERT_EQ(found.notes.empty(), of_root);
    if (of_root) continue;
    EXPECT_TRUE(found.files.empty());
    EXPECT_EQ(found.notes[0].code, "QUERN-L-0002");
    EXPECT_THAT(found.notes[0].cause, HasSubstr("may be written to by the group 54321"));
    EXPECT_EQ(found.notes[0].remedy, "chmod g-w " + (m.root / "plugins"));
  }
}

TEST(Discovery, ADirectoryOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  Machine m;
  m.add({"good"});
  ASSERT_EQ(::chown((m.root / "plugins").c_str(), strange_user, 0), 0);
  const Discovery found = discover(Settings(), {m.root / "plugins"});
  EXPECT_TRUE(found.files.empty());
  EXPECT_EQ(found.notes.at(0).code, "QUERN-L-0013");
  EXPECT_THAT(found.notes[0].cause, HasSubstr("its owner (user 54321)"));
  EXPECT_EQ(found.notes[0].remedy, "sudo chown root " + (m.root / "plugins"));
}

TEST(Trust, WhoMayReplaceTheLibraryItselfIsNoStranger) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  Machine m;
  m.add({"good"}, "tree/lib/plugins");
  const std::string lib = m.root / "tree/lib", plugins = m.root / "tree/lib/plugins";
  ASSERT_EQ(::chown((m.root / "tree").c_str(), strange_user, strange_group), 0);
  ASSERT_EQ(::chmod((m.root / "tree").c_str(), 0775), 0);
  ASSERT_EQ(::chown(plugins.c_str(), strange_user, 0), 0);
  struct stat info {};
  ASSERT_EQ(::stat(plugins.c_str(), &info), 0);
  const Masters none, of_tree = masters_of(lib), of_root = masters_of("/usr");
  EXPECT_TRUE(of_tree.users.contains(strange_user));
  EXPECT_TRUE(of_tree.groups.contains(strange_group));
  for (const Masters* known : {&none, &of_root}) {
    EXPECT_TRUE(others_who_may_write(plugins, info, *known));
    EXPECT_TRUE(others_above(plugins, *known));
  }
  EXPECT_FALSE(others_who_may_write(plugins, info, of_tree));
  EXPECT_FALSE(others_above(plugins, of_tree));
  ASSERT_EQ(::chmod((m.root / "tree").c_str(), 0777), 0);  // everyone is nobody's master
  EXPECT_TRUE(others_above(plugins, masters_of(lib)));
}

TEST(Discovery, AFolderAboveThatEveryoneMayWriteToIsRefusedUnlessSticky) {
  for (const mode_t mode : {0777u, 01777u}) {
    Machine m;
    m.add({"good"}, "open/below/plugins");
    ASSERT_EQ(::chmod((m.root / "open").c_str(), mode), 0);
    const Discovery found = discover(Settings(), {m.root / "open/below/plugins"});
    ASSERT_EQ(found.files.empty(), mode == 0777u);
    if (mode != 0777u) continue;
    EXPECT_EQ(found.notes.at(0).code, "QUERN-L-0002");
    EXPECT_THAT(found.notes[0].cause, HasSubstr("lies in '" + (m.root / "open") + "', which everyone may write to"));
    EXPECT_EQ(found.notes[0].remedy, "chmod o-w " + (m.root / "open"));
  }
}

TEST(Discovery, ADirectoryThatIsNotThereIsNotedWithItsSource) {
  Settings s;
  s.extra_path.set({"/nonexistent/quern"}, "QUERN_BACKEND_EXTRA_PATH");
  const Discovery found = discover(s, {"/"});
  EXPECT_EQ(found.notes.at(0).code, "QUERN-L-0001");
  EXPECT_THAT(found.notes[0].cause, HasSubstr("(from QUERN_BACKEND_EXTRA_PATH)"));
}

TEST(Discovery, TheEarlierDirectoryWinsAnIdAndTheLaterIsReported) {
  Machine m;
  m.add({"good"});
  m.add({"good"}, "extra");
  Settings s = m.settings();
  s.extra_path.set({m.root / "extra"}, "QUERN_BACKEND_EXTRA_PATH");
  Loader loader(s);
  ASSERT_EQ(loader.candidates().size(), 1u);
  EXPECT_EQ(loader.candidates()[0].path, m.plugin("good", "extra"));
  const ReportEntry shadowed = entry_with(loader.report(), "QUERN-L-0007");
  EXPECT_EQ(shadowed.path, m.plugin("good"));
  EXPECT_THAT(shadowed.cause, HasSubstr("'good' was found earlier, in " + m.plugin("good", "extra")));
}

TEST(Discovery, APluginThatIsRefusedAtItsNoteDoesNotShadow) {
  Machine m;
  m.add({"good"});
  std::filesystem::create_directories(m.root / "extra");
  write_file(m.plugin("good", "extra"), read_whole(m.plugin("good")).substr(0, 5000));
  Settings s = m.settings();
  s.extra_path.set({m.root / "extra"}, "QUERN_BACKEND_EXTRA_PATH");
  EXPECT_EQ(Loader(s).candidates().at(0).path, m.plugin("good"));
}

TEST(Location, PluginsLieBesideALibraryOrBesideBin) {
  EXPECT_THAT(plugin_directories_from("/usr/lib/x86_64-linux-gnu"), testing::Contains("/usr/lib/x86_64-linux-gnu/quern/backends-1"));
  EXPECT_THAT(plugin_directories_from("/b/bin"), testing::Contains("/b/lib/quern/backends-1"));
  EXPECT_THAT(helper_paths_from("/b/lib"), testing::Contains("/b/bin/quern-probe"));
  EXPECT_TRUE(plugin_directories_from("").empty());
}

TEST(Location, TheCodesOwnFolderIsKnownWhateverTheCurrentDirectoryIs) {
  EXPECT_EQ(code_directory(), std::filesystem::canonical("/proc/self/exe").parent_path().string());
  EXPECT_EQ(find_helper(), std::filesystem::canonical(QUERN_PROBE_PROGRAM).string());
}

}  // namespace
}  // namespace quern::loader
