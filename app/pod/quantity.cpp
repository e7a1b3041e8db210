#include "app/pod/quantity.hpp"

#include <algorithm>

namespace orcd::app {

std::string times_quantity(std::string_view quantity, std::uint32_t factor) {
  const auto end = std::min(quantity.find_first_not_of("0123456789."), quantity.size());
  std::string out(quantity.substr(0, end));
  std::uint32_t carry = 0;
  for (auto digit = out.rbegin(); digit != out.rend(); ++digit) {
    if (*digit == '.') continue;
    const std::uint32_t product = static_cast<std::uint32_t>(*digit - '0') * factor + carry;
    *digit = static_cast<char>('0' + product % 10);
    carry = product / 10;
  }
  if (carry > 0) out.insert(out.begin(), static_cast<char>('0' + carry));
  return out + std::string(quantity.substr(end));
}

}  // namespace orcd::app
