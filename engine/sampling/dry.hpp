// DRY ("don't repeat yourself", by p-e-w): a token that would continue what the sequence has said before
// loses more the longer the repetition already is. Where the last n tokens stand earlier in the window, too,
// the token that followed them there loses multiplier * base^(n - allowed_length), if n >= allowed_length;
// the longest such n counts. A repetition does not reach across a breaker: only what came after the last one
// is looked at, and a token that is a breaker by itself loses nothing. Linear in the window. Source:
// llama.cpp's documentation of its sampler. Private to engine/sampling but for dry_breakers.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/ids.hpp"

namespace orcd::engine {

struct sampling_params;
struct sampling_workspace;

/// Texts as the tokens of a vocabulary that write them.
struct dry_breakers {
  std::vector<std::string> texts;
  /// A token that ends in the beginning of such a text, and the tokens of the rest; no rest: the token has
  /// all of it. Ascending.
  std::vector<std::pair<token_id, std::vector<token_id>>> rows;
};

/// Takes from work.scores what the sampler takes, of tokens that have one. `seen` is the whole sequence.
void penalise_repetitions(const sampling_params& params, std::span<const token_id> seen,
                          sampling_workspace& work);

}  // namespace orcd::engine
