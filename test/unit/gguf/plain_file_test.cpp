// Files that somebody named: plain ones are read, all others are refused at once.
#include "engine/base/plain_file.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "test/support/temporary_directory.hpp"

namespace orcd::engine {
namespace {

struct named_file {
  test::temporary_directory directory;
  std::string path = directory.file("named");

  void put(const std::string& text) const { std::ofstream(path, std::ios::binary) << text; }
};

std::string why(const result<std::string>& read) {
  return read ? "it was read" : read.error().message;
}

/// Makes a socket's file.
void bind_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  BOOST_TEST_REQUIRE(path.size() < sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  const file_descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  BOOST_TEST_REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
}

BOOST_FIXTURE_TEST_SUITE(plain_files, named_file)

BOOST_AUTO_TEST_CASE(whole_files_up_to_a_limit) {
  put("twelve bytes");
  BOOST_TEST(read_plain_file(path, 12).value() == "twelve bytes");
  BOOST_TEST(why(read_plain_file(path, 11)) == "is larger than the limit of 11 bytes");
  put("");
  BOOST_TEST(read_plain_file(path, 1).value() == "");
  const std::string long_text(300'000, 'x');
  put(long_text);
  BOOST_TEST((read_plain_file(path, 1U << 20U).value() == long_text));
}

BOOST_AUTO_TEST_CASE(beginnings) {
  put("twelve bytes");
  BOOST_TEST(read_beginning(path, 6).value() == "twelve");
  BOOST_TEST(read_beginning(path, 12).value() == "twelve bytes");
  BOOST_TEST(read_beginning(path, 1'000).value() == "twelve bytes");
}

BOOST_AUTO_TEST_CASE(files_that_do_not_tell_their_size) {
  BOOST_TEST(read_plain_file("/proc/self/status", 1U << 20U).value().find("Pid:") != std::string::npos);
  BOOST_TEST(why(read_plain_file("/proc/self/status", 10)) == "is larger than the limit of 10 bytes");
}

// Without a writer an open that waits would never return.
BOOST_AUTO_TEST_CASE(pipes_are_refused_at_once) {
  BOOST_TEST_REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  BOOST_TEST(why(read_plain_file(path, 10)) == "is a pipe; it must be a plain file");
  BOOST_TEST(why(read_beginning(path, 10)) == "is a pipe; it must be a plain file");
  const std::string link = directory.file("link");
  std::filesystem::create_symlink(path, link);
  BOOST_TEST(why(read_plain_file(link, 10)) == "is a pipe; it must be a plain file");
}

BOOST_AUTO_TEST_CASE(all_that_is_no_file_is_named) {
  BOOST_TEST(why(read_plain_file(path, 10)) == "cannot be opened: No such file or directory");
  BOOST_TEST(why(read_plain_file(directory.path(), 10)) == "is a directory; it must be a plain file");
  BOOST_TEST(why(read_plain_file("/dev/zero", 10)) == "is a device; it must be a plain file");
  bind_to(path);
  BOOST_TEST(why(read_plain_file(path, 10)).starts_with("cannot be opened: "));
}

BOOST_AUTO_TEST_CASE(links_are_followed) {
  put("text");
  const std::string link = directory.file("link");
  std::filesystem::create_symlink(path, link);
  BOOST_TEST(read_plain_file(link, 10).value() == "text");
}

BOOST_AUTO_TEST_CASE(a_program_that_is_started_does_not_get_the_descriptor) {
  put("text");
  const auto opened = open_plain_file(path);
  BOOST_TEST_REQUIRE(opened.has_value());
  BOOST_TEST((::fcntl(opened->get(), F_GETFD) & FD_CLOEXEC) != 0);
}

BOOST_AUTO_TEST_CASE(what_another_call_has_opened) {
  put("text");
  BOOST_TEST(plain_file_of(::open(path.c_str(), O_RDONLY | O_CLOEXEC)).has_value());
  BOOST_TEST(plain_file_of(::open("/dev/null", O_RDONLY | O_CLOEXEC)).error().message ==
             "is a device; it must be a plain file");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::engine
