#include "test/kills/served.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace orcd::kills {

namespace {

constexpr std::size_t input_max = 128 * 1024;  ///< what a client may send ahead

bool would_block() noexcept {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

bool is_under_way(const net::recovered_connection& before) noexcept {
  return (before.flags & (net::journal_closing | net::journal_answered)) == 0 && !before.told.empty();
}

served::served(net::held_socket held, net::journalled kept, board& counts, death& end)
    : held_(std::move(held)),
      record_(std::move(kept.record)),
      counts_(counts),
      noted_(counts.noted[held_.slot]),
      end_(end),
      draw_(static_cast<std::uint32_t>(held_.serial) * 2'654'435'761U | 1U) {
  if (kept.recovered) {
    recover(std::move(*kept.recovered));
  } else {
    begin_question();
    end_.passed(point::socket_kept);
  }
}

/// Where the dead engine stopped: in a write, behind the last byte of an answer, or in a question.
void served::recover(net::recovered_connection before) {
  set_under_way(is_under_way(before));
  input_ = std::move(before.input);
  write_ = std::move(before.unsent);
  close_ = (before.flags & net::journal_closing) != 0;
  if (close_) input_.clear();
  last_ = close_ || (before.flags & net::journal_answered) != 0;
  if (last_ && !close_) {
    question_ = decode(input_);
    if (!question_ || question_->bytes != before.request_bytes) ++counts_.wrong_facts;
    close_ = (before.flags & net::journal_keep_alive) == 0;
    input_.erase(0, before.request_bytes);
  } else if (!last_) {
    before_ = std::move(before);
    read_question();
  }
  if (!is_writing()) finish_write();
}

short served::wanted() const noexcept {
  const bool reads = finished_ || input_.size() < input_max;
  const bool writes = is_writing() || (question_.has_value() && !finished_);
  return static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
}

bool served::move(short ready) {
  if (finished_) return drop_input();
  if ((ready & (POLLIN | POLLHUP | POLLERR)) != 0 && !read_some()) return false;
  if ((ready & POLLOUT) == 0) return true;
  if (!is_writing() && question_) answer_some();
  return !is_writing() || send_some();
}

/// Straight into the journal, whatever the question's state is.
bool served::read_some() {
  if (input_.size() >= input_max) return true;
  const auto space = end_.within([this] { return record_->input_space(); });
  const auto bytes = ::recv(socket(), space.data(), std::min<std::size_t>(space.size(), 4'096), MSG_DONTWAIT);
  if (bytes < 0) return would_block();
  if (bytes == 0) return false;
  end_.passed(point::received);
  const auto n = static_cast<std::size_t>(bytes);
  input_.append(reinterpret_cast<const char*>(space.data()), n);
  end_.within([this, n] { record_->input_received(n); });
  noted_.received += n;
  if (!question_) read_question();
  return true;
}

void served::read_question() {
  auto whole = decode(input_);
  if (!whole) return;
  if (whole->tokens == 0) {
    ++counts_.wrong_facts;  // clients send none that is none
    return;
  }
  if (before_) check_recovered(*whole);
  if (!before_ || before_->request_bytes == 0) {
    net::request_origin origin;
    origin.entropy = {whole->digest, ~whole->digest};
    end_.within([&] { record_->set_origin(origin); });
  }
  end_.within([&] { record_->end_of_request(input_.size() - whole->bytes); });
  tokens_ = before_ ? static_cast<std::uint32_t>(before_->told.size()) : 0;
  before_.reset();
  input_.erase(0, whole->bytes);
  question_ = *whole;
  end_.passed(point::request_whole);
}

/// What the journal tells of a question must be what was asked.
void served::check_recovered(const asked& what) {
  const auto& told = before_->told;
  bool right = before_->request_bytes == 0 ? told.empty() : before_->request_bytes == what.bytes;
  if (before_->request_bytes > 0) {
    right = right && before_->origin.entropy == std::array<std::uint64_t, 2>{what.digest, ~what.digest};
  }
  right = right && told.size() < what.tokens;
  for (std::uint32_t i = 0; right && i < told.size(); ++i) {
    right = told[i].token == token_id(what.digest, i) && told[i].job == i % 7;
  }
  if (!right) ++counts_.wrong_facts;
}

/// One to four tokens are one write.
void served::answer_some() {
  draw_ = draw_ * 1'664'525U + 1'013'904'223U;
  const std::uint32_t until = std::min(question_->tokens, tokens_ + 1 + (draw_ >> 30U));
  write_.clear();
  written_ = 0;
  std::uint32_t flags = tokens_ == 0 ? net::journal_head : 0U;
  for (; tokens_ < until; ++tokens_) {
    net::journal_event event;
    event.job = static_cast<std::uint16_t>(tokens_ % 7);
    event.token = token_id(question_->digest, tokens_);
    end_.within([&] { record_->event(event); });
    write_ += token_text(question_->digest, tokens_);
  }
  last_ = tokens_ == question_->tokens;
  if (last_) set_under_way(false);
  close_ = last_ && question_->close;
  if (last_) flags |= net::journal_answered | (close_ ? 0U : net::journal_keep_alive);
  end_.within([&] { record_->output(write_, flags); });
  end_.passed(last_ ? point::last_published : point::published);
}

bool served::send_some() {
  const auto rest = std::string_view(write_).substr(written_);
  const auto bytes = ::send(socket(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (bytes < 0) return would_block();
  const auto n = static_cast<std::size_t>(bytes);
  end_.passed(last_ && n == rest.size() ? point::last_sent : point::sent);
  written_ += n;
  noted_.sent += n;
  if (!last_ && question_) set_under_way(true);
  if (!is_writing()) finish_write();
  return true;
}

/// The kernel has all of the write in hand.
void served::finish_write() {
  if (!std::exchange(last_, false)) return;
  question_.reset();
  if (!close_) {
    end_.passed(point::answered);
    begin_question();
    return;
  }
  end_.within([this] { record_->closing(); });
  end_.passed(point::closing);
  ::shutdown(socket(), SHUT_WR);
  finished_ = true;
  end_.passed(point::shut);
}

void served::begin_question() {
  end_.within([this] { record_->begin_request(input_); });
  end_.passed(point::request_begun);
  if (!input_.empty()) read_question();
}

bool served::drop_input() {
  std::array<char, 4'096> dropped;
  const auto bytes = ::recv(socket(), dropped.data(), dropped.size(), MSG_DONTWAIT);
  return bytes > 0 || (bytes < 0 && would_block());
}

void served::set_under_way(bool is) noexcept {
  if (is == under_way_) return;
  under_way_ = is;
  if (is) {
    ++counts_.under_way;
  } else {
    --counts_.under_way;
  }
}

void served::end() {
  set_under_way(false);
  ::shutdown(socket(), SHUT_RDWR);
  end_.within([this] { record_.reset(); });
  held_.socket.reset();
  end_.passed(point::freed);
}

}  // namespace orcd::kills
