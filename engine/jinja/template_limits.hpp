// What callers of a chat template and its interpreter have to agree on: the limits on compiling and rendering
// one, and how it is given text of a model. A template comes with a model file or, where that is allowed,
// with a request: neither is trusted. Exceeding a limit is an error that names it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace orcd::engine {

struct template_limits {
  std::size_t source_bytes = 1U << 20U;   ///< the template itself
  std::size_t output_bytes = 4U << 20U;   ///< the rendered prompt
  std::size_t memory_bytes = 64U << 20U;  ///< the values of one rendering; also the compiled template
  /// One compilation or rendering, in the units of template_work.hpp, of about a nanosecond each. Work is
  /// counted and no clock is read, so that the same template and variables always have the same outcome.
  std::uint64_t work = 100'000'000;
  /// The limit of work of compile_quickly() and render_quickly().
  std::uint64_t quick_work = 1'000'000;
  std::uint32_t depth = 600;    ///< nested evaluation, macro calls and values
  std::uint32_t nesting = 120;  ///< nested brackets and blocks in the source
};

/// A member beside the `arguments` of a call: their JSON text, which may have been cut. A template sees the
/// object that it is, in the spelling of this text, and not this member.
inline constexpr std::string_view sent_arguments = "orcd_sent_arguments";

}  // namespace orcd::engine
