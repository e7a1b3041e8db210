#include "app/quantize/arguments.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "engine/gguf/byte_cursor.hpp"

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::ggml_type;
using engine::result;

constexpr std::uint32_t most_extent = 1U << 20U;
constexpr std::uint32_t most_hidden = 1U << 17U;
constexpr std::uint32_t most_heads = 1024;
constexpr std::uint32_t most_head_dim = 512;
constexpr std::uint32_t most_context = 1U << 24U;
constexpr std::uint32_t most_rank = 4096;

std::string quoted(std::string_view text) {
  return engine::in_quotes(text.substr(0, 80));
}

/// Counts with their option, limit and place; what the SDK passes.
struct count_option {
  std::string_view name;
  std::uint32_t model_sizes::*place;
  std::uint32_t most;
};
constexpr std::array counts{count_option{"--hidden-dim", &model_sizes::hidden, most_hidden},
                            count_option{"--intermediate-dim", &model_sizes::ffn, most_extent},
                            count_option{"--hidden-dim-orig", &model_sizes::hidden_original, most_hidden},
                            count_option{"--intermediate-dim-orig", &model_sizes::ffn_original, most_extent},
                            count_option{"--head-dim", &model_sizes::head_dim, most_head_dim},
                            count_option{"--rope-dim", &model_sizes::rope_dim, most_head_dim},
                            count_option{"--max-pos", &model_sizes::context, most_context},
                            count_option{"--num-heads", &model_sizes::heads, most_heads},
                            count_option{"--num-kv-heads", &model_sizes::kv_heads, most_heads}};

constexpr std::array directory_options{std::string_view("--out"), std::string_view("--type"),
                                       std::string_view("--embedding")};
constexpr std::array manifest_options{std::string_view("--manifest"),    std::string_view("--output"),
                                      std::string_view("--arch"),        std::string_view("--norm-eps"),
                                      std::string_view("--rope-output"), std::string_view("--rope-theta"),
                                      std::string_view("--lora-output"), std::string_view("--lora-rank")};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& all, std::string_view name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

result<std::uint32_t> count_of(std::string_view option, std::string_view text, std::uint32_t most) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc{} && end == text.data() + text.size() && value >= 1 && value <= most) {
    return static_cast<std::uint32_t>(value);
  }
  return usage_error(std::string(option) + " is " + quoted(text) + "; it must be a whole number from 1 to " +
                     std::to_string(most));
}

/// Above 0. from_chars knows no locale.
result<double> number_of(std::string_view option, std::string_view text, double most) {
  double value = 0.0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc{} && end == text.data() + text.size() && value > 0.0 && value <= most) return value;
  return usage_error(std::string(option) + " is " + quoted(text) +
                     "; it must be a number above 0 of at most " + std::to_string(most));
}

class parser {
 public:
  explicit parser(std::span<const std::string_view> words) : words_(words) {}

  result<quantize_arguments> parse() {
    for (at_ = 0; at_ < words_.size(); ++at_) {
      const std::string_view word = words_[at_];
      if (word == "--help" || word == "-h") return only(quantize_arguments::action::help);
      if (word == "--version") return only(quantize_arguments::action::version);
      auto done = word.size() > 1 && word.front() == '-' ? option(word) : positional(word);
      if (!done) return done.error();
    }
    return out_.directory.model.empty() ? checked_manifest() : checked_directory();
  }

 private:
  static quantize_arguments only(quantize_arguments::action what) {
    quantize_arguments out;
    out.what = what;
    return out;
  }

  result<void> positional(std::string_view word) {
    if (word.empty() || !out_.directory.model.empty()) {
      return usage_error("there is the unexpected argument " + quoted(word));
    }
    out_.directory.model = word;
    return {};
  }

