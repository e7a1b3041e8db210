// Nodes of the prefix tree that are evicted after all others, by name: the last states of sessions, or the
// ends of system prompts. At most `most` of them; a new one replaces the least recently set one. Pinned pages
// are evicted all the same when a job needs their memory. GPU thread only.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <utility>

#include "engine/schedule/prefix_tree.hpp"

namespace orcd::engine {

class pin_table {
 public:
  pin_table(prefix_tree& tree, std::uint32_t most) : tree_(tree), most_(most) {}

  /// Pins this node under the name, in place of the node that was pinned under it before.
  void set(const std::string& name, prefix_tree::node* at) {
    if (most_ == 0) return;
    remove_if([&](const entry& e) { return e.first == name; });
    if (pins_.size() == most_) {
      tree_.unpin(pins_.back().second);
      pins_.pop_back();
    }
    tree_.pin(at);
    pins_.emplace_front(name, at);
  }
  /// The node is being evicted: its pin goes with it.
  void forget(const prefix_tree::node* at) {
    pins_.remove_if([&](const entry& e) { return e.second == at; });
  }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(pins_.size()); }

 private:
  using entry = std::pair<std::string, prefix_tree::node*>;

  template <class Condition>
  void remove_if(const Condition& condition) {
    pins_.remove_if([&](const entry& e) {
      if (!condition(e)) return false;
      tree_.unpin(e.second);
      return true;
    });
  }

  prefix_tree& tree_;
  std::uint32_t most_;
  std::list<entry> pins_;  ///< the last set first
};

}  // namespace orcd::engine
