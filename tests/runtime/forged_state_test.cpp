// 4,000 forged saved sessions: each ends in a status, and a session that one was refused by is as it was.
//
// A forger knows the format and mends the checksum, so half of them have the right one. What is taken over is generated from.
#include "api_support.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>

namespace quern::test {
namespace {

constexpr int forgeries = 4000;
constexpr std::uint32_t sequences = 3;
constexpr std::uint64_t context = 128;
constexpr std::size_t head = 48;  // bytes: saved_state.hpp

using Bytes = std::vector<std::byte>;

class Forger {
 public:
  explicit Forger(Bytes good) : good_(std::move(good)) {}

  Bytes next() {
    Bytes bytes = good_;
    for (std::uint32_t changes = 1 + below(3); changes > 0; --changes) change(bytes);
    if (below(2) == 0 && bytes.size() >= 8) mend(bytes);
    return bytes;
  }

 private:
  std::uint32_t below(std::uint64_t n) { return static_cast<std::uint32_t>(random_() % n); }
  template <typename T>
  void put(Bytes& bytes, std::size_t at, T value) {
    if (at + sizeof value <= bytes.size()) std::memcpy(bytes.data() + at, &value, sizeof value);
  }
  void change(Bytes& bytes) {
    if (bytes.empty()) return;
    const std::size_t at = below(bytes.size());
    static constexpr std::uint32_t words[] = {0, 1, 2, 3, 4, 63, 64, 65, 128, 129, 320, 0x7fffffffu, 0x80000000u, 0xffffffffu};
    const std::uint32_t word = words[below(std::size(words))];
    switch (below(10)) {
      case 0: bytes[at] ^= std::byte{static_cast<unsigned char>(1u << below(8))}; break;
      case 1: bytes.resize(at); break;
      case 2: bytes.insert(bytes.end(), 1 + below(300), std::byte{0}); break;
      case 3: put(bytes, below(head / 4) * 4, word); break;                                                // a field of the head
      case 4: put(bytes, head, std::uint64_t{word} << (below(2) == 0 ? 0 : 32)); break;                    // tokens of the first sequence
      case 5: put(bytes, head + 8 + below(70) * 4, word); break;                                           // a token
      case 6: put(bytes, at / 2 * 2, static_cast<std::uint16_t>(below(2) == 0 ? 0x7e00 : 0xfc00)); break;  // NaN or -inf among the keys
      case 7:
        std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), head + 8 + 70 * 4)), bytes.end(), std::byte{0xff});
        break;   // all NaN
      case 8: {  // a part where another one was
        const std::size_t from = below(bytes.size()), count = std::min<std::size_t>(1 + below(64), bytes.size() - std::max(at, from));
        std::memmove(bytes.data() + at, bytes.data() + from, count);
        break;
      }
      default:
        bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                    bytes.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(at + 1 + below(64), bytes.size())));
        break;
    }
  }
  static void mend(Bytes& bytes) {
    std::uint64_t sum = 0xcbf29ce484222325ull;
    for (std::size_t i = 0; i + 8 < bytes.size(); ++i) sum = (sum ^ static_cast<std::uint64_t>(bytes[i])) * 0x100000001b3ull;
    std::memcpy(bytes.data() + bytes.size() - 8, &sum, 8);
  }

  Bytes good_;
  std::mt19937 random_{4000};
};

Bytes saved(quern_session* session) {
  std::uint64_t size = 0;
  EXPECT_EQ(quern_session_save(session, nullptr, 0, &size), QUERN_OK) << quern_last_error();
  Bytes bytes(size);
  EXPECT_EQ(quern_session_save(session, bytes.data(), size, &size), QUERN_OK) << quern_last_error();
  return bytes;
}

TEST(ForgedSavedSessions, EachEndsInAStatus) {
  const auto runtime = make_runtime({.struct_size = 0, .backend = "cpu"});
  const auto model =
      load(runtime.get(), model_path("micro-llama-q8_0.gguf"), {.struct_size = 0, .context = context, .sequences = sequences});
  const auto session = make_session(model.get(), {.struct_size = 0, .context = 0, .sequences = sequences});
  std::vector<std::int32_t> text;
  for (std::int32_t i = 0; i < 70; ++i) text.push_back((i * 37 + 11) % 300);
  draw(session.get(), request(text, 0, 1));
  ASSERT_EQ(quern_sequence_copy(session.get(), 0, 2), QUERN_OK);
  ASSERT_EQ(quern_sequence_truncate(session.get(), 2, 3), QUERN_OK);
  const Bytes good = saved(session.get());
  Forger forger(good);
  std::map<quern_status, int> seen;
  Bytes before = good;
  for (int i = 0; i < forgeries; ++i) {
    const Bytes forged = forger.next();
    const auto exact = std::make_unique<std::byte[]>(forged.size());  // so that a sanitizer sees a byte too many
    std::copy(forged.begin(), forged.end(), exact.get());
    const quern_status status = quern_session_restore(session.get(), exact.get(), forged.size());
    ++seen[status];
    if (status != QUERN_OK) {
      ASSERT_TRUE(status == QUERN_BAD_MODEL || status == QUERN_CONTEXT_FULL || status == QUERN_INVALID_ARGUMENT)
          << i << ": " << quern_last_error();
      ASSERT_GT(std::strlen(quern_last_error()), 20u) << i;
      ASSERT_EQ(saved(session.get()), before) << i;
      continue;
    }
    for (std::uint32_t s = 0; s < sequences; ++s) {
      std::uint64_t held = 0;
      ASSERT_EQ(quern_sequence_length(session.get(), s, &held), QUERN_OK);
      ASSERT_LE(held, context);
      if (held == 0 || held + 4 > context) continue;
      const std::vector<std::int32_t> none;
      quern_request r = request(none, s, 3);
      r.flags = QUERN_REQUEST_APPEND;
      r.logprobs = 5;
      for (const std::int32_t id : draw(session.get(), r)) ASSERT_TRUE(id >= 0 && id < 320) << i;
    }
    before = saved(session.get());
  }
  EXPECT_GT(seen[QUERN_BAD_MODEL], forgeries / 2);
  EXPECT_GT(seen[QUERN_CONTEXT_FULL], 10);
  EXPECT_GT(seen[QUERN_INVALID_ARGUMENT], 10);
  EXPECT_GT(seen[QUERN_OK], forgeries / 20);  // with other tokens, keys and values than were saved
}

}  // namespace
}  // namespace quern::test
