// What an engine says of the weights that it gives to others, and whether they are what another one would
// have loaded. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace orcd::app {

struct weights_record {
  std::string numerics{};  ///< what decides the bits that come of the weights, besides them
  std::string gpu{};       ///< UUID of the device; empty: the host's memory, or not known yet
  std::string files{};     ///< SHA-256 of the model's gguf_file::identity()
  std::string digest{};    ///< model_digest() of the same; empty: not known
  std::string pages{};     ///< how the KV cache is cut that comes with the weights; empty: there is none
  bool operator==(const weights_record&) const = default;
};

/// The digest of an engine's own files; nullopt: it was cancelled.
using digest_function = std::function<std::optional<std::string>()>;

/// Lines of a name and a value, for weights_record_of().
[[nodiscard]] std::string to_text(const weights_record& record);
/// Nullopt where it is not such a text, of this version.
[[nodiscard]] std::optional<weights_record> weights_record_of(std::string_view text);

/// What keeps an engine from using the weights of another one, as the end of a sentence about them; nullopt
/// if nothing does. The digest of its own files is asked for only if they are not the very same files: it
/// costs a second for each gigabyte.
[[nodiscard]] std::optional<std::string> difference(const weights_record& own, const weights_record& others,
                                                    const digest_function& own_digest);

}  // namespace orcd::app
