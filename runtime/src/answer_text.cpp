// See answer_text.hpp.
#include "answer_text.hpp"

#include <algorithm>
#include <utility>

namespace quern::runtime {

AnswerText::AnswerText(const Vocabulary& vocabulary, std::vector<std::string> stops) : vocabulary_(vocabulary), stops_(std::move(stops)) {
  std::erase(stops_, std::string{});
}

std::string AnswerText::push(std::int32_t token) {
  if (stopped_) return {};
  const TokenBytes& bytes = vocabulary_.bytes_of(token);
  if (!bytes.special) held_ += utf8_.push(bytes.bytes);
  return release(false);
}

std::string AnswerText::finish() {
  if (stopped_) return {};
  held_ += utf8_.flush();
  return release(true);
}

/// Cuts at the first stop string; without one, keeps back the longest end that begins a stop string.
std::string AnswerText::release(bool all) {
  std::size_t cut = std::string::npos;
  for (const std::string& stop : stops_) cut = std::min(cut, held_.find(stop));
  if (cut != std::string::npos) {
    stopped_ = true;
    held_.resize(cut);
    return std::exchange(held_, {});
  }
  std::size_t keep = 0;
  if (!all) {
    for (const std::string& stop : stops_) {
      for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n) {
        if (held_.ends_with(std::string_view(stop).substr(0, n))) {
          keep = n;
          break;
        }
      }
    }
  }
  std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, certain.size());
  return certain;
}

}  // namespace quern::runtime
