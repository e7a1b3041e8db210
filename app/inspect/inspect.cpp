#include "app/inspect/inspect.hpp"

#include <istream>
#include <ostream>
#include <string>
#include <utility>

#include "app/console/one_line.hpp"
#include "app/version/version.hpp"
#include "engine/base/plain_file.hpp"

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;

constexpr std::size_t most_input = 64U << 20U;

engine::result<inspected> run(const inspect_arguments& arguments, std::istream& in) {
  const auto done = [](result<std::string> text) -> result<inspected> {
    if (!text) return text.error();
    return inspected{std::move(*text)};
  };
  switch (arguments.action) {
    case inspect_action::help: return inspected{std::string(inspect_usage())};
    case inspect_action::version: return inspected{std::string("worker-orcd-inspect ") + version() + "\n"};
    case inspect_action::info: return done(inspect_info(arguments));
    case inspect_action::tokenize: return done(inspect_tokenize(arguments, in));
    case inspect_action::detokenize: return done(inspect_detokenize(arguments, in));
    case inspect_action::chat: return done(inspect_chat(arguments, in));
    case inspect_action::plan: return inspect_plan(arguments);
    case inspect_action::doctor: return inspect_doctor(arguments);
  }
  return inspected{};
}

}  // namespace

int run_inspect(std::span<const std::string_view> words, std::istream& in, std::ostream& out,
                std::ostream& err) {
  const auto arguments = parse_inspect_arguments(words);
  if (!arguments) {
    err << complaint("worker-orcd-inspect", arguments.error().message) << inspect_usage();
    return inspect_usage_wrong;
  }
  const auto made = run(*arguments, in);
  if (!made) {
    err << complaint("worker-orcd-inspect", made.error().message);
    return inspect_failed;
  }
  out << made->text << std::flush;
  return out.good() ? made->status : inspect_failed;
}

result<std::string> read_input(std::istream& in, const std::string& name) {
  std::string out;
  std::string block(1U << 16U, '\0');
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
    out.append(block.data(), static_cast<std::size_t>(in.gcount()));
    if (out.size() > most_input) {
      return error{errc::payload_too_large,
                   name + ": is over the limit of " + std::to_string(most_input) + " bytes", "input"};
    }
  }
  if (in.bad()) return error{errc::invalid_request, name + ": cannot be read", "input"};
  return out;
}

result<std::string> read_input_file(const std::string& path) {
  auto text = engine::read_plain_file(path, most_input);
  if (!text) return error{errc::invalid_request, path + ": " + text.error().message, "input"};
  return text;
}

std::string grouped(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

}  // namespace orcd::app
