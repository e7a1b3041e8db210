// What a child that decodes a stranger's bytes may do: read, write, take and give memory, and end. Every
// other system call ends it (SECCOMP_RET_KILL_PROCESS).
#pragma once

#include <cstdint>

#include "app/decoder/decoder_protocol.hpp"

namespace orcd::app {

// A sanitizer's runtime maps terabytes, and makes calls when a process ends that nothing else makes: under
// one a child is confined in its time alone.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool confines_calls = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool confines_calls = false;
#else
inline constexpr bool confines_calls = true;
#endif
#else
inline constexpr bool confines_calls = true;
#endif

/// Limits of memory, time and descriptors, and then the filter. False where the system has no filters: then
/// nothing may be decoded. Cannot be undone.
[[nodiscard]] bool confine_child(std::uint64_t memory_bytes, decode_time time = picture_time) noexcept;

}  // namespace orcd::app
