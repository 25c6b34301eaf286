#include "gzip.hpp"

#include "quern/graph/error.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>

namespace quern::training {

namespace {

class Inflater {
 public:
  Inflater() {
    constexpr int gzip_alone = 16;
    if (inflateInit2(&stream_, gzip_alone + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  z_stream& stream() noexcept { return stream_; }

 private:
  z_stream stream_{};
};

}  // namespace

std::string unpack_gzip(const std::string& name, std::string_view bytes, std::uint64_t most) {
  Inflater inflater;
  z_stream& stream = inflater.stream();
  std::string text;
  std::array<char, 64 * 1024> piece{};
  constexpr std::size_t most_at_once = std::size_t{1} << 30;  // zlib counts in 32 bits
  for (;;) {
    if (stream.avail_in == 0) {
      stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));  // zlib does not write to it
      stream.avail_in = static_cast<uInt>(std::min(bytes.size(), most_at_once));
      bytes.remove_prefix(stream.avail_in);
    }
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    const int result = inflate(&stream, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_BUF_ERROR)  // nothing came out, and nothing is left to go in
      throw Error(QUERN_BAD_MODEL, concat(name, ": the gzip data ends in the middle; the file is probably cut off"));
    if (result != Z_OK && result != Z_STREAM_END)
      throw Error(QUERN_BAD_MODEL, concat(name, ": is not gzip data, or is damaged", stream.msg == nullptr ? "" : ": ",
                                          stream.msg == nullptr ? "" : stream.msg));
    const std::size_t got = piece.size() - stream.avail_out;
    if (got > most - text.size())
      throw Error(QUERN_BAD_MODEL, concat(name, ": unpacks to more than ", most, " bytes, which is the most that is read"));
    text.append(piece.data(), got);
    if (result != Z_STREAM_END) continue;
    if (stream.avail_in == 0 && bytes.empty()) return text;
    inflateReset(&stream);
  }
}

}  // namespace quern::training
