// Which tokens a message may not write.
//
// A file gives two kinds of user-defined tokens one type: words of plain text that its tokenizer keeps whole
// (runs of spaces, tags of HTML), and markers of a chat that are not of type control (<tool_call>, <think>,
// in older files <|im_start|>). README.md has the rule that tells them apart.
#pragma once

#include <string_view>
#include <vector>

namespace quern::tokenizer {

class Vocabulary;

/// One entry for each token: true for control and unknown tokens, and for user-defined ones that are markers.
std::vector<bool> find_message_markers(const Vocabulary& vocabulary, std::string_view chat_template);

}  // namespace quern::tokenizer
