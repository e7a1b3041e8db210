#include "net/json/request_fields.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <optional>
#include <random>

#include "engine/base/sha256.hpp"
#include "net/json/text.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using std::chrono::milliseconds;
using time_point = std::chrono::system_clock::time_point;

/// Reads fixed-width digits and marks from the front of a text.
class reader {
 public:
  explicit reader(std::string_view text) : rest_(text) {}

  std::optional<int> digits(std::size_t count) {
    if (rest_.size() < count ||
        !std::all_of(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(count), is_digit)) {
      return std::nullopt;
    }
    int value = 0;
    std::from_chars(rest_.data(), rest_.data() + count, value);
    rest_.remove_prefix(count);
    return value;
  }
  bool mark(std::string_view any_of) {
    if (rest_.empty() || any_of.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }
  [[nodiscard]] char peek() const { return rest_.empty() ? '\0' : rest_.front(); }
  [[nodiscard]] bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

std::optional<std::chrono::sys_days> read_date(reader& in) {
  const auto year = in.digits(4);
  if (!year || *year < 1970 || *year > 2261 || !in.mark("-")) return std::nullopt;
  const auto month = in.digits(2);
  if (!month || !in.mark("-")) return std::nullopt;
  const auto day = in.digits(2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date);
}

/// Hours, minutes, seconds (60 is a leap second) and any number of fraction digits.
std::optional<milliseconds> read_clock(reader& in) {
  const auto hour = in.digits(2);
  if (!hour || *hour > 23 || !in.mark(":")) return std::nullopt;
  const auto minute = in.digits(2);
  if (!minute || *minute > 59 || !in.mark(":")) return std::nullopt;
  const auto second = in.digits(2);
  if (!second || *second > 60) return std::nullopt;
  milliseconds time =
      std::chrono::hours(*hour) + std::chrono::minutes(*minute) + std::chrono::seconds(*second);
  if (in.mark(".")) {
    if (!is_digit(in.peek())) return std::nullopt;
    for (int weight = 100; is_digit(in.peek()); weight /= 10) time += milliseconds(*in.digits(1) * weight);
  }
  return time;
}

std::optional<std::chrono::minutes> read_zone(reader& in) {
  if (in.mark("zZ")) return std::chrono::minutes(0);
  const bool west = in.peek() == '-';
  if (!in.mark("+-")) return std::nullopt;
  const auto hour = in.digits(2);
  if (!hour || *hour > 23 || !in.mark(":")) return std::nullopt;
  const auto minute = in.digits(2);
  if (!minute || *minute > 59) return std::nullopt;
  const std::chrono::minutes offset = std::chrono::hours(*hour) + std::chrono::minutes(*minute);
  return west ? -offset : offset;
}

std::optional<time_point> read_rfc3339(std::string_view text) {
  reader in(text);
  const auto date = read_date(in);
  if (!date || !in.mark("tT ")) return std::nullopt;
  const auto clock = read_clock(in);
  if (!clock) return std::nullopt;
  const auto zone = read_zone(in);
  if (!zone || !in.empty()) return std::nullopt;
  return time_point(*date) + *clock - *zone;
}

/// The system clock counts nanoseconds in 64 bits, which end in the year 2262.
std::optional<time_point> read_milliseconds(std::string_view text) {
  constexpr std::int64_t last_ms = 9'223'372'036'854;
  std::int64_t value = 0;
  const auto* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end || value < 0 || value > last_ms) return std::nullopt;
  return time_point(milliseconds(value));
}

}  // namespace

result<time_point> parse_deadline(std::string_view text) {
  text = trimmed(text);
  const bool number = !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
  const auto time = number ? read_milliseconds(text) : read_rfc3339(text);
  if (time) return *time;
  return error(
      errc::invalid_request,
      "X-Deadline must be an RFC 3339 time with a zone or milliseconds since 1970, up to the year 2262",
      "X-Deadline");
}

bool is_request_id(std::string_view text) noexcept {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
    return is_alphanumeric(c) || c == '.' || c == '_' || c == '-';
  });
}

std::uint64_t random_bits() {
  std::random_device device;
  return std::uint64_t{device()} << 32U | device();
}

std::string digits_of(const std::array<std::uint64_t, 2>& bits) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(bits[0]),
                static_cast<unsigned long long>(bits[1]));
  return text.data();
}

std::string make_request_id() {
  return digits_of({random_bits(), random_bits()});
}

std::string id_series::next() {
  engine::sha256 hash;
  hash.update(root_);
  hash.update("/" + std::to_string(count_++));
  return hash.finish().substr(0, 32);
}

std::uint64_t id_series::next_bits() {
  const std::string id = next();
  std::uint64_t bits = 0;
  std::from_chars(id.data(), id.data() + 16, bits, 16);
  return bits;
}

result<std::uint32_t> parse_last_event_id(std::string_view text) {
  std::uint32_t id = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, id);
  if (failed == std::errc{} && stop == end) return id;
  return error(errc::invalid_request, "Last-Event-ID must be the id of an event, 0 to 4294967295",
               "Last-Event-ID");
}

}  // namespace orcd::net
