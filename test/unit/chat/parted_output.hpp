// Outputs of models parted into content, reasoning and calls, in any pieces, and what is always true of them.
#pragma once

#include <algorithm>
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/chat/output_parser.hpp"

namespace orcd::test {

using engine::output_delta;

struct call {
  std::string name, arguments;
  bool operator==(const call&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const call& c) {
  return out << c.name << '(' << c.arguments << ')';
}

struct parted {
  std::string content, reasoning;
  std::vector<call> calls;
  bool operator==(const parted&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const parted& p) {
  out << "content [" << p.content << "] reasoning [" << p.reasoning << "]";
  for (const auto& c : p.calls) out << ' ' << c;
  return out;
}

inline void add(parted& to, const engine::output_deltas& deltas) {
  using kind = output_delta::kind;
  for (const auto& d : deltas) {
    switch (d.what) {
      case kind::content: to.content += d.text; break;
      case kind::reasoning: to.reasoning += d.text; break;
      case kind::call:
        BOOST_TEST(d.index == to.calls.size());
        to.calls.push_back({d.name, ""});
        break;
      case kind::arguments:
        BOOST_REQUIRE(!to.calls.empty());
        BOOST_TEST(d.index + 1 == to.calls.size());
        to.calls.back().arguments += d.text;
        break;
    }
    BOOST_TEST((d.what == kind::call || !d.text.empty()));
  }
}

inline bool is_object(std::string_view arguments) {
  boost::system::error_code ec;
  const auto value = boost::json::parse(arguments, ec, {}, {.max_depth = 200});
  return !ec && value.is_object();
}

inline parted in_pieces(const engine::output_format& format, const engine::parse_options& options,
                        std::string_view text, const std::vector<std::size_t>& cuts,
                        engine::output_end how = engine::output_end::whole) {
  engine::output_parser parser(format, options);
  parted out;
  std::size_t from = 0;
  for (const std::size_t cut : cuts) {
    add(out, parser.push(text.substr(from, cut - from)));
    from = cut;
  }
  add(out, parser.push(text.substr(from)));
  add(out, parser.finish(how));
  BOOST_TEST(parser.calls() == out.calls.size());
  for (const auto& c : out.calls) BOOST_TEST(!c.name.empty());
  return out;
}

/// Byte by byte, but marks as tokens.
inline parted in_tokens(const engine::output_format& format, const engine::parse_options& options,
                        std::string_view text, engine::output_end how = engine::output_end::whole) {
  const auto marks = engine::marks_of(format);
  engine::output_parser parser(format, options);
  parted out;
  while (!text.empty()) {
    const auto mark = std::find_if(marks.begin(), marks.end(), [&](auto m) { return text.starts_with(m); });
    if (mark != marks.end()) add(out, parser.push_mark(*mark));
    if (mark == marks.end()) add(out, parser.push(text.substr(0, 1)));
    text.remove_prefix(mark != marks.end() ? mark->size() : 1);
  }
  add(out, parser.finish(how));
  return out;
}

inline std::vector<std::size_t> every_byte(std::size_t size) {
  std::vector<std::size_t> out;
  for (std::size_t at = 1; at < size; ++at) out.push_back(at);
  return out;
}

inline std::vector<std::size_t> random_cuts(std::size_t size, std::mt19937& random) {
  std::vector<std::size_t> out;
  const std::size_t stride = 1 + random() % 12;
  for (std::size_t at = random() % stride; at < size; at += 1 + random() % stride) out.push_back(at);
  return out;
}

struct expectation {
  engine::output_format format;
  std::string text;
  parted expected;
  engine::parse_options options = {};
};

/// The text with one to three bytes changed at random.
inline std::string damaged(std::string text, std::mt19937& random) {
  constexpr std::string_view bytes = "{}[]\",:\\<>|0x \n/='(";
  for (std::uint32_t n = 1 + random() % 3; n > 0 && !text.empty(); --n) {
    const std::size_t at = random() % text.size();
    switch (random() % 4) {
      case 0: text.erase(at, 1 + random() % 4); break;
      case 1: text.insert(at, 1, bytes[random() % bytes.size()]); break;
      case 2: text[at] = bytes[random() % bytes.size()]; break;
      default: {
        // One after the other: compilers evaluate arguments in orders of their own.
        const std::size_t from = random() % text.size();
        const std::size_t size = random() % 12;
        text.insert(at, text.substr(from, size));
      }
    }
  }
  return text;
}

}  // namespace orcd::test
