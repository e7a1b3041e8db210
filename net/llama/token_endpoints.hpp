// POST /tokenize, /detokenize and /apply-template: text to token ids and back and messages to a prompt,
// without a job, in the forms of llama-server and of vLLM. Pure; any thread. Private to net/.
#pragma once

#include <optional>
#include <string_view>

#include "net/completion/prepare_completion.hpp"
#include "net/http/respond.hpp"

namespace orcd::net {

/// llama-server: {"content", "add_special": false, "parse_special": true, "with_pieces": false} becomes
/// {"tokens", "count"}. vLLM: {"prompt", "add_special_tokens": true, "return_token_strs": false}, or
/// {"messages", ...} for the chat template, becomes {"count", "max_model_len", "tokens", "token_strs"}.
[[nodiscard]] reply answer_tokenize(std::string_view body, const completion_context& context);
/// The same for the io thread: nullopt where messages have to be rendered, which may take long.
[[nodiscard]] std::optional<reply> answer_tokenize_quickly(std::string_view body,
                                                           const completion_context& context);
/// {"tokens": [...]} becomes {"content", "prompt"}: the text, under llama-server's name and vLLM's. Bytes
/// that are not valid UTF-8 become U+FFFD. At most as many tokens as a context holds.
[[nodiscard]] reply answer_detokenize(std::string_view body, const completion_context& context);
/// The fields of a chat become {"prompt"}, the text that the template makes of them.
[[nodiscard]] reply answer_apply_template(std::string_view body, const completion_context& context);

}  // namespace orcd::net
