// An engine's side of the holder's socket of one device: asks for the right to write or to read its weights,
// and passes memory on. Calls wait, and are for threads that may, one at a time. The connection is the lock:
// it stays until release(), the end of the link, or of either process.
#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "net/failover/file_descriptor.hpp"
#include "net/failover/frame_packet.hpp"
#include "net/failover/weights_frames.hpp"

namespace orcd::net {

enum class weights_problem {
  timeout,     ///< not granted in time, or the holder does not answer
  connection,  ///< no holder, or it has closed the connection
  stale,       ///< what is there is not what this engine had
  cancelled,   ///< by cancel()
};

struct weights_failure {
  weights_problem kind = weights_problem::connection;
  std::string message;  ///< one sentence that names the socket's path
};

/// Found by argument-dependent lookup by boost::system::result.
[[noreturn]] inline void throw_exception_from_error(const weights_failure& e, const boost::source_location&) {
  throw std::runtime_error(e.message);
}

template <class T>
using weights_result = boost::system::result<T, weights_failure>;

class weights_link {
 public:
  using milliseconds = std::chrono::milliseconds;
  static constexpr milliseconds remap_timeout{30'000};
  /// For an answer that does not have to wait for other engines.
  static constexpr milliseconds answer_limit{5'000};
  struct memory {
    std::uint64_t bytes = 0;
    file_descriptor descriptor{};
  };

  /// `socket_path`: of weights_socket_path(). Connects when something is asked for.
  weights_link(std::string socket_path, std::uint32_t engine_id);
  ~weights_link();
  weights_link(const weights_link&) = delete;
  weights_link& operator=(const weights_link&) = delete;

  /// Asks for a grant, without limit where there is no timeout; whatever the link had is released first.
  /// `epoch`: of a grant that this engine had and comes back to, or 0: with it, a holder that has nothing is
  /// not waited for but stale. After an error nothing is held.
  [[nodiscard]] weights_result<grant_frame> request(weights_mode mode, std::optional<milliseconds> timeout,
                                                    std::uint64_t epoch = 0);
  /// Asks to read what this engine has had before: stale where layout or content are not those of `had`.
  [[nodiscard]] weights_result<grant_frame> remap(const grant_frame& had,
                                                  milliseconds timeout = remap_timeout);

  // With a grant. A holder that finds a rule broken ends the connection.
  /// The holder keeps a duplicate of the descriptor. `name`: is_piece_name(), once.
  [[nodiscard]] weights_result<void> put(const std::string& name, std::uint64_t bytes, int descriptor);
  /// The grant that comes back is to read.
  [[nodiscard]] weights_result<grant_frame> commit(commit_frame what);
  /// Nullopt where there is no memory of that name.
  [[nodiscard]] weights_result<std::optional<memory>> get(const std::string& name);

  /// What there is; connects if need be, and needs no grant.
  [[nodiscard]] weights_result<weights_state_frame> state();

  [[nodiscard]] bool is_connected() const noexcept { return static_cast<bool>(socket_); }
  /// Whether the last request() that failed had come through to a holder.
  [[nodiscard]] bool has_reached() const noexcept { return reached_; }
  /// Ends the connection, and with it what it held.
  void release() noexcept;
  /// Waits until the holder ends or closes the connection, without a limit: connection. Or cancelled, with
  /// the connection kept. Nullopt after nudge().
  [[nodiscard]] std::optional<weights_failure> await_end();
  /// Ends the present call of await_end(), or the next one. From any thread.
  void nudge() noexcept;
  /// Waits, without a connection. The only error is cancelled.
  [[nodiscard]] weights_result<void> pause(milliseconds length);
  /// Ends the call that waits, and all later ones. From any thread.
  void cancel() noexcept;

 private:
  using deadline = std::optional<std::chrono::steady_clock::time_point>;

  [[nodiscard]] weights_result<void> connect(deadline until);
  [[nodiscard]] weights_result<void> wait(short events, deadline until, int also = -1) const;
  [[nodiscard]] weights_result<received_frame> exchange(frame body, std::span<const int> beside,
                                                        deadline until);
  [[nodiscard]] weights_result<received_frame> receive(deadline until) const;
  template <class Answer>
  [[nodiscard]] weights_result<received_frame> ask(frame body, std::span<const int> beside = {});
  [[nodiscard]] weights_failure failure(weights_problem kind, const std::string& why) const;

  const std::string path_;
  const std::uint32_t engine_;
  file_descriptor cancelled_;  ///< an eventfd, readable once it is
  file_descriptor nudged_;     ///< likewise
  file_descriptor socket_;
  std::uint32_t requests_ = 0;
  bool reached_ = false;
};

}  // namespace orcd::net
