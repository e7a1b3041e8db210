// How values that are valid under a schema are spelled: as JSON; or in a form in which texts stand between
// marks, where nothing is escaped, and names of members are bare (Gemma 4's calls). Immutable. What is made
// is charged to the thread's compile_budget.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/expression.hpp"

namespace orcd::engine::grammar {

class value_form {
 public:
  /// JSON.
  value_form() = default;
  /// Texts stand between two of this mark, which none of them holds; it is a token where `is_token`.
  value_form(std::string_view mark, bool is_token);

  [[nodiscard]] bool is_json() const noexcept { return mark_.empty(); }
  /// A text in its quotes, and what `body` matches.
  [[nodiscard]] std::string text(std::string_view value) const;
  [[nodiscard]] expr text(const expr& body) const;
  /// A text in its quotes whose value matches the pattern. Throws grammar_failure.
  [[nodiscard]] expr matching(std::string_view pattern, const std::string& where) const;
  /// So many characters, in quotes.
  [[nodiscard]] expr characters(std::uint32_t least, std::uint32_t most) const;
  /// Texts in quotes that are none, though they match what is above.
  [[nodiscard]] std::vector<expr> never() const;

  /// The name of a member, and one that matches a pattern among those of plain_name().
  [[nodiscard]] expr name(std::string_view value) const;
  [[nodiscard]] expr name_matching(std::string_view pattern, const std::string& where) const;
  /// Names of which each has one spelling: without escapes, or bare.
  [[nodiscard]] expr plain_name() const;

  /// This value and no other, with the white space that `gap` matches between its parts.
  [[nodiscard]] expr exact(const boost::json::value& value, const expr& gap) const;

 private:
  std::string mark_;   ///< empty: JSON
  std::string quote_;  ///< how it is spelled
};

}  // namespace orcd::engine::grammar
