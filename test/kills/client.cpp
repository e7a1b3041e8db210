#include "test/kills/client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace orcd::kills {

using std::chrono::milliseconds;

namespace {

constexpr std::chrono::seconds patience{60};

bool would_block() noexcept {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

client::client(std::uint16_t port, std::uint32_t number, std::uint32_t seed, verdicts& told)
    : port_(port), number_(number), random_(seed * 7'919U + number), told_(told) {}

void client::connect(clock::time_point now) {
  if (socket_ || finishing_) return;
  socket_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int tiny = 2'048;
  if (draw(2) == 0) ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &tiny, sizeof tiny);
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  there.sin_port = htons(port_);
  if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&there), sizeof there) != 0) {
    ++told_.refused;
    socket_.reset();
    return;
  }
  ++told_.connections;
  left_ = 1 + draw(5);
  slow_ = draw(3) == 0;
  closes_ = leaves_early_ = false;
  out_.clear();
  sent_ = 0;
  expected_.clear();
  token_ = 0;
  text_.clear();
  progress_ = now;
  ask();
}

/// The question's bytes wait in out_; others may be there still.
void client::ask() {
  question what;
  what.id = (std::uint64_t{number_} << 32U) + ++questions_;
  what.tokens = 1 + draw(draw(4) == 0 ? 150 : 12);
  --left_;
  if (left_ == 0) {
    closes_ = what.close = draw(2) == 0;
    leaves_early_ = !closes_ && draw(4) == 0;
  }
  what.body.resize(draw(8) == 0 ? draw(60'000) : draw(3'000));
  for (char& c : what.body) c = static_cast<char>('a' + draw(26));
  const std::string bytes = encode(what);
  expected_.push_back({digest_of(bytes), what.tokens});
  out_.erase(0, sent_);
  sent_ = 0;
  out_ += bytes;
}

short client::wanted(clock::time_point now) const noexcept {
  const bool reads = !slow_ || now >= next_read_;
  return static_cast<short>((reads ? POLLIN : 0) | (sent_ < out_.size() ? POLLOUT : 0));
}

void client::move(short ready, clock::time_point now) {
  if ((ready & POLLOUT) != 0) send_some(now);
  if (socket_ && (ready & (POLLIN | POLLHUP | POLLERR)) != 0) receive_some(now);
}

/// In pieces, so that engines die with half a question.
void client::send_some(clock::time_point now) {
  const std::size_t most = draw(3) == 0 ? 1 + draw(40) : 1 + draw(6'000);
  const std::size_t n = std::min(most, out_.size() - sent_);
  const auto bytes = ::send(socket(), out_.data() + sent_, n, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (bytes < 0) {
    if (would_block()) return;
    return lose(std::strerror(errno));
  }
  sent_ += static_cast<std::size_t>(bytes);
  progress_ = now;
  // At times the next question follows before the answer has come.
  if (sent_ == out_.size() && left_ > 0 && expected_.size() < 3 && draw(4) == 0) ask();
}

/// Takes so many bytes off what is expected.
bool client::is_right(std::string_view bytes) {
  while (!bytes.empty()) {
    if (expected_.empty()) return false;
    const expected& now = expected_.front();
    if (text_.empty()) text_ = token_text(now.digest, token_);
    const std::size_t n = std::min(bytes.size(), text_.size());
    if (bytes.substr(0, n) != std::string_view(text_).substr(0, n)) return false;
    bytes.remove_prefix(n);
    text_.erase(0, n);
    if (text_.empty() && ++token_ == now.tokens) {
      ++told_.answers;
      expected_.pop_front();
      token_ = 0;
    }
  }
  return true;
}

void client::receive_some(clock::time_point now) {
  std::array<char, 65'536> room;
  const std::size_t most = slow_ ? 900 : room.size();
  const auto bytes = ::recv(socket(), room.data(), most, MSG_DONTWAIT);
  if (bytes < 0 && would_block()) return;
  if (bytes <= 0) {
    const bool whole = bytes == 0 && closes_ && expected_.empty();
    return whole ? leave() : lose(bytes == 0 ? "the end came too early" : std::strerror(errno));
  }
  told_.bytes += static_cast<std::uint64_t>(bytes);
  progress_ = now;
  if (slow_) next_read_ = now + milliseconds(1 + draw(4));
  if (!is_right({room.data(), static_cast<std::size_t>(bytes)})) {
    ++told_.wrong;
    return leave();
  }
  if (leaves_early_ && left_ == 0 && expected_.size() == 1 && token_ > 0) return leave();
  if (!expected_.empty()) return;
  if (left_ > 0) return ask();
  if (!closes_) leave();
}

void client::check_progress(clock::time_point now) {
  if (socket_ && now - progress_ >= patience) lose("nothing comes");
}

void client::lose(const char* why) {
  ++told_.lost;
  std::fprintf(stderr,
               "client %u, question %llu: lost: %s; %zu answers expected, %u tokens of the first are here, "
               "%zu of %zu bytes sent, questions left %u, closes %d, early %d, slow %d\n",
               number_, static_cast<unsigned long long>(questions_), why, expected_.size(), token_, sent_,
               out_.size(), left_, closes_ ? 1 : 0, leaves_early_ ? 1 : 0, slow_ ? 1 : 0);
  leave();
}

void client::finish() {
  finishing_ = true;
  left_ = std::min(left_, 1U);
}

void client::leave() noexcept {
  socket_.reset();
}

}  // namespace orcd::kills
