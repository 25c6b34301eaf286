// yaml-cpp reads the text event by event; its tree of nodes is not used, since it copies anchors without limit and keeps no lines.
#include "yaml_file.hpp"

#include "failure.hpp"
#include "yaml_scalar.hpp"

#include "quern/base/concat.hpp"
#include "quern/base/files.hpp"
#include "quern/base/terminal_text.hpp"

#include <nlohmann/json.hpp>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

namespace quern::cli {
namespace {

int lines_of(std::string_view text) {
  int lines = 1;
  for (std::size_t i = 0; i < text.size(); ++i) lines += text[i] == '\n' || (text[i] == '\r' && text.substr(i + 1, 1) != "\n") ? 1 : 0;
  return lines;
}

/// Shared with what its aliases stand in; never changed once it is whole.
struct YamlValue {
  enum class Kind { scalar, list, map } kind = Kind::scalar;
  YamlPosition at;
  std::string json;  // of a scalar
  std::vector<std::shared_ptr<const YamlValue>> items;
  std::vector<std::pair<std::string, YamlPosition>> keys;  // of a map, one for each item
  // With all that it holds, aliases written out:
  std::size_t values = 1, bytes = 0, height = 0;
};
using SharedYaml = std::shared_ptr<const YamlValue>;

class YamlBuilder : public YAML::EventHandler {
 public:
  YamlBuilder(const std::string& name, int lines) : name_(name), lines_(lines) {}

  SharedYaml root() const { return root_; }

  /// A value that is left out at the end of the text has its place in the line that was put behind it.
  YamlPosition position_of(const YAML::Mark& mark) const {
    return mark.line < lines_ ? YamlPosition{mark.line + 1, mark.column + 1} : YamlPosition{lines_, 1};
  }

