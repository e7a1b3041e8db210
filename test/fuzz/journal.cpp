// A journal that is spoilt anywhere: reading it and going on with what it tells ends in lost connections,
// never in a crash or in a read outside. Each six bytes of input are a place and a value. Of an even number
// of bytes the sums are right all the same, as of an engine that has gone wrong itself.
#include "net/journal/journal.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/ensure.hpp"
#include "net/journal/head.hpp"
#include "net/journal/journal_record.hpp"
#include "net/journal/recovery.hpp"

namespace {

using namespace orcd::net;

constexpr std::uint32_t slots = 3;

/// A journal as an engine leaves it that has died with three connections in hand.
std::vector<std::byte> left_behind() {
  std::vector<std::byte> memory(journal::bytes_of(2)), at_death;
  journal::format(memory);
  auto opened = journal::over(memory);
  ORCD_ENSURE(opened.has_value());
  std::vector<std::unique_ptr<journal_record>> records;
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    records.push_back(std::make_unique<journal_record>(*opened, slot, slot + 1));
    auto& record = *records.back();
    record.begin_request({});
    for (int part = 0; part < 3; ++part) {
      const auto space = record.input_space();
      std::memset(space.data(), 'a', space.size());
      record.input_received(space.size());
    }
    record.end_of_request(10);
    for (int token = 0; token < 3'000; ++token) record.event({0, journal_event::kind::token, token});
    record.output(std::string(20'000, 'b'), journal_head);
  }
  at_death = memory;
  return at_death;
}

void seal(std::vector<std::byte>& memory) {
  auto* const records = reinterpret_cast<journal_layout::record*>(memory.data() + journal_layout::records_at);
  for (std::uint32_t slot = 0; slot <= slots; ++slot) {
    for (auto& state : records[slot].states) {
      state.sum = journal_layout::sum_of(state, records[slot].serial);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto whole = left_behind();
  static auto memory = whole;
  memory = whole;
  for (std::size_t i = 0; i + 6 <= size && i < 600; i += 6) {
    std::uint32_t at = 0;
    std::memcpy(&at, data + i, 4);
    std::uint16_t value = 0;
    std::memcpy(&value, data + i + 4, 2);
    std::memcpy(memory.data() + at % (memory.size() - 1), &value, 2);
  }
  if (size % 2 == 0) seal(memory);
  auto opened = journal::over(memory);
  ORCD_ENSURE(opened.has_value() == (look_at_head(memory) == head_state::whole));
  if (!opened) return 0;
  const socket_counters counters{48 * 1024, 11'000};
  for (std::uint32_t slot = 0; slot <= slots; ++slot) {
    const auto found = recover(*opened, slot, slot + 1, counters);
    ORCD_ENSURE(found.connection.input.size() <= memory.size());
    ORCD_ENSURE(found.connection.request_bytes <= found.connection.input.size());
    if (found.kind != recovery_kind::resumed) {
      opened->forget(slot);
      continue;
    }
    journal_record on(journal_record::taken_over{}, *opened, slot, counters.received);
    on.event({0, journal_event::kind::token, 1});
    on.output("more", 0);
    const auto space = on.input_space();
    on.input_received(space.size());
    on.begin_request("next");
  }
  return 0;
}
