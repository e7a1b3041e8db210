#include "net/jobs/reading_plan.hpp"

namespace orcd::net {

namespace {

/// A ranking tokenizes its query once for each document, so that its cost does not follow from its size.
bool ranks(endpoint target) noexcept {
  return target == endpoint::rerank || target == endpoint::score;
}

}  // namespace

bool is_read_at_once(endpoint target, std::size_t body_bytes) noexcept {
  if (ranks(target)) return false;
  // Rendering is all that it does, and it may take long.
  if (target == endpoint::apply_template) return false;
  return body_bytes <= read_at_once_bytes_max;
}

task_length reading_length(endpoint target, std::size_t body_bytes) noexcept {
  const auto most = ranks(target) ? ranked_briefly_bytes_max : read_briefly_bytes_max;
  return body_bytes <= most ? task_length::brief : task_length::lengthy;
}

}  // namespace orcd::net
