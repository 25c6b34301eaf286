// Tiny models for the tests of architectures, and step graphs run through the reference interpreter.
#include "builders.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace quern::test {
namespace {

/// Numbers without a pattern, all different, about 0.3 in size.
std::vector<float> numbers(std::uint64_t count, float around) {
  static std::uint32_t state = 1;
  std::vector<float> list(count);
  for (float& x : list) {
    state = state * 1664525u + 1013904223u;
    x = around + 0.6f * (static_cast<float>(state >> 8) / 16777216.0f - 0.5f);
  }
  return list;
}

void add(GgufWriter& writer, const std::string& name, std::vector<std::uint64_t> dims, float around = 0) {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : dims) count *= dim;
  writer.tensor_f32(name, std::move(dims), numbers(count, around));
}

GgufWriter tiny(const std::string& architecture) {
  GgufWriter w;
  w.string("general.architecture", architecture);
  const auto key = [&](const char* suffix) { return architecture + "." + suffix; };
  w.u32(key("block_count"), 2).u32(key("context_length"), 64).u32(key("embedding_length"), 8);
  w.u32(key("feed_forward_length"), 12).u32(key("attention.head_count"), 4).u32(key("attention.head_count_kv"), 2);
  w.f32(key("attention.layer_norm_rms_epsilon"), 1e-5f).f32(key("rope.freq_base"), 10000.0f);
  add(w, "token_embd.weight", {8, 10});
  add(w, "output_norm.weight", {8}, 1);
  add(w, "output.weight", {8, 10});
  for (int layer = 0; layer < 2; ++layer) {
    const auto name = [&](const char* suffix) { return concat("blk.", layer, ".", suffix); };
    add(w, name("attn_norm.weight"), {8}, 1);
    add(w, name("attn_q.weight"), {8, 8});
    add(w, name("attn_k.weight"), {8, 4});
    add(w, name("attn_v.weight"), {8, 4});
    add(w, name("attn_output.weight"), {8, 8});
    add(w, name("ffn_norm.weight"), {8}, 1);
    add(w, name("ffn_gate.weight"), {8, 12});
    add(w, name("ffn_up.weight"), {8, 12});
    add(w, name("ffn_down.weight"), {12, 8});
  }
  return w;
}

float from_f16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const float mantissa = static_cast<float>(bits & 1023);
  const float magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

}  // namespace

GgufWriter tiny_llama() { return tiny("llama"); }

GgufWriter tiny_qwen3() {
  GgufWriter w = tiny("qwen3");
  w.u32("qwen3.attention.key_length", 2).u32("qwen3.attention.value_length", 2);
  for (int layer = 0; layer < 2; ++layer) {
    add(w, concat("blk.", layer, ".attn_q_norm.weight"), {2}, 1);
    add(w, concat("blk.", layer, ".attn_k_norm.weight"), {2}, 1);
  }
  return w;
}

Model::Model(GgufWriter::Bytes b, std::string name)
    : bytes(std::move(b)), file(gguf::File::from_memory(bytes, std::move(name))), shape(models::read_hyperparameters(file)) {}

std::vector<float> elements(const gguf::File& file, const std::string& tensor) {
  const gguf::TensorInfo& info = file.require_tensor(tensor);
  const std::span<const std::byte> bytes = file.data(info);
  std::vector<float> list(info.elements());
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (info.dtype == QUERN_F32) {
      std::memcpy(&list[i], bytes.data() + 4 * i, 4);
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + 2 * i, 2);
      list[i] = from_f16(bits);
    }
  }
  return list;
}

models::StepOptions test_options(std::uint32_t sequences, std::uint32_t positions) {
  models::StepOptions options;
  options.max_tokens = 64;
  options.max_sequences = sequences;
  options.max_outputs = 64;
  options.page_size = 4;
  options.pages_per_sequence = (positions + 3) / 4;
  options.pages = sequences * options.pages_per_sequence + 3;
  options.rope_positions = positions;
  options.kv_dtype = QUERN_F32;
  options.sampling = false;
  return options;
}

ReferenceModel::ReferenceModel(const models::Hyperparameters& shape, const gguf::File& file, models::StepOptions options)
    : options_(options), step_(models::build_step(shape, file, options)), run_(step_.graph) {
  for (const auto& [value, tensor] : step_.weights) run_.set(value, elements(file, tensor));
  models::RopeGraph rope = models::build_rope(shape, options.rope_positions);
  ReferenceInterpreter table(rope.graph);
  if (rope.factors != graph::no_value) table.set(rope.factors, elements(file, "rope_freqs.weight"));
  table.run();
  run_.set(step_.rope_table, table.get(rope.table));
  // From the last page down, so that a page's place says nothing of its number; unwritten slots must never count.
  std::vector<std::int32_t> blocks;
  for (std::uint32_t i = 0; i < options.max_sequences * options.pages_per_sequence; ++i)
    blocks.push_back(static_cast<std::int32_t>(options.pages - 1 - i));
  run_.set(step_.block_table, blocks);
  for (const auto& caches : {step_.k_cache, step_.v_cache})
    for (const graph::ValueId cache : caches) run_.set(cache, std::vector<double>(run_.get(cache).size(), std::nan("")));
}

std::vector<std::vector<double>> ReferenceModel::step(const std::vector<Row>& rows, const std::vector<std::int32_t>& wanted) {
  run_.extent(step_.tokens, static_cast<std::int64_t>(rows.size()));
  run_.extent(step_.outputs, static_cast<std::int64_t>(wanted.size()));
  std::vector<std::int32_t> token, position, slot;
  for (const Row& row : rows) {
    token.push_back(row.token);
    position.push_back(row.position);
    slot.push_back(row.slot);
  }
  run_.set(step_.token, token);
  run_.set(step_.position, position);
  run_.set(step_.row_slot, slot);
  run_.set(step_.output_row, wanted);
  run_.run();
  const std::vector<double> all = run_.get(step_.logits);
  std::vector<std::vector<double>> logits(wanted.size());
  const std::size_t n = wanted.empty() ? 0 : all.size() / wanted.size();
  for (std::size_t i = 0; i < wanted.size(); ++i)
    logits[i].assign(all.begin() + static_cast<std::ptrdiff_t>(i * n), all.begin() + static_cast<std::ptrdiff_t>((i + 1) * n));
  return logits;
}

}  // namespace quern::test
