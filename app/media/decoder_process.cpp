#include "app/media/decoder_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "app/decoder/decoder_protocol.hpp"
#include "engine/media/prepare_picture.hpp"
#include "engine/media/resample.hpp"
#include "engine/media/sound_header.hpp"

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::file_descriptor;
using engine::result;
using clock = std::chrono::steady_clock;

/// A child's own limit is lower; the rest is for starting it and for its bytes.
clock::time_point answer_time(decode_time of) noexcept {
  return clock::now() + std::chrono::seconds(of.wall_seconds + 10);
}

error system_failure(const std::string& what) {
  return {errc::worker_start_failed,
          "the decoder of media cannot be started: " + what + ": " +
              std::error_code(errno, std::system_category()).message(),
          "mmproj"};
}

/// Whether the end can be used before `until`.
bool wait_for(int end, short events, clock::time_point until) noexcept {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
    if (left <= 0) return false;
    pollfd one{end, events, 0};
    const int ready = poll(&one, 1, static_cast<int>(left));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

bool write_all(int to, std::span<const std::byte> data, clock::time_point until) noexcept {
  while (!data.empty()) {
    if (!wait_for(to, POLLOUT, until)) return false;
    const ssize_t done = write(to, data.data(), data.size());
    if (done < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (done <= 0) return false;
    data = data.subspan(static_cast<std::size_t>(done));
  }
  return true;
}

/// False where the other end was closed first.
bool read_all(int from, std::span<std::byte> data, clock::time_point until) noexcept {
  while (!data.empty()) {
    if (!wait_for(from, POLLIN, until)) return false;
    const ssize_t got = read(from, data.data(), data.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return false;
    data = data.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

template <class T>
std::span<std::byte> bytes_of(T& value) noexcept {
  return std::as_writable_bytes(std::span(&value, 1));
}

error refused_words(std::string words) {
  // A child that was taken over could say anything.
  for (char& c : words)
    if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~') c = '?';
  return {errc::invalid_request, std::move(words)};
}

/// Whether nothing follows.
bool is_at_end(int from, clock::time_point until) noexcept {
  std::byte more{};
  return !wait_for(from, POLLIN, until) || read(from, &more, 1) == 0;
}

// What a child answers: nullopt where it ended, took more than its time, or gave what it was not asked for.

std::optional<error> read_refusal(int from, const decode_answer& head, clock::time_point until) {
  if (head.words > decode_words_max) return std::nullopt;
  std::string words(head.words, '\0');
  if (!read_all(from, std::as_writable_bytes(std::span(words)), until)) return std::nullopt;
  return refused_words(std::move(words));
}

std::optional<engine::picture> read_pixels(int from, const decode_answer& head, engine::picture_size expected,
                                           clock::time_point until) {
  const bool as_said =
      head.status == decode_status::pixels && head.width == expected.width && head.height == expected.height;
  if (!as_said) return std::nullopt;
  engine::picture out{head.width, head.height, {}};
  out.rgb.resize(std::size_t{head.width} * head.height * 3);
  if (!read_all(from, std::as_writable_bytes(std::span(out.rgb)), until)) return std::nullopt;
  return out;
}

/// `expected`: how many there must be; 0: at most `most`.
std::optional<engine::sound> read_samples(int from, const decode_answer& head, std::uint64_t expected,
                                          std::uint64_t most, clock::time_point until) {
  const bool as_said = head.status == decode_status::samples && head.samples > 0 && head.samples <= most &&
                       (expected == 0 || head.samples == expected);
  if (!as_said) return std::nullopt;
  engine::sound out{engine::sound_rate, std::vector<float>(head.samples)};
  if (!read_all(from, std::as_writable_bytes(std::span(out.samples)), until)) return std::nullopt;
  const auto is_number = [](float sample) { return std::isfinite(sample); };
  if (!std::all_of(out.samples.begin(), out.samples.end(), is_number)) return std::nullopt;
  return out;
}

bool make_pipe(file_descriptor& reads, file_descriptor& writes) noexcept {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  reads.reset(ends[0]);
  writes.reset(ends[1]);
  return true;
}

void set_nonblocking(int end) noexcept {
  fcntl(end, F_SETFL, fcntl(end, F_GETFL) | O_NONBLOCK);
}

}  // namespace

/// The worker's ends.
struct decoder_process::pipes {
  file_descriptor to, from;
};

decoder_process::~decoder_process() {
  const std::scoped_lock lock(mutex_);
  end_locked();
}

std::string decoder_process::usual_program() {
  std::error_code failed;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", failed);
  return (own.parent_path() / "worker-orcd-decoder").string();
}

int decoder_process::process() const noexcept {
  const std::scoped_lock lock(mutex_);
  return process_;
}

result<void> decoder_process::start() {
  const std::scoped_lock lock(mutex_);
  return start_locked();
}

result<void> decoder_process::start_locked() {
  // A child that ends early must not end the worker by the pipe that it leaves.
  if (struct sigaction now{}; sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
    std::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return system_failure("socket");
  file_descriptor own(ends[0]), other(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  // dup2 onto itself would leave the descriptor to be closed.
  if (other.get() == decoder_socket) other.reset(fcntl(other.release(), F_DUPFD_CLOEXEC, decoder_socket + 1));
  posix_spawn_file_actions_adddup2(&actions, other.get(), decoder_socket);
  posix_spawn_file_actions_addclosefrom_np(&actions, decoder_socket + 1);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  // What the worker ignores would be ignored there, too, such as the alarm that ends a child.
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string name = "worker-orcd-decoder";
  std::array<char*, 2> arguments{name.data(), nullptr};
  std::array<char*, 1> environment{nullptr};  // it needs none of what the worker's may hold
  pid_t process = -1;
  errno =
      posix_spawn(&process, program_.c_str(), &actions, &attributes, arguments.data(), environment.data());
  const bool spawned = errno == 0;
  const error failure = system_failure(program_);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (!spawned) return failure;
  socket_ = std::move(own);
  process_ = process;
  return {};
}

/// It ends when its socket does.
void decoder_process::end_locked() noexcept {
  socket_.reset();
  if (process_ > 0) waitpid(process_, nullptr, 0);
  process_ = -1;
}

/// Has a child made; once more where the decoder has ended.
result<decoder_process::pipes> decoder_process::order(decode_order what) {
  file_descriptor file_in, file_out, answer_in, answer_out;
  if (!make_pipe(file_in, file_out) || !make_pipe(answer_in, answer_out))
    return error(errc::not_ready, "there are no descriptors left to decode a file with");
  set_nonblocking(file_out.get());
  set_nonblocking(answer_in.get());
  std::array<char, CMSG_SPACE(2 * sizeof(int))> room{};
  iovec part{&what, sizeof(what)};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  cmsghdr* const with = CMSG_FIRSTHDR(&message);
  with->cmsg_level = SOL_SOCKET;
  with->cmsg_type = SCM_RIGHTS;
  with->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const std::array<int, 2> given{file_in.get(), answer_out.get()};
  std::memcpy(CMSG_DATA(with), given.data(), sizeof(given));
  const std::scoped_lock lock(mutex_);
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (socket_ && sendmsg(socket_.get(), &message, MSG_NOSIGNAL) == sizeof(what))
      return pipes{std::move(file_out), std::move(answer_in)};
    end_locked();
    ++counts_.restarts;
    if (const auto again = start_locked(); !again) break;
  }
  return error(errc::not_ready, "the decoder of media does not run, and cannot be started again");
}

engine::decoder_counts decoder_process::counts() const noexcept {
  const std::scoped_lock lock(mutex_);
  return counts_;
}

template <class T, class Read>
result<T> decoder_process::run(const decode_order& what, std::span<const std::byte> file,
                               engine::decoded_files engine::decoder_counts::*kind, decode_time time,
                               const Read& read) {
  auto ends = order(what);
  if (!ends) return ends.error();
  const auto until = answer_time(time);
  const bool sent = write_all(ends->to.get(), file, until);
  ends->to.reset();
  const int from = ends->from.get();
  decode_answer head;
  std::optional<T> made;
  std::optional<error> refused;
  if (sent && read_all(from, bytes_of(head), until)) {
    if (head.status == decode_status::refused)
      refused = read_refusal(from, head, until);
    else
      made = read(from, head, until);
  }
  if (made && !is_at_end(from, until)) made.reset();
  const std::scoped_lock lock(mutex_);
  engine::decoded_files& counts = counts_.*kind;
  ++(made ? counts.decoded : refused ? counts.failed : counts.crashed);
  if (made) return std::move(*made);
  if (refused) return std::move(*refused);
  return error(errc::invalid_request, "cannot be decoded: its decoder ended, or took more than its time");
}

result<engine::picture> decoder_process::decode(std::span<const std::byte> file, std::uint64_t pixels_max) {
  const auto header = engine::read_image_header(file, pixels_max);
  if (!header) return header.error();
  engine::picture_size size{header->width, header->height};
  if (header->orientation >= 5) std::swap(size.width, size.height);
  // No more memory than this very picture needs.
  const decode_order what{decode_kind::picture, 0, header->pixels(), file.size()};
  const auto read = [&](int from, const decode_answer& head, clock::time_point until) {
    return read_pixels(from, head, size, until);
  };
  return run<engine::picture>(what, file, &engine::decoder_counts::pictures, picture_time, read);
}

result<engine::sound> decoder_process::decode_sound(std::span<const std::byte> file,
                                                    std::uint32_t seconds_max) {
  const auto header = engine::read_sound_header(file, seconds_max);
  if (!header) return header.error();
  const auto count = engine::resampled_count(header->samples, header->rate, engine::sound_rate);
  const std::uint64_t most = std::uint64_t{seconds_max} * engine::sound_rate;
  const decode_order what{decode_kind::sound, seconds_max, 0, file.size()};
  const auto read = [&](int from, const decode_answer& head, clock::time_point until) {
    return read_samples(from, head, count, most, until);
  };
  return run<engine::sound>(what, file, &engine::decoder_counts::sounds, sound_time, read);
}

}  // namespace orcd::app
