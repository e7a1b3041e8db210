#include "engine/schedule/window_cache.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/base/kv_window.hpp"

namespace orcd::engine {

window_cache::window_cache(const kv_geometry& geometry,
                           std::function<void(std::uint32_t group, std::span<const kv_page>)> clear)
    : size_(geometry.page_positions) {
  std::uint64_t bytes = 0;
  for (const kv_group& one : geometry.further()) {
    const bool states = one.need == kv_need::state;
    ORCD_ENSURE(states || (one.need == kv_need::window && one.window > 1 && one.pages > 0));
    const auto number = static_cast<std::uint32_t>(groups_.size() + 1);
    groups_.push_back({one.window, window_pages(one.pages, [clear, number](std::span<const kv_page> freed) {
                         clear(number, freed);
                       })});
    has_states_ = states;
    keeps_ = keeps_ && one.boundary_pages > 0;
    bytes += one.page_bytes * (states ? 1 : pages_over(one.window - 1, size_));
  }
  if (any()) spacing_ = boundary_spacing(bytes, geometry.page_bytes, size_);
}

const boundary* window_cache::cut(prefix_tree::match& known, const std::string& salt,
                                  std::span<const token_id> tokens, std::uint32_t positions_min) const {
  const boundary* const found = boundaries_.deepest(known, salt, tokens, size_);
  if (found == nullptr || found->position < positions_min) {
    known = {};
    return nullptr;
  }
  known.whole.resize(found->position / size_);
  known.positions = found->position % size_;
  known.part = known.positions == 0 ? nullptr : found->at;
  return found;
}

// Its pages are the job's before others are taken for it: the boundary itself may have to give way to them.
job_windows window_cache::begin(const boundary* from) {
  job_windows out;
  out.groups.resize(groups_.size());
  if (from == nullptr) return out;
  const std::uint32_t position = from->position;
  out.seen = out.began = position;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    out.groups[g].pages = from->pages[g];
    if (g < windowed()) out.groups[g].first = pages_before(position, groups_[g].window, size_).first;
  }
  boundaries_.touch(from, true);
  for (std::size_t g = 0; g < groups_.size(); ++g)
    groups_[g].pages.refer(out.groups[g].pages, window_pages::by::job);
  if (has_states_) out.groups.back().lent = out.groups.back().pages.front();
  if (position % size_ == 0) return out;
  for (std::size_t g = 0; g < windowed(); ++g) {
    window_lease& lease = out.groups[g];
    lease.lent = lease.pages.back();
    lease.pages.pop_back();
    take(g, lease.pages);
    lease.copy = page_copy{*lease.lent, lease.pages.back(), position % size_};
  }
  return out;
}

/// A page that is free, or that boundaries give up.
void window_cache::take(std::size_t index, std::vector<kv_page>& out) {
  window_pages& pages = groups_[index].pages;
  while (pages.free() == 0) {
    const boundary* const next =
        boundaries_.next_to_go([&](const boundary& one) { return pages.is_only_kept(one.pages[index]); });
    // The pool is larger than what jobs can hold (windowed_pages_max()).
    ORCD_ENSURE(next != nullptr);
    drop(next);
    ++given_up_;
  }
  pages.take(out);
}

void window_cache::drop(const boundary* one) {
  const boundary dropped = boundaries_.take(one);
  for (std::size_t g = 0; g < groups_.size(); ++g)
    groups_[g].pages.let_go(dropped.pages[g], window_pages::by::boundary);
}

void window_cache::end_loan(std::size_t index, window_lease& of) {
  if (!of.lent) return;
  const kv_page lent = *std::exchange(of.lent, std::nullopt);
  if (index >= windowed()) of.pages.clear();
  groups_[index].pages.let_go({&lent, 1}, window_pages::by::job);
}

void window_cache::reach(job_windows& of, std::uint32_t end,
                         const std::function<void(std::uint32_t group, std::uint32_t have)>& added) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    window_lease& lease = of.groups[g];
    end_loan(g, lease);
    if (g >= windowed()) continue;
    const auto have = lease.first + static_cast<std::uint32_t>(lease.pages.size());
    const std::uint32_t wanted = pages_over(end, size_);
    for (std::uint32_t i = have; i < wanted; ++i) take(g, lease.pages);
    if (have < wanted) added(static_cast<std::uint32_t>(g + 1), have);
  }
}

