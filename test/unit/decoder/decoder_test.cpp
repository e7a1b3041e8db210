// Decoding of pictures: the pixels of Pillow, by a process that ends rather than do anything else.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "app/decoder/child_limits.hpp"
#include "app/decoder/decode_file.hpp"
#include "app/media/decoder_process.hpp"
#include "engine/base/sha256.hpp"

using namespace orcd;

namespace {

constexpr std::uint64_t pixels_max = 1'000'000;

std::string read(const std::string& name) {
  std::ifstream file(ORCD_TEST_DATA "/media/files/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

boost::json::array files() {
  return boost::json::parse(read("files.json")).as_array();
}

template <class Decode>
void check_pixels(const Decode& decode) {
  for (const auto& value : files()) {
    const auto& one = value.as_array();
    const std::string name(one[0].as_string());
    const std::string file = read(name);
    const auto made = decode(bytes_of(file));
    BOOST_REQUIRE_MESSAGE(made.has_value(), name << ": " << (made ? "" : made.error().message));
    BOOST_TEST(made->width == one[1].template to_number<std::uint32_t>(), name);
    BOOST_TEST(made->height == one[2].template to_number<std::uint32_t>(), name);
    const std::string digest = engine::sha256_of(std::as_bytes(std::span(made->rgb))).substr(0, 16);
    BOOST_TEST(digest == std::string_view(one[3].as_string()), name);
  }
}

/// How a child ends that is confined and then does something.
template <class Work>
int end_of_child(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    if (!app::confine_child(1ULL << 30U)) _exit(3);
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(media_decoder)

BOOST_AUTO_TEST_CASE(pixels_are_those_of_pillow) {
  check_pixels([](std::span<const std::byte> file) { return app::decode_file(file, pixels_max); });
}

BOOST_AUTO_TEST_CASE(damaged_files_are_refused) {
  for (const char* name : {"noise.png", "colour.jpg", "progressive.jpg", "lossy.webp", "lossless.webp"}) {
    std::string file = read(name);
    file.resize(file.size() * 3 / 4);
    const auto made = app::decode_file(bytes_of(file), pixels_max);
    BOOST_REQUIRE_MESSAGE(!made.has_value(), name);
    BOOST_TEST((made.error().code == engine::errc::invalid_request));
  }
  const auto large = app::decode_file(bytes_of(read("noise.png")), 100);
  BOOST_TEST(large.error().message.find("the limit is 100") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_confined_child_can_do_nothing_else) {
  if (!app::confines_calls) {
    BOOST_TEST_MESSAGE("SKIPPED (a sanitizer's runtime needs what is forbidden): a_confined_child");
    return;
  }
  const auto killed = [](int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS; };
  BOOST_TEST(end_of_child([] {}) == 0);
  BOOST_TEST(killed(end_of_child([] { static_cast<void>(::open("/etc/passwd", O_RDONLY)); })));
  BOOST_TEST(killed(end_of_child([] { static_cast<void>(::socket(AF_INET, SOCK_STREAM, 0)); })));
  BOOST_TEST(killed(end_of_child([] { ::execl("/bin/true", "true", nullptr); })));
  BOOST_TEST(killed(end_of_child([] { static_cast<void>(::fork()); })));
  BOOST_TEST(killed(end_of_child([] { ::kill(getppid(), 0); })));
}

BOOST_AUTO_TEST_CASE(the_process_gives_the_same_pixels) {
  app::decoder_process decoder(ORCD_DECODER);
  BOOST_REQUIRE(decoder.start().has_value());
  check_pixels([&](std::span<const std::byte> file) { return decoder.decode(file, pixels_max); });
  BOOST_TEST(decoder.counts().pictures.decoded == files().size());
  BOOST_TEST(decoder.counts().pictures.crashed == 0U);
}

BOOST_AUTO_TEST_CASE(several_at_once) {
  app::decoder_process decoder(ORCD_DECODER);
  BOOST_REQUIRE(decoder.start().has_value());
  const std::string file = read("progressive.jpg");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 5; ++n) static_cast<void>(decoder.decode(bytes_of(file), pixels_max));
    });
  }
  for (auto& thread : threads) thread.join();
  BOOST_TEST(decoder.counts().pictures.decoded == 20U);
}

BOOST_AUTO_TEST_CASE(a_decoder_that_was_killed_is_started_again) {
  app::decoder_process decoder(ORCD_DECODER);
  BOOST_REQUIRE(decoder.start().has_value());
  const std::string file = read("colour.jpg");
  BOOST_TEST(decoder.decode(bytes_of(file), pixels_max).has_value());
  ::kill(decoder.process(), SIGKILL);
  ::waitid(P_PID, static_cast<id_t>(decoder.process()), nullptr, WEXITED | WNOWAIT);
  BOOST_TEST(decoder.decode(bytes_of(file), pixels_max).has_value());
  BOOST_TEST(decoder.counts().restarts == 1U);
  const std::string broken = file.substr(0, file.size() / 2);
  BOOST_TEST(!decoder.decode(bytes_of(broken), pixels_max).has_value());
  BOOST_TEST(decoder.counts().pictures.failed == 1U);
}

BOOST_AUTO_TEST_CASE(a_program_that_is_not_there_is_named) {
  app::decoder_process decoder("/nowhere/worker-orcd-decoder");
  const auto started = decoder.start();
  BOOST_REQUIRE(!started.has_value());
  BOOST_TEST(started.error().message.find("/nowhere/worker-orcd-decoder") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
