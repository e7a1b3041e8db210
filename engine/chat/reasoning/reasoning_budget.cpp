#include "engine/chat/reasoning/reasoning_budget.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orcd::engine {
namespace {

/// Where reasoning stands in an output.
struct reasoning_place {
  std::string open;         ///< with the label behind it
  std::string_view close;   ///< the model's own end of it
  std::string_view forced;  ///< what is written in its place; begins with `close`
  /// May not follow `forced`; empty: anything may. Harmony's next message would else be more reasoning.
  std::string_view not_after{};
  bool again = false;  ///< it may begin once more, behind other parts
};

reasoning_place place_of(const output_format& format) {
  if (format.calls == call_format::harmony) {
    return {"<|channel|>analysis<|message|>", "<|end|>", "<|end|><|start|>assistant<|channel|>", "analysis",
            true};
  }
  const auto marks = reasoning_marks(format);
  std::string open(marks.open);
  if (!marks.label.empty()) open.append(marks.label) += '\n';
  return {std::move(open), marks.close, marks.close, {}, marks.anywhere};
}

std::vector<token_id> encode_marks(const tokenizer& vocabulary, std::string_view text) {
  encode_options options;
  options.add_special = false;
  options.parse_special = true;
  return vocabulary.encode(text, options);
}

/// How many bytes at the end of `text` are the beginning of `mark`.
std::size_t begun(std::string_view text, std::string_view mark) noexcept {
  for (std::size_t length = std::min(text.size(), mark.size()); length > 0; --length) {
    if (text.ends_with(mark.substr(0, length))) return length;
  }
  return 0;
}

/// Whether the bytes end inside a code point.
bool ends_in_character(std::string_view text) noexcept {
  for (std::size_t back = 1; back <= std::min<std::size_t>(text.size(), 4); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;
    const std::size_t length = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
    return back < length;
  }
  return false;
}

class budget_constraint final : public token_constraint {
 public:
  budget_constraint(const reasoning_budget& budget, const tokenizer& vocabulary,
                    std::shared_ptr<token_constraint> inner)
      : vocabulary_(vocabulary),
        place_(place_of(budget.format)),
        budget_(budget.tokens),
        rows_(vocabulary.vocab_size()),
        now_(budget.in_reasoning ? state::reasoning : state::before),
        inner_(std::move(inner)) {
    // Behind reasoning between tags a grammar may have texts that hold its marks.
    if (inner_ && budget.format.calls != call_format::harmony) place_.again = false;
  }

  token_mask mask() override {
    if (now_ == state::reasoning && is_used_up()) begin_to_close();
    const token_mask allowed = inner_ ? inner_->mask() : token_mask();
    if (now_ == state::closing) {
      const token_id next = forced_.at(written_);
      if (!inner_ || allows(allowed, next)) return only(next);
      now_ = state::over;
    }
    if (inner_ && now_ != state::closed) return allowed;
    current_.assign((rows_ + 31) / 32, ~0U);
    for (std::size_t i = 0; inner_ && i < current_.size(); ++i)
      current_[i] = i < allowed.size() ? allowed[i] : 0U;
    if (now_ == state::closed) leave_out_more_reasoning();
    return current_;
  }

  bool accept(token_id token) override {
    if (inner_ && !inner_->accept(token)) return false;
    switch (now_) {
      case state::before: watch(token); break;
      case state::reasoning: count(token); break;
      case state::closing:
        if (token != forced_.at(written_)) return false;
        if (++written_ == forced_.size()) now_ = place_.again ? state::closed : state::over;
        break;
      case state::closed:
        now_ = state::before;
        tail_.clear();
        break;
      case state::over: break;
    }
    return true;
  }

  std::shared_ptr<token_constraint> copy() const override {
    auto out = std::make_shared<budget_constraint>(*this);
    if (inner_) out->inner_ = inner_->copy();
    return !inner_ || out->inner_ ? out : nullptr;
  }

