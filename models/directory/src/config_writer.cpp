#include "config_writer.hpp"

#include "tensor_names.hpp"

#include "quern/graph/ops.hpp"
#include "quern/models/floats.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

namespace quern::directory {
namespace {

using graph::ops::RopeScaling;

/// The shortest decimal that is this number in f32, as the files of models have them: 1e-05, not 9.999999747378752e-06.
double decimal(double number) {
  char digits[32];
  const auto written = std::to_chars(digits, digits + sizeof digits, static_cast<float>(number));
  double value = 0;
  std::from_chars(digits, written.ptr, value);
  return value;
}

Error not_of_class(const gguf::File& model, const Family& family, std::string_view text) {
  return Error(QUERN_UNSUPPORTED, concat(model.name(), ": no directory of ", family.class_name, " holds this model: ", text));
}

/// The largest difference, as a share of what was wanted.
double difference(std::span<const float> found, std::span<const float> wanted) {
  double most = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) most = std::max(most, std::abs(double{found[i]} - wanted[i]) / wanted[i]);
  return most;
}

/// The original context and the upper corner that two blended divisors give, with the lower corner at 1. Nothing where no two are blended.
std::optional<Llama3Rotation> fitted(std::span<const float> divisors, double factor, double base) {
  struct Point {
    double frequency, smooth;
  };
  std::vector<Point> points;
  for (std::size_t i = 0; i < divisors.size(); ++i) {
    const double frequency = std::pow(base, -static_cast<double>(i) / static_cast<double>(divisors.size())) / (2 * std::numbers::pi);
    const double smooth = (1.0 / divisors[i] - 1 / factor) / (1 - 1 / factor);
    if (smooth > 1e-4 && smooth < 1 - 1e-4) points.push_back({frequency, smooth});
  }
  if (points.size() < 2) return std::nullopt;
  // original * frequency = 1 + smooth * (high - 1) in both.
  const auto [f, s] = points.front();
  const auto [g, t] = points.back();
  const double determinant = s * g - t * f, original = (s - t) / determinant, high = 1 + (f - g) / determinant;
  if (!(original >= 1 && original < 2e9 && high > 1 && high < 1e6)) return std::nullopt;
  return Llama3Rotation{factor, 1, std::round(high * 256) / 256, static_cast<std::uint64_t>(std::llround(original))};
}

/// The rotation that has these divisors. A converter that computed in f32 is 2^-20 away, and 1e-5 moves an angle at the original context
/// by less than f32 rounds it.
Llama3Rotation rotation_of(const gguf::File& model, const models::Hyperparameters& numbers, const Family& family) {
  const gguf::TensorBytes bytes = model.read(model.require_tensor(made_tensor));
  const std::vector<float> wanted = models::decode_floats(QUERN_F32, bytes.bytes());
  if (!std::ranges::all_of(wanted, [](float divisor) { return divisor >= 1 && std::isfinite(divisor); }))
    throw not_of_class(model, family, "a divisor of rope_freqs.weight is below 1");
  const double factor = decimal(std::ranges::max(wanted));
  std::vector<Llama3Rotation> candidates;
  for (std::uint64_t original = 1024; original <= 131072; original *= 2) candidates.push_back({factor, 1, 4, original});
  candidates.push_back({factor, 1, 4, std::max<std::uint64_t>(1, static_cast<std::uint64_t>(numbers.context / factor))});
  if (const auto more = fitted(wanted, factor, numbers.rope_base)) candidates.push_back(*more);
  const auto error_of = [&](const Llama3Rotation& one) {
    return difference(divisors_of(one, numbers.rope_base, numbers.head_size), wanted);
  };
  const Llama3Rotation best = *std::ranges::min_element(candidates, {}, error_of);
  if (error_of(best) > 1e-5) throw not_of_class(model, family, "rope_freqs.weight has divisors that no rotation of kind llama3 gives");
  return best;
}

void write_rotation(const gguf::File& model, const models::Hyperparameters& numbers, const Family& family, JsonWriter& json) {
  json.member("rope_theta", decimal(numbers.rope_base));
  json.key("rope_scaling");
  const auto kind = static_cast<RopeScaling>(numbers.rope_scaling);
  if (kind == RopeScaling::none && !numbers.rope_factors) return json.value(nullptr);
  json.begin_object();
  if (numbers.rope_factors) {
    if (kind != RopeScaling::none) throw not_of_class(model, family, "its rotation has divisors and a scaling");
    const Llama3Rotation rotation = rotation_of(model, numbers, family);
    json.member("rope_type", "llama3");
    json.member("factor", rotation.factor);
    json.member("low_freq_factor", rotation.low_freq_factor);
    json.member("high_freq_factor", rotation.high_freq_factor);
    json.member("original_max_position_embeddings", rotation.original_context);
  } else {
    json.member("rope_type", kind == RopeScaling::yarn ? "yarn" : "linear");
    json.member("factor", decimal(numbers.rope_factor));
  }
  if (kind == RopeScaling::yarn) {
    json.member("original_max_position_embeddings", numbers.rope_original_context);
    json.member("beta_fast", decimal(numbers.rope_beta_fast));
    json.member("beta_slow", decimal(numbers.rope_beta_slow));
    const double usual = numbers.rope_factor > 1 ? 0.1 * std::log(numbers.rope_factor) + 1 : 1;
    if (static_cast<float>(numbers.rope_mscale) != static_cast<float>(usual)) json.member("attention_factor", decimal(numbers.rope_mscale));
  }
  json.end_object();
}

}  // namespace

