#include "net/completion/sent_pictures.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "engine/media/image_header.hpp"
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

result<std::string> sent_pictures::take(std::string_view media_type, std::string_view base64,
                                        engine::picture_detail detail, const std::string& path) {
  constexpr std::size_t base64_a_byte_max = 2;
  if (all_.size() >= bounds_.pictures_max) {
    return refuse_field(
        path, "is one picture more than a request may have: " + std::to_string(bounds_.pictures_max));
  }
  if (base64.size() / base64_a_byte_max > bounds_.bytes_max) {
    return refuse_field(path, "has " + std::to_string(base64.size()) +
                                  " characters of base64; the limit is " + std::to_string(bounds_.bytes_max) +
                                  " bytes");
  }
  auto file = decode_base64(base64);
  if (!file) {
    return refuse_field(path,
                        "is no base64: letters, digits, '+' and '/', a multiple of four with '=' at the "
                        "end, without spaces");
  }
  if (file->size() > bounds_.bytes_max) {
    return refuse_field(path, "has " + std::to_string(file->size()) + " bytes; the limit is " +
                                  std::to_string(bounds_.bytes_max));
  }
  const auto header = engine::read_image_header(std::as_bytes(std::span(*file)));
  if (!header) return refuse_field(path, header.error().message);
  if (!fits(media_type, header->format)) {
    return refuse_field(path, "says that it is '" + shown_name(media_type) + "', but is a " +
                                  std::string(to_string(header->format)) + " file");
  }
  all_.push_back({std::move(*file), detail, path});
  return marks_.mark(all_.size() - 1);
}

result<std::string> sent_pictures::take_url(std::string_view url, std::string_view detail,
                                            const std::string& url_path, const std::string& detail_path) {
  const auto wanted = detail_named(detail);
  if (!wanted) return refuse_word(detail_path, "'low', 'high' or 'auto'", detail);
  const auto parts = read_data_url(url, url_path);
  if (!parts) return parts.error();
  return take(parts->media_type, parts->base64, *wanted, url_path);
}

result<std::string> sent_pictures::take_url_part(const json::object& part, const std::string& path) {
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

result<std::string> sent_pictures::take_input_image(const json::object& part, const std::string& path) {
  constexpr std::array<std::string_view, 3> members{"type", "image_url", "detail"};
  if (const auto ok = only_members(part, path, members); !ok) return ok.error();
  const auto url = text_member(part, path, "image_url");
  if (!url) return url.error();
  const auto detail = optional_text_member(part, path, "detail");
  if (!detail) return detail.error();
  return take_url(*url, *detail, path + ".image_url", path + ".detail");
}

result<std::string> sent_pictures::take_image_block(const json::object& block, const std::string& path) {
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

std::shared_ptr<sent_pictures> make_sent_pictures(const engine::picture_input* taken) {
  return taken == nullptr ? nullptr : std::make_shared<sent_pictures>(taken->bounds());
}

std::string join_pieces(const std::vector<content_piece>& pieces) {
  std::string out;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) out += '\n';
    out += pieces[i].text;
  }
  return out;
}

std::string sent_pictures::join(const std::vector<content_piece>& pieces) const {
  const bool pictures =
      std::any_of(pieces.begin(), pieces.end(), [](const auto& one) { return one.picture; });
  if (!pictures) return join_pieces(pieces);
  std::string out;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0 && !pieces[i].picture && !pieces[i - 1].picture) out += marks_.between();
    out += pieces[i].text;
  }
  return out;
}

}  // namespace orcd::net
