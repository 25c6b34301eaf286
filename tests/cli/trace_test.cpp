// quern trace: reads a file that may come from anywhere, and says where the time went.
#include "failure.hpp"
#include "trace_file.hpp"
#include "trace_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace quern::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string span(const std::string& name, int track, double start, double length, const std::string& args = "{}") {
  return R"({"ph":"X","name":")" + name + R"(","pid":)" + std::to_string(track) + R"(,"tid":0,"ts":)" + std::to_string(start) +
         R"(,"dur":)" + std::to_string(length) + R"(,"args":)" + args + "}";
}

std::string file_of(const std::vector<std::string>& events, const std::string& more = "") {
  std::string list;
  for (const std::string& event : events) list += (list.empty() ? "" : ",") + event;
  return R"({"displayTimeUnit":"ms","traceEvents":[)" + list + "]" + more + "}";
}

/// A prompt of 30 ms, then two decodes of 10 ms with 1 ms between them, on one device.
std::string small_trace() {
  return file_of({R"({"ph":"M","name":"process_name","pid":0,"args":{"name":"host"}})",
                  R"({"ph":"M","name":"process_name","pid":1,"args":{"name":"cpu:0"}})",
                  span("run 'step'", 1, 1000, 29000, R"({"compiles":1})"),
                  span("step", 0, 0, 30000, R"({"rows":12,"bytes_to_devices":100})"), span("decode step", 0, 41000, 10000, R"({"rows":1})"),
                  span("decode step", 0, 30000, 10000, R"({"rows":1})"), span("run 'step'", 1, 30500, 9000),
                  span("copy 'x' from cpu:0", 1, 41000, 2000)},
                 R"(,"nodes":[{"node":"a"},{"node":"b"}],"kernels":[{"kernel":"matmul.avx2","device":"cpu:0","nodes":2}])");
}

std::string refused(const std::string& text) {
  try {
    parse_trace("t.json", text);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), exit_refused);
    return failure.what();
  }
  return "nothing";
}

TEST(Trace, SharesAreOfTheWholeTimeAndTheHostHasWhatNoStepCovers) {
  const TraceSummary s = summary_of(parse_trace("t.json", small_trace()));
  EXPECT_EQ(s.length, 51000);
  EXPECT_EQ(s.prompt.time, 30000);
  EXPECT_EQ(s.prompt.rows, 12u);
  EXPECT_EQ(s.decode.spans, 2u);
  EXPECT_EQ(s.outside, 1000);
  ASSERT_EQ(s.devices.size(), 1u);
  EXPECT_EQ(s.devices[0].runs.time, 38000);
  EXPECT_EQ(s.devices[0].copies.time, 2000);
  ASSERT_EQ(s.kernels.size(), 1u);
  EXPECT_EQ(s.kernels[0].nodes, 2u);
}

TEST(Trace, WordsAndJsonHaveTheSharesAndWhatASteadyDecodeDoesNotDo) {
  const RecordedTrace trace = parse_trace("t.json", small_trace());
  const std::string words = trace_words("t.json", trace);
  EXPECT_THAT(words, HasSubstr("t.json: 3 steps in 51.0 ms; decode 100.0 rows/s"));
  EXPECT_THAT(words, HasSubstr("plans were compiled 1 time."));
  const Json json = trace_report_json("t.json", trace);
  EXPECT_DOUBLE_EQ(json["prompt"]["seconds"].get<double>(), 0.03);
  EXPECT_EQ(json["counts"]["bytes_to_devices"], 100);
}

