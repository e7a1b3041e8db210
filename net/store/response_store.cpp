#include "net/store/response_store.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::net {
namespace {

/// A block as glibc's allocator gives it: a head of 8 bytes, in steps of 16, at least 32. Large ones are
/// pages of their own (return_freed_memory of app/process/memory_setup.hpp).
constexpr std::size_t block_of(std::size_t bytes) noexcept {
  constexpr std::size_t mapped_from = 64U * 1024U, page = 4'096;
  const std::size_t step = bytes >= mapped_from ? page : 16;
  return std::max<std::size_t>((bytes + 8 + step - 1) / step * step, 32);
}

/// One that std::make_shared makes: two counts and a table of functions stand before the object.
template <class T>
constexpr std::size_t shared_block = block_of(sizeof(T) + 16);

/// Short texts lie in the string itself.
std::size_t bytes_of(const std::string& text) noexcept {
  return text.capacity() > std::string().capacity() ? block_of(text.capacity() + 1) : 0;
}

std::size_t bytes_of(const kept_items& items) noexcept {
  std::size_t bytes = items.capacity() > 0 ? block_of(items.capacity() * sizeof(kept_item)) : 0;
  for (const kept_item& item : items) bytes += bytes_of(item.id) + bytes_of(item.json);
  return bytes;
}

std::size_t bytes_of(const kept_turn& turn) noexcept {
  return shared_block<kept_turn> + shared_block<kept_items> + bytes_of(*turn.input) + bytes_of(turn.output);
}

std::size_t bytes_of(const kept_response& response) noexcept {
  return shared_block<kept_response> + bytes_of(response.before) + bytes_of(response.after) +
         block_of(response.turns.capacity() * sizeof(response.turns.front()));
}

/// Takes no more memory than they need, for as long as they are kept.
void shrink(kept_items& items) {
  items.shrink_to_fit();
  for (kept_item& item : items) {
    item.id.shrink_to_fit();
    item.json.shrink_to_fit();
  }
}

}  // namespace

std::size_t text_bytes(const kept_turns& turns) noexcept {
  std::size_t sum = 0;
  for (const auto& turn : turns) {
    for (const kept_item& item : *turn->input) sum += item.json.size();
    for (const kept_item& item : turn->output) sum += item.json.size();
  }
  return sum;
}

std::string kept_response::body() const {
  std::string out = before;
  const auto& output = turns.back()->output;
  for (std::size_t i = 0; i < output.size(); ++i) {
    if (i > 0) out += ',';
    out += output[i].json;
  }
  return out + after;
}

std::size_t kept_response::body_bytes() const noexcept {
  std::size_t sum = before.size() + after.size();
  for (const kept_item& item : turns.back()->output) sum += item.json.size() + 1;
  return sum;
}

response_store::response_store(std::size_t bytes_max, std::size_t responses_max)
    : bytes_max_(bytes_max), responses_max_(responses_max) {
  ORCD_ENSURE(bytes_max_ > 0 && responses_max_ > 0);
}

std::shared_ptr<const kept_response> response_store::find(const key_owner& owner,
                                                          const std::string& id) const {
  const std::string key = scoped_job_id(owner, id);
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(key);
  return found == places_.end() ? nullptr : found->second.at->response;
}

void response_store::keep(const key_owner& owner, const std::string& id, kept_turn own, kept_response made) {
  std::string key = scoped_job_id(owner, id);
  shrink(own.output);
  made.before.shrink_to_fit();
  made.after.shrink_to_fit();
  own.bytes = bytes_of(own);
  made.turns.reserve(made.turns.size() + 1);
  made.turns.push_back(std::make_shared<const kept_turn>(std::move(own)));
  // A node of the shelf's list and one of the table of places, each with the key, and the place's share of
  // buckets.
  const std::size_t bytes = bytes_of(made) + block_of(2 * sizeof(void*) + sizeof(entry)) +
                            block_of(2 * sizeof(void*) + sizeof(key) + sizeof(place)) + 2 * sizeof(void*) +
                            2 * bytes_of(key);
  std::size_t all = bytes;
  for (const auto& turn : made.turns) all += turn->bytes;
  if (all > bytes_max_) return;
  std::list<entry> added;
  added.push_back({key, std::make_shared<const kept_response>(std::move(made)), bytes});
  {
    const std::lock_guard lock(mutex_);
    const auto in = shelves_.try_emplace(owner.tenant).first;
    if (!places_.emplace(std::move(key), place{in, added.begin()}).second) return;
    // Nothing throws from here on.
    add(in->second, bytes);
    for (const auto& turn : added.front().response->turns) {
      if (turn->holders++ == 0) add(in->second, turn->bytes);
    }
    in->second.entries.splice(in->second.entries.end(), added);
  }
  make_room();
}

void response_store::make_room() {
  for (;;) {
    std::shared_ptr<const kept_response> oldest;  // destroyed after the lock
    const std::lock_guard lock(mutex_);
    if (bytes_ <= bytes_max_ && places_.size() <= responses_max_) return;
    oldest = take_oldest();
    ++evicted_;
  }
}

bool response_store::erase(const key_owner& owner, const std::string& id) {
  const std::string key = scoped_job_id(owner, id);
  std::shared_ptr<const kept_response> taken;  // destroyed after the lock
  const std::lock_guard lock(mutex_);
  taken = take(key);
  return taken != nullptr;
}

std::size_t response_store::size() const {
  const std::lock_guard lock(mutex_);
  return places_.size();
}

void response_store::add(shelf& to, std::size_t bytes) noexcept {
  to.bytes += bytes;
  bytes_ += bytes;
}

void response_store::subtract(shelf& from, std::size_t bytes) noexcept {
  from.bytes -= bytes;
  bytes_ -= bytes;
}

std::shared_ptr<const kept_response> response_store::take(const std::string& key) {
  const auto found = places_.find(key);
  if (found == places_.end()) return nullptr;
  const auto [in, at] = found->second;
  auto response = std::move(at->response);
  subtract(in->second, at->bytes);
  for (const auto& turn : response->turns) {
    if (--turn->holders == 0) subtract(in->second, turn->bytes);
  }
  places_.erase(found);
  in->second.entries.erase(at);
  if (in->second.entries.empty()) shelves_.erase(in);
  return response;
}

/// There is at least one response, or nothing would be over the bounds.
std::shared_ptr<const kept_response> response_store::take_oldest() {
  const auto fullest = std::max_element(shelves_.begin(), shelves_.end(), [](const auto& a, const auto& b) {
    return a.second.bytes < b.second.bytes;
  });
  const std::string key = fullest->second.entries.front().key;
  return take(key);
}

}  // namespace orcd::net
