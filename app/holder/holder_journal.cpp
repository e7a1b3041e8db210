// A journal that nobody can read, as after a stray write of an engine that died: the holder makes another
// one, and the connections that only the old one could tell of are over.
#include <string>
#include <utility>

#include "app/holder/holder.hpp"
#include "app/holder/journal_damage.hpp"
#include "app/holder/shared_files.hpp"

namespace orcd::app {

using engine::severity;

/// A refusal says nothing to the engine: it finds the same journal when it asks for the connections again.
void holder::on_journal_damaged(const client& from) {
  const auto head = net::look_at_head(journal_.get());
  const journal_damage told{&from == active_, from.settled, complete_, head ? *head : net::head_state::whole};
  const auto leave = [&](const std::string& why) {
    narrator_.narrate(severity::warning, "journal_stays", "An engine cannot read the journal: " + why,
                      {{"engine_id", std::uint64_t{*from.engine}}});
  };
  if (fate_of_journal(told) == journal_fate::stays) return leave("another one may");
  auto made = make_journal(opts_.journal_mib);
  if (!made) return leave(made.error().message);
  journal_ = std::move(*made);
  const auto closed = close_journalled();
  ++journals_replaced_;
  closed_with_journals_ += closed;
  narrator_.narrate(severity::error, "journal_replaced",
                    "Nobody could read the journal of connections: they are closed, and there is a new one",
                    {{"engine_id", std::uint64_t{*from.engine}},
                     {"connections_closed", std::uint64_t{closed}},
                     {"connections", std::uint64_t{table_.size()}}});
  for (auto& one : clients_) {
    if (one.engine) welcome(one);
  }
  store_all();
}

std::uint32_t holder::close_journalled() {
  std::uint32_t closed = 0;
  for (const auto& one : table_.all()) {
    const auto moved = net::read_counters(one.socket);
    if (moved && needs_no_journal(*moved)) continue;
    closed += table_.close(one.place) ? 1U : 0U;
  }
  return closed;
}

}  // namespace orcd::app
