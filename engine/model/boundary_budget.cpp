#include "engine/model/boundary_budget.hpp"

#include <charconv>

namespace orcd::engine {
namespace {

std::optional<std::uint64_t> whole_number(std::string_view text, std::uint64_t most) noexcept {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

}  // namespace

std::optional<boundary_budget> parse_boundary_budget(std::string_view text) noexcept {
  if (!text.ends_with('%')) {
    const auto mib = whole_number(text, 16'777'216);
    if (!mib) return std::nullopt;
    return boundary_budget{.bytes = *mib << 20U};
  }
  text.remove_suffix(1);
  const auto point = text.find('.');
  const auto whole = whole_number(text.substr(0, point), 100);
  std::uint64_t tenths = 0;
  if (point != std::string_view::npos) {
    const auto given = whole_number(text.substr(point + 1), 9);
    if (!given || text.size() != point + 2) return std::nullopt;
    tenths = *given;
  }
  if (!whole || *whole * 10 + tenths > 1'000) return std::nullopt;
  return boundary_budget{.thousandths = static_cast<std::uint32_t>(*whole * 10 + tenths)};
}

}  // namespace orcd::engine
