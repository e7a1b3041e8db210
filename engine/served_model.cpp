#include "engine/served_model.hpp"

#include <utility>

#include "engine/sha256.hpp"

namespace orcd::engine {
namespace {

constexpr std::int64_t gguf_token_unused = 5;

result<std::vector<std::int64_t>> token_types_of(const gguf_file& file, const tokenizer& tokenizer) {
  // A tokenizer.json has its own vocabulary; the file's types say nothing about it.
  if (tokenizer.kind().substr(0, 4) != "gguf") return std::vector<std::int64_t>{};
  return file.get_integers("tokenizer.ggml.token_type");
}

}  // namespace

result<served_model> open_served_model(const model_source& source) {
  auto file = gguf_file::open(source.location);
  if (!file) return file.error();
  const auto beside = find_tokenizer_file(*file, source.location, source.tokenizer);
  if (!beside) return beside.error();
  auto vocabulary = make_tokenizer(*file, *beside);
  if (!vocabulary) return vocabulary.error();
  auto spec = load_model(*file, source.context, source.rope, source.pooling, source.activation);
  if (!spec) return spec.error();
  const auto rows = spec->spec.vocab;
  if ((*vocabulary)->vocab_size() > rows) {
    return error{errc::model_load_failed, "the tokenizer has " + std::to_string((*vocabulary)->vocab_size()) +
                                              " tokens but the model's vocabulary only " +
                                              std::to_string(rows) + " rows"};
  }
  const auto types = token_types_of(*file, **vocabulary);
  if (!types) return types.error();
  accelerator_config plan_for;
  plan_for.slots = source.slots;
  plan_for.context_tokens = source.context != 0 ? source.context : spec->spec.context_length;
  plan_for.banned_tokens = banned_tokens(**vocabulary, rows, *types);
  const auto ends = (*vocabulary)->end_of_generation();
  plan_for.end_of_generation.assign(ends.begin(), ends.end());
  std::optional<pair_format> pairs;
  if (spec->spec.pooling == pooling_kind::rank) {
    auto made = pair_format::make(*file, spec->spec);
    if (!made) return made.error();
    pairs.emplace(std::move(*made));
  }
  return served_model{std::move(*file),
                      std::move(*vocabulary),
                      std::move(*spec),
                      std::move(plan_for),
                      *beside ? sha256_of((*beside)->text) : std::string(),
                      std::move(pairs)};
}

std::vector<token_id> banned_tokens(const tokenizer& vocabulary, std::uint32_t rows,
                                    std::span<const std::int64_t> token_types) {
  std::vector<token_id> out;
  for (std::uint32_t row = 0; row < rows; ++row) {
    const auto id = static_cast<token_id>(row);
    const bool absent = row >= vocabulary.vocab_size() || vocabulary.piece(id).empty();
    const bool unused = row < token_types.size() && token_types[row] == gguf_token_unused;
    if ((absent || unused) && !vocabulary.is_end_of_generation(id)) out.push_back(id);
  }
  return out;
}

}  // namespace orcd::engine
