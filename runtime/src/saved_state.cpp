// See saved_state.hpp.
#include "saved_state.hpp"

#include "model.hpp"

#include "quern/base/byte_sizes.hpp"

#include <algorithm>
#include <cstring>

namespace quern::runtime {
namespace {

constexpr std::uint32_t state_magic = 0x534e5251;  // "QRNS"
constexpr std::uint32_t version = 2;

struct Header {
  std::uint32_t magic, version;
  std::uint64_t fingerprint;
  std::uint32_t kv_dtype, page_size, layers, sequences;
  std::uint64_t key_page, value_page;
};
static_assert(sizeof(Header) == 48);

std::uint64_t state_checksum(std::span<const std::byte> bytes) {
  std::uint64_t value = 0xcbf29ce484222325ull;
  for (const std::byte b : bytes) value = (value ^ static_cast<std::uint64_t>(b)) * 0x100000001b3ull;
  return value;
}

Header header_of(const Engine& engine) {
  return {state_magic,
          version,
          engine.model().fingerprint() ^ engine.adapters().fingerprint(),
          engine.model().kv_dtype(),
          kv_page_size,
          static_cast<std::uint32_t>(engine.model().step().k_cache.size()),
          engine.sequences(),
          engine.page_bytes(true),
          engine.page_bytes(false)};
}

/// Rows of one page as they lie there: [heads][page][row], of which a sequence's last page has only some.
struct PageRows {
  PageRows(const Engine& engine, bool keys)
      : heads(engine.model().shape().kv_heads),
        row_bytes(engine.page_bytes(keys) / heads / kv_page_size),
        page_bytes(engine.page_bytes(keys)) {}
  std::uint64_t bytes(std::uint64_t rows) const { return heads * rows * row_bytes; }
  /// Copies the first `rows` rows of each head, from a list with `from_rows` rows a head to one with `to_rows`.
  void move(std::span<const std::byte> from, std::uint64_t from_rows, std::span<std::byte> to, std::uint64_t to_rows,
            std::uint64_t rows) const {
    for (std::uint64_t head = 0; head < heads; ++head)
      std::memcpy(to.data() + head * to_rows * row_bytes, from.data() + head * from_rows * row_bytes, rows * row_bytes);
  }
  std::uint64_t heads, row_bytes, page_bytes;
};

std::uint64_t rows_of_page(std::uint64_t tokens, std::size_t page) {
  return std::min<std::uint64_t>(kv_page_size, tokens - page * kv_page_size);
}
std::uint64_t pages_for(std::uint64_t tokens) { return (tokens + kv_page_size - 1) / kv_page_size; }

/// Reads the bytes in order and never beyond their end.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}
  std::span<const std::byte> take(std::uint64_t count, const char* what) {
    if (count > bytes_.size() - at_) {
      throw Error(QUERN_BAD_MODEL, concat(name_, ": the saved session ends inside ", what, " at byte ", at_, ": ", count,
                                          " bytes are needed and ", bytes_.size() - at_, " are left"));
    }
    const auto part = bytes_.subspan(at_, count);
    at_ += count;
    return part;
  }
  template <typename T>
  T number(const char* what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  std::uint64_t left() const { return bytes_.size() - at_; }

 private:
  std::span<const std::byte> bytes_;
  const std::string& name_;
  std::size_t at_ = 0;
};

struct SavedSequence {
  std::vector<std::int32_t> tokens;
  std::span<const std::byte> rows;
};

/// Writes the rows of a sequence into the pages that it has; where a page is not full, zeros behind them.
void write_rows(Engine& engine, std::uint32_t slot, const SavedSequence& sequence, std::span<std::byte> page_of_rows) {
  const std::span<const std::int32_t> pages = engine.pages().pages_of(slot);
  std::uint64_t at = 0;
  for (std::uint32_t layer = 0; layer < engine.model().step().k_cache.size(); ++layer) {
    for (const bool keys : {true, false}) {
      const PageRows shape(engine, keys);
      const std::span<std::byte> staged = page_of_rows.first(shape.page_bytes);
      for (std::size_t i = 0; i < pages.size(); ++i) {
        const std::uint64_t rows = rows_of_page(sequence.tokens.size(), i);
        std::ranges::fill(staged, std::byte{0});
        shape.move(sequence.rows.subspan(at, shape.bytes(rows)), rows, staged, kv_page_size, rows);
        engine.write_page(layer, keys, pages[i], staged);
        at += shape.bytes(rows);
      }
    }
  }
}

}  // namespace

std::uint64_t saved_size(const Engine& engine) {
  const Header header = header_of(engine);
  std::uint64_t size = sizeof(Header) + sizeof(std::uint64_t);
  for (std::uint32_t s = 0; s < engine.sequences(); ++s) {
    const std::uint64_t tokens = engine.tokens(s).size();
    size += sizeof(std::uint64_t) + tokens * sizeof(std::int32_t) +
            header.layers * (PageRows(engine, true).bytes(tokens) + PageRows(engine, false).bytes(tokens));
  }
  return size;
}

std::vector<std::byte> save(const Engine& engine) {
  const Header header = header_of(engine);
  std::vector<std::byte> bytes(saved_size(engine)), page(std::max(header.key_page, header.value_page));
  std::size_t at = 0;
  const auto put = [&](const void* from, std::size_t count) {
    if (count > 0) std::memcpy(bytes.data() + at, from, count);
    at += count;
  };
  put(&header, sizeof(header));
  for (std::uint32_t s = 0; s < engine.sequences(); ++s) {
    const std::span<const std::int32_t> tokens = engine.tokens(s);
    const std::uint64_t count = tokens.size();
    put(&count, sizeof(count));
    put(tokens.data(), tokens.size_bytes());
    for (std::uint32_t layer = 0; layer < header.layers; ++layer) {
      for (const bool keys : {true, false}) {
        const PageRows shape(engine, keys);
        const std::span<std::byte> whole = std::span(page).first(shape.page_bytes);
        for (std::size_t i = 0; i < pages_for(count); ++i) {
          const std::uint64_t rows = rows_of_page(count, i);
          const std::span<std::byte> to = std::span(bytes).subspan(at, shape.bytes(rows));
          engine.read_page(layer, keys, engine.pages().pages_of(s)[i], whole);
          shape.move(whole, kv_page_size, to, rows, rows);
          at += to.size();
        }
      }
    }
  }
  const std::uint64_t sum = state_checksum(std::span(bytes).first(at));
  put(&sum, sizeof(sum));
  return bytes;
}

void restore(Engine& engine, std::span<const std::byte> bytes, const std::string& name) {
  const auto refuse = [&](const std::string& text) { throw Error(QUERN_BAD_MODEL, concat(name, ": ", text)); };
  Reader reader(bytes, name);
  const auto header = reader.number<Header>("the header");
  const Header own = header_of(engine);
  if (header.magic != state_magic) refuse("this is not a saved session (it does not begin with QRNS)");
  if (header.version != version)
    refuse(concat("the saved session has version ", header.version, "; this program reads ", version, "; save the session anew"));
  if (header.fingerprint != own.fingerprint)
    refuse("it was saved by another model file, or with other adapters than the sequences have now");
  if (header.kv_dtype != own.kv_dtype) {
    refuse(concat("its keys and values are ", graph::dtype_name(header.kv_dtype), " but this session has ",
                  graph::dtype_name(own.kv_dtype)));
  }
  if (header.page_size != own.page_size || header.layers != own.layers || header.key_page != own.key_page ||
      header.value_page != own.value_page) {
    refuse("its pages have another shape than this model's");
  }
  if (bytes.size() < sizeof(std::uint64_t) || state_checksum(bytes.first(bytes.size() - 8)) != [&] {
        std::uint64_t sum;
        std::memcpy(&sum, bytes.data() + bytes.size() - 8, 8);
        return sum;
      }()) {
    refuse("its checksum does not match: the file is damaged or incomplete");
  }
  if (header.sequences > engine.sequences()) {
    throw Error(QUERN_INVALID_ARGUMENT,
                concat(name, ": it has ", header.sequences, " sequences but this session has ", engine.sequences()));
  }
  std::vector<SavedSequence> sequences(header.sequences);
  for (SavedSequence& sequence : sequences) {
    const auto count = reader.number<std::uint64_t>("a sequence's length");
    if (count > engine.context()) {
      throw Error(QUERN_CONTEXT_FULL, concat(name, ": a sequence has ", counted(count, "token"), " but the context is ", engine.context()));
    }
    const std::span<const std::byte> tokens = reader.take(count * sizeof(std::int32_t), "the tokens");
    sequence.tokens.resize(count);
    if (count > 0) std::memcpy(sequence.tokens.data(), tokens.data(), tokens.size());
    for (const std::int32_t token : sequence.tokens) {
      if (token < 0 || static_cast<std::uint32_t>(token) >= engine.model().shape().vocabulary) {
        refuse(concat("token ", token, " is outside the vocabulary"));
      }
    }
    sequence.rows =
        reader.take(header.layers * (PageRows(engine, true).bytes(count) + PageRows(engine, false).bytes(count)), "the keys and values");
  }
  if (reader.left() != sizeof(std::uint64_t)) refuse(concat("there are ", reader.left(), " bytes behind the last sequence"));

  std::vector<std::byte> page(std::max(header.key_page, header.value_page));

  const auto forget_all = [&] {
    for (std::uint32_t s = 0; s < engine.sequences(); ++s) engine.truncate(s, 0);
  };
  forget_all();
  try {
    for (std::uint32_t s = 0; s < sequences.size(); ++s) {
      engine.adopt(s, sequences[s].tokens);
      write_rows(engine, s, sequences[s], page);
    }
  } catch (...) {  // a sequence whose rows were not all written would go on from other ones
    forget_all();
    throw;
  }
}

}  // namespace quern::runtime
