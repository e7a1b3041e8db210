#include "engine/grammar/subset.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "engine/grammar/program_builder.hpp"

namespace orcd::engine::grammar {

namespace {

using node_id = std::uint32_t;
using node_set = std::vector<node_id>;  // ascending

struct nfa_node {
  std::vector<node_id> free;
  std::vector<byte_edge> bytes;
  std::vector<call_edge> calls;
};

// Depth of an expression is bounded by its makers (schema depth, nesting of a regular expression).
class nfa {
 public:
  nfa(const std::string& where, subset_budget& budget) : where_(where), budget_(budget) {}

  node_id add() {
    take(1);
    nodes_.emplace_back();
    return static_cast<node_id>(nodes_.size() - 1);
  }
  void take(std::uint64_t work) {
    if (work > budget_.work)
      throw grammar_failure{where_, "the schema is too large: its automaton exceeds the limit"};
    budget_.work -= work;
  }
  [[nodiscard]] const nfa_node& at(node_id id) const { return nodes_[id]; }

  /// Adds what `e` matches after `from`; returns the node reached.
  node_id emit(const expression& e, node_id from) {
    switch (e.what) {
      case expression::kind::literal: return emit_literal(e.text, from);
      case expression::kind::bytes: return emit_bytes(e.bytes, from);
      case expression::kind::sequence:
        for (const expr& part : e.parts) from = emit(*part, from);
        return from;
      case expression::kind::choice: {
        const node_id end = add();
        for (const expr& part : e.parts) {
          const node_id start = add();
          nodes_[from].free.push_back(start);
          const node_id last = emit(*part, start);
          nodes_[last].free.push_back(end);
        }
        return end;
      }
      case expression::kind::repeat: return emit_repeat(e, from);
      case expression::kind::list: return emit_list(e, from);
      case expression::kind::call: {
        const node_id end = add();
        nodes_[from].calls.push_back({e.rule, end, e.least, e.most});
        return end;
      }
    }
    return from;
  }

 private:
  node_id emit_literal(const std::string& text, node_id from) {
    for (const char c : text) {
      const node_id end = add();
      const auto byte = static_cast<unsigned char>(c);
      nodes_[from].bytes.push_back({byte, byte, end});
      from = end;
    }
    return from;
  }

  node_id emit_bytes(const byte_set& set, node_id from) {
    const node_id end = add();
    for (unsigned first = 0; first < 256; ++first) {
      if (!set[first]) continue;
      unsigned last = first;
      while (last < 255 && set[last + 1]) ++last;
      nodes_[from].bytes.push_back(
          {static_cast<unsigned char>(first), static_cast<unsigned char>(last), end});
      first = last;
    }
    return end;
  }

  node_id emit_repeat(const expression& e, node_id from) {
    const expression& part = *e.parts.front();
    for (std::uint32_t i = 0; i < e.least; ++i) {
      take(1);  // a part may add nothing
      from = emit(part, from);
    }
    if (e.most == unbounded) {
      const node_id loop = add();
      nodes_[from].free.push_back(loop);
      const node_id last = emit(part, loop);
      nodes_[last].free.push_back(loop);
      return loop;
    }
    const node_id end = add();
    nodes_[from].free.push_back(end);
    for (std::uint32_t i = e.least; i < e.most; ++i) {
      const node_id start = add();
      nodes_[from].free.push_back(start);
      from = emit(part, start);
      nodes_[from].free.push_back(end);
    }
    return end;
  }

  // Where part i may begin, it or a later one that nothing required lies before; after each part, a separator
  // leads to where the next may begin.
  node_id emit_list(const expression& e, node_id from) {
    const node_id end = add();
    const std::size_t count = e.parts.size();
    std::vector<node_id> begins;
    for (std::size_t i = 0; i < count; ++i) begins.push_back(add());
    bool may_end = true;  // after the parts so far nothing is required
    for (std::size_t i = count; i-- > 0;) {
      const bool last = i + 1 == count;
      const node_id after = emit(*e.parts[i], begins[i]);
      if (may_end) nodes_[after].free.push_back(end);
      if (!last || e.open) {
        const node_id separated = emit(*e.between, after);
        nodes_[separated].free.push_back(last ? begins[i] : begins[i + 1]);
      }
      if (!e.required[i] && !last) nodes_[begins[i]].free.push_back(begins[i + 1]);
      may_end = may_end && !e.required[i];
    }
    if (count > 0) nodes_[from].free.push_back(begins.front());
    if (may_end) nodes_[from].free.push_back(end);
    return end;
  }

