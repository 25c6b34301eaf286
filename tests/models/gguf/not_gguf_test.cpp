// Files that are no GGUF file of a version that is read, and paths that are no file at all.
#include "malformed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace quern::test {
namespace {

using gguf::File;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void expect_bad_bytes(const std::string& content, const std::vector<std::string>& words) {
  const auto path = temporary("other.gguf");
  GgufWriter::Bytes bytes;
  for (const char c : content) bytes.push_back(static_cast<std::byte>(c));
  write_bytes(path, bytes);
  expect_refused(path, QUERN_BAD_MODEL, words);
  try {
    File::from_memory(bytes, "memory");
    ADD_FAILURE() << "accepted from memory";
  } catch (const Error& error) { EXPECT_THAT(error.what(), StartsWith("memory: ")); }
}

std::string as_text(const GgufWriter& writer) {
  const auto bytes = writer.bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

TEST(NotGguf, AWrongMagicIsShownAndExplained) {
  expect_bad_bytes("abcd and more text", {"magic (byte 0)", "'abcd'", "not 'GGUF'"});
  expect_bad_bytes(as_text(sample().magic("lmgg")), {"magic (byte 0)", "from before GGUF"});
  expect_bad_bytes(std::string("PK\x03\x04", 4) + "zip", {"'PK\\x03\\x04'", "zip archive"});
  expect_bad_bytes("version https://git-lfs.github.com/spec/v1\n", {"'vers'", "Git LFS pointer"});
  expect_bad_bytes("<!DOCTYPE html><html>", {"'<!DO'", "web page"});
  expect_bad_bytes(std::string("\x40\0\0\0\0\0\0\0{\"a\":{}}", 16), {"magic (byte 0)", "safetensors"});
  expect_bad_bytes("GGU", {"'GGU'", "not 'GGUF'"});
}

TEST(NotGguf, AVersionThatIsNotReadIsNamed) {
  expect_bad_bytes(as_text(sample().version(1)), {"version (byte 4) is 1", "2 and 3"});
  expect_bad_bytes(as_text(sample().version(4)), {"version (byte 4) is 4", "2 and 3"});
  expect_bad_bytes(as_text(sample().version(0)), {"version (byte 4) is 0"});
  expect_bad_bytes(as_text(sample().version(0xffffffffu)), {"version (byte 4) is 4294967295"});
}

TEST(NotGguf, ABigEndianFileIsCalledThat) {
  expect_bad_bytes(as_text(sample().version(0x03000000u)), {"version (byte 4)", "3 in big-endian order"});
  expect_bad_bytes(as_text(sample().magic("FUGG")), {"big-endian"});
}

TEST(NotGguf, AnEmptyFileIsCalledEmpty) {
  write_bytes(temporary("empty.gguf"), {});
  expect_refused(temporary("empty.gguf"), QUERN_BAD_MODEL, {"empty.gguf: is empty"});
  EXPECT_THROW(File::from_memory({}, "nothing"), Error);
}

TEST(NotGguf, ADirectoryIsRefused) { expect_refused(temporary("x").parent_path(), QUERN_BAD_MODEL, {"is a folder"}); }

TEST(NotGguf, APipeWithoutAWriterDoesNotHang) {
  ASSERT_EQ(::mkfifo(temporary("pipe.gguf").c_str(), 0600), 0);
  expect_refused(temporary("pipe.gguf"), QUERN_BAD_MODEL, {"pipe.gguf: is a pipe"});
}

TEST(NotGguf, DevicesAndSocketsAreRefused) {
  expect_refused("/dev/zero", QUERN_BAD_MODEL, {"/dev/zero: is a device"});
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_GE(fd, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "quern_gguf_" + std::to_string(::getpid()) + ".sock";  // relative: sun_path is short
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  expect_refused(path, QUERN_BAD_MODEL, {"socket"});
  ::close(fd);
  ::unlink(path.c_str());
}

TEST(NotGguf, AMissingFileIsNotFound) {
  expect_refused(temporary("absent.gguf"), QUERN_NOT_FOUND, {"absent.gguf: there is no such file"});
  write_bytes(temporary("plain"), {std::byte{1}});
  expect_refused(temporary("plain") / "below.gguf", QUERN_NOT_FOUND, {"there is no such file"});
}

TEST(NotGguf, AFileWithoutReadPermissionSaysSo) {
  const auto path = temporary("locked.gguf");
  sample().write(path);
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  const bool super_user = ::geteuid() == 0;  // may read every file: be nobody for a moment
  if (super_user) { ASSERT_EQ(::seteuid(65534), 0); }
  expect_refused(path, QUERN_PERMISSION, {"locked.gguf: cannot be opened"});
  if (super_user) { ASSERT_EQ(::seteuid(0), 0); }
}

TEST(NotGguf, ALoopOfLinksIsCalledThat) {
  std::filesystem::create_symlink("loop.gguf", temporary("loop.gguf"));
  expect_refused(temporary("loop.gguf"), QUERN_NOT_FOUND, {"loop.gguf: is a link that leads back to itself"});
}

TEST(NotGguf, PathsThatCannotNameAFileAreTheCallersMistake) {
  expect_refused("", QUERN_INVALID_ARGUMENT, {"empty"});
  expect_refused(std::string("a.gguf\0b", 8), QUERN_INVALID_ARGUMENT, {"a.gguf", "NUL"});
}

TEST(NotGguf, ALinkToAModelIsFollowed) {
  sample().write(temporary("blob"));
  std::filesystem::create_symlink(temporary("blob"), temporary("link.gguf"));
  EXPECT_EQ(File::open(temporary("link.gguf")).tensors().size(), 3u);
}

}  // namespace
}  // namespace quern::test
