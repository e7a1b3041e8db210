#include "engine/text/byte_trie.hpp"

#include <algorithm>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

namespace {

auto find_edge(auto& edges, unsigned char byte) {
  return std::lower_bound(edges.begin(), edges.end(), byte,
                          [](const byte_trie::edge& e, unsigned char b) { return e.byte < b; });
}

}  // namespace

byte_trie::byte_trie() : edges_(1) {}

std::uint32_t byte_trie::add(std::string_view key) {
  ORCD_ENSURE(!key.empty());
  std::uint32_t node = root;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    std::uint32_t next = child(node, byte);
    if (next == none) {
      next = size();
      edges_.emplace_back();
      auto& edges = edges_[node];
      edges.insert(find_edge(edges, byte), edge{byte, next});
      if (node == root) first_[byte] = next;
    }
    node = next;
  }
  return node;
}

std::uint32_t byte_trie::child(std::uint32_t node, unsigned char byte) const noexcept {
  if (node == root) return first_[byte];
  const auto& edges = edges_[node];
  const auto at = find_edge(edges, byte);
  return at != edges.end() && at->byte == byte ? at->target : none;
}

}  // namespace orcd::engine
