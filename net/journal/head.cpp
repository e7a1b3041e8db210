#include "net/journal/head.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "engine/base/ensure.hpp"
#include "net/journal/answer_identity.hpp"
#include "net/journal/layout.hpp"

namespace orcd::net {

using engine::errc;
using engine::error;
using engine::result;
namespace layout = journal_layout;

namespace {

/// The same in all formats from the third on.
struct stored_head {
  std::uint64_t magic;
  std::uint32_t places;
  std::uint32_t blocks;
  std::uint64_t bytes;  ///< of the memory
  std::uint64_t sum;    ///< of what is before it; never 0
};
static_assert(sizeof(stored_head) <= layout::marks_at);

constexpr std::uint64_t own_magic = 0x334C'4E52'4A44'4352;      // "RCDJRNL3"
constexpr std::uint64_t old_magic = own_magic - (1ULL << 56U);  // the second format's, without bytes and sum
constexpr std::uint64_t any_format = (1ULL << 56U) - 1;         // all of a magic but its last letter

std::uint64_t sum_of(const stored_head& head) {
  return number_of(std::string_view(reinterpret_cast<const char*>(&head), offsetof(stored_head, sum)));
}

stored_head head_of(std::size_t bytes) {
  stored_head head{own_magic, layout::places, layout::blocks_in(bytes), bytes, 0};
  head.sum = sum_of(head);
  return head;
}

bool is_same(const stored_head& a, const stored_head& b) noexcept {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

bool is_of_other_format(const stored_head& copy) {
  if (copy.magic == old_magic) {
    return copy.places == layout::places && copy.blocks > 0 && copy.bytes == 0 && copy.sum == 0;
  }
  return copy.magic != own_magic && (copy.magic & any_format) == (own_magic & any_format) &&
         copy.sum == sum_of(copy);
}

/// Where the copies begin.
std::array<std::size_t, 2> places_of(std::size_t bytes) noexcept {
  return {0, bytes - layout::page_bytes};
}

using copies = std::array<stored_head, 2>;

head_state judge(const copies& there, std::size_t bytes) {
  const stored_head right = head_of(bytes);
  const bool first = is_same(there[0], right);
  const bool second = is_same(there[1], right);
  if (right.blocks > 0 && (first || second))
    return first && second ? head_state::whole : head_state::one_spoilt;
  const bool other = is_of_other_format(there[0]) || is_of_other_format(there[1]);
  return other ? head_state::other_format : head_state::damaged;
}

}  // namespace

head_state look_at_head(std::span<const std::byte> memory) {
  copies there{};
  if (memory.size() >= 2 * layout::page_bytes) {
    const auto places = places_of(memory.size());
    for (std::size_t i = 0; i < there.size(); ++i) {
      std::memcpy(&there[i], memory.data() + places[i], sizeof(stored_head));
    }
  }
  return judge(there, memory.size());
}

result<head_state> look_at_head(int descriptor) {
  const auto failed = [] {
    return error(errc::worker_start_failed,
                 std::string("the journal cannot be read: ") + std::strerror(errno));
  };
  struct stat found {};
  if (::fstat(descriptor, &found) != 0) return failed();
  const auto bytes = static_cast<std::size_t>(found.st_size);
  copies there{};
  if (bytes < 2 * layout::page_bytes) return judge(there, bytes);
  const auto places = places_of(bytes);
  for (std::size_t i = 0; i < there.size(); ++i) {
    const auto got = ::pread(descriptor, &there[i], sizeof(stored_head), static_cast<off_t>(places[i]));
    if (got < 0) return failed();
  }
  return judge(there, bytes);
}

void write_head(std::span<std::byte> memory) {
  const stored_head right = head_of(memory.size());
  ORCD_ENSURE(right.blocks > 0);
  for (const std::size_t at : places_of(memory.size())) {
    std::byte* const copy = memory.data() + at;
    if (std::memcmp(copy, &right, sizeof right) != 0) std::memcpy(copy, &right, sizeof right);
    // Whatever ends the process between the two, one is whole.
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

}  // namespace orcd::net
