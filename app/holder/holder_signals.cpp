// What operators tell the holder by a signal, and engines by one of their own, reaches the engines here: by
// frames, since a process of another PID namespace cannot be signalled.
#include "app/holder/holder.hpp"

namespace orcd::app {

using engine::severity;
using kind = net::signal_frame::kind;

void holder::pass_on(kind what) {
  std::uint64_t told = 0;
  for (auto& one : clients_) {
    const bool is_meant = what == kind::hang_up ? one.engine.has_value() : &one == active_;
    if (!is_meant) continue;
    one.socket->send({0, net::signal_frame{what}});
    ++told;
  }
  const std::string_view name = what == kind::hang_up ? "SIGHUP" : "SIGUSR2";
  narrator_.narrate(told > 0 ? severity::info : severity::warning, "signal_passed",
                    "A signal is passed on to the engines that it is for",
                    {{"signal", name}, {"engines", told}});
}

/// The next one to serve must know what this one was told.
void holder::on_reloaded(const client& from) {
  for (auto& one : clients_) {
    if (one.engine && &one != &from) one.socket->send({0, net::signal_frame{kind::hang_up}});
  }
}

}  // namespace orcd::app
