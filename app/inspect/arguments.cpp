#include "app/inspect/arguments.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "app/inspect/gpu_reading.hpp"
#include "engine/accelerator.hpp"
#include "engine/base/prompt_tokens.hpp"
#include "engine/lora/adapter_limits.hpp"

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;

constexpr std::uint32_t most_context = 1U << 24U;
constexpr std::uint32_t most_slots = 1024;
constexpr std::uint32_t most_kv_tokens = 1U << 28U;
constexpr std::uint32_t most_vram_mib = 1U << 24U;
constexpr std::array flags{std::string_view("--help"),
                           std::string_view("-h"),
                           std::string_view("--version"),
                           std::string_view("--json"),
                           std::string_view("--no-special"),
                           std::string_view("--add-generation-prompt"),
                           std::string_view("--no-generation-prompt"),
                           std::string_view("--failover"),
                           std::string_view("--share-weights")};
constexpr std::array valued_options{
    std::string_view("--text"),          std::string_view("--file"),
    std::string_view("--messages"),      std::string_view("--tools"),
    std::string_view("--ctx"),           std::string_view("--slots"),
    std::string_view("--vram-mib"),      std::string_view("--gpu"),
    std::string_view("--kv-type-k"),     std::string_view("--kv-type-v"),
    std::string_view("--max-loras"),     std::string_view("--max-lora-rank"),
    std::string_view("--kv-tokens"),     std::string_view("--tokenizer-pre"),
    std::string_view("--prefill-chunk"), std::string_view("--prefix-boundaries"),
    std::string_view("--mmproj")};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& all, std::string_view name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

struct action_name {
  std::string_view name;
  inspect_action action;
};
constexpr std::array actions{action_name{"info", inspect_action::info},
                             action_name{"tokenize", inspect_action::tokenize},
                             action_name{"detokenize", inspect_action::detokenize},
                             action_name{"chat", inspect_action::chat},
                             action_name{"plan", inspect_action::plan},
                             action_name{"doctor", inspect_action::doctor}};

error usage_error(const std::string& text) {
  return {errc::invalid_request, text, "arguments"};
}

result<std::uint32_t> number(std::string_view option, std::string_view text, std::uint32_t least,
                             std::uint32_t most) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    return usage_error(std::string(option) + " is '" + std::string(text.substr(0, 40)) +
                       "'; it must be a whole number from " + std::to_string(least) + " to " +
                       std::to_string(most));
  }
  return static_cast<std::uint32_t>(value);
}

result<engine::kv_type> kv_type_of(std::string_view option, std::string_view text) {
  std::string allowed;
  for (const auto& [word, type] : engine::kv_type_words) {
    if (text == word) return type;
    allowed += (allowed.empty() ? "" : ", ") + std::string(word);
  }
  return usage_error(std::string(option) + " is '" + std::string(text.substr(0, 40)) +
                     "'; it must be one of " + allowed);
}

class parser {
 public:
  explicit parser(std::span<const std::string_view> words) : words_(words) {}

  result<inspect_arguments> parse() {
    bool options = true;
    for (at_ = 0; at_ < words_.size(); ++at_) {
      const std::string_view word = words_[at_];
      if (options && word == "--") {
        options = false;
      } else if (options && word.size() > 1 && word.front() == '-') {
        if (auto done = option(word); !done) return done.error();
        if (out_.action == inspect_action::version || asked_for_help_) return out_;
      } else if (auto done = positional(word); !done) {
        return done.error();
      }
    }
    return checked();
  }

 private:
  result<void> option(std::string_view word) {
    const auto equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    if (is_one_of(flags, name)) {
      if (equals != std::string_view::npos) return usage_error(std::string(name) + " takes no value");
      return flag(name);
    }
    if (!is_one_of(valued_options, name)) {
      return usage_error("unknown option '" + std::string(name.substr(0, 40)) + "'");
    }
    if (equals == std::string_view::npos && at_ + 1 >= words_.size()) {
      return usage_error(std::string(name) + " needs a value");
    }
    return valued(name, equals == std::string_view::npos ? words_[++at_] : word.substr(equals + 1));
  }

  result<void> flag(std::string_view name) {
    if (name == "--json") out_.json = true;
    if (name == "--no-special") out_.special = false;
    if (name == "--add-generation-prompt" || name == "--no-generation-prompt") {
      used_.push_back(name);
      out_.generation_prompt = name == "--add-generation-prompt";
    }
    if (name == "--failover" || name == "--share-weights") {
      used_.push_back(name);
      (name == "--failover" ? out_.failover : out_.shared_weights) = true;
    }
    if (name == "--version") out_.action = inspect_action::version;
    if (name == "--help" || name == "-h") {
      out_.action = inspect_action::help;
      asked_for_help_ = true;
    }
    return {};
  }

