// Kernels kept on disk: what stands there and is no kept kernel counts as absent, and nothing is written through a link.
#include "kernel_cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace quern::cuda {
namespace {

namespace fs = std::filesystem;

struct KernelCacheTest : testing::Test {
  KernelCacheTest() {
    fs::remove_all(folder);
    cache.keep("norm", "key", "cubin");
    for (const auto& entry : fs::directory_iterator(folder / "cuda-kernels")) file = entry.path();
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
  cache.keep("norm", "key", "cubin");
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(cache.find("norm", "key"), "");
  cache.keep("norm", "key", "cubin");
  EXPECT_TRUE(fs::is_fifo(file));
  fs::remove(file);
  std::ofstream(folder / "victim") << "precious";
  fs::create_symlink(folder / "victim", file);
  EXPECT_EQ(cache.find("norm", "key"), "");
  cache.keep("norm", "key", "cubin");
  EXPECT_EQ(cache.find("norm", "key"), "cubin");
  EXPECT_EQ(fs::file_size(folder / "victim"), 8u);
}

}  // namespace
}  // namespace quern::cuda
