// Pictures hold text of others without obeying it.
#include "quern/base/markup.hpp"
#include "quern/base/svg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace quern::base {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* hostile = "</text><script>alert(1)</script>\"'&\x01\xff";

TEST(Markup, TextOfOthersBecomesNoMarkup) {
  EXPECT_EQ(markup("<b a=\"1\" c='2'>&"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
  EXPECT_EQ(markup("a\x01\x7f\xff\xc0\x80z\xef\xbf\xbf"), "a?????z???");  // what XML cannot hold, and what is no UTF-8
  EXPECT_EQ(markup("zwölf\n\t€"), "zwölf\n\t€");
}

TEST(Svg, TextTipsTitlesLinksAndNamesAreEscaped) {
  Svg svg(100, 50, hostile);
  svg.begin_group("row", hostile).begin_link(hostile).rectangle({1, 2}, 3, 4, "cell", hostile).end_link().end_group();
  svg.text({1, 1}, hostile, "end").turned_text({1, 1}, -60, hostile, "small").dot({1, 1}, 2, "fill", hostile);
  for (const std::string& text : {svg.inside_a_page(), svg.alone()}) {
    EXPECT_THAT(text, Not(HasSubstr("<script")));
    EXPECT_THAT(text, Not(HasSubstr("alert(1)<")));
    EXPECT_THAT(text, HasSubstr("&lt;script&gt;alert(1)"));
    EXPECT_THAT(text, Not(testing::ContainsRegex("[\x01\xff]")));
  }
}

TEST(Svg, NumbersThatAreNoPlaceKeepThePictureWellFormed) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  Svg svg(10, 10, "");
  const Point points[] = {{NAN, infinite}, {-infinite, 1e300}, {0.125, -0.001}};
  svg.curve(points, "curve").rectangle({0, 0}, -5, NAN, "cell");
  EXPECT_THAT(svg.inside_a_page(), HasSubstr("points=\"0,1000000 -1000000,1000000 0.12,0\""));
  EXPECT_THAT(svg.inside_a_page(), HasSubstr("width=\"0\" height=\"0\" class=\"cell\""));
}

TEST(HtmlPage, ForbidsRequestsAndEveryScriptButItsOwn) {
  const std::string plain = HtmlPage{.title = hostile, .style = "", .script = "", .script_sha256 = "", .body = "<p>x</p>"}.text();
  EXPECT_THAT(plain, HasSubstr("content=\"default-src 'none'; style-src 'unsafe-inline'\""));
  EXPECT_THAT(plain, Not(HasSubstr("<script")));
  const std::string page = HtmlPage{.title = "t", .style = "", .script = "run()", .script_sha256 = "abc=", .body = ""}.text();
  EXPECT_THAT(page, HasSubstr("script-src 'sha256-abc='\""));
  EXPECT_THAT(page, HasSubstr("<script>run()</script>"));
  EXPECT_THAT(page, Not(testing::ContainsRegex("https?://")));
}

}  // namespace
}  // namespace quern::base