  result<void> valued(std::string_view name, std::string_view value) {
    used_.push_back(name);
    if (name == "--text") out_.text = value;
    if (name == "--file") out_.input = value;
    if (name == "--tokenizer-pre") out_.tokenizer_pre = value;
    if (name == "--messages") out_.messages = value;
    if (name == "--tools") out_.tools = value;
    if (name == "--mmproj") out_.projector = value;
    if (name == "--ctx") return count(name, value, most_context, out_.context);
    if (name == "--slots") return count(name, value, most_slots, out_.slots);
    if (name == "--kv-tokens") return count(name, value, most_kv_tokens, out_.kv_tokens);
    if (name == "--prefill-chunk")
      return count(name, value, engine::prompt_tokens_limit, out_.prefill_chunk,
                   engine::prompt_tokens_lowest);
    if (name == "--max-loras") return count(name, value, engine::adapters_max, out_.adapters);
    if (name == "--max-lora-rank")
      return count(name, value, engine::adapter_limits().rank, out_.adapter_rank);
    if (name == "--vram-mib") return count(name, value, most_vram_mib, out_.vram_mib);
    if (name == "--prefix-boundaries") {
      const auto budget = engine::parse_boundary_budget(value);
      if (!budget)
        return usage_error("--prefix-boundaries is '" + std::string(value.substr(0, 40)) + "'; it " +
                           std::string(engine::boundary_budget_rule));
      out_.boundaries = *budget;
    }
    if (name == "--gpu") {
      const auto index = number(name, value, 0, gpu_index_max);
      if (!index) return index.error();
      out_.gpu = *index;
    }
    if (name == "--kv-type-k" || name == "--kv-type-v") {
      const auto type = kv_type_of(name, value);
      if (!type) return type.error();
      (name == "--kv-type-k" ? out_.kv.keys : out_.kv.values) = *type;
    }
    return {};
  }

  static result<void> count(std::string_view name, std::string_view value, std::uint32_t most,
                            std::uint32_t& out, std::uint32_t least = 1) {
    const auto n = number(name, value, least, most);
    if (!n) return n.error();
    out = *n;
    return {};
  }

  result<void> positional(std::string_view word) {
    if (!has_action_) {
      const auto* found =
          std::find_if(actions.begin(), actions.end(), [&](const auto& a) { return a.name == word; });
      if (found == actions.end())
        return usage_error("unknown command '" + std::string(word.substr(0, 40)) + "'");
      out_.action = found->action;
      has_action_ = true;
    } else if (!has_model_) {
      out_.model = word;
      has_model_ = true;
    } else if (out_.action == inspect_action::detokenize) {
      out_.ids.emplace_back(word);
    } else {
      return usage_error("unexpected argument '" + std::string(word.substr(0, 40)) + "'");
    }
    return {};
  }

  [[nodiscard]] bool belongs(std::string_view name) const {
    const inspect_action action = out_.action;
    if (name == "--text") return action == inspect_action::tokenize;
    const bool of_tokens = action == inspect_action::tokenize || action == inspect_action::detokenize;
    if (name == "--file") return of_tokens;
    if (name == "--tokenizer-pre") return of_tokens || action == inspect_action::doctor;
    if (name == "--messages" || name == "--tools" || name.ends_with("-generation-prompt")) {
      return action == inspect_action::chat;
    }
    const bool of_doctor = name == "--ctx" || name == "--slots" || name == "--vram-mib" ||
                           name == "--kv-type-k" || name == "--kv-type-v";
    return action == inspect_action::plan || (action == inspect_action::doctor && of_doctor);
  }

  result<inspect_arguments> checked() {
    if (!has_action_) return usage_error("a command is missing");
    if (!has_model_ || out_.model.empty()) return usage_error("the FILE argument is missing");
    for (const std::string_view name : used_) {
      const bool fits = belongs(name);
      if (!fits) return usage_error(std::string(name) + " does not belong to this command");
    }
    if (!out_.special && out_.action != inspect_action::tokenize &&
        out_.action != inspect_action::detokenize) {
      return usage_error("--no-special does not belong to this command");
    }
    if (out_.shared_weights && !out_.failover) {
      return usage_error("--share-weights is for the two engines of --failover");
    }
    if (out_.gpu && out_.vram_mib > 0) {
      return usage_error("--gpu and --vram-mib exclude each other: one asks the driver, the other says it");
    }
    if (out_.adapters == 0 && std::find(used_.begin(), used_.end(), "--max-lora-rank") != used_.end()) {
      return usage_error("--max-lora-rank is for the adapters of --max-loras");
    }
    if ((out_.text || !out_.ids.empty()) && out_.input) {
      return usage_error("--file and a text or ids on the command line exclude each other");
    }
    return out_;
  }

