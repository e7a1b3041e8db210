// The page at GET /: one file that is part of the binary, and the response that carries it. Pure. Source: CSP
// level 3, RFC 9110 13.1.2.
#pragma once

#include <string_view>

#include "net/http/respond.hpp"

namespace orcd::net {

struct page_file {
  std::string_view html;
  std::string_view etag;  ///< quoted: the SHA-256 of html
  std::string_view
      policy;  ///< Content-Security-Policy: nothing but its own style and script, by their hashes
};

/// net/http/page/page.html, made into bytes by cmake/embed_page.cmake.
extern const page_file embedded_page;

/// 200 with the page, or 304 when If-None-Match names it; `if_none_match` as received, empty: none.
[[nodiscard]] reply make_page_reply(std::string_view if_none_match);

}  // namespace orcd::net
