#include "engine/grammar/configurations.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "engine/grammar/grammar.hpp"

namespace orcd::engine::grammar {

namespace {

std::size_t mix(std::size_t seed, std::uint64_t value) noexcept {
  return (seed ^ value) * 0x9E37'79B9'7F4A'7C15U ^ seed >> 29U;
}

std::size_t hash_of(const stack_frame& f) noexcept {
  // The table uses the low bits, which hold least of a product.
  return mix(mix(mix(mix(1, f.to), f.least), f.most), f.below) >> 32U;
}

std::size_t hash_of(const std::vector<thread>& threads, bool accepting) noexcept {
  std::size_t hash = accepting ? 3 : 5;
  for (const thread& t : threads) hash = mix(mix(hash, t.state), t.stack);
  return hash >> 32U;
}

}  // namespace

template <class Is>
std::uint32_t configurations::number_table::find(std::size_t hash, const Is& is_it) const {
  const auto wanted = static_cast<std::uint32_t>(hash);
  for (std::size_t at = wanted;; ++at) {
    const slot& s = slots_[at & (slots_.size() - 1)];
    if (s.number == unknown) return unknown;
    if (s.hash == wanted && is_it(s.number)) return s.number;
  }
}

void configurations::number_table::insert(std::size_t hash, std::uint32_t number) {
  if (2 * (size_ + 1) > slots_.size()) {
    const auto old = std::exchange(slots_, std::vector<slot>(2 * slots_.size()));
    for (const slot& s : old) {
      if (s.number != unknown) place(s);
    }
  }
  place({static_cast<std::uint32_t>(hash), number});
  ++size_;
}

void configurations::number_table::place(const slot& what) noexcept {
  std::size_t at = what.hash;
  while (slots_[at & (slots_.size() - 1)].number != unknown) ++at;
  slots_[at & (slots_.size() - 1)] = what;
}

void configurations::number_table::clear() noexcept {
  slots_.resize(slots_min);
  std::fill(slots_.begin(), slots_.end(), slot{});
  size_ = 0;
}

configurations::configurations(const program& grammar) : program_(grammar) {
  clear();
}

// Scratch holds nothing between two calls.
configurations::configurations(const configurations& other)
    : program_(other.program_),
      frames_(other.frames_),
      frame_ids_(other.frame_ids_),
      configs_(other.configs_),
      next_(other.next_),
      config_ids_(other.config_ids_),
      work_(other.work_),
      bytes_(other.bytes_),
      spent_(other.spent_) {}

void configurations::clear() {
  frames_.assign(1, {});
  frame_ids_.clear();
  configs_.assign(1, std::make_shared<const config>());
  next_.assign(1, std::make_shared<row>());
  config_ids_.clear();
  bytes_ = 0;
  spent_ = false;
}

bool configurations::take(std::size_t bytes) noexcept {
  if (bytes > bytes_max - bytes_) {
    spent_ = true;
    return false;
  }
  bytes_ += bytes;
  return true;
}

bool configurations::thread_set::insert(const thread& t) noexcept {
  std::size_t at = mix(mix(1, t.state), t.stack) >> 20U;
  for (;; ++at) {
    slot& s = slots_[at % slots];
    if (s.round == round_ && s.what == t) return false;
    if (s.round == round_) continue;
    s = {t, round_};
    ++size_;
    return true;
  }
}

void configurations::thread_set::clear() noexcept {
  size_ = 0;
  if (++round_ != 0) return;
  std::fill(slots_.begin(), slots_.end(), slot{});
  round_ = 1;
}

config_id configurations::start() {
  follow({program_.rules[program_.root].start, bottom});
  return followed();
}

config_id configurations::run(config_id from, std::string_view bytes) {
  for (const char c : bytes) {
    if (from == dead) break;
    from = step(from, static_cast<unsigned char>(c));
  }
  return from;
}

config_id configurations::ended(stack_id stack) {
  if (stack == bottom) {
    found_end_ = true;
  } else {
    follow({frames_[stack].frame.to, frames_[stack].frame.below});
  }
  return followed();
}

stack_id configurations::push(const stack_frame& frame) {
  const std::size_t hash = hash_of(frame);
  const stack_id known = frame_ids_.find(hash, [&](stack_id id) { return frames_[id].frame == frame; });
  if (known != unknown) return known;
  // Includes its entry in the table, and the unused capacity of both.
  constexpr std::size_t bytes = 2 * sizeof(held_frame) + sizeof(stack_frame) + 40;
  if (!take(bytes)) return no_stack;
  const auto id = static_cast<stack_id>(frames_.size());
  frames_.push_back({frame, frames_[frame.below].depth + 1});
  frame_ids_.insert(hash, id);
  return id;
}

config_id configurations::find_step(config_id from, unsigned char byte) {
  const auto here = configs_[from];  // the vector may move
  for (const thread& at : here->threads) {
    const state& s = program_.states[at.state];
    const state_id to = s.next(byte);
    if (to == no_state) continue;
    stack_id stack = at.stack;
    if (s.counted && stack != bottom) {
      stack_frame frame = frames_[stack].frame;
      if (byte == '"') {
        if (frame.least > 0) continue;
      } else if (frame.most == 0) {
        continue;
      } else if (frame.most != unbounded || frame.least > 0) {
        if (frame.least > 0) --frame.least;
        if (frame.most != unbounded) --frame.most;
        stack = push(frame);
        if (stack == no_stack) continue;
      }
    }
    follow({to, stack});
  }
  const config_id to = followed();
  if (spent_) return to;
  auto& steps = next_[from];
  if (steps.use_count() > 1) steps = std::make_shared<row>(*steps);
  (*steps)[byte] = to;
  return to;
}

// Follows ends of rules and calls, which need no byte. Every position that is kept can reach the end of the
// grammar within the remaining depth: the need of its state was checked here, and those of the frames below
// when they were pushed.
void configurations::follow(thread from) {
  open_.push_back(from);
  while (!open_.empty()) {
    const thread at = open_.back();
    open_.pop_back();
    ++work_;
    const state& s = program_.states[at.state];
    const std::uint32_t depth = frames_[at.stack].depth;
    if (s.need > depth_max - depth) continue;
    if (seen_.size() >= 4 * threads_max || !seen_.insert(at)) continue;
    if (!s.bytes.empty() && found_.size() < threads_max) found_.push_back(at);
    if (s.accepting) {
      if (at.stack == bottom) {
        found_end_ = true;
      } else {
        open_.push_back({frames_[at.stack].frame.to, frames_[at.stack].frame.below});
      }
    }
    for (const call_edge& edge : s.calls) {
      if (edge.least > edge.most) continue;
      const bool counts = edge.least > 0 || edge.most != unbounded;
      const state& after = program_.states[edge.to];
      stack_id stack = at.stack;
      if (counts || !after.is_end()) {
        if (after.need > depth_max - depth || depth == depth_max) continue;
        stack = push({edge.to, edge.least, edge.most, at.stack});
        if (stack == no_stack) continue;
      }
      open_.push_back({program_.rules[edge.rule].start, stack});
    }
  }
}

config_id configurations::followed() {
  seen_.clear();
  std::sort(found_.begin(), found_.end());
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  const config_id out = of(found_, found_end_);
  found_.clear();
  found_end_ = false;
  return out;
}

config_id configurations::of(std::vector<thread> threads, bool accepting) {
  if (threads.empty() && !accepting) return dead;
  const std::size_t hash = hash_of(threads, accepting);
  const config_id known = config_ids_.find(hash, [&](config_id id) {
    return configs_[id]->accepting == accepting && configs_[id]->threads == threads;
  });
  if (known != unknown) return known;
  if (!take(sizeof(row) + 2 * sizeof(config) + threads.capacity() * sizeof(thread) + 80)) return dead;
  const auto id = static_cast<config_id>(configs_.size());
  configs_.push_back(std::make_shared<const config>(config{std::move(threads), accepting}));
  next_.emplace_back(std::make_shared<row>())->fill(unknown);
  config_ids_.insert(hash, id);
  return id;
}

config_id configurations::forget_all_but(config_id kept) {
  const auto old = configs_[kept];
  const auto frames = std::move(frames_);
  clear();
  // From the bottom of each stack upwards, every stack once.
  std::unordered_map<stack_id, stack_id> renamed{{bottom, bottom}};
  std::vector<thread> threads;
  for (const thread& t : old->threads) {
    std::vector<stack_id> path;
    for (stack_id at = t.stack; !renamed.contains(at); at = frames[at].frame.below) path.push_back(at);
    for (auto it = path.rbegin(); it != path.rend(); ++it) {
      stack_frame frame = frames[*it].frame;
      frame.below = renamed.at(frame.below);
      renamed.emplace(*it, push(frame));
    }
    threads.push_back({t.state, renamed.at(t.stack)});
  }
  std::sort(threads.begin(), threads.end());
  return of(std::move(threads), old->accepting);
}

}  // namespace orcd::engine::grammar
