#include "engine/schedule/page_pool.hpp"

#include "engine/base/ensure.hpp"

namespace orcd::engine {

page_pool::page_pool(std::uint32_t pages) : taken_(pages, false) {
  free_.reserve(pages);
  for (std::uint32_t i = pages; i-- > 0;) free_.push_back(static_cast<kv_page>(i));
}

void page_pool::take(std::uint32_t count, std::vector<kv_page>& out) {
  ORCD_ENSURE(count <= free());
  for (std::uint32_t i = 0; i < count; ++i) {
    const kv_page page = free_.back();
    free_.pop_back();
    taken_[static_cast<std::size_t>(page)] = true;
    out.push_back(page);
  }
}

void page_pool::take(std::span<const kv_page> pages) {
  for (const kv_page page : pages) {
    ORCD_ENSURE(is_free(page));
    taken_[static_cast<std::size_t>(page)] = true;
  }
  std::erase_if(free_, [this](kv_page page) { return !is_free(page); });
}

void page_pool::give(std::span<const kv_page> pages) {
  for (const kv_page page : pages) {
    const auto index = static_cast<std::size_t>(page);
    ORCD_ENSURE(page >= 0 && index < taken_.size() && taken_[index]);
    taken_[index] = false;
    free_.push_back(page);
  }
}

}  // namespace orcd::engine
