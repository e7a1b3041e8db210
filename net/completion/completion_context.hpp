// What requests for completions are read and prepared with, besides themselves. Private to net/.
#pragma once

#include <atomic>
#include <memory>

#include "engine/conversation/chat_format.hpp"
#include "engine/grammar/token_table.hpp"
#include "engine/text/tokenizer.hpp"
#include "net/completion/completion_request.hpp"

namespace orcd::net {

struct completion_context {
  completion_limits limits;
  const engine::tokenizer& tokenizer;
  const engine::chat_format* chat = nullptr;  ///< null: the model has no chat template
  /// Null: outputs cannot be constrained.
  std::shared_ptr<const engine::grammar::token_table> tokens{};
  std::shared_ptr<const std::atomic<bool>> unwanted{};  ///< once true, nobody waits for what is prepared
};

}  // namespace orcd::net
