#include "engine/grammar/subset.hpp"

#include <algorithm>
#include <bitset>
#include <tuple>
#include <utility>

#include "engine/grammar/nfa.hpp"

namespace orcd::engine::grammar {

namespace {

using node_set = counted_vector<node_id>;

/// Sets of nodes, each kept once in one array and found by its hash.
class known_sets {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }
  void copy(state_id id, node_set& to) const {
    to.assign(nodes_.begin() + begin(id), nodes_.begin() + ends_[id]);
  }
  /// The number of this set; size() when it is new, and then add() must follow.
  [[nodiscard]] state_id find(const node_set& set) {
    if (slots_.size() < 2 * (size() + 1)) grow();
    slot_ = slot_of(hash_of(set.data(), set.data() + set.size()));
    for (; slots_[slot_] != no_state; slot_ = (slot_ + 1) & (slots_.size() - 1)) {
      const state_id id = slots_[slot_];
      compile_budget::work(1 + set.size() / 16);
      if (ends_[id] - begin(id) == set.size() &&
          std::equal(set.begin(), set.end(), nodes_.begin() + begin(id))) {
        return id;
      }
    }
    return static_cast<state_id>(size());
  }
  /// Adds the set that find() was called with last.
  void add(const node_set& set) {
    nodes_.insert(nodes_.end(), set.begin(), set.end());
    slots_[slot_] = static_cast<state_id>(size());
    ends_.push_back(static_cast<std::uint32_t>(nodes_.size()));
  }

 private:
  [[nodiscard]] std::uint32_t begin(state_id id) const noexcept { return id == 0 ? 0 : ends_[id - 1]; }
  [[nodiscard]] std::size_t slot_of(std::uint64_t hash) const noexcept {
    return (hash ^ hash >> 32U) & (slots_.size() - 1);
  }
  static std::uint64_t hash_of(const node_id* from, const node_id* to) noexcept {
    std::uint64_t out = static_cast<std::uint64_t>(to - from);
    for (; from != to; ++from) out = ((out ^ *from) * 0x9E37'79B9'7F4A'7C15U) ^ out >> 31U;
    return out;
  }
  void grow() {
    const std::size_t wanted = std::max<std::size_t>(64, 2 * slots_.size());
    compile_budget::work(size() + nodes_.size() / 8);
    slots_.clear();
    slots_.shrink_to_fit();
    slots_.resize(wanted, no_state);
    for (state_id id = 0; id < size(); ++id) {
      std::size_t slot = slot_of(hash_of(nodes_.data() + begin(id), nodes_.data() + ends_[id]));
      while (slots_[slot] != no_state) slot = (slot + 1) & (wanted - 1);
      slots_[slot] = id;
    }
  }

  node_set nodes_;
  counted_vector<std::uint32_t> ends_;
  counted_vector<state_id> slots_;
  std::size_t slot_ = 0;
};

class construction {
 public:
  construction(const expr& body, const std::string& where, std::uint32_t states_max)
      : where_(where), states_max_(states_max) {
    final_ = nfa_.emit(*body, 0);
    mark_.resize(nfa_.size(), 0);
  }

  automaton run() {
    found_.assign(1, 0);
    (void)id_of_found();
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      sets_.copy(static_cast<state_id>(i), set_);
      state made = expand();
      out_.edges.add(owned_bytes(made));
      made.bytes.shrink_to_fit();
      made.calls.shrink_to_fit();
      out_.states[i] = std::move(made);
    }
    return std::move(out_);
  }

 private:
  // Computes closed_, the nodes that found_ reaches over free edges. Nodes that have only free edges are left
  // out, so that equal sets look equal.
  void close() {
    closed_.clear();
    ++round_;
    while (!found_.empty()) {
      const node_id id = found_.back();
      found_.pop_back();
      compile_budget::work(1);
      if (mark_[id] == round_) continue;
      mark_[id] = round_;
      if (nfa_.has_symbols(id) || id == final_) closed_.push_back(id);
      nfa_.each_free(id, [&](node_id to) { found_.push_back(to); });
    }
    compile_budget::work(closed_.size());
    std::sort(closed_.begin(), closed_.end());
  }

