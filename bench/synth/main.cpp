// Writes a GGUF model, or a projector, of true shapes and types with random weights, for benchmarks and for
// serving without a download.
//   bench_synth --model NAME --out FILE [--layers N] [--seed N] [--vocab N] [--type TYPE]
// TYPE: of all matrices of layers, like Q3_K, instead of the published ones. An unknown NAME is answered with
// all that there are.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "bench/synth/model_shapes.hpp"
#include "bench/synth/stamped_file.hpp"

namespace {

constexpr const char* usage =
    "usage: bench_synth --model NAME --out FILE [--layers N] [--seed N] [--vocab N] [--type TYPE]\n";

struct command {
  orcd::bench::model_choice choice;
  std::string out;
  std::uint64_t seed = 1;
};

template <class T>
T number(const std::string& name, const std::string& text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) {
    throw std::invalid_argument(name + " is '" + text + "', not a number");
  }
  return value;
}

orcd::engine::ggml_type type_named(const std::string& text) {
  for (const auto& traits : orcd::engine::supported_types()) {
    if (traits.name == text) return traits.type;
  }
  throw std::invalid_argument("--type is '" + text + "', not a tensor type such as Q3_K");
}

command parse(int argc, char** argv) {
  command c;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (i + 1 >= argc) throw std::invalid_argument("'" + name + "' needs a value");
    const std::string value = argv[++i];
    if (name == "--model") {
      c.choice.model = value;
    } else if (name == "--out") {
      c.out = value;
    } else if (name == "--layers") {
      c.choice.layers = number<std::uint32_t>(name, value);
    } else if (name == "--vocab") {
      c.choice.vocab = number<std::uint32_t>(name, value);
    } else if (name == "--type") {
      c.choice.type = type_named(value);
    } else if (name == "--seed") {
      c.seed = number<std::uint64_t>(name, value);
    } else {
      throw std::invalid_argument("unknown option '" + name + "'");
    }
  }
  if (c.choice.model.empty() || c.out.empty()) throw std::invalid_argument("--model and --out are required");
  return c;
}

int run(const command& c) {
  const auto begin = std::chrono::steady_clock::now();
  const auto planned = orcd::bench::plan_model(c.choice);
  if (!planned) return std::fprintf(stderr, "bench_synth: %s\n", planned.error().message.c_str()), 1;
  const auto written = orcd::bench::write_stamped(*planned, c.seed, c.out);
  if (!written) return std::fprintf(stderr, "bench_synth: %s\n", written.error().message.c_str()), 1;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%s: %zu tensors of %llu bytes, file of %llu bytes, in %.1f s with %u threads\n", c.out.c_str(),
              planned->tensors.size(), static_cast<unsigned long long>(planned->tensor_bytes()),
              static_cast<unsigned long long>(written->file_bytes), seconds, written->threads);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::invalid_argument& e) {
    std::fprintf(stderr, "bench_synth: %s\n%s", e.what(), usage);
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_synth: %s\n", e.what());
    return 1;
  }
}
