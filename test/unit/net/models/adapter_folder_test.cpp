// Which paths of adapters clients may name.
#include "net/models/adapter_folder.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "test/support/temporary_directory.hpp"

namespace orcd::net {
namespace {

namespace fs = std::filesystem;

struct folders {
  test::temporary_directory place;
  fs::path root = fs::path(place.path()) / "allowed";

  folders() {
    fs::create_directories(root / "peft");
    fs::create_directories(fs::path(place.path()) / "allowed-not");
    for (const char* name :
         {"allowed/a.gguf", "secret", "allowed-not/b", "allowed/peft/adapter_config.json"}) {
      std::ofstream(fs::path(place.path()) / name) << name;
    }
    fs::create_symlink("../secret", root / "out");
    fs::create_symlink("a.gguf", root / "in");
    fs::create_symlink("loop", root / "loop");
    fs::create_symlink("..", root / "up");
  }
  [[nodiscard]] std::string asked(const std::string& path) const {
    const auto real = adapter_in_folder(root, path);
    if (real) return fs::relative(*real, fs::canonical(root)).string();
    BOOST_TEST(real.error().param == "lora_path");
    return std::string(engine::code_name(real.error().code));
  }
};

BOOST_FIXTURE_TEST_SUITE(adapter_folders, folders)

BOOST_AUTO_TEST_CASE(what_lies_there_is_found) {
  BOOST_TEST(asked("a.gguf") == "a.gguf");
  BOOST_TEST(asked(root / "a.gguf") == "a.gguf");
  BOOST_TEST(asked("peft/../a.gguf") == "a.gguf");
  BOOST_TEST(asked("in") == "a.gguf");
  BOOST_TEST(asked("peft") == "peft");
  BOOST_TEST(asked("peft/") != "FORBIDDEN");
  BOOST_TEST(asked("nothing") == "NOT_FOUND");
}

BOOST_AUTO_TEST_CASE(what_lies_elsewhere_is_not) {
  for (const char* path : {"../secret", "out", "up/secret", "../allowed-not/b", "/etc/passwd", "../nothing",
                           "peft/../../secret", "nothing/../../secret", ".", "..", "/", "up/allowed/.."}) {
    BOOST_TEST(asked(path) == "FORBIDDEN", path);
  }
  for (const std::string& path : {std::string(), std::string("a\0b", 3), std::string(4'097, 'a')}) {
    BOOST_TEST(asked(path) == "INVALID_REQUEST");
  }
  BOOST_TEST(asked("loop") != "loop");
}

BOOST_AUTO_TEST_CASE(a_directory_must_not_lead_out_either) {
  fs::create_symlink("../../secret", root / "peft" / "adapter_model.safetensors");
  BOOST_TEST(asked("peft") == "FORBIDDEN");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
