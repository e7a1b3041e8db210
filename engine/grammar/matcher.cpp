#include "engine/grammar/matcher.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/grammar/grammar.hpp"

namespace orcd::engine::grammar {

matcher::matcher(std::shared_ptr<const program> grammar, std::shared_ptr<const token_table> tokens)
    : program_(std::move(grammar)), tokens_(std::move(tokens)), configs_(*program_), at_(configs_.start()) {
  ORCD_ENSURE(tokens_ != nullptr && tokens_->words() > 0);
}

token_mask matcher::mask() {
  const auto found =
      std::find_if(masks_.begin(), masks_.end(), [&](const kept_mask& m) { return m.config == at_; });
  if (found != masks_.end()) return *found->words;
  if (masks_.size() < masks_max) {
    masks_.emplace_back();
    next_mask_ = masks_.size() - 1;
  }
  kept_mask& to = masks_[next_mask_++ % masks_.size()];
  if (to.words.use_count() != 1) to.words = std::make_shared<mask_words>();
  to.words->assign(tokens_->words(), 0);
  to.config = at_;
  if (at_ != dead) find_mask(*to.words);
  return *to.words;
}

void matcher::find_mask(mask_words& out) {
  mask_from_ = done();
  if (configs_.accepting(at_)) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] |= tokens_->end_of_generation()[i];
  }
  std::vector<thread> narrow;
  const std::vector<thread> all = configs_.threads(at_);
  for (const thread& t : all) {
    if (exhausted_) break;
    if (program_->states[t.state].wide) {
      add_wide(t, out);
    } else {
      narrow.push_back(t);
    }
  }
  const config_id rest = configs_.of(std::move(narrow), false);
  if (rest != dead) walk(0, rest, out);
  charge(0);
  if (exhausted_) std::fill(out.begin(), out.end(), 0U);
}

void matcher::add_wide(const thread& at, mask_words& out) {
  const bool counted = program_->states[at.state].counted;
  const auto kept = counted ? nullptr : wide_of(at.state);
  const wide_tokens& wide = counted ? tokens_->string_body() : *kept;
  std::uint32_t least = 0;
  std::uint32_t most = unbounded;
  if (counted && at.stack != bottom) {
    least = configs_.frame(at.stack).least;
    most = configs_.frame(at.stack).most;
  }
  if (most == unbounded) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] |= wide.within[i];
  } else {
    tokens_->add_string_body(most, out);
  }
  charge(out.size() / 4 + wide.ends.size());
  if (exhausted_) return;
  const config_id after = configs_.ended(at.stack);
  if (after == dead) return;
  for (const auto& [node, characters] : wide.ends) {
    if (characters < least || characters > most) continue;
    allow(out, tokens_->tokens(node));
    walk(node, after, out);
  }
}

// Visits the nodes below a node, whose configuration is `from`.
void matcher::walk(std::uint32_t below, config_id from, mask_words& out) {
  const std::uint32_t last = tokens_->end(below);
  path_.clear();
  path_.push_back({last, from});
  std::uint32_t seen = 0;
  for (std::uint32_t node = below + 1; node < last && !exhausted_;) {
    if (++seen % 64 == 0) charge(64);
    while (path_.back().end <= node) path_.pop_back();
    const config_id to = configs_.step(path_.back().config, tokens_->byte(node));
    const std::uint32_t end = tokens_->end(node);
    if (to == dead) {
      node = end;
      continue;
    }
    allow(out, tokens_->tokens(node));
    if (end > node + 1) path_.push_back({end, to});
    ++node;
  }
  charge(seen % 64);
}

std::shared_ptr<const wide_tokens> matcher::wide_of(state_id state) {
  const auto found = program_->wide->find({tokens_->number(), state},
                                          [&] { return tokens_->find_wide(program_->states, state); });
  if (wide_seen_.insert(state).second) charge(found->work);
  return found;
}

