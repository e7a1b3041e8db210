#include "net/completion/sent_media.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "engine/media/image_header.hpp"
#include "engine/media/sound_header.hpp"
#include "net/completion/left_fields.hpp"
#include "net/json/base64.hpp"
#include "net/json/field_checks.hpp"
#include "net/json/object_members.hpp"
#include "net/json/text.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

struct data_url {
  std::string_view media_type;
  std::string_view base64;
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), to_lower);
  return out;
}

/// "data:image/png;base64,...". Nothing is ever fetched: another scheme is refused.
result<data_url> read_data_url(std::string_view url, const std::string& path) {
  constexpr std::string_view scheme = "data:", encoding = ";base64";
  if (lower(url.substr(0, scheme.size())) != scheme) {
    return refuse_field(path,
                        "must be a data: URL with the picture in base64; this worker fetches no others");
  }
  url.remove_prefix(scheme.size());
  const auto comma = url.find(',');
  if (comma == std::string_view::npos) return refuse_field(path, "is a data: URL without data");
  const std::string_view head = url.substr(0, comma);
  if (head.size() < encoding.size() || lower(head.substr(head.size() - encoding.size())) != encoding)
    return refuse_field(path, "is a data: URL whose data are not in base64");
  return data_url{head.substr(0, head.find(';')), url.substr(comma + 1)};
}

/// Whether the type that a client names is that of the content.
bool fits(std::string_view media_type, engine::image_format format) {
  const std::string type = lower(media_type);
  switch (format) {
    case engine::image_format::jpeg: return type == "image/jpeg" || type == "image/jpg";
    case engine::image_format::png: return type == "image/png";
    case engine::image_format::webp: break;
  }
  return type == "image/webp";
}

std::optional<engine::picture_detail> detail_named(std::string_view name) {
  if (name == "low") return engine::picture_detail::low;
  if (name.empty() || name == "auto" || name == "high") return engine::picture_detail::automatic;
  return std::nullopt;
}

}  // namespace

result<void> sent_media::check_kind(bool sound, const std::string& path) const {
  if (sound == hears_) return {};
  return refuse_field(path, std::string(sound ? "is a sound" : "is a picture") +
                                ", which this worker's projector does not take");
}

result<std::string> sent_media::take_file(std::string_view base64, std::uint64_t bytes_max,
                                          const std::string& path) const {
  constexpr std::size_t base64_a_byte_max = 2;
  if (all_.size() >= bounds_.media_max) {
    return refuse_field(path, std::string("is one ") + (hears_ ? "sound" : "picture") +
                                  " more than a request may have: " + std::to_string(bounds_.media_max));
  }
  if (base64.size() / base64_a_byte_max > bytes_max) {
    return refuse_field(path, "has " + std::to_string(base64.size()) +
                                  " characters of base64; the limit is " + std::to_string(bytes_max) +
                                  " bytes");
  }
  auto file = decode_base64(base64);
  if (!file) {
    return refuse_field(path,
                        "is no base64: letters, digits, '+' and '/', a multiple of four with '=' at the "
                        "end, without spaces");
  }
  if (file->size() > bytes_max) {
    return refuse_field(
        path, "has " + std::to_string(file->size()) + " bytes; the limit is " + std::to_string(bytes_max));
  }
  return std::move(*file);
}

result<std::string> sent_media::take(std::string_view media_type, std::string_view base64,
                                     engine::picture_detail detail, const std::string& path) {
  if (const auto taken = check_kind(false, path); !taken) return taken.error();
  auto file = take_file(base64, bounds_.bytes_max, path);
  if (!file) return file;
  const auto header = engine::read_image_header(std::as_bytes(std::span(*file)));
  if (!header) return refuse_field(path, header.error().message);
  if (!fits(media_type, header->format)) {
    return refuse_field(path, "says that it is '" + shown_name(media_type) + "', but is a " +
                                  std::string(to_string(header->format)) + " file");
  }
  all_.push_back({std::move(*file), detail, path});
  return marks_.mark(all_.size() - 1);
}

result<std::string> sent_media::take_url(std::string_view url, std::string_view detail,
                                         const std::string& url_path, const std::string& detail_path) {
  const auto wanted = detail_named(detail);
  if (!wanted) return refuse_word(detail_path, "'low', 'high' or 'auto'", detail);
  const auto parts = read_data_url(url, url_path);
  if (!parts) return parts.error();
  return take(parts->media_type, parts->base64, *wanted, url_path);
}

