// See markup.hpp.
#include "quern/base/markup.hpp"

#include <cstddef>
#include <cstdint>

namespace quern::base {
namespace {

/// Bytes of the UTF-8 character that begins at `i`; 0 if none does.
std::size_t character_bytes(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(i);
  const std::size_t size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (size == 0 || i + size > text.size()) return 0;
  std::uint32_t code = size == 1 ? first : first & (0xffu >> (size + 1));
  for (std::size_t k = 1; k < size; ++k) {
    if ((byte(i + k) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i + k) & 0x3fu);
  }
  const bool shortest = size < 3 || code >= (size == 3 ? 0x800u : 0x10000u);
  const bool character = code < 0xd800 || (code > 0xdfff && code < 0xfffe) || (code > 0xffff && code <= 0x10ffff);
  return shortest && character ? size : 0;
}

}  // namespace

std::string markup(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = character_bytes(text, i);
    const char c = text[i];
    if (size == 0 || (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f) out += "?";
    else if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else if (c == '\'') out += "&#39;";
    else out += text.substr(i, size);
    i += size == 0 ? 1 : size;
  }
  return out;
}

const std::string_view picture_style =
    R"(:root{color-scheme:light dark;--paper:#fff;--ink:#1f2328;--dim:#59636e;--line:#d1d9e0;--head:#f6f8fa;--good:#1a7f37;--bad:#cf222e;
--c0:#0969da;--c1:#bc4c00;--c2:#1a7f37;--c3:#8250df;--c4:#bf3989;--c5:#9a6700;--c6:#1b7c83;--c7:#59636e;
--h0:#eff6fd;--h1:#deecfa;--h2:#cce1f7;--h3:#b9d6f3;--h4:#a5caef;--h5:#91bdea;--h6:#7db0e4;--h7:#68a2dd;--h8:#5393d4}
@media(prefers-color-scheme:dark){:root{--paper:#0d1117;--ink:#e6edf3;--dim:#9198a1;--line:#3d444d;--head:#151b23;--good:#3fb950;--bad:#f85149;
--c0:#58a6ff;--c1:#f0883e;--c2:#3fb950;--c3:#bc8cff;--c4:#f778ba;--c5:#d29922;--c6:#39c5cf;--c7:#9198a1;
--h0:#10202f;--h1:#122a40;--h2:#143350;--h3:#173d61;--h4:#1a4772;--h5:#1d5183;--h6:#215b94;--h7:#2665a5;--h8:#2b70b6}}
svg{font:12px system-ui,sans-serif;background:var(--paper)}svg text{fill:var(--ink)}svg .middle{text-anchor:middle}svg .end{text-anchor:end}
svg .title{font-size:15px;font-weight:600}svg .small{font-size:11px}svg .dim{fill:var(--dim)}svg .axis{stroke:var(--dim);fill:none}
svg .grid{stroke:var(--line);fill:none}svg .limit{stroke-dasharray:6 4}svg .curve{fill:none;stroke-width:2}
svg .round1{stroke-dasharray:12 3}svg .round2{stroke-dasharray:2 3}svg .round3{stroke-dasharray:12 3 2 3}
svg .cell{stroke:var(--paper)}svg .paper{fill:var(--paper)}svg .failed{fill:var(--bad)}svg .waived{fill:var(--line)}svg .none{fill:var(--head)}svg .mark{fill:#fff;font-weight:700}
.s0{--now:var(--c0)}.s1{--now:var(--c1)}.s2{--now:var(--c2)}.s3{--now:var(--c3)}.s4{--now:var(--c4)}.s5{--now:var(--c5)}.s6{--now:var(--c6)}.s7{--now:var(--c7)}
svg .curve,svg .error{stroke:var(--now)}svg .fill{fill:var(--now)}
svg .h0{fill:var(--h0)}svg .h1{fill:var(--h1)}svg .h2{fill:var(--h2)}svg .h3{fill:var(--h3)}svg .h4{fill:var(--h4)}svg .h5{fill:var(--h5)}
svg .h6{fill:var(--h6)}svg .h7{fill:var(--h7)}svg .h8{fill:var(--h8)}
)";

namespace {

constexpr std::string_view page_style =
    R"(body{font:14px/1.45 system-ui,sans-serif;max-width:1200px;margin:1.2em auto;padding:0 16px;background:var(--paper);color:var(--ink)}
h1{font-size:1.45em;line-height:1.25}h2{font-size:1.15em;margin-top:1.8em}h3{font-size:1em}a{color:inherit}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}th,td{border:1px solid var(--line);padding:.25em .6em;text-align:left;vertical-align:top}
th{background:var(--head)}.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}.dim{color:var(--dim)}
code{font:12px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}.wide{overflow-x:auto}details{margin:.3em 0}summary{cursor:pointer}
input,select,button{font:inherit;max-width:100%}.hidden{display:none!important}
@media(max-width:600px){body{padding:0 10px;font-size:13px}th,td{padding:.2em .35em}}
)";

}  // namespace

std::string HtmlPage::text() const {
  std::string policy = "default-src 'none'; style-src 'unsafe-inline'";
  if (!script.empty()) policy += "; script-src 'sha256-" + std::string(script_sha256) + "'";
  std::string page =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" content=\"" + policy +
      "\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" + markup(title) + "</title>\n<style>";
  page += picture_style;
  page += page_style;
  page += style;
  page += "</style></head><body>\n";
  page += body;
  if (!script.empty()) page += "<script>" + std::string(script) + "</script>\n";
  return page + "</body></html>\n";
}

}  // namespace quern::base
