// The token_constraint of a grammar: the configuration that the output has reached, and masks of
// configurations that it has been in. One thread. Source: the split into tokens that a state allows by itself
// and those that depend on its callers is that of XGrammar (Dong et al. 2024).
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "engine/grammar/configurations.hpp"
#include "engine/grammar/program.hpp"
#include "engine/grammar/token_table.hpp"
#include "engine/sampling/token_constraint.hpp"

namespace orcd::engine::grammar {

class matcher final : public token_constraint {
 public:
  matcher(std::shared_ptr<const program> grammar, std::shared_ptr<const token_table> tokens);

  token_mask mask() override;
  bool accept(token_id token) override;
  bool complete() const override {
    return at_ != dead && configs_.accepting(at_) && configs_.threads(at_).empty();
  }
  std::string failure() const override;
  std::shared_ptr<token_constraint> copy() const override;
  void force(std::uint32_t most, std::vector<token_id>& out) override;
  /// Nodes of the grammar and of the tokens' tree.
  std::uint64_t work() const override { return done(); }
  /// Whether the output may end here.
  [[nodiscard]] bool may_end() const noexcept { return at_ != dead && configs_.accepting(at_); }
  /// Follows text instead of tokens, for tests. False when the text has left the grammar.
  [[nodiscard]] bool accept_text(std::string_view text);

 private:
  /// Masks are kept for this many configurations; a string is in the same one at every token.
  static constexpr std::size_t masks_max = 24;
  /// Bounds on the nodes of the vocabulary that are visited. For one mask: some 25 to 30 ms of the thread
  /// that all jobs share. For one output: an allowance at the beginning, and more for each token that was
  /// accepted. Only a schema of many long patterns in parallel needs more. The bounds are overrun by at most
  /// one more walk over the vocabulary.
  static constexpr std::uint64_t work_a_mask = 2'500'000;
  static constexpr std::uint64_t work_ahead = 24'000'000;
  static constexpr std::uint64_t work_a_token = 200'000;
  /// Configurations of more bytes are not copied: that would take longer than a step saves. A usual schema
  /// has as many as are kept at most.
  static constexpr std::size_t copied_bytes_max = 4U << 20U;
  struct kept_mask {
    config_id config = dead;
    std::shared_ptr<mask_words> words;  ///< a copy's, too, and then not written to
  };

  void find_mask(mask_words& out);
  [[nodiscard]] token_id forced_token();
  void add_wide(const thread& at, mask_words& out);
  void walk(std::uint32_t below, config_id from, mask_words& out);
  [[nodiscard]] config_id after(token_id token);
  void move_to(config_id config);
  [[nodiscard]] std::shared_ptr<const wide_tokens> wide_of(state_id state);
  void charge(std::uint64_t nodes);
  /// Work so far: a position that is followed costs about as much as eight nodes.
  [[nodiscard]] std::uint64_t done() const noexcept { return nodes_ + 8 * configs_.work(); }

  std::shared_ptr<const program> program_;
  std::shared_ptr<const token_table> tokens_;
  configurations configs_;
  config_id at_;
  std::vector<kept_mask> masks_;
  std::size_t next_mask_ = 0;
  /// Wide states that this output has come to. Each is charged once, whether or not its tokens are cached
  /// already: whether an output ends by its limits must not depend on other requests.
  std::unordered_set<state_id> wide_seen_;
  std::uint64_t nodes_ = 0;      ///< visited so far
  std::uint64_t mask_from_ = 0;  ///< done() when the current mask was begun
  std::uint64_t accepted_ = 0;   ///< tokens accepted so far
  bool exhausted_ = false;
  struct level {
    std::uint32_t end;
    config_id config;
  };
  std::vector<level> path_;  // the path of a walk
};

}  // namespace orcd::engine::grammar
