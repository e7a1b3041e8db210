// The pictures or sounds of a request as it sends them: data: URLs and base64, read and judged by their first
// bytes. In the text of their message each is a mark (engine/conversation/media_marks.hpp). Pure. Private to
// net/.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/conversation/media_marks.hpp"
#include "engine/media/prepare_picture.hpp"
#include "engine/served/media_input.hpp"

namespace orcd::net {

struct sent_medium {
  std::string file;
  engine::picture_detail detail = engine::picture_detail::automatic;
  std::string path;  ///< of the field that has it, for messages
};

/// A part of a message's content.
struct content_piece {
  std::string text;
  bool medium = false;  ///< the text is a mark
};

class sent_media {
 public:
  /// `hears`: sounds are taken and pictures refused; otherwise it is the other way round.
  explicit sent_media(const engine::media_bounds& bounds, bool hears = false)
      : bounds_(bounds), hears_(hears), marks_(hears ? "audio" : "image") {}

  [[nodiscard]] const std::vector<sent_medium>& all() const noexcept { return all_; }
  [[nodiscard]] const engine::media_marks& marks() const noexcept { return marks_; }

  [[nodiscard]] bool hears() const noexcept { return hears_; }
  /// A part {"type":"image_url","image_url":{"url":URL,"detail":D}}, or with the URL alone; the picture's
  /// mark. Errors: invalid_request with the path as param.
  [[nodiscard]] engine::result<std::string> take_url_part(const boost::json::object& part,
                                                          const std::string& path);
  /// The same of /v1/responses: {"type":"input_image","image_url":URL,"detail":D}.
  [[nodiscard]] engine::result<std::string> take_input_image(const boost::json::object& part,
                                                             const std::string& path);
  /// The same of /v1/messages: {"type":"image","source":{"type":"base64","media_type":M,"data":D}}.
  [[nodiscard]] engine::result<std::string> take_image_block(const boost::json::object& block,
                                                             const std::string& path);
  /// A part {"type":"input_audio","input_audio":{"data":BASE64,"format":F}}, F being wav or mp3.
  [[nodiscard]] engine::result<std::string> take_audio_part(const boost::json::object& part,
                                                            const std::string& path);
  /// The text of a message of these pieces: texts are joined by line ends, unless there are media.
  [[nodiscard]] std::string join(const std::vector<content_piece>& pieces) const;

 private:
  [[nodiscard]] engine::result<std::string> take_url(std::string_view url, std::string_view detail,
                                                     const std::string& url_path,
                                                     const std::string& detail_path);
  [[nodiscard]] engine::result<std::string> take(std::string_view media_type, std::string_view base64,
                                                 engine::picture_detail detail, const std::string& path);

  [[nodiscard]] engine::result<void> check_kind(bool sound, const std::string& path) const;
  /// The file, of at most `bytes_max`.
  [[nodiscard]] engine::result<std::string> take_file(std::string_view base64, std::uint64_t bytes_max,
                                                      const std::string& path) const;

  engine::media_bounds bounds_;
  bool hears_;
  engine::media_marks marks_;
  std::vector<sent_medium> all_;
};

/// Where a chat's media go; null where none are taken.
[[nodiscard]] std::shared_ptr<sent_media> make_sent_media(const engine::media_input* taken);

/// The text of a message's pieces, of which none is a medium.
[[nodiscard]] std::string join_pieces(const std::vector<content_piece>& pieces);

}  // namespace orcd::net
