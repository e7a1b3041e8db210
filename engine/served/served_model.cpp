#include "engine/served/served_model.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/kv_window.hpp"
#include "engine/base/sha256.hpp"
#include "engine/media/log_mel.hpp"
#include "engine/model/not_a_model.hpp"

namespace orcd::engine {
namespace {

constexpr std::int64_t gguf_token_unused = 5;

result<std::vector<std::int64_t>> token_types_of(const gguf_file& file, const tokenizer& tokenizer) {
  // A tokenizer.json has its own vocabulary; the file's types say nothing about it.
  if (tokenizer.kind().substr(0, 4) != "gguf") return std::vector<std::int64_t>{};
  return file.get_integers("tokenizer.ggml.token_type");
}

result<model> load_from(const gguf_file& file, const model_source& source) {
  return load_model(file, source.context, source.rope, source.pooling, source.activation);
}

accelerator_config plan_of(const model_source& source, const model_spec& spec) {
  accelerator_config plan;
  plan.slots = source.slots;
  plan.context_tokens = source.context != 0 ? source.context : spec.context_length;
  return plan;
}

/// Rows without a name and those that are marked unused, but for tokens that end a sequence.
template <class IsNamed, class IsEnd>
std::vector<token_id> rows_to_ban(std::uint32_t rows, std::span<const std::int64_t> token_types,
                                  const IsNamed& is_named, const IsEnd& is_end) {
  std::vector<token_id> out;
  for (std::uint32_t row = 0; row < rows; ++row) {
    const auto id = static_cast<token_id>(row);
    const bool unused = row < token_types.size() && token_types[row] == gguf_token_unused;
    if ((!is_named(row) || unused) && !is_end(id)) out.push_back(id);
  }
  return out;
}

/// Without a tokenizer: by the file's vocabulary, if it has one.
result<std::vector<token_id>> banned_without_tokenizer(const gguf_file& file, std::uint32_t rows,
                                                       const std::vector<token_id>& ends) {
  const auto names = file.get_strings("tokenizer.ggml.tokens");
  auto types = file.get_integers("tokenizer.ggml.token_type");
  if (!names) return names.error();
  if (!types) return types.error();
  if (names->empty()) return std::vector<token_id>();
  if (const auto added = add_suppressed_tokens(file, rows, *types); !added) return added.error();
  return rows_to_ban(
      rows, *types, [&](std::uint32_t row) { return row < names->size() && !(*names)[row].empty(); },
      [&](token_id id) { return std::find(ends.begin(), ends.end(), id) != ends.end(); });
}

}  // namespace

result<served_model> open_token_model(const model_source& source, std::vector<token_id> ends) {
  auto file = gguf_file::open(source.location);
  if (!file) return file.error();
  auto spec = load_from(*file, source);
  if (!spec) return spec.error();
  auto banned = banned_without_tokenizer(*file, spec->spec.vocab, ends);
  if (!banned) return banned.error();
  auto plan_for = plan_of(source, spec->spec);
  plan_for.banned_tokens = std::move(*banned);
  std::sort(ends.begin(), ends.end());
  plan_for.end_of_generation = std::move(ends);
  return served_model{std::move(*file), nullptr, std::move(*spec), std::move(plan_for), std::string()};
}

result<served_model> open_served_model(const model_source& source) {
  auto file = gguf_file::open(source.location);
  if (!file) return file.error();
  // Before the tokenizer, which nothing but a model has.
  if (const auto is_model = check_is_model(*file); !is_model) return is_model.error();
  const auto beside = find_tokenizer_file(*file, file->location(), source.tokenizer);
  if (!beside) return beside.error();
  auto vocabulary = make_tokenizer(*file, *beside, source.tokenizer_pre);
  if (!vocabulary) return vocabulary.error();
  auto spec = load_from(*file, source);
  if (!spec) return spec.error();
  const auto rows = spec->spec.vocab;
  if ((*vocabulary)->vocab_size() > rows) {
    return error{errc::model_load_failed, "the tokenizer has " + std::to_string((*vocabulary)->vocab_size()) +
                                              " tokens but the model's vocabulary only " +
                                              std::to_string(rows) + " rows"};
  }
  auto types = token_types_of(*file, **vocabulary);
  if (!types) return types.error();
  if (const auto added = add_suppressed_tokens(*file, rows, *types); !added) return added.error();
  auto plan_for = plan_of(source, spec->spec);
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
                      *beside ? sha256_of((*beside)->text) : source.tokenizer_pre,
                      std::move(pairs)};
}

namespace {

/// Rows of the largest medium that a request can have; those of a sound must fit its context.
std::uint32_t rows_max(const tower_spec& spec, largest_medium most, std::uint32_t context) {
  if (!spec.sound)
    return std::max(spec.view_rows_max(), std::min(spec.picture_rows_max(), most.picture_tokens));
  const std::uint64_t rows = std::min<std::uint64_t>(spec.sound_rows(most.sound_seconds), context);
  return std::max(spec.view_rows_max(), static_cast<std::uint32_t>(rows));
}

}  // namespace

media_room plan_media(const tower& of, largest_medium most, std::uint32_t slots, std::uint32_t context,
                      std::uint64_t cache_bytes) noexcept {
  const std::uint64_t block_bytes = std::uint64_t{media_block_rows} * of.spec.row_width() * sizeof(float);
  const std::uint64_t of_slots =
      std::uint64_t{slots} * pages_over(rows_max(of.spec, most, context), media_block_rows);
  const std::uint64_t blocks = of_slots + cache_bytes / block_bytes;
  constexpr std::uint64_t blocks_max = 1U << 24U;
  return {&of, static_cast<std::uint32_t>(std::min(blocks, blocks_max))};
}

result<void> add_projector(served_model& model, const std::string& location, largest_medium most,
                           std::uint64_t cache_bytes) {
  auto opened = open_tower(location, model.spec.spec);
  if (!opened) return opened.error();
  limit_rows(opened->spec, most.picture_tokens);
  model.projector = std::make_unique<const tower>(std::move(*opened));
  model.plan_for.media =
      plan_media(*model.projector, most, model.plan_for.slots, model.plan_for.context_tokens, cache_bytes);
  return {};
}

result<void> add_suppressed_tokens(const gguf_file& file, std::uint32_t rows,
                                   std::vector<std::int64_t>& token_types) {
  const auto listed = file.get_integers("tokenizer.ggml.suppress_tokens");
  if (!listed) return listed.error();
  constexpr std::int64_t normal = 1;
  for (const std::int64_t id : *listed) {
    if (id < 0 || id >= static_cast<std::int64_t>(rows)) continue;
    const auto row = static_cast<std::size_t>(id);
    if (token_types.size() <= row) token_types.resize(row + 1, normal);
    token_types[row] = gguf_token_unused;
  }
  return {};
}

std::vector<token_id> banned_tokens(const tokenizer& vocabulary, std::uint32_t rows,
                                    std::span<const std::int64_t> token_types) {
  const auto is_named = [&](std::uint32_t row) {
    return row < vocabulary.vocab_size() && !vocabulary.piece(static_cast<token_id>(row)).empty();
  };
  return rows_to_ban(rows, token_types, is_named,
                     [&](token_id id) { return vocabulary.is_end_of_generation(id); });
}

}  // namespace orcd::engine