  void force(std::uint32_t most, std::vector<token_id>& out) override {
    if (now_ == state::reasoning && is_used_up()) begin_to_close();
    if (now_ != state::closing) {
      if (inner_ && now_ == state::over) inner_->force(most, out);
      return;
    }
    for (; most > 0 && now_ == state::closing; --most) {
      const token_id next = forced_.at(written_);
      if ((inner_ && !allows(inner_->mask(), next)) || !accept(next)) return;
      out.push_back(next);
    }
  }

  std::uint64_t work() const override { return inner_ ? inner_->work() : 0; }
  std::string failure() const override { return inner_ ? inner_->failure() : std::string(); }
  bool complete() const override { return inner_ && inner_->complete(); }
  bool decides_end() const override { return inner_ && inner_->decides_end(); }
  bool spent() const override { return now_ == state::over && !inner_; }

 private:
  enum class state {
    before,     ///< reasoning may still begin
    reasoning,  ///< tokens are counted
    closing,    ///< the end of reasoning is being written
    closed,     ///< it is written, and what follows must not be reasoning again
    over,       ///< nothing is limited any more
  };

  /// A character that has begun is ended first, which takes three tokens at most.
  [[nodiscard]] bool is_used_up() const noexcept {
    constexpr std::uint32_t late_max = 3;
    return used_ >= budget_ && (!ends_in_character(tail_) || used_ >= budget_ + late_max);
  }

  void begin_to_close() {
    // The model may be in the middle of the mark, written as text.
    forced_ = encode_marks(vocabulary_, place_.forced.substr(begun(tail_, place_.close)));
    written_ = 0;
    now_ = forced_.empty() ? state::over : state::closing;
  }

  token_mask only(token_id token) {
    current_.assign((rows_ + 31) / 32, 0U);
    const auto row = static_cast<std::uint32_t>(token);
    current_.at(row / 32) |= 1U << row % 32U;
    return current_;
  }

  void leave_out_more_reasoning() {
    const auto banned = encode_marks(vocabulary_, place_.not_after);
    if (banned.empty()) return;
    const auto row = static_cast<std::uint32_t>(banned.front());
    current_.at(row / 32) &= ~(1U << row % 32U);
  }

  /// Reasoning between tags comes first or not at all; white space may stand before it.
  void watch(token_id token) {
    vocabulary_.append_bytes(token, tail_, true);
    const auto at = tail_.find(place_.open);
    if (at != std::string::npos) {
      tail_.erase(0, at + place_.open.size());
      now_ = state::reasoning;
      return;
    }
    if (!place_.again) {
      const auto first = tail_.find_first_not_of(" \t\r\n");
      if (first == std::string::npos) return;
      if (!place_.open.starts_with(std::string_view(tail_).substr(first))) now_ = state::over;
      return;
    }
    keep(place_.open.size());
  }

  void count(token_id token) {
    vocabulary_.append_bytes(token, tail_, true);
    if (tail_.find(place_.close) == std::string::npos) {
      ++used_;
      return keep(place_.close.size());
    }
    now_ = place_.again ? state::before : state::over;
    tail_.clear();
  }

  /// What a mark of this length may have begun in.
  void keep(std::size_t length) {
    if (tail_.size() >= length) tail_.erase(0, tail_.size() - length + 1);
  }

  const tokenizer& vocabulary_;
  reasoning_place place_;
  std::uint32_t budget_;
  std::uint32_t rows_;
  state now_;
  std::shared_ptr<token_constraint> inner_;
  std::uint32_t used_ = 0;
  std::string tail_;  ///< the last bytes of the output, in which a mark may have begun
  std::vector<token_id> forced_;
  std::size_t written_ = 0;  ///< of forced_
  std::vector<std::uint32_t> current_;
};

}  // namespace

std::shared_ptr<token_constraint> make_reasoning_budget(const reasoning_budget& budget,
                                                        const tokenizer& vocabulary,
                                                        const std::shared_ptr<token_constraint>& inner) {
  const auto place = place_of(budget.format);
  if (place.close.empty() || encode_marks(vocabulary, place.forced).empty()) return nullptr;
  return std::make_shared<budget_constraint>(budget, vocabulary, inner);
}

}  // namespace orcd::engine
