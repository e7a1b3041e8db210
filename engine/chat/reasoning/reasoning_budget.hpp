// A limit on how many tokens a model may reason: when they are used up, the output goes on with the format's
// own end of reasoning, and the model answers. A mask, as every constraint is: the same request gives the
// same tokens. Source: "thinking_token_budget" of vLLM, "reasoning-budget" of llama.cpp.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/chat/output_format.hpp"
#include "engine/sampling/token_constraint.hpp"
#include "engine/text/tokenizer.hpp"

namespace orcd::engine {

struct reasoning_budget {
  std::uint32_t tokens = 0;  ///< between the marks; 0: reasoning ends where it would begin
  output_format format;
  bool in_reasoning = false;  ///< the prompt ended with an open mark
};

/// Null where the format has no reasoning, or its marks cannot be written with this vocabulary. `vocabulary`
/// outlives it. On top of `inner`, if there is one, which has the last word: an end of reasoning that it does
/// not allow is not forced.
[[nodiscard]] std::shared_ptr<token_constraint> make_reasoning_budget(
    const reasoning_budget& budget, const tokenizer& vocabulary,
    const std::shared_ptr<token_constraint>& inner);

}  // namespace orcd::engine
