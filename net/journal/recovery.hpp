// What becomes of a connection whose engine has died: judged from its record in the journal and the kernel's
// counters. Reads memory that may hold anything. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "net/journal/journal.hpp"
#include "net/journal/journal_record.hpp"
#include "net/journal/socket_counters.hpp"

namespace orcd::net {

/// A connection as its engine left it.
struct recovered_connection {
  std::string unsent;               ///< bytes that hold and that the socket has not taken
  std::string input;                ///< received since the request's first byte, and not all of it used
  std::uint64_t request_bytes = 0;  ///< of `input`, those of the request; 0: it was still being read
  std::uint32_t flags = 0;          ///< journal_flags of the request
  bool served = false;              ///< it has had an answer to a request before this one
  std::uint32_t resumed = 0;        ///< engines that have died with it
  std::uint32_t ran = 0;            ///< of them, those that died while it ran
  request_origin origin{};
  std::vector<journal_event> told;  ///< what the output tells of, `unsent` included
};

enum class recovery_kind {
  fresh,    ///< nobody has read from it or written to it
  resumed,  ///< it goes on
  ended,    ///< its engine was done with it, and had not told the holder yet
  lost      ///< it cannot go on, and is closed
};

/// Whether a request is being answered, or read.
[[nodiscard]] inline bool in_request(const recovered_connection& c) noexcept {
  return (c.flags & (journal_answered | journal_closing)) == 0 && !c.input.empty();
}

struct recovery {
  recovery_kind kind = recovery_kind::lost;
  const char* why = "";   ///< of lost: a phrase for the log
  bool conflict = false;  ///< of lost: the record and the kernel contradict one another
  recovered_connection connection{};
};

/// `slot` and `serial` as the holder has them.
[[nodiscard]] recovery recover(const journal& from, std::uint32_t slot, std::uint64_t serial,
                               const socket_counters& counters);

}  // namespace orcd::net
