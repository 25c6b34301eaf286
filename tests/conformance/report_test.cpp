// Journals as data, and what is derived from them: header, table, JUnit, HTML, verification.
#include "quern/base/markup.hpp"
#include "report/heat_map.hpp"
#include "report/html.hpp"
#include "report/junit.hpp"
#include "report/matrix.hpp"
#include "report/op_table.hpp"
#include "report/provenance.hpp"
#include "report/verify.hpp"
#include "worker/lane.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace quern::conformance {
namespace {

Target device(const std::string& label) {
  Target t;
  t.label = label;
  t.plugin_id = label.substr(0, label.find(':'));
  t.version = "1.0";
  t.device_name = "a <fast> device";
  t.driver = "7";
  t.sha256 = std::string(64, 'a');
  return t;
}

Header header() {
  Header h;
  h.suite = "0.1.0";
  h.build = std::string(64, 'b');
  h.profile = "quick";
  h.manifest = "3 cases, hash 0";
  h.selection = "s";
  h.cases = 3;
  h.targets = {device("cpu:0"), device("gpu:0")};
  return h;
}

CaseResult result(Status status, double worst = 0.5, std::string tier = {}) {
  CaseResult r;
  r.verdict = {status, status == Status::pass ? "" : "element 3 is <nan>", worst, 10, std::move(tier)};
  r.kernel = "k";
  r.milliseconds = 2;
  return r;
}

const std::vector<std::string> names = {"matmul.matmul.f32-q4_0-f32.1x2.plain.packed.gaussian",
                                        "matmul.matmul.f32-q4_0-f32.2x2.plain.packed.gaussian", "copy.copy.f32.7.plain.packed.gaussian"};

/// A journal in a file of its own, written as a run writes it.
class JournalFile {
 public:
  JournalFile() : path_(::testing::TempDir() + "journal" + std::to_string(::getpid()) + "_" + std::to_string(count_++) + ".jsonl") {}
  ~JournalFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

  Record all_pass() {
    {
      Journal journal(path_, false, header(), {"vk:0: a software device"});
      for (const char* label : {"cpu:0", "gpu:0"})
        for (const std::string& name : names) {
          journal.begin(name, label);
          journal.end(name, label, result(Status::pass, 0.25, name[0] == 'm' ? "T1" : ""));
        }
    }
    std::ofstream(path_, std::ios::app) << "{\"totals\":" << Matrix(read_record(path_)).json() << "}\n";
    return read_record(path_);
  }

 private:
  static inline int count_ = 0;
  std::string path_;
};

Claim claim() { return {header(), names, {}, {{}, {}}, {}}; }

std::string broken(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings)
    if (!f.holds) text += f.text + "\n";
  return text;
}

TEST(Header, SurvivesItsLine) { EXPECT_TRUE(header_differences(header(), parse_header(header_line(header()), "f")).empty()); }

TEST(Header, EachDifferenceIsNamed) {
  const auto differs = [](auto change) {
    Header other = header();
    change(other);
    const auto found = header_differences(header(), other);
    return found.size() == 1 ? found[0] : std::to_string(found.size()) + " differences";
  };
  EXPECT_EQ(differs([](Header& h) { h.seed = 4; }), "the seed is 0, the journal says 4");
  EXPECT_EQ(differs([](Header& h) { h.environment["QUERN_FORCE_KERNEL"] = "x"; }),
            "the environment is nothing, the journal says QUERN_FORCE_KERNEL=x");
  EXPECT_NE(differs([](Header& h) { h.build = "c"; }).find("suite's build"), std::string::npos);
  EXPECT_NE(differs([](Header& h) { h.targets[1].sha256 = "c"; }).find("SHA-256 of the plugin of gpu:0"), std::string::npos);
  EXPECT_NE(differs([](Header& h) { h.targets[1].driver = "8"; }).find("driver of gpu:0 is 7, the journal says 8"), std::string::npos);
  EXPECT_NE(differs([](Header& h) { h.targets[0].device_name = "x"; }).find("device cpu:0"), std::string::npos);
  EXPECT_NE(differs([](Header& h) { h.targets.pop_back(); }).find("gpu:0"), std::string::npos);
}

TEST(Header, ALineThatIsNoneIsAnErrorOfTheUser) {
  for (const char* line : {"", "{}", "[1]", "{\"suite\":1}", "no json"}) EXPECT_THROW(parse_header(line, "file"), UsageError) << line;
}

