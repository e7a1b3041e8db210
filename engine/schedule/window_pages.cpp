#include "engine/schedule/window_pages.hpp"

#include <algorithm>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

void window_pages::take(std::vector<kv_page>& out) {
  pool_.take(1, out);
  of(out.back()).jobs = 1;
  ++used_;
}

void window_pages::refer(std::span<const kv_page> pages, by whose) {
  for (const kv_page page : pages) {
    ORCD_ENSURE(!pool_.is_free(page));
    count& c = of(page);
    if (whose == by::boundary) {
      ++c.boundaries;
    } else if (c.jobs++ == 0) {
      ++used_;
    }
  }
}

void window_pages::let_go(std::span<const kv_page> pages, by whose, bool written) {
  freed_.clear();
  for (const kv_page page : pages) {
    count& c = of(page);
    std::uint32_t& own = whose == by::job ? c.jobs : c.boundaries;
    ORCD_ENSURE(own > 0);
    --own;
    if (whose == by::job && own == 0) --used_;
    if (c.jobs + c.boundaries == 0) freed_.push_back(page);
  }
  if (freed_.empty()) return;
  if (written) clear_(freed_);
  pool_.give(freed_);
}

bool window_pages::is_only_kept(std::span<const kv_page> pages) const noexcept {
  return std::any_of(pages.begin(), pages.end(),
                     [this](kv_page page) { return references_[static_cast<std::size_t>(page)].jobs == 0; });
}

}  // namespace orcd::engine
