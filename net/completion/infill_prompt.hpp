// The prompt that asks a model to fill a gap: the texts around it, with the vocabulary's own tokens between
// them. Pure. Private to net/.
#pragma once

#include <string>
#include <vector>

#include "engine/text/tokenizer.hpp"
#include "net/completion/completion_request.hpp"

namespace orcd::net {

struct infill_file {
  std::string name;
  std::string text;
};

struct infill_parts {
  std::vector<infill_file> extra;  ///< what else belongs to the same work
  std::string prefix;
  std::string prompt;  ///< what stands right before the gap, after the prefix
  std::string suffix;
};

/// `tokens` must be usable().
[[nodiscard]] text_prompt make_infill_prompt(infill_parts parts, const engine::infill_tokens& tokens);

}  // namespace orcd::net
