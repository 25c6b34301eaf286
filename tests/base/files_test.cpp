// Files as they are read and written, and what is refused.
#include "quern/base/files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace quern::base {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "quern-files-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  std::string put(const std::string& name, const std::string& text) const {
    std::ofstream(at(name), std::ios::binary) << text;
    return at(name);
  }
  static std::string get(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  static mode_t mode(const std::string& path) {
    struct stat info {};
    return ::lstat(path.c_str(), &info) == 0 ? info.st_mode : 0;
  }
  std::size_t entries() const { return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  std::string folder_;
};

void bind_socket(const std::string& path) {
  const Descriptor fd(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
}

TEST_F(Files, ReadsWhatWasWritten) {
  std::string text(3'000'001, 'x');
  text[1'000'000] = '\0';
  ASSERT_FALSE(write_file(at("a"), text));
  std::string read;
  ASSERT_FALSE(read_file(at("a"), read));
  EXPECT_EQ(read, text);
  std::vector<std::byte> bytes;
  ASSERT_FALSE(read_file(at("a"), bytes));
  EXPECT_EQ(bytes.size(), text.size());
  EXPECT_EQ(mode(at("a")), static_cast<mode_t>(S_IFREG | 0600));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, ReadsAFileOfTheKernelWhoseSizeIsNought) {
  std::string read;
  ASSERT_FALSE(read_file("/proc/self/status", read));
  EXPECT_TRUE(read.starts_with("Name:"));
}

TEST_F(Files, RefusesToReadWhatIsNoFileAndNamesIt) {
  ASSERT_EQ(::mkdir(at("folder").c_str(), 0700), 0);
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  bind_socket(at("socket"));
  const std::array<std::pair<std::string, std::string>, 4> cases{{{at("folder"), "is a folder, not a file"},
                                                                  {at("pipe"), "is a pipe, not a file"},
                                                                  {at("socket"), "is a socket, not a file"},
                                                                  {"/dev/zero", "is a device, not a file"}}};
  for (const auto& [path, why] : cases) {
    std::string read = "old";
    const FileProblem problem = read_file(path, read);
    EXPECT_EQ(problem.fault, FileFault::wrong_kind) << path;
    EXPECT_EQ(problem.text, path + ": " + why);
    EXPECT_EQ(read, "");
  }
}

TEST_F(Files, NamesWhereALinkToNowhereLeads) {
  fs::create_symlink("nowhere", at("link"));
  fs::create_symlink("link", at("chain"));
  fs::create_symlink("loop", at("loop"));
  std::string read;
  for (const char* name : {"link", "chain"}) {
    const FileProblem problem = read_file(at(name), read);
    EXPECT_EQ(problem.fault, FileFault::not_found);
    EXPECT_EQ(problem.text, at(name) + ": is a link to 'nowhere', and there is no such file");
  }
  EXPECT_EQ(read_file(at("loop"), read).text, at("loop") + ": is a link that leads back to itself (by 'loop')");
  EXPECT_EQ(read_file(at("none"), read).text, at("none") + ": there is no such file");
  EXPECT_EQ(read_file(put("file", "x") + "/below", read).fault, FileFault::not_found);
}

TEST_F(Files, AReadThatTheSystemRefusesHasItsReason) {
  std::string read;
  const FileProblem problem = read_file("/proc/self/mem", read);  // its first page is mapped nowhere: EIO
  EXPECT_EQ(problem.fault, FileFault::failed);
  EXPECT_EQ(problem.error, EIO);
  EXPECT_EQ(problem.text, "/proc/self/mem: cannot be read: Input/output error");
}

TEST_F(Files, ReadsAtMostWhatIsAllowed) {
  put("ten", "0123456789");
  std::string read;
  EXPECT_FALSE(read_file(at("ten"), read, {.most = 10}));
  const FileProblem problem = read_file(at("ten"), read, {.most = 9});
  EXPECT_EQ(problem.fault, FileFault::too_large);
  EXPECT_EQ(problem.text, at("ten") + ": has 10 bytes, and at most 9 are read");
  EXPECT_EQ(read_file("/proc/self/status", read, {.most = 9}).fault, FileFault::too_large);
  EXPECT_EQ(read, "");
}

TEST_F(Files, ReadsAPipeOnlyWhereItMay) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  std::string read;
  EXPECT_EQ(read_file(at("pipe"), read, {.pipes = Pipes::read}).text, at("pipe") + ": is a pipe that nobody writes to");
  EXPECT_EQ(read_file("/dev/zero", read, {.pipes = Pipes::read}).fault, FileFault::wrong_kind);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "hello", 5), 5);
  ::close(ends[1]);
  const std::string path = "/dev/fd/" + std::to_string(ends[0]);
  EXPECT_EQ(read_file(path, read).fault, FileFault::wrong_kind);
  ASSERT_FALSE(read_file(path, read, {.pipes = Pipes::read}));
  EXPECT_EQ(read, "hello");
  ::close(ends[0]);
}

