#define BOOST_TEST_MODULE worker_orcd
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

namespace ut = boost::unit_test;

/// The skips that are expected, by what their preconditions say. With ORCD_NO_SKIP=1 every other one is a
/// failure: a model that is missing would else go unnoticed.
bool is_expected(std::string_view reason) {
  const bool is_root = ::geteuid() == 0;
  return !is_root && reason.ends_with("only root can");  // CI is root
}

/// Names every test that is skipped.
class skips : public ut::test_observer {
 public:
  skips() { ut::framework::register_observer(*this); }
  skips(const skips&) = delete;
  skips& operator=(const skips&) = delete;

  void test_unit_skipped(const ut::test_unit& test, ut::const_string reason) override {
    const std::string why(reason.begin(), reason.end());
    if (why == "disabled") return;  // not asked for on the command line
    const bool fails = is_strict_ && !is_expected(why);
    std::cout << (fails ? "FAILED, since it is skipped: " : "SKIPPED ") << test.full_name() << ": " << why
              << '\n';
    if (fails) ++failed_;
  }

  void test_finish() override {
    // All results are told by now: what is thrown here is the exit code.
    if (failed_ > 0) throw std::logic_error("tests are skipped that must not be");
  }

 private:
  static bool is_strict() {
    const char* const strict = std::getenv("ORCD_NO_SKIP");
    return strict != nullptr && std::string_view(strict) == "1";
  }

  const bool is_strict_ = is_strict();
  int failed_ = 0;
};

skips watch;

}  // namespace
