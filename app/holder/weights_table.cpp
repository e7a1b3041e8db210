#include "app/holder/weights_table.hpp"

#include <algorithm>
#include <utility>

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using net::weights_mode;

error breach(const std::string& why) {
  return {errc::invalid_request, "weights: " + why};
}

}  // namespace

bool weights_table::has(client who) const {
  return writer_ == who || std::find(readers_.begin(), readers_.end(), who) != readers_.end();
}

result<weights_table::answers> weights_table::claim(client from, const net::claim_frame& what, time now) {
  const bool waits =
      std::any_of(waiting_.begin(), waiting_.end(), [&](const waiter& w) { return w.who == from; });
  if (waits || has(from)) return breach("a claim of a client that has one");
  waiter one{from, what, std::nullopt};
  if (what.timeout_ms != net::no_timeout) one.deadline = now + std::chrono::milliseconds(what.timeout_ms);
  waiting_.push_back(one);
  answers out;
  settle(out);
  for (const auto& late : expire(now)) out.push_back(late);
  return out;
}

weights_table::answers weights_table::leave(client from) {
  waiting_.remove_if([&](const waiter& w) { return w.who == from; });
  std::erase(readers_, from);
  if (writer_ == from) {
    writer_.reset();
    drop_all();
  }
  answers out;
  settle(out);
  return out;
}

weights_table::answers weights_table::expire(time now) {
  answers out;
  for (auto one = waiting_.begin(); one != waiting_.end();) {
    const bool late = one->deadline && *one->deadline <= now;
    if (late) out.push_back({one->who, false, {}, net::denial::timeout});
    one = late ? waiting_.erase(one) : std::next(one);
  }
  // Who waited to write kept others from reading.
  if (!out.empty()) settle(out);
  return out;
}

std::optional<weights_table::time> weights_table::next_deadline() const {
  std::optional<time> out;
  for (const auto& one : waiting_) {
    if (one.deadline && (!out || *one.deadline < *out)) out = one.deadline;
  }
  return out;
}

void weights_table::settle(answers& out) {
  if (writer_ || grant_write(out)) return;
  if (committed_) return grant_reads(out);
  deny_returning(out);
}

bool weights_table::grant_write(answers& out) {
  if (!readers_.empty()) return false;
  const auto next = std::find_if(waiting_.begin(), waiting_.end(), [&](const waiter& w) {
    return w.what.mode == weights_mode::write || (w.what.mode == weights_mode::write_or_read && !committed_);
  });
  if (next == waiting_.end()) return false;
  drop_all();
  ++held_.epoch;
  writer_ = next->who;
  out.push_back({next->who, true, weights_mode::write, {}});
  waiting_.erase(next);
  return true;
}

void weights_table::grant_reads(answers& out) {
  const bool writer_waits = std::any_of(waiting_.begin(), waiting_.end(),
                                        [](const waiter& w) { return w.what.mode == weights_mode::write; });
  if (writer_waits) return;
  for (const auto& one : std::exchange(waiting_, {})) {
    readers_.push_back(one.who);
    out.push_back({one.who, true, weights_mode::read, {}});
  }
}

/// Nobody writes here: what they had will not come back, and they cannot use anything else.
void weights_table::deny_returning(answers& out) {
  for (auto one = waiting_.begin(); one != waiting_.end();) {
    const bool returns = one->what.epoch != 0;
    if (returns) out.push_back({one->who, false, {}, net::denial::nothing});
    one = returns ? waiting_.erase(one) : std::next(one);
  }
}

void weights_table::drop_all() {
  committed_ = false;
  held_.told = {};
  held_.pieces.clear();
}

void weights_table::restore(committed what) {
  held_ = std::move(what);
  committed_ = true;
}

result<void> weights_table::put(client from, const net::put_frame& what, net::file_descriptor memory) {
  if (writer_ != from) return breach("memory from a client that does not write");
  if (held_.pieces.size() >= net::pieces_max) {
    return breach("one piece more than " + std::to_string(held_.pieces.size()) + ", which is the limit");
  }
  const bool there = std::any_of(held_.pieces.begin(), held_.pieces.end(),
                                 [&](const piece& p) { return p.name == what.name; });
  if (there) return breach("memory '" + what.name + "' is there already");
  held_.pieces.push_back({what.name, what.bytes, std::move(memory)});
  return {};
}

result<weights_table::answers> weights_table::commit(client from, const net::commit_frame& what) {
  if (writer_ != from) return breach("a commit of a client that does not write");
  if (held_.pieces.empty()) return breach("a commit of nothing");
  held_.told = what;
  committed_ = true;
  readers_.push_back(*writer_);
  writer_.reset();
  answers out{{from, true, weights_mode::read, {}}};
  settle(out);
  return out;
}

result<const weights_table::piece*> weights_table::get(client from, std::string_view name) const {
  if (!has(from)) return breach("memory is asked for by a client that has no grant");
  const auto found =
      std::find_if(held_.pieces.begin(), held_.pieces.end(), [&](const piece& p) { return p.name == name; });
  return found == held_.pieces.end() ? nullptr : &*found;
}

net::grant_frame weights_table::grant(weights_mode mode) const {
  return {mode, held_.epoch, held_.told.layout, held_.told.content, held_.told.metadata};
}

net::weights_state_frame weights_table::state() const {
  net::weights_state_frame out;
  out.epoch = held_.epoch;
  for (const auto& one : held_.pieces) out.bytes += one.bytes;
  out.pieces = static_cast<std::uint32_t>(held_.pieces.size());
  out.readers = static_cast<std::uint32_t>(readers_.size());
  out.waiting = static_cast<std::uint32_t>(waiting_.size());
  out.has_writer = writer_.has_value();
  out.committed = committed_;
  out.layout = held_.told.layout;
  out.content = held_.told.content;
  return out;
}

}  // namespace orcd::app
