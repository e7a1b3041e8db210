// What the bodies of the endpoints that embed and rank have in common: fields, texts, and how inputs are cut.
// Pure. Private to net/.
#pragma once

#include <boost/json/value.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "net/pooled/pooled_limits.hpp"

namespace orcd::net {

/// A text that is not empty, nor longer than a prompt may be.
[[nodiscard]] engine::result<std::string> read_pooled_text(std::string_view field,
                                                           const boost::json::value& value,
                                                           const pooled_limits& limits);

/// Refuses no entries and too many.
[[nodiscard]] engine::result<void> check_pooled_count(std::string_view field, std::size_t count);

/// The fields of every such body: model, user, timeout_ms, and those that say what becomes of long inputs.
class pooled_fields {
 public:
  explicit pooled_fields(const pooled_limits& limits) : limits_(limits) {}

  /// Takes a field; false where it is none of these.
  [[nodiscard]] engine::result<bool> take(std::string_view field, const boost::json::value& value);
  [[nodiscard]] std::optional<std::chrono::milliseconds> timeout() const noexcept { return timeout_; }
  /// A number of tokens, or a flag that means the context's. Refuses several that disagree.
  [[nodiscard]] engine::result<input_cut> cut() const;

 private:
  [[nodiscard]] engine::result<bool> take_cut(std::string_view field, const boost::json::value& value);
  [[nodiscard]] engine::result<void> take_side(std::string_view field, const boost::json::value& value);
  /// TEI's and Jina's flag, or a word of Cohere and NIM.
  [[nodiscard]] engine::result<void> take_truncate(std::string_view field, const boost::json::value& value);

  const pooled_limits& limits_;
  std::optional<std::chrono::milliseconds> timeout_;
  std::optional<std::int64_t> tokens_;
  std::optional<bool> whole_context_;  ///< inputs are cut to what it holds
  std::optional<bool> keeps_last_;
};

}  // namespace orcd::net
