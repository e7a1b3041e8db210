// Where a value ends that is written as text between marks. It may hold what looks like its end, and models
// forget marks: an end counts only if what can follow it does. Immutable; any thread. Private to engine/chat.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string_view>

#include "engine/chat/call_syntax.hpp"

namespace orcd::engine {

class value_end {
 public:
  /// Of a call in this syntax, which must outlive it.
  explicit value_end(const call_syntax& syntax) noexcept : syntax_(syntax), marks_(syntax.elements) {}

  struct match {
    enum class kind : std::uint8_t {
      none,   ///< it is part of the value
      begun,  ///< more must come before that is known
      end,    ///< it is the end
    };
    kind what = kind::none;
    std::size_t bytes = 0;  ///< of the end itself: what is behind them belongs to what follows
  };
  struct context {
    bool own_line = false;  ///< the value began on a line of its own: it ends on one
    bool held_end = false;  ///< it holds what ends values: its own end is not missing
    bool last = false;      ///< no more text comes
    /// Whether an argument of this name may follow; empty: no end is ever missing.
    std::function<bool(std::string_view)> may_follow{};
  };
  /// Judges text within a value. Its length is bounded: a text that is longer is no beginning of an end.
  [[nodiscard]] match judge(std::string_view text, const context& about) const;

 private:
  /// What stands behind an end, white space left out: one of the marks, or, if `or_last`, nothing.
  [[nodiscard]] match::kind followed(std::string_view rest, std::initializer_list<std::string_view> marks,
                                     const context& about) const;
  [[nodiscard]] match closed(std::string_view text, std::size_t line, const context& about) const;
  [[nodiscard]] match unclosed(std::string_view text, std::size_t line, const context& about) const;
  [[nodiscard]] match next_key(std::string_view text, std::size_t line, const context& about) const;

  const call_syntax& syntax_;
  const element_syntax& marks_;
};

}  // namespace orcd::engine
