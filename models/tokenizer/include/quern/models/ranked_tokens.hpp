// Vocabularies of ranked tokens (tiktoken, tekken) as byte-level BPE with a list of merges.
//
// There, of all neighbours whose bytes together are a token, those of the lowest rank join first. A token of a text comes about as it does
// in a text of its own, since no merge reached beyond it. So the last merge of each token's own bytes, in the order of ranks, is the list
// that gives the same ids. A token that its own bytes do not become is found as a whole piece alone (`ignore_merges`).
#pragma once

#include <span>
#include <string>
#include <vector>

namespace quern {

struct RankedBpe {
  std::vector<std::string> texts;   // in the order of the tokens, in the byte alphabet; empty for an empty token
  std::vector<std::string> merges;  // "left right", best first
};

/// `tokens` are bytes, each at its rank; an empty one is none. Throws Error(QUERN_BAD_MODEL) for tokens of more than 256 bytes, or of
/// more than 4 MiB together, for the same bytes twice, and where one of the 256 bytes is no token.
RankedBpe bpe_of_ranks(std::span<const std::string> tokens);

}  // namespace quern
