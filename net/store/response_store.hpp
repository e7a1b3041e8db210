// Responses that a later request may go on from, fetch or delete: in memory alone, with a bound on bytes and
// on their number. Each belongs to the API key that asked for it, and to no other it exists. Beyond the
// bounds the oldest response of the tenant that holds most is given up, so that nobody who asks for much
// costs the others theirs. Any thread. Private to net/.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "net/http/api_keys.hpp"

namespace orcd::net {

/// An item of an input or an output.
struct kept_item {
  std::string id;
  std::string json;  ///< one object, with its id
};
using kept_items = std::vector<kept_item>;

/// What one request asked and what it was answered. Responses that go on from one another share their turns.
struct kept_turn {
  std::shared_ptr<const kept_items> input;  ///< never null
  kept_items output;
  std::size_t bytes = 0;            ///< of memory; set by the store
  mutable std::size_t holders = 0;  ///< responses in the store that have it; under the store's mutex
};
/// The turns of a conversation, the oldest first.
using kept_turns = std::vector<std::shared_ptr<const kept_turn>>;
/// What there is to read in them.
[[nodiscard]] std::size_t text_bytes(const kept_turns& turns) noexcept;

/// A response: its body is `before`, the items of its last turn's output with commas between, and `after`.
struct kept_response {
  kept_turns turns;  ///< the response's own is the last
  std::string before, after;

  [[nodiscard]] std::string body() const;
  [[nodiscard]] std::size_t body_bytes() const noexcept;
};

class response_store {
 public:
  static constexpr std::size_t count_max = 65'536;

  /// At least one byte and one response.
  explicit response_store(std::size_t bytes_max, std::size_t responses_max = count_max);

  /// Null where there is no such response of this key's.
  [[nodiscard]] std::shared_ptr<const kept_response> find(const key_owner& owner,
                                                          const std::string& id) const;
  /// Keeps a response; `made.turns` are those that it went on from, to which `own` is added. One that takes
  /// more than all may, with all of its turns, is not kept.
  void keep(const key_owner& owner, const std::string& id, kept_turn own, kept_response made);
  /// Forgets a response; later ones that went on from it keep what they need. False where there is none.
  bool erase(const key_owner& owner, const std::string& id);

  [[nodiscard]] std::size_t size() const;
  /// Memory of all that is kept. What was given up and is read by a running request is that request's.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Responses that were given up for newer ones.
  [[nodiscard]] std::uint64_t evicted() const noexcept { return evicted_; }

 private:
  struct entry {
    std::string key;  ///< the id within the worker
    std::shared_ptr<const kept_response> response;
    std::size_t bytes = 0;  ///< without the turns
  };
  /// What one tenant has.
  struct shelf {
    std::size_t bytes = 0;
    std::list<entry> entries;  ///< the oldest first
  };
  using shelves = std::map<std::string, shelf>;
  struct place {
    shelves::iterator in;
    std::list<entry>::iterator at;
  };

  void make_room();
  void add(shelf& to, std::size_t bytes) noexcept;
  void subtract(shelf& from, std::size_t bytes) noexcept;
  /// Takes a response out; to be destroyed once the mutex is free.
  std::shared_ptr<const kept_response> take(const std::string& key);
  [[nodiscard]] std::shared_ptr<const kept_response> take_oldest();

  const std::size_t bytes_max_, responses_max_;
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::uint64_t> evicted_{0};
  mutable std::mutex mutex_;  ///< of what follows; held for lookups and counts, never for a copy of text
  shelves shelves_;
  std::unordered_map<std::string, place> places_;
};

/// The store as the requests of one key may use it.
struct response_shelf {
  std::shared_ptr<response_store> store;
  key_owner owner;

  [[nodiscard]] std::shared_ptr<const kept_response> find(const std::string& id) const {
    return store->find(owner, id);
  }
};

}  // namespace orcd::net
