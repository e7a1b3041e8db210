#include "engine/grammar/program_builder.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/needs.hpp"

namespace orcd::engine::grammar {

namespace {

/// A state from which at least this many bytes go on is wide: more than the digits of a decimal or
/// hexadecimal number.
constexpr unsigned wide_bytes = 24;

/// What one automaton matches and another does too, or does not, from pairs of their states.
class product {
 public:
  product(const std::vector<state>& a, const std::vector<state>& b, bool both) : a_(a), b_(b), both_(both) {}

  automaton run(std::uint32_t states_max, const std::string& where) {
    (void)id_of(0, 0);
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      if (pairs_.size() > states_max)
        throw grammar_failure{
            where, std::string("the ") + compile_budget::noun() + " is too large: too many states"};
      state made;
      const auto [left, right] = pairs_[i];
      made.accepting = a_[left].accepting && (right != no_state && b_[right].accepting) == both_;
      for (const byte_edge& edge : a_[left].bytes) add(edge, right, made);
      out_.edges.add(owned_bytes(made));
      made.bytes.shrink_to_fit();
      append_held(out_.states, std::move(made), out_.cost);
    }
    return std::move(out_);
  }

 private:
  /// Where a byte leads, and the last byte in a row that leads there too.
  struct stretch {
    state_id to;
    unsigned last;
  };
  [[nodiscard]] stretch from(state_id right, unsigned byte) const {
    if (right == no_state) return {no_state, 255};
    const auto& edges = b_[right].bytes;
    const auto at = std::partition_point(edges.begin(), edges.end(),
                                         [&](const byte_edge& edge) { return edge.last < byte; });
    if (at == edges.end()) return {no_state, 255};
    if (at->first > byte) return {no_state, at->first - 1U};
    return {at->to, at->last};
  }

  void add(const byte_edge& edge, state_id right, state& made) {
    for (unsigned byte = edge.first; byte <= edge.last;) {
      compile_budget::work(2);
      const stretch other = from(right, byte);
      const unsigned last = std::min<unsigned>(other.last, edge.last);
      if (both_ && other.to == no_state) {
        byte = last + 1;
        continue;
      }
      const state_id to = id_of(edge.to, other.to);
      if (!made.bytes.empty() && made.bytes.back().to == to && made.bytes.back().last + 1U == byte) {
        made.bytes.back().last = static_cast<unsigned char>(last);
      } else {
        made.bytes.push_back({static_cast<unsigned char>(byte), static_cast<unsigned char>(last), to});
      }
      byte = last + 1;
    }
  }
  state_id id_of(state_id left, state_id right) {
    const auto [it, is_new] = ids_.try_emplace({left, right}, static_cast<state_id>(pairs_.size()));
    if (is_new) pairs_.emplace_back(left, right);
    return it->second;
  }

  using pair = std::pair<state_id, state_id>;
  const std::vector<state>& a_;
  const std::vector<state>& b_;
  bool both_;
  std::map<pair, state_id, std::less<>, counted_allocator<std::pair<const pair, state_id>>> ids_;
  counted_vector<pair> pairs_;
  automaton out_;
};

/// Of decimals that an automaton takes, those whose remainder is kept: states of it, with the remainder of
/// the digits so far, without their sign, and the number of those behind the point.
class multiples {
 public:
  multiples(const std::vector<state>& of, std::uint32_t step, std::uint32_t places)
      : of_(of), step_(step), places_(places) {}

  automaton run(const std::function<bool(std::uint32_t)>& keeps, std::uint32_t states_max,
                const std::string& where) {
    (void)id_of({0, 0, 0});
    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (open_.size() > states_max) throw grammar_failure{where, "the schema is too large: too many states"};
      const place from = open_[i];
      state made;
      made.accepting = of_[from.at].accepting && keeps(whole_remainder(from));
      for (const byte_edge& edge : of_[from.at].bytes) add(from, edge, made);
      made.bytes.shrink_to_fit();
      out_.edges.add(owned_bytes(made));
      append_held(out_.states, std::move(made), out_.cost);
    }
    return std::move(out_);
  }

 private:
  struct place {
    state_id at;
    std::uint32_t remainder;
    std::uint32_t behind;  ///< the digits behind the point, and the point; 0 before it
    auto operator<=>(const place&) const = default;
  };

