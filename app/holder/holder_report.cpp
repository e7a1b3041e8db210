// How the holder and its engines are, for people who ask.
#include <algorithm>

#include "app/holder/holder.hpp"
#include "net/failover/peer.hpp"

namespace orcd::app {

net::listed_engine holder::describe(const client& one) const {
  using kind = net::listed_engine::kind;
  net::listed_engine out;
  out.engine = *one.engine;
  if (&one == active_) {
    out.state = kind::serves;
  } else if (one.standby) {
    out.state = kind::stands_by;
  } else if (one.has_served) {
    out.state = kind::leaves;
  }
  const bool beats = &one == active_ || one.standby;
  out.is_silent = beats && std::chrono::steady_clock::now() - one.beat_at > engine_silence;
  out.process = net::process_number(one.process.get()).value_or(0);
  out.system_port = one.system_port;
  return out;
}

net::engines_frame holder::list() const {
  net::engines_frame out{opts_.port, table_.size(), complete_, {}, journals_replaced_, closed_with_journals_};
  for (const auto& one : clients_) {
    if (one.engine && out.engines.size() < net::engine_ids) out.engines.push_back(describe(one));
  }
  std::sort(out.engines.begin(), out.engines.end(),
            [](const auto& first, const auto& second) { return first.engine < second.engine; });
  return out;
}

}  // namespace orcd::app
