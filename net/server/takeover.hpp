// Connections that another process accepted, and the journal that tells how far a dead engine had come with
// them. io thread only. Private to net/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "net/failover/holder_link.hpp"
#include "net/http/connection.hpp"

namespace orcd::net {

/// How one server uses what the holder keeps; see server::serve_held().
struct held_config {
  answer_identity identity;   ///< of this engine: what decides its answers
  std::string fingerprint{};  ///< its system_fingerprint
  /// Engines that may die while a request runs before it is given up. The last time, and from the second
  /// death on, it runs by itself. 0: none that ran is gone on with.
  std::uint32_t replays = 2;
  std::uint64_t lost = 0;  ///< connections that have ended with a journal that nobody could read
  /// The server has closed a connection, and the holder is to do so.
  std::function<void(std::uint32_t slot, std::uint64_t serial)> closed{};
  /// Whether what ends now ends with this engine and is left to the next one. True before the GPU thread
  /// ends jobs for a failure. io thread.
  std::function<bool()> keeps_ends{};
};

/// What became of the connections of a dead engine.
struct takeover_counts {
  std::uint64_t resumed = 0;    ///< in the middle of a request
  std::uint64_t idle = 0;       ///< between two
  std::uint64_t fresh = 0;      ///< nobody had read from them
  std::uint64_t ended = 0;      ///< over already
  std::uint64_t lost = 0;       ///< closed; with conflicts among them
  std::uint64_t conflicts = 0;  ///< where the journal and the kernel contradicted one another
  std::uint64_t bytes = 0;      ///< that were given out, and not yet to the kernel

  takeover_counts& operator+=(const takeover_counts& more) noexcept;
};

class takeover {
 public:
  /// Maps the journal. Errors: as journal::map().
  [[nodiscard]] static engine::result<std::unique_ptr<takeover>> make(int journal, held_config config);
  takeover(journal opened, held_config config);
  /// Counts of takeovers of this process before this one, which the metrics go on with.
  void go_on_from(const takeover_counts& before, std::uint64_t given_up) noexcept;

  /// What is known of a connection; nullopt: it cannot go on and is closed. Counted where `dead_engine`.
  [[nodiscard]] std::optional<journalled> judge(const held_socket& held, bool dead_engine);
  /// From here on records are this engine's. `all` is what the holder has: other records are freed.
  void begin(const held_connections& all);
  /// The digest of this engine's weights is known, as number_of().
  void know_digest(std::uint64_t digest);
  /// Another engine may go on with what is left.
  void leave(bool in_order) noexcept { journal_.leave(in_order); }
  [[nodiscard]] bool is_left() const noexcept { return journal_.is_left(); }
  /// Not told once that is left: it is another engine's.
  void closed(std::uint32_t slot, std::uint64_t serial) const {
    if (!is_left()) config_.closed(slot, serial);
  }
  /// The jobs have ended with this engine, and their ends are no news for the clients.
  [[nodiscard]] bool keeps_ends() const { return config_.keeps_ends && config_.keeps_ends(); }

  [[nodiscard]] const takeover_counts& counts() const noexcept { return counts_; }
  [[nodiscard]] takeover_counts all_counts() const noexcept;
  /// Connections of this process that were not kept for lack of room.
  [[nodiscard]] std::uint64_t given_up() const noexcept { return given_up_before_ + journal_.given_up(); }
  /// Families of /metrics.
  [[nodiscard]] std::string render_metrics() const;

 private:
  std::optional<journalled> leave_closed(std::uint32_t slot);
  std::optional<journalled> give_up(std::uint32_t slot, bool conflict);
  [[nodiscard]] bool answers_like(const std::optional<journal_engine>& other) const noexcept;
  [[nodiscard]] std::optional<engine::error> refusal_of(
      const recovered_connection& c, const std::optional<journal_engine>& began_with_it) const;
  void count(const recovered_connection& c);
  [[nodiscard]] bool may_have_killed(std::uint32_t slot) const;
  [[nodiscard]] bool runs_alone(const recovered_connection& c) const;

  journal journal_;
  held_config config_;
  journal_engine self_;  ///< this engine, as the journal has it
  const std::uint64_t maker_;
  takeover_counts counts_;
  takeover_counts before_;
  std::uint64_t given_up_before_ = 0;
  bool in_order_ = false;               ///< the engine before has not died
  std::optional<std::uint32_t> alone_;  ///< the place of the request that it ran by itself
};

}  // namespace orcd::net
