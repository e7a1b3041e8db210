#include "engine/schedule/boundary_store.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/schedule/page_keys.hpp"

namespace orcd::engine {

const boundary* boundary_store::deepest(const prefix_tree::match& known, const std::string& salt,
                                        std::span<const token_id> tokens,
                                        std::uint32_t page_positions) const {
  if (all_.empty()) return nullptr;
  for (std::size_t level = known.whole.size() + 1; level-- > 0;) {
    const auto* parent = level == 0 ? nullptr : known.whole[level - 1];
    const auto before = static_cast<std::uint32_t>(level * page_positions);
    const auto rest = tokens.subspan(keys_of(tokens, before).size());
    const boundary* best = nullptr;
    const auto [begin, end] = below_.equal_range(parent);
    for (auto next = begin; next != end; ++next) {
      const boundary& one = *next->second;
      if (one.offset > rest.size() || (best != nullptr && one.offset <= best->offset)) continue;
      const auto own = keys_of(prefix_tree::tokens_of(one.at), one.offset);
      if (own.size() > rest.size() || !std::equal(own.begin(), own.end(), rest.begin())) continue;
      if (parent == nullptr && prefix_tree::salt_of(one.at) != salt) continue;
      best = &one;
    }
    if (best != nullptr) return best;
  }
  return nullptr;
}

template <class Condition>
const boundary* boundary_store::any_beside(const prefix_tree::node* at, const Condition& wanted) const {
  const auto [begin, end] = below_.equal_range(prefix_tree::parent_of(at));
  const auto found = std::find_if(begin, end, [&](const auto& entry) { return wanted(*entry.second); });
  return found == end ? nullptr : &*found->second;
}

const boundary* boundary_store::find(const prefix_tree::node* at, std::uint32_t offset) const {
  return any_beside(at, [&](const boundary& one) { return one.at == at && one.offset == offset; });
}

const boundary* boundary_store::find_like(const prefix_tree::node* at, std::uint32_t offset) const {
  const auto wanted = keys_of(prefix_tree::tokens_of(at), offset);
  return any_beside(at, [&](const boundary& one) {
    if (one.offset != offset || prefix_tree::salt_of(one.at) != prefix_tree::salt_of(at)) return false;
    const auto own = keys_of(prefix_tree::tokens_of(one.at), offset);
    return std::equal(own.begin(), own.end(), wanted.begin(), wanted.end());
  });
}

const boundary* boundary_store::any_at(const prefix_tree::node* at) const {
  return any_beside(at, [&](const boundary& one) { return one.at == at; });
}

void boundary_store::add(boundary made) {
  const auto* parent = prefix_tree::parent_of(made.at);
  all_.push_back(std::move(made));
  try {
    below_.emplace(parent, std::prev(all_.end()));
  } catch (...) {
    all_.pop_back();
    throw;
  }
}

boundary_store::by_parent::iterator boundary_store::entry_of(const boundary* one) {
  const auto [begin, end] = below_.equal_range(prefix_tree::parent_of(one->at));
  const auto found = std::find_if(begin, end, [&](const auto& entry) { return &*entry.second == one; });
  ORCD_ENSURE(found != end);
  return found;
}

void boundary_store::touch(const boundary* used, bool begins) {
  const auto place = entry_of(used)->second;
  place->passed = false;
  place->uses += begins ? 1 : 0;
  all_.splice(all_.end(), all_, place);
}

void boundary_store::pass(const boundary* one, std::uint32_t uses_max) {
  if (one->uses <= uses_max) entry_of(one)->second->passed = true;
}

boundary boundary_store::take(const boundary* one) {
  const auto entry = entry_of(one);
  boundary out = std::move(*entry->second);
  all_.erase(entry->second);
  below_.erase(entry);
  return out;
}

}  // namespace orcd::engine
