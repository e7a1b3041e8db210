// Arrays of unique items in an output: which items each has so far, so that none comes again. The grammar
// spells each value of such an item in one way, so that two items are equal when their texts are. Copied for
// every token that is tried: what came before is shared. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/configurations.hpp"
#include "engine/grammar/program.hpp"

namespace orcd::engine::grammar {

class unique_items {
 public:
  /// Whether no such array is open.
  [[nodiscard]] bool empty() const noexcept { return arrays_.empty(); }
  /// Whether the text is inside a string of such an array.
  [[nodiscard]] bool in_string() const noexcept { return in_string_; }

  /// Follows a byte that leads from one configuration to another. False when an item would be there twice.
  [[nodiscard]] bool step(const program& grammar, const configurations& configs, config_id from,
                          unsigned char byte);
  /// Whether each item that has been begun can become one that is not there yet.
  [[nodiscard]] bool can_go_on(configurations& configs, config_id at) const;
  /// What follows in earlier items that begin as the present one does: other ways on lead to a new item.
  [[nodiscard]] std::vector<std::string_view> known_rests() const;
  /// Bytes that a copy takes.
  [[nodiscard]] std::size_t bytes() const noexcept {
    return text_.size() + arrays_.size() * sizeof(open_array);
  }

 private:
  struct item {
    std::string text;
    std::shared_ptr<const item> before;
  };
  struct open_array {
    std::uint32_t depth;  ///< of its items, in brackets
    std::size_t begin;    ///< where the present item begins in text_
    bool ended = false;   ///< the item has, and white space follows
    std::shared_ptr<const item> items;
  };

  [[nodiscard]] std::string_view present(const open_array& array) const noexcept;
  [[nodiscard]] bool end_item(open_array& array);
  [[nodiscard]] bool is_between(const open_array& array) const noexcept {
    return !in_string_ && depth_ == array.depth;
  }
  void open(unsigned char byte, bool unique);
  [[nodiscard]] bool close(unsigned char byte);

  std::vector<open_array> arrays_;
  std::string text_;  ///< since the outermost of them was opened
  std::uint32_t depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

}  // namespace orcd::engine::grammar
