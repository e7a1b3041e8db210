#include "net/http/request_head.hpp"

#include <algorithm>
#include <boost/asio/ip/address_v6.hpp>
#include <charconv>

#include "net/json/text.hpp"

namespace orcd::net {
namespace {

bool is_token(std::string_view text) {
  constexpr std::string_view marks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_alphanumeric(c) || marks.find(c) != std::string_view::npos;
  });
}

/// A byte that neither a field value nor a request line may hold: NUL and the other controls except tab.
bool is_forbidden(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7F;
}

/// uri-host [ ":" port ] of RFC 9110 7.2, which may be empty; only names that browsers and DNS can have.
bool is_host(std::string_view text) {
  std::string_view port;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return false;
    boost::system::error_code ec;
    boost::asio::ip::make_address_v6(std::string(text.substr(1, end - 1)), ec);
    port = text.substr(end + 1);
    if (ec) return false;
  } else {
    const auto colon = std::min(text.find(':'), text.size());
    port = text.substr(colon);
    const auto name = text.substr(0, colon);
    if (name.empty() && !port.empty()) return false;
    if (!std::all_of(name.begin(), name.end(),
                     [](char c) { return is_alphanumeric(c) || c == '.' || c == '-' || c == '_'; }))
      return false;
  }
  constexpr std::size_t digits_max = 5;
  if (port.empty()) return true;
  return port.front() == ':' && port.size() <= digits_max + 1 &&
         std::all_of(port.begin() + 1, port.end(), is_digit);
}

std::string body_too_long(std::string_view announced, std::uint64_t limit) {
  constexpr std::size_t digits_shown = 24;
  return "the body has " + std::string(announced.substr(0, digits_shown)) +
         (announced.size() > digits_shown ? "..." : "") + " bytes, the limit is " + std::to_string(limit);
}

}  // namespace

bool head_scanner::refuse(unsigned status, std::string message) {
  problem_ = head_problem(status, std::move(message));
  return false;
}

head_scanner::state head_scanner::scan(std::string_view input) {
  while (!done_ && scanned_ < input.size()) {
    const char c = input[scanned_];
    const bool after_cr = scanned_ > line_start_ && input[scanned_ - 1] == '\r';
    bool ok = true;
    if (scanned_ >= limits_.bytes_max) {
      ok = refuse(431, "the request head is longer than the limit of " + std::to_string(limits_.bytes_max) +
                           " bytes");
    } else if (c == '\n') {
      ok = after_cr ? take_line(input.substr(line_start_, scanned_ - 1 - line_start_))
                    : refuse(400, "a line ends with LF alone");
      line_start_ = scanned_ + 1;
    } else if (after_cr) {
      ok = refuse(400, "a CR stands without LF");
    } else if (c != '\r' && is_forbidden(c)) {
      ok = refuse(400, "the request head holds a control character");
    }
    if (!ok) return state::refused;
    ++scanned_;
  }
  return done_ ? state::complete : state::incomplete;
}

bool head_scanner::take_line(std::string_view line) {
  if (lines_ == 0 && line.empty() && skipped_ == 0) {
    skipped_ = 2;
    return true;
  }
  if (lines_++ == 0) return take_request_line(line);
  if (line.empty()) return finish();
  if (lines_ - 1 > limits_.fields_max)
    return refuse(
        431, "the request has more header fields than the limit of " + std::to_string(limits_.fields_max));
  return take_field(line);
}

bool head_scanner::take_request_line(std::string_view line) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || last == first || !is_token(line.substr(0, first))) {
    return refuse(400, "the request line is not 'METHOD TARGET HTTP/1.1'");
  }
  const auto target = line.substr(first + 1, last - first - 1);
  if (target.empty() || target.find_first_of(" \t") != std::string_view::npos) {
    return refuse(400, "the request target holds a space or is empty");
  }
  const auto version = line.substr(last + 1);
  minor_zero_ = version == "HTTP/1.0";
  if (minor_zero_ || version == "HTTP/1.1") return true;
  return version.starts_with("HTTP/") ? refuse(505, "this server speaks HTTP/1.1 and HTTP/1.0")
                                      : refuse(400, "the request line is not 'METHOD TARGET HTTP/1.1'");
}

bool head_scanner::take_field(std::string_view line) {
  if (line.front() == ' ' || line.front() == '\t') return refuse(400, "a header line is folded");
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    return refuse(400, "a header field has no valid name");
  }
  const auto name = line.substr(0, colon);
  const auto value = trimmed(line.substr(colon + 1));
  if (same_ignoring_case(name, "host")) {
    if (++hosts_ > 1) return refuse(400, "Host is given twice");
    if (!is_host(value)) return refuse(400, "Host is not a host name or address with or without a port");
  } else if (!take_once(name)) {
    return false;
  } else if (same_ignoring_case(name, "content-length")) {
    return take_content_length(value);
  } else if (same_ignoring_case(name, "transfer-encoding")) {
    return take_transfer_encoding(value);
  } else if (same_ignoring_case(name, "expect")) {
    if (!same_ignoring_case(value, "100-continue"))
      return refuse(417, "the only expectation met is 100-continue");
    expects_continue_ = !minor_zero_;
  }
  return true;
}

/// Fields that decide whether a request is let in may be given once: this worker and a proxy in front of it
/// might each believe a different one of two.
bool head_scanner::take_once(std::string_view name) {
  for (std::size_t i = 0; i < given_once.size(); ++i) {
    if (!same_ignoring_case(name, given_once[i])) continue;
    if (std::exchange(given_[i], true)) return refuse(400, std::string(given_once[i]) + " is given twice");
  }
  return true;
}

bool head_scanner::take_content_length(std::string_view value) {
  if (content_length_) return refuse(400, "Content-Length is given twice");
  std::uint64_t length = 0;
  const auto* end = value.data() + value.size();
  const bool digits = !value.empty() && std::all_of(value.begin(), value.end(), is_digit);
  if (!digits) return refuse(400, "Content-Length is not a decimal number");
  const auto parsed = std::from_chars(value.data(), end, length);
  if (parsed.ec != std::errc{} || length > limits_.body_bytes_max) {
    return refuse(413, body_too_long(value, limits_.body_bytes_max));
  }
  content_length_ = length;
  return true;
}

bool head_scanner::take_transfer_encoding(std::string_view value) {
  if (chunked_) return refuse(400, "Transfer-Encoding is given twice");
  if (minor_zero_) return refuse(400, "HTTP/1.0 has no Transfer-Encoding");
  if (!same_ignoring_case(value, "chunked"))
    return refuse(501, "the only transfer coding understood is 'chunked'");
  chunked_ = true;
  return true;
}

bool head_scanner::finish() {
  if (chunked_ && content_length_) return refuse(400, "both Content-Length and Transfer-Encoding are given");
  if (hosts_ == 0 && !minor_zero_) return refuse(400, "Host is missing");
  done_ = true;
  return true;
}

}  // namespace orcd::net
