// worker-orcd-decoder: decodes pictures and sounds for a worker, which starts it. Of no use to anybody else.
#include <sys/socket.h>

#include <cstdio>
#include <string_view>

#include "app/console/one_line.hpp"
#include "app/decoder/decoder_protocol.hpp"
#include "app/decoder/run_decoder.hpp"
#include "app/version/version.hpp"

namespace {

constexpr const char* usage =
    "Usage: worker-orcd-decoder --help | --version\n"
    "Decodes pictures and sounds in processes that can do nothing else. A worker with --mmproj starts it; "
    "by\n"
    "itself it does nothing.\n";

bool was_started_by_a_worker() {
  int kind = 0;
  socklen_t size = sizeof(kind);
  const bool is_socket = getsockopt(orcd::app::decoder_socket, SOL_SOCKET, SO_TYPE, &kind, &size) == 0;
  return is_socket && kind == SOCK_SEQPACKET;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view word = argc == 2 ? argv[1] : "";
  if (word == "--version") {
    std::printf("worker-orcd-decoder %s\n", orcd::app::version());
    return 0;
  }
  if (word == "--help") {
    std::fputs(usage, stdout);
    return 0;
  }
  if (argc > 1 || !was_started_by_a_worker()) {
    using orcd::app::complaint;
    std::fputs(complaint("worker-orcd-decoder", "takes no orders by hand: a worker starts it").c_str(),
               stderr);
    return 2;
  }
  return orcd::app::run_decoder(orcd::app::decoder_socket);
}
