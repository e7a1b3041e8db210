// The context of a pipe's client, and what is written of an answer: which tokens, where an end token stands
// in for what was not generated, and how many tokens the context has afterwards. Pure.
//
// The SDK 0.1 sends of a talk's next turn only what follows the answer's end token. Whoever chose that token,
// it must be in the context then, or the model would read an answer that never ended.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "app/pipe/request.hpp"

namespace orcd::app {

/// What ends an answer whose limit was reached. end_token: an EOS, because the SDK reads until it sees one.
/// literal: nothing.
enum class limit_style { end_token, literal };

/// The EOS that stands in for one that the model did not choose: that of `eos`, which has at least one, with
/// which the prompt's template ended the last turn. The first one where the prompt has none; its first token
/// does not count, since a model may begin a text with the token that ends others.
[[nodiscard]] engine::token_id end_of_turn(std::span<const engine::token_id> prompt,
                                           std::span<const engine::token_id> eos);

/// One answer. The lines are what the functions return, in order.
class answer {
 public:
  /// `limit` is the request's max_tokens; `end` the EOS that stands in; `before` the tokens that the context
  /// has without the answer.
  answer(std::uint32_t limit, engine::token_id end, limit_style style, std::size_t before)
      : limit_(limit), end_(end), style_(style), before_(before) {}

  /// For a token that was generated and is no EOS.
  [[nodiscard]] engine::token_id generated(engine::token_id token);
  /// For an EOS that was generated.
  [[nodiscard]] engine::token_id generated_end(engine::token_id token);
  /// When the answer is over: one line more where its reader would wait for it. The context is full then, or
  /// did not take the request, and has no place for that EOS.
  [[nodiscard]] std::optional<engine::token_id> over();

  /// Of the answer in the context, an EOS in place of the last token among them.
  [[nodiscard]] const std::vector<engine::token_id>& tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::size_t kv_position() const noexcept { return before_ + tokens_.size(); }
  /// So that up to `count` tokens need no memory.
  void reserve(std::size_t count) { tokens_.reserve(count); }

 private:
  std::uint32_t limit_;
  engine::token_id end_;
  limit_style style_;
  std::size_t before_;
  std::vector<engine::token_id> tokens_;
  bool ended_ = false;  ///< the reader saw an EOS
};

/// What is to be computed for a request.
struct answer_plan {
  bool fits = false;     ///< else there is nothing to compute, and the context becomes what is kept
  std::size_t keep = 0;  ///< of the context where it does not fit
  std::vector<engine::token_id> prompt;
  std::uint32_t tokens_max = 0;  ///< that may be generated
};

class conversation {
 public:
  /// `context` is the number of positions.
  conversation(std::uint32_t context, limit_style style) : context_(context), style_(style) {}

  /// Errors (invalid_request): more to keep than there is, or nothing to go on from.
  [[nodiscard]] engine::result<answer_plan> plan(const pipe_request& request) const;
  /// The context after a request that does not fit. A client takes what it sent, cut at the position that it
  /// is told, for the context: of tokens that it replaced, none may stay. The SDK 0.1 does not even cut: it
  /// goes on behind the turn that was left out. So nothing is kept of its talk, and no request that goes on
  /// fits until one begins anew.
  void cut(std::size_t keep);
  /// The context after an answer.
  void become(std::vector<engine::token_id> prompt, const answer& given);
  [[nodiscard]] std::size_t size() const noexcept { return tokens_.size(); }

 private:
  std::uint32_t context_;
  limit_style style_;
  bool too_long_ = false;  ///< the talk has a turn that was left out
  std::vector<engine::token_id> tokens_;
};

}  // namespace orcd::app
