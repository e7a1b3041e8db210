// Errors that are expected in normal operation, as values.
//
// A bad request, a damaged model file, a full queue: each is an `error` with one stable code and one sentence
// that names what was wrong, the limit and the value. Programmer errors use ensure.hpp; failures of the
// environment inside an accelerator use accelerator_failure. Source: M0-W-1500, WORK-3090.
#pragma once

#include <boost/assert/source_location.hpp>
#include <boost/system/result.hpp>
#include <boost/throw_exception.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace orcd::engine {

/// Stable error codes. code_name() gives the name that clients see; the HTTP status is chosen by net/.
enum class errc {
  invalid_request,
  unauthorized,
  forbidden,
  context_length_exceeded,
  payload_too_large,
  duplicate_job,
  conflict,  ///< what is asked for cannot be done while something else lasts
  queue_full,
  draining,
  not_ready,
  not_found,
  method_not_allowed,
  model_load_failed,
  insufficient_vram,
  vram_oom,
  cuda_error,
  inference_timeout,
  cancelled,
  worker_start_failed,
  engine_lost,     ///< the engine died with this request too often for it to be tried once more
  engine_changed,  ///< the engine died, and the one that took over would answer differently
  stale_weights,   ///< weights in memory are not those of this engine's model, or not intact
  weights_lost,    ///< whoever keeps the weights for several engines does not answer
  internal,
};

/// The wire name, for example "INVALID_REQUEST".
[[nodiscard]] std::string_view code_name(errc code) noexcept;

/// Whether a request that failed with this code may succeed later or elsewhere (WORK-3091).
[[nodiscard]] bool is_retriable(errc code) noexcept;

/// One expected failure. `param` names the offending request field or option, or is empty.
/// Not an aggregate: boost::system::result needs a default and a value constructor (Boost 1.81).
struct error {
  errc code = errc::internal;
  std::string message;
  std::string param;
  bool permanent = false;  ///< the same request can never succeed, whatever the code says

  error() = default;
  error(errc c, std::string text, std::string field = {})
      : code(c), message(std::move(text)), param(std::move(field)) {}
};

[[nodiscard]] inline bool is_retriable(const error& e) noexcept {
  return !e.permanent && is_retriable(e.code);
}

/// What result::value() throws; only tests and main() call value() on an unchecked result.
class error_exception : public std::runtime_error {
 public:
  explicit error_exception(const error& e) : std::runtime_error(e.message), code(e.code) {}
  errc code;
};

// Found by argument-dependent lookup by boost::system::result.
[[noreturn]] inline void throw_exception_from_error(const error& e, const boost::source_location&) {
  throw error_exception(e);
}

template <class T>
using result = boost::system::result<T, error>;

}  // namespace orcd::engine
