// POST /tokenize and /detokenize: text to token ids and back, without a job. Pure. Source: issue 5.
// Private to net/.
#pragma once

#include <string_view>

#include "engine/text/tokenizer.hpp"
#include "net/respond.hpp"

namespace orcd::net {

/// {"content", "add_special": false, "parse_special": true, "with_pieces": false} becomes {"tokens",
/// "count"}.
[[nodiscard]] reply answer_tokenize(std::string_view body, const engine::tokenizer& tokenizer,
                                    std::uint32_t chars_max);
/// {"tokens": [...]} becomes {"content"}. Bytes that are no text become U+FFFD.
[[nodiscard]] reply answer_detokenize(std::string_view body, const engine::tokenizer& tokenizer);

}  // namespace orcd::net
