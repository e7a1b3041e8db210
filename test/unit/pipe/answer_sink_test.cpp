#include "app/pipe/answer_sink.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <csignal>

using namespace orcd;
using namespace orcd::app;

namespace {

/// A pipe and an eventfd.
struct descriptors {
  std::array<int, 2> ends{-1, -1};
  int wake = ::eventfd(0, EFD_NONBLOCK);

  descriptors() = default;
  descriptors(const descriptors&) = delete;
  descriptors& operator=(const descriptors&) = delete;
  ~descriptors() {
    for (const int descriptor : {ends[0], ends[1], wake}) {
      if (descriptor >= 0) ::close(descriptor);
    }
  }
};

/// With what was read from the pipe.
struct rig : descriptors {
  rig() {
    BOOST_REQUIRE(::pipe2(ends.data(), O_NONBLOCK) == 0 && wake >= 0);
    // Blocking for the writer, as a client's pipe is.
    BOOST_REQUIRE(::fcntl(ends[1], F_SETFL, 0) == 0);
    std::signal(SIGPIPE, SIG_IGN);
  }
  std::string read_all() const {
    std::string out;
    std::array<char, 4096> bytes;
    for (ssize_t count = 0; (count = ::read(ends[0], bytes.data(), bytes.size())) > 0;) {
      out.append(bytes.data(), static_cast<std::size_t>(count));
    }
    return out;
  }
  bool woken() const {
    std::uint64_t value = 0;
    return ::read(wake, &value, sizeof value) == sizeof value;
  }
};

engine::token_event token(engine::token_id id, engine::token_part part = engine::token_part::output) {
  return {id, 0, nullptr, part};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pipe_sinks)

BOOST_AUTO_TEST_CASE(events_become_lines) {
  const rig r;
  token_output out(r.ends[1]);
  answer_sink sink(answer(0, 9, limit_style::end_token, 10), 100, out, r.wake);
  sink.offer(engine::started_event{});
  sink.offer(token(7));
  BOOST_TEST(r.read_all() == "7\n");
  BOOST_TEST(!r.woken());
  sink.offer(token(8, engine::token_part::end));
  sink.offer(engine::end_event{});
  BOOST_TEST(r.read_all() == "8\n12\n");
  BOOST_TEST((sink.over() && r.woken() && !sink.failure()));
}

BOOST_AUTO_TEST_CASE(a_limit_and_a_full_context_end_with_an_end) {
  const rig r;
  token_output out(r.ends[1]);
  answer_sink limited(answer(2, 9, limit_style::end_token, 10), 100, out, r.wake);
  for (const engine::token_id id : {3, 4}) limited.offer(token(id));
  limited.offer(engine::end_event{engine::finish_reason::length, {}});
  BOOST_TEST(r.read_all() == "3\n9\n12\n");
  answer_sink full(answer(0, 9, limit_style::end_token, 10), 100, out, r.wake);
  full.offer(token(3));
  full.offer(engine::end_event{engine::finish_reason::length, {}});
  BOOST_TEST(r.read_all() == "3\n9\n11\n");
}

BOOST_AUTO_TEST_CASE(an_error_writes_no_line) {
  const rig r;
  token_output out(r.ends[1]);
  answer_sink sink(answer(0, 9, limit_style::end_token, 10), 100, out, r.wake);
  sink.offer(engine::error_event{engine::error(engine::errc::internal, "lost"), {}});
  BOOST_TEST(r.read_all() == "");
  BOOST_TEST(sink.over());
  BOOST_TEST(sink.failure().value().message == "lost");
}

BOOST_AUTO_TEST_CASE(what_a_full_pipe_does_not_take_is_kept_in_order) {
  const rig r;
  token_output out(r.ends[1]);
  std::string expected;
  std::uint64_t number = 1'000'000;
  while (!out.waits()) {
    BOOST_TEST_REQUIRE(expected.size() < (64U << 20U), "the pipe takes everything");
    expected += std::to_string(number) + "\n";
    out.line(number++);
  }
  for (int i = 0; i < 20'000; ++i) {
    expected += std::to_string(number) + "\n";
    out.line(number++);
  }
  std::string got;
  for (int i = 0; i < 1'000 && out.waits(); ++i) {
    got += r.read_all();
    out.flush();
  }
  got += r.read_all();
  BOOST_TEST(!out.waits());
  BOOST_TEST((got == expected));
  out.line(1);
  BOOST_TEST(r.read_all() == "1\n");
}

BOOST_AUTO_TEST_CASE(a_reader_that_has_gone_is_noticed) {
  rig r;
  token_output out(r.ends[1]);
  ::close(r.ends[0]);
  r.ends[0] = ::open("/dev/null", O_RDONLY);
  out.line(1);
  BOOST_TEST(out.broken());
  BOOST_TEST(!out.waits());
  out.line(2);
  out.flush();
  BOOST_TEST(!out.waits());
}

BOOST_AUTO_TEST_SUITE_END()
