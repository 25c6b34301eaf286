#include "quern/training/data_files.hpp"

#include "gzip.hpp"

#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"
#include "quern/graph/file_error.hpp"
#include "quern/graph/folder.hpp"

#include <algorithm>
#include <vector>

namespace quern::training {

namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

bool is_json_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/// The name without .gz.
std::string_view plain_name(std::string_view name) noexcept {
  if (name.ends_with(".gz")) name.remove_suffix(3);
  return name;
}

}  // namespace

DataText data_text_of(std::string name, std::string text) {
  DataText data{std::move(name), std::move(text), false};
  if (data.text.starts_with(byte_order_mark)) data.text.erase(0, byte_order_mark.size());
  const auto first = std::ranges::find_if_not(data.text, is_json_space);
  data.is_list = plain_name(data.name).ends_with(".json") && first != data.text.end() && *first == '[';
  return data;
}

DataText read_data_file(const std::string& path, std::uint64_t most) {
  std::string bytes;
  base::ReadRules rules;
  rules.most = most;
  check_read(base::read_file(path, bytes, rules));
  if (path.ends_with(".gz")) bytes = unpack_gzip(path, bytes, most);
  return data_text_of(path, std::move(bytes));
}

std::optional<std::string> file_in_folder(const std::string& folder, FolderPart part) {
  std::vector<std::string> stems = {"train"};
  if (part == FolderPart::validation) stems = {"valid", "validation"};
  if (part == FolderPart::test) stems = {"test"};
  std::optional<std::string> found;
  for (const std::string& stem : stems) {
    for (const char* suffix : {".jsonl", ".json", ".jsonl.gz", ".json.gz"}) {
      const std::string path = folder + "/" + stem + suffix;
      base::OpenedFile file;
      const base::FileProblem problem = base::open_file(path, file);
      if (problem.fault == base::FileFault::not_found) continue;
      check_read(problem);
      if (found)
        throw Error(QUERN_INVALID_ARGUMENT,
                    concat(folder, ": has both ", *found, " and ", path, "; name the file that is meant as the path"));
      found = path;
    }
  }
  return found;
}

void ExampleReader::skip_space() noexcept {
  for (; at_ < data_.text.size() && is_json_space(data_.text[at_]); ++at_)
    if (data_.text[at_] == '\n') ++line_;
}

RawExample ExampleReader::checked(RawExample example) const {
  if (example.json.size() > longest_example)
    throw Error(QUERN_BAD_MODEL, concat(data_.name, ":", example.line, ": the example has ", example.json.size(), " bytes; at most ",
                                        longest_example, " are read"));
  return example;
}

std::optional<RawExample> ExampleReader::next() { return data_.is_list ? next_item() : next_line(); }

std::optional<RawExample> ExampleReader::next_line() {
  const std::string_view text = data_.text;
  while (at_ < text.size()) {
    const std::size_t end = std::min(text.find('\n', at_), text.size());
    std::string_view line = text.substr(at_, end - at_);
    at_ = std::min(end + 1, text.size());
    const std::uint64_t number = line_++;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!std::ranges::all_of(line, is_json_space)) return checked({number, line});
  }
  return std::nullopt;
}

void ExampleReader::break_off(const char* problem) {
  is_broken_ = ended_ = true;
  throw Error(QUERN_BAD_MODEL, concat(data_.name, ":", line_, ": ", problem));
}

// The end of the value that begins here, by brackets and strings alone: whether it is JSON is seen where it is read.
std::size_t ExampleReader::end_of_item() {
  const std::string_view text = data_.text;
  std::uint64_t depth = 0;
  bool in_string = false;
  std::size_t at = at_;
  std::uint64_t line = line_;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') ++line;
    if (in_string) {
      if (c == '\\') ++at;
      else if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) break;
      --depth;
    } else if (c == ',' && depth == 0) {
      break;
    }
  }
  if (at >= text.size()) break_off("the list has no end; what begins here is not closed");
  line_ = line;
  return at;
}

std::optional<RawExample> ExampleReader::next_item() {
  if (ended_) return std::nullopt;
  const std::string_view text = data_.text;
  skip_space();
  if (!began_) ++at_;  // data_text_of() saw the bracket
  skip_space();
  const bool is_first = !began_;
  began_ = true;
  if (at_ < text.size() && text[at_] == ']' && is_first) {
    ended_ = true;
    return std::nullopt;
  }
  RawExample example{line_, {}};
  const std::size_t begin = at_;
  at_ = end_of_item();
  std::size_t end = at_;
  while (end > begin && is_json_space(text[end - 1])) --end;
  example.json = text.substr(begin, end - begin);
  if (example.json.empty()) break_off("an example is missing between the commas of the list");
  const char behind = text[at_++];
  if (behind == '}') break_off("a bracket is closed that was not opened");
  if (behind == ']') {
    ended_ = true;
    skip_space();
    if (at_ < text.size()) break_off("text follows the end of the list");
  }
  return checked(example);
}

}  // namespace quern::training
