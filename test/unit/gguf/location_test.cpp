#include "engine/gguf/location.hpp"

#include <boost/test/unit_test.hpp>

using namespace orcd::engine;

namespace {

std::string path_of(std::string_view text) {
  const auto location = parse_location(text);
  BOOST_REQUIRE_MESSAGE(location.has_value(), text);
  BOOST_TEST((location->where == model_location::kind::path));
  return location->name;
}

std::string refusal(std::string_view text) {
  const auto location = parse_location(text);
  BOOST_REQUIRE_MESSAGE(!location, text << " was accepted");
  return location.error().message;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(location)

BOOST_AUTO_TEST_CASE(paths_stand_for_themselves) {
  BOOST_TEST(path_of("/models/a b%20.gguf") == "/models/a b%20.gguf");
  BOOST_TEST(path_of("model.gguf") == "model.gguf");
  BOOST_TEST(path_of("./http://odd") == "./http://odd");
}

BOOST_AUTO_TEST_CASE(file_uris_are_decoded) {
  BOOST_TEST(path_of("file:/models/a.gguf") == "/models/a.gguf");
  BOOST_TEST(path_of("file:///models/a%20b%2Fc.gguf") == "/models/a b/c.gguf");
  BOOST_TEST(path_of("file://localhost/a") == "/a");
  BOOST_TEST(path_of("file:/%e4%BD%a0") == "/\xE4\xBD\xA0");
  for (const char* bad : {"file:a.gguf", "file:", "file://host/a", "file://", "file:/a%", "file:/a%4",
                          "file:/a%zz", "file:/a%+1", "file:/a?b", "file:/a#b", "file:/a%00b"}) {
    BOOST_TEST(refusal(bad).find(bad) != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(shared_memory_objects) {
  const auto location = parse_location("shm:/model-1");
  BOOST_REQUIRE(location.has_value());
  BOOST_TEST((location->where == model_location::kind::shared_memory));
  BOOST_TEST(location->name == "/model-1");
  for (const char* bad : {"shm:", "shm:/", "shm:name", "shm:/a/b", "shm://a"}) {
    BOOST_TEST(refusal(bad).find("shm:/name") != std::string::npos);
  }
  BOOST_TEST(refusal("shm:/" + std::string(300, 'x')).find("255") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(everything_else_is_refused) {
  BOOST_TEST(refusal("").find("empty") != std::string::npos);
  BOOST_TEST(refusal("http://host/a.gguf").find("path, file:/path or shm:/name") != std::string::npos);
  BOOST_TEST(refusal(std::string(5000, 'p')).find("4096") != std::string::npos);
  BOOST_TEST(refusal(std::string("a\0b", 3)).find("NUL") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(split_names) {
  const auto name = parse_split_name("/m/big-q4-00002-of-00013.gguf");
  BOOST_REQUIRE(name.has_value());
  BOOST_TEST(name->prefix == "/m/big-q4");
  BOOST_TEST(name->index == 2U);
  BOOST_TEST(name->count == 13U);
  BOOST_TEST(split_path(*name, 13) == "/m/big-q4-00013-of-00013.gguf");
  for (const char* plain :
       {"/m/a.gguf", "-00001-of-00002.gguf", "a-0001-of-00002.gguf", "a-00001-of-00002.bin",
        "a-0000x-of-00002.gguf", "a_00001-of-00002.gguf", "a-+0001-of-00002.gguf", ""}) {
    BOOST_TEST(!parse_split_name(plain).has_value(), plain);
  }
}

BOOST_AUTO_TEST_SUITE_END()
