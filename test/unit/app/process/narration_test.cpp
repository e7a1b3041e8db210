// The log as a whole, written into a pipe: order, levels, a reader that does not read.
#include "app/process/narration.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "test/support/wait_until.hpp"

namespace {

using namespace orcd;
using engine::severity;
namespace json = boost::json;

/// A pipe whose reading end never blocks.
struct log_pipe {
  log_pipe() {
    std::array<int, 2> ends{};
    BOOST_REQUIRE(::pipe(ends.data()) == 0);
    reader = ends[0];
    writer = ends[1];
    ::fcntl(reader, F_SETFL, O_NONBLOCK);
  }
  ~log_pipe() {
    ::close(reader);
    ::close(writer);
  }
  log_pipe(const log_pipe&) = delete;
  log_pipe& operator=(const log_pipe&) = delete;

  /// Everything written so far.
  std::string drain() const {
    std::string out;
    std::array<char, 65'536> buffer{};
    for (;;) {
      const auto got = ::read(reader, buffer.data(), buffer.size());
      if (got <= 0) return out;
      out.append(buffer.data(), static_cast<std::size_t>(got));
    }
  }

  int reader = -1;
  int writer = -1;
};

app::narration_config config_for(const log_pipe& pipe) {
  app::narration_config out;
  out.descriptor = pipe.writer;
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t start = 0; start < text.size();) {
    const auto end = text.find('\n', start);
    BOOST_REQUIRE(end != std::string::npos);
    out.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return out;
}

const app::narration_context context{"id", "model", -1};

}  // namespace

BOOST_AUTO_TEST_SUITE(narration)

BOOST_AUTO_TEST_CASE(events_come_out_in_order_with_their_fields) {
  const log_pipe pipe;
  {
    app::log_narrator log(config_for(pipe), context);
    for (std::int64_t i = 0; i < 100; ++i) log.narrate(severity::info, "tick", "A tick", {{"n", i}});
    log.flush();
    BOOST_TEST(lines_of(pipe.drain()).size() == 100U);
    log.narrate(severity::error, "error", "Last words", {{"code", std::string_view("INTERNAL")}});
  }
  // The destructor writes what is queued.
  const auto lines = lines_of(pipe.drain());
  BOOST_REQUIRE_EQUAL(lines.size(), 1U);
  const auto last = json::parse(lines[0]).as_object();
  BOOST_TEST(last.at("event").as_string() == "error");
  BOOST_TEST(last.at("code").as_string() == "INTERNAL");
  BOOST_TEST(last.at("worker_id").as_string() == "id");
}

BOOST_AUTO_TEST_CASE(lines_keep_their_order) {
  const log_pipe pipe;
  app::log_narrator log(config_for(pipe), context);
  for (std::int64_t i = 0; i < 200; ++i) log.narrate(severity::info, "tick", "A tick", {{"n", i}});
  log.flush();
  std::int64_t expected = 0;
  for (const auto& line : lines_of(pipe.drain()))
    BOOST_TEST(json::parse(line).at("n").as_int64() == expected++);
  BOOST_TEST(expected == 200);
}

BOOST_AUTO_TEST_CASE(events_below_the_level_are_not_written) {
  const log_pipe pipe;
  auto config = config_for(pipe);
  config.least = severity::warning;
  app::log_narrator log(config, context);
  log.narrate(severity::debug, "a", "");
  log.narrate(severity::info, "b", "");
  log.narrate(severity::warning, "c", "");
  log.narrate(severity::critical, "d", "");
  log.flush();
  BOOST_TEST(lines_of(pipe.drain()).size() == 2U);
}

BOOST_AUTO_TEST_CASE(the_caller_never_waits_for_the_reader_and_losses_are_counted_and_told) {
  const log_pipe pipe;
  app::log_narrator log(config_for(pipe), context);
  constexpr std::size_t events = 3 * app::log_narrator::queue_max;
  const std::string padding(200, 'x');
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < events; ++i) log.narrate(severity::info, "tick", padding);
  const auto took = std::chrono::steady_clock::now() - start;
  // 64 KiB of pipe and the queue hold far fewer than were narrated, and nobody has read yet.
  BOOST_TEST((took < std::chrono::seconds(10)));
  BOOST_TEST(log.dropped() > 0U);
  BOOST_TEST(log.dropped() < events);

  std::string text;
  std::thread flusher([&] {
    log.flush();
    log.narrate(severity::info, "after", "");
    log.flush();
  });
  const auto read = [&] { return (text += pipe.drain()).find("\"after\"") != std::string::npos; };
  test::wait_until(read, "the last line comes out");
  flusher.join();
  text += pipe.drain();
  std::uint64_t told = 0;
  std::uint64_t written = 0;
  for (const auto& line : lines_of(text)) {
    const auto object = json::parse(line).as_object();
    if (object.at("event").as_string() == "narration_dropped")
      told += object.at("dropped").to_number<std::uint64_t>();
    if (object.at("event").as_string() == "tick") ++written;
  }
  BOOST_TEST(told == log.dropped());
  BOOST_TEST(written + log.dropped() == events);
}

BOOST_AUTO_TEST_CASE(a_reader_that_is_gone_does_no_harm) {
  log_pipe pipe;
  std::array<int, 2> ends{};
  BOOST_REQUIRE(::pipe(ends.data()) == 0);
  ::close(ends[0]);
  auto config = config_for(pipe);
  config.descriptor = ends[1];
  {
    app::log_narrator log(config, context);
    std::signal(SIGPIPE, SIG_IGN);
    log.narrate(severity::info, "x", "");
    log.flush();
    BOOST_TEST(log.dropped() == 0U);
  }
  ::close(ends[1]);
}

BOOST_AUTO_TEST_CASE(two_logs_do_not_mix) {
  const log_pipe first;
  const log_pipe second;
  app::log_narrator one(config_for(first), {"one", "", 0});
  app::log_narrator two(config_for(second), {"two", "", 0});
  one.narrate(severity::info, "a", "");
  two.narrate(severity::info, "b", "");
  one.flush();
  two.flush();
  const auto lines = lines_of(first.drain());
  BOOST_REQUIRE_EQUAL(lines.size(), 1U);
  BOOST_TEST(json::parse(lines[0]).at("worker_id").as_string() == "one");
  BOOST_TEST(lines_of(second.drain()).size() == 1U);
}

BOOST_AUTO_TEST_CASE(threads_narrate_whole_lines) {
  const log_pipe pipe;
  app::log_narrator log(config_for(pipe), context);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log] {
      for (int i = 0; i < 50; ++i) log.narrate(severity::info, "tick", "A tick");
    });
  }
  for (auto& thread : threads) thread.join();
  log.flush();
  const auto lines = lines_of(pipe.drain());
  BOOST_TEST(lines.size() == 200U);
  for (const auto& line : lines) BOOST_TEST(json::parse(line).is_object());
}

BOOST_AUTO_TEST_CASE(the_journal_prefix_gives_the_priority) {
  const log_pipe pipe;
  auto config = config_for(pipe);
  config.journal_prefix = true;
  config.format = app::log_format::console;
  app::log_narrator log(config, context);
  log.narrate(severity::error, "error", "x");
  log.flush();
  BOOST_TEST(pipe.drain().substr(0, 3) == "<3>");
}

BOOST_AUTO_TEST_CASE(the_prefix_is_for_the_journal_alone) {
  for (const auto* stream : {"", "1:1"}) {
    BOOST_TEST(!app::make_narration_config(app::log_format::json, severity::info, stream).journal_prefix);
  }
}

BOOST_AUTO_TEST_SUITE_END()
