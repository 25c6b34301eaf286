// See reasons.hpp.
#include "report/reasons.hpp"

#include "report/matrix.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>

namespace quern::conformance {

std::string reason_key(const std::string& text) {
  std::string key;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    const char last = text[i] == '\'' ? '\'' : text[i] == '(' ? ')' : '\0';
    if (const std::size_t end = last == '\0' ? std::string::npos : text.find(last, i + 1); end != std::string::npos) {
      key += text[i] + std::string("..") + last;
      i = end;
    } else if (c == '-' && (key.empty() || key.back() == ' ') && i + 1 < text.size() &&
               std::isdigit(static_cast<unsigned char>(text[i + 1])) != 0) {
      continue;  // the sign of a number
    } else if (std::isdigit(c) != 0) {
      const auto of_number = [&](char d) {
        return std::isalnum(static_cast<unsigned char>(d)) != 0 || d == '.' || ((d == '+' || d == '-') && text[i] == 'e');
      };
      while (i + 1 < text.size() && of_number(text[i + 1])) ++i;
      key += '#';
    } else {
      key += text[i];
    }
  }
  return key;
}

std::vector<Reason> reasons(const Record& record, std::size_t target) {
  std::map<std::pair<Status, std::string>, Reason> found;
  for (const RecordedResult& r : record.results) {
    const Verdict& v = r.result.verdict;
    if (r.target != target || is_green(v.status)) continue;
    Reason& reason = found[{v.status, reason_key(v.text)}];
    if (reason.count++ == 0) reason = {v.status, v.text, r.case_name, 1};
  }
  std::vector<Reason> list;
  for (const auto& [key, reason] : found) list.push_back(reason);
  std::ranges::stable_sort(list, std::ranges::greater(), &Reason::count);
  return list;
}

std::string reasons_text(const Record& record) {
  std::string text;
  for (std::size_t t = 0; t < record.header.targets.size(); ++t)
    for (const Reason& r : reasons(record, t))
      if (r.count > 1)
        text += std::to_string(r.count) + " times " + status_name(r.status) + " on " + record.header.targets[t].label + ": " + r.text +
                "\n    such as " + r.example + "\n";
  return text.empty() ? text : "by reason:\n" + text;
}

std::vector<const RecordedResult*> slowest(const Record& record, std::size_t most) {
  std::vector<const RecordedResult*> list;
  for (const RecordedResult& r : record.results) list.push_back(&r);
  const std::size_t count = std::min(most, list.size());
  std::ranges::partial_sort(list, list.begin() + static_cast<std::ptrdiff_t>(count), [](const RecordedResult* a, const RecordedResult* b) {
    return a->result.milliseconds != b->result.milliseconds ? a->result.milliseconds > b->result.milliseconds : a->case_name < b->case_name;
  });
  list.resize(count);
  return list;
}

std::string duration(double milliseconds) {
  char text[32];
  std::snprintf(text, sizeof text, milliseconds < 1000 ? "%.0f ms" : "%.2f s", milliseconds < 1000 ? milliseconds : milliseconds / 1000);
  return text;
}

std::string times_text(const Record& record) {
  double all = 0;
  for (const RecordedResult& r : record.results) all += r.result.milliseconds;
  std::string text;
  for (const RecordedResult* r : slowest(record, 3))
    text += (text.empty() ? "" : "; ") + duration(r->result.milliseconds) + " " + r->case_name + " on " +
            record.header.targets[r->target].label;
  return text.empty() ? text : "cases took " + duration(all) + " together, the slowest: " + text + "\n";
}

}  // namespace quern::conformance