  [[nodiscard]] std::uint32_t with_digit(std::uint32_t remainder, unsigned digit) const {
    return static_cast<std::uint32_t>((std::uint64_t{remainder} * 10 + digit) % step_);
  }
  // The remainder of the digits with zeros up to the last place.
  [[nodiscard]] std::uint32_t whole_remainder(const place& of) const {
    std::uint32_t out = of.remainder;
    for (std::uint32_t i = of.behind == 0 ? 0 : of.behind - 1; i < places_; ++i) out = with_digit(out, 0);
    return out;
  }

  void add(const place& from, const byte_edge& edge, state& made) {
    for (unsigned byte = edge.first; byte <= edge.last; ++byte) {
      compile_budget::work(4);
      place to{edge.to, from.remainder, from.behind};
      if (byte == '.') {
        to.behind = 1;
      } else if (byte != '-') {
        if (from.behind > places_) continue;
        to.remainder = with_digit(from.remainder, byte - '0');
        to.behind += from.behind == 0 ? 0 : 1;
      }
      made.bytes.push_back({static_cast<unsigned char>(byte), static_cast<unsigned char>(byte), id_of(to)});
    }
  }
  state_id id_of(const place& of) {
    const auto [it, is_new] = ids_.try_emplace(of, static_cast<state_id>(open_.size()));
    if (is_new) open_.push_back(of);
    return it->second;
  }

  const std::vector<state>& of_;
  std::uint32_t step_, places_;
  std::map<place, state_id, std::less<>, counted_allocator<std::pair<const place, state_id>>> ids_;
  counted_vector<place> open_;
  automaton out_;
};

/// The states that are reached over calls of rules that may be empty, each once.
class empty_calls {
 public:
  explicit empty_calls(const program& of) : program_(of), mark_(of.states.size(), 0) {}

  /// Calls `each` for the states until it returns true; returns whether it did.
  template <class Each>
  bool from(state_id start, const Each& each) {
    ++round_;
    open_.assign(1, start);
    mark_[start] = round_;
    while (!open_.empty()) {
      const state& s = program_.states[open_.back()];
      open_.pop_back();
      compile_budget::work(1 + s.calls.size());
      if (each(s)) return true;
      for (const call_edge& edge : s.calls) {
        if (!program_.rules[edge.rule].nullable || mark_[edge.to] == round_) continue;
        mark_[edge.to] = round_;
        open_.push_back(edge.to);
      }
    }
    return false;
  }

 private:
  const program& program_;
  counted_vector<std::uint32_t> mark_;
  counted_vector<state_id> open_;
  std::uint32_t round_ = 0;
};

}  // namespace

program_builder::program_builder(const program_limits& limits) : budget_(limits.whole), limits_(limits) {
  const rule_id string = declare("#");
  ORCD_ENSURE(string == string_rule);
  automaton made;
  made.states = string_states();
  append(string, std::move(made));
}

rule_id program_builder::declare(std::string where) {
  if (program_.rules.size() >= limits_.rules) {
    throw grammar_failure{std::move(where), std::string("the ") + compile_budget::noun() +
                                                " is too large: more than " + std::to_string(limits_.rules) +
                                                " rules"};
  }
  rules_cost_.add(where.capacity());
  append_held(program_.rules, rule{no_state, false, std::move(where)}, rules_cost_);
  return static_cast<rule_id>(program_.rules.size() - 1);
}

void program_builder::define(rule_id rule, const expr& body) {
  const std::string& where = program_.rules[rule].where;
  const compile_budget::place here(where);
  append(rule, make_deterministic(body, where, states_left()));
}

void program_builder::define_common(rule_id rule, const std::vector<expr>& all,
                                    const std::vector<expr>& but) {
  const std::string& where = program_.rules[rule].where;
  const compile_budget::place here(where);
  automaton made = make_deterministic(all.front(), where, states_left());
  for (std::size_t i = 1; i < all.size(); ++i) {
    const automaton other = make_deterministic(all[i], where, states_left());
    made = product(made.states, other.states, true).run(limits_.states, where);
  }
  if (!but.empty()) {
    const automaton without = make_deterministic(choice(but), where, states_left());
    made = product(made.states, without.states, false).run(limits_.states, where);
  }
  append(rule, std::move(made));
}

