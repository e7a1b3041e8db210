// Engines that are killed at chosen points while clients read, and what the clients saw of it.
//
//   journal_kills [--kills 100] [--connections 24] [--seed N] [--point NAME]
//
// Engines are processes, killed by SIGKILL; the connections are TCP on the loopback, half of them with tiny
// buffers, a third of the clients read slowly; a holder has a duplicate of each socket and passes it on by
// SCM_RIGHTS. The engine decides with net::takeover, as the worker does. Exit code 1: a byte was wrong, or a
// connection lost or refused, or journal and kernel contradicted one another, or a kill hit no answer under
// way, of which the client has been told some tokens and not the last ones.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "test/kills/engine.hpp"
#include "test/kills/holder.hpp"

namespace orcd::kills {
namespace {

int run_as_engine(char** words) {
  engine_start start;
  start.lock = words[0];
  start.channel = engine_channel;
  start.journal = engine_journal;
  start.counts = map_board(engine_board);
  const auto number = [&](int at) {
    return static_cast<std::uint32_t>(std::strtoul(words[at], nullptr, 10));
  };
  if (start.counts == nullptr) return 2;
  start.end = {static_cast<point>(number(1)), number(2), number(3), &start.counts->under_way};
  return run_engine(std::move(start));
}

struct choice {
  std::uint32_t kills = 100;
  std::uint32_t connections = 24;
  std::uint32_t seed = std::random_device{}();
  std::vector<point> at;
};

bool parse(int count, char** words, choice& out) {
  std::string_view only;
  for (int at = 1; at + 1 < count; at += 2) {
    const std::string_view name = words[at];
    const auto value = static_cast<std::uint32_t>(std::strtoul(words[at + 1], nullptr, 10));
    if (name == "--kills") out.kills = value;
    if (name == "--connections") out.connections = value;
    if (name == "--seed") out.seed = value;
    if (name == "--point") only = words[at + 1];
  }
  for (std::size_t at = 0; at < points; ++at) {
    if (static_cast<point>(at) == point::instruction && !has_instructions) continue;
    if (only.empty() || point_names[at] == only) out.at.push_back(static_cast<point>(at));
  }
  const bool right = count % 2 == 1 && !out.at.empty() && out.kills > 0 && out.connections > 0 &&
                     out.connections <= slots_max / 2;
  if (!right) std::fprintf(stderr, "journal_kills: see the head of test/kills/main.cpp\n");
  return right;
}

int report(const holder& all, const choice& chosen) {
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  const board& b = all.counts();
  const verdicts& v = all.seen();
  for (const point at : chosen.at) {
    std::printf("  %-18s %u kills\n", point_names[static_cast<std::size_t>(at)].data(), all.kills_at(at));
  }
  if (!has_instructions) std::printf("  any instruction    not in this build\n");
  std::printf("%u kills, seed %u\n", all.kills(), chosen.seed);
  std::printf("connections: %llu, of which engines took over %llu, %llu of them in a request\n",
              number(v.connections), number(b.taken_over), number(b.in_request));
  std::printf("answers: %llu, %llu bytes\n", number(v.answers), number(v.bytes));
  std::printf("ambiguities resolved: %llu of sending, %llu of reading; %llu with output to send again\n",
              number(b.sent_ambiguities), number(b.read_ambiguities), number(b.unsent));
  const std::uint64_t lost = v.lost + b.lost;
  std::printf("wrong %llu, lost %llu, refused %llu, conflicts %llu, wrong records %llu\n", number(v.wrong),
              number(lost), number(v.refused), number(b.conflicts), number(b.wrong_facts));
  std::printf("answers under way at a kill: %llu on average, at least %llu; kills that hit none: %u\n",
              number(all.under_way_mean()), number(all.under_way_least()), all.kills_that_missed());
  return v.wrong + lost + v.refused + b.conflicts + b.wrong_facts + all.kills_that_missed() == 0 ? 0 : 1;
}

int run(const choice& chosen) {
  holder all(chosen.seed, chosen.connections);
  std::mt19937 random(chosen.seed);
  for (std::uint32_t n = 0; n < chosen.kills; ++n) {
    if (!all.start_next(chosen.at[n % chosen.at.size()], random)) return 1;
  }
  if (!all.finish()) return 1;
  return report(all, chosen);
}

}  // namespace
}  // namespace orcd::kills

int main(int count, char** words) {
  using namespace orcd::kills;
  if (count == 6 && std::string_view(words[1]) == engine_word) return run_as_engine(words + 2);
  choice chosen;
  if (!parse(count, words, chosen)) return 2;
  std::printf("journal_kills --kills %u --connections %u --seed %u\n", chosen.kills, chosen.connections,
              chosen.seed);
  std::fflush(stdout);
  return run(chosen);
}
