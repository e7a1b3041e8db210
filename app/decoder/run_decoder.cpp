#include "app/decoder/run_decoder.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "app/decoder/child_limits.hpp"
#include "app/decoder/decode_file.hpp"
#include "app/decoder/decode_sound.hpp"
#include "app/decoder/decoder_protocol.hpp"

namespace orcd::app {
namespace {

constexpr int failed_exit = 1;

bool write_all(int to, const void* data, std::size_t size) noexcept {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t done = write(to, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

/// The file's bytes, as many as were announced.
bool read_file(int from, std::vector<std::byte>& file) noexcept {
  std::size_t have = 0;
  while (have < file.size()) {
    const ssize_t got = read(from, file.data() + have, file.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    have += static_cast<std::size_t>(got);
  }
  return true;
}

bool refuse(int to, std::string words) noexcept {
  words.resize(std::min<std::size_t>(words.size(), decode_words_max));
  const decode_answer answer{decode_status::refused, 0, 0, static_cast<std::uint32_t>(words.size()), 0};
  return write_all(to, &answer, sizeof(answer)) && write_all(to, words.data(), words.size());
}

bool answer(int to, const std::vector<std::byte>& file, std::uint64_t pixels_max) {
  const auto made = decode_file(file, pixels_max);
  if (!made) return refuse(to, made.error().message);
  const decode_answer head{decode_status::pixels, made->width, made->height, 0, 0};
  return write_all(to, &head, sizeof(head)) && write_all(to, made->rgb.data(), made->rgb.size());
}

bool answer_sound(int to, const std::vector<std::byte>& file, std::uint32_t seconds_max) {
  const auto made = decode_sound(file, seconds_max);
  if (!made) return refuse(to, made.error().message);
  const decode_answer head{decode_status::samples, 0, 0, 0, made->samples.size()};
  return write_all(to, &head, sizeof(head)) &&
         write_all(to, made->samples.data(), made->samples.size() * sizeof(float));
}

/// No more than the largest medium needs. A picture: pixels of the file, with what a progressive one or one
/// with alpha has beside them, and turned. A sound: its samples at the highest rate of an MP3 file, or as
/// many as a WAV file has bytes, those at the tower's rate, and the filter between the two rates.
std::uint64_t memory_for(const decode_order& order) noexcept {
  constexpr std::uint64_t base = 192ULL << 20U, a_pixel = 16, filter = 192ULL << 20U;
  if (order.kind == decode_kind::picture) return base + 2 * order.bytes + order.pixels_max * a_pixel;
  constexpr std::uint64_t a_second = (48'000 + engine::sound_rate) * sizeof(float);
  return base + filter + 6 * order.bytes + order.seconds_max * a_second;
}

/// The pipes become its first two descriptors, and there are no others.
bool keep_pipes_alone(int from, int to) noexcept {
  return dup2(from, STDIN_FILENO) >= 0 && dup2(to, STDOUT_FILENO) >= 0 &&
         close_range(STDERR_FILENO, ~0U, 0) == 0;
}

/// Never returns.
[[noreturn]] void decode_in_child(const decode_order& order, int from, int to) noexcept {
  const bool sound = order.kind == decode_kind::sound;
  bool good = false;
  try {
    if (keep_pipes_alone(from, to) && confine_child(memory_for(order), sound ? sound_time : picture_time)) {
      std::vector<std::byte> file(order.bytes);
      good = read_file(STDIN_FILENO, file) && (sound ? answer_sound(STDOUT_FILENO, file, order.seconds_max)
                                                     : answer(STDOUT_FILENO, file, order.pixels_max));
    }
  } catch (const std::exception&) {
    good = refuse(STDOUT_FILENO, "needs more memory to be decoded than one file may have");
  }
  _exit(good ? 0 : failed_exit);
}

/// An order and the two descriptors that came with it; false at the end.
bool receive(int socket, decode_order& order, std::array<int, 2>& pipes) noexcept {
  std::array<char, CMSG_SPACE(2 * sizeof(int))> room{};
  iovec part{&order, sizeof(order)};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  ssize_t got = -1;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  const cmsghdr* const with = CMSG_FIRSTHDR(&message);
  if (got != sizeof(order) || with == nullptr || with->cmsg_type != SCM_RIGHTS ||
      with->cmsg_len != CMSG_LEN(2 * sizeof(int))) {
    return false;
  }
  std::memcpy(pipes.data(), CMSG_DATA(with), 2 * sizeof(int));
  return true;
}

}  // namespace

int run_decoder(int socket) noexcept {
  // The worker says when it ends, by its end of the socket; a signal to the whole group is for the worker.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(signal, SIG_IGN);
  struct sigaction reap {};
  reap.sa_handler = SIG_IGN;
  reap.sa_flags = SA_NOCLDWAIT;
  sigaction(SIGCHLD, &reap, nullptr);
  decode_order order;
  std::array<int, 2> pipes{};
  while (receive(socket, order, pipes)) {
    const pid_t child = fork();
    if (child == 0) {
      decode_in_child(order, pipes[0], pipes[1]);
    }
    // Without a child both ends are closed, which tells the worker.
    for (const int end : pipes) close(end);
  }
  return 0;
}

}  // namespace orcd::app
