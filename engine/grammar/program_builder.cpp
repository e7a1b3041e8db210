#include "engine/grammar/program_builder.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/subset.hpp"

namespace orcd::engine::grammar {

namespace {

/// Bytes that go on from a wide state: more than the digits of a number or of hexadecimal.
constexpr unsigned wide_bytes = 24;

/// Pairs of states of two automata: the first matches, the second does not.
class difference {
 public:
  difference(const std::vector<state>& a, const std::vector<state>& b) : a_(a), b_(b) {}

  std::vector<state> run(std::uint32_t states_max, const std::string& where) {
    (void)id_of(0, 0);
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      if (pairs_.size() > states_max)
        throw grammar_failure{where, "the schema is too large: too many states"};
      state out;
      const auto [left, right] = pairs_[i];
      out.accepting = a_[left].accepting && !(right != no_state && b_[right].accepting);
      for (unsigned byte = 0; byte < 256; ++byte) add(left, right, static_cast<unsigned char>(byte), out);
      states_.push_back(std::move(out));
    }
    return std::move(states_);
  }

 private:
  void add(state_id left, state_id right, unsigned char byte, state& out) {
    const state_id to_left = a_[left].next(byte);
    if (to_left == no_state) return;
    const state_id to = id_of(to_left, right == no_state ? no_state : b_[right].next(byte));
    if (!out.bytes.empty() && out.bytes.back().to == to && out.bytes.back().last + 1U == byte) {
      out.bytes.back().last = byte;
    } else {
      out.bytes.push_back({byte, byte, to});
    }
  }
  state_id id_of(state_id left, state_id right) {
    const auto [it, is_new] = ids_.try_emplace({left, right}, static_cast<state_id>(pairs_.size()));
    if (is_new) pairs_.emplace_back(left, right);
    return it->second;
  }

  const std::vector<state>& a_;
  const std::vector<state>& b_;
  std::map<std::pair<state_id, state_id>, state_id> ids_;
  std::vector<std::pair<state_id, state_id>> pairs_;
  std::vector<state> states_;
};

}  // namespace

program_builder::program_builder(const program_limits& limits) : limits_(limits) {
  const rule_id string = declare("#");
  ORCD_ENSURE(string == string_rule);
  append(string, string_states());
}

rule_id program_builder::declare(std::string where) {
  if (program_.rules.size() >= limits_.rules) {
    throw grammar_failure{std::move(where),
                          "the schema is too large: more than " + std::to_string(limits_.rules) + " rules"};
  }
  program_.rules.push_back({no_state, false, std::move(where)});
  return static_cast<rule_id>(program_.rules.size() - 1);
}

std::vector<state> program_builder::automaton(const expr& body, const std::string& where) {
  subset_budget budget{limits_.work - work_,
                       limits_.states - static_cast<std::uint32_t>(program_.states.size())};
  auto states = make_deterministic(body, where, budget);
  work_ = limits_.work - budget.work;
  return states;
}

void program_builder::define(rule_id rule, const expr& body) {
  append(rule, automaton(body, program_.rules[rule].where));
}

void program_builder::define_difference(rule_id rule, const expr& body, const expr& but) {
  const std::string& where = program_.rules[rule].where;
  const auto all = automaton(body, where);
  const auto without = automaton(but, where);
  append(rule, difference(all, without).run(limits_.states, where));
}

void program_builder::append(rule_id rule, std::vector<state> states) {
  ORCD_ENSURE(program_.rules[rule].start == no_state);
  const auto first = static_cast<state_id>(program_.states.size());
  if (states.size() > limits_.states - first) {
    throw grammar_failure{program_.rules[rule].where,
                          "the schema is too large: more than " + std::to_string(limits_.states) + " states"};
  }
  const bool calls =
      std::any_of(states.begin(), states.end(), [](const state& s) { return !s.calls.empty(); });
  for (state& s : states) {
    unsigned bytes = 0;
    for (byte_edge& edge : s.bytes) {
      edge.to += first;
      bytes += edge.last - edge.first + 1U;
    }
    for (call_edge& edge : s.calls) edge.to += first;
    s.wide = !calls && bytes >= wide_bytes;
    program_.states.push_back(std::move(s));
  }
  program_.rules[rule].start = first;
}

