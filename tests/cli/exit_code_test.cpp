#include "exit_code.hpp"

#include <gtest/gtest.h>

namespace quern::cli {
namespace {

TEST(ExitCode, FollowsTheDocumentedTable) {
  EXPECT_EQ(exit_code_of(QUERN_OK), 0);
  EXPECT_EQ(exit_code_of(QUERN_INVALID_ARGUMENT), 2);
  EXPECT_EQ(exit_code_of(QUERN_BACKEND_UNAVAILABLE), 3);
  for (const quern_status status : {QUERN_BAD_MODEL, QUERN_NOT_FOUND, QUERN_IO, QUERN_PERMISSION, QUERN_UNSUPPORTED, QUERN_BUSY})
    EXPECT_EQ(exit_code_of(status), 4) << status;
  for (const quern_status status : {QUERN_DOES_NOT_FIT, QUERN_OUT_OF_MEMORY, QUERN_HOST_OUT_OF_MEMORY})
    EXPECT_EQ(exit_code_of(status), 5) << status;
  EXPECT_EQ(exit_code_of(QUERN_CONTEXT_FULL), 6);
  EXPECT_EQ(exit_code_of(QUERN_INTERNAL), 70);
}

TEST(ExitCode, ACodeThatIsNotKnownIsABug) {
  EXPECT_EQ(exit_code_of(9999), 70);
  EXPECT_EQ(exit_code_of(-1), 70);
}

}  // namespace
}  // namespace quern::cli
