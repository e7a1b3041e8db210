// Nodes of the prefix tree that somebody will ask for again, by name: at most N, the least recently set one
// goes when another comes. A pin is a wish: memory that a job needs is found even if all of it is pinned.
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

  /// Moves the pin of this name, or makes one.
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
  /// The node is gone.
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