std::shared_ptr<const program> program_builder::finish(rule_id root) {
  for (const auto& r : program_.rules) ORCD_ENSURE(r.start != no_state);
  program_.root = root;
  find_nullable();
  refuse_left_recursion();
  find_needs();
  const auto& [start, nullable, where] = program_.rules[root];
  if (program_.states[start].need == unbounded)
    throw grammar_failure{where, "no finite value satisfies the schema"};
  return std::make_shared<const program>(std::move(program_));
}

// A rule is nullable when its end is reached over nullable calls alone.
void program_builder::find_nullable() {
  const auto reaches_end = [&](state_id from) {
    std::vector<state_id> open{from}, seen{from};
    while (!open.empty()) {
      const state& s = program_.states[open.back()];
      open.pop_back();
      if (s.accepting) return true;
      for (const call_edge& edge : s.calls) {
        if (!program_.rules[edge.rule].nullable || std::find(seen.begin(), seen.end(), edge.to) != seen.end())
          continue;
        seen.push_back(edge.to);
        open.push_back(edge.to);
      }
    }
    return false;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (rule& r : program_.rules) {
      if (r.nullable || !reaches_end(r.start)) continue;
      r.nullable = changed = true;
    }
  }
}

void program_builder::refuse_left_recursion() const {
  // The rules that a rule may enter before its first byte.
  const auto entered = [&](rule_id rule) {
    std::vector<rule_id> out;
    std::vector<state_id> open{program_.rules[rule].start}, seen = open;
    while (!open.empty()) {
      const state& s = program_.states[open.back()];
      open.pop_back();
      for (const call_edge& edge : s.calls) {
        out.push_back(edge.rule);
        if (!program_.rules[edge.rule].nullable || std::find(seen.begin(), seen.end(), edge.to) != seen.end())
          continue;
        seen.push_back(edge.to);
        open.push_back(edge.to);
      }
    }
    return out;
  };
  std::vector<std::vector<rule_id>> enters(program_.rules.size());
  std::vector<std::uint32_t> entered_by(program_.rules.size(), 0);
  for (rule_id id = 0; id < enters.size(); ++id) {
    enters[id] = entered(id);
    for (const rule_id to : enters[id]) ++entered_by[to];
  }
  std::vector<rule_id> open;
  std::size_t done = 0;
  for (rule_id id = 0; id < enters.size(); ++id) {
    if (entered_by[id] == 0) open.push_back(id);
  }
  while (!open.empty()) {
    const rule_id id = open.back();
    open.pop_back();
    ++done;
    for (const rule_id to : enters[id]) {
      if (--entered_by[to] == 0) open.push_back(to);
    }
  }
  if (done == enters.size()) return;
  const auto cyclic = std::find_if(entered_by.begin(), entered_by.end(), [](auto n) { return n > 0; });
  throw grammar_failure{program_.rules[static_cast<std::size_t>(cyclic - entered_by.begin())].where,
                        "the schema refers to itself without anything in between"};
}

// The least solution; values only fall, and a value beyond the number of rules is never needed.
void program_builder::find_needs() {
  auto& states = program_.states;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = states.size(); i-- > 0;) {
      state& s = states[i];
      std::uint32_t need = s.accepting ? 0 : unbounded;
      for (const byte_edge& edge : s.bytes) need = std::min(need, states[edge.to].need);
      for (const call_edge& edge : s.calls) {
        const std::uint32_t inside = states[program_.rules[edge.rule].start].need;
        if (inside == unbounded || edge.least > edge.most) continue;
        need = std::min(need, std::max(inside + 1, states[edge.to].need));
      }
      if (need >= s.need) continue;
      s.need = need;
      changed = true;
    }
  }
}

}  // namespace orcd::engine::grammar
