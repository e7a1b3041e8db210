#include "net/failover/weights_link.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <span>
#include <thread>
#include <utility>

#include "engine/base/hexadecimal.hpp"
#include "net/failover/frame_socket.hpp"
#include "net/failover/own_process.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds retry_after{10};
/// The holder's word that the time is over may come later than the time.
constexpr milliseconds grace{1'000};

/// The first bytes of a hash, for people.
std::string beginning_of(const weights_hash& hash) {
  return engine::hexadecimal(std::span(hash).first(8));
}

}  // namespace

weights_link::weights_link(std::string socket_path, std::uint32_t engine_id)
    : path_(std::move(socket_path)),
      engine_(engine_id),
      cancelled_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      nudged_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

weights_link::~weights_link() {
  release();
}

weights_failure weights_link::failure(weights_problem kind, const std::string& why) const {
  return {kind, "weights at '" + path_ + "': " + why};
}

void weights_link::release() noexcept {
  socket_.reset();
}

std::optional<weights_failure> weights_link::await_end() {
  while (socket_) {
    std::uint64_t nudges = 0;
    if (::read(nudged_.get(), &nudges, sizeof nudges) > 0) return std::nullopt;
    // Nothing was asked, so that nothing but the end is expected.
    if (const auto got = receive_frame(socket_.get()); !got) {
      release();
      return failure(weights_problem::connection, got.error().message);
    }
    if (const auto waited = wait(POLLIN, std::nullopt, nudged_.get()); !waited) return waited.error();
  }
  return failure(weights_problem::connection, "there is no connection");
}

weights_result<void> weights_link::pause(milliseconds length) {
  release();
  const auto waited = wait(0, steady_clock::now() + length);
  if (waited || waited.error().kind == weights_problem::timeout) return {};
  return waited.error();
}

void weights_link::nudge() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(nudged_.get(), &one, sizeof one);
}

void weights_link::cancel() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(cancelled_.get(), &one, sizeof one);
}

/// For the socket, or for a pause where there is none.
weights_result<void> weights_link::wait(short events, deadline until, int also) const {
  int left = -1;
  if (until) {
    const auto time = std::chrono::ceil<milliseconds>(*until - steady_clock::now()).count();
    if (time <= 0) return failure(weights_problem::timeout, "the time is over");
    left = static_cast<int>(std::min<std::int64_t>(time, std::numeric_limits<int>::max()));
  }
  std::array<pollfd, 3> all{{{cancelled_.get(), POLLIN, 0}, {socket_.get(), events, 0}, {also, POLLIN, 0}}};
  if (::poll(all.data(), all.size(), left) < 0) {
    // The kernel has no memory for it, or a signal came: whoever waits looks again.
    std::this_thread::sleep_for(milliseconds(1));
    return {};
  }
  if (all[0].revents != 0) return failure(weights_problem::cancelled, "the engine ends");
  return {};
}

weights_result<void> weights_link::connect(deadline until) {
  if (socket_) return {};
  if (!cancelled_) return failure(weights_problem::connection, "no descriptor to wait with");
  for (;;) {
    auto made = connect_frames(path_);
    if (made) {
      reached_ = true;
      socket_ = std::move(*made);
      return {};
    }
    if (made.error().code != errc::queue_full) {
      return failure(weights_problem::connection, made.error().message);
    }
    const auto pause = steady_clock::now() + retry_after;
    const auto waited = wait(0, until ? std::min(*until, pause) : pause);
    if (!waited && waited.error().kind == weights_problem::cancelled) return waited.error();
    if (until && steady_clock::now() >= *until) {
      return failure(weights_problem::timeout, "the holder does not take connections");
    }
  }
}

weights_result<received_frame> weights_link::receive(deadline until) const {
  for (;;) {
    auto got = receive_frame(socket_.get());
    if (!got) return failure(weights_problem::connection, got.error().message);
    if (*got && (*got)->what.request == requests_) return std::move(**got);
    if (*got) continue;
    if (const auto waited = wait(POLLIN, until); !waited) return waited.error();
  }
}

