#include "engine/text/bpe.hpp"

#include <algorithm>

namespace orcd::engine {

namespace {

// Up to this many symbols, shifting arrays is faster than a heap (bench/tokenize).
constexpr std::size_t short_word = 40;
constexpr std::uint32_t no_node = 0xFFFFFFFF;

}  // namespace

void bpe_scratch::merge(const merge_table& merges) {
  if (symbols.size() < 2) return;
  if (symbols.size() <= short_word) {
    merge_short(merges);
  } else {
    merge_long(merges);
  }
}

void bpe_scratch::merge_short(const merge_table& merges) {
  const auto find = [&](std::size_t i) { return merges.find(symbols[i], symbols[i + 1]); };
  pairs_.resize(symbols.size() - 1);
  for (std::size_t i = 0; i < pairs_.size(); ++i) pairs_[i] = find(i);
  while (!pairs_.empty()) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < pairs_.size(); ++i) {
      if (pairs_[i].rank < pairs_[best].rank) best = i;
    }
    if (pairs_[best].rank == merge_table::no_rank) return;
    symbols[best] = pairs_[best].merged;
    const auto at = static_cast<std::ptrdiff_t>(best);
    symbols.erase(symbols.begin() + at + 1);
    pairs_.erase(pairs_.begin() + at);
    if (best > 0) pairs_[best - 1] = find(best - 1);
    if (best < pairs_.size()) pairs_[best] = find(best);
  }
}

// Adds the pair that starts at node `left` to the heap, if it merges.
void bpe_scratch::offer(const merge_table& merges, std::uint32_t left) {
  const node& a = nodes_[left];
  if (a.next == no_node) return;
  const token_id right = nodes_[a.next].id;
  const merge_table::merge m = merges.find(a.id, right);
  if (m.rank == merge_table::no_rank) return;
  heap_.push_back({static_cast<std::uint64_t>(m.rank) << 32 | left, a.id, right, m.merged});
}

// Candidates are not removed from the heap when their pair changes: a candidate whose two tokens have changed
// is skipped when it is popped. A node that was merged into its neighbour has id -1.
void bpe_scratch::merge_long(const merge_table& merges) {
  const auto later = [](const candidate& a, const candidate& b) { return a.order > b.order; };
  const auto count = static_cast<std::uint32_t>(symbols.size());
  nodes_.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    nodes_[i] = {symbols[i], i == 0 ? no_node : i - 1, i + 1 == count ? no_node : i + 1};
  }
  heap_.clear();
  for (std::uint32_t i = 0; i + 1 < count; ++i) offer(merges, i);
  std::make_heap(heap_.begin(), heap_.end(), later);
  const auto push = [&](std::uint32_t left) {
    const std::size_t before = heap_.size();
    offer(merges, left);
    if (heap_.size() != before) std::push_heap(heap_.begin(), heap_.end(), later);
  };
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const candidate c = heap_.back();
    heap_.pop_back();
    const auto left = static_cast<std::uint32_t>(c.order);
    node& a = nodes_[left];
    if (a.id != c.left || a.next == no_node || nodes_[a.next].id != c.right) continue;
    node& b = nodes_[a.next];
    a.id = c.merged;
    a.next = b.next;
    b.id = -1;
    if (a.next != no_node) nodes_[a.next].prev = left;
    if (a.prev != no_node) push(a.prev);
    push(left);
  }
  symbols.clear();
  for (std::uint32_t i = 0; i != no_node; i = nodes_[i].next) symbols.push_back(nodes_[i].id);
  // Frees the buffers of a huge word, or they would stay allocated for the process's life.
  if (count > 1u << 16) {
    nodes_ = {};
    heap_ = {};
  }
}

}  // namespace orcd::engine
