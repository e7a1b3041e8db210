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
        bound_for_ever_(!rules.allowed.empty() || !rules.banned.empty()),
        choosable_(mask_of(rows, true, rules.banned)),
        no_end_(mask_of(rows, true, rules.ends)),
        inner_(std::move(inner)) {
    if (rules.allowed.empty()) return;
    narrow(choosable_, mask_of(rows, false, rules.allowed));
  }

  token_mask mask() override {
    current_ = choosable_;
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
  std::string failure() const override { return inner_ ? inner_->failure() : std::string(); }
  bool complete() const override { return inner_ && inner_->complete(); }
  bool decides_end() const override { return inner_ && inner_->decides_end(); }
  bool spent() const override { return !inner_ && !bound_for_ever_ && count_ >= min_tokens_; }

 private:
  /// What both allow; words that `by` does not have allow nothing.
  static void narrow(words& mask, token_mask by) {
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] &= i < by.size() ? by[i] : 0U;
  }

  std::uint32_t min_tokens_;
  bool bound_for_ever_;
  words choosable_;
  words no_end_;
  std::shared_ptr<token_constraint> inner_;
  std::uint32_t count_ = 0;
  words current_;
};

}  // namespace

std::shared_ptr<token_constraint> make_token_rules(const token_rules& rules, std::uint32_t rows,
                                                   std::shared_ptr<token_constraint> inner) {
  return std::make_shared<rules_constraint>(rules, rows, std::move(inner));
}

}  // namespace orcd::engine
