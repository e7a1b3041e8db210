// A chat output as it comes, token by token: separated into content, reasoning and tool calls
// (engine::output_parser), with stop strings looked for in the content alone. Pure. io thread only. Private
// to net/.
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

struct reader_options {
  engine::output_format format;  ///< its `calls` is none where no calls are to be read
  engine::parse_options parsing;
  bool parallel = true;  ///< false: the output is over where a second call begins
  std::vector<std::string> stop;
  bool keep_stop = false;       ///< a stop string is part of the content that it ends
  bool marks_are_text = false;  ///< control tokens come as text, those of the format too

  /// Whether there is anything to separate; otherwise all output is content and needs no reader.
  [[nodiscard]] bool separates() const noexcept {
    return format.think || format.text_end || format.calls != engine::call_format::none;
  }
};

class message_reader {
 public:
  message_reader(const reader_options& options, const engine::tokenizer& vocabulary);

  struct step {
    engine::output_deltas deltas;
    bool over = false;          ///< the output ends here; what follows is dropped
    std::size_t cut_bytes = 0;  ///< with `over`: bytes at the end of the text so far that are dropped too
    std::string stop{};         ///< with `over`: the stop string that ended it, if one did
  };
  /// Takes a token and the text that it completed (without control tokens).
  [[nodiscard]] step token(engine::token_id id, std::string_view text);
  /// Takes text that belongs to no token of its own: what was held back until the end.
  [[nodiscard]] step text(std::string_view text);
  /// The output has ended. To be called once; gives nothing if it was over before.
  [[nodiscard]] step finish(engine::output_end how = engine::output_end::whole);

  /// Tokens of reasoning so far, the marks around it included.
  [[nodiscard]] std::uint32_t reasoning_tokens() const noexcept { return reasoning_tokens_; }

 private:
  void take(engine::output_deltas deltas, step& out);
  void end(std::size_t cut_bytes, step& out);
  void take_content(std::string_view text, step& out);
  /// Of a token with this text, with which the output has ended: the bytes up to it that are no part of it.
  [[nodiscard]] std::size_t bytes_of_end(std::string_view text) const;
  void flush_content(step& out);

  struct mark {
    engine::token_id id;
    std::string_view text;
  };
  engine::output_parser parser_;
  std::vector<mark> marks_;  ///< the format's marks that are control tokens, which have no text of their own
  engine::stop_matcher stops_;
  std::string_view end_mark_;  ///< a text that ends the output, or empty
  std::string recent_;         ///< the end of the text so far, in which that mark may have begun
  bool parallel_;
  bool keep_stop_;
  bool over_ = false;
  std::size_t content_in_ = 0;   ///< bytes given to `stops_`
  std::size_t content_out_ = 0;  ///< bytes that `stops_` has let through
  std::uint32_t reasoning_tokens_ = 0;
};

}  // namespace orcd::net
