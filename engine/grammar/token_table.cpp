#include "engine/grammar/token_table.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>

#include "engine/base/ensure.hpp"
#include "engine/grammar/grammar.hpp"
#include "engine/grammar/json_rules.hpp"
#include "engine/text/tokenizer.hpp"

namespace orcd::engine::grammar {

namespace {

constexpr std::size_t tag_bytes_max = 64;

bool is_framed(std::string_view text, std::string_view open, std::string_view close) {
  return text.size() > open.size() + close.size() && text.size() <= tag_bytes_max && text.starts_with(open) &&
         text.ends_with(close) && text.find(' ') == std::string_view::npos;
}

bool looks_like_tag(std::string_view text) {
  return is_framed(text, "<", ">") || is_framed(text, "[", "]");
}

/// The transitions of one rule's states, computed once each, so that a walk takes one look-up for each byte.
class known_steps {
 public:
  static constexpr std::uint32_t none = ~0U;
  explicit known_steps(std::span<const state> states) : states_(states) {}

  std::uint32_t number_of(state_id id) {
    const auto [it, is_new] = numbers_.try_emplace(id, static_cast<std::uint32_t>(rows_.size()));
    if (is_new) {
      rows_.emplace_back().fill(unknown);
      ids_.push_back(id);
    }
    return it->second;
  }
  std::uint32_t next(std::uint32_t from, unsigned char byte) {
    const std::uint32_t found = rows_[from][byte];
    if (found != unknown) return found;
    const state_id to = at(from).next(byte);
    return rows_[from][byte] = to == no_state || states_[to].need == unbounded ? none : number_of(to);
  }
  [[nodiscard]] const state& at(std::uint32_t number) const { return states_[ids_[number]]; }

 private:
  static constexpr std::uint32_t unknown = ~0U - 1;
  std::span<const state> states_;
  std::map<state_id, std::uint32_t> numbers_;
  std::vector<state_id> ids_;
  std::vector<std::array<std::uint32_t, 256>> rows_;
};

}  // namespace

void allow(mask_words& mask, std::span<const token_id> tokens) noexcept {
  for (const token_id id : tokens) {
    mask[static_cast<std::size_t>(id) / 32] |= 1U << static_cast<std::uint32_t>(id) % 32U;
  }
}

token_table::token_table(const tokenizer& vocabulary, std::uint32_t rows) {
  static std::atomic<std::uint64_t> made{0};
  number_ = ++made;
  const std::uint32_t size = std::min(rows, vocabulary.vocab_size());
  texts_.resize(size);
  places_.resize(size, place::nowhere);
  end_mask_.resize((rows + 31) / 32);
  for (const token_id id : vocabulary.end_of_generation()) {
    if (contains(id)) allow(end_mask_, {&id, 1});
  }
  std::vector<std::string> marked(size);
  std::vector<key> keys;
  keys.reserve(size + size / 64);
  for (token_id id = 0; static_cast<std::uint32_t>(id) < size; ++id) {
    const auto row = static_cast<std::size_t>(id);
    std::string& text = texts_[row];
    const bool control = vocabulary.is_control(id);
    vocabulary.append_bytes(id, text, true);
    // A token with the mark's byte in its text must not be taken for a mark: the byte is replaced by another
    // one that occurs in no UTF-8, so that only free text has the token.
    std::replace(text.begin(), text.end(), token_mark, '\xFE');
    if (text.empty()) continue;
    if (vocabulary.is_end_of_generation(id)) continue;
    const bool special = control || is_framed(text, "<|", "|>");
    const bool is_marked = special || looks_like_tag(text);
    places_[row] = !is_marked ? place::text : special ? place::mark : place::both;
    if (!special) keys.push_back({text, id});
    if (!is_marked) continue;
    marked[row] = token_mark + text;
    keys.push_back({marked[row], id});
  }
  build(keys);
}

// Builds the trie. Sorted keys are in the order of the walk: each begins where its common prefix with the
// last one ends.
void token_table::build(std::vector<key>& keys) {
  std::sort(keys.begin(), keys.end(), [](const key& a, const key& b) {
    const int order = a.text.compare(b.text);
    return order != 0 ? order < 0 : a.id < b.id;
  });
  bytes_ = {0};
  ends_ = {0};
  first_id_ = {0};
  std::vector<std::uint32_t> path{0};  // nodes from the root
  std::string_view last;
  for (const key& k : keys) {
    std::size_t common = 0;
    while (common < last.size() && common < k.text.size() && last[common] == k.text[common]) ++common;
    while (path.size() > common + 1) {
      ends_[path.back()] = nodes();
      path.pop_back();
    }
    for (std::size_t i = common; i < k.text.size(); ++i) {
      path.push_back(nodes());
      bytes_.push_back(static_cast<unsigned char>(k.text[i]));
      ends_.push_back(0);
      first_id_.push_back(static_cast<std::uint32_t>(ids_.size()));
    }
    ids_.push_back(k.id);
    last = k.text;
  }
  for (const std::uint32_t node : path) ends_[node] = nodes();
  first_id_.push_back(static_cast<std::uint32_t>(ids_.size()));
}

std::string token_table::spelling(token_id token, bool marked) const {
  ORCD_ENSURE(contains(token));
  const std::string& text = texts_[static_cast<std::size_t>(token)];
  return marked ? token_mark + text : text;
}

bool token_table::has_text(token_id token) const noexcept {
  const place at = places_[static_cast<std::size_t>(token)];
  return at == place::text || at == place::both;
}

bool token_table::has_marked(token_id token) const noexcept {
  const place at = places_[static_cast<std::size_t>(token)];
  return at == place::mark || at == place::both;
}

bool token_table::is_token(std::string_view text) const noexcept {
  std::uint32_t node = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char wanted = i == 0 ? token_mark : text[i - 1];
    std::uint32_t child = node + 1;
    while (child < end(node) && byte(child) != static_cast<unsigned char>(wanted)) child = end(child);
    if (child >= end(node)) return false;
    node = child;
  }
  return !tokens(node).empty();
}

