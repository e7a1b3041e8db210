#include "engine/text/stop_matcher.hpp"

#include <algorithm>
#include <utility>

namespace orcd::engine {

stop_matcher::stop_matcher(std::vector<std::string> stops) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ends;
  for (const std::string& stop : stops) {
    if (!stop.empty()) ends.emplace_back(trie_.add(stop), static_cast<std::uint32_t>(stop.size()));
  }
  states_.resize(trie_.size());
  for (const auto& [node, length] : ends) states_[node].matched = length;
  link();
}

// Breadth first: a state's failure link leads to a shorter state, which is complete when it is needed.
void stop_matcher::link() {
  std::vector<std::uint32_t> order{byte_trie::root};
  order.reserve(states_.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint32_t node = order[i];
    for (const byte_trie::edge& e : trie_.edges(node)) {
      state& next = states_[e.target];
      next.depth = states_[node].depth + 1;
      next.fail = node == byte_trie::root ? byte_trie::root : step(states_[node].fail, e.byte);
      next.matched = std::max(next.matched, states_[next.fail].matched);
      order.push_back(e.target);
    }
  }
}

std::uint32_t stop_matcher::step(std::uint32_t at, unsigned char byte) const noexcept {
  for (;;) {
    const std::uint32_t next = trie_.child(at, byte);
    if (next != byte_trie::none || at == byte_trie::root) return next;
    at = states_[at].fail;
  }
}

stop_matcher::output stop_matcher::push(std::string_view text) {
  if (stopped_) return {{}, true};
  if (states_.size() == 1) return {std::string(text), false};
  for (std::size_t i = 0; i < text.size(); ++i) {
    state_ = step(state_, static_cast<unsigned char>(text[i]));
    if (const std::uint32_t length = states_[state_].matched; length != 0) {
      stopped_ = true;
      std::string out = std::exchange(held_, {});
      out.append(text.substr(0, i + 1));
      std::string stop = out.substr(out.size() - length);
      out.resize(out.size() - length);
      return {std::move(out), true, std::move(stop)};
    }
  }
  held_.append(text);
  const std::size_t safe = held_.size() - states_[state_].depth;
  std::string out = held_.substr(0, safe);
  held_.erase(0, safe);
  return {std::move(out), false};
}

std::string stop_matcher::finish() {
  state_ = byte_trie::root;
  return std::exchange(held_, {});
}

}  // namespace orcd::engine
