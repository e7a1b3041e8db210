#include "net/failover/holder_link.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "net/failover/own_process.hpp"

namespace orcd::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using engine::errc;
using engine::error;
using engine::result;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds answer_limit{5'000};
constexpr milliseconds report_limit{1'000};
constexpr milliseconds look_interval{100};
/// All of its connections may end while the holder is busy.
constexpr std::size_t queue_max = 2 * std::size_t{held_sockets_max};

/// A number that the kernel gives to one socket only; 0 for what is none.
std::uint64_t cookie_of(int socket) noexcept {
  std::uint64_t cookie = 0;
  socklen_t bytes = sizeof cookie;
  return ::getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &bytes) == 0 ? cookie : 0;
}

}  // namespace

holder_link::holder_link(asio::io_context& io, std::string socket_path, hello_frame self,
                         holder_events events)
    : io_(io),
      path_(std::move(socket_path)),
      self_(self),
      events_(std::move(events)),
      look_(io),
      answer_timer_(io) {}

holder_link::~holder_link() {
  if (socket_) socket_->close();
}

void holder_link::post(std::function<void()> what) {
  asio::post(io_, [alive = std::weak_ptr<bool>(alive_), what = std::move(what)] {
    if (!alive.expired()) what();
  });
}

result<void> holder_link::connect() {
  auto made = connect_frames(path_);
  if (!made) return made.error();
  const auto pidfd = own_pidfd();
  if (!pidfd) {
    return error(errc::not_ready, "holder at '" + path_ + "': no pidfd: " + std::strerror(errno));
  }
  socket_ = std::make_shared<frame_socket>(io_, std::move(*made), queue_max);
  socket_->start(
      {[this](frame_socket::received got) { on_frame(std::move(got)); }, [this](const error&) { on_end(); }});
  const std::array<int, 1> beside{pidfd.get()};
  socket_->send({0, self_}, beside);
  return {};
}

result<void> holder_link::open() {
  if (auto connected = connect(); !connected) return connected;
  opening_ = true;
  const auto until = steady_clock::now() + answer_limit;
  while (!welcomed_ && socket_->is_open() && steady_clock::now() < until)
    socket_->read_within(milliseconds(50));
  opening_ = false;
  if (welcomed_) return {};
  const char* const why = socket_->is_open() ? "does not answer" : "refused this engine";
  socket_->close();
  socket_.reset();
  return error(errc::not_ready, "holder at '" + path_ + "': " + why);
}

void holder_link::on_frame(frame_socket::received got) {
  if (const auto* const welcome = std::get_if<welcome_frame>(&got.what.body)) {
    on_welcome(*welcome, std::move(got.descriptors));
  } else if (const auto* const sockets = std::get_if<sockets_frame>(&got.what.body)) {
    on_sockets(*sockets, std::move(got.descriptors));
  } else if (const auto* const waiting = std::get_if<waiting_frame>(&got.what.body)) {
    taken_.waiting = waiting->places;
  } else if (const auto* const report = std::get_if<report_frame>(&got.what.body)) {
    if (got.what.request == question_) answer(*report);
  } else if (std::holds_alternative<rest_frame>(got.what.body)) {
    post(events_.rested);
  } else if (const auto* const signal = std::get_if<signal_frame>(&got.what.body)) {
    post([this, kind = signal->what] { events_.signalled(kind); });
  }
}

void holder_link::answer(std::optional<report_frame> report) {
  answer_timer_.cancel();
  if (auto told = std::exchange(asked_, nullptr)) {
    post([told = std::move(told), report] { told(report); });
  }
}

void holder_link::ask(answer_identity answers, std::function<void(std::optional<report_frame>)> told) {
  answer(std::nullopt);
  asked_ = std::move(told);
  if (!welcomed_) return answer(std::nullopt);
  socket_->send({++question_, who_frame{std::move(answers)}});
  answer_timer_.expires_after(report_limit);
  answer_timer_.async_wait([this, alive = std::weak_ptr<bool>(alive_)](error_code failed) {
    if (!failed && !alive.expired()) answer(std::nullopt);
  });
}

void holder_link::stand_by(answer_identity answers) {
  standby_ = std::move(answers);
  if (welcomed_) socket_->send({0, standby_frame{*standby_}});
}

void holder_link::on_welcome(const welcome_frame& what, std::vector<file_descriptor> descriptors) {
  complete_ = what.complete;
  // A holder that was restarted may have another journal until it gets this one by offer().
  if (what.complete && !settled_) {
    journal_ = std::move(descriptors[0]);
    listener_ = std::move(descriptors[1]);
  }
  const bool first = !std::exchange(welcomed_, true);
  if (first && standby_) socket_->send({0, standby_frame{*standby_}});
  if (first && std::exchange(untold_reload_, false)) reloaded();
  if (first && !opening_) post(events_.connected);
}

