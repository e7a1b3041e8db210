#include "engine/sampling/token_rules.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace orcd::engine {
namespace {

using words = std::vector<std::uint32_t>;

/// A bit for every row, set or not, with those of `tokens` the other way round.
words mask_of(std::uint32_t rows, bool set, const std::vector<token_id>& tokens) {
  words out((rows + 31) / 32, set ? ~0U : 0U);
  for (const token_id token : tokens) {
    const auto row = static_cast<std::uint32_t>(token);
    if (token < 0 || row >= rows) continue;
    const std::uint32_t bit = 1U << row % 32U;
    out[row / 32] = set ? out[row / 32] & ~bit : out[row / 32] | bit;
  }
  return out;
}

class rules_constraint final : public token_constraint {
 public:
  rules_constraint(const token_rules& rules, std::uint32_t rows, std::shared_ptr<token_constraint> inner)
      : min_tokens_(rules.min_tokens),
        bound_for_ever_(!rules.allowed.empty() || !rules.banned.empty() || !rules.banned_rows.empty()),
        banned_rows_(std::make_shared<const std::vector<std::vector<token_id>>>(rules.banned_rows)),
        choosable_(mask_of(rows, true, rules.banned)),
        no_end_(mask_of(rows, true, rules.ends)),
        inner_(std::move(inner)) {
    for (const auto& row : *banned_rows_) remembered_ = std::max(remembered_, row.size() - 1);
    if (rules.allowed.empty()) return;
    narrow(choosable_, mask_of(rows, false, rules.allowed));
  }

  token_mask mask() override {
    current_ = choosable_;
    for (const auto& row : *banned_rows_) {
      if (would_end(row)) forbid(row.back());
    }
    if (inner_) narrow(current_, inner_->mask());
    if (count_ >= min_tokens_) return current_;
    words longer = current_;
    narrow(longer, no_end_);
    const bool goes_on = std::any_of(longer.begin(), longer.end(), [](auto word) { return word != 0; });
    if (goes_on || !inner_) current_ = std::move(longer);
    return current_;
  }

  bool accept(token_id token) override {
    ++count_;
    if (remembered_ > 0) {
      if (last_.size() == remembered_) last_.erase(last_.begin());
      last_.push_back(token);
    }
    return !inner_ || inner_->accept(token);
  }

  std::shared_ptr<token_constraint> copy() const override {
    auto out = std::make_shared<rules_constraint>(*this);
    if (inner_) out->inner_ = inner_->copy();
    return !inner_ || out->inner_ ? out : nullptr;
  }
  void force(std::uint32_t most, std::vector<token_id>& out) override {
    if (inner_) inner_->force(most, out);
  }
  std::uint64_t work() const override { return inner_ ? inner_->work() : 0; }
  std::string failure() const override {
    const std::string why = inner_ ? inner_->failure() : std::string();
    const bool some = std::any_of(current_.begin(), current_.end(), [](auto word) { return word != 0; });
    if (!why.empty() || some || current_.empty()) return why;
    return "what the request allows and forbids leaves no token to choose";
  }
  bool complete() const override { return inner_ && inner_->complete(); }
  bool decides_end() const override { return inner_ && inner_->decides_end(); }
  bool spent() const override { return !inner_ && !bound_for_ever_ && count_ >= min_tokens_; }

 private:
  /// What both allow; words that `by` does not have allow nothing.
  static void narrow(words& mask, token_mask by) {
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] &= i < by.size() ? by[i] : 0U;
  }

  /// Whether the output ends with all of the row but its last token.
  [[nodiscard]] bool would_end(const std::vector<token_id>& row) const {
    const std::size_t before = row.size() - 1;
    return before <= last_.size() &&
           std::equal(row.begin(), row.end() - 1, last_.end() - static_cast<std::ptrdiff_t>(before));
  }

  void forbid(token_id token) {
    const auto row = static_cast<std::uint32_t>(token);
    if (token >= 0 && row / 32 < current_.size()) current_[row / 32] &= ~(1U << row % 32U);
  }

  std::uint32_t min_tokens_;
  bool bound_for_ever_;
  std::shared_ptr<const std::vector<std::vector<token_id>>> banned_rows_;  ///< copies have the same
  words choosable_;
  words no_end_;
  std::shared_ptr<token_constraint> inner_;
  std::uint32_t count_ = 0;
  std::size_t remembered_ = 0;  ///< tokens that the longest row has before its last
  std::vector<token_id> last_;  ///< that many of the output
  words current_;
};

}  // namespace

std::shared_ptr<token_constraint> make_token_rules(const token_rules& rules, std::uint32_t rows,
                                                   std::shared_ptr<token_constraint> inner) {
  return std::make_shared<rules_constraint>(rules, rows, std::move(inner));
}

}  // namespace orcd::engine