  /// The state of the nodes in found_; clears found_.
  state_id id_of_found() {
    close();
    const state_id id = sets_.find(closed_);
    if (id < sets_.size()) return id;
    if (id >= states_max_) {
      throw grammar_failure{where_, std::string("the ") + compile_budget::noun() +
                                        " is too large: more than " + std::to_string(states_max_) +
                                        " states"};
    }
    compile_budget::work(8);
    append_held(out_.states, state{}, out_.cost);
    sets_.add(closed_);
    return id;
  }

  /// The state of the nodes in set_, with its edges.
  state expand() {
    state out;
    edges_.clear();
    calls_.clear();
    for (const node_id id : set_) {
      nfa_.each_byte(id, [&](const byte_edge& edge) { edges_.push_back(edge); });
      nfa_.each_call(id, [&](const call_edge& edge) { calls_.push_back(edge); });
      out.accepting = out.accepting || id == final_;
    }
    compile_budget::work(set_.size() / 4 + edges_.size() + calls_.size());
    add_bytes(out);
    add_calls(out);
    return out;
  }

  // Between two cuts all bytes have the same targets.
  void add_bytes(state& out) {
    std::bitset<257> cuts;
    for (const byte_edge& edge : edges_) cuts.set(edge.first).set(edge.last + 1U);
    std::sort(edges_.begin(), edges_.end(),
              [](const byte_edge& a, const byte_edge& b) { return a.first < b.first; });
    active_.clear();
    std::size_t next_edge = 0;
    for (unsigned cut = 0; cut < 256;) {
      unsigned end = cut + 1;
      while (end < 256 && !cuts[end]) ++end;
      std::erase_if(active_, [&](const byte_edge& edge) { return edge.last < cut; });
      for (; next_edge < edges_.size() && edges_[next_edge].first <= cut; ++next_edge)
        active_.push_back(edges_[next_edge]);
      if (!active_.empty())
        add_range(static_cast<unsigned char>(cut), static_cast<unsigned char>(end - 1), out);
      cut = end;
    }
  }

  void add_range(unsigned char first, unsigned char last, state& out) {
    compile_budget::work(1 + active_.size() / 4);
    for (const byte_edge& edge : active_) found_.push_back(edge.to);
    const state_id to = id_of_found();
    if (!out.bytes.empty() && out.bytes.back().to == to && out.bytes.back().last + 1U == first) {
      out.bytes.back().last = last;
    } else {
      out.bytes.push_back({first, last, to});
    }
  }

  void add_calls(state& out) {
    const auto symbol = [](const call_edge& edge) { return std::tuple(edge.rule, edge.least, edge.most); };
    std::sort(calls_.begin(), calls_.end(),
              [&](const call_edge& a, const call_edge& b) { return symbol(a) < symbol(b); });
    for (std::size_t i = 0; i < calls_.size();) {
      const call_edge& first = calls_[i];
      for (; i < calls_.size() && symbol(calls_[i]) == symbol(first); ++i) found_.push_back(calls_[i].to);
      out.calls.push_back({first.rule, id_of_found(), first.least, first.most});
    }
  }

  const std::string& where_;
  std::uint32_t states_max_;
  nfa nfa_;
  node_id final_ = 0;
  known_sets sets_;
  automaton out_;
  counted_vector<std::uint32_t> mark_;
  std::uint32_t round_ = 0;
  // Reused scratch.
  node_set found_, closed_, set_;
  counted_vector<byte_edge> edges_, active_;
  counted_vector<call_edge> calls_;
};

}  // namespace

automaton make_deterministic(const expr& body, const std::string& where, std::uint32_t states_max) {
  return construction(body, where, states_max).run();
}

std::size_t owned_bytes(const state& s) noexcept {
  // Each vector that is not empty is one block of the allocator, which is at least this large.
  constexpr std::size_t block = 24;
  const std::size_t bytes = s.bytes.size() * sizeof(byte_edge);
  const std::size_t calls = s.calls.size() * sizeof(call_edge);
  return (bytes == 0 ? 0 : std::max(block, bytes)) + (calls == 0 ? 0 : std::max(block, calls));
}

}  // namespace orcd::engine::grammar