TEST_F(Files, AFileThatIsReplacedKeepsItsOtherNames) {
  put("a", "old");
  fs::create_hard_link(at("a"), at("b"));
  ASSERT_FALSE(write_file(at("a"), "new"));
  EXPECT_EQ(get(at("a")), "new");
  EXPECT_EQ(get(at("b")), "old");
  EXPECT_EQ(mode(at("a")), static_cast<mode_t>(S_IFREG | 0600));
}

TEST_F(Files, NothingIsWrittenThroughALink) {
  put("victim", "precious");
  fs::create_symlink("victim", at("link"));
  EXPECT_EQ(write_file(at("link"), "new").text, at("link") + ": is a link, and links are not written through; name the file itself");
  GrowingFile journal;
  EXPECT_EQ(GrowingFile::open(at("link"), GrowingFile::Begin::empty, journal).fault, FileFault::wrong_kind);
  ASSERT_FALSE(write_file(at("link"), "new", AtTargetLink::replace));
  EXPECT_EQ(get(at("link")), "new");
  EXPECT_EQ(mode(at("link")), static_cast<mode_t>(S_IFREG | 0600));
  EXPECT_EQ(get(at("victim")), "precious");
  fs::create_symlink("absent", at("dangling"));
  EXPECT_EQ(GrowingFile::open(at("dangling"), GrowingFile::Begin::empty, journal).fault, FileFault::wrong_kind);
  EXPECT_FALSE(fs::exists(at("absent")));
}

TEST_F(Files, RefusesToWriteOverWhatIsNoFile) {
  ASSERT_EQ(::mkdir(at("folder").c_str(), 0700), 0);
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  bind_socket(at("socket"));
  for (const std::string& path : {at("folder"), at("pipe"), at("socket"), std::string("/dev/zero")}) {
    const mode_t before = mode(path);
    GrowingFile journal;
    EXPECT_EQ(write_file(path, "new").fault, FileFault::wrong_kind) << path;
    EXPECT_EQ(write_file(path, "new", AtTargetLink::replace).fault, FileFault::wrong_kind) << path;
    EXPECT_EQ(GrowingFile::open(path, GrowingFile::Begin::empty, journal).fault, FileFault::wrong_kind) << path;
    EXPECT_EQ(mode(path), before);
  }
  EXPECT_EQ(entries(), 3u);
}

TEST_F(Files, NamesTheFolderThatIsNotThereToWriteTo) {
  const std::string why = at("none/a") + ": cannot be written: there is no folder '" + at("none/") + "'";
  GrowingFile journal;
  EXPECT_EQ(write_file(at("none/a"), "x").text, why);
  EXPECT_EQ(GrowingFile::open(at("none/a"), GrowingFile::Begin::keep, journal).text, why);
  EXPECT_EQ(write_file(folder_ + "/", "x").text, folder_ + "/: is a folder, and only a file can be written there");
}

TEST_F(Files, TheNullDeviceTakesAllAndStays) {
  EXPECT_FALSE(write_file("/dev/null", "gone"));
  GrowingFile journal;
  ASSERT_FALSE(GrowingFile::open("/dev/null", GrowingFile::Begin::empty, journal));
  EXPECT_FALSE(journal.append("gone"));
  EXPECT_TRUE(S_ISCHR(mode("/dev/null")));
}

TEST_F(Files, AJournalIsNotWrittenIntoAFileWithOtherNames) {
  put("a", "precious");
  fs::create_hard_link(at("a"), at("b"));
  GrowingFile journal;
  EXPECT_EQ(GrowingFile::open(at("b"), GrowingFile::Begin::empty, journal).fault, FileFault::wrong_kind);
  EXPECT_EQ(get(at("a")), "precious");
}

