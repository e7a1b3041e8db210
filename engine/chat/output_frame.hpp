// What a grammar of a whole output is made for: the format that frames it, and the functions that may be
// called.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <span>
#include <string>

#include "engine/chat/output_format.hpp"

namespace orcd::engine {

/// The most calls in one output.
inline constexpr std::uint32_t parallel_calls_max = 16;

struct output_frame {
  output_format format;
  bool in_reasoning = false;  ///< the prompt ended with an open <think> (ends_in_reasoning)
  bool may_reason = true;     ///< false: straight to the call or the answer
  bool in_answer = false;     ///< generic: the prompt ended within the text of a response
};

/// A function that may be called. A null `parameters` allows any object.
struct callable {
  std::string name;  ///< 1 to 64 of A-Z a-z 0-9 _ - . :
  const boost::json::value* parameters = nullptr;
  bool strict = false;
};

/// With `parallel` several calls may follow each other, where the format has that: all but llama3, harmony
/// and glm. In the generic form it says, too, whether they are a list.
struct offered_calls {
  std::span<const callable> tools{};
  bool parallel = false;
};

}  // namespace orcd::engine