/// Gives back the pages [first, end), by their place in the lease.
void window_cache::give(std::size_t index, const window_lease& of, std::uint32_t first, std::uint32_t end,
                        std::uint32_t written) {
  const std::uint32_t touched = pages_over(written, size_);
  const std::uint32_t middle = std::clamp(touched - std::min(touched, of.first), first, end);
  const auto all = std::span<const kv_page>(of.pages);
  groups_[index].pages.let_go(all.subspan(first, middle - first), window_pages::by::job);
  groups_[index].pages.let_go(all.subspan(middle, end - middle), window_pages::by::job, false);
}

void window_cache::trim(job_windows& of, std::uint32_t computed) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    window_lease& lease = of.groups[g];
    end_loan(g, lease);
    if (g >= windowed()) continue;
    const std::uint32_t kept = first_page_kept(computed, groups_[g].window, size_);
    if (kept <= lease.first) continue;
    const std::uint32_t count = kept - lease.first;
    ORCD_ENSURE(count < lease.pages.size());
    give(g, lease, 0, count, computed);
    lease.pages.erase(lease.pages.begin(), lease.pages.begin() + count);
    lease.first = kept;
  }
}

void window_cache::set_back(job_windows& of, std::uint32_t computed, std::uint32_t written) {
  const std::uint32_t end = pages_over(computed, size_);
  of.lost_state = has_states_;
  drop_states(of, computed + 1, std::numeric_limits<std::uint32_t>::max());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    window_lease& lease = of.groups[g];
    end_loan(g, lease);
    if (g >= windowed()) continue;
    const std::uint32_t left = end - std::min(end, lease.first);
    const auto has = static_cast<std::uint32_t>(lease.pages.size());
    if (left >= has) continue;
    give(g, lease, left, has, written);
    lease.pages.resize(left);
  }
}

void window_cache::release(job_windows&& of, std::uint32_t written) {
  drop_states(of, 0, std::numeric_limits<std::uint32_t>::max());
  for (std::size_t g = 0; g < of.groups.size(); ++g) {
    window_lease& lease = of.groups[g];
    end_loan(g, lease);
    if (g < windowed()) give(g, lease, 0, static_cast<std::uint32_t>(lease.pages.size()), written);
  }
  of = {};
}

void window_cache::keep(job_windows& of, std::span<prefix_tree::node* const> path, prefix_tree::node* tail,
                        std::uint32_t end, bool last) {
  if (!keeps_ || of.groups.empty() || end == 0) return;
  const auto node_of = [&](std::uint32_t position) {
    const std::size_t page = (position - 1) / size_;
    return page < path.size() ? path[page] : tail;
  };
  const auto make = [&](std::uint32_t position, bool periodic) {
    auto* const at = node_of(position);
    return at != nullptr && keep_at(of, at, position, periodic);
  };
  const std::uint32_t first = spacing_ == 0 ? end : of.seen / spacing_ * spacing_;
  for (std::uint64_t at = std::uint64_t{first} + spacing_; spacing_ != 0 && at <= end; at += spacing_)
    make(static_cast<std::uint32_t>(at), true);
  for (const std::uint32_t mark : of.marks)
    if (mark > of.seen && mark <= end) make(mark, false);
  const std::uint32_t last_kept = has_states_ ? end / state_positions * state_positions : end;
  if (last && last_kept > 0 && make(last_kept, false)) {
    const auto pass = [&](std::uint32_t position, std::uint32_t uses_max) {
      if (position == 0 || position >= last_kept || position == of.marks[0]) return;
      const auto* const at = node_of(position);
      if (at == nullptr) return;
      if (const boundary* one = boundaries_.find_like(at, (position - 1) % size_ + 1))
        boundaries_.pass(one, uses_max);
    };
    pass(of.began, 1);
    pass(of.marks[1], 0);
  }
  of.seen = std::max(of.seen, end);
  // One at `end` may become the job's last boundary.
  drop_states(of, 0, end - 1);
}

