// The failover lock on real files, within one process and between processes. The names of the first five
// cases are those of the failover plan.
#include "net/failover/flock_lock.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <optional>

#include "test/support/wait_until.hpp"

namespace orcd::net {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

struct folder {
  folder() {
    std::string pattern = (fs::temp_directory_path() / "flock-XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  [[nodiscard]] std::string file() const { return path / "failover.lock"; }
  [[nodiscard]] std::string text() const {
    std::ifstream in(file());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path path;
};

/// A lock with an io_context of its own, as an engine has it.
struct engine_side {
  engine_side(const folder& at, const std::string& name, std::chrono::milliseconds poll = 0ms)
      : lock(io, {at.file(), name, poll, 5ms}) {}

  void acquire() {
    lock.acquire([this](const engine::result<void>& granted) { answer = granted; });
  }
  bool wait(std::chrono::milliseconds limit = 10s) {
    const auto until = clock::now() + limit;
    while (!answer && clock::now() < until) {
      io.restart();
      io.run_for(5ms);
    }
    return answer && answer->has_value();
  }
  boost::asio::io_context io;
  flock_lock lock;
  std::optional<engine::result<void>> answer;
};

bool is_free(const folder& at) {
  const int descriptor = ::open(at.file().c_str(), O_RDWR | O_CLOEXEC);
  const bool free = descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  if (descriptor >= 0) ::close(descriptor);
  return free;
}

/// Descriptors of this process that are open on the lock's file.
int openings(const folder& at) {
  int count = 0;
  for (const auto& one : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (fs::read_symlink(one.path(), gone) == at.file()) ++count;
  }
  return count;
}

/// Another process that holds the lock until it is killed. It says so by a byte on a pipe.
struct holder {
  explicit holder(const folder& at) {
    BOOST_REQUIRE(::pipe(pipe) == 0);
    pid = ::fork();
    if (pid == 0) {
      const int descriptor = ::open(at.file().c_str(), O_RDWR | O_CREAT, 0600);
      ::flock(descriptor, LOCK_EX);
      [[maybe_unused]] const auto said = ::write(pipe[1], "x", 1);
      for (;;) ::pause();
    }
    ::close(pipe[1]);
  }
  ~holder() {
    kill();
    ::close(pipe[0]);
  }
  bool holds() {
    char byte = 0;
    return ::read(pipe[0], &byte, 1) == 1;
  }
  bool holds_within(std::chrono::milliseconds limit) {
    pollfd ready{pipe[0], POLLIN, 0};
    return ::poll(&ready, 1, static_cast<int>(limit.count())) == 1 && holds();
  }
  void kill() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    pid = 0;
  }
  int pipe[2]{};
  pid_t pid = 0;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(failover_flock, folder)

BOOST_AUTO_TEST_CASE(test_acquire_release) {
  engine_side a(*this, "engine-0");
  a.acquire();
  BOOST_TEST_REQUIRE(a.wait());
  BOOST_TEST(text() == "engine-0");
  BOOST_TEST(!is_free(*this));
  a.lock.release();
  BOOST_TEST(is_free(*this));
}

BOOST_AUTO_TEST_CASE(test_two_engines_contention) {
  engine_side a(*this, "engine-0");
  engine_side b(*this, "engine-1");
  a.acquire();
  BOOST_TEST_REQUIRE(a.wait());
  b.acquire();
  BOOST_TEST(!b.wait(50ms));
  a.lock.release();
  BOOST_TEST(b.wait());
  BOOST_TEST(text() == "engine-1");
}

BOOST_AUTO_TEST_CASE(test_process_death_releases) {
  holder other(*this);
  BOOST_TEST_REQUIRE(other.holds());
  engine_side a(*this, "engine-0");
  a.acquire();
  BOOST_TEST(!a.wait(50ms));
  other.kill();
  BOOST_TEST(a.wait());
}

BOOST_AUTO_TEST_CASE(test_owner) {
  engine_side a(*this, "engine-a");
  engine_side b(*this, "engine-b");
  BOOST_TEST(b.lock.owner().empty());
  BOOST_TEST(!b.lock.is_taken());
  a.acquire();
  BOOST_TEST_REQUIRE(a.wait());
  BOOST_TEST(b.lock.owner() == "engine-a");
  BOOST_TEST(b.lock.is_taken());
  a.lock.release();
  BOOST_TEST(!b.lock.is_taken());
  BOOST_TEST(b.lock.owner() == "engine-a", "stale, which is allowed: the lock decides, not its text");
  std::ofstream(file()) << "  \n";
  BOOST_TEST(b.lock.owner().empty());
}

BOOST_AUTO_TEST_CASE(test_cross_process) {
  holder first(*this);
  BOOST_TEST_REQUIRE(first.holds());
  holder second(*this);
  engine_side mine(*this, "engine-2");
  mine.acquire();
  BOOST_TEST(!mine.wait(50ms));
  first.kill();
  // Whichever of the two is granted it, the other one waits until that one ends.
  const bool won = mine.wait(200ms);
  BOOST_TEST(second.holds_within(won ? 50ms : 10'000ms) != won);
  second.kill();
  BOOST_TEST((won || mine.wait()));
}

BOOST_AUTO_TEST_CASE(a_lock_that_polls_is_granted_too) {
  holder other(*this);
  BOOST_TEST_REQUIRE(other.holds());
  engine_side a(*this, "engine-0", 2ms);
  a.acquire();
  BOOST_TEST(!a.wait(30ms));
  other.kill();
  BOOST_TEST(a.wait());
}

BOOST_AUTO_TEST_CASE(who_waits_can_give_up) {
  for (const auto poll : {0ms, 2ms}) {
    holder other(*this);
    BOOST_TEST_REQUIRE(other.holds());
    engine_side a(*this, "engine-0", poll);
    a.acquire();
    BOOST_TEST(!a.wait(10ms));
    a.lock.release();
    other.kill();
    BOOST_TEST(!a.wait(30ms), "no handler is called after release()");
  }
  engine_side b(*this, "engine-1");
  b.acquire();
  BOOST_TEST(b.wait());
}

BOOST_AUTO_TEST_CASE(a_long_poll_is_given_up_at_once) {
  holder other(*this);
  BOOST_TEST_REQUIRE(other.holds());
  engine_side a(*this, "engine-0", 60s);
  a.acquire();
  orcd::test::wait_until([&] {
    BOOST_TEST(!a.wait(1ms));
    return openings(*this) >= 1;
  });
  const auto begun = clock::now();
  a.lock.release();
  BOOST_TEST((clock::now() - begun < 30s));
}

BOOST_AUTO_TEST_CASE(the_lock_is_held_before_anybody_is_told) {
  engine_side a(*this, "engine-0");
  BOOST_TEST(a.lock.held_for().count() == 0);
  a.acquire();
  orcd::test::wait_until([&] { return a.lock.held_for().count() > 0; }, "its io_context has not run");
  BOOST_TEST(!a.answer.has_value());
  a.lock.release();
  BOOST_TEST(a.lock.held_for().count() == 0);
  BOOST_TEST(is_free(*this), "a grant that nobody was told of is given back, too");
}

BOOST_AUTO_TEST_CASE(it_can_be_had_again) {
  engine_side a(*this, "engine-0");
  for (int i = 0; i < 3; ++i) {
    a.answer.reset();
    a.acquire();
    BOOST_TEST(a.wait());
    a.lock.release();
  }
}

BOOST_AUTO_TEST_CASE(a_file_that_is_replaced_meanwhile_gives_no_second_leader) {
  engine_side a(*this, "engine-0");
  engine_side b(*this, "engine-1");
  a.acquire();
  BOOST_TEST_REQUIRE(a.wait());
  b.acquire();
  orcd::test::wait_until([&] {
    BOOST_TEST(!b.wait(1ms));
    return openings(*this) >= 2;
  });
  fs::remove(file());
  engine_side c(*this, "engine-2");
  c.acquire();
  BOOST_TEST_REQUIRE(c.wait());
  a.lock.release();
  BOOST_TEST(!b.wait(50ms), "the lock of a file that is gone is no lock");
  c.lock.release();
  BOOST_TEST(b.wait());
}

BOOST_AUTO_TEST_CASE(a_lock_whose_file_is_gone_is_lost) {
  engine_side a(*this, "engine-0");
  std::optional<engine::error> lost;
  a.lock.on_lost([&](const engine::error& why) { lost = why; });
  a.acquire();
  BOOST_TEST_REQUIRE(a.wait());
  a.io.restart();
  a.io.run_for(30ms);
  BOOST_TEST(!lost.has_value());
  fs::remove(file());
  const auto until = clock::now() + 10s;
  while (!lost && clock::now() < until) {
    a.io.restart();
    a.io.run_for(5ms);
  }
  BOOST_TEST_REQUIRE(lost.has_value());
  BOOST_TEST(lost->message.find("deleted or replaced") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(it_lies_on_a_high_descriptor) {
  engine_side a(*this, "engine-0");
  a.acquire();
  BOOST_TEST_REQUIRE(a.wait());
  int highest = -1;
  struct stat wanted {};
  BOOST_TEST_REQUIRE(::stat(file().c_str(), &wanted) == 0);
  for (int descriptor = 0; descriptor < 1'024; ++descriptor) {
    struct stat found {};
    if (::fstat(descriptor, &found) == 0 && found.st_ino == wanted.st_ino && found.st_dev == wanted.st_dev) {
      highest = descriptor;
    }
  }
  BOOST_TEST(highest >= 900);
}

BOOST_AUTO_TEST_CASE(paths_that_can_be_no_lock) {
  const auto refused = [](const std::string& at) {
    boost::asio::io_context io;
    const auto checked = flock_lock(io, {at, "engine-0"}).check();
    return checked ? std::string() : checked.error().message;
  };
  BOOST_TEST(refused(path.string()).find("directory") != std::string::npos);
  BOOST_TEST(refused((path / "no" / "folder").string()).find("No such file") != std::string::npos);
  fs::create_symlink(file(), path / "link");
  BOOST_TEST(!refused((path / "link").string()).empty());
  BOOST_TEST_REQUIRE(::mkfifo((path / "pipe").c_str(), 0600) == 0);
  BOOST_TEST(refused((path / "pipe").string()).find("no plain file") != std::string::npos);
  BOOST_TEST(refused("/dev/null").find("no plain file") != std::string::npos);
  BOOST_TEST(refused(file()).empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::net
