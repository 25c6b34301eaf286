#include "tiny_model.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

namespace quern::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is written as memory has it");

constexpr std::uint32_t width = 64, feed_forward = 96, layers = 2, heads = 4, kv_heads = 2, head = 16, vocabulary = 64;

/// From -1 to 1, in steps of 2^-23: the same for the same tensor and place everywhere (splitmix64).
double made_up(std::uint64_t tensor, std::uint64_t place) {
  std::uint64_t x = (tensor << 32 | place) + 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  x ^= x >> 31;
  return static_cast<double>(x >> 40) * 0x1p-23 - 1;
}

template <class Number>
void put(std::string& to, Number value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

void put_text(std::string& to, std::string_view text) {
  put(to, std::uint64_t{text.size()});
  to += text;
}

/// Keys of a GGUF file and their count.
class Keys {
 public:
  void number(const std::string& name, std::uint32_t value) { begin(name, 4), put(bytes_, value); }
  void real(const std::string& name, float value) { begin(name, 6), put(bytes_, value); }
  void text(const std::string& name, std::string_view value) { begin(name, 8), put_text(bytes_, value); }
  void tokens() {
    begin_list("tokenizer.ggml.tokens", 8);
    for (std::uint32_t t = 0; t < vocabulary; ++t)
      put_text(bytes_, t == 0 ? "<unk>" : t == 1 ? "<s>" : t == 2 ? "</s>" : "t" + std::to_string(t));
    begin_list("tokenizer.ggml.scores", 6);
    for (std::uint32_t t = 0; t < vocabulary; ++t) put(bytes_, 0.0f);
    begin_list("tokenizer.ggml.token_type", 5);
    for (std::uint32_t t = 0; t < vocabulary; ++t) put(bytes_, std::int32_t{t == 0 ? 2 : t < 3 ? 3 : 1});
  }
  std::uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(const std::string& name, std::uint32_t kind) {
    ++count_;
    put_text(bytes_, name);
    put(bytes_, kind);
  }
  void begin_list(const std::string& name, std::uint32_t kind) {
    begin(name, 9);
    put(bytes_, kind);
    put(bytes_, std::uint64_t{vocabulary});
  }

  std::string bytes_;
  std::uint64_t count_ = 0;
};

/// Heads and data of the tensors; all are multiples of 32 bytes, so that none needs padding.
class Tensors {
 public:
  void matrix(const std::string& name, std::uint64_t columns, std::uint64_t rows, double scale) {
    begin(name, {columns, rows});
    for (std::uint64_t at = 0; at < columns * rows; ++at) put(data_, static_cast<float>(made_up(count_, at) * scale));
  }
  /// Weights of a norm: around 1.
  void norm(const std::string& name) {
    begin(name, {width});
    for (std::uint64_t at = 0; at < width; ++at) put(data_, static_cast<float>(1 + made_up(count_, at) * 0.25));
  }
  std::uint64_t count() const { return count_; }
  const std::string& heads_bytes() const { return heads_; }
  const std::string& data() const { return data_; }

 private:
  void begin(const std::string& name, const std::vector<std::uint64_t>& dims) {
    ++count_;
    put_text(heads_, name);
    put(heads_, static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) put(heads_, dim);
    put(heads_, std::uint32_t{0});  // f32
    put(heads_, std::uint64_t{data_.size()});
  }

  std::string heads_, data_;
  std::uint64_t count_ = 0;
};

Keys tiny_keys() {
  Keys keys;
  keys.text("general.architecture", "llama");
  keys.text("general.name", "made up by quern doctor --try");
  keys.number("general.alignment", 32);
  keys.number("general.file_type", 0);
  keys.number("llama.context_length", 64);
  keys.number("llama.embedding_length", width);
  keys.number("llama.block_count", layers);
  keys.number("llama.feed_forward_length", feed_forward);
  keys.number("llama.attention.head_count", heads);
  keys.number("llama.attention.head_count_kv", kv_heads);
  keys.number("llama.attention.key_length", head);
  keys.number("llama.attention.value_length", head);
  keys.number("llama.rope.dimension_count", head);
  keys.number("llama.vocab_size", vocabulary);
  keys.real("llama.attention.layer_norm_rms_epsilon", 0x1p-17f);
  keys.real("llama.rope.freq_base", 10000);
  keys.text("tokenizer.ggml.model", "llama");
  keys.tokens();
  keys.number("tokenizer.ggml.bos_token_id", 1);
  keys.number("tokenizer.ggml.eos_token_id", 2);
  keys.number("tokenizer.ggml.unknown_token_id", 0);
  return keys;
}

Tensors tiny_tensors() {
  Tensors tensors;
  tensors.matrix("token_embd.weight", width, vocabulary, 0.5);
  tensors.norm("output_norm.weight");
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    tensors.norm(block + "attn_norm.weight");
    tensors.matrix(block + "attn_q.weight", width, heads * head, 0.25);
    tensors.matrix(block + "attn_k.weight", width, kv_heads * head, 0.25);
    tensors.matrix(block + "attn_v.weight", width, kv_heads * head, 0.25);
    tensors.matrix(block + "attn_output.weight", heads * head, width, 0.25);
    tensors.norm(block + "ffn_norm.weight");
    tensors.matrix(block + "ffn_gate.weight", width, feed_forward, 0.25);
    tensors.matrix(block + "ffn_up.weight", width, feed_forward, 0.25);
    tensors.matrix(block + "ffn_down.weight", feed_forward, width, 0.25);
  }
  return tensors;
}

}  // namespace

