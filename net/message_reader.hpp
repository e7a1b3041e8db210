// A chat output as it comes, token by token: parted into content, reasoning and tool calls
// (engine::output_parser), with stop strings looked for in the content alone. Pure. io thread only.
// Source: issue 5 item 3. Private to net/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/chat/output_parser.hpp"
#include "engine/text/stop_matcher.hpp"
#include "engine/text/tokenizer.hpp"

namespace orcd::net {

struct message_form {
  engine::output_format format;  ///< calls: none where no calls are to be read
  engine::parse_options options;
  bool parallel = true;  ///< false: the output is over where a second call begins
  std::vector<std::string> stop;

  /// Whether there is anything to part; without, the output is content and needs no reader.
  [[nodiscard]] bool parts() const noexcept {
    return format.think || format.calls != engine::call_format::none;
  }
};

class message_reader {
 public:
  message_reader(const message_form& form, const engine::tokenizer& vocabulary);

  struct step {
    engine::output_deltas deltas;
    bool over = false;          ///< what follows is no part of the output
    std::size_t cut_bytes = 0;  ///< over: so many bytes at the end of the text so far are none either
  };
  /// A token, and the text that it set free (without control tokens).
  [[nodiscard]] step token(engine::token_id id, std::string_view text);
  /// Text of no token.
  [[nodiscard]] step text(std::string_view text);
  /// The output has ended. Once; nothing more if it was over before.
  [[nodiscard]] step finish();

  /// Tokens of reasoning so far, the marks around it included.
  [[nodiscard]] std::uint32_t reasoning_tokens() const noexcept { return reasoning_tokens_; }

 private:
  void take(engine::output_deltas deltas, step& out);
  void take_content(std::string_view text, step& out);
  void flush_content(step& out);

  struct mark {
    engine::token_id id;
    std::string_view text;
  };
  engine::output_parser parser_;
  std::vector<mark> marks_;  ///< those that are control tokens, which have no text of their own
  engine::stop_matcher stops_;
  bool parallel_;
  bool over_ = false;
  std::size_t content_in_ = 0;   ///< bytes given to `stops_`
  std::size_t content_out_ = 0;  ///< bytes that it let through
  std::uint32_t reasoning_tokens_ = 0;
};

}  // namespace orcd::net
