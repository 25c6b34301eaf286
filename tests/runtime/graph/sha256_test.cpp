// Against the examples that the standard's authors published, and across the seams of its blocks.
#include "quern/graph/sha256.hpp"

#include "sha256_blocks.hpp"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(Sha256, OfKnownTexts) {
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(sha256_of_file("/no/such/file"), "");
}

TEST(Sha256, DoesNotDependOnHowTheBytesAreCut) {
  std::string text(1000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  for (std::size_t size = 0; size <= 200; ++size) {
    const std::string_view all = std::string_view(text).substr(0, size);
    for (const std::size_t cut : {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65}, std::size_t{130}}) {
      Sha256 sum;
      for (std::size_t at = 0; at < size; at += cut) sum.add(std::as_bytes(std::span(all.substr(at, cut))));
      EXPECT_EQ(sum.finish(), sha256_of(all)) << size << " bytes in pieces of " << cut;
    }
  }
}

TEST(Sha256, TheInstructionsAndThePortableLoopAgree) {
  if (!sha256_instructions()) GTEST_SKIP() << "this processor has no instructions for SHA-256";
  std::array<std::byte, 64 * 5> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i);
  Sha256State portable = {1, 2, 3, 0xffffffff, 5, 6, 7, 8}, fast = portable;
  sha256_blocks_portable(portable, bytes.data(), 5);
  sha256_blocks_x86(fast, bytes.data(), 5);
  EXPECT_EQ(fast, portable);
}

}  // namespace
}  // namespace quern
