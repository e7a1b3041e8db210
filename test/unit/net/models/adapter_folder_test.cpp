// Which paths of adapters clients may name.
#include "net/models/adapter_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

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
    fs::create_symlink("../not-there", root / "dangling");
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
  BOOST_TEST(asked("peft/") == "peft");
  BOOST_TEST(asked("peft//") == "peft");
  BOOST_TEST(asked("nothing") == "NOT_FOUND");
  BOOST_TEST(asked("nothing/a") == "NOT_FOUND");
}

BOOST_AUTO_TEST_CASE(what_lies_elsewhere_is_not) {
  for (const char* path : {"../secret", "out", "up/secret", "../allowed-not/b", "/etc/passwd", "../nothing",
                           "peft/../../secret", "nothing/../../secret", ".", "..", "/", "up/allowed/..",
                           "nothing/..", "peft/..", "./", "dangling", "dangling/x", "loop", "loop/x"}) {
    BOOST_TEST(asked(path) == "FORBIDDEN", path);
  }
  for (const std::string& path : {std::string(), std::string("a\0b", 3), std::string(4'097, 'a')}) {
    BOOST_TEST(asked(path) == "INVALID_REQUEST");
  }
}

BOOST_AUTO_TEST_CASE(a_directory_must_not_lead_out_either) {
  fs::create_symlink("../../secret", root / "peft" / "adapter_model.safetensors");
  BOOST_TEST(asked("peft") == "FORBIDDEN");
}

/// Whoever may write below the folder can put a link there between the check of a name and its opening.
BOOST_AUTO_TEST_CASE(what_was_opened_counts_and_not_its_name) {
  const auto opened = [this](const fs::path& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    BOOST_REQUIRE(descriptor >= 0);
    const auto good = check_opened(root, descriptor);
    ::close(descriptor);
    if (!good)
      BOOST_TEST((good.error().code == engine::errc::forbidden && good.error().param == "lora_path"));
    return good.has_value();
  };
  BOOST_TEST(opened(root / "a.gguf"));
  BOOST_TEST(opened(root / "in"));
  BOOST_TEST(opened(root / "peft" / "adapter_config.json"));
  BOOST_TEST(!opened(root / "out"));
  BOOST_TEST(!opened(root / "up" / "secret"));
  BOOST_TEST(!opened(root / "up" / "allowed-not" / "b"));
  BOOST_TEST(!check_opened(root, -1));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
