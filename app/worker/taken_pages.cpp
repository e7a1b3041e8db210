#include "app/worker/taken_pages.hpp"

#include <utility>

namespace orcd::app {
namespace {

using engine::severity;

/// For the word of the holder that a process has ended: what the device does for it is over in a tenth of a
/// second.
constexpr std::chrono::seconds pages_limit{10};

}  // namespace

taken_pages::taken_pages(boost::asio::io_context& io, engine::narrator& narrator, hooks asked)
    : narrator_(narrator), asked_(std::move(asked)), timer_(io) {}

void taken_pages::take_over(const engine::page_ledger& ledger) {
  taken_at_ = clock::now();
  // The narrator takes lines of any thread.
  asked_.take(ledger, [&narrator = narrator_](std::uint32_t known, std::uint32_t closed) {
    narrator.narrate(severity::info, "pages_taken_over", "Goes on with the KV cache of the engine before",
                     {{"known", std::uint64_t{known}}, {"closed", std::uint64_t{closed}}});
  });
  timer_.expires_after(pages_limit);
  timer_.async_wait([this](const boost::system::error_code& failed) {
    if (failed) return;
    narrator_.narrate(severity::warning, "pages_not_told",
                      "Nobody says that the engine before has ended for good");
    open();
  });
}

void taken_pages::open() {
  if (taken_at_ == clock::time_point{}) return;
  const std::chrono::duration<double, std::milli> waited = clock::now() - std::exchange(taken_at_, {});
  narrator_.narrate(severity::info, "pages_open", "The engine before has ended for good",
                    {{"waited_ms", waited.count()}});
  timer_.cancel();
  asked_.open();
}

void taken_pages::forget() {
  taken_at_ = {};
  timer_.cancel();
}

}  // namespace orcd::app