TEST(Record, ReadsWhatAJournalHolds) {
  JournalFile file;
  const Record record = file.all_pass();
  EXPECT_EQ(record.results.size(), 6u);
  EXPECT_EQ(record.results[3].target, 1u);
  EXPECT_EQ(record.left_out, std::vector<std::string>{"vk:0: a software device"});
  EXPECT_EQ(record.started.size(), 1u);
  EXPECT_TRUE(record.unfinished.empty());
  EXPECT_TRUE(Matrix(record).green());
}

TEST(Record, ACaseWithoutAnEndIsLeftOpen) {
  JournalFile file;
  file.all_pass();
  std::ofstream(file.path(), std::ios::app) << "{\"begin\":\"a.b\",\"target\":\"cpu:0\"}\n{\"end\":\"a.b\",\"tar";
  const Record record = read_record(file.path());
  EXPECT_EQ(record.unfinished, std::vector<std::string>{"a.b on cpu:0"});
  EXPECT_EQ(record.totals, "");
}

TEST(Record, ADeviceThatTheHeaderLacksIsAnError) {
  JournalFile file;
  file.all_pass();
  std::ofstream(file.path(), std::ios::app)
      << R"({"end":"a.b","target":"x:0","status":"pass","text":"","worst":0,"compared":1,"tier":"","kernel":"","ms":1})"
      << "\n";
  EXPECT_THROW(read_record(file.path()), UsageError);
  EXPECT_THROW(read_record("/no/such/journal"), UsageError);
}

TEST(Resume, AnotherHeaderIsRefusedWithTheDifference) {
  JournalFile file;
  file.all_pass();
  Header other = header();
  other.targets[0].sha256 = "c";
  try {
    Journal journal(file.path(), true, other, {});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("SHA-256 of the plugin of cpu:0"), std::string::npos) << error.what();
  }
}

TEST(OpTable, KeepsDtypesAndFormatsApart) {
  EXPECT_EQ(op_key("matmul.matmul.f32-q4_0-f32.1x2.plain.packed.gaussian"), (OpKey{"matmul", "matmul", "f32", "q4_0"}));
  EXPECT_EQ(op_key("norm.rms_norm.f16-f32-f16.5x64.epsilon=1e-05.packed.g"), (OpKey{"norm", "rms_norm", "f16 f32", "-"}));
  EXPECT_EQ(op_key("abi.queue.fence_order"), (OpKey{"abi", "queue", "-", "-"}));
}

TEST(OpTable, TierAndErrorAreTheWorstOfThePassed) {
  Record record;
  record.header = header();
  record.results = {{names[0], 0, result(Status::pass, 0.25, "T1")},
                    {names[1], 0, result(Status::pass, 0.75, "T2")},
                    {names[1], 1, result(Status::fail, 9)}};
  const auto table = op_table(record);
  ASSERT_EQ(table.size(), 1u);
  const OpCell& cpu = table.begin()->second[0];
  EXPECT_EQ(cpu.passed, 2u);
  EXPECT_EQ(cpu.tier, "T2");
  EXPECT_EQ(cpu.worst, 0.75);
  EXPECT_EQ(table.begin()->second[1].passed, 0u);
  EXPECT_EQ(table.begin()->second[1].cases, 1u);
}

