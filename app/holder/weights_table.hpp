// The weights of one device: who may write them, who may read them, and what is there. Pure: no socket and no
// clock of its own. Clients are numbers that the caller chooses; a client that leaves frees what it had.
//
// One writes or many read. What a writer puts is there for the others once it has committed, and is gone if
// it leaves before that. Writing begins with nothing: what was committed is dropped, since a writer may
// change what it can reach. A client that waits to write goes before those that would read.
// Source: the weights of the failover plan.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "net/failover/file_descriptor.hpp"
#include "net/failover/weights_frames.hpp"

namespace orcd::app {

class weights_table {
 public:
  using time = std::chrono::steady_clock::time_point;
  using client = std::uint64_t;
  /// What a client that waited is told.
  struct answer {
    client to = 0;
    bool granted = false;
    net::weights_mode mode = net::weights_mode::read;  ///< write or read, of a grant
    net::denial why = net::denial::timeout;            ///< of a denial
    bool operator==(const answer&) const = default;
  };
  using answers = std::vector<answer>;
  struct piece {
    std::string name;
    std::uint64_t bytes = 0;
    net::file_descriptor memory{};
  };
  /// Weights that others may read.
  struct committed {
    std::uint64_t epoch = 0;
    net::commit_frame told{};
    std::vector<piece> pieces{};
  };

  /// A client that has nothing and does not wait asks for something. It is answered here or by a later call,
  /// exactly once, unless it leaves. Errors (invalid_request): it has something, or waits.
  [[nodiscard]] engine::result<answers> claim(client from, const net::claim_frame& what, time now);
  /// Whatever it had or waited for is free. No harm where it had nothing.
  [[nodiscard]] answers leave(client from);
  /// Denies those whose time is over.
  [[nodiscard]] answers expire(time now);
  /// When expire() has something to do.
  [[nodiscard]] std::optional<time> next_deadline() const;

  /// Errors (invalid_request) name the rule that the client has broken: it is not the writer, a name is there
  /// already, too many pieces, nothing to commit.
  [[nodiscard]] engine::result<void> put(client from, const net::put_frame& what,
                                         net::file_descriptor memory);
  /// The writer reads from now on; the first answer is its own.
  [[nodiscard]] engine::result<answers> commit(client from, const net::commit_frame& what);
  /// Null where there is none of that name. Errors (invalid_request): it has no grant.
  [[nodiscard]] engine::result<const piece*> get(client from, std::string_view name) const;

  /// As if they had been committed here, by a writer that has left. For a table that nobody has used.
  void restore(committed what);
  /// The next grant to write has a number above this one. For such a table, too.
  void begin_behind(std::uint64_t epoch) noexcept { held_.epoch = std::max(held_.epoch, epoch); }
  /// Null while nothing is committed. Changes, and is another one, only with a grant to write.
  [[nodiscard]] const committed* what_is_there() const noexcept { return committed_ ? &held_ : nullptr; }

  /// What a grant says now.
  [[nodiscard]] net::grant_frame grant(net::weights_mode mode) const;
  [[nodiscard]] net::weights_state_frame state() const;

 private:
  struct waiter {
    client who = 0;
    net::claim_frame what{};
    std::optional<time> deadline{};
  };

  /// Grants what can be granted now.
  void settle(answers& out);
  [[nodiscard]] bool grant_write(answers& out);
  void grant_reads(answers& out);
  void deny_returning(answers& out);
  void drop_all();
  [[nodiscard]] bool has(client who) const;

  std::list<waiter> waiting_;  ///< in the order of their claims
  std::optional<client> writer_;
  std::vector<client> readers_;
  bool committed_ = false;
  committed held_;  ///< before the commit, what there is so far
};

}  // namespace orcd::app
