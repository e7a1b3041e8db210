#include "engine/schedule/kv_cache.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/schedule/page_keys.hpp"

namespace orcd::engine {

namespace {

/// A pin's name. The length of the salt is part of it, so that different pairs of salt and rest never give
/// the same name.
std::string pin_name(const std::string& salt, std::string_view rest) {
  std::string name = std::to_string(salt.size()) + ":" + salt;
  name.append(rest);
  return name;
}

}  // namespace

kv_cache::kv_cache(kv_geometry geometry, kv_cache_config config, page_clearing clear)
    : geometry_(geometry),
      config_(config),
      clear_(std::move(clear)),
      pool_(geometry.pages),
      windows_(geometry, clear_),
      tree_(geometry.page_positions,
            [this](const prefix_tree::node* at) {
              if (windows_.any()) windows_.forget(at);
              sessions_.forget(at);
              system_prompts_.forget(at);
            }),
      sessions_(tree_, config.sessions),
      system_prompts_(tree_, config.system_prompts) {}

kv_cache::kv_cache(kv_geometry geometry, kv_cache_config config, page_clearing clear, page_ledger ledger)
    : kv_cache(geometry, config, std::move(clear)) {
  ledger_ = ledger;
  clears_.resize(geometry.pages);
  adopt();
}

/// Two pages with the same tokens cannot both be in the tree: the second is kept out of use like one that
/// nothing is known of.
void kv_cache::adopt() {
  std::vector<prefix_tree::node*> node_of(geometry_.pages, nullptr);
  std::vector<kv_page> pages;
  std::vector<std::pair<noted_page, prefix_tree::node*>> known;
  const bool adopts = config_.share && !windows_.any();
  for (noted_page& one : adopts ? ledger_->noted() : std::vector<noted_page>{}) {
    auto* parent = one.parent ? node_of[static_cast<std::size_t>(*one.parent)] : nullptr;
    if (one.parent && parent == nullptr) continue;
    if (tree_.next(one.salt, parent, one.tokens) != nullptr) continue;
    auto* const at = tree_.insert(one.salt, parent, one.tokens, one.page).at;
    node_of[static_cast<std::size_t>(one.page)] = at;
    pages.push_back(one.page);
    known.emplace_back(std::move(one), at);
  }
  for (std::uint32_t i = 0; i < geometry_.pages; ++i) {
    const auto page = static_cast<kv_page>(i);
    const bool is_clean = ledger_->use_of(page) == page_ledger::use::clean;
    if (node_of[i] == nullptr && !is_clean) closed_.push_back(page);
  }
  pool_.take(pages);
  pool_.take(closed_);
  counts_.adopted = static_cast<std::uint32_t>(pages.size());
  adopt_use(std::move(known));
  // Windowed pages are cleared no later than the pages of group 0 that were computed with them: they are
  // clean where those are.
  if (!closed_.empty()) windows_.close();
  if (closed_.empty()) release_awaited();
}

/// Evictions go on in the order of the process that died.
void kv_cache::adopt_use(std::vector<std::pair<noted_page, prefix_tree::node*>> known) {
  ledger_->forget_users();
  // A job that uses a page uses those before it; a ledger that says otherwise is spoilt.
  std::vector<bool> leads_to_used(geometry_.pages, false);
  for (auto at = known.rbegin(); at != known.rend(); ++at) {
    noted_page& one = at->first;
    one.in_use = one.in_use || leads_to_used[static_cast<std::size_t>(one.page)];
    if (one.in_use && one.parent) leads_to_used[static_cast<std::size_t>(*one.parent)] = true;
  }
  const auto use_of = [](const noted_page& one) { return std::pair(one.in_use, one.last_used); };
  // The order of pages that were used last at one moment stays: children come after their parents, and are
  // evicted before them all the same.
  std::stable_sort(known.begin(), known.end(),
                   [&](const auto& a, const auto& b) { return use_of(a.first) < use_of(b.first); });
  for (const auto& [noted, at] : known) {
    clock_ = std::max(clock_, noted.last_used);
    use(at);
    if (noted.in_use) {
      awaited_.push_back(at);
    } else {
      release(at);
    }
  }
}

void kv_cache::release_awaited() {
  for (auto* at : std::exchange(awaited_, {})) release(at);
}

void kv_cache::use(prefix_tree::node* at) {
  tree_.use(at);
  if (ledger_) ledger_->begin_use(prefix_tree::page_of(at));
}

void kv_cache::release(prefix_tree::node* at) {
  tree_.release(at);
  if (ledger_) ledger_->end_use(prefix_tree::page_of(at), ++clock_);
}

void kv_cache::open_pages() {
  if (closed_.empty()) return;
  release_awaited();
  windows_.open();
  free_pages(closed_, {});
  closed_.clear();
}

/// Whether there are fewer that no job uses, except for the reserved ones.
bool kv_cache::is_short(std::uint32_t pages) const noexcept {
  return std::uint64_t{pages} + reserved() > std::uint64_t{pool_.free()} + tree_.idle();
}

void kv_cache::clear(std::span<const kv_page> pages) {
  if (pages.empty()) return;
  if (ledger_) {
    ledger_->take(pages);
    for (const kv_page page : pages) {
      clearing_.push_back({page, launched_});
      ++clears_[static_cast<std::size_t>(page)];
    }
  }
  clear_(0, pages);
}

void kv_cache::collected() noexcept {
  ++collected_;
  while (!clearing_.empty() && clearing_.front().launched < collected_) {
    const kv_page page = clearing_.front().page;
    clearing_.pop_front();
    --clears_[static_cast<std::size_t>(page)];
    note_clean(page);
  }
}

/// A page that is free, and that no clearing is under way for.
void kv_cache::note_clean(kv_page page) noexcept {
  if (pool_.is_free(page) && clears_[static_cast<std::size_t>(page)] == 0) ledger_->clean({&page, 1});
}

void kv_cache::forgot_launched() noexcept {
  collected_ = launched_;
  for (clearing& one : clearing_) one.launched = launched_;
}

bool kv_cache::keeps(const cache_request& wish, std::uint32_t computed) const noexcept {
  return config_.share && wish.enabled && computed > 0 && computed >= config_.tokens_min;
}

prefix_tree::match kv_cache::look_up(const cache_request& wish, std::span<const token_id> prompt) const {
  if (!config_.share || !wish.enabled) return {};
  auto found = tree_.find(wish.salt, page_keys(wish, prompt).of(0, prompt.size() - 1));
  const std::size_t tokens = found.whole.size() * geometry_.page_positions + found.positions;
  if (tokens < config_.tokens_min) return {};
  return found;
}

// A job that finds too few pages because it would copy one that is idle computes all of its prompt: it must
// not wait for what it keeps from itself.
std::optional<kv_lease> kv_cache::reserve(const cache_request& wish, std::span<const token_id> prompt,
                                          std::uint32_t positions, std::uint32_t leave, bool again) {
  ORCD_ENSURE(!prompt.empty() && positions >= prompt.size() && can_hold(positions));
  if (windows_.any() && has_closed_pages()) return std::nullopt;
  auto found = look_up(wish, prompt);
  const auto known =
      static_cast<std::uint32_t>(found.whole.size()) * geometry_.page_positions + found.positions;
  const boundary* from = nullptr;
  if (windows_.any() && known > 0) {
    page_keys keys(wish, prompt);
    from = windows_.cut(found, wish.salt, keys.of(0, prompt.size() - 1), config_.tokens_min);
  }
  auto lease = lend(std::move(found), positions, leave, from != nullptr);
  if (!lease && from != nullptr) {
    from = nullptr;
    lease = lend({}, positions, leave, false);
  }
  if (!lease) return std::nullopt;
  if (windows_.any()) {
    lease->windows = windows_.begin(from);
    set_marks(*lease, wish, static_cast<std::uint32_t>(prompt.size()), known);
  }
  lease->counts = !again;
  if (config_.share && wish.enabled && lease->counts) {
    ++counts_.queries;
    counts_.query_tokens += prompt.size();
    counts_.hits += lease->held > 0 ? 1U : 0U;
    counts_.hit_tokens += lease->held;
  }
  return lease;
}

/// Where the job leaves boundaries: behind its system prompt, before the last token of its prompt, and where
/// it goes on otherwise than what is `known` of others, if that spares those who do the same enough.
void kv_cache::set_marks(kv_lease& lease, const cache_request& wish, std::uint32_t prompt_tokens,
                         std::uint32_t known) const noexcept {
  const auto at_least = [this](std::uint32_t position) {
    if (windows_.has_states()) position -= position % state_positions;
    return position < config_.tokens_min ? 0U : position;
  };
  const bool spares = known - lease.held > geometry_.page_positions / 4;
  lease.windows.marks = {at_least(wish.system_tokens), at_least(prompt_tokens - 1),
                         spares ? at_least(known) : 0};
}

// The shared pages are marked as used first: otherwise they would count as pages that can be evicted for this
// job. The page to copy from is marked for the same reason, but only where memory allows, unless it must be
// had `with_part`: the copy just saves work.
std::optional<kv_lease> kv_cache::lend(prefix_tree::match found, std::uint32_t positions, std::uint32_t leave,
                                       bool with_part) {
  const auto whole = static_cast<std::uint32_t>(found.whole.size());
  const std::uint32_t needed = pages_for(positions) - whole;
  for (auto* at : found.whole) use(at);
  bool is_lacking = is_short(needed + leave);
  if (!is_lacking && found.part != nullptr) {
    use(found.part);
    if (is_short(needed + leave)) {
      release(found.part);
      found.part = nullptr;
      found.positions = 0;
      is_lacking = with_part;
    }
  }
  if (is_lacking) {
    for (auto* at : found.whole) release(at);
    return std::nullopt;
  }
  make_room(needed);
  kv_lease lease;
  for (const auto* at : found.whole) lease.pages.push_back(prefix_tree::page_of(at));
  pool_.take(needed, lease.pages);
  if (ledger_) ledger_->take(std::span(lease.pages).subspan(whole));
  if (found.part != nullptr) {
    lease.copy = page_copy{prefix_tree::page_of(found.part), lease.pages[whole], found.positions};
    release(found.part);
  }
  lease.path = std::move(found.whole);
  lease.held = whole * geometry_.page_positions + found.positions;
  lease.written = lease.held;
  return lease;
}

std::uint32_t kv_cache::own_pages(const kv_lease& lease) noexcept {
  std::size_t shared = lease.path.size();
  while (shared > 0 && prefix_tree::users_of(lease.path[shared - 1]) == 1) --shared;
  return static_cast<std::uint32_t>(lease.pages.size() - shared);
}

bool kv_cache::extend(kv_lease& lease) {
  if (is_short(1)) return false;
  make_room(1);
  pool_.take(1, lease.pages);
  if (ledger_) ledger_->take({&lease.pages.back(), 1});
  return true;
}

void kv_cache::make_room(std::uint32_t pages) {
  if (pages <= pool_.free()) return;
  std::vector<kv_page> given_up;
  given_up.reserve(pages - pool_.free());
  while (pool_.free() + given_up.size() < pages) {
    const auto page = tree_.evict();
    ORCD_ENSURE(page.has_value());
    given_up.push_back(*page);
    ++counts_.evictions;
  }
  clear(given_up);
  pool_.give(given_up);
}

/// Returns both to the pool; only those that were written need to be zeroed.
void kv_cache::free_pages(std::span<const kv_page> written, std::span<const kv_page> untouched) {
  ++changes_;
  clear(written);
  pool_.give(written);
  pool_.give(untouched);
  if (!ledger_) return;
  for (const kv_page page : untouched) note_clean(page);
}

bool kv_cache::wants_page(const kv_lease& lease, const cache_request& wish, std::uint32_t prompt_tokens,
                          std::uint32_t computed) const noexcept {
  const std::size_t size = geometry_.page_positions;
  const std::size_t end = (lease.path.size() + 1) * size;
  return config_.share && wish.enabled && !windows_.any() && computed + size == end && end < prompt_tokens &&
         end >= config_.tokens_min;
}

std::uint32_t kv_cache::catch_up(kv_lease& lease, const cache_request& wish, std::span<const token_id> prompt,
                                 std::uint32_t computed, const std::function<void()>& before) {
  const auto prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  std::vector<kv_page> unused;
  page_keys keys(wish, prompt);
  while (wants_page(lease, wish, prompt_tokens, computed)) {
    auto* parent = lease.path.empty() ? nullptr : lease.path.back();
    auto* at = tree_.next(wish.salt, parent, keys.of(computed, geometry_.page_positions));
    if (at == nullptr) break;
    if (unused.empty()) before();
    use(at);
    unused.push_back(std::exchange(lease.pages[lease.path.size()], prefix_tree::page_of(at)));
    lease.path.push_back(at);
    computed += geometry_.page_positions;
  }
  if (unused.empty()) return computed;
  free_pages(unused, {});
  const auto gained = static_cast<std::uint32_t>(unused.size()) * geometry_.page_positions;
  if (lease.counts) {
    counts_.hits += lease.held == 0 ? 1 : 0;
    counts_.hit_tokens += gained;
  }
  lease.held += gained;
  return computed;
}

/// Notes a page that the tree has taken from a job. One of another job was noted by that.
void kv_cache::note(const kv_lease& lease, std::size_t index, const std::string& salt,
                    std::span<const token_id> tokens, const prefix_tree::node* parent) noexcept {
  const kv_page page = prefix_tree::page_of(lease.path[index]);
  if (!ledger_ || windows_.any() || page != lease.pages[index]) return;
  ledger_->note(page, parent == nullptr ? std::nullopt : std::optional(prefix_tree::page_of(parent)), salt,
                tokens);
}

// If another job has published the same tokens meanwhile, this job's page stays its own, and the next pages
// are inserted below the other's node.
void kv_cache::publish(kv_lease& lease, const cache_request& wish, std::span<const token_id> tokens,
                       std::uint32_t computed) {
  if (!keeps(wish, computed)) return;
  ORCD_ENSURE(computed <= tokens.size());
  const std::uint32_t size = geometry_.page_positions;
  page_keys keys(wish, tokens);
  while ((lease.path.size() + 1) * size <= computed) {
    const std::size_t index = lease.path.size();
    auto* parent = index == 0 ? nullptr : lease.path.back();
    const auto made = tree_.insert(wish.salt, parent, keys.of(index * size, size), lease.pages[index]);
    use(made.at);
    lease.path.push_back(made.at);
    if (wish.media.empty()) note(lease, index, wish.salt, tokens.subspan(index * size, size), parent);
    if (made.unused && *made.unused != lease.pages[index]) free_pages({&*made.unused, 1}, {});
  }
  const auto published = static_cast<std::uint32_t>(lease.path.size()) * size;
  if (windows_.any()) windows_.keep(lease.windows, lease.path, nullptr, published, false);
}

void kv_cache::finish(kv_lease&& lease, const cache_request& wish, std::span<const token_id> tokens,
                      std::uint32_t computed) {
  auto* const last = leave_in_tree(lease, wish, tokens, computed);
  if (last != nullptr) pin(lease, last, wish, tokens.first(computed));
}

void kv_cache::preempt(kv_lease&& lease, const cache_request& wish, std::span<const token_id> tokens,
                       std::uint32_t computed) {
  static_cast<void>(leave_in_tree(lease, wish, tokens, computed));
}

/// Returns the last page that can be used again; null if there is none.
prefix_tree::node* kv_cache::leave_in_tree(kv_lease& lease, const cache_request& wish,
                                           std::span<const token_id> tokens, std::uint32_t computed) {
  publish(lease, wish, tokens, computed);
  const std::uint32_t size = geometry_.page_positions;
  const auto whole = static_cast<std::uint32_t>(lease.path.size());
  std::vector<kv_page> unused;
  for (std::uint32_t i = 0; i < whole; ++i) {
    if (prefix_tree::page_of(lease.path[i]) != lease.pages[i]) unused.push_back(lease.pages[i]);
  }
  auto* last = whole == 0 ? nullptr : lease.path.back();
  std::size_t next = whole;
  if (keeps(wish, computed) && computed > whole * size) {
    page_keys keys(wish, tokens);
    const auto tail = keys.of(std::size_t{whole} * size, computed - whole * size);
    const auto made = tree_.insert(wish.salt, last, tail, lease.pages[next++]);
    if (made.unused) unused.push_back(*made.unused);
    last = made.at;
  }
  if (windows_.any()) {
    if (keeps(wish, computed)) windows_.keep(lease.windows, lease.path, last, computed, true);
    windows_.release(std::move(lease.windows), lease.written);
  }
  const std::size_t touched = std::max<std::size_t>(next, pages_for(lease.written));
  const auto rest = std::span<const kv_page>(lease.pages).subspan(next);
  const auto clear = rest.subspan(std::min(rest.size(), touched - next));
  unused.insert(unused.end(), rest.begin(), rest.end() - static_cast<std::ptrdiff_t>(clear.size()));
  for (auto at = lease.path.rbegin(); at != lease.path.rend(); ++at) release(*at);
  free_pages(unused, clear);
  return keeps(wish, computed) ? last : nullptr;
}

// Pins the page in which the session's last state ends and the page in which the system prompt ends. The
// pages before them stay too, because only leaves of the tree are evicted.
void kv_cache::pin(const kv_lease& lease, prefix_tree::node* last, const cache_request& wish,
                   std::span<const token_id> tokens) {
  if (!wish.session.empty()) sessions_.set(pin_name(wish.salt, wish.session), last);
  const std::uint32_t length = wish.system_tokens;
  if (length == 0 || length < config_.tokens_min || length > tokens.size()) return;
  const std::size_t page = (length - 1) / geometry_.page_positions;
  auto* at = page < lease.path.size() ? lease.path[page] : last;
  // Two system prompts with the same hash share a pin; nothing else depends on the hash.
  const std::string_view bytes(reinterpret_cast<const char*>(tokens.data()), length * sizeof(token_id));
  const std::size_t hash = std::hash<std::string_view>{}(bytes);
  system_prompts_.set(pin_name(wish.salt, std::to_string(length) + " " + std::to_string(hash)), at);
}

kv_cache_counts kv_cache::counts() const noexcept {
  kv_cache_counts out = counts_;
  out.pages = pool_.size();
  out.pages_free = pool_.free();
  out.pages_cached = tree_.idle();
  out.pages_closed = static_cast<std::uint32_t>(closed_.size());
  out.sessions = sessions_.size();
  if (windows_.any()) out.windows = windows_.counts();
  return out;
}

}  // namespace orcd::engine
