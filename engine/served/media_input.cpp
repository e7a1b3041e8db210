#include "engine/served/media_input.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/sha256.hpp"
#include "engine/media/log_mel.hpp"

namespace orcd::engine {
namespace {

std::string repeated(std::string_view text, std::uint32_t times) {
  std::string out;
  out.reserve(text.size() * times);
  for (std::uint32_t i = 0; i < times; ++i) out += text;
  return out;
}

std::string filled(std::string text, std::uint32_t row, std::uint32_t column) {
  const auto fill = [&](std::string_view name, std::uint32_t value) {
    if (const auto at = text.find(name); at != std::string::npos)
      text.replace(at, name.size(), std::to_string(value));
  };
  fill("{row}", row);
  fill("{column}", column);
  return text;
}

/// The one token of a text.
std::optional<token_id> token_of(const tokenizer& vocabulary, std::string_view text) {
  encode_options options;
  options.add_special = false;
  const auto tokens = vocabulary.encode(text, options);
  return tokens.size() == 1 ? std::optional(tokens.front()) : std::nullopt;
}

/// Tokens of a line of a view.
std::uint32_t line_tokens(const picture_rules& rules, const picture& view) noexcept {
  return view.width / (rules.patch * rules.merge);
}

std::uint32_t rows_of(const picture_rules& rules, const prepared_picture& pixels) {
  std::uint32_t out = 0;
  for (const picture& view : pixels.views) out += tokens_of_view(rules, {view.width, view.height});
  return out;
}

std::string digest_of(const tower& of, const prepared_picture& pixels) {
  sha256 digest;
  digest.update(of.digest + " " + std::to_string(pixels.tile_rows) + " " +
                std::to_string(pixels.tile_columns));
  for (const picture& view : pixels.views) {
    digest.update(" " + std::to_string(view.width) + " " + std::to_string(view.height) + " ");
    digest.update(std::as_bytes(std::span(view.rgb)));
  }
  return digest.finish();
}

std::string digest_of(const tower& of, const sound& samples) {
  sha256 digest;
  digest.update(of.digest + " sound " + std::to_string(samples.samples.size()) + " ");
  digest.update(std::as_bytes(std::span(samples.samples)));
  return digest.finish();
}

error too_large(std::uint64_t bytes, std::uint64_t limit) {
  return {errc::invalid_request,
          "has " + std::to_string(bytes) + " bytes; the limit is " + std::to_string(limit)};
}

}  // namespace

result<media_input> media_input::make(const tower& of, const tokenizer& vocabulary, media_decoder& decoder,
                                      media_bounds bounds) {
  const picture_text& text = of.spec.text;
  // What stands before a sound is a token by itself; before a picture there may be line ends, too.
  const bool lines = !text.line_after.empty();
  for (const std::string& needed : {text.token, text.placeholder, of.spec.sound ? text.before : text.token,
                                    lines ? text.line_after : text.token, lines ? text.after : text.token}) {
    if (token_of(vocabulary, needed)) continue;
    return error(errc::model_load_failed,
                 std::string(of.file.location()) + ": the model's vocabulary has no token '" + needed +
                     "', which stands for media of projector '" + of.spec.projector + "'",
                 "mmproj");
  }
  return media_input(of, decoder, bounds, *token_of(vocabulary, text.token));
}

result<seen_medium> media_input::see(std::span<const std::byte> file, picture_detail detail) const {
  if (file.size() > bounds_.bytes_max) return too_large(file.size(), bounds_.bytes_max);
  const auto decoded = decoder_->decode(file, bounds_.pixels_max);
  if (!decoded) return decoded.error();
  auto pixels = prepare_picture(*decoded, rules_, detail);
  // Fewer tokens than one view has are not to be had.
  if (rows_of(rules_, pixels) > bounds_.tokens_max && detail != picture_detail::low)
    pixels = prepare_picture(*decoded, rules_, picture_detail::low);
  seen_medium out;
  out.rows = rows_of(rules_, pixels);
  out.digest = digest_of(*of_, pixels);
  out.text = text_of(pixels);
  out.content = std::make_shared<const prepared_medium>(prepared_medium{std::move(pixels)});
  return out;
}

result<seen_medium> media_input::hear(std::span<const std::byte> file) const {
  if (file.size() > bounds_.sound_bytes_max) return too_large(file.size(), bounds_.sound_bytes_max);
  const auto decoded = decoder_->decode_sound(file, bounds_.seconds_max);
  if (!decoded) return decoded.error();
  auto frames = log_mel(decoded->samples, of_->spec.sound->bins);
  seen_medium out;
  out.rows = frames.chunks * of_->spec.view_rows_max();
  out.digest = digest_of(*of_, *decoded);
  out.text = text().before + repeated(text().token, out.rows) + text().after;
  out.content = std::make_shared<const prepared_medium>(prepared_medium{std::move(frames)});
  return out;
}

std::string media_input::text_of(const prepared_picture& pixels) const {
  const picture_text& with = of_->spec.text;
  const auto rows = [&](std::size_t view) {
    const picture& of = pixels.views[view];
    const std::uint32_t tokens = tokens_of_view(rules_, {of.width, of.height});
    if (with.line_after.empty()) return repeated(with.token, tokens);
    const std::uint32_t columns = line_tokens(rules_, of);
    const std::string line = repeated(with.token, columns);
    std::string all = line;
    for (std::uint32_t i = columns; i < tokens; i += columns) all += with.line_after + line;
    return all;
  };
  if (pixels.tile_rows == 0) return with.before + rows(0) + with.after;
  std::string out;
  std::size_t view = 0;
  for (std::uint32_t row = 1; row <= pixels.tile_rows; ++row) {
    for (std::uint32_t column = 1; column <= pixels.tile_columns; ++column)
      out += filled(with.tile_before, row, column) + rows(view++);
    out += with.row_after;
  }
  return out + with.whole_before + rows(view) + with.whole_after;
}

std::uint32_t media_input::columns_of(const seen_medium& medium) const {
  if (!of_->spec.rows_are_grid) return 0;
  return line_tokens(rules_, medium.content->picture()->views.front());
}

result<std::vector<job_medium>> media_input::place(const std::vector<seen_medium>& media,
                                                   std::vector<token_id>& tokens) const {
  const std::string one(kind());
  const auto wrong = [](std::string what) {
    return error(errc::invalid_request, std::move(what), "messages");
  };
  if (!tokens.empty() && tokens.back() == token_)
    return wrong("end with a " + one + "; a text must follow it");
  std::vector<job_medium> out;
  std::size_t at = 0;
  for (const seen_medium& medium : media) {
    job_medium made{medium.content,    medium.digest, medium.rows, {}, of_->spec.rows_see_each_other,
                    columns_of(medium)};
    std::uint32_t rows = 0;
    while (rows < medium.rows) {
      while (at < tokens.size() && tokens[at] != token_) ++at;
      if (at == tokens.size()) break;
      media_run run{static_cast<std::uint32_t>(at), 0, rows};
      for (; rows < medium.rows && at < tokens.size() && tokens[at] == token_; ++at, ++rows, ++run.count)
        tokens[at] = media_token;
      made.runs.push_back(run);
    }
    if (rows < medium.rows)
      return wrong("have fewer places for rows of " + one + "s than the " + std::to_string(medium.rows) +
                   " of a " + one);
    if (made.columns > 0 && made.runs.size() > 1) return wrong("have rows of a picture that a text parts");
    out.push_back(std::move(made));
  }
  if (std::find(tokens.begin() + static_cast<std::ptrdiff_t>(at), tokens.end(), token_) != tokens.end())
    return wrong("spell '" + of_->spec.text.token + "', which stands for " + one + "s, beside " + one + "s");
  return out;
}

}  // namespace orcd::engine
