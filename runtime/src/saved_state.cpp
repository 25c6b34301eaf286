// See saved_state.hpp.
#include "saved_state.hpp"

#include "model.hpp"

#include <cstring>

namespace quern::runtime {
namespace {

constexpr std::uint32_t magic = 0x534e5251;  // "QRNS"
constexpr std::uint32_t version = 1;

struct Header {
  std::uint32_t magic, version;
  std::uint64_t fingerprint;
  std::uint32_t kv_dtype, page_size, layers, sequences;
  std::uint64_t key_page, value_page;
};
static_assert(sizeof(Header) == 48);

std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t value = 0xcbf29ce484222325ull;
  for (const std::byte b : bytes) value = (value ^ static_cast<std::uint64_t>(b)) * 0x100000001b3ull;
  return value;
}

Header header_of(const Engine& engine) {
  return {magic,
          version,
          engine.model().fingerprint(),
          engine.model().kv_dtype(),
          kv_page_size,
          static_cast<std::uint32_t>(engine.model().step().k_cache.size()),
          engine.sequences(),
          engine.page_bytes(true),
          engine.page_bytes(false)};
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
  std::span<const std::byte> pages;
};

}  // namespace

std::uint64_t saved_size(const Engine& engine) {
  const Header header = header_of(engine);
  std::uint64_t size = sizeof(Header) + sizeof(std::uint64_t);
  for (std::uint32_t s = 0; s < engine.sequences(); ++s) {
    const std::uint64_t tokens = engine.tokens(s).size();
    size += sizeof(std::uint64_t) + tokens * sizeof(std::int32_t) +
            pages_for(tokens) * header.layers * (header.key_page + header.value_page);
  }
  return size;
}

std::vector<std::byte> save(const Engine& engine) {
  const Header header = header_of(engine);
  std::vector<std::byte> bytes(saved_size(engine));
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
        const std::uint64_t page_bytes = keys ? header.key_page : header.value_page;
        for (const std::int32_t page : engine.pages().pages_of(s)) {
          engine.read_page(layer, keys, page, std::span(bytes).subspan(at, page_bytes));
          at += page_bytes;
        }
      }
    }
  }
  const std::uint64_t sum = checksum(std::span(bytes).first(at));
  put(&sum, sizeof(sum));
  return bytes;
}

void restore(Engine& engine, std::span<const std::byte> bytes, const std::string& name) {
  const auto refuse = [&](const std::string& text) { throw Error(QUERN_BAD_MODEL, concat(name, ": ", text)); };
  Reader reader(bytes, name);
  const auto header = reader.number<Header>("the header");
  const Header own = header_of(engine);
  if (header.magic != magic) refuse("this is not a saved session (it does not begin with QRNS)");
  if (header.version != version) refuse(concat("the saved session has version ", header.version, "; this program reads ", version));
  if (header.fingerprint != own.fingerprint) refuse("it was saved by another model file");
  if (header.kv_dtype != own.kv_dtype) {
    refuse(concat("its keys and values are ", graph::dtype_name(header.kv_dtype), " but this session has ",
                  graph::dtype_name(own.kv_dtype)));
  }
  if (header.page_size != own.page_size || header.layers != own.layers || header.key_page != own.key_page ||
      header.value_page != own.value_page) {
    refuse("its pages have another shape than this model's");
  }
  if (bytes.size() < sizeof(std::uint64_t) ||
      checksum(bytes.first(bytes.size() - 8)) != [&] {
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
      throw Error(QUERN_CONTEXT_FULL, concat(name, ": a sequence has ", count, " tokens but the context is ", engine.context()));
    }
    const std::span<const std::byte> tokens = reader.take(count * sizeof(std::int32_t), "the tokens");
    sequence.tokens.resize(count);
    if (count > 0) std::memcpy(sequence.tokens.data(), tokens.data(), tokens.size());
    for (const std::int32_t token : sequence.tokens) {
      if (token < 0 || static_cast<std::uint32_t>(token) >= engine.model().shape().vocabulary) {
        refuse(concat("token ", token, " is outside the vocabulary"));
      }
    }
    sequence.pages = reader.take(pages_for(count) * header.layers * (header.key_page + header.value_page), "the pages");
  }
  if (reader.left() != sizeof(std::uint64_t)) refuse(concat("there are ", reader.left(), " bytes behind the last sequence"));

  for (std::uint32_t s = 0; s < engine.sequences(); ++s) engine.truncate(s, 0);
  for (std::uint32_t s = 0; s < sequences.size(); ++s) {
    engine.adopt(s, std::move(sequences[s].tokens));
    std::size_t at = 0;
    for (std::uint32_t layer = 0; layer < header.layers; ++layer) {
      for (const bool keys : {true, false}) {
        const std::uint64_t page_bytes = keys ? header.key_page : header.value_page;
        for (const std::int32_t page : engine.pages().pages_of(s)) {
          engine.write_page(layer, keys, page, sequences[s].pages.subspan(at, page_bytes));
          at += page_bytes;
        }
      }
    }
  }
}

}  // namespace quern::runtime