TEST(Trace, WhatIsNoTraceIsRefusedWithItsNameAndTheReason) {
  EXPECT_THAT(refused(""), HasSubstr("t.json: is no JSON"));
  EXPECT_THAT(refused("[1,2"), HasSubstr("is no JSON"));
  EXPECT_THAT(refused("{}"), HasSubstr("holds no list \"traceEvents\""));
  EXPECT_THAT(refused(R"({"traceEvents":{}})"), HasSubstr("holds no list"));
  EXPECT_THAT(refused(R"({"traceEvents":[]})"), HasSubstr("holds no span"));
  for (const char* time : {R"("ts":-1,"dur":1)", R"("ts":1,"dur":1e300)", R"("ts":"1","dur":1)", R"("dur":1)"})
    EXPECT_THAT(refused(std::string(R"({"traceEvents":[{"ph":"X","name":"s","pid":0,)") + time + "}]}"), HasSubstr("span 1 ('s')")) << time;
  EXPECT_THAT(refused(R"({"traceEvents":[{"ph":"X","name":"s","ts":1,"dur":1,"pid":-4}]})"), HasSubstr("span 1"));
}

TEST(Trace, DepthAndNumbersOfThingsAreLimited) {
  EXPECT_THAT(refused(std::string(100'000, '[')), HasSubstr("more than 64 levels"));
  std::string tracks;
  for (int t = 0; t < 300; ++t) tracks += (tracks.empty() ? "" : ",") + span("s", t, t, 1);
  EXPECT_THAT(refused(R"({"traceEvents":[)" + tracks + "]}"), HasSubstr("more than 256 processes"));
  std::vector<std::string> events;
  for (int i = 0; i < 10'500; ++i) events.push_back(span("n" + std::to_string(i), 0, i, 1, R"({"c)" + std::to_string(i) + R"(":9e15})"));
  const RecordedTrace many = parse_trace("t.json", file_of(events));
  EXPECT_LE(many.names.size(), 10'001u);
  EXPECT_LE(many.counts.size(), 64u);
}

TEST(Trace, APageHasATimelineOfBoundedSizeHoweverManySpansThereAre) {
  const std::string small = trace_page("t.json", parse_trace("t.json", small_trace()));
  EXPECT_THAT(small, HasSubstr("decode step: 10.0 ms from 30.0 ms, 1 row</title>"));
  std::vector<std::string> events;
  for (int i = 0; i < 60'000; ++i) events.push_back(span("decode step", 0, 10.0 * i, 9, R"({"rows":1})"));
  const RecordedTrace many = parse_trace("t.json", file_of(events));
  const std::string page = trace_page("t.json", many);
  std::size_t rectangles = 0;
  for (std::size_t at = 0; (at = page.find("<rect", at)) != std::string::npos; ++at) ++rectangles;
  EXPECT_GT(rectangles, 1000u);
  EXPECT_LE(rectangles, most_drawn_spans + 700);
}

TEST(Trace, NamesOfOthersAreNoMarkupAndReachNoTerminal) {
  const std::string hostile = R"(</title><script>alert(1)</script>\u001b[2J\u202e)";
  const RecordedTrace trace = parse_trace(
      "t.json", file_of({R"({"ph":"M","name":"process_name","pid":1,"args":{"name":")" + hostile + R"("}})", span(hostile, 1, 0, 5)},
                        R"(,"kernels":[{"kernel":")" + hostile + R"(","device":")" + hostile + R"(","nodes":1}])"));
  const std::string page = trace_page(hostile, trace);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("\x1b")));
  const std::string words = trace_words("t.json", trace);
  EXPECT_THAT(words, HasSubstr("\\x1b"));
  EXPECT_THAT(words, Not(HasSubstr("\x1b")));
  EXPECT_THAT(words, Not(HasSubstr("\xe2\x80\xae")));
}

TEST(Trace, DurationsHaveTheirUnit) {
  EXPECT_EQ(duration_text(0), "0 ms");
  EXPECT_EQ(duration_text(4.25), "4.2 us");
  EXPECT_EQ(duration_text(193), "193 us");
  EXPECT_EQ(duration_text(2140), "2.14 ms");
  EXPECT_EQ(duration_text(41300), "41.3 ms");
  EXPECT_EQ(duration_text(1.46e6), "1.46 s");
}

}  // namespace
}  // namespace quern::cli
