// An expression as a non-deterministic automaton. Nodes have free, byte and call edges, all edges of a kind
// in one array, so that a node costs a few bytes. Charged to the thread's compile_budget.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "engine/grammar/compile_budget.hpp"
#include "engine/grammar/expression.hpp"
#include "engine/grammar/program.hpp"

namespace orcd::engine::grammar {

using node_id = std::uint32_t;

class nfa {
 public:
  /// An automaton of one node, the start.
  nfa() { (void)add(); }

  /// Adds what `e` matches after `from`; returns the node reached. The expression's depth was bounded where
  /// it was made (schema depth, nesting of a regular expression).
  node_id emit(const expression& e, node_id from);

  [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }
  /// Whether an edge that is not free leaves the node.
  [[nodiscard]] bool has_symbols(node_id id) const noexcept {
    return nodes_[id].byte != none || nodes_[id].call != none;
  }
  template <class Each>
  void each_free(node_id id, const Each& each) const {
    for (std::uint32_t at = nodes_[id].free; at != none; at = free_[at].next) each(free_[at].to);
  }
  template <class Each>
  void each_byte(node_id id, const Each& each) const {
    for (std::uint32_t at = nodes_[id].byte; at != none; at = bytes_[at].next) each(bytes_[at].edge);
  }
  template <class Each>
  void each_call(node_id id, const Each& each) const {
    for (std::uint32_t at = nodes_[id].call; at != none; at = calls_[at].next) each(calls_[at].edge);
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  /// Indices of the node's first edge of each kind.
  struct node {
    std::uint32_t free = none, byte = none, call = none;
  };
  struct free_edge {
    node_id to;
    std::uint32_t next;
  };
  template <class Edge>
  struct listed {
    Edge edge;
    std::uint32_t next;
  };

  node_id add();
  void add_free(node_id from, node_id to);
  void add_byte(node_id from, unsigned char first, unsigned char last, node_id to);
  [[nodiscard]] node_id emit_literal(const std::string& text, node_id from);
  [[nodiscard]] node_id emit_bytes(const byte_set& set, node_id from);
  [[nodiscard]] node_id emit_choice(const expression& e, node_id from);
  [[nodiscard]] node_id emit_repeat(const expression& e, node_id from);
  [[nodiscard]] node_id emit_list(const expression& e, node_id from);
  [[nodiscard]] node_id emit_counted_list(const expression& e, node_id from);
  void emit_further(const expression& e, node_id from, std::uint32_t most, node_id end);
  [[nodiscard]] node_id emit_call(const expression& e, node_id from);

  /// A place in a text with boundaries, by whether a letter of a word is before it (2) and after it (1). What
  /// comes after is a promise, which the next character keeps.
  using places = std::array<node_id, 4>;
  [[nodiscard]] places add_places();
  void add_free(const places& from, const places& to);
  [[nodiscard]] node_id emit_bounded(const expression& e, node_id from);
  [[nodiscard]] places emit_between(const expression& e, places from);
  [[nodiscard]] places emit_boundary(bool there, const places& from);
  [[nodiscard]] places emit_character(const expression& e, const places& from);
  [[nodiscard]] places emit_repeated(const expression& e, places from);

  counted_vector<node> nodes_;
  counted_vector<free_edge> free_;
  counted_vector<listed<byte_edge>> bytes_;
  counted_vector<listed<call_edge>> calls_;
};

}  // namespace orcd::engine::grammar