std::string tiny_model_file() {
  const Keys keys = tiny_keys();
  const Tensors tensors = tiny_tensors();
  std::string file = "GGUF";
  put(file, std::uint32_t{3});
  put(file, tensors.count());
  put(file, keys.count());
  file += keys.bytes() + tensors.heads_bytes();
  file.append((32 - file.size() % 32) % 32, '\0');
  return file + tensors.data();
}

std::vector<std::int32_t> tiny_model_ids() {
  std::vector<std::int32_t> ids(tiny_tokens);
  for (std::uint32_t i = 0; i < tiny_tokens; ++i) ids[i] = static_cast<std::int32_t>(3 + (7 * i + 5) % 61);
  return ids;
}

const std::array<double, tiny_tokens - 1> tiny_model_nll = {5.750428142, 9.965210991, 6.515537600, 4.586326386, 8.271489179,
                                                            7.668221132, 6.308427134, 4.938063683, 4.671378871, 4.590089662,
                                                            3.840997638, 8.126154238, 4.871529709, 7.393810002, 9.238169206};

SmallProduct small_product() {
  constexpr auto m = SmallProduct::m, n = SmallProduct::n, k = SmallProduct::k;
  SmallProduct p;
  for (std::int64_t i = 0; i < m * k; ++i) p.a.push_back(static_cast<float>(made_up(1001, static_cast<std::uint64_t>(i))));
  for (std::int64_t i = 0; i < n * k; ++i) p.b.push_back(static_cast<float>(made_up(1002, static_cast<std::uint64_t>(i))));
  for (std::int64_t row = 0; row < m; ++row)
    for (std::int64_t column = 0; column < n; ++column) {
      double sum = 0, size = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double term = double{p.a[static_cast<std::size_t>(row * k + i)]} * p.b[static_cast<std::size_t>(column * k + i)];
        sum += term;
        size += std::abs(term);
      }
      p.y.push_back(sum);
      p.bound.push_back((k / 8.0 + 2 * std::sqrt(static_cast<double>(k)) + 16) * 0x1p-24 * size);
    }
  return p;
}

double worst_share(const SmallProduct& product, std::span<const float> found) {
  double worst = 0;
  for (std::size_t i = 0; i < product.y.size(); ++i) {
    const double share = std::abs(found[i] - product.y[i]) / product.bound[i];
    worst = std::isfinite(share) ? std::max(worst, share) : std::numeric_limits<double>::infinity();
  }
  return worst;
}

double worst_nll(std::span<const float> found) {
  double worst = 0;
  for (std::size_t i = 0; i < tiny_model_nll.size(); ++i) {
    const double apart = std::abs(found[i] - tiny_model_nll[i]);
    worst = std::isfinite(apart) ? std::max(worst, apart) : std::numeric_limits<double>::infinity();
  }
  return worst;
}

}  // namespace quern::cli