/// Marks and periodic boundaries between the positions. Pages of the states' group are no job's need: where
/// none can be had, there is no boundary.
std::span<const state_copy> window_cache::wanted_states(job_windows& of, std::uint32_t begin,
                                                        std::uint32_t end) {
  const std::size_t had = of.states.size();
  if (!has_states_ || !keeps_) return {};
  std::array<std::uint32_t, std::tuple_size_v<decltype(of.marks)> + 1> wanted{};
  std::copy(of.marks.begin(), of.marks.end(), wanted.begin());
  if (spacing_ != 0) wanted.back() = end / spacing_ * spacing_;
  std::sort(wanted.begin(), wanted.end());
  for (const std::uint32_t position : wanted) {
    if (position <= begin || position > end || position % state_positions != 0) continue;
    static_cast<void>(want_state(of, position));
  }
  return std::span(of.states).subspan(had);
}

const state_copy* window_cache::want_state(job_windows& of, std::uint32_t position) {
  if (!has_states_ || !keeps_ || position < of.seen || position == 0) return nullptr;
  if (!of.states.empty() && of.states.back().position >= position) return nullptr;
  window_pages& pages = groups_.back().pages;
  if (pages.free() == 0) {
    const boundary* const next = boundaries_.next_to_go(
        [&](const boundary& one) { return pages.is_only_kept(one.pages[windowed()]); });
    if (next == nullptr) return nullptr;
    drop(next);
    ++given_up_;
  }
  std::vector<kv_page> taken;
  pages.take(taken);
  of.states.push_back({position, taken.front()});
  return &of.states.back();
}

void window_cache::drop_last_state(job_windows& of) {
  drop_states(of, of.states.back().position, of.states.back().position);
}

/// Gives back the pages of states at the positions from `first` to `end`.
void window_cache::drop_states(job_windows& of, std::uint32_t first, std::uint32_t end) {
  std::erase_if(of.states, [&](const state_copy& one) {
    if (one.position < first || one.position > end) return false;
    groups_.back().pages.let_go({&one.page, 1}, window_pages::by::job);
    return true;
  });
}

/// False: the pages are not there any more.
bool window_cache::keep_at(job_windows& of, prefix_tree::node* at, std::uint32_t position, bool periodic) {
  const std::uint32_t offset = (position - 1) % size_ + 1;
  if (const boundary* known = boundaries_.find(at, offset)) {
    if (!periodic) boundaries_.touch(known, false);
    return true;
  }
  boundary made{at, offset, position};
  made.passed = periodic;
  if (has_states_) {
    const auto state = std::find_if(of.states.begin(), of.states.end(),
                                    [&](const state_copy& one) { return one.position == position; });
    if (state == of.states.end()) return false;
    made.pages[windowed()] = {state->page};
  }
  for (std::size_t g = 0; g < windowed(); ++g) {
    const window_lease& lease = of.groups[g];
    const page_span span = pages_before(position, groups_[g].window, size_);
    if (span.first < lease.first || span.end > lease.first + lease.pages.size()) return false;
    const auto from = lease.pages.begin() + (span.first - lease.first);
    made.pages[g].assign(from, from + span.count());
  }
  boundaries_.add(std::move(made));
  prefix_tree::mark(at);
  const boundary& kept = *boundaries_.find(at, offset);
  for (std::size_t g = 0; g < groups_.size(); ++g)
    groups_[g].pages.refer(kept.pages[g], window_pages::by::boundary);
  if (has_states_) drop_states(of, position, position);
  return true;
}

void window_cache::forget(const prefix_tree::node* at) {
  while (const boundary* one = boundaries_.any_at(at)) drop(one);
}

void window_cache::close() {
  for (windowed_group& one : groups_) {
    while (one.pages.free() > 0) one.pages.take(one.closed);
  }
}

void window_cache::open() {
  for (windowed_group& one : groups_) one.pages.let_go(std::exchange(one.closed, {}), window_pages::by::job);
}

window_counts window_cache::counts() const noexcept {
  window_counts out;
  for (const windowed_group& one : groups_) {
    out.pages += one.pages.size();
    out.pages_used += one.pages.used();
    out.pages_kept += one.pages.size() - one.pages.used() - one.pages.free();
  }
  out.boundaries = boundaries_.size();
  out.boundaries_given_up = given_up_;
  return out;
}

}  // namespace orcd::engine
