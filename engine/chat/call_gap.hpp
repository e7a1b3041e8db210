// Reads what stands behind a whole call: white space, brackets too many, the end of a list or of a fence, and
// whether another call begins without a mark. Not thread-safe. Private to engine/chat.
#pragma once

#include <string>
#include <string_view>

#include "engine/chat/call_syntax.hpp"

namespace orcd::engine {

/// Whether a single call of this kind may begin with this byte.
[[nodiscard]] bool begins_body(const call_syntax& syntax, char c) noexcept;

class call_gap {
 public:
  /// `lenient`: commas may be missing in a list. The syntax must outlive it.
  call_gap(const call_syntax& syntax, bool lenient) noexcept : syntax_(syntax), lenient_(lenient) {}

  enum class verdict {
    more,
    end,   ///< the calls end with this byte
    next,  ///< a call begins with it
    text,  ///< it is none of that
  };
  /// A call has ended, of a list that is open or of none.
  void begin(bool in_list);
  /// After anything but `more` only begin() may follow.
  [[nodiscard]] verdict push(char c);
  /// What came, without brackets too many, in case it is content.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] bool in_list() const noexcept { return in_list_; }

 private:
  [[nodiscard]] bool is_stray(char c) const noexcept;
  [[nodiscard]] bool separates(char c) const noexcept;
  [[nodiscard]] bool next_begins(char c) const noexcept;
  [[nodiscard]] bool separates_bare() const noexcept {
    return syntax_.bare && syntax_.what == call_syntax::body::objects;
  }

  const call_syntax& syntax_;
  bool lenient_;
  bool in_list_ = false;
  int strays_ = 0;
  std::string text_;
  std::string seen_;  ///< the same without white space
};

}  // namespace orcd::engine
