// See model_name.hpp.
#include "model_name.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>

namespace quern::hub {
namespace {

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

/// The hub's rule for each half of a repository's name.
bool is_repository_part(std::string_view part) {
  if (part.empty() || part.size() > 96 || part.find("--") != part.npos || part.find("..") != part.npos) return false;
  const auto at_edge = [](char c) { return is_letter_or_digit(c) || c == '_'; };
  return at_edge(part.front()) && at_edge(part.back()) &&
         std::ranges::all_of(part, [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_repository(std::string_view text) {
  const std::size_t slash = text.find('/');
  return slash != text.npos && is_repository_part(text.substr(0, slash)) && is_repository_part(text.substr(slash + 1));
}

bool looks_like_file(std::string_view text) {
  const auto ends_with = [text](std::string_view end) {
    return text.size() >= end.size() && std::ranges::equal(text.substr(text.size() - end.size()), end,
                                                           [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
  };
  return ends_with(".gguf") || ends_with(".ggml") || ends_with(".bin") || ends_with(".safetensors");
}

/// A branch, a tag or a commit; they become file names below refs/.
bool is_revision(std::string_view text) { return is_safe_path(text) && text.find_first_of(" :@?#%&") == text.npos; }

/// Takes everything up to `mark` off the front of `rest`.
std::string_view cut(std::string_view& rest, char mark) {
  const std::size_t end = std::min(rest.find(mark), rest.size());
  const std::string_view head = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return head;
}

/// owner/name/resolve/REVISION/FILE of the hub's own pages; false where the rest of the URL is something else.
bool read_hub_url(std::string_view rest, ModelName& name) {
  rest = rest.substr(0, rest.find_first_of("?#"));
  const std::string_view owner = cut(rest, '/'), repository = cut(rest, '/');
  name.repository = std::string(owner) + "/" + std::string(repository);
  if (!is_repository(name.repository)) return false;
  if (rest.empty()) return !name.repository.ends_with(".gguf");
  const std::string_view verb = cut(rest, '/');
  if (verb != "resolve" && verb != "blob" && verb != "tree") return false;
  name.revision = cut(rest, '/');
  name.selector = rest;
  return is_revision(name.revision) && (verb == "tree" ? rest.empty() : is_safe_path(rest));
}

/// What follows the name of the hub itself, "hf.co/" or "huggingface.co/" with or without a scheme; "" for another text.
std::string_view below_the_hub(std::string_view text) {
  for (const std::string_view scheme : {"https://", "http://"})
    if (text.starts_with(scheme)) text.remove_prefix(scheme.size());
  for (const std::string_view host : {"hf.co/", "huggingface.co/", "www.huggingface.co/"})
    if (text.starts_with(host)) return text.substr(host.size());
  return {};
}

std::string_view without_end_slash(std::string_view text) {
  while (text.ends_with('/')) text.remove_suffix(1);
  return text;
}

/// Whether this is owner/name with at most :QUANT or @REVISION behind it, and no page or file below the repository.
bool is_plain_name(std::string_view text) {
  const std::string_view head = text.substr(0, text.find_first_of(":@"));
  return is_repository(head) && !looks_like_file(head) && text.find_first_of("?#") == text.npos;
}

}  // namespace

bool is_hex(std::string_view text, std::size_t count) {
  return text.size() == count && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > 1024 || path.front() == '/') return false;
  if (path.find('\\') != path.npos || printable(path) != path) return false;
  while (true) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
    if (end == path.size()) return true;
    path.remove_prefix(end + 1);
  }
}

ModelName parse_model_name(const std::string& text, const std::string& endpoint) {
  ModelName name;
  name.text = text;
  const std::string_view below = text.starts_with(endpoint + "/") ? std::string_view(text).substr(endpoint.size() + 1)
                                                                  : below_the_hub(text);
  if (const std::string_view plain = without_end_slash(below); is_plain_name(plain)) {
    name = parse_model_name(std::string(plain), endpoint);
    name.text = text;
    return name;
  }
  const bool has_scheme = text.starts_with("https://") || text.starts_with("http://");
  const bool asks_the_endpoint = text.starts_with(endpoint + "/") ||
                                 (!below.empty() && (!has_scheme || endpoint == "https://huggingface.co"));
  if (asks_the_endpoint && read_hub_url(below, name)) return name;
  if (has_scheme) {
    name = {text, text, {}, {}, {}};
    return name;
  }
  const std::size_t colon = std::min(text.find(':'), text.size());
  std::string_view head = std::string_view(text).substr(0, colon);
  name.repository = cut(head, '@');
  name.revision = head;
  if (colon < text.size()) name.selector = text.substr(colon + 1);
  // "models/x.gguf" is the path of a file, and no repository to ask the hub for.
  if (looks_like_file(name.repository) && name.revision.empty() && name.selector.empty())
    throw Error(QUERN_INVALID_ARGUMENT, concat("'", text, "' is the path of a file, not the name of a model on the hub"));
  const bool mark_without_word = (name.revision.empty() && text.find('@') < colon) || (name.selector.empty() && colon < text.size());
  if (!is_repository(name.repository) || mark_without_word || (!name.revision.empty() && !is_revision(name.revision)) ||
      (!name.selector.empty() && !is_safe_path(name.selector))) {
    throw Error(QUERN_INVALID_ARGUMENT, concat(in_quotes(text, 200),
                                               " is not the name of a model; names are owner/name, owner/name:QUANT such as "
                                               "owner/name:Q4_K_M, owner/name@REVISION:FILE.gguf, or a URL"));
  }
  return name;
}

}  // namespace quern::hub
