// Files of packed weights from inside: what is written is what is mapped, and nothing else is believed.
#include "checksum.hpp"
#include "quern/base/files.hpp"
#include "parallel.hpp"
#include "weights_cache.hpp"
#include "weights_image.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

namespace quern::runtime {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Image : public testing::Test {
 protected:
  Image() : folder_(fs::path(testing::TempDir()) / ("quern-image-" + std::to_string(::getpid()))) { fs::remove_all(folder_); }
  ~Image() override { fs::remove_all(folder_); }

  std::string path() const { return folder_ / "weights" / "a.weights"; }
  ImageKey key() const { return {"plugin cpu 1\ndevice x86-64\nshard 1 2 3 4\ntensors 5\nitem 0 9 'q4.v1' head\n", image_.size()}; }
  std::string write(const ImageKey& with) const {
    return write_image(path(), with, 77, image_, [] { return true; });
  }
  /// Files that lie beside it: the parts of writers.
  long parts() const {
    return std::count_if(fs::directory_iterator(folder_ / "weights"), {},
                         [](const fs::directory_entry& e) { return e.path().extension() == ".part"; });
  }
  std::string refusal(const ImageKey& with) const {
    std::string reason;
    EXPECT_FALSE(open_image(path(), with, 2, reason));
    return reason;
  }
  void flip(std::uint64_t at) const {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }

  /// A little more than two checked pieces.
  static std::vector<std::byte> some_image() {
    std::vector<std::byte> bytes((8 << 20) + 192);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>((i * 2654435761u) >> 13);
    return bytes;
  }
  fs::path folder_;
  std::vector<std::byte> image_ = some_image();
};

TEST_F(Image, IsMappedAsItWasWritten) {
  ASSERT_EQ(write(key()), "");
  std::string reason;
  const WeightsImage image = open_image(path(), key(), 2, reason);
  ASSERT_TRUE(image) << reason;
  EXPECT_EQ(image.content(), 77u);
  EXPECT_TRUE(std::ranges::equal(image.image(), image_));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(image.image().data()) % 4096, 0u);
  EXPECT_EQ(fs::file_size(path()), image_file_bytes(key()));
  EXPECT_EQ(parts(), 0);
}

TEST_F(Image, AMissingFileIsNoFault) { EXPECT_EQ(refusal(key()), ""); }

TEST_F(Image, EveryFlippedBitIsFound) {
  ASSERT_EQ(write(key()), "");
  const std::uint64_t size = fs::file_size(path()), begin = size - image_.size();
  for (const std::uint64_t at :
       {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{16}, std::uint64_t{24}, std::uint64_t{32}, std::uint64_t{40}, std::uint64_t{56},
        std::uint64_t{64}, 64 + key().text.size(), begin - 1, begin, begin + (4 << 20) + 12345, size - 1}) {
    flip(at);
    EXPECT_NE(refusal(key()), "") << "byte " << at;
    flip(at);
  }
  flip(begin + (4 << 20));
  EXPECT_THAT(refusal(key()), HasSubstr("damaged"));
}

TEST_F(Image, ATruncatedOrLongerFileIsRefusedBeforeItIsMapped) {
  for (const std::int64_t change : {-1, -4096, -8000000, 1, 4096}) {
    ASSERT_EQ(write(key()), "");
    fs::resize_file(path(), fs::file_size(path()) + static_cast<std::uintmax_t>(change));
    EXPECT_THAT(refusal(key()), HasSubstr("bytes")) << change;
  }
  fs::resize_file(path(), 10);
  EXPECT_THAT(refusal(key()), HasSubstr("ends after 10 bytes"));
  fs::resize_file(path(), 0);
  EXPECT_THAT(refusal(key()), HasSubstr("ends after 0 bytes"));
}

TEST_F(Image, AnotherKeySaysWhatDiffers) {
  ASSERT_EQ(write(key()), "");
  const auto other = [&](const std::string& from, const std::string& to) {
    ImageKey changed = key();
    changed.text.replace(changed.text.find(from), from.size(), to);
    return refusal(changed);
  };
  EXPECT_THAT(other("cpu 1", "cpu 2"), HasSubstr("build of the plugin"));
  EXPECT_THAT(other("x86-64", "x86-65"), HasSubstr("processor"));
  EXPECT_THAT(other("1 2 3 4", "1 2 3 5"), HasSubstr("model's file has changed"));
  EXPECT_THAT(other("tensors 5", "tensors 6"), HasSubstr("model's file has changed"));
  EXPECT_THAT(other("q4.v1", "q4.v2"), HasSubstr("lays the weights out"));
  ImageKey larger = key();
  larger.bytes += 64;
  EXPECT_THAT(refusal(larger), HasSubstr("bytes instead of"));
}

TEST_F(Image, LinksFifosAndFilesOfOthersAreRefused) {
  ASSERT_EQ(write(key()), "");
  fs::rename(path(), path() + ".real");
  fs::create_symlink(path() + ".real", path());
  EXPECT_NE(refusal(key()), "");
  fs::remove(path());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_NE(refusal(key()), "");
  fs::remove(path());
  fs::rename(path() + ".real", path());
  fs::permissions(path(), fs::perms::others_write, fs::perm_options::add);
  EXPECT_THAT(refusal(key()), HasSubstr("another user"));
}

