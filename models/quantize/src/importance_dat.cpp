// See importance_dat.hpp.
//
//   i32 entries, then for each: i32 length, name; i32 chunks; i32 count, f32 sums
//   and perhaps behind them: i32 chunks of the file; i32 length, path of the text
#include "importance_dat.hpp"

#include "quern/base/files.hpp"
#include "quern/graph/file_error.hpp"

#include <cmath>
#include <cstring>

namespace quern::quantize {
namespace {

constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;
constexpr std::uint32_t most_entries = 65536;  // one of few numbers takes ten times its bytes in memory
constexpr std::size_t most_name = 240;         // with ".in_sum2" it is a name of a GGUF file
constexpr std::uint32_t chunk_tokens = 512;    // what its chunks have unless somebody asked for others; the file does not have the number

class Reader {
 public:
  Reader(const std::string& path, std::string_view bytes) : path_(path), bytes_(bytes) {}

  bool at_end() const { return at_ == bytes_.size(); }
  /// `least` bytes at least must be left for each.
  std::uint32_t count(const char* what, std::uint64_t least, std::uint32_t smallest = 0) {
    std::int32_t number;
    const std::string_view four = take(sizeof number, what);
    std::memcpy(&number, four.data(), sizeof number);
    if (number < static_cast<std::int32_t>(smallest) || static_cast<std::uint64_t>(number) * least > bytes_.size() - at_)
      throw bad(concat(what, " is ", number, " and ", bytes_.size() - at_, " bytes follow"));
    return static_cast<std::uint32_t>(number);
  }
  std::string_view take(std::size_t size, const char* what) {
    if (size > bytes_.size() - at_) throw bad(concat("it ends within ", what));
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }
  Error bad(std::string_view text) const {
    return Error(QUERN_BAD_MODEL, concat(path_, ": is no importance matrix: at byte ", at_, " ", text));
  }

 private:
  const std::string& path_;
  std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace

Importance importance_of_dat(const std::string& path) {
  std::string bytes;
  check_read(base::read_file(path, bytes, {.most = most_bytes}));
  Reader reader(path, bytes);
  Importance made;
  made.chunk_tokens = chunk_tokens;
  const std::uint32_t entries = reader.count("the number of entries", 12, 1);
  if (entries > most_entries) throw reader.bad(concat("the number of entries is ", entries, "; at most ", most_entries, " are read"));
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::string name(reader.take(reader.count("the length of a name", 1, 1), "a name"));
    if (name.size() > most_name) throw reader.bad(concat("a name has ", name.size(), " bytes; at most ", most_name, " are read"));
    const std::uint32_t chunks = reader.count("a number of chunks", 0);
    std::vector<float> sums(reader.count("a number of sums", sizeof(float), 1));
    std::memcpy(sums.data(), reader.take(sums.size() * sizeof(float), "sums").data(), sums.size() * sizeof(float));
    ImportanceEntry entry;
    for (const float sum : sums) {
      if (!std::isfinite(sum) || sum < 0)
        throw reader.bad(concat("'", name, "' has ", sum, "; sums of squares are finite and not negative"));
      entry.sums.push_back(static_cast<double>(sum) * chunk_tokens);
    }
    entry.counts = {static_cast<double>(chunks) * chunk_tokens};
    if (!made.entries.emplace(name, std::move(entry)).second) throw reader.bad(concat("'", name, "' is there twice"));
    made.chunks = std::max(made.chunks, chunks);
  }
  if (!reader.at_end()) {
    made.chunks = reader.count("the number of chunks", 0);
    if (!reader.at_end()) made.datasets.emplace_back(reader.take(reader.count("the length of a path", 1), "a path"));
  }
  return made;
}

}  // namespace quern::quantize
