// A blocking HTTP client over plain POSIX sockets that can misbehave in every way the tests need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orcd::test {

/// For what must happen while nothing is said of how soon: a machine under load may take its time.
constexpr int patience_ms = 30'000;

class http_client {
 public:
  /// Connects to 127.0.0.1. `receive_buffer` in bytes, 0 = the system's own.
  explicit http_client(std::uint16_t port, int receive_buffer = 0);
  ~http_client() { close(); }
  http_client(const http_client&) = delete;
  http_client& operator=(const http_client&) = delete;

  /// False when the other side has closed.
  bool send(std::string_view bytes);
  /// One byte beside the stream (MSG_OOB).
  void send_urgent(char byte);
  /// What arrives within `ms`, at least one byte; nothing at a close, a reset or the end of the wait.
  std::string receive(int ms);
  /// Everything up to the close, a reset, or the end of the wait for the next byte.
  std::string drain(int ms = patience_ms);
  /// Reads until the bytes hold `text`; false when the stream ended before.
  bool read_until(std::string_view text, std::string& into, int ms = patience_ms);
  /// Reads until there are so many bytes; false when the stream ended before.
  bool read_up_to(std::size_t size, std::string& into, int ms = patience_ms);
  /// Whether the server has closed; waits at most `ms`.
  bool closed_within(int ms = patience_ms);

  void half_close();
  void close();
  /// Closes with RST instead of FIN.
  void reset();

 private:
  int fd_ = -1;
};

/// POST with Host and Content-Length.
[[nodiscard]] std::string make_post(std::string_view path, std::string_view body,
                                    std::string_view fields = {});

/// The status of the first response in `bytes`; 0 when there is none.
[[nodiscard]] int status_of(std::string_view bytes);

struct sse_event {
  std::string name;
  std::string id;
  std::string data;
};

/// The events of a chunked event stream, as far as they are complete. Comments are skipped.
[[nodiscard]] std::vector<sse_event> events_of(std::string_view response);
[[nodiscard]] std::size_t comments_in(std::string_view response);

}  // namespace orcd::test
