// Who may use the holder's socket, whose pidfd is believed, and which socket file an engine trusts.
#include "net/failover/peer.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstring>

#include "net/failover/file_descriptor.hpp"
#include "test/support/only_root.hpp"
#include "test/support/temporary_directory.hpp"

using namespace orcd;
using net::file_descriptor;

namespace {

file_descriptor pidfd_of(pid_t process) {
  return file_descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
}

/// Both ends are of this process.
std::array<file_descriptor, 2> socket_pair() {
  std::array<int, 2> ends{};
  BOOST_TEST_REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return {file_descriptor(ends[0]), file_descriptor(ends[1])};
}

file_descriptor bound_at(const std::string& path) {
  file_descriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  BOOST_TEST_REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
                     0);
  return listener;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(peers)

BOOST_AUTO_TEST_CASE(a_member_by_a_supplementary_group_is_one) {
  const std::array<gid_t, 3> others{5, 70'000, 12};
  const net::peer_rule grouped{1'000, 12};
  BOOST_TEST(net::is_allowed(1'000, 1, {}, grouped));
  BOOST_TEST(net::is_allowed(2'000, 12, {}, grouped));
  BOOST_TEST(net::is_allowed(2'000, 1, others, grouped));
  BOOST_TEST(!net::is_allowed(2'000, 1, std::span(others).first(2), grouped));
  // Without a group nobody's groups count, whatever number stands for none.
  const net::peer_rule alone{1'000};
  const std::array<gid_t, 1> none{static_cast<gid_t>(-1)};
  BOOST_TEST(!net::is_allowed(2'000, none[0], none, alone));
}

BOOST_AUTO_TEST_CASE(what_fdinfo_says_of_a_pidfd) {
  BOOST_TEST((net::process_in("pos:\t0\nflags:\t02000002\nPid:\t4711\nNSpid:\t4711\n") == 4'711));
  BOOST_TEST((net::process_in("pos:\t0\nPid:\t-1\n") == -1));
  BOOST_TEST(!net::process_in("pos:\t0\nflags:\t0100002\nmnt_id:\t15\n").has_value());
  BOOST_TEST(!net::process_in("pos:\t0\nPid:\t").has_value());
  BOOST_TEST(!net::process_in("").has_value());
}

BOOST_AUTO_TEST_CASE(a_pidfd_is_believed_of_the_peer_alone) {
  BOOST_TEST(net::is_number_of(7, 7));
  BOOST_TEST(!net::is_number_of(7, 8));
  BOOST_TEST(!net::is_number_of(7, -1));
  BOOST_TEST(!net::is_number_of(7, std::nullopt));
  // Of another PID namespace: both have no number here.
  BOOST_TEST(net::is_number_of(0, 0));
  BOOST_TEST(!net::is_number_of(0, 8));
  BOOST_TEST(!net::is_number_of(7, 0));
}

BOOST_AUTO_TEST_CASE(the_kernel_is_asked) {
  const auto ends = socket_pair();
  BOOST_TEST(net::is_own_pidfd(ends[0].get(), pidfd_of(::getpid()).get()));
  BOOST_TEST(!net::is_own_pidfd(ends[0].get(), ends[1].get()));
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const auto other = pidfd_of(child);
  BOOST_TEST(!net::is_own_pidfd(ends[0].get(), other.get()));
  BOOST_TEST(net::is_same_process(other.get(), pidfd_of(child).get()));
  BOOST_TEST(!net::is_same_process(other.get(), pidfd_of(::getpid()).get()));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  BOOST_TEST(!net::is_own_pidfd(ends[0].get(), other.get()));
  BOOST_TEST(!net::is_same_process(other.get(), other.get()));  // nothing is known of it any more
  BOOST_TEST(net::is_allowed(ends[0].get(), {::geteuid()}));
  BOOST_TEST(!net::is_allowed(ends[0].get(), {::geteuid() + 1}));
}

BOOST_AUTO_TEST_CASE(whose_socket_file_is_trusted) {
  BOOST_TEST(net::is_trusted_owner(1'000, 1'000, 1'000));
  BOOST_TEST(net::is_trusted_owner(0, 1'000, 1'000));
  BOOST_TEST(net::is_trusted_owner(2'000, 2'000, 1'000));
  BOOST_TEST(!net::is_trusted_owner(3'000, 2'000, 1'000));
  const test::temporary_directory folder;
  const auto path = folder.file("connections.sock");
  BOOST_TEST(!net::check_owner(path).has_value());
  const file_descriptor listener = bound_at(path);
  BOOST_TEST(net::check_owner(path).has_value());
  // A link might lead to anybody's.
  const auto link = folder.file("link.sock");
  BOOST_TEST_REQUIRE(::symlink(path.c_str(), link.c_str()) == 0);
  BOOST_TEST(!net::check_owner(link).has_value());
}

BOOST_AUTO_TEST_CASE(a_strangers_socket_file_is_not_trusted, *boost::unit_test::precondition(test::is_root)) {
  const test::temporary_directory folder;
  const auto path = folder.file("connections.sock");
  const file_descriptor listener = bound_at(path);
  BOOST_TEST_REQUIRE(::chown(path.c_str(), 12'345, static_cast<gid_t>(-1)) == 0);
  const auto stranger = net::check_owner(path);
  BOOST_TEST_REQUIRE(!stranger.has_value());
  BOOST_TEST(stranger.error().message.find("12345") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
