// cuBLASLt as the plugin opens it: every symbol that it needs is there. Without a card the library itself cannot start.
#include "blas.hpp"

#include <gtest/gtest.h>

namespace quern::cuda {
namespace {

TEST(Blas, FindsEverySymbolInTheInstalledLibrary) {
  std::string reason;
  const auto blas = Blas::open(reason);
  if (reason.find("cannot be opened") != std::string::npos) GTEST_SKIP() << reason;
  if (blas == nullptr) {
    EXPECT_NE(reason.find("cublasLtCreate failed"), std::string::npos) << reason;  // all symbols were found before it was called
  } else {
    EXPECT_NE(blas->version().find('.'), std::string::npos);
  }
}

}  // namespace
}  // namespace quern::cuda
