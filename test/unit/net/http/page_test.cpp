// The page at /: what is sent is the file in the tree, the policy lets exactly it run, and who has it is
// told so.
#include "net/http/page.hpp"

#include <boost/beast/core/detail/base64.hpp>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <vector>

#include "engine/base/sha256.hpp"
#include "net/http/http_request.hpp"
#include "net/http/routes.hpp"

namespace orcd::net {
namespace {

using engine::sha256_of;

/// What stands between the tags of the elements of this name, in their order.
std::vector<std::string_view> inside(std::string_view html, const std::string& tag) {
  std::vector<std::string_view> out;
  const std::string opening = "<" + tag + ">";
  for (auto at = html.find(opening); at != std::string_view::npos; at = html.find(opening, at)) {
    at += opening.size();
    out.push_back(html.substr(at, html.find("</" + tag + ">", at) - at));
  }
  return out;
}

std::string file_of_page(const std::string& name) {
  std::ifstream file(ORCD_TEST_DATA "/../../net/http/page/" + name, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  BOOST_TEST_REQUIRE(!text.empty(), name);
  return text;
}

/// 'sha256-...' of a text, as policies write it.
std::string source_of(std::string_view text) {
  const std::string hex = sha256_of(text);
  std::string digest;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    digest += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  namespace base64 = boost::beast::detail::base64;
  std::string out(base64::encoded_size(digest.size()), '\0');
  out.resize(base64::encode(out.data(), digest.data(), digest.size()));
  return "'sha256-" + out + "'";
}

http_request a_get(const std::string& if_none_match = {}, const std::string& method = "GET") {
  http_request request;
  request.method = method;
  request.request_id = "r";
  request.if_none_match = if_none_match;
  return request;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

BOOST_AUTO_TEST_SUITE(page_at_root)

BOOST_AUTO_TEST_CASE(it_is_made_of_the_files_in_the_tree) {
  const auto html = embedded_page.html;
  const auto scripts = inside(html, "script");
  BOOST_TEST_REQUIRE(scripts.size() == 1U);
  std::string own;
  for (const char* part :
       {"worker.js",        "growing_text.js",  "markdown_common.js", "formula.js",      "markdown.js",
        "markdown_text.js", "errors.js",        "store.js",           "media.js",        "tree.js",
        "transfer.js",      "tabs.js",          "setting_fields.js",  "settings.js",     "presets.js",
        "layout.js",        "tokens.js",        "plots.js",           "message_view.js", "answer.js",
        "composer.js",      "conversations.js", "state.js",           "asking.js",       "chat.js",
        "keys.js",          "start.js"}) {
    own += file_of_page(part);
  }
  BOOST_TEST((scripts[0] == own));
  // What a Worker runs is data to the page; without the library that it needs there is nothing.
  std::string reader;
  for (const char* part : {"common", "math", "code", "words", "reader"}) {
    reader += file_of_page(std::string("markdown_") + part + ".js");
  }
  BOOST_TEST((has(html, "id=\"reader\"></script>") || has(html, reader + "</script>")));
  const std::string style = file_of_page("page.css") + file_of_page("markdown.css");
  BOOST_TEST((inside(html, "style") == std::vector<std::string_view>{style}));
  const std::string frame = file_of_page("page.html");
  BOOST_TEST(html.starts_with(frame.substr(0, frame.find("<style>"))));
  BOOST_TEST(html.ends_with(frame.substr(frame.rfind("</script>"))));
  BOOST_TEST(embedded_page.etag == "\"" + sha256_of(html) + "\"");
  BOOST_TEST(sha256_of(make_page_reply({}).body) == sha256_of(html));
  BOOST_TEST(make_page_reply({}).status == 200U);
}

BOOST_AUTO_TEST_CASE(nothing_but_its_own_style_and_scripts_may_run) {
  const auto html = embedded_page.html;
  const auto scripts = inside(html, "script");
  BOOST_TEST_REQUIRE(scripts.size() == 1U);
  BOOST_TEST(embedded_page.policy ==
             "default-src 'none'; connect-src 'self'; img-src data:; "
             "font-src data:; script-src " +
                 source_of(scripts[0]) + "; worker-src blob:; style-src " +
                 source_of(inside(html, "style").front()) +
                 "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                 "require-trusted-types-for 'script'; trusted-types reader");
  for (const char* never : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                            "localStorage", "sessionStorage", "document.cookie", " style=\"", " onclick="}) {
    BOOST_TEST(!has(scripts[0], never), never);
    BOOST_TEST(!has(html.substr(0, html.find("<script")), never), never);
  }
  // Nothing of ours names a place elsewhere; the libraries do. No sheet asks for anything.
  for (const char* never : {"http:", "https:"}) BOOST_TEST(!has(scripts[0], never), never);
  const auto sheets = html.substr(0, html.find("id=\"reader\""));
  for (auto at = sheets.find("url("); at != std::string_view::npos; at = sheets.find("url(", at + 1)) {
    BOOST_TEST(sheets.substr(at).starts_with("url(data:font/woff2;base64,"), sheets.substr(at, 40));
  }
}

BOOST_AUTO_TEST_CASE(its_header_fields) {
  const std::string text = render_reply(make_page_reply({}), a_get(), true);
  BOOST_TEST(text.starts_with("HTTP/1.1 200 OK\r\n"));
  for (const std::string& line :
       {std::string("Content-Type: text/html; charset=utf-8"),
        "Content-Length: " + std::to_string(embedded_page.html.size()),
        std::string("Cache-Control: no-cache"), "ETag: " + std::string(embedded_page.etag),
        "Content-Security-Policy: " + std::string(embedded_page.policy),
        std::string("X-Content-Type-Options: nosniff"), std::string("Referrer-Policy: no-referrer")}) {
    BOOST_TEST(has(text, "\r\n" + line + "\r\n"), line);
  }
  BOOST_TEST(text.ends_with(embedded_page.html));
  const std::string head = render_reply(make_page_reply({}), a_get({}, "HEAD"), true);
  BOOST_TEST(head.ends_with("\r\n\r\n"));
  BOOST_TEST(has(head, "Content-Length: " + std::to_string(embedded_page.html.size()) + "\r\n"));
}

BOOST_AUTO_TEST_CASE(who_has_it_gets_no_second_copy) {
  const std::string etag(embedded_page.etag);
  for (const std::string& known : {etag, "W/" + etag, "\"other\", " + etag, std::string(" * ")}) {
    const reply r = make_page_reply(known);
    BOOST_TEST(r.status == 304U, known);
    const std::string text = render_reply(r, a_get(known), true);
    BOOST_TEST(text.ends_with("\r\n\r\n"));
    BOOST_TEST(has(text, "ETag: " + etag + "\r\n"));
    BOOST_TEST(has(text, "Cache-Control: no-cache\r\n"));
    BOOST_TEST(!has(text, "Content-Length"));
  }
  for (const std::string& other : {std::string(), std::string("\"other\""), etag.substr(1), "x" + etag,
                                   std::string(",,"), std::string("W/")}) {
    BOOST_TEST(make_page_reply(other).status == 200U, other);
  }
}

BOOST_AUTO_TEST_CASE(its_route_can_be_turned_off) {
  for (const char* target : {"/", "/?x=1", "http://host", "http://host/"}) {
    for (const char* method : {"GET", "HEAD"}) {
      const auto route = find_route(method, target);
      BOOST_TEST_REQUIRE(std::holds_alternative<endpoint>(route), target);
      BOOST_TEST((std::get<endpoint>(route) == endpoint::page));
      BOOST_TEST(std::get<reply>(find_route(method, target, {false})).status == 404U);
    }
  }
  const auto wrong = std::get<reply>(find_route("POST", "/"));
  BOOST_TEST(wrong.status == 405U);
  BOOST_TEST(wrong.allow == "GET, HEAD, OPTIONS");
  BOOST_TEST(has(std::get<reply>(find_route("GET", "/x")).body, ", /\""));
  BOOST_TEST(!has(std::get<reply>(find_route("GET", "/x", {false})).body, ", /\""));
  BOOST_TEST(std::get<reply>(find_route("POST", "/", {false})).status == 404U);
  BOOST_TEST(std::holds_alternative<endpoint>(find_route("GET", "/health", {false})));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