  [[noreturn]] void refuse(YamlPosition at, const std::string& text) const {
    throw Failure(exit_usage, concat(name_, at.line > 0 ? concat(":", at.line) : std::string(), ": ", text));
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (root_) refuse(position_of(mark), "a second document begins; a settings file is one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { put_scalar(position_of(mark), anchor, "null"); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const YamlPosition at = position_of(mark);
    if (expects_key()) refuse(at, "an alias stands for a key; write the key");
    if (++aliases_ > YamlLimits::aliases) refuse(at, concat("more than ", YamlLimits::aliases, " aliases; write the values"));
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) refuse(at, "an alias stands within its own anchor");
    put(at, found->second);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value) override {
    const YamlPosition at = position_of(mark);
    if (expects_key()) {
      if (anchor != 0) refuse(at, "a key has an anchor; give it to a value");
      return put_key(at, value);
    }
    put_scalar(at, anchor, json_of(at, tag, value));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(position_of(mark), tag, anchor, YamlValue::Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(position_of(mark), tag, anchor, YamlValue::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    std::shared_ptr<YamlValue> value;
    YAML::anchor_t anchor = 0;
    bool has_key = false;  // of a map: its value comes next
    std::set<std::string> keys;
  };

  bool expects_key() const { return !open_.empty() && open_.back().value->kind == YamlValue::Kind::map && !open_.back().has_key; }

  void put_key(YamlPosition at, const std::string& key) {
    if (key == "<<") refuse(at, "merge keys are not taken; write the keys");
    if (key.size() > YamlLimits::key_bytes) refuse(at, concat("a key has ", key.size(), " bytes; at most ", YamlLimits::key_bytes));
    static_cast<void>(quoted(at, key));  // UTF-8
    Open& map = open_.back();
    if (!map.keys.insert(key).second) {
      const auto first = std::ranges::find(map.value->keys, key, &std::pair<std::string, YamlPosition>::first);
      refuse(at, concat("the key ", in_quotes(key), " is given twice, first in line ", first->second.line));
    }
    map.value->keys.emplace_back(key, at);
    map.value->bytes += key.size() + 4;
    map.has_key = true;
  }

  std::string quoted(YamlPosition at, const std::string& text) const {
    try {
      return nlohmann::json(text).dump();
    } catch (const nlohmann::json::exception&) { refuse(at, concat(in_quotes(text), " is not UTF-8")); }
  }

  std::string json_of(YamlPosition at, const std::string& tag, const std::string& value) const {
    constexpr std::string_view standard = "tag:yaml.org,2002:";
    if (tag == "!" || tag == std::string(standard) + "str") return quoted(at, value);
    if (tag.starts_with(standard)) {
      const std::string_view type = std::string_view(tag).substr(standard.size());
      if (type != "int" && type != "float" && type != "bool" && type != "null")
        refuse(at, concat("the tag ", in_quotes(tag), " is not taken"));
    } else if (tag != "?" && !tag.empty()) {
      refuse(at, concat("the tag ", in_quotes(tag), " is not taken"));
    }
    bool out_of_range = false;
    const auto word = yaml_word(value, out_of_range);
    if (out_of_range) refuse(at, concat(in_quotes(value), " is no number that 64 bits hold"));
    return word ? *word : quoted(at, value);
  }

  void put_scalar(YamlPosition at, YAML::anchor_t anchor, std::string json) {
    if (expects_key()) refuse(at, "a key is empty");
    auto value = std::make_shared<YamlValue>();
    value->at = at;
    value->bytes = json.size() + 2;
    value->json = std::move(json);
    if (anchor != 0) anchors_[anchor] = value;
    put(at, std::move(value));
  }

  void put(YamlPosition at, SharedYaml value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    YamlValue& parent = *open_.back().value;
    parent.values += value->values;
    parent.bytes += value->bytes;
    parent.height = std::max(parent.height, value->height + 1);
    if (parent.values > YamlLimits::values) refuse(at, concat("more than ", YamlLimits::values, " values"));
    if (parent.bytes > YamlLimits::json_bytes) refuse(at, concat("more than ", YamlLimits::json_bytes, " bytes, with aliases written out"));
    if (open_.size() + value->height > YamlLimits::nesting) refuse_depth(at);
    parent.items.push_back(std::move(value));
    open_.back().has_key = false;
  }

  [[noreturn]] void refuse_depth(YamlPosition at) const { refuse(at, concat("nested deeper than ", YamlLimits::nesting, " levels")); }

  void open(YamlPosition at, const std::string& tag, YAML::anchor_t anchor, YamlValue::Kind kind) {
    if (expects_key()) refuse(at, "a key is a list or a map; it has to be a text");
    if (tag.size() > 1 && tag != "tag:yaml.org,2002:map" && tag != "tag:yaml.org,2002:seq")
      refuse(at, concat("the tag ", in_quotes(tag), " is not taken"));
    if (open_.size() == YamlLimits::nesting) refuse_depth(at);
    Open one;
    one.value = std::make_shared<YamlValue>();
    one.value->kind = kind;
    one.value->at = at;
    one.value->bytes = 4;
    one.anchor = anchor;
    open_.push_back(std::move(one));
  }

  void close() {
    const Open done = std::move(open_.back());
    open_.pop_back();
    if (done.anchor != 0) anchors_[done.anchor] = done.value;
    put(done.value->at, done.value);
  }

  const std::string& name_;
  int lines_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, SharedYaml> anchors_;
  SharedYaml root_;
  std::size_t aliases_ = 0;
};

/// Depth is bounded by YamlLimits::nesting.
void write_json(const YamlValue& value, const std::string& path, YamlFile& out) {
  if (value.kind == YamlValue::Kind::scalar) {
    out.json += value.json;
    return;
  }
  const bool is_map = value.kind == YamlValue::Kind::map;
  out.json += is_map ? '{' : '[';
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    if (i > 0) out.json += ',';
    std::string inner = is_map ? (path.empty() ? value.keys[i].first : concat(path, ".", value.keys[i].first)) : concat(path, "[", i, "]");
    if (is_map) out.json += nlohmann::json(value.keys[i].first).dump() + ':';
    out.positions[inner] = is_map ? value.keys[i].second : value.items[i]->at;
    write_json(*value.items[i], inner, out);
  }
  out.json += is_map ? '}' : ']';
}

/// Behind the text, since yaml-cpp takes the end of the file for the end of a quote, and all keys between for text.
constexpr std::string_view document_end = "...\n";

/// yaml-cpp ends the text at some control characters, without a word.
void refuse_control_characters(std::string_view text, const YamlBuilder& builder) {
  const auto control = [](unsigned char c) { return (c < ' ' && c != '\t' && c != '\n' && c != '\r') || c == 0x7f; };
  const auto found = std::ranges::find_if(text, control);
  if (found == text.end()) return;
  const int line = 1 + static_cast<int>(std::count(text.begin(), found, '\n'));
  builder.refuse({line, 1},
                 concat("byte ", static_cast<int>(static_cast<unsigned char>(*found)), " is a control character; is this a YAML file?"));
}

}  // namespace

YamlFile parse_yaml(std::string_view text, const std::string& name) {
  YamlBuilder builder(name, lines_of(text));
  if (text.size() > YamlLimits::bytes)
    builder.refuse({}, concat("the file has ", text.size(), " bytes; a settings file has at most ", YamlLimits::bytes));
  refuse_control_characters(text, builder);
  try {
    std::istringstream stream{concat(text, text.ends_with('\n') ? "" : "\n", document_end)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {}
  } catch (const YAML::Exception& problem) {
    if (problem.msg == YAML::ErrorMsg::DOC_IN_SCALAR && problem.mark.pos >= static_cast<int>(text.size()))
      builder.refuse({}, "not YAML: a quote is still open at the end of the file");
    builder.refuse(problem.mark.is_null() ? YamlPosition{} : builder.position_of(problem.mark),
                   concat("not YAML: ", printable(problem.msg)));
  }
  const SharedYaml root = builder.root();
  if (!root || root->json == "null") builder.refuse({}, "the file has no settings");
  if (root->kind != YamlValue::Kind::map) builder.refuse(root->at, "a settings file is a map: lines of the form key: value");
  YamlFile file;
  write_json(*root, "", file);
  return file;
}

YamlFile read_yaml(const std::string& path) {
  std::string text;
  if (const base::FileProblem problem = base::read_file(path, text, {.most = YamlLimits::bytes})) throw Failure(exit_usage, problem.text);
  return parse_yaml(text, path);
}

std::string places_json(const YamlFile& file, const std::string& name) {
  nlohmann::json places = nlohmann::json::object();
  places[""] = name;
  for (const auto& [path, at] : file.positions) places[path] = concat(name, ":", at.line);
  // A file's name may be any bytes.
  return places.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace quern::cli
