#include <algorithm>
#include <map>

#include "engine/text/unicode_tables.hpp"

namespace orcd::engine {

const unicode_table& unicode_table::instance() {
  static const unicode_table table;
  return table;
}

unicode_table::unicode_table() {
  using block = std::array<std::uint16_t, block_size>;
  std::map<block, std::uint16_t> known;
  std::size_t range = 0;
  for (std::size_t b = 0; b < block_of_.size(); ++b) {
    block current;
    for (std::size_t i = 0; i < block_size; ++i) {
      const std::size_t code = b * block_size + i;
      if (range + 1 < unicode_range_count && unicode_ranges[range + 1].first == code) ++range;
      current[i] = unicode_ranges[range].classes;
    }
    const auto [at, added] = known.try_emplace(current, static_cast<std::uint16_t>(known.size()));
    if (added) blocks_.insert(blocks_.end(), current.begin(), current.end());
    block_of_[b] = at->second;
  }
  std::copy_n(blocks_.begin(), ascii_.size(), ascii_.begin());
}

}  // namespace orcd::engine