  const std::string& where_;
  subset_budget& budget_;
  std::vector<nfa_node> nodes_;
};

class construction {
 public:
  construction(const expr& body, const std::string& where, subset_budget& budget)
      : where_(where), budget_(budget), nfa_(where, budget) {
    start_ = nfa_.add();
    final_ = nfa_.emit(*body, start_);
  }

  std::vector<state> run() {
    (void)id_of({start_});
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      state out = expand(sets_[i]);
      states_[i] = std::move(out);
    }
    return std::move(states_);
  }

 private:
  // The sets are kept without what only leads on for nothing, so that equal ones look equal.
  node_set closure(node_set from) {
    node_set seen;
    while (!from.empty()) {
      const node_id id = from.back();
      from.pop_back();
      if (mark_.size() <= id) mark_.resize(id + 1, 0);
      if (mark_[id] == round_) continue;
      mark_[id] = round_;
      nfa_.take(1);
      const nfa_node& node = nfa_.at(id);
      if (!node.bytes.empty() || !node.calls.empty() || id == final_) seen.push_back(id);
      from.insert(from.end(), node.free.begin(), node.free.end());
    }
    ++round_;
    std::sort(seen.begin(), seen.end());
    return seen;
  }

  state_id id_of(node_set from) {
    node_set set = closure(std::move(from));
    const auto [it, is_new] = ids_.try_emplace(set, static_cast<state_id>(sets_.size()));
    if (is_new) {
      if (sets_.size() >= budget_.states) {
        throw grammar_failure{
            where_, "the schema is too large: more than " + std::to_string(budget_.states) + " states"};
      }
      sets_.push_back(std::move(set));
      states_.emplace_back();
    }
    return it->second;
  }

  // By copy: sets_ grows while the targets are found.
  state expand(const node_set set) {
    state out;
    std::vector<byte_edge> edges;
    std::map<std::tuple<rule_id, std::uint32_t, std::uint32_t>, node_set> calls;
    for (const node_id id : set) {
      const nfa_node& node = nfa_.at(id);
      edges.insert(edges.end(), node.bytes.begin(), node.bytes.end());
      for (const call_edge& edge : node.calls) calls[{edge.rule, edge.least, edge.most}].push_back(edge.to);
      out.accepting = out.accepting || id == final_;
    }
    add_bytes(edges, out);
    for (auto& [symbol, targets] : calls) {
      const auto [rule, least, most] = symbol;
      out.calls.push_back({rule, id_of(std::move(targets)), least, most});
    }
    return out;
  }

  void add_bytes(const std::vector<byte_edge>& edges, state& out) {
    if (edges.empty()) return;
    const byte_edge& front = edges.front();
    const bool same = std::all_of(edges.begin(), edges.end(), [&](const byte_edge& edge) {
      return edge.first == front.first && edge.last == front.last;
    });
    if (same) {
      node_set targets;
      for (const byte_edge& edge : edges) targets.push_back(edge.to);
      out.bytes.push_back({front.first, front.last, id_of(std::move(targets))});
      return;
    }
    std::vector<unsigned> cuts;
    for (const byte_edge& edge : edges) {
      cuts.push_back(edge.first);
      cuts.push_back(edge.last + 1U);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      node_set targets;
      nfa_.take(1 + edges.size() / 16);
      for (const byte_edge& edge : edges) {
        if (edge.first <= cuts[i] && cuts[i] <= edge.last) targets.push_back(edge.to);
      }
      if (targets.empty()) continue;
      const state_id to = id_of(std::move(targets));
      const auto first = static_cast<unsigned char>(cuts[i]);
      const auto last = static_cast<unsigned char>(cuts[i + 1] - 1);
      if (!out.bytes.empty() && out.bytes.back().to == to && out.bytes.back().last + 1U == first) {
        out.bytes.back().last = last;
      } else {
        out.bytes.push_back({first, last, to});
      }
    }
  }

  const std::string& where_;
  subset_budget& budget_;
  nfa nfa_;
  node_id start_ = 0;
  node_id final_ = 0;
  struct hash {
    std::size_t operator()(const node_set& set) const noexcept {
      std::size_t out = set.size();
      for (const node_id id : set) out = (out ^ id) * 0x9E37'79B9'7F4A'7C15U ^ out >> 31U;
      return out;
    }
  };
  std::unordered_map<node_set, state_id, hash> ids_;
  std::vector<node_set> sets_;
  std::vector<state> states_;
  std::vector<std::uint32_t> mark_;
  std::uint32_t round_ = 1;
};

}  // namespace

std::vector<state> make_deterministic(const expr& body, const std::string& where, subset_budget& budget) {
  return construction(body, where, budget).run();
}

}  // namespace orcd::engine::grammar
