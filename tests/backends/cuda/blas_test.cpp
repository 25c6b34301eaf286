// cuBLASLt as the plugin opens it: every symbol that it needs is there. Without a card the library itself cannot start.
//
// QUERN_TEST_CUBLASLT names another file than the one that would be opened: scripts/test --full does so with toolkit 12's.
#include "blas.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace quern::cuda {
namespace {

/// All symbols are found before cublasLtCreate is called, which needs a card.
void expect_complete(const std::unique_ptr<Blas>& blas, const std::string& reason) {
  if (blas == nullptr) {
    EXPECT_NE(reason.find("cublasLtCreate failed"), std::string::npos) << reason;
  } else {
    EXPECT_NE(blas->version().find('.'), std::string::npos);
  }
}

TEST(Blas, FindsEverySymbolInTheInstalledLibrary) {
  std::string reason;
  const auto blas = Blas::open(reason);
  if (reason.find("cannot be opened") != std::string::npos) GTEST_SKIP() << reason;
  expect_complete(blas, reason);
}

TEST(Blas, FindsEverySymbolInTheLibraryThatIsNamed) {
  const char* named = std::getenv("QUERN_TEST_CUBLASLT");
  if (named == nullptr) GTEST_SKIP() << "QUERN_TEST_CUBLASLT is not set: scripts/test --full names toolkit 12's";
  std::string reason;
  const auto blas = Blas::open(reason, std::span(&named, 1));
  expect_complete(blas, reason);
}

}  // namespace
}  // namespace quern::cuda
