#include "app/pod/pod_command.hpp"

#include <array>
#include <istream>
#include <ostream>
#include <string>

#include "app/console/one_line.hpp"
#include "app/pod/manifest.hpp"
#include "app/pod/pod_spec.hpp"
#include "app/version/version.hpp"
#include "engine/base/plain_file.hpp"

namespace orcd::app {
namespace {

constexpr std::string_view usage =
    "usage: worker-orcd-pod generate|validate SPEC.yaml\n"
    "\n"
    "Makes the objects that a Kubernetes cluster needs to run a worker, or two engines of which one serves,\n"
    "of a short specification; docs/kubernetes.md lists its fields. SPEC.yaml may be - for standard input.\n"
    "\n"
    "  generate   print the objects as one List in JSON, as kubectl apply -f - takes it\n"
    "  validate   print what is wrong with the specification, a line each\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 done, 1 the specification is wrong, 2 wrong usage.\n";

/// Up to one byte more than a specification may have, so that a longer one is seen to be longer.
std::string read_some(std::istream& in) {
  std::string text(spec_bytes_max + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

engine::result<std::string> read_specification(std::string_view path, std::istream& in) {
  if (path == "-") return read_some(in);
  return engine::read_beginning(std::string(path), spec_bytes_max + 1);
}

int run(bool generate, std::string_view path, std::istream& in, std::ostream& out, std::ostream& err) {
  const auto text = read_specification(path, in);
  if (!text) {
    err << complaint("worker-orcd-pod", std::string(path) + ": " + text.error().message);
    return 2;
  }
  auto [spec, problems] = read_pod_spec(*text);
  if (problems.empty()) problems = validate_pod_spec(spec);
  for (const auto& problem : problems) err << complaint(path, problem);
  if (!problems.empty()) return 1;
  if (generate) out << indented_json(build_manifest(spec)) << std::flush;
  return out.good() ? 0 : 1;
}

}  // namespace

int run_pod_command(std::span<const std::string_view> words, std::istream& in, std::ostream& out,
                    std::ostream& err) {
  if (words.size() == 1 && (words[0] == "--help" || words[0] == "-h")) {
    out << usage << std::flush;
    return 0;
  }
  if (words.size() == 1 && words[0] == "--version") {
    out << "worker-orcd-pod " << version() << "\n" << std::flush;
    return 0;
  }
  const bool known = words.size() == 2 && (words[0] == "generate" || words[0] == "validate");
  if (!known || words[1].empty()) {
    err << complaint("worker-orcd-pod", "a command, generate or validate, and one file are expected")
        << usage;
    return 2;
  }
  return run(words[0] == "generate", words[1], in, out, err);
}

}  // namespace orcd::app