TEST_F(Files, AJournalKeepsWhatItHasAndGrows) {
  GrowingFile journal;
  ASSERT_FALSE(GrowingFile::open(at("j"), GrowingFile::Begin::empty, journal));
  ASSERT_FALSE(journal.append("one"));
  ASSERT_FALSE(GrowingFile::open(at("j"), GrowingFile::Begin::keep, journal));
  ASSERT_FALSE(journal.append("two"));
  EXPECT_EQ(get(at("j")), "onetwo");
  EXPECT_EQ(mode(at("j")), static_cast<mode_t>(S_IFREG | 0600));
  ASSERT_FALSE(GrowingFile::open(at("j"), GrowingFile::Begin::empty, journal));
  EXPECT_EQ(get(at("j")), "");
}

TEST_F(Files, AWriteThatIsNotCommittedLeavesNothing) {
  put("a", "old");
  {
    NewFile file;
    ASSERT_FALSE(NewFile::create(at("a"), file));
    ASSERT_FALSE(file.append("new"));
    EXPECT_EQ(entries(), 2u);
  }
  EXPECT_EQ(get(at("a")), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, WhatAKilledWriterLeftIsRemovedAndALiveOnesIsNot) {
  NewFile live;
  ASSERT_FALSE(NewFile::create(at("live"), live));
  ASSERT_FALSE(live.append("live"));
  put(".quern-0123456789abcdef.part", "left");
  put(".quern-0123456789abcdeg.part", "not a number");
  ASSERT_FALSE(write_file(at("b"), "b"));
  EXPECT_FALSE(fs::exists(at(".quern-0123456789abcdef.part")));
  EXPECT_TRUE(fs::exists(at(".quern-0123456789abcdeg.part")));
  ASSERT_FALSE(live.commit());
  EXPECT_EQ(get(at("live")), "live");
}

/// Runs in a child; its exit status, or 1000 and the signal.
template <typename Work>
int in_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST_F(Files, OneWriterAtATimeHasAFileHoweverManyBegin) {
  std::atomic<int> writing{0}, together{0}, written{0};
  const auto write = [&] {
    for (int i = 0; i < 300; ++i) {
      NewFile file;
      if (NewFile::create(at("one"), file, AtTargetLink::replace, Writers::one)) continue;
      if (++writing != 1) ++together;
      (void)file.append(std::string_view("all of it"));
      --writing;
      if (!file.commit()) ++written;
      else ++together;  // its part was taken away
    }
  };
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 4; ++i) writers.emplace_back(write);
  }
  EXPECT_EQ(together, 0);
  EXPECT_GT(written, 0);
}

TEST_F(Files, TheLimitOfFileSizesIsAReasonAndNoSignal) {
  put("a", "old");
  const int ended = in_child([this] {
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_DFL);
    const std::string text(2000, 'x');
    GrowingFile journal;
    NewFile room;
    if (GrowingFile::open(at("j"), GrowingFile::Begin::empty, journal) || NewFile::create(at("b"), room)) return 1;
    if (journal.append(text).fault != FileFault::no_room || journal.allocate(3000).fault != FileFault::no_room ||
        room.reserve(3000).fault != FileFault::no_room)
      return 2;
    const FileProblem problem = write_file(at("a"), text);
    if (problem.fault != FileFault::no_room || problem.text.find("at most 1000 bytes (ulimit -f)") == std::string::npos) return 3;
    sigset_t pending;
    ::sigpending(&pending);
    return ::sigismember(&pending, SIGXFSZ) == 1 ? 4 : 0;
  });
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(get(at("a")), "old");
}

TEST_F(Files, MakesFoldersAndNamesWhatIsInTheWay) {
  ASSERT_FALSE(make_folders(at("a/b//c/")));
  EXPECT_TRUE(fs::is_directory(at("a/b/c")));
  EXPECT_FALSE(make_folders(at("a/b")));
  put("file", "x");
  EXPECT_EQ(make_folders(at("file/below")).text, at("file") + ": is a file, not a folder");
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_EQ(make_folders(at("pipe")).text, at("pipe") + ": is a pipe, not a folder");
}

}  // namespace
}  // namespace quern::base