Shape shape_of(const gguf::File& model, const models::Hyperparameters& numbers, const Family& family) {
  if (numbers.value_size != numbers.head_size)
    throw not_of_class(model, family, concat("its values have ", numbers.value_size, " elements a head and its keys ", numbers.head_size));
  if (numbers.rope_size != numbers.head_size)
    throw not_of_class(model, family, concat("it rotates ", numbers.rope_size, " of the ", numbers.head_size, " elements of a head"));
  const bool fits = family.biases == Biases::if_stated
                        ? numbers.attention_bias == numbers.output_bias
                        : numbers.attention_bias == (family.biases == Biases::of_qkv) && !numbers.output_bias;
  if (!fits) throw not_of_class(model, family, "its attention has biases in other places");
  Shape shape;
  shape.layers = numbers.layers;
  shape.hidden = numbers.hidden;
  shape.heads = numbers.heads;
  shape.kv_heads = numbers.kv_heads;
  shape.head_size = numbers.head_size;
  shape.context = numbers.context;
  shape.tied = numbers.tied_head;
  return shape;
}

std::string config_text(const gguf::File& model, const models::Hyperparameters& numbers, const Family& family, const Tokenizer& tokenizer,
                        quern_dtype dtype, const std::function<void(JsonWriter&)>& quantisation) {
  JsonWriter json;
  json.begin_object();
  json.member("architectures", std::vector<std::string_view>{family.class_name});
  json.member("model_type", family.model_type);
  json.member("hidden_act", "silu");
  json.member("hidden_size", numbers.hidden);
  json.member("intermediate_size", numbers.ffn);
  json.member("num_hidden_layers", numbers.layers);
  json.member("num_attention_heads", numbers.heads);
  json.member("num_key_value_heads", numbers.kv_heads);
  json.member("head_dim", numbers.head_size);
  json.member("vocab_size", numbers.vocabulary);
  json.member("max_position_embeddings", numbers.context);
  json.member("rms_norm_eps", decimal(numbers.norm_epsilon));
  json.member("tie_word_embeddings", numbers.tied_head);
  if (family.biases == Biases::if_stated) json.member("attention_bias", numbers.attention_bias);
  if (family.window == Window::if_stated) json.member("sliding_window", numbers.sliding_window);
  if (family.window == Window::if_used) {
    json.member("use_sliding_window", numbers.sliding_window != 0);
    json.member("sliding_window", numbers.sliding_window == 0 ? std::nullopt : std::optional(numbers.sliding_window));
    json.member("max_window_layers", numbers.sliding_window == 0 ? numbers.layers : 0);
  }
  write_rotation(model, numbers, family, json);
  json.member("bos_token_id", tokenizer.bos());
  json.member("eos_token_id", tokenizer.eos());
  json.member("torch_dtype", dtype == QUERN_F32 ? "float32" : dtype == QUERN_F16 ? "float16" : "bfloat16");
  json.member("use_cache", true);
  if (quantisation) quantisation(json);
  json.end_object();
  return json.take() + "\n";
}

}  // namespace quern::directory
