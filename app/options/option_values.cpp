#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <sstream>

#include "app/options/option_table.hpp"
#include "engine/text/utf8.hpp"
#include "net/json/text.hpp"

namespace orcd::app {
namespace {

bool is_hex(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

std::optional<std::uint64_t> parse_unsigned(std::string_view text) noexcept {
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<double> parse_real(std::string_view text) noexcept {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

std::string number_text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

std::optional<std::string> parse_uuid(std::string_view text) {
  if (text.size() != 36) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !is_hex(text[i])) return std::nullopt;
  }
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

std::optional<gpu_selector> parse_gpu(std::string_view text) {
  constexpr std::uint64_t index_max = 1'023;
  constexpr std::string_view prefix = "GPU-";
  if (text.substr(0, prefix.size()) == prefix) {
    const auto uuid = parse_uuid(text.substr(prefix.size()));
    if (!uuid) return std::nullopt;
    return gpu_selector{0, std::string(prefix) + *uuid};
  }
  const auto index = parse_unsigned(text);
  if (!index || *index > index_max) return std::nullopt;
  return gpu_selector{static_cast<std::uint32_t>(*index), {}};
}

std::optional<std::vector<std::string>> parse_model_names(std::string_view list) {
  constexpr std::size_t names_max = 64;
  constexpr std::size_t bytes_max = 256;
  std::vector<std::string> out;
  for (;;) {
    const auto end = list.find(',');
    const auto name = net::trimmed(list.substr(0, end));
    const bool plain = std::all_of(name.begin(), name.end(),
                                   [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F; });
    const bool text = plain && engine::utf8::valid_bytes(name) == name.size();
    const bool again = std::find(out.begin(), out.end(), name) != out.end();
    if (name.empty() || name.size() > bytes_max || !text || again || out.size() == names_max) {
      return std::nullopt;
    }
    out.emplace_back(name);
    if (end == std::string_view::npos) return out;
    list.remove_prefix(end + 1);
  }
}

std::optional<std::string> parse_address(std::string_view text) {
  if (text == "localhost") return "127.0.0.1";
  const std::string address(text);
  std::array<unsigned char, sizeof(in6_addr)> raw{};
  if (inet_pton(AF_INET, address.c_str(), raw.data()) == 1) return address;
  if (inet_pton(AF_INET6, address.c_str(), raw.data()) == 1) return address;
  return std::nullopt;
}

requirement assign_port_to(std::uint16_t& port, std::string_view text) {
  const auto number = parse_unsigned(text);
  if (!number || *number > 65'535 || (*number != 0 && *number < 1'024)) {
    return "must be an integer, 0 or 1024 to 65535";
  }
  port = static_cast<std::uint16_t>(*number);
  return std::nullopt;
}

}  // namespace orcd::app
