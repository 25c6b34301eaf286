// Text inside XML and HTML, and the frame of a page that needs nothing beside itself.
#pragma once

#include <string>
#include <string_view>

namespace quern::base {

/// & < > " ' as entities; control characters, which XML 1.0 has no way to hold, and bytes that are no UTF-8 as "?".
/// For the text of an element and for a value in quotes, in XML and in HTML.
std::string markup(std::string_view text);

/// An HTML page in one file. Its policy (Content-Security-Policy) forbids every request, and every script but the one given.
struct HtmlPage {
  std::string_view title;          // is escaped
  std::string_view style;          // of the program itself, behind picture_style
  std::string_view script;         // of the program itself; may be empty
  std::string_view script_sha256;  // of the script, in base64, for the policy
  std::string_view body;           // markup

  std::string text() const;
};

/// Colours for light and dark, and the kinds of shape that Svg draws: head of a page, or of a picture alone.
extern const std::string_view picture_style;

}  // namespace quern::base
