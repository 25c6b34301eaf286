// The journal: what is resumed, wherever it was cut.
#include "journal/journal.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

namespace quern::conformance {
namespace {

/// A journal of this process's own: ctest runs every test as a process, several at a time.
struct OwnFile {
  const std::string path = std::string(QUERN_BINARY_DIR) + "/journal_test." + std::to_string(::getpid()) + ".jsonl";
  ~OwnFile() { std::remove(path.c_str()); }
} own;
const std::string& file = own.path;

Header header() {
  Header made;
  made.suite = "1";
  made.profile = "quick";
  made.cases = 3;
  Target& cpu = made.targets.emplace_back();
  cpu.label = "cpu:0";
  cpu.plugin_id = "cpu";
  cpu.path = "/p";
  return made;
}

Journal opened(bool resume) { return Journal(file, resume, header(), {}); }

CaseResult passed(std::uint64_t compared) {
  CaseResult result;
  result.verdict = {Status::pass, "a \"text\"\nof two lines, \xc3\xa4", 0.5, compared, "T1"};
  result.kernel = "k";
  return result;
}

std::string contents() {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write(const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

std::size_t whole_ends(const std::string& text) {
  std::size_t count = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) count += !in.eof() && line.find("\"end\":") != std::string::npos;
  return count;
}

TEST(Journal, IsResumedWhereverItWasCut) {
  std::remove(file.c_str());
  {
    Journal journal = opened(false);
    for (const char* name : {"a.b", "c.d", "e.f"}) {
      journal.begin(name, "cpu:0");
      journal.end(name, "cpu:0", passed(7));
    }
    journal.totals("{}");
  }
  const std::string whole = contents();
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    write(whole.substr(0, size));
    const std::size_t kept = whole_ends(whole.substr(0, size));
    {
      Journal journal = opened(true);
      ASSERT_EQ(journal.finished().size(), kept) << "cut at byte " << size;
      journal.begin("g.h", "cpu:0");
      journal.end("g.h", "cpu:0", passed(9));
    }
    Journal again = opened(true);
    ASSERT_EQ(again.finished().size(), kept + 1) << "cut at byte " << size << ", and then written on";
    const CaseResult& last = again.finished().at({"g.h", "cpu:0"});
    EXPECT_EQ(last.verdict.compared, 9u);
    EXPECT_EQ(last.verdict.text, passed(9).verdict.text);
  }
}

TEST(Journal, OfOtherCasesIsRefused) {
  std::remove(file.c_str());
  opened(false);
  Header other = header();
  other.profile = "full";
  EXPECT_THROW(Journal(file, true, other, {}), UsageError);
}

TEST(Journal, AResultThatCannotBeReadIsAnErrorOfTheUser) {
  std::remove(file.c_str());
  { Journal journal = opened(false); }
  const std::string head = contents();
  for (const char* line :
       {R"({"end":"a.b"})",
        R"({"end":"a.b","target":"cpu:0","status":"splendid","text":"","worst":0,"compared":1,"tier":"","kernel":""})"}) {
    write(head + line + "\n");
    EXPECT_THROW(opened(true), UsageError) << line;
  }
}

}  // namespace
}  // namespace quern::conformance
