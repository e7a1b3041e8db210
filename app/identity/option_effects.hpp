// What each option means for the engine that takes a request over: whether it decides the bytes of an answer,
// and if not, why another value of it does no harm. A unit test holds the list against option_table().
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "app/options/options.hpp"

namespace orcd::app {

enum class option_effect {
  identity,  ///< its value is a part of the engine's answer_identity
  content,   ///< what it leads to is: a file's content, the tables that are made from it
  travels,   ///< what it decided of a request goes to the next engine with the request
  none,      ///< it decides nothing of a request that was let in
};

struct option_row_effect {
  std::string_view option;
  option_effect effect = option_effect::none;
  /// Of identity: the value as text, one for equal meanings.
  std::string (*value)(const options& opts) = nullptr;
  /// Of the others: the part of the identity, or why it makes no difference.
  std::string_view reason{};
};

/// One row for each option; those of the identity are its last parts, in this order.
[[nodiscard]] std::span<const option_row_effect> option_effects() noexcept;

}  // namespace orcd::app