void matcher::charge(std::uint64_t nodes) {
  nodes_ += nodes;
  exhausted_ = exhausted_ || configs_.is_spent() || done() - mask_from_ > work_a_mask ||
               done() > work_ahead + accepted_ * work_a_token;
}

std::string matcher::failure() const {
  return exhausted_ ? "the schema is too costly to follow: too many alternatives in parallel" : "";
}

bool matcher::accept(token_id token) {
  if (at_ == dead || !tokens_->contains(token)) {
    at_ = dead;
    return false;
  }
  config_id to = after(token);
  if (configs_.is_spent()) {
    // Tries again with all the memory freed.
    at_ = configs_.forget_all_but(at_);
    masks_.clear();
    next_mask_ = 0;
    to = after(token);
    exhausted_ = exhausted_ || configs_.is_spent();
    if (exhausted_) {
      // The token was allowed all the same; the next mask will say why nothing follows it.
      at_ = dead;
      return true;
    }
  }
  move_to(to);
  return at_ != dead;
}

// The configuration after a token, which may be text and a mark at the same time.
config_id matcher::after(token_id token) {
  config_id to = tokens_->has_text(token) ? configs_.run(at_, tokens_->spelling(token, false)) : dead;
  const config_id marked =
      tokens_->has_marked(token) ? configs_.run(at_, tokens_->spelling(token, true)) : dead;
  if (to == dead) {
    to = marked;
  } else if (marked != dead) {
    std::vector<thread> both;
    std::set_union(configs_.threads(to).begin(), configs_.threads(to).end(), configs_.threads(marked).begin(),
                   configs_.threads(marked).end(), std::back_inserter(both));
    to = configs_.of(std::move(both), configs_.accepting(to) || configs_.accepting(marked));
  }
  return to;
}

std::shared_ptr<token_constraint> matcher::copy() const {
  return configs_.bytes() <= copied_bytes_max ? std::make_shared<matcher>(*this) : nullptr;
}

/// The longest token that may come if every other one is a beginning of it; -1 where there is a choice.
token_id matcher::forced_token() {
  constexpr int most = 64;  // beginnings of one text
  if (may_end()) return -1;
  const token_mask all = mask();
  int count = 0;
  for (const std::uint32_t word : all) count += std::popcount(word);
  if (count == 0 || count > most) return -1;
  std::vector<std::string> texts;
  token_id longest = -1;
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::uint32_t word = all[i]; word != 0; word &= word - 1) {
      const auto token = static_cast<token_id>(32 * i + static_cast<std::size_t>(std::countr_zero(word)));
      if (!tokens_->has_text(token)) return -1;
      texts.push_back(tokens_->spelling(token, false));
      if (longest >= 0 && texts.back().size() <= text.size()) continue;
      longest = token;
      text = texts.back();
    }
  }
  const bool forced =
      std::all_of(texts.begin(), texts.end(), [&](const std::string& one) { return text.starts_with(one); });
  return forced ? longest : -1;
}

void matcher::force(std::uint32_t most, std::vector<token_id>& out) {
  for (std::uint32_t i = 0; i < most && at_ != dead; ++i) {
    const token_id token = forced_token();
    if (token < 0 || !accept(token)) return;
    out.push_back(token);
  }
}

bool matcher::accept_text(std::string_view text) {
  move_to(configs_.run(at_, text));
  return at_ != dead;
}

void matcher::move_to(config_id config) {
  at_ = config;
  ++accepted_;
  if (at_ == dead || !configs_.is_full()) return;
  at_ = configs_.forget_all_but(at_);
  masks_.clear();
  next_mask_ = 0;
}

std::unique_ptr<token_constraint> make_matcher(std::shared_ptr<const program> grammar,
                                               std::shared_ptr<const token_table> tokens) {
  return std::make_unique<matcher>(std::move(grammar), std::move(tokens));
}

}  // namespace orcd::engine::grammar
