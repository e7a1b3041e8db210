#include "engine/schedule/prefix_tree.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/schedule/page_keys.hpp"

namespace orcd::engine {

struct prefix_tree::node {
  node* parent = nullptr;
  const std::string* salt = nullptr;  ///< the key of its tree
  children::iterator self{};          ///< in the parent's children; its key is the tokens
  children after{};
  kv_page page = 0;
  std::uint32_t users = 0;
  std::uint32_t pins = 0;
  bool marked = false;
  std::uint64_t last_used = 0;  ///< unique
};

namespace {

std::uint32_t common(std::span<const token_id> a, std::span<const token_id> b) {
  const std::size_t most = std::min(a.size(), b.size());
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(most);
  return static_cast<std::uint32_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

}  // namespace

bool prefix_tree::tokens_less::operator()(std::span<const token_id> a,
                                          std::span<const token_id> b) const noexcept {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

bool prefix_tree::eviction_order::operator()(const node* a, const node* b) const noexcept {
  const bool a_pinned = a->pins > 0;
  const bool b_pinned = b->pins > 0;
  return a_pinned != b_pinned ? b_pinned : a->last_used < b->last_used;
}

prefix_tree::prefix_tree(std::uint32_t page_positions, std::function<void(const node*)> on_dropped)
    : page_positions_(page_positions), on_dropped_(std::move(on_dropped)) {
  ORCD_ENSURE(page_positions > 0);
}

prefix_tree::~prefix_tree() = default;

kv_page prefix_tree::page_of(const node* at) noexcept {
  return at->page;
}

std::span<const token_id> prefix_tree::tokens_of(const node* at) noexcept {
  return at->self->first;
}

const std::string& prefix_tree::salt_of(const node* at) noexcept {
  return *at->salt;
}

const prefix_tree::node* prefix_tree::parent_of(const node* at) noexcept {
  return at->parent;
}

bool prefix_tree::is_pinned(const node* at) noexcept {
  return at->pins > 0;
}

std::uint32_t prefix_tree::users_of(const node* at) noexcept {
  return at->users;
}

prefix_tree::match prefix_tree::find(const std::string& salt, std::span<const token_id> tokens) const {
  match out;
  const auto root = roots_.find(salt);
  const children* among = root == roots_.end() ? nullptr : &root->second;
  while (among != nullptr && !tokens.empty()) {
    const auto [best, length] = best_child(*among, tokens);
    const std::uint32_t positions = positions_in(tokens.first(length));
    if (positions < page_positions_) {
      if (positions > 0) out.part = best, out.positions = positions;
      break;
    }
    out.whole.push_back(best);
    tokens = tokens.subspan(length);
    among = &best->after;
  }
  return out;
}

// The children are sorted: the one with the longest common prefix is a neighbour of the position at which
// `tokens` would be inserted.
std::pair<prefix_tree::node*, std::uint32_t> prefix_tree::best_child(const children& among,
                                                                     std::span<const token_id> tokens) {
  std::pair<node*, std::uint32_t> best{nullptr, 0};
  const auto look = [&](children::const_iterator at) {
    const std::uint32_t length = common(at->first, tokens);
    if (best.first == nullptr || length > best.second) best = {at->second.get(), length};
  };
  const auto next = among.lower_bound(tokens);
  // A page that begins with all of `tokens` is sorted behind them; a page whose tokens are a prefix of them,
  // before.
  if (next != among.end()) look(next);
  if (next != among.begin()) look(std::prev(next));
  return best;
}

prefix_tree::node* prefix_tree::next(const std::string& salt, const node* parent,
                                     std::span<const token_id> tokens) const {
  ORCD_ENSURE(positions_in(tokens) == page_positions_);
  const auto root = roots_.find(salt);
  if (parent == nullptr && root == roots_.end()) return nullptr;
  const children& among = parent == nullptr ? root->second : parent->after;
  const auto found = among.find(tokens);
  return found == among.end() ? nullptr : found->second.get();
}

prefix_tree::children& prefix_tree::children_of(node* parent, const std::string& salt) {
  return parent == nullptr ? roots_[salt] : parent->after;
}

prefix_tree::insertion prefix_tree::insert(const std::string& salt, node* parent,
                                           std::span<const token_id> tokens, kv_page page) {
  ORCD_ENSURE(!tokens.empty() && positions_in(tokens) <= page_positions_);
  ORCD_ENSURE(parent == nullptr || positions_in(parent->self->first) == page_positions_);
  children& among = children_of(parent, salt);
  const auto [best, length] = best_child(among, tokens);
  if (best != nullptr && length == tokens.size()) return {best, page};
  if (best != nullptr && length == best->self->first.size()) {
    return {best, extend(among, best, tokens, page)};
  }
  auto made = std::make_unique<node>();
  node* at = made.get();
  at->parent = parent;
  at->salt = parent == nullptr ? &roots_.find(salt)->first : parent->salt;
  at->page = page;
  at->last_used = ++clock_;
  if (parent != nullptr) unlist(parent);
  at->self = among.emplace(std::vector<token_id>(tokens.begin(), tokens.end()), std::move(made)).first;
  ++pages_;
  ++idle_;
  list(at);
  return {at, std::nullopt};
}

/// Gives a node a page that holds its tokens and more; returns the page that it had. Such a node has no
/// children, because its page was not full.
kv_page prefix_tree::extend(children& among, node* shorter, std::span<const token_id> tokens, kv_page page) {
  ORCD_ENSURE(shorter->after.empty() && shorter->users == 0);
  auto handle = among.extract(shorter->self);
  handle.key().assign(tokens.begin(), tokens.end());
  shorter->self = among.insert(std::move(handle)).position;
  return std::exchange(shorter->page, page);
}

void prefix_tree::list(node* at) {
  if (at->users == 0 && at->after.empty()) evictable_.insert(at);
}

void prefix_tree::unlist(node* at) {
  evictable_.erase(at);
}

void prefix_tree::use(node* at) {
  unlist(at);
  if (at->users++ == 0) --idle_;
}

void prefix_tree::release(node* at) {
  ORCD_ENSURE(at->users > 0);
  if (--at->users > 0) return;
  ++idle_;
  at->last_used = ++clock_;
  list(at);
}

void prefix_tree::pin(node* at) {
  unlist(at);
  ++at->pins;
  list(at);
}

void prefix_tree::unpin(node* at) {
  ORCD_ENSURE(at->pins > 0);
  unlist(at);
  --at->pins;
  list(at);
}

void prefix_tree::mark(node* at) noexcept {
  at->marked = true;
}

std::optional<kv_page> prefix_tree::evict() {
  if (evictable_.empty()) return std::nullopt;
  node* at = *evictable_.begin();
  const kv_page page = at->page;
  drop(at);
  return page;
}

void prefix_tree::drop(node* at) {
  if (at->pins > 0 || at->marked) on_dropped_(at);
  unlist(at);
  --pages_;
  --idle_;
  node* parent = at->parent;
  if (parent != nullptr) {
    parent->after.erase(at->self);
    list(parent);
    return;
  }
  const auto root = roots_.find(*at->salt);
  root->second.erase(at->self);
  if (root->second.empty()) roots_.erase(root);
}

std::vector<kv_page> prefix_tree::all_pages() const {
  std::vector<kv_page> out;
  std::vector<const children*> todo;
  for (const auto& [salt, tree] : roots_) todo.push_back(&tree);
  while (!todo.empty()) {
    const children* among = todo.back();
    todo.pop_back();
    for (const auto& [tokens, child] : *among) {
      out.push_back(child->page);
      todo.push_back(&child->after);
    }
  }
  return out;
}

}  // namespace orcd::engine