result<std::string> sent_media::take_url_part(const json::object& part, const std::string& path) {
  constexpr std::array<std::string_view, 2> members{"type", "image_url"};
  constexpr std::array<std::string_view, 2> of_url{"url", "detail"};
  if (const auto ok = only_members(part, path, members, left_fields(field_place::part)); !ok)
    return ok.error();
  const std::string where = path + ".image_url";
  const auto* const value = find_member(part, "image_url");
  if (value == nullptr) return refuse_field(where, "is missing");
  if (value->is_string()) return take_url(value->get_string(), "", where, where);
  if (!value->is_object()) return refuse_kind(where, "an object or a string", *value);
  const auto& image = value->get_object();
  if (const auto ok = only_members(image, where, of_url); !ok) return ok.error();
  const auto url = text_member(image, where, "url");
  if (!url) return url.error();
  const auto detail = optional_text_member(image, where, "detail");
  if (!detail) return detail.error();
  return take_url(*url, *detail, where + ".url", where + ".detail");
}

result<std::string> sent_media::take_input_image(const json::object& part, const std::string& path) {
  constexpr std::array<std::string_view, 3> members{"type", "image_url", "detail"};
  if (const auto ok = only_members(part, path, members); !ok) return ok.error();
  const auto url = text_member(part, path, "image_url");
  if (!url) return url.error();
  const auto detail = optional_text_member(part, path, "detail");
  if (!detail) return detail.error();
  return take_url(*url, *detail, path + ".image_url", path + ".detail");
}

result<std::string> sent_media::take_image_block(const json::object& block, const std::string& path) {
  constexpr std::array<std::string_view, 3> members{"type", "source", "cache_control"};
  constexpr std::array<std::string_view, 3> of_source{"type", "media_type", "data"};
  if (const auto ok = only_members(block, path, members); !ok) return ok.error();
  const auto source = object_member(block, path, "source");
  if (!source) return source.error();
  const std::string where = path + ".source";
  const auto type = text_member(**source, where, "type");
  if (!type) return type.error();
  if (*type != "base64") return refuse_word(where + ".type", "'base64': this worker fetches nothing", *type);
  if (const auto ok = only_members(**source, where, of_source); !ok) return ok.error();
  const auto media_type = text_member(**source, where, "media_type");
  if (!media_type) return media_type.error();
  const auto data = text_member(**source, where, "data");
  if (!data) return data.error();
  return take(*media_type, *data, engine::picture_detail::automatic, where + ".data");
}

result<std::string> sent_media::take_audio_part(const json::object& part, const std::string& path) {
  constexpr std::array<std::string_view, 2> members{"type", "input_audio"};
  constexpr std::array<std::string_view, 2> of_audio{"data", "format"};
  if (const auto taken = check_kind(true, path); !taken) return taken.error();
  if (const auto ok = only_members(part, path, members, left_fields(field_place::part)); !ok)
    return ok.error();
  const std::string where = path + ".input_audio";
  const auto audio = object_member(part, path, "input_audio");
  if (!audio) return audio.error();
  if (const auto ok = only_members(**audio, where, of_audio); !ok) return ok.error();
  const auto format = text_member(**audio, where, "format");
  if (!format) return format.error();
  if (*format != "wav" && *format != "mp3") return refuse_word(where + ".format", "'wav' or 'mp3'", *format);
  const auto data = text_member(**audio, where, "data");
  if (!data) return data.error();
  auto file = take_file(*data, bounds_.sound_bytes_max, where + ".data");
  if (!file) return file;
  const auto header = engine::read_sound_header(std::as_bytes(std::span(*file)), bounds_.seconds_max);
  if (!header) return refuse_field(where + ".data", header.error().message);
  if ((*format == "wav") != (header->format == engine::sound_format::wav)) {
    return refuse_field(where + ".format", "is '" + std::string(*format) + "', but the data are a " +
                                               std::string(to_string(header->format)) + " file");
  }
  all_.push_back({std::move(*file), {}, where + ".data"});
  return marks_.mark(all_.size() - 1);
}

std::shared_ptr<sent_media> make_sent_media(const engine::media_input* taken) {
  return taken == nullptr ? nullptr : std::make_shared<sent_media>(taken->bounds(), taken->hears());
}

std::string join_pieces(const std::vector<content_piece>& pieces) {
  std::string out;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) out += '\n';
    out += pieces[i].text;
  }
  return out;
}

std::string sent_media::join(const std::vector<content_piece>& pieces) const {
  const bool media = std::any_of(pieces.begin(), pieces.end(), [](const auto& one) { return one.medium; });
  if (!media) return join_pieces(pieces);
  std::string out;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0 && !pieces[i].medium && !pieces[i - 1].medium) out += marks_.between();
    out += pieces[i].text;
  }
  return out;
}

}  // namespace orcd::net
