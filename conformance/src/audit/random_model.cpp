// See random_model.hpp.
#include "audit/random_model.hpp"

#include "data/data_kind.hpp"
#include "data/float_codes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace quern::conformance {
namespace {

constexpr quern_dtype formats[] = {QUERN_F32,  QUERN_Q4_K, QUERN_Q8_0, QUERN_F16,  QUERN_Q6_K, QUERN_Q4_0,
                                   QUERN_BF16, QUERN_Q5_K, QUERN_Q5_0, QUERN_Q4_1, QUERN_Q5_1};
constexpr const char* architectures[] = {"llama", "qwen2", "qwen3"};
constexpr std::uint32_t alignment = 32;

/// The number of a type in GGUF files.
std::uint32_t file_type(quern_dtype dtype) {
  switch (dtype) {
    case QUERN_F32: return 0;
    case QUERN_F16: return 1;
    case QUERN_BF16: return 30;
    case QUERN_Q4_0: return 2;
    case QUERN_Q4_1: return 3;
    case QUERN_Q5_0: return 6;
    case QUERN_Q5_1: return 7;
    case QUERN_Q8_0: return 8;
    case QUERN_Q4_K: return 12;
    case QUERN_Q5_K: return 13;
    case QUERN_Q6_K: return 14;
    default: throw std::logic_error("a model in a format that its file cannot have");
  }
}

/// The format of a matrix: that of the model, where a row is whole blocks of it, else a smaller one, as quantisers do it.
quern_dtype format_for(quern_dtype wanted, std::int64_t columns) {
  if (columns % unit_of(wanted).elements == 0) return wanted;
  if (columns % 32 != 0) return QUERN_F16;
  return wanted == QUERN_Q4_K ? QUERN_Q5_0 : wanted == QUERN_Q5_K ? QUERN_Q5_1 : QUERN_Q8_0;
}

/// Multiplies every f16 number of the blocks, which scale all their elements, by `factor`.
void scale_blocks(const Tensor& tensor, double factor) {
  const quern_format& format = *format_of(tensor.dtype());
  std::vector<std::size_t> places;
  const auto* fields = static_cast<const quern_format_field*>(format.fields.data);
  for (std::uint64_t f = 0; f < format.fields.count; ++f)
    if (fields[f].stored == QUERN_STORED_F16)
      places.push_back(static_cast<const quern_format_piece*>(fields[f].pieces.data)->bit_offset / 8);
  for (std::size_t block = 0; block < tensor.bytes().size(); block += format.block_bytes)
    for (const std::size_t place : places) {
      std::uint16_t bits = 0;
      std::byte* const at = tensor.bytes().data() + block + place;
      std::memcpy(&bits, at, sizeof bits);
      bits = f16_bits(f16_value(bits) * factor);
      std::memcpy(at, &bits, sizeof bits);
    }
}

double root_mean_square(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return std::sqrt(sum / static_cast<double>(values.size()));
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
  template <class Put>
  void list(const std::string& name, std::uint32_t kind, std::uint64_t count, const Put& put_one) {
    begin(name, 9);
    put(bytes_, kind);
    put(bytes_, count);
    for (std::uint64_t i = 0; i < count; ++i) put_one(bytes_, i);
  }
  std::uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(const std::string& name, std::uint32_t kind) {
    ++count_;
    put_text(bytes_, name);
    put(bytes_, kind);
  }
  std::string bytes_;
  std::uint64_t count_ = 0;
};

Keys keys_of(const ModelShape& shape) {
  Keys keys;
  const std::string in = shape.architecture + ".";
  keys.text("general.architecture", shape.architecture);
  keys.number("general.alignment", alignment);
  keys.number(in + "context_length", 4096);
  keys.number(in + "embedding_length", shape.hidden);
  keys.number(in + "block_count", shape.layers);
  keys.number(in + "feed_forward_length", shape.ffn);
  keys.number(in + "attention.head_count", shape.heads);
  keys.number(in + "attention.head_count_kv", shape.kv_heads);
  keys.number(in + "attention.key_length", shape.head_size);
  keys.number(in + "attention.value_length", shape.head_size);
  keys.number(in + "rope.dimension_count", shape.rope_size);
  keys.number(in + "vocab_size", shape.vocabulary);
  if (shape.window != 0) keys.number(in + "attention.sliding_window", shape.window);
  keys.real(in + "attention.layer_norm_rms_epsilon", shape.epsilon);
  keys.real(in + "rope.freq_base", shape.rope_base);
  keys.text("tokenizer.ggml.model", "llama");
  keys.list("tokenizer.ggml.tokens", 8, shape.vocabulary, [](std::string& to, std::uint64_t t) {
    put_text(to, t == 0 ? "<unk>" : t == 1 ? "<s>" : t == 2 ? "</s>" : "t" + std::to_string(t));
  });
  keys.list("tokenizer.ggml.scores", 6, shape.vocabulary, [](std::string& to, std::uint64_t) { put(to, 0.0f); });
  keys.list("tokenizer.ggml.token_type", 5, shape.vocabulary, [](std::string& to, std::uint64_t t) {
    put(to, std::int32_t{t == 0 ? 2 : t < 3 ? 3 : 1});
  });
  keys.number("tokenizer.ggml.bos_token_id", 1);
  keys.number("tokenizer.ggml.eos_token_id", 2);
  keys.number("tokenizer.ggml.unknown_token_id", 0);
  return keys;
}

}  // namespace

