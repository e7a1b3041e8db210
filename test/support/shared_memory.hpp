// Memory of a journal in this process, which engines of a test open one after the other.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "net/journal/journal.hpp"
#include "net/journal/layout.hpp"

namespace orcd::test {

/// Memory as the holder makes it.
class shared_memory {
 public:
  explicit shared_memory(std::uint32_t mebibytes) : bytes_(net::journal::bytes_of(mebibytes)) {
    net::journal::format(bytes_);
  }
  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }
  [[nodiscard]] net::journal open() {
    auto opened = net::journal::over(bytes_);
    BOOST_REQUIRE(opened.has_value());
    return std::move(*opened);
  }
  /// Of a place.
  [[nodiscard]] net::journal_layout::record& record(std::uint32_t slot) {
    return reinterpret_cast<net::journal_layout::record*>(bytes_.data() +
                                                          net::journal_layout::records_at)[slot];
  }
  /// Whatever was written into states has a right sum, as if an engine itself had gone wrong.
  void seal() {
    for (std::uint32_t slot = 0; slot < net::journal_records; ++slot) {
      auto& r = record(slot);
      if (r.serial == 0) continue;
      for (auto& s : r.states) s.sum = net::journal_layout::sum_of(s, r.serial);
    }
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace orcd::test