  result<void> option(std::string_view word) {
    const auto equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    if (std::find(used_.begin(), used_.end(), name) != used_.end()) {
      return usage_error(std::string(name) + " is given twice");
    }
    if (name == "--tie-embeddings" && equals == word.npos) {
      used_.push_back(name);
      out_.manifest.sizes.tied = true;
      return {};
    }
    const bool counted =
        std::any_of(counts.begin(), counts.end(), [&](const count_option& c) { return c.name == name; });
    if (!counted && !is_one_of(directory_options, name) && !is_one_of(manifest_options, name)) {
      return usage_error("there is no option " + quoted(name));
    }
    if (equals == word.npos && at_ + 1 >= words_.size())
      return usage_error(std::string(name) + " needs a value");
    const std::string_view value = equals == word.npos ? words_[++at_] : word.substr(equals + 1);
    if (value.empty() || value.size() > 4096) {
      return usage_error(std::string(name) + " has " + std::to_string(value.size()) +
                         " bytes; it must have 1 to 4096");
    }
    used_.push_back(name);
    return is_one_of(directory_options, name) ? own_value(name, value) : sdk_value(name, value);
  }

  result<void> own_value(std::string_view name, std::string_view value) {
    directory_call& call = out_.directory;
    if (name == "--out") {
      call.out = value;
      return {};
    }
    const bool of_type = name == "--type";
    using choice = std::pair<std::string_view, ggml_type>;
    constexpr std::array types{choice{"i2_s", ggml_type::i2_s}, choice{"tq1_0", ggml_type::tq1_0},
                               choice{"tq2_0", ggml_type::tq2_0}};
    constexpr std::array embeddings{choice{"bf16", ggml_type::bf16}, choice{"q8_0", ggml_type::q8_0}};
    const std::span<const choice> choices = of_type ? std::span<const choice>(types) : embeddings;
    for (const auto& [word, type] : choices) {
      if (word != value) continue;
      (of_type ? call.type : call.embedding) = type;
      return {};
    }
    return usage_error(std::string(name) + " is " + quoted(value) + "; it must be " +
                       (of_type ? "i2_s, tq1_0 or tq2_0" : "bf16 or q8_0"));
  }

  result<void> sdk_value(std::string_view name, std::string_view value) {
    manifest_call& call = out_.manifest;
    for (const count_option& c : counts) {
      if (c.name == name) return put(count_of(name, value, c.most), call.sizes.*c.place);
    }
    if (name == "--manifest") call.manifest = value;
    if (name == "--output") call.output = value;
    if (name == "--rope-output") call.rope_output = value;
    if (name == "--lora-output") call.lora_output = value;
    if (name == "--lora-rank") return put(count_of(name, value, most_rank), call.lora_rank.emplace());
    if (name == "--norm-eps") return put(number_of(name, value, 1.0), call.sizes.eps);
    if (name == "--rope-theta") return put(number_of(name, value, 1e12), call.sizes.theta);
    if (name != "--arch") return {};
    if (value != "1" && value != "2") {
      return usage_error("--arch is " + quoted(value) + "; it must be 1 (BitNet) or 2 (Llama)");
    }
    call.sizes.arch = value == "1" ? model_arch::bitnet : model_arch::llama;
    return {};
  }

  template <class T>
  static result<void> put(const result<T>& value, T& place) {
    if (!value) return value.error();
    place = *value;
    return {};
  }

  [[nodiscard]] bool used(std::string_view name) const {
    return std::find(used_.begin(), used_.end(), name) != used_.end();
  }

  result<quantize_arguments> checked_directory() {
    for (const std::string_view name : used_) {
      if (!is_one_of(directory_options, name)) {
        return usage_error(std::string(name) + " is for --manifest, not for a model's folder");
      }
    }
    if (out_.directory.out.empty()) return usage_error("--out is missing");
    out_.what = quantize_arguments::action::directory;
    return out_;
  }

