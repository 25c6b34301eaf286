#include "repository.hpp"

#include "quern/graph/error.hpp"

#include <gtest/gtest.h>

namespace quern::hub {
namespace {

const std::string commit(40, 'a'), sum(64, 'b'), git(40, 'c');

TEST(RemoteRepository, ReadsCommitSizesAndSums) {
  const RemoteRepository remote =
      parse_remote(R"({"sha":")" + commit + R"(","siblings":[{"rfilename":"a.gguf","size":9,"blobId":")" + git + R"(","lfs":{"sha256":")" +
                       sum + R"(","size":123}},{"rfilename":"README.md","size":5,"blobId":")" + git + R"("}],"more":1})",
                   "o/n");
  EXPECT_EQ(remote.commit, commit);
  ASSERT_EQ(remote.files.size(), 2u);
  EXPECT_EQ(remote.files[0].sha256, sum);
  EXPECT_EQ(remote.files[0].etag, sum);
  EXPECT_EQ(remote.files[0].bytes, 123u);
  EXPECT_EQ(remote.files[1].etag, git);
  EXPECT_TRUE(remote.files[1].sha256.empty());
}

TEST(RemoteRepository, DropsFilesWithoutAUsableNameOrSum) {
  const RemoteRepository remote =
      parse_remote(R"({"sha":")" + commit + R"(","siblings":[3,{},{"rfilename":"../a.gguf","blobId":")" + git +
                       R"("},{"rfilename":"a.gguf"},{"rfilename":"b.gguf","lfs":{"sha256":"ABC"}},{"rfilename":7}]})",
                   "o/n");
  EXPECT_TRUE(remote.files.empty());
}

TEST(RemoteRepository, RefusesWhatIsNoAnswerOfAHub) {
  for (const std::string text : {"", "[]", "null", "{", "{}", R"({"sha":"main","siblings":[]})", R"({"sha":1})"}) {
    EXPECT_THROW(parse_remote(text, "o/n"), Error) << text;
  }
}

}  // namespace
}  // namespace quern::hub