weights_result<received_frame> weights_link::exchange(frame body, std::span<const int> beside,
                                                      deadline until) {
  const auto packet = encode_frame({++requests_, std::move(body)});
  for (;;) {
    const auto tried = send_packet(socket_.get(), packet, beside);
    if (tried == sent::yes) break;
    if (tried == sent::never) return failure(weights_problem::connection, std::strerror(errno));
    // The socket may be writable all the while where the kernel is short of something else.
    const auto pause = steady_clock::now() + retry_after;
    const auto waited = wait(0, until ? std::min(*until, pause) : pause);
    const bool late = until && steady_clock::now() >= *until;
    if (!waited && (late || waited.error().kind == weights_problem::cancelled)) return waited.error();
  }
  return receive(until);
}

/// Expects one kind of answer, soon. After anything else there is no connection any more.
template <class Answer>
weights_result<received_frame> weights_link::ask(frame body, std::span<const int> beside) {
  if (!socket_) return failure(weights_problem::connection, "there is no connection");
  auto got = exchange(std::move(body), beside, steady_clock::now() + answer_limit);
  if (got && std::holds_alternative<Answer>(got->what.body)) return got;
  release();
  if (!got) return got.error();
  return failure(weights_problem::connection, "the holder gave an answer to another question");
}

weights_result<grant_frame> weights_link::request(weights_mode mode, std::optional<milliseconds> timeout,
                                                  std::uint64_t epoch) {
  release();
  reached_ = false;
  deadline until;
  std::uint32_t limit = no_timeout;
  if (timeout) {
    constexpr std::int64_t longest = no_timeout - 1;
    limit = static_cast<std::uint32_t>(std::clamp<std::int64_t>(timeout->count(), 0, longest));
    until = steady_clock::now() + milliseconds(limit) + grace;
  }
  if (const auto connected = connect(until); !connected) return connected.error();
  const auto process = own_pidfd();
  if (!process) {
    release();
    return failure(weights_problem::connection, std::string("no pidfd: ") + std::strerror(errno));
  }
  const std::array<int, 1> beside{process.get()};
  auto got = exchange(claim_frame{engine_, mode, limit, epoch}, beside, until);
  if (got) {
    if (auto* const grant = std::get_if<grant_frame>(&got->what.body)) return std::move(*grant);
  }
  release();
  if (!got) return got.error();
  const auto* const denied = std::get_if<deny_frame>(&got->what.body);
  if (denied == nullptr)
    return failure(weights_problem::connection, "the holder gave no grant and no denial");
  if (denied->why == denial::nothing) {
    return failure(weights_problem::stale, "what this engine had is not there any more, nor anything else");
  }
  return failure(weights_problem::timeout, "not granted within " + std::to_string(limit) + " ms");
}

weights_result<grant_frame> weights_link::remap(const grant_frame& had, milliseconds timeout) {
  auto got = request(weights_mode::read, timeout, had.epoch);
  if (!got) return got;
  const auto differs = [&](const char* what, const weights_hash& before, const weights_hash& now) {
    release();
    return failure(weights_problem::stale, std::string(what) + " is not what it was: " + beginning_of(now) +
                                               ", not " + beginning_of(before));
  };
  if (got->layout != had.layout) return differs("the layout", had.layout, got->layout);
  if (got->content != had.content) return differs("the content", had.content, got->content);
  return got;
}

weights_result<void> weights_link::put(const std::string& name, std::uint64_t bytes, int descriptor) {
  const std::array<int, 1> beside{descriptor};
  if (const auto got = ask<done_frame>(put_frame{bytes, name}, beside); !got) return got.error();
  return {};
}

weights_result<grant_frame> weights_link::commit(commit_frame what) {
  auto got = ask<grant_frame>(std::move(what));
  if (!got) return got.error();
  return std::get<grant_frame>(std::move(got->what.body));
}

weights_result<std::optional<weights_link::memory>> weights_link::get(const std::string& name) {
  auto got = ask<piece_frame>(get_frame{name});
  if (!got) return got.error();
  const auto& piece = std::get<piece_frame>(got->what.body);
  if (!piece.found) return std::optional<memory>();
  return std::optional(memory{piece.bytes, std::move(got->descriptors[0])});
}

weights_result<weights_state_frame> weights_link::state() {
  if (const auto connected = connect(steady_clock::now() + answer_limit); !connected) {
    return connected.error();
  }
  const auto got = ask<weights_state_frame>(ask_frame{});
  if (!got) return got.error();
  return std::get<weights_state_frame>(got->what.body);
}

}  // namespace orcd::net