std::string ModelShape::words() const {
  return architecture + " of " + std::to_string(layers) + " layers, " + std::to_string(hidden) + " wide, " + std::to_string(heads) + "/" +
         std::to_string(kv_heads) + " heads of " + std::to_string(head_size) + (window != 0 ? ", window " + std::to_string(window) : "") +
         ", " + dtype_name(format);
}

ModelShape draw_shape(std::uint32_t n, Draws& draws) {
  ModelShape s;
  s.architecture = architectures[n % 3];
  s.format = draws.of(formats);
  const bool deep = n % 2 == 1;  // a plan of more nodes than any case of the suite
  const std::uint32_t unit = static_cast<std::uint32_t>(unit_of(s.format).elements);
  s.layers = deep ? draws.between(9, 12) : draws.between(2, 4);
  s.hidden = unit == 256 ? 256 : unit == 32 ? 32 * draws.between(2, deep ? 3 : 6) : 2 * draws.between(30, deep ? 48 : 90);
  s.kv_heads = draws.between(1, 3);
  s.heads = s.kv_heads * draws.between(1, deep ? 3 : 7);
  s.head_size = draws.of(std::array{16u, 24u, 32u, 48u, 64u});
  while (s.heads * s.head_size > 512) s.head_size = 16, s.heads = std::min(s.heads, 512 / s.head_size / s.kv_heads * s.kv_heads);
  s.rope_size = draws.one_in(3) ? s.head_size / 2 / 2 * 2 : s.head_size;
  s.ffn = unit == 256 ? 512 : unit == 32 ? 32 * draws.between(3, 8) : 2 * draws.between(40, 120);
  s.vocabulary = 64 * draws.between(3, 6) + draws.between(0, 63);
  s.tied = draws.one_in(2);
  s.window = draws.one_in(3) ? draws.between(9, 40) : 0;
  s.epsilon = draws.of(std::array{1e-5f, 1e-6f});
  s.rope_base = draws.of(std::array{1e4f, 1e5f, 1e6f});
  return s;
}

ModelShape busy_shape(Draws& draws) {
  ModelShape s;
  s.architecture = draws.of(architectures);
  s.format = QUERN_F32;
  s.layers = 2;
  s.hidden = 512;
  s.kv_heads = 2;
  s.heads = 8;
  s.head_size = s.rope_size = 64;
  s.ffn = 1536;
  s.vocabulary = 256 + draws.between(0, 63);
  s.tied = true;
  s.epsilon = 1e-5f;
  s.rope_base = 1e4f;
  return s;
}