void holder_link::on_sockets(const sockets_frame& what, std::vector<file_descriptor> descriptors) {
  for (std::size_t i = 0; i < what.places.size(); ++i) {
    const auto place = what.places[i];
    note(place, descriptors[i].get());
    held_socket one{place.slot, place.serial, std::move(descriptors[i])};
    if (!what.fresh && taking_over_) {
      taken_.sockets.push_back(std::move(one));
    } else {
      // std::function copies what it holds, which a descriptor cannot be.
      const auto shared = std::make_shared<held_socket>(std::move(one));
      const auto& told = what.fresh ? events_.accepted : events_.came_late;
      post([&told, shared] { told(std::move(*shared)); });
    }
  }
  next_serial_ = std::max(next_serial_, what.next_serial);
  if (what.last) finish_take_over();
}

void holder_link::finish_take_over() {
  const auto done = std::exchange(taking_over_, nullptr);
  if (!done) return;
  const auto all = std::make_shared<held_connections>(std::exchange(taken_, {}));
  post([done, all] { done(std::move(*all)); });
}

void holder_link::on_end() {
  socket_.reset();
  const bool was_there = std::exchange(welcomed_, false);
  complete_ = false;
  answer(std::nullopt);
  finish_take_over();
  if (was_there) post(events_.lost);
  look_again();
}

void holder_link::look_again() {
  look_.expires_after(look_interval);
  look_.async_wait([this, alive = std::weak_ptr<bool>(alive_)](error_code failed) {
    if (failed || alive.expired()) return;
    if (!connect()) look_again();
  });
}

void holder_link::take_over(std::uint32_t room, held_handler done) {
  standby_.reset();
  settled_ = false;
  taking_over_ = std::move(done);
  taken_ = {};
  std::fill(known_.begin(), known_.end(), known_socket{});
  if (!welcomed_) return finish_take_over();
  socket_->send({0, take_over_frame{room}});
}

void holder_link::closed(std::uint32_t slot, std::uint64_t serial) {
  if (slot >= held_sockets_max || known_[slot].serial != serial) return;
  known_[slot] = {};
  if (welcomed_) socket_->send({0, closed_frame{{slot, serial}}});
}

void holder_link::report_damaged_journal() {
  if (welcomed_) socket_->send({0, journal_damaged_frame{}});
}

void holder_link::settled() {
  settled_ = true;
  if (welcomed_) socket_->send({0, settled_frame{}});
}

void holder_link::yield(bool rests) {
  settled_ = false;
  if (welcomed_) socket_->send({0, yield_frame{rests}});
}

void holder_link::reloaded() {
  untold_reload_ = !welcomed_;
  if (welcomed_) socket_->send({0, reloaded_frame{}});
}

void holder_link::ping(std::uint64_t progress) {
  // One that does not read is left in the end; a heart that beats is no reason.
  if (welcomed_ && !socket_->has_queue()) socket_->send({0, ping_frame{progress}});
}

void holder_link::note(held_place place, int socket) {
  known_[place.slot] = {place.serial, socket, cookie_of(socket)};
}

void holder_link::offer() {
  if (!welcomed_ || !journal_ || !listener_) return;
  const std::array<int, 2> beside{journal_.get(), listener_.get()};
  socket_->send({0, offer_frame{}}, beside);
  sockets_frame some{false, false, next_serial_, {}};
  std::vector<int> sockets;
  for (std::uint32_t slot = 0; slot < held_sockets_max; ++slot) {
    const auto& one = known_[slot];
    // A connection whose socket is closed here is over, even if that was not said yet.
    if (one.serial == 0 || cookie_of(one.socket) != one.cookie) continue;
    some.places.push_back({slot, one.serial});
    sockets.push_back(one.socket);
    if (sockets.size() < frame_descriptors_max) continue;
    socket_->send({0, some}, sockets);
    some.places.clear();
    sockets.clear();
  }
  some.last = true;
  socket_->send({0, std::move(some)}, sockets);
  complete_ = true;
}

std::optional<held_socket> holder_link::keep(file_descriptor socket) {
  for (std::uint32_t slot = 0; slot < held_sockets_max; ++slot) {
    if (known_[slot].serial != 0) continue;
    const held_place place{slot, next_serial_++};
    note(place, socket.get());
    return held_socket{place.slot, place.serial, std::move(socket)};
  }
  return std::nullopt;
}

}  // namespace orcd::net