TEST_F(Image, AChangedModelDiscardsWhatWasWritten) {
  EXPECT_THAT(write_image(path(), key(), 0, image_, [] { return false; }), HasSubstr("changed"));
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_EQ(parts(), 0);
}

TEST_F(Image, AFolderThatCannotBeMadeIsAReason) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "weights") << "a file where the folder should be";
  EXPECT_NE(write(key()), "");
}

TEST_F(Image, ADiskWithoutRoomIsAReasonAndLeavesNothing) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string reason = write(key());
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(reason, HasSubstr("cannot be written"));
  EXPECT_TRUE(fs::is_empty(folder_ / "weights"));
}

TEST_F(Image, OneOfTwoWritersWritesAndTheOtherLeavesItAlone) {
  fs::create_directories(folder_ / "weights");
  {
    base::NewFile other;
    ASSERT_FALSE(base::NewFile::create(path(), other, base::AtTargetLink::replace, base::Writers::one));
    EXPECT_THAT(write(key()), HasSubstr("another process"));
    EXPECT_EQ(parts(), 1);
  }
  EXPECT_EQ(write(key()), "");

  std::atomic<int> written{0};
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 4; ++i)
      writers.emplace_back([&] {
        for (int n = 0; n < 3; ++n) written += write(key()).empty() ? 1 : 0;
      });
    for (int n = 0; n < 5; ++n) {  // a reader sees a whole file at any time
      std::string reason;
      EXPECT_TRUE(open_image(path(), key(), 1, reason)) << reason;
    }
  }
  EXPECT_GE(written, 1);
  std::string reason;
  EXPECT_TRUE(open_image(path(), key(), 2, reason)) << reason;
}

TEST_F(Image, RoomIsMadeByRemovingTheLeastRecentlyUsed) {
  const fs::path weights = folder_ / "weights";
  fs::create_directories(weights);
  const auto put = [&](const char* name, int age) {
    std::ofstream(weights / name) << std::string(1000, 'x');
    fs::last_write_time(weights / name, fs::file_time_type::clock::now() - std::chrono::hours(age));
  };
  put("old.weights", 3);
  put("older.weights", 5);
  put("new.weights", 1);
  put("orphan.weights.part", 9);
  put("letter.txt", 9);
  EXPECT_TRUE(make_room(weights, weights / "new.weights", 1000, 2000));  // itself is replaced: one more may stay
  EXPECT_FALSE(fs::exists(weights / "older.weights"));
  EXPECT_TRUE(fs::exists(weights / "old.weights"));
  EXPECT_TRUE(fs::exists(weights / "new.weights"));
  EXPECT_FALSE(fs::exists(weights / "orphan.weights.part"));
  EXPECT_TRUE(fs::exists(weights / "letter.txt"));
  EXPECT_TRUE(make_room(weights, weights / "new.weights", 1 << 20, 0));
  EXPECT_TRUE(fs::exists(weights / "old.weights"));
  EXPECT_FALSE(make_room(weights, weights / "new.weights", 3000, 2000));
}

TEST_F(Image, UseRenewsAFile) {
  ASSERT_EQ(write(key()), "");
  fs::last_write_time(path(), fs::file_time_type::clock::now() - std::chrono::hours(5));
  std::string reason;
  ASSERT_TRUE(open_image(path(), key(), 1, reason));
  EXPECT_GT(fs::last_write_time(path()), fs::file_time_type::clock::now() - std::chrono::hours(1));
}

TEST(Checksum, EveryBitAndTheLengthCount) {
  std::vector<std::byte> bytes(200);
  const std::uint64_t sum = checksum(bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_NE(checksum(bytes), sum) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
  EXPECT_NE(checksum(std::span(bytes).first(199)), sum);
  EXPECT_NE(checksum({}), checksum(std::span(bytes).first(1)));
}

TEST(Checksum, TwoTopBitsInOneLaneDoNotCancel) {
  std::vector<std::byte> bytes(256);
  const std::uint64_t sum = checksum(bytes);
  bytes[7] = bytes[71] = std::byte{0x80};  // a product alone would keep each in the top bit
  EXPECT_NE(checksum(bytes), sum);
}

TEST(InParallel, DoesEachPieceOnceAndHandsOnAFailure) {
  std::vector<std::atomic<int>> done(1000);
  in_parallel(3, done.size(), [&](std::uint64_t i) { ++done[i]; });
  for (const std::atomic<int>& count : done) EXPECT_EQ(count, 1);
  EXPECT_THROW(in_parallel(3, 100,
                           [](std::uint64_t i) {
                             if (i == 7) throw std::runtime_error("seven");
                           }),
               std::runtime_error);
  in_parallel(2, 0, [](std::uint64_t) { FAIL(); });
}

TEST(InParallel, HandsOnTheFailureOfTheFirstPieceThatHasOne) {
  std::atomic<bool> later_failed{false};
  try {
    in_parallel(2, 2, [&](std::uint64_t i) {
      while (i == 0 && !later_failed) std::this_thread::yield();
      later_failed = true;
      throw std::runtime_error(i == 0 ? "first" : "second");
    });
    FAIL();
  } catch (const std::runtime_error& error) { EXPECT_STREQ(error.what(), "first"); }
}

}  // namespace
}  // namespace quern::runtime
