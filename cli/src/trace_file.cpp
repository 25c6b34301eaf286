#include "trace_file.hpp"

#include "failure.hpp"

#include "quern/base/terminal_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace quern::cli {
namespace {

constexpr double latest_time = 1e15;  // microseconds: 31 years
constexpr std::size_t deepest = 64, most_names = 10'000, most_tracks = 256;

/// One event, node or kernel as it comes.
struct Fields {
  std::map<std::string, std::string, std::less<>> words;
  std::map<std::string, double, std::less<>> numbers;
  std::map<std::string, double, std::less<>> counts;  // of "args"
  std::string named;                                  // "name" of "args"
};

/// Takes the members of the objects in three arrays, and forgets all else.
class TraceReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TraceReader(const std::string& file) : file_(file) { name_of("other"); }  // what names beyond the limit are

  RecordedTrace take() {
    if (!seen_events_) refuse("holds no list \"traceEvents\"; quern run --trace writes such files");
    if (trace_.spans.empty()) refuse("holds no span of time: nothing ran while it was recorded");
    std::ranges::stable_sort(trace_.spans, {}, &TraceSpan::start);
    return std::move(trace_);
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    if (in_item() && kept_.words.size() < most_fields) kept_.words[key_] = value.substr(0, longest_trace_name);
    if (in_args() && key_ == "name") kept_.named = value.substr(0, longest_trace_name);
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool key(string_t& value) override {
    key_ = value.substr(0, longest_trace_name);
    if (depth_ == 1) list_ = key_;
    if (depth_ == 3) member_ = key_;
    return true;
  }
  bool start_object(std::size_t) override {
    open();
    if (depth_ == 3) kept_ = {};
    return true;
  }
  bool end_object() override {
    if (depth_ == 3) finish_item();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    open();
    if (depth_ == 2 && list_ == "traceEvents") seen_events_ = true;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    refuse("is no JSON: byte " + std::to_string(at) + " is not what may stand there");
  }

 private:
  static constexpr std::size_t most_fields = 64;

  [[noreturn]] void refuse(const std::string& why) const { throw Failure(exit_refused, file_ + ": " + why); }

  // {"traceEvents": [ {"args": { : depth 1, 2, 3, 4.
  bool in_item() const { return depth_ == 3; }
  bool in_args() const { return depth_ == 4 && member_ == "args"; }

  void open() {
    if (++depth_ > deepest) refuse("has more than " + std::to_string(deepest) + " levels of lists and objects");
  }
  bool number(double value) {
    if (in_item() && kept_.numbers.size() < most_fields) kept_.numbers[key_] = value;
    if (in_args() && kept_.counts.size() < most_fields) kept_.counts[key_] = value;
    return true;
  }

  std::string word(const char* name) const {
    const auto found = kept_.words.find(name);
    return found == kept_.words.end() ? std::string() : found->second;
  }
  std::optional<double> value(const char* name) const {
    const auto found = kept_.numbers.find(name);
    if (found == kept_.numbers.end()) return {};
    return found->second;
  }
  static std::uint64_t whole(double value) { return value > 0 && value < 9e15 ? static_cast<std::uint64_t>(value) : 0; }

  static void add(std::uint64_t& sum, std::uint64_t value) { sum = sum > UINT64_MAX - value ? UINT64_MAX : sum + value; }

  void finish_item() {
    if (list_ == "traceEvents") finish_event();
    if (list_ == "nodes") ++trace_.nodes;
    if (list_ == "kernels") {
      if (trace_.kernels.size() == most_trace_kernels) refuse("has more than " + std::to_string(most_trace_kernels) + " kernels");
      trace_.kernels.push_back({word("kernel"), word("device"), whole(value("nodes").value_or(0))});
    }
  }

  void finish_event() {
    const std::string kind = word("ph");
    const double place = value("pid").value_or(-1);
    const bool track = place >= 0 && place < static_cast<double>(std::numeric_limits<std::uint32_t>::max()) && place == std::floor(place);
    if (kind == "M" && word("name") == "process_name" && track) {
      if (trace_.tracks.size() < most_tracks) trace_.tracks[static_cast<std::uint32_t>(place)] = kept_.named;
      return;
    }
    if (kind != "X") {
      ++trace_.left_out;
      return;
    }
    const double start = value("ts").value_or(-1), length = value("dur").value_or(-1);
    if (!(start >= 0 && start <= latest_time && length >= 0 && length <= latest_time) || !track)
      refuse("span " + std::to_string(trace_.spans.size() + 1) + " (" + in_quotes(word("name"), 60) +
             ") has no \"pid\", or its \"ts\" and \"dur\" are no microseconds");
    if (trace_.spans.size() == most_trace_spans) refuse("has more than " + std::to_string(most_trace_spans) + " spans");
    const auto number = static_cast<std::uint32_t>(place);
    if (!trace_.tracks.contains(number)) {
      if (trace_.tracks.size() >= most_tracks) refuse("has more than " + std::to_string(most_tracks) + " processes");
      trace_.tracks[number] = "process " + std::to_string(number);
    }
    std::uint64_t rows = 0;
    for (const auto& [name, count] : kept_.counts) {
      if (name == "rows") rows = whole(count);
      else if (trace_.counts.size() < most_fields || trace_.counts.contains(name)) add(trace_.counts[name], whole(count));
    }
    trace_.spans.push_back({name_of(word("name")), number, start, length, rows});
  }

  std::uint32_t name_of(const std::string& name) {
    if (names_.size() > most_names && !names_.contains(name)) return 0;
    const auto [found, fresh] = names_.try_emplace(name, static_cast<std::uint32_t>(trace_.names.size()));
    if (fresh) trace_.names.push_back(name);
    return found->second;
  }

  const std::string& file_;
  RecordedTrace trace_;
  std::map<std::string, std::uint32_t> names_;
  Fields kept_;
  std::string key_, list_, member_;
  std::size_t depth_ = 0;
  bool seen_events_ = false;
};

}  // namespace

RecordedTrace parse_trace(const std::string& name, std::string_view text) {
  TraceReader reader(name);
  nlohmann::json::sax_parse(text, &reader);
  return reader.take();
}

}  // namespace quern::cli
