// Kernels kept on disk: what stands there and is no kept kernel counts as absent, nothing is written through a link, and one process at a time
// makes a kernel.
#include "kernel_cache.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace quern::cuda {
namespace {

namespace fs = std::filesystem;

struct KernelCacheTest : testing::Test {
  KernelCacheTest() {
    fs::remove_all(folder);
    keep();
    for (const auto& entry : fs::directory_iterator(folder / "cuda-kernels")) file = entry.path();
  }
  void keep() const {
    auto place = cache.take("norm", "key");
    ASSERT_TRUE(place);
    KernelCache::keep(std::move(*place), "key", "cubin");
  }
  ~KernelCacheTest() override { fs::remove_all(folder); }

  fs::path folder = fs::temp_directory_path() / ("quern-kernel-cache-" + std::to_string(::getpid()));
  KernelCache cache{folder.string()};
  fs::path file;
};

TEST_F(KernelCacheTest, IsFoundUnderItsKeyAlone) {
  EXPECT_EQ(cache.find("norm", "key"), "cubin");
  EXPECT_EQ(cache.find("norm", "another"), "");
  struct stat info {};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(KernelCacheTest, AFolderAPipeAndALinkAreNoKernels) {
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_EQ(cache.find("norm", "key"), "");
  keep();
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(cache.find("norm", "key"), "");
  keep();
  EXPECT_TRUE(fs::is_fifo(file));
  fs::remove(file);
  std::ofstream(folder / "victim") << "precious";
  fs::create_symlink(folder / "victim", file);
  EXPECT_EQ(cache.find("norm", "key"), "");
  keep();
  EXPECT_EQ(cache.find("norm", "key"), "cubin");
  EXPECT_EQ(fs::file_size(folder / "victim"), 8u);
}

TEST_F(KernelCacheTest, OneAtATimeHasThePlaceOfAKernel) {
  {
    const auto place = cache.take("norm", "another");
    ASSERT_TRUE(place);
    EXPECT_FALSE(cache.take("norm", "another"));
    EXPECT_TRUE(cache.take("rope", "another"));
  }
  EXPECT_EQ(cache.find("norm", "another"), "");
  EXPECT_TRUE(cache.take("norm", "another"));
}

TEST_F(KernelCacheTest, APlaceOfAProcessThatWasKilledIsFree) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto place = cache.take("norm", "another");
    (void)!::write(ready[1], place ? "y" : "n", 1);
    for (;;) ::pause();
  }
  char taken = 0;
  ASSERT_EQ(::read(ready[0], &taken, 1), 1);
  EXPECT_EQ(taken, 'y');
  EXPECT_FALSE(cache.take("norm", "another"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(cache.take("norm", "another"));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(KernelCacheTest, WithoutAFolderEachCompilesAndNothingIsKept) {
  const KernelCache none{std::string()};
  auto first = none.take("norm", "key");
  const auto second = none.take("norm", "key");
  ASSERT_TRUE(first);
  EXPECT_TRUE(second);
  KernelCache::keep(std::move(*first), "key", "cubin");
  EXPECT_EQ(none.find("norm", "key"), "");
}

}  // namespace
}  // namespace quern::cuda