  result<quantize_arguments> checked_manifest() {
    if (used_.empty()) return usage_error("a model's folder is missing; --help says more");
    for (const std::string_view name : used_) {
      if (is_one_of(directory_options, name)) {
        return usage_error(std::string(name) + " is for a model's folder, which is missing");
      }
    }
    for (const std::string_view name :
         {"--manifest", "--output", "--arch", "--hidden-dim", "--intermediate-dim", "--head-dim"}) {
      if (!used(name)) return usage_error(std::string(name) + " is missing");
    }
    model_sizes& sizes = out_.manifest.sizes;
    if (sizes.hidden_original == 0) sizes.hidden_original = sizes.hidden;
    if (sizes.ffn_original == 0) sizes.ffn_original = sizes.ffn;
    if (sizes.rope_dim == 0) sizes.rope_dim = sizes.head_dim;
    if (auto padded = check_padding("--hidden-dim", sizes.hidden, sizes.hidden_original); !padded)
      return padded.error();
    if (auto padded = check_padding("--intermediate-dim", sizes.ffn, sizes.ffn_original); !padded)
      return padded.error();
    out_.what = quantize_arguments::action::manifest;
    return out_;
  }

  static result<void> check_padding(std::string_view name, std::uint32_t padded, std::uint32_t original) {
    if (padded == (original + 127) / 128 * 128) return {};
    return usage_error(std::string(name) + " is " + std::to_string(padded) + "; it must be " +
                       std::string(name) + "-orig, " + std::to_string(original) +
                       ", rounded up to a multiple of 128");
  }

  std::span<const std::string_view> words_;
  std::size_t at_ = 0;
  quantize_arguments out_;
  std::vector<std::string_view> used_;
};

}  // namespace

std::string_view gguf_architecture(model_arch arch) noexcept {
  return arch == model_arch::bitnet ? "bitnet-b1.58" : "llama";
}

result<quantize_arguments> parse_quantize_arguments(std::span<const std::string_view> words) {
  return parser(words).parse();
}

std::string_view quantize_usage() noexcept {
  return "usage: trillim-quantize MODEL_DIR --out DIR|FILE.gguf [--type T] [--embedding T]\n"
         "\n"
         "Makes a ternary model of the safetensors and the config.json in MODEL_DIR, or of what a manifest "
         "of the\n"
         "Trillim SDK names.\n"
         "\n"
         "Options:\n"
         "  --out WHERE          a folder, where qmodel.tensors and rope.cache are written, or the name of "
         "a\n"
         "                       GGUF, which ends with .gguf\n"
         "  --type T             of linear layers in a GGUF: i2_s (default), tq1_0, tq2_0\n"
         "  --embedding T        of embedding and output: bf16 (default), q8_0\n"
         "  --help               this text\n"
         "  --version            the version\n"
         "\n"
         "As the SDK passes them:\n"
         "  --manifest FILE      which tensors of which files become what\n"
         "  --output FILE        qmodel.tensors; not written where the manifest has no tensors\n"
         "  --arch N             1 BitNet, 2 Llama\n"
         "  --hidden-dim N       the width, rounded up to a multiple of 128\n"
         "  --hidden-dim-orig N  the width itself\n"
         "  --intermediate-dim N  the feed-forward width, rounded up in the same way\n"
         "  --intermediate-dim-orig N  the feed-forward width itself\n"
         "  --head-dim N         dimensions of a head\n"
         "  --rope-dim N         how many of them are rotated; all by default\n"
         "  --num-heads N        heads; needed for LoRA\n"
         "  --num-kv-heads N     heads of K and V; needed for LoRA\n"
         "  --norm-eps X         the norms' epsilon\n"
         "  --rope-theta X       RoPE's base\n"
         "  --max-pos N          positions of the context\n"
         "  --tie-embeddings     the output is the embedding\n"
         "  --rope-output FILE   rope.cache\n"
         "  --lora-output FILE   qmodel.lora\n"
         "  --lora-rank N        the adapter's rank\n"
         "\n"
         "Files are written as FILE.tmp and then renamed. Exit codes: 0 done, 1 a file is wrong or cannot "
         "be\n"
         "written, 2 wrong usage.\n";
}

}  // namespace orcd::app
