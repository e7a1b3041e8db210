#include "net/jobs/write_order.hpp"

#include <string_view>
#include <utility>

#include "net/http/http_request.hpp"

namespace orcd::net {
namespace {

std::string question(const write_state& state) {
  if (!state.streams) return "HTTP/1.1 100 Continue\r\n\r\n";
  constexpr std::string_view comment = ":\n\n";
  return state.chunked ? chunk_of(comment, false) : std::string(comment);
}

}  // namespace

next_write plan_write(const write_state& state, std::string frames) {
  if (!state.writable) return {};
  if (state.over && !state.streams) return {.final_reply = true};
  next_write out;
  if (state.must_ask) out.bytes = question(state);
  if (!state.streams || (frames.empty() && !state.over)) return out;
  out.bytes += state.chunked ? chunk_of(frames, state.over) : std::move(frames);
  return out;
}

client_state judge_read(const write_state& state, bool end, bool failed, std::size_t buffered) noexcept {
  const bool can_ask = state.streams || state.chunked;
  if (end) return can_ask ? client_state::half_closed : client_state::gone;
  return failed || buffered > pipelined_bytes_max ? client_state::gone : client_state::present;
}

}  // namespace orcd::net
