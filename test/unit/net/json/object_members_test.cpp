#include "net/json/object_members.hpp"

#include <array>
#include <boost/json/parse.hpp>
#include <boost/test/unit_test.hpp>

#include "net/json/names.hpp"
#include "net/json/read_body.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;
using namespace std::string_view_literals;

json::object object(std::string_view text) {
  return json::parse({text.data(), text.size()}).as_object();
}

template <class T>
std::string message(const result<T>& read) {
  return read ? "accepted" : read.error().message;
}

BOOST_AUTO_TEST_SUITE(object_members)

BOOST_AUTO_TEST_CASE(values_are_of_their_kind_or_refused_by_path) {
  BOOST_TEST(as_text("a", json::value("x")).value() == "x");
  BOOST_TEST(message(as_text("a[1]", json::value(1))) == "'a[1]' must be a string, it is a number");
  BOOST_TEST(as_flag("a", json::value(true)).value());
  BOOST_TEST(message(as_flag("a", json::value("true"))) == "'a' must be true or false, it is a string");
  BOOST_TEST(as_integer("a", json::value(5), 0, 5).value() == 5U);
  BOOST_TEST(message(as_integer("a", json::value("5"), 0, 5)) == "'a' must be an integer, it is a string");
  BOOST_TEST(message(as_integer("a", json::value(6), 0, 5)) == "'a' must be an integer from 0 to 5, it is 6");
  BOOST_TEST(as_real("a", json::value(1), top_p_range).value() == 1.0F);
  BOOST_TEST(message(as_real("a", json::object(), top_p_range)) == "'a' must be a number, it is an object");
}

BOOST_AUTO_TEST_CASE(a_member_that_is_null_is_absent) {
  const auto members = object(R"({"a":null,"t":"x","o":{},"f":true,"n":1})");
  BOOST_TEST(find_member(members, "a") == nullptr);
  BOOST_TEST(message(text_member(members, "p", "a")) == "'p.a' is missing");
  BOOST_TEST(message(object_member(members, "p", "b")) == "'p.b' is missing");
  BOOST_TEST(optional_text_member(members, "p", "a").value().empty());
  BOOST_TEST(!flag_member(members, "p", "a").value());
  BOOST_TEST(flag_member(members, "p", "a", true).value());
  BOOST_TEST(text_member(members, "p", "t").value() == "x");
  BOOST_TEST(optional_text_member(members, "p", "t").value() == "x");
  BOOST_TEST(object_member(members, "p", "o").value()->empty());
  BOOST_TEST(flag_member(members, "p", "f").value());
  BOOST_TEST(message(text_member(members, "p", "n")) == "'p.n' must be a string, it is a number");
  BOOST_TEST(message(optional_text_member(members, "p", "n")) == "'p.n' must be a string, it is a number");
  BOOST_TEST(message(object_member(members, "p", "n")) == "'p.n' must be an object, it is a number");
  BOOST_TEST(message(flag_member(members, "p", "n")) == "'p.n' must be true or false, it is a number");
}

BOOST_AUTO_TEST_CASE(unknown_members_are_refused_unless_they_are_null) {
  constexpr std::array known{"a"sv};
  constexpr std::array also{"b"sv};
  const auto members = object(R"({"a":1,"b":2,"c":null})");
  BOOST_TEST(message(only_members(members, "p", known, also)) == "accepted");
  BOOST_TEST(message(only_members(members, "p", known)) == "'p.b' is not supported");
  const std::string long_name(1'000, 'x');
  const json::object one{{long_name, 1}};
  BOOST_TEST(only_members(one, "p", known).error().param == "p." + std::string(64, 'x') + "...");
}

BOOST_AUTO_TEST_CASE(a_word_that_is_none_of_those_asked_for_is_cut) {
  BOOST_TEST(refuse_word("p", "'a' or 'b'", "c").message == "'p' must be 'a' or 'b', it is 'c'");
  BOOST_TEST(refuse_word("p", "'a'", std::string(1'000, 'x')).message.size() < 100U);
}

/// Keeps the names that it is given and refuses one of them.
struct names_of {
  std::string names{};
  result<void> take(std::string_view name, const json::value&) {
    if (name == "bad") return refuse_field(name, "is bad");
    names += name;
    return {};
  }
  result<std::string> finish() && { return std::move(names); }
};

BOOST_AUTO_TEST_CASE(a_body_is_taken_in_order_until_a_member_is_refused) {
  BOOST_TEST(read_fields(R"({"b":1,"a":null})", names_of()).value() == "ba");
  BOOST_TEST(read_fields("\xEF\xBB\xBF{\"a\":1}", names_of()).value() == "a");
  BOOST_TEST(message(read_fields(R"({"a":1,"bad":2,"bad":3})", names_of())) == "'bad' is given twice");
  BOOST_TEST(message(read_fields(R"({"a":1,"bad":2})", names_of())) == "'bad' is bad");
  BOOST_TEST(message(read_fields("[]", names_of())) == "the body must be one JSON object");
}

BOOST_AUTO_TEST_CASE(rows_are_found_by_name) {
  struct row {
    std::string_view name;
    int value;
  };
  constexpr std::array rows{row{"a", 1}, row{"b", 2}};
  BOOST_TEST(find_named(rows, "b")->value == 2);
  BOOST_TEST((find_named(rows, "c") == nullptr));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
