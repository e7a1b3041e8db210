#include "net/http/page.hpp"

#include "net/json/text.hpp"

namespace orcd::net {
namespace {

/// Weak comparison: a proxy that compressed the page may have made the tag weak.
bool names(std::string_view list, std::string_view etag) {
  while (!list.empty()) {
    const auto end = list.find(',');
    auto tag = trimmed(list.substr(0, end));
    if (tag.starts_with("W/")) tag.remove_prefix(2);
    if (tag == "*" || tag == etag) return true;
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
  }
  return false;
}

}  // namespace

reply make_page_reply(std::string_view if_none_match) {
  reply r;
  if (names(if_none_match, embedded_page.etag)) {
    r.status = 304;
  } else {
    r.body = embedded_page.html;
  }
  r.content_type = "text/html; charset=utf-8";
  // Browsers may keep it but must ask each time: a new binary may have a new page.
  r.cache_control = "no-cache";
  r.headers = {{"ETag", embedded_page.etag},
               {"Content-Security-Policy", embedded_page.policy},
               {"X-Content-Type-Options", "nosniff"},
               {"Referrer-Policy", "no-referrer"}};
  return r;
}

}  // namespace orcd::net
