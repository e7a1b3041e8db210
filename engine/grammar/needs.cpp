#include "engine/grammar/needs.hpp"

#include <algorithm>
#include <utility>

#include "engine/grammar/compile_budget.hpp"

namespace orcd::engine::grammar {

namespace {

/// A list of numbers for each state, all in one array.
class lists {
 public:
  explicit lists(std::size_t states) : begins_(states + 1, 0) {}
  /// Called for all numbers first; then add() for the same ones.
  void announce(state_id of) { ++begins_[of + 1]; }
  void place() {
    for (std::size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
    filled_.assign(begins_.begin(), begins_.end() - 1);
    items_.resize(begins_.back());
  }
  void add(state_id of, std::uint32_t item) { items_[filled_[of]++] = item; }
  template <class Each>
  void each(state_id of, const Each& each) const {
    compile_budget::work(1 + (begins_[of + 1] - begins_[of]) / 2);
    for (std::uint32_t i = begins_[of]; i < begins_[of + 1]; ++i) each(items_[i]);
  }

 private:
  counted_vector<std::uint32_t> begins_, filled_, items_;
};

// Goes backwards from the ends, level by level: a state needs what one of its followers needs, or one level
// more than the rule that it calls.
class backwards {
 public:
  explicit backwards(program& of) : program_(of), before_(of.states.size()), uses_(of.states.size()) {
    each_byte_edge([&](state_id, state_id to) { before_.announce(to); });
    each_call([&](const call& c) {
      uses_.announce(c.start);
      uses_.announce(c.to);
      calls_.push_back(c);
    });
    before_.place();
    uses_.place();
    each_byte_edge([&](state_id from, state_id to) { before_.add(to, from); });
    for (std::uint32_t i = 0; i < calls_.size(); ++i) {
      uses_.add(calls_[i].start, i);
      uses_.add(calls_[i].to, i);
    }
  }

  void run() {
    for (state_id id = 0; id < program_.states.size(); ++id) {
      program_.states[id].need = unbounded;
      if (program_.states[id].accepting) now_.push_back(id);
    }
    for (std::uint32_t level = 0; !now_.empty(); ++level) {
      while (!now_.empty()) {
        const state_id id = now_.back();
        now_.pop_back();
        settle(id, level);
      }
      std::swap(now_, later_);
    }
  }

 private:
  struct call {
    state_id from, start, to;
  };

  template <class Each>
  void each_byte_edge(const Each& each) const {
    for (state_id id = 0; id < program_.states.size(); ++id) {
      compile_budget::work(1 + program_.states[id].bytes.size() / 2);
      for (const byte_edge& edge : program_.states[id].bytes) each(id, edge.to);
    }
  }
  template <class Each>
  void each_call(const Each& each) const {
    for (state_id id = 0; id < program_.states.size(); ++id) {
      for (const call_edge& edge : program_.states[id].calls) {
        if (edge.least <= edge.most) each(call{id, program_.rules[edge.rule].start, edge.to});
      }
    }
  }

  void settle(state_id id, std::uint32_t level) {
    if (need(id) != unbounded) return;
    program_.states[id].need = level;
    before_.each(id, [&](std::uint32_t from) { now_.push_back(from); });
    uses_.each(id, [&](std::uint32_t which) {
      const call& c = calls_[which];
      if (need(c.from) != unbounded || need(c.start) == unbounded || need(c.to) == unbounded) return;
      (need(c.start) < level ? now_ : later_).push_back(c.from);
    });
  }
  [[nodiscard]] std::uint32_t need(state_id id) const { return program_.states[id].need; }

  program& program_;
  lists before_, uses_;
  counted_vector<call> calls_;
  counted_vector<state_id> now_, later_;
};

}  // namespace

void find_needs(program& of) {
  backwards(of).run();
}

}  // namespace orcd::engine::grammar
