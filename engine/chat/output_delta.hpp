// The parts of a model's output: pieces of content, of reasoning and of tool calls, in the order in which
// they are sent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orcd::engine {

struct output_delta {
  enum class kind {
    content,
    reasoning,
    call,       ///< a tool call begins: `name`, no arguments yet
    arguments,  ///< a fragment of the arguments of call `index`; together they are one JSON object
  };
  kind what = kind::content;
  std::string text;         ///< content, reasoning, arguments
  std::string name;         ///< call
  std::uint32_t index = 0;  ///< call, arguments: 0 for the first call of the output

  bool operator==(const output_delta&) const = default;
};

using output_deltas = std::vector<output_delta>;

}  // namespace orcd::engine
