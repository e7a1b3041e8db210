#include "test/kills/holder.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "net/journal/journal.hpp"

namespace orcd::kills {

using std::chrono::seconds;

namespace {

constexpr std::uint32_t journal_mib = 32;
/// Within this time an engine must reach its point; under a sanitizer everything takes longer.
constexpr seconds patience{120};

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "journal_kills: %s: %s\n", what, std::strerror(errno));
  std::exit(2);
}

net::file_descriptor shared_file(const char* name, std::size_t bytes) {
  net::file_descriptor made(::memfd_create(name, MFD_CLOEXEC));
  if (!made || ::ftruncate(made.get(), static_cast<off_t>(bytes)) != 0) give_up("memfd");
  return made;
}

void* map(int descriptor, std::size_t bytes) noexcept {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return at == MAP_FAILED ? nullptr : at;
}

const char* name_of(point where) {
  return point_names[static_cast<std::size_t>(where)].data();
}

}  // namespace

board* map_board(int descriptor) noexcept {
  return static_cast<board*>(map(descriptor, sizeof(board)));
}

holder::holder(std::uint32_t seed, std::uint32_t clients) : seed_(seed) {
  std::string name = "/tmp/journal_kills_XXXXXX";
  const net::file_descriptor lock(::mkostemp(name.data(), O_CLOEXEC));
  if (!lock) give_up("the lock file");
  lock_ = name;
  make_memory();
  listen();
  for (std::uint32_t n = 0; n < clients; ++n) {
    clients_.push_back(std::make_unique<client>(port_, n, seed, seen_));
  }
}

holder::~holder() {
  for (engine& one : engines_) {
    ::kill(one.process, SIGKILL);
    ::waitpid(one.process, nullptr, 0);
  }
  ::unlink(lock_.c_str());
  if (board_ != nullptr) ::munmap(board_, sizeof(board));
}

void holder::make_memory() {
  const std::size_t bytes = net::journal::bytes_of(journal_mib);
  journal_ = shared_file("journal", bytes);
  void* const at = map(journal_.get(), bytes);
  if (at == nullptr) give_up("the journal");
  net::journal::format({static_cast<std::byte*>(at), bytes});
  ::munmap(at, bytes);
  board_file_ = shared_file("board", sizeof(board));
  board_ = map_board(board_file_.get());
  if (board_ == nullptr) give_up("the board");
  new (board_) board();
}

void holder::listen() {
  listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&here), size) != 0 ||
      ::listen(listener_.get(), slots_max) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&here), &size) != 0) {
    give_up("the port");
  }
  port_ = ntohs(here.sin_port);
}

void holder::start_engine(point where, std::uint32_t passes, std::uint32_t instructions) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) give_up("socketpair");
  engine one;
  one.channel.reset(ends[0]);
  one.where = where;
  const net::file_descriptor other(ends[1]);
  const std::string numbers[] = {std::to_string(static_cast<unsigned>(where)), std::to_string(passes),
                                 std::to_string(instructions)};
  std::string word(engine_word);
  char* const words[] = {word.data(),
                         word.data(),
                         lock_.data(),
                         const_cast<char*>(numbers[0].c_str()),
                         const_cast<char*>(numbers[1].c_str()),
                         const_cast<char*>(numbers[2].c_str()),
                         nullptr};
  one.process = ::fork();
  if (one.process == 0) {
    // Beyond the numbers that they shall have, so that none is overwritten before it is copied.
    const int channel = ::fcntl(other.get(), F_DUPFD_CLOEXEC, 600);
    const int journal = ::fcntl(journal_.get(), F_DUPFD_CLOEXEC, 600);
    const int counts = ::fcntl(board_file_.get(), F_DUPFD_CLOEXEC, 600);
    ::dup2(channel, engine_channel);
    ::dup2(journal, engine_journal);
    ::dup2(counts, engine_board);
    ::execv("/proc/self/exe", words);
    ::_exit(126);
  }
  if (one.process < 0) give_up("fork");
  engines_.push_back(std::move(one));
}

bool holder::start_next(point where, std::mt19937& random) {
  const std::uint32_t draw =
      static_cast<std::uint32_t>(random()) % passes_max[static_cast<std::size_t>(where)];
  start_engine(where, 1 + draw, 1 + static_cast<std::uint32_t>(random()) % 400);
  engines_.back().lives = milliseconds(draw);
  return engines_.size() < 2 || await_death();
}

/// The next one to die is the one that has the lock. Which of those that wait gets it is the kernel's choice.
bool holder::await_death() {
  const auto begin = clock::now();
  while (clock::now() - begin < patience) {
    for (auto one = engines_.begin(); one != engines_.end(); ++one) {
      const bool due = one->serves != clock::time_point{} && clock::now() - one->serves >= one->lives;
      if (one->where == point::moment && due && board_->found_all == 1 && board_->under_way > 0)
        ::kill(one->process, SIGKILL);
      if (!is_dead(*one)) continue;
      bury(one);
      return true;
    }
    step();
  }
  for (const engine& one : engines_) {
    if (one.has_lock)
      std::fprintf(stderr, "journal_kills: an engine does not come to its point, '%s'\n", name_of(one.where));
  }
  return false;
}

