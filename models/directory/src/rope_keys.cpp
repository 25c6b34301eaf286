// The rotary embedding: rope_parameters as transformers 5 writes them, or rope_scaling and rope_theta as 4 did.
#include "model_keys.hpp"

#include "quern/base/terminal_text.hpp"

#include <array>
#include <cmath>
#include <numbers>

namespace quern::directory {
namespace {

/// The object that describes the rotation, and what stands beside it.
class Rope {
 public:
  explicit Rope(const Config& config) : config_(config) {
    for (const std::string_view name : {"rope_parameters", "rope_scaling"}) {
      const Json* const found = config.find(name);
      if (found == nullptr || found->is_null()) continue;
      if (!found->is_object()) throw config.file().bad(name, "is not an object");
      name_ = name;
      object_ = found;
      break;
    }
    if (object_ == nullptr || object_->find("full_attention") == nullptr) return;
    if (object_->members()->size() != 1)
      throw config.file().unsupported(name_, "differs between kinds of layers; this version has one rotation for all layers");
    object_ = object_->find("full_attention");
  }

  std::string type() const {
    if (object_ == nullptr) return "default";
    for (const std::string_view name : {"rope_type", "type"})
      if (const auto text = text_of(config_.file(), field(name), object_->find(name))) return *text;
    return "default";
  }
  std::optional<double> find(std::string_view name) const {
    return object_ == nullptr ? std::nullopt : number_of(config_.file(), field(name), object_->find(name));
  }
  double require(std::string_view name) const {
    const std::optional<double> number = find(name);
    if (!number) throw bad(name, "is missing");
    if (!(*number > 0)) throw bad(name, concat("is ", *number, "; it must be above 0"));
    return *number;
  }
  std::optional<bool> find_bool(std::string_view name) const { return bool_of(config_.file(), field(name), object_->find(name)); }
  std::optional<std::uint64_t> find_count(std::string_view name) const {
    return count_of(config_.file(), field(name), object_->find(name), 1, std::uint64_t{1} << 31);
  }
  Error bad(std::string_view name, std::string_view text) const { return config_.file().bad(field(name), text); }
  Error unsupported(std::string_view name, std::string_view text) const { return config_.file().unsupported(field(name), text); }

 private:
  std::string field(std::string_view name) const { return concat(name_, ".", name); }

  const Config& config_;
  std::string_view name_ = "rope_parameters";
  const Json* object_ = nullptr;
};

/// The context that the model was trained for before its rotation was stretched.
std::uint64_t original_context(const Config& config, const Rope& rope, const Shape& shape) {
  constexpr std::string_view name = "original_max_position_embeddings";
  if (const auto inside = rope.find_count(name)) return *inside;
  return config.find_count(name, 1, std::uint64_t{1} << 31).value_or(shape.context);
}

double magnitude(double factor, double scale) { return factor > 1 ? 0.1 * scale * std::log(factor) + 1 : 1; }

struct Keys {
  gguf::Writer& keys;
  const Family& family;
  void number(std::string_view suffix, double value) { keys.f32(concat(family.architecture, ".rope.", suffix), static_cast<float>(value)); }
  void count(std::string_view suffix, std::uint64_t value) {
    keys.u32(concat(family.architecture, ".rope.", suffix), static_cast<std::uint32_t>(value));
  }
  void text(std::string_view suffix, std::string_view value) { keys.string(concat(family.architecture, ".rope.", suffix), value); }
};

void write_linear(const Config&, const Rope& rope, Shape&, double, Keys keys) {
  keys.text("scaling.type", "linear");
  keys.number("scaling.factor", rope.require("factor"));
}

void write_yarn(const Config& config, const Rope& rope, Shape& shape, double, Keys keys) {
  if (!rope.find_bool("truncate").value_or(true))
    throw rope.unsupported("truncate", "is false; YaRN is supported with rounded corners alone");
  const std::uint64_t original = original_context(config, rope, shape);
  const double factor = rope.find("factor") ? rope.require("factor") : static_cast<double>(shape.context) / static_cast<double>(original);
  keys.text("scaling.type", "yarn");
  keys.number("scaling.factor", factor);
  keys.count("scaling.original_context_length", original);
  if (rope.find("beta_fast")) keys.number("scaling.yarn_beta_fast", rope.require("beta_fast"));
  if (rope.find("beta_slow")) keys.number("scaling.yarn_beta_slow", rope.require("beta_slow"));
  if (rope.find("attention_factor")) keys.number("scaling.yarn_attn_factor", rope.require("attention_factor"));
  else if (rope.find("mscale").value_or(0) != 0 && rope.find("mscale_all_dim").value_or(0) != 0)
    keys.number("scaling.yarn_attn_factor", magnitude(factor, rope.require("mscale")) / magnitude(factor, rope.require("mscale_all_dim")));
}

void write_llama3(const Config& config, const Rope& rope, Shape& shape, double base, Keys) {
  const Llama3Rotation rotation{rope.require("factor"), rope.require("low_freq_factor"), rope.require("high_freq_factor"),
                                original_context(config, rope, shape)};
  if (!(rotation.low_freq_factor < rotation.high_freq_factor))
    throw rope.bad("low_freq_factor",
                   concat("is ", rotation.low_freq_factor, ", which is not below 'high_freq_factor', ", rotation.high_freq_factor));
  shape.rope_factors = divisors_of(rotation, base, shape.head_size);
}

void write_nothing(const Config&, const Rope&, Shape&, double, Keys) {}

struct Kind {
  std::string_view name;
  void (*write)(const Config&, const Rope&, Shape&, double base, Keys);
};
constexpr std::array kinds = {Kind{"default", write_nothing}, Kind{"linear", write_linear}, Kind{"yarn", write_yarn},
                              Kind{"llama3", write_llama3}};

}  // namespace

std::vector<float> divisors_of(const Llama3Rotation& rotation, double base, std::uint64_t head_size) {
  const auto& [factor, low, high, original] = rotation;
  std::vector<float> divisors;
  for (std::uint64_t i = 0; i < head_size / 2; ++i) {
    const double frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_size));
    const double turns = static_cast<double>(original) * frequency / (2 * std::numbers::pi);
    const double smooth = (turns - low) / (high - low);
    const double share = turns < low ? 1 / factor : turns > high ? 1 : (1 - smooth) / factor + smooth;
    divisors.push_back(static_cast<float>(1 / share));
  }
  return divisors;
}

void write_rope_keys(const Config& config, const Family& family, Shape& shape, gguf::Writer& writer) {
  const Rope rope(config);
  Keys keys{writer, family};
  const double usual = default_of(family, "rope_theta").value_or(10000);
  const double base = rope.find("rope_theta").value_or(config.find_number("rope_theta").value_or(usual));
  if (!(base > 1 && base <= 1e15)) throw config.file().bad("rope_theta", concat("is ", base, "; it must be above 1 and at most 1e15"));
  if (rope.find("partial_rotary_factor").value_or(1) != 1)
    throw rope.unsupported("partial_rotary_factor", "is not 1; this family is supported with whole heads rotated");
  keys.count("dimension_count", shape.head_size);
  keys.number("freq_base", base);
  const std::string type = rope.type();
  for (const Kind& kind : kinds)
    if (kind.name == type) return kind.write(config, rope, shape, base, keys);
  throw rope.unsupported("rope_type", concat("is ", in_quotes(type, 48), "; this version has default, linear, yarn and llama3"));
}

}  // namespace quern::directory