void program_builder::define_multiples(rule_id rule, const expr& body, std::uint32_t step,
                                       std::uint32_t places,
                                       const std::function<bool(std::uint32_t)>& keeps) {
  const std::string& where = program_.rules[rule].where;
  const compile_budget::place here(where);
  const automaton all = make_deterministic(body, where, states_left());
  append(rule, multiples(all.states, step, places).run(keeps, states_left(), where));
}

bool program_builder::matches(rule_id rule, std::string_view text) const {
  compile_budget::work(1 + text.size());
  state_id at = program_.rules[rule].start;
  for (const char c : text) {
    ORCD_ENSURE(program_.states[at].calls.empty());
    at = program_.states[at].next(static_cast<unsigned char>(c));
    if (at == no_state) return false;
  }
  return program_.states[at].accepting;
}

void program_builder::note_ignored(std::string what) {
  constexpr std::size_t kept_max = 8, bytes_max = 40;
  what.resize(std::min(what.size(), bytes_max));
  for (char& c : what) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && std::string_view("-_.=").find(c) == std::string_view::npos) c = '?';
  }
  auto& kept = program_.ignored;
  if (kept.size() < kept_max && std::find(kept.begin(), kept.end(), what) == kept.end())
    kept.push_back(std::move(what));
}

void program_builder::append(rule_id rule, automaton made) {
  ORCD_ENSURE(program_.rules[rule].start == no_state);
  const auto first = static_cast<state_id>(program_.states.size());
  auto& states = made.states;
  if (states.size() > limits_.states - first) {
    throw grammar_failure{program_.rules[rule].where, std::string("the ") + compile_budget::noun() +
                                                          " is too large: more than " +
                                                          std::to_string(limits_.states) + " states"};
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
    append_held(program_.states, std::move(s), states_cost_);
  }
  edges_cost_.take_over(made.edges);
  program_.rules[rule].start = first;
}

std::shared_ptr<const program> program_builder::finish(rule_id root) {
  for (const auto& r : program_.rules) ORCD_ENSURE(r.start != no_state);
  program_.root = root;
  const std::string& where = program_.rules[root].where;
  const compile_budget::place here(where);
  find_nullable();
  refuse_left_recursion();
  find_needs(program_);
  if (program_.states[program_.rules[root].start].need == unbounded)
    throw grammar_failure{where, std::string("no finite value satisfies the ") + compile_budget::noun()};
  program_.bytes = rules_cost_.bytes() + states_cost_.bytes() + edges_cost_.bytes();
  return std::make_shared<const program>(std::move(program_));
}

// Finds the rules that may be empty: those whose end is reached over calls of such rules alone.
void program_builder::find_nullable() {
  empty_calls reached(program_);
  for (bool changed = true; changed;) {
    changed = false;
    for (rule& r : program_.rules) {
      if (r.nullable || !reached.from(r.start, [](const state& s) { return s.accepting; })) continue;
      r.nullable = changed = true;
    }
  }
}

void program_builder::refuse_left_recursion() const {
  // The rules that a rule may enter before its first byte; the lists of all rules are in one array.
  counted_vector<rule_id> entered;
  counted_vector<std::size_t> ends;
  counted_vector<std::uint32_t> entered_by(program_.rules.size(), 0);
  empty_calls reached(program_);
  for (const rule& r : program_.rules) {
    (void)reached.from(r.start, [&](const state& s) {
      for (const call_edge& edge : s.calls) {
        entered.push_back(edge.rule);
        ++entered_by[edge.rule];
      }
      return false;
    });
    ends.push_back(entered.size());
  }
  counted_vector<rule_id> open;
  std::size_t done = 0;
  for (rule_id id = 0; id < ends.size(); ++id) {
    if (entered_by[id] == 0) open.push_back(id);
  }
  while (!open.empty()) {
    const rule_id id = open.back();
    open.pop_back();
    ++done;
    for (std::size_t i = id == 0 ? 0 : ends[id - 1]; i < ends[id]; ++i) {
      if (--entered_by[entered[i]] == 0) open.push_back(entered[i]);
    }
  }
  if (done == ends.size()) return;
  const auto cyclic = std::find_if(entered_by.begin(), entered_by.end(), [](auto n) { return n > 0; });
  throw grammar_failure{
      program_.rules[static_cast<std::size_t>(cyclic - entered_by.begin())].where,
      std::string("the ") + compile_budget::noun() + " refers to itself without anything in between"};
}

}  // namespace orcd::engine::grammar
