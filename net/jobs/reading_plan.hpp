// Which bodies are read on the io thread. Reading is all that a handler does before a job is submitted or an
// answer is ready: parsing, checking, rendering, tokenizing. On the io thread it may take about a millisecond
// whatever the body holds, because every other connection waits meanwhile. Pure. Private to net/.
#pragma once

#include <cstddef>
#include <string_view>

#include "net/http/routes.hpp"
#include "net/jobs/background_queue.hpp"

namespace orcd::net {

/// Bodies up to this size are read on the io thread. The costliest text takes 160 ns a byte to tokenize (a
/// run of spaces), and a system message is tokenized twice.
constexpr std::size_t read_at_once_bytes_max = 4 * 1024;
/// Bodies up to this size take some 20 ms to read, so that they are brief background tasks. A ranking
/// tokenizes its query once for each document, so that its limit is lower.
constexpr std::size_t read_briefly_bytes_max = 128 * 1024;
constexpr std::size_t ranked_briefly_bytes_max = 2 * 1024;

/// Whether a body of this size is read on the io thread.
[[nodiscard]] bool is_read_at_once(endpoint target, std::size_t body_bytes) noexcept;

/// How long such a body takes to read in the background.
[[nodiscard]] task_length reading_length(endpoint target, std::size_t body_bytes) noexcept;

/// Whether a body may have pictures or sounds, which take longer than its size says. One that spells
/// printable characters of ASCII as escapes, as hardly any client does, may.
[[nodiscard]] bool may_have_media(std::string_view body) noexcept;

}  // namespace orcd::net
