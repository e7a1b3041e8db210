// Chooses and makes a worker's tokenizer.
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/base/permanent.hpp"
#include "engine/base/plain_file.hpp"
#include "engine/gguf/location.hpp"
#include "engine/text/json_tokenizer.hpp"
#include "engine/text/vocabulary.hpp"

namespace orcd::engine {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_json_bytes = 64u << 20;

error refuse(std::string text) {
  return {errc::model_load_failed, std::move(text), "tokenizer"};
}

result<std::string> read_file(const fs::path& path) {
  auto text = read_plain_file(path.string(), max_json_bytes);
  if (!text) return refuse("tokenizer: " + path.string() + " " + text.error().message);
  return text;
}

// An id of the GGUF, or -1: a key of the wrong type must not stop a tokenizer.json that can do without it.
token_id gguf_id(const gguf_file& file, std::string_view key) {
  constexpr std::uint64_t absent = vocabulary::max_tokens;
  const auto id = file.get_unsigned(key, absent);
  return id && *id < absent ? static_cast<token_id>(*id) : -1;
}

special_ids ids_of(const gguf_file& file) {
  return {gguf_id(file, "tokenizer.ggml.bos_token_id"), gguf_id(file, "tokenizer.ggml.eos_token_id"),
          gguf_id(file, "tokenizer.ggml.eot_token_id"), gguf_id(file, "tokenizer.ggml.eom_token_id")};
}

bool has_tokenizer(const gguf_file& file) {
  const auto model = file.get_string("tokenizer.ggml.model", "none");
  if (!model || *model != "none") return true;
  const auto whole = file.get_string("tokenizer.huggingface.json", "");
  return whole && !whole->empty();
}

/// The tokenizer.json that is used with the model file; empty where there is none.
fs::path file_beside(const gguf_file& file, std::string_view model_location, std::string_view path) {
  std::error_code ec;
  if (!path.empty()) {
    const fs::path chosen{std::string(path)};
    return fs::is_directory(chosen, ec) ? chosen / "tokenizer.json" : chosen;
  }
  if (has_tokenizer(file)) return {};
  const auto where = parse_location(model_location);
  if (!where || where->where != engine::model_location::kind::path) return {};
  const fs::path beside = fs::path(where->name).parent_path() / "tokenizer.json";
  return fs::exists(beside, ec) ? beside : fs::path();
}

}  // namespace

result<std::optional<tokenizer_file>> find_tokenizer_file(const gguf_file& file,
                                                          std::string_view model_location,
                                                          std::string_view path) {
  const fs::path beside = file_beside(file, model_location, path);
  if (beside.empty()) return std::optional<tokenizer_file>{};
  auto text = read_file(beside);
  if (!text) return text.error();
  return std::optional(tokenizer_file{beside.string(), std::move(*text)});
}

result<std::unique_ptr<tokenizer>> make_tokenizer(const gguf_file& file,
                                                  const std::optional<tokenizer_file>& beside,
                                                  std::string_view pre) {
  const auto whole = file.get_string("tokenizer.huggingface.json", "");
  const auto model = file.get_string("tokenizer.ggml.model", "none");
  if (!beside && !model) return model.error();
  const bool is_json = beside || (*model == "none" && whole && !whole->empty());
  if (is_json && !pre.empty()) {
    return made_permanent(
        refuse("--tokenizer-pre is for the tokenizer of a GGUF file; a tokenizer.json has its own"));
  }
  if (beside) {
    auto made = make_json_tokenizer(beside->text, ids_of(file));
    if (!made) return refuse(beside->path + ": " + made.error().message);
    return made;
  }
  if (*model != "none") return make_gguf_tokenizer(file, pre);
  if (is_json) return make_json_tokenizer(*whole, ids_of(file));
  return refuse(
      "the model file holds no tokenizer (tokenizer.ggml.model is absent) and there is no "
      "tokenizer.json beside it; name one with --tokenizer");
}

}  // namespace orcd::engine