  std::span<const std::string_view> words_;
  std::size_t at_ = 0;
  inspect_arguments out_;
  std::vector<std::string_view> used_;
  bool asked_for_help_ = false;
  bool has_action_ = false;
  bool has_model_ = false;
};

}  // namespace

result<inspect_arguments> parse_inspect_arguments(std::span<const std::string_view> words) {
  return parser(words).parse();
}

result<std::vector<engine::token_id>> parse_token_ids(std::string_view text) {
  constexpr std::string_view separators = " \t\r\n,";
  std::vector<engine::token_id> out;
  std::size_t at = text.find_first_not_of(separators);
  while (at != std::string_view::npos) {
    const std::size_t stop = std::min(text.find_first_of(separators, at), text.size());
    const std::string_view word = text.substr(at, stop - at);
    engine::token_id id = -1;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (code != std::errc{} || end != word.data() + word.size() || id < 0) {
      return usage_error("token id " + std::to_string(out.size() + 1) + " is '" +
                         std::string(word.substr(0, 40)) + "'; ids are whole numbers from 0 to " +
                         std::to_string(std::numeric_limits<engine::token_id>::max()));
    }
    out.push_back(id);
    at = text.find_first_not_of(separators, stop);
  }
  return out;
}

std::string_view inspect_usage() noexcept {
  return "usage: worker-orcd-inspect COMMAND FILE [options]\n"
         "\n"
         "Shows what a model file holds and what serving it would take. FILE is a path, file:/path or\n"
         "shm:/name of a GGUF model; tokenize and detokenize take a tokenizer.json as well.\n"
         "\n"
         "  info FILE                    header, metadata, tensors, bytes by type, quant_kind\n"
         "  tokenize FILE                token ids of a text, on one line\n"
         "      --text T | --file F      the text (default: standard input), taken as it is\n"
         "      --no-special             neither add BOS or EOS nor recognise special tokens in the text\n"
         "  detokenize FILE [ID...]      the text of token ids\n"
         "      --file F                 where the ids are (default: arguments, else standard input)\n"
         "      --no-special             leave control tokens out\n"
         "      --tokenizer-pre NAME     for both: the pre-tokenizer, whatever tokenizer.ggml.pre says\n"
         "  chat FILE                    the prompt that the model's chat template makes of messages; FILE\n"
         "                               may also be a file that holds a template\n"
         "      --messages F             a JSON array, or an object of variables with the key messages\n"
         "                               (default: standard input)\n"
         "      --tools F                a JSON array of tools\n"
         "      --add-generation-prompt  end with the beginning of an answer (default)\n"
         "      --no-generation-prompt   do not\n"
         "  plan FILE                    bytes for weights, KV cache, workspace and logits\n"
         "      --ctx N                  positions per slot (default: the model's context)\n"
         "      --slots N                sequences at a time (default: 1)\n"
         "      --kv-tokens N            positions of the whole KV cache (default: slots times ctx)\n"
         "      --prefix-boundaries B    memory for boundaries of windowed layers (default: 12.5%)\n"
         "      --prefill-chunk N        prompt tokens a step (default: as a worker chooses)\n"
         "      --kv-type-k T            how keys are kept: f16 (default), bf16, q8_0\n"
         "      --kv-type-v T            how values are kept\n"
         "      --max-loras N            with room for so many LoRA adapters (default: none)\n"
         "      --max-lora-rank N        of this rank (default: 16)\n"
         "      --mmproj F               with a projector's weights, room for media and for encoding them\n"
         "      --vram-mib N             what a GPU would need that has so much, and what fits into it\n"
         "      --gpu N                  the same of GPU N of this machine, as --gpu-device counts them\n"
         "      --failover               the same for the two engines of a failover pair on one GPU\n"
         "      --share-weights          which have one copy of the weights\n"
         "\n"
         "  doctor FILE                  whether it can be served, on which paths, what is odd about it, "
         "what it\n"
         "                               takes and how fast it should be; ends with 1 if it cannot\n"
         "      --ctx, --slots, --kv-type-k, --kv-type-v, --vram-mib, --tokenizer-pre  as above\n"
         "\n"
         "  --json                       print one JSON object\n"
         "  --help, --version\n"
         "\n"
         "Exit status: 0 done; 1 failed, or doctor: the file cannot be served; 2 wrong usage; 3 plan and "
         "doctor:\n"
         "it does not fit into the GPU.\n";
}

}  // namespace orcd::app
