#include "app/pipe/answer_sink.hpp"

#include <unistd.h>

#include <utility>
#include <variant>

namespace orcd::app {

answer_sink::answer_sink(answer begun, std::uint32_t tokens_max, token_output& out, int wake)
    : answer_(std::move(begun)), out_(out), wake_(wake) {
  answer_.reserve(std::size_t{tokens_max} + 1);
}

void answer_sink::offer(const engine::job_event& event) noexcept {
  if (const auto* token = std::get_if<engine::token_event>(&event)) {
    const bool ends = token->part == engine::token_part::end;
    out_.line(static_cast<std::uint64_t>(ends ? answer_.generated_end(token->token)
                                              : answer_.generated(token->token)));
    if (out_.waits()) wake_main();
    return;
  }
  if (const auto* failed = std::get_if<engine::error_event>(&event)) {
    failure_ = failed->failure;
  } else if (std::holds_alternative<engine::end_event>(event)) {
    if (const auto end = answer_.over()) out_.line(static_cast<std::uint64_t>(*end));
    out_.line(answer_.kv_position());
  } else {
    return;
  }
  over_ = true;
  wake_main();
}

void answer_sink::wake_main() const noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof one);
}

}  // namespace orcd::app
