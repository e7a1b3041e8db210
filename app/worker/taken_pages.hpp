// The pages of the engine before, where engines of a device share a KV cache: what it has computed is known
// at once; what it may still write to, until the system has ended all of it, is used later. io thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>

#include "engine/base/narration.hpp"
#include "engine/schedule/page_ledger.hpp"

namespace orcd::app {

class taken_pages {
 public:
  struct hooks {
    /// gpu_thread::take_over_pages(): `done` gets the pages that are known, and those that are closed.
    std::function<void(engine::page_ledger, std::function<void(std::uint32_t, std::uint32_t)> done)> take;
    std::function<void()> open;  ///< gpu_thread::open_pages()
  };

  taken_pages(boost::asio::io_context& io, engine::narrator& narrator, hooks asked);

  void take_over(const engine::page_ledger& ledger);
  /// The engine before has ended for good; nothing where no pages wait for that.
  void open();
  /// The pages are another engine's again: nothing is to be opened.
  void forget();

 private:
  using clock = std::chrono::steady_clock;

  engine::narrator& narrator_;
  const hooks asked_;
  boost::asio::steady_timer timer_;  ///< until they are used without anybody's word
  clock::time_point taken_at_{};     ///< epoch: nothing waits
};

}  // namespace orcd::app
