#include "bench/decode/figures.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace orcd::bench {
namespace {

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + '"';
}

}  // namespace

void figures::add(std::string key, double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  entries_.emplace_back(std::move(key), std::isfinite(value) ? text.data() : "null");
}
void figures::add(std::string key, std::uint64_t value) {
  entries_.emplace_back(std::move(key), std::to_string(value));
}
void figures::add(std::string key, bool value) {
  entries_.emplace_back(std::move(key), value ? "true" : "false");
}
void figures::add(std::string key, std::string_view text) {
  entries_.emplace_back(std::move(key), in_quotes(text));
}

void figures::write(const std::string& path) const {
  std::ofstream out(path, std::ios::trunc);
  out << "{\n";
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    out << "  " << in_quotes(entries_[i].first) << ": " << entries_[i].second
        << (i + 1 < entries_.size() ? ",\n" : "\n");
  }
  out << "}\n";
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path);
}

}  // namespace orcd::bench