TEST(Escape, MarkupAndWhatXmlCannotHold) {
  EXPECT_EQ(base::markup("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(base::markup(std::string("\x01\x1b\x7f", 3)), "???");
  EXPECT_EQ(base::markup("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(base::markup("\xff\xc0\x80\xed\xa0\x80"), "??????");  // no UTF-8, overlong, half a surrogate pair
  EXPECT_EQ(base::markup("\xe2\x82"), "??");
}

TEST(Provenance, NamesDevicesPluginsSettingsAndWaivers) {
  JournalFile file;
  Record record = file.all_pass();
  record.header.environment["QUERN_FORCE_KERNEL"] = "cpu:avx2";
  record.results[0].result = record.results[1].result = result(Status::waived);
  record.results[0].result.verdict.text = record.results[1].result.verdict.text = "has no buffers";
  const std::string text = provenance_text(record);
  for (const Target& t : record.header.targets) EXPECT_NE(text.find("SHA-256 " + t.sha256), std::string::npos) << text;
  EXPECT_NE(text.find("QUERN_FORCE_KERNEL=cpu:avx2\n"), std::string::npos);
  EXPECT_NE(text.find("journal, SHA-256 " + record.sha256), std::string::npos);
  EXPECT_EQ(waivers_text(record), "waived 2 on cpu:0: has no buffers\n");
}

TEST(Junit, CountsAndTextOfEachDevice) {
  JournalFile file;
  Record record = file.all_pass();
  record.results[0].result = result(Status::fail);
  record.results[1].result = result(Status::waived);
  record.results[4].result = result(Status::crash);
  const std::string xml = junit_xml(record);
  EXPECT_NE(xml.find("name=\"cpu:0 (a &lt;fast&gt; device)\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""), std::string::npos)
      << xml;
  EXPECT_NE(xml.find("tests=\"3\" failures=\"0\" errors=\"1\" skipped=\"0\""), std::string::npos);
  EXPECT_NE(xml.find("<failure type=\"fail\" message=\"element 3 is &lt;nan&gt;\">"), std::string::npos);
  EXPECT_NE(xml.find("<error type=\"crash\""), std::string::npos);
  EXPECT_EQ(xml.find("<nan>"), std::string::npos);
}

TEST(Html, HasDevicesSideBySideAndNeedsNothingElse) {
  JournalFile file;
  Record record = file.all_pass();
  record.results[0].result = result(Status::fail);
  const std::string page = html_page(record);
  EXPECT_NE(page.find("not green"), std::string::npos);
  EXPECT_NE(page.find("<td>matmul</td><td>matmul</td><td>f32</td><td>q4_0</td><td><span class=\"bad\">1/2</span> T1"), std::string::npos)
      << page;
  EXPECT_NE(page.find("<span class=\"good\">2/2</span> T1<span class=\"dim\"> 25 %</span>"), std::string::npos);
  EXPECT_NE(page.find("element 3 is &lt;nan&gt;"), std::string::npos);
  EXPECT_NE(page.find(record.sha256), std::string::npos);
  for (const char* outside : {"http://", "https://", "src=", "@import", "url("})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  EXPECT_EQ(page, html_page(record));
  EXPECT_LT(page.find("element 3 is &lt;nan&gt;"), page.find("By group"));  // failures first
}

TEST(Html, NamesOfAJournalAreNoMarkup) {
  JournalFile file;
  Record record = file.all_pass();
  const std::string hostile = "\"><script>alert(1)</script>";
  record.header.targets[0].label = record.header.targets[0].driver = record.header.targets[0].device_name = hostile;
  record.header.environment[hostile] = hostile;
  record.results[0] = {hostile + "." + hostile + "." + hostile, 0, result(Status::fail)};
  record.results[0].result.verdict.text = record.results[0].result.kernel = hostile;
  record.left_out = record.unfinished = record.started = {hostile};
  const std::string page = html_page(record);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("\"><script"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(1)"), std::string::npos);
}

TEST(HeatMap, ACaseStandsUnderItsBlockFormatsOrElseItsFloatTypes) {
  const auto columns = [](const std::string& name) {
    std::string words;
    for (const std::size_t c : heat_columns(name)) words += std::string(words.empty() ? "" : " ") + heat_formats[c];
    return words;
  };
  EXPECT_EQ(columns(names[0]), "q4_0");
  EXPECT_EQ(columns("rows.get_rows.f16-i64-f32.7"), "f16 f32");
  EXPECT_EQ(columns("sampling.spec_accept.i32.3"), "int");
  EXPECT_EQ(columns("abi.queues.fence_order"), "other");
}

TEST(HeatMap, TheColourIsTheWorstErrorAndAFailureComesBeforeIt) {
  HeatCell cell;
  EXPECT_EQ(heat_kind(cell), "none");
  cell.add(result(Status::waived).verdict);
  EXPECT_EQ(heat_kind(cell), "waived");
  cell.add(result(Status::pass, 0).verdict);
  EXPECT_EQ(heat_kind(cell), "h0");
  cell.add(result(Status::pass, 0.75).verdict);
  cell.add(result(Status::pass, 0.25).verdict);
  EXPECT_EQ(heat_kind(cell), "h7");
  cell.worst = 1.5;  // no pass has it; the page of a forged journal is still a page
  EXPECT_EQ(heat_kind(cell), "h8");
  cell.add(result(Status::crash).verdict);
  EXPECT_EQ(heat_kind(cell), "failed");
}

TEST(HeatMap, TheBarsSayWhatRanOfWhatThereIs) {
  JournalFile file;
  Record record = file.all_pass();
  record.results = {{names[0], 0, result(Status::pass)}, {names[1], 0, result(Status::fail)}};
  record.header.cases = 2113;
  EXPECT_NE(count_bars(record).find("cpu:0: 2 of 2,113 cases ran</text>"), std::string::npos) << count_bars(record);
  EXPECT_NE(count_bars(record).find("1 passed, 1 not green, 2,111 not run"), std::string::npos);
}

TEST(Html, TheHeadlineHasTheShareOfTheProfileThatRan) {
  JournalFile file;
  Record record = file.all_pass();
  record.header.profile = "quick";
  record.header.manifest = "17662 cases, hash 0123456789abcdef";
  record.header.cases = 20;
  EXPECT_NE(html_page(record).find("(20 of 17662 cases of profile quick)</span></h1>"), std::string::npos) << html_page(record);
  record.header.cases = 17662;
  EXPECT_NE(html_page(record).find("(all 17662 cases of profile quick)</span></h1>"), std::string::npos) << html_page(record);
}

TEST(Html, NothingStandsUnderNotGreenOnlyWhereNothingElseDoes) {
  JournalFile file;
  Record record = file.all_pass();
  record.left_out.clear();
  EXPECT_NE(html_page(record).find("<p>Nothing.</p>"), std::string::npos);
  record.left_out = {"cuda: no driver"};
  const std::string page = html_page(record);
  EXPECT_NE(page.find("not tested: cuda: no driver"), std::string::npos);
  EXPECT_EQ(page.find("<p>Nothing.</p>"), std::string::npos);
}

TEST(Verify, AWholeJournalHolds) {
  JournalFile file;
  EXPECT_EQ(broken(verify_record(file.all_pass(), claim())), "");
}

TEST(Verify, EachDefectIsFound) {
  JournalFile file;
  const Record whole = file.all_pass();
  const auto with = [&](auto change, const char* text) {
    Record record = whole;
    Claim c = claim();
    change(record, c);
    const std::string found = broken(verify_record(record, c));
    EXPECT_NE(found.find(text), std::string::npos) << text << ":\n" << found;
  };
  with([](Record& r, Claim&) { r.results.pop_back(); }, "without a result: 1 case");
  with([](Record& r, Claim&) { r.results.push_back(r.results[0]); }, "with two results");
  with([](Record& r, Claim&) { r.results[0].case_name = "x.y"; }, "not of the list");
  with([](Record& r, Claim&) { r.unfinished = {"a on cpu:0"}; }, "begun and not ended");
  with([](Record& r, Claim&) { r.results[0].result = result(Status::fail); }, "not green");
  with([](Record& r, Claim&) { r.results[0].result = result(Status::waived); }, "waived without an entry");
  with([](Record& r, Claim&) { r.results[0].result.verdict.compared = 0; }, "passed without a comparison");
  with([](Record& r, Claim&) { r.totals = "{}"; }, "totals are not those");
  with([](Record& r, Claim&) { r.totals.clear(); }, "ended before its totals");
  with([](Record&, Claim& c) { c.now.build = "other"; }, "suite's build");
  with([](Record&, Claim& c) { c.now.targets[0].sha256 = "other"; }, "SHA-256 of the plugin of cpu:0");
  with([](Record&, Claim& c) { c.now.targets[1].driver = "other"; }, "driver of gpu:0");
  with([](Record&, Claim& c) { c.now.targets.pop_back(); }, "not here");
  with([](Record& r, Claim& c) { r.results.clear(), r.header.targets.clear(), c.now.targets.clear(), c.exclusions.clear(); },
       "has no device");
}

TEST(Verify, AWaiverOfTheListsAndACaseWithoutElementsHold) {
  JournalFile file;
  Record record = file.all_pass();
  record.results[0].result.verdict.status = Status::waived;
  record.results[1].result.verdict.compared = 0;
  Claim c = claim();
  c.exclusions[0] = {{ExclusionKind::not_yet, "matmul.*1x2*", "why"}};
  c.without_elements = {names[1]};
  record.totals = Matrix(record).json();
  EXPECT_EQ(broken(verify_record(record, c)), "");
}

TEST(Repeat, OneVerdictStaysAndAnotherIsFlaky) {
  CaseResult same = result(Status::pass, 0.25);
  join_repeat(same, result(Status::pass, 0.5), 2);
  EXPECT_EQ(same.verdict.status, Status::pass);
  EXPECT_EQ(same.verdict.worst, 0.5);
  EXPECT_EQ(same.verdict.compared, 20u);

  CaseResult flaky = result(Status::pass);
  join_repeat(flaky, result(Status::fail), 2);
  join_repeat(flaky, result(Status::pass), 3);
  EXPECT_EQ(flaky.verdict.status, Status::fail);
  EXPECT_EQ(flaky.verdict.text, "flaky: pass in run 1, fail in run 2: element 3 is <nan>");

  CaseResult unsure = result(Status::pass);
  join_repeat(unsure, result(Status::unsupported), 2);  // neither is a failure by itself; that they differ is one
  EXPECT_EQ(unsure.verdict.status, Status::fail);

  CaseResult crash = result(Status::fail);
  join_repeat(crash, result(Status::crash), 2);
  EXPECT_EQ(crash.verdict.status, Status::crash);
}

}  // namespace
}  // namespace quern::conformance
