#include "test/http/http_client.hpp"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace orcd::test {
namespace {

/// The payload of a chunked body, as far as it arrived whole.
std::string unchunk(std::string_view body) {
  std::string out;
  for (;;) {
    const auto end = body.find("\r\n");
    if (end == std::string_view::npos) return out;
    std::size_t size = 0;
    std::from_chars(body.data(), body.data() + end, size, 16);
    body.remove_prefix(end + 2);
    if (size == 0 || body.size() < size + 2) return out;
    out.append(body.substr(0, size));
    body.remove_prefix(size + 2);
  }
}

std::string payload_of(std::string_view response) {
  const auto head = response.find("\r\n\r\n");
  return head == std::string_view::npos ? std::string() : unchunk(response.substr(head + 4));
}

sse_event read_event(std::string_view frame) {
  sse_event event;
  while (!frame.empty()) {
    const auto end = frame.find('\n');
    const auto line = frame.substr(0, end);
    frame.remove_prefix(end == std::string_view::npos ? frame.size() : end + 1);
    if (line.starts_with("event: ")) event.name = line.substr(7);
    if (line.starts_with("id: ")) event.id = line.substr(4);
    if (line.starts_with("data: ")) event.data = line.substr(6);
  }
  return event;
}

}  // namespace

http_client::http_client(std::uint16_t port, int receive_buffer) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
  if (fd_ < 0) throw std::runtime_error("no socket");
  if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error("connection refused");
  }
}

bool http_client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

std::string http_client::receive(int ms) {
  pollfd wait{fd_, POLLIN, 0};
  if (::poll(&wait, 1, ms) <= 0) return {};
  std::array<char, 65'536> buffer;
  const auto n = ::recv(fd_, buffer.data(), buffer.size(), 0);
  return n <= 0 ? std::string() : std::string(buffer.data(), static_cast<std::size_t>(n));
}

std::string http_client::drain(int ms) {
  std::string all;
  for (std::string part = receive(ms); !part.empty(); part = receive(ms)) all += part;
  return all;
}

bool http_client::read_until(std::string_view text, std::string& into, int ms) {
  while (into.find(text) == std::string::npos) {
    const auto part = receive(ms);
    if (part.empty()) return false;
    into += part;
  }
  return true;
}

bool http_client::read_up_to(std::size_t size, std::string& into, int ms) {
  while (into.size() < size) {
    const auto part = receive(ms);
    if (part.empty()) return false;
    into += part;
  }
  return true;
}

bool http_client::closed_within(int ms) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (std::chrono::steady_clock::now() < until) {
    pollfd wait{fd_, POLLIN, 0};
    if (::poll(&wait, 1, 20) <= 0) continue;
    std::array<char, 4'096> buffer;
    if (::recv(fd_, buffer.data(), buffer.size(), 0) <= 0) return true;
  }
  return false;
}

void http_client::send_urgent(char byte) {
  ::send(fd_, &byte, 1, MSG_OOB | MSG_NOSIGNAL);
}

void http_client::half_close() {
  ::shutdown(fd_, SHUT_WR);
}

void http_client::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void http_client::reset() {
  const linger now{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

std::string make_post(std::string_view path, std::string_view body, std::string_view fields) {
  std::string out = "POST ";
  out.append(path).append(" HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\n").append(fields);
  out += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  return out.append(body);
}

int status_of(std::string_view bytes) {
  int status = 0;
  if (bytes.starts_with("HTTP/1.1 ")) std::from_chars(bytes.data() + 9, bytes.data() + bytes.size(), status);
  return status;
}

std::vector<sse_event> events_of(std::string_view response) {
  std::vector<sse_event> out;
  const std::string payload = payload_of(response);
  std::string_view rest(payload);
  for (auto end = rest.find("\n\n"); end != std::string_view::npos; end = rest.find("\n\n")) {
    auto event = read_event(rest.substr(0, end));
    if (!event.name.empty() || !event.data.empty()) out.push_back(std::move(event));
    rest.remove_prefix(end + 2);
  }
  return out;
}

std::size_t comments_in(std::string_view response) {
  const std::string payload = "\n\n" + payload_of(response);
  std::size_t n = 0;
  for (auto at = payload.find("\n\n:"); at != std::string::npos; at = payload.find("\n\n:", at + 1)) ++n;
  return n;
}

}  // namespace orcd::test