/// What it said before its death holds; then comes the next one.
void holder::bury(std::deque<engine>::iterator dead) {
  const engine gone = std::move(*dead);
  engines_.erase(dead);
  while (const auto said = hear(gone.channel.get())) {
    if (said->told.what == word::closed) close(said->told);
  }
  judge_kills();
  unjudged_.push_back(gone.where);
  ++kills_;
  ++at_[static_cast<std::size_t>(gone.where)];
  if (engine* const next = with_lock()) hand_over(*next);
}

/// By what the engine found that has taken over since. One that died while it judged the connections may have
/// come to none of the answers; then the next one tells.
void holder::judge_kills() {
  const std::uint64_t found = board_->found_under_way;
  if (found == 0 && board_->found_all == 0) return;
  for (const point where : unjudged_) {
    least_ = std::min(least_, found);
    sum_ += found;
    if (found > 0) continue;
    ++missed_;
    std::fprintf(stderr, "journal_kills: a kill at '%s' hit no answer under way\n", name_of(where));
  }
  unjudged_.clear();
}

holder::engine* holder::with_lock() {
  const auto found = std::find_if(engines_.begin(), engines_.end(), [](const auto& e) { return e.has_lock; });
  return found == engines_.end() ? nullptr : &*found;
}

holder::engine* holder::serving() {
  const auto found = std::find_if(engines_.begin(), engines_.end(),
                                  [](const auto& e) { return e.serves != clock::time_point{}; });
  return found == engines_.end() ? nullptr : &*found;
}

/// Anything but the kill that it was started for ends the test.
bool holder::is_dead(engine& one) {
  int how = 0;
  if (::waitpid(one.process, &how, WNOHANG) != one.process) return false;
  if (WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL) return true;
  std::fprintf(stderr, "journal_kills: an engine for the point '%s' ended by itself, status %d\n",
               name_of(one.where), how);
  std::exit(1);
}

bool holder::finish() {
  if (!await_death()) return false;  // before the last one is there, which might get the lock instead
  for (auto& one : clients_) one->finish();
  start_engine(point::none, 1, 1);
  const auto begin = clock::now();
  const auto connected = [](const auto& one) { return one->is_connected(); };
  while (std::any_of(clients_.begin(), clients_.end(), connected)) {
    if (clock::now() - begin > patience) {
      std::fprintf(stderr, "journal_kills: the answers of the end do not come\n");
      return false;
    }
    step();
  }
  judge_kills();
  return true;
}

void holder::step() {
  const auto now = clock::now();
  for (auto& one : clients_) {
    one->connect(now);
    one->check_progress(now);
  }
  poll_all(now);
}

void holder::poll_all(clock::time_point now) {
  std::vector<pollfd> polled;
  const bool accepts = serving() != nullptr;
  polled.push_back({listener_.get(), static_cast<short>(accepts ? POLLIN : 0), 0});
  for (const engine& one : engines_) polled.push_back({one.channel.get(), POLLIN, 0});
  const std::size_t first = polled.size();
  for (const auto& one : clients_) polled.push_back({one->socket(), one->wanted(now), 0});
  ::poll(polled.data(), polled.size(), 1);
  for (std::size_t at = 0; at < clients_.size(); ++at) {
    if (polled[first + at].revents != 0) clients_[at]->move(polled[first + at].revents, now);
  }
  for (std::size_t at = 0; at < engines_.size(); ++at) {
    if ((polled[1 + at].revents & POLLIN) != 0) hear_engine(engines_[at]);
  }
  if ((polled[0].revents & POLLIN) != 0) accept_one();
}

void holder::hear_engine(engine& from) {
  const auto said = hear(from.channel.get());
  if (!said) return;
  if (said->told.what == word::closed) close(said->told);
  if (said->told.what != word::take_over) return;
  // It may have the lock before the death of the one before is known here.
  const bool alone = with_lock() == nullptr;
  from.has_lock = true;
  if (alone) hand_over(from);
}

void holder::hand_over(engine& to) {
  to.serves = clock::now();
  board_->under_way = board_->found_under_way = board_->found_all = 0;  // it writes there from here on
  for (std::uint32_t slot = 0; slot < slots_max; ++slot) {
    const held& one = held_[slot];
    if (one.serial != 0) tell(to.channel.get(), {word::inherited, slot, one.serial}, one.socket.get());
  }
  tell(to.channel.get(), {word::all, 0, 0});
}

/// An engine that is dead by then gets nothing: its successor finds the connection in the table.
void holder::accept_one() {
  net::file_descriptor taken(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const auto free = std::find_if(held_.begin(), held_.end(), [](const held& h) { return h.serial == 0; });
  if (!taken || free == held_.end()) return;
  free->serial = ++serials_;
  const int tiny = 2'048;
  if ((free->serial + seed_) % 2 == 0) {
    ::setsockopt(taken.get(), SOL_SOCKET, SO_SNDBUF, &tiny, sizeof tiny);
  }
  free->socket = std::move(taken);
  const auto slot = static_cast<std::uint32_t>(free - held_.begin());
  tell(serving()->channel.get(), {word::accepted, slot, free->serial}, free->socket.get());
}

void holder::close(const message& what) {
  if (what.slot >= slots_max || held_[what.slot].serial != what.serial) return;
  ::shutdown(held_[what.slot].socket.get(), SHUT_RDWR);
  held_[what.slot] = {};
}

}  // namespace orcd::kills
