// What a request says of single tokens: which may not come, which alone may, and how many must come before
// the output may end. Alone, or on top of another constraint (a grammar), which then says what is allowed and
// these rules what of it is left out.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/ids.hpp"
#include "engine/sampling/token_constraint.hpp"

namespace orcd::engine {

struct token_rules {
  std::uint32_t min_tokens = 0;   ///< tokens of the output before which none of `ends` may come
  std::vector<token_id> ends;     ///< the tokens that end an output
  std::vector<token_id> allowed;  ///< only these; empty = all
  std::vector<token_id> banned;   ///< never these
  /// Never these tokens in a row, of the output alone; none is empty.
  std::vector<std::vector<token_id>> banned_rows;

  [[nodiscard]] bool bind() const noexcept {
    return min_tokens > 0 || !allowed.empty() || !banned.empty() || !banned_rows.empty();
  }
};

/// Where `inner` allows nothing but the end of the output, the output may end, however few tokens it has.
/// Ids outside the vocabulary of `rows` rows are ignored.
[[nodiscard]] std::shared_ptr<token_constraint> make_token_rules(
    const token_rules& rules, std::uint32_t rows, std::shared_ptr<token_constraint> inner = {});

}  // namespace orcd::engine
