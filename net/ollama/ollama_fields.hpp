// The fields that POST /api/chat and POST /api/generate have in common. Private to net/.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/completion/completion_fields.hpp"

namespace orcd::net {

class ollama_fields {
 public:
  ollama_fields(completion_kind kind, const completion_limits& limits)
      : limits_(limits), shared_(kind, limits) {}

  /// Takes one field; null counts as absent. Refuses names that ollama does not have.
  [[nodiscard]] engine::result<void> take(std::string_view name, const boost::json::value& value);
  /// What the request has to be as one for /v1: its prompt is given here.
  [[nodiscard]] completion_fields& shared() noexcept { return shared_; }
  /// The request, once every field was taken.
  [[nodiscard]] engine::result<completion_request> finish() &&;

 private:
  using value_ref = const boost::json::value&;

  engine::result<void> take_model(value_ref value);
  engine::result<void> take_stream(value_ref value);
  engine::result<void> take_format(value_ref value);
  engine::result<void> take_think(value_ref value);
  engine::result<void> take_options(value_ref value);
  engine::result<void> take_option(std::string_view name, value_ref value);
  engine::result<void> take_num_predict(value_ref value);

  const completion_limits& limits_;
  completion_fields shared_;
  boost::json::object hints_;
  std::optional<std::uint32_t> max_tokens_;
  std::uint32_t top_logprobs_ = 0;
  bool logprobs_ = false;
  bool stream_ = true;
  bool has_format_ = false;
};

/// A refusal in ollama's names of fields.
[[nodiscard]] engine::error in_words_of_ollama(engine::error refusal);

}  // namespace orcd::net