wide_tokens token_table::find_wide(std::span<const state> states, state_id from) const {
  struct step {
    std::uint32_t end;
    std::uint32_t at;
    std::uint32_t characters;
  };
  wide_tokens out;
  out.within.resize(words());
  known_steps known(states);
  const bool counts = states[from].counted;
  std::vector<step> path{{nodes(), known.number_of(from), 0}};
  for (std::uint32_t node = 1; node < nodes();) {
    while (path.back().end <= node) path.pop_back();
    const auto [above, at, before] = path.back();
    ++out.work;
    const std::uint32_t to = known.next(at, byte(node));
    if (to == known_steps::none) {
      node = end(node);
      continue;
    }
    const std::uint32_t characters = before + (known.at(at).counted && byte(node) != '"' ? 1 : 0);
    const state& reached = known.at(to);
    if (reached.accepting) out.ends.push_back({node, characters});
    if (reached.is_end()) {
      node = end(node);
      continue;
    }
    allow(out.within, tokens(node));
    if (counts) {
      for (const token_id id : tokens(node)) out.characters.emplace_back(characters, id);
    }
    if (end(node) > node + 1) path.push_back({end(node), to, characters});
    ++node;
  }
  out.ends.shrink_to_fit();
  std::stable_sort(out.characters.begin(), out.characters.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  return out;
}

const wide_tokens& token_table::string_body() const {
  std::call_once(string_once_, [this] {
    auto states = string_states();
    for (state& s : states) s.need = 0;
    const auto body = std::find_if(states.begin(), states.end(), [](const state& s) { return s.counted; });
    string_ = find_wide(states, static_cast<state_id>(body - states.begin()));
  });
  return string_;
}

void token_table::add_string_body(std::uint32_t most, mask_words& out) const {
  const wide_tokens& all = string_body();
  const auto first_short = std::partition_point(all.characters.begin(), all.characters.end(),
                                                [&](const auto& entry) { return entry.first > most; });
  const auto too_long = static_cast<std::size_t>(first_short - all.characters.begin());
  if (too_long <= all.characters.size() / 2) {
    mask_words part = all.within;
    for (auto it = all.characters.begin(); it != first_short; ++it) {
      part[static_cast<std::size_t>(it->second) / 32] &=
          ~(1U << static_cast<std::uint32_t>(it->second) % 32U);
    }
    for (std::size_t i = 0; i < words(); ++i) out[i] |= part[i];
    return;
  }
  for (auto it = first_short; it != all.characters.end(); ++it) allow(out, {&it->second, 1});
}

std::shared_ptr<const token_table> make_token_table(const tokenizer& vocabulary, std::uint32_t rows) {
  auto made = std::make_shared<const token_table>(vocabulary, rows);
  (void)made->string_body();  // so that no job has to wait for it
  return made;
}

}  // namespace orcd::engine::grammar