void RandomModel::vector(const std::string& name, std::int64_t size, double middle, double spread) {
  const CounterRandom random = random_.stream(order_.size());
  ModelTensor t{Tensor(QUERN_F32, {size}), {}, 1, size};
  for (std::int64_t i = 0; i < size; ++i) t.stored.set(i, middle + spread * random.gaussian(static_cast<std::uint64_t>(i)));
  t.values = t.stored.values();
  tensors_.emplace(name, std::move(t));
  order_.push_back(name);
}

/// A deviation of columns^-1/2, so that what a product makes is as large as what it reads.
void RandomModel::matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
  const CounterRandom random = random_.stream(order_.size());
  const double deviation = 1 / std::sqrt(static_cast<double>(columns));
  ModelTensor t{Tensor(format_for(shape_.format, columns), {rows, columns}), {}, rows, columns};
  if (format_of(t.stored.dtype()) != nullptr) {
    fill(t.stored, DataKind::gaussian, random);
    scale_blocks(t.stored, deviation / root_mean_square(t.stored.values()));
  } else {
    for (std::int64_t i = 0; i < rows * columns; ++i) t.stored.set(i, deviation * random.gaussian(static_cast<std::uint64_t>(i)));
  }
  t.values = t.stored.values();
  tensors_.emplace(name, std::move(t));
  order_.push_back(name);
}

RandomModel::RandomModel(const ModelShape& shape, const CounterRandom& random) : shape_(shape), random_(random) {
  const std::int64_t hidden = shape.hidden, q = std::int64_t{shape.heads} * shape.head_size,
                     k = std::int64_t{shape.kv_heads} * shape.head_size;
  matrix("token_embd.weight", shape.vocabulary, hidden);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    vector(block + "attn_norm.weight", hidden, 1, 0.25);
    matrix(block + "attn_q.weight", q, hidden);
    matrix(block + "attn_k.weight", k, hidden);
    matrix(block + "attn_v.weight", k, hidden);
    if (shape.biases()) {
      vector(block + "attn_q.bias", q, 0, 0.5);
      vector(block + "attn_k.bias", k, 0, 0.5);
      vector(block + "attn_v.bias", k, 0, 0.5);
    }
    if (shape.norms_of_heads()) {
      vector(block + "attn_q_norm.weight", shape.head_size, 1, 0.25);
      vector(block + "attn_k_norm.weight", shape.head_size, 1, 0.25);
    }
    matrix(block + "attn_output.weight", hidden, q);
    vector(block + "ffn_norm.weight", hidden, 1, 0.25);
    matrix(block + "ffn_gate.weight", shape.ffn, hidden);
    matrix(block + "ffn_up.weight", shape.ffn, hidden);
    matrix(block + "ffn_down.weight", hidden, shape.ffn);
  }
  vector("output_norm.weight", hidden, 2, 0.5);
  if (!shape.tied) matrix("output.weight", shape.vocabulary, hidden);
}

double RandomModel::products() const {
  double sum = 0;
  for (const auto& [name, t] : tensors_)
    if (t.rows > 1 && (name != "token_embd.weight" || shape_.tied)) sum += static_cast<double>(t.rows) * static_cast<double>(t.columns);
  return sum;
}

std::string RandomModel::gguf() const {
  std::string heads, data;
  for (const std::string& name : order_) {
    const ModelTensor& t = tensors_.at(name);
    put_text(heads, name);
    put(heads, static_cast<std::uint32_t>(t.stored.dims().size()));
    for (std::size_t d = t.stored.dims().size(); d-- > 0;) put(heads, static_cast<std::uint64_t>(t.stored.dims()[d]));
    put(heads, file_type(t.stored.dtype()));
    put(heads, std::uint64_t{data.size()});
    data.append(reinterpret_cast<const char*>(t.stored.bytes().data()), t.stored.bytes().size());
    data.append((alignment - data.size() % alignment) % alignment, '\0');
  }
  const Keys keys = keys_of(shape_);
  std::string file = "GGUF";
  put(file, std::uint32_t{3});
  put(file, std::uint64_t{order_.size()});
  put(file, keys.count());
  file += keys.bytes() + heads;
  file.append((alignment - file.size() % alignment) % alignment, '\0');
  return file + data;
}

}  // namespace quern::conformance
