// The pictures of a request as it sends them: data: URLs and base64, read and judged by their first bytes. In
// the text of their message each is a mark (engine/conversation/picture_marks.hpp). Pure. Private to net/.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/conversation/picture_marks.hpp"
#include "engine/media/prepare_picture.hpp"
#include "engine/served/picture_input.hpp"

namespace orcd::net {

struct sent_picture {
  std::string file;
  engine::picture_detail detail = engine::picture_detail::automatic;
  std::string path;  ///< of the field that has it, for messages
};

/// A part of a message's content.
struct content_piece {
  std::string text;
  bool picture = false;  ///< the text is a mark
};

class sent_pictures {
 public:
  explicit sent_pictures(const engine::picture_bounds& bounds) : bounds_(bounds) {}

  [[nodiscard]] const std::vector<sent_picture>& all() const noexcept { return all_; }
  [[nodiscard]] const engine::picture_marks& marks() const noexcept { return marks_; }

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
  /// The text of a message of these pieces: texts are joined by line ends, unless there are pictures.
  [[nodiscard]] std::string join(const std::vector<content_piece>& pieces) const;

 private:
  [[nodiscard]] engine::result<std::string> take_url(std::string_view url, std::string_view detail,
                                                     const std::string& url_path,
                                                     const std::string& detail_path);
  [[nodiscard]] engine::result<std::string> take(std::string_view media_type, std::string_view base64,
                                                 engine::picture_detail detail, const std::string& path);

  engine::picture_bounds bounds_;
  engine::picture_marks marks_;
  std::vector<sent_picture> all_;
};

/// Where a chat's pictures go; null where none are taken.
[[nodiscard]] std::shared_ptr<sent_pictures> make_sent_pictures(const engine::picture_input* taken);

/// The text of a message's pieces, of which none is a picture.
[[nodiscard]] std::string join_pieces(const std::vector<content_piece>& pieces);

}  // namespace orcd::net
